"""Files of replies in a benchmark's own format, as its authors release them: several tutors' replies to its items."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from maieutic.core.records import Item

Source = Mapping[str, Any]


class RecordedForm(NamedTuple):
    """A format. tutors: of one record, what each tutor replied; item: the item that a record is, by its variables.

    task_of: the task that a file is about; several: whether a file has the replies of several tutors.
    """

    benchmark: str
    task_of: Callable[[Path], str]
    tutors: Callable[[Source], Mapping[str, str]]
    item: Callable[[Source], Item]
    several: bool = True
