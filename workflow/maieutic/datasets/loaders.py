"""Type of the loaders, which turn the records of a source file into items."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from maieutic.config.datasets import SourceRecord
from maieutic.core.records import Item


class Loader(NamedTuple):
    """A function that turns source records into items of a task, and a description of these items.

    variables: names of the items' prompt variables; has_solution: True if the items' references have a `solution`,
    which a judge's prompt may use as `reference_solution`; has_human_reply: True if the items have a human reply;
    scripted: True if the items have scripts, which a rubric of kind `turns` shows as `conversation`.
    """

    load: Callable[[list[SourceRecord], str], list[Item]]
    variables: set[str]
    has_solution: bool = False
    has_human_reply: bool = True
    scripted: bool = False

    @property
    def judge_variables(self) -> set[str]:
        """Names of the variables that a judge's prompt may use besides the reply."""
        solution = {"reference_solution"} if self.has_solution else set()
        return self.variables | solution | ({"conversation"} if self.scripted else set())
