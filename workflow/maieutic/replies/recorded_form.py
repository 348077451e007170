"""Formats of files in which a benchmark's authors release the replies of one or several tutors to its items."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from maieutic.core.records import Item

RecordedRecord = Mapping[str, Any]


class RecordedForm(NamedTuple):
    """Format of a benchmark's files of recorded replies.

    task_of: returns the task of a file, given its path; tutors: returns the replies in a record by tutor; item: returns
    a record's item, with the variables for its prompt; several: True if a file contains the replies of several tutors.
    """

    benchmark: str
    task_of: Callable[[Path], str]
    tutors: Callable[[RecordedRecord], Mapping[str, str]]
    item: Callable[[RecordedRecord], Item]
    several: bool = True
