"""Type of the file formats in which the authors of benchmarks release tutors' replies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from maieutic.core.records import Item

RecordedRecord = Mapping[str, Any]


class RecordedForm(NamedTuple):
    """Format of a benchmark's files of recorded replies.

    task_of: function that returns the task of a file, given its path; tutors: function that maps each tutor in a record
    to its reply; item: function that returns a record's item, with the variables for its prompt; several: True if a
    file contains the replies of several tutors.
    """

    benchmark: str
    task_of: Callable[[Path], str]
    tutors: Callable[[RecordedRecord], Mapping[str, str]]
    item: Callable[[RecordedRecord], Item]
    several: bool = True
