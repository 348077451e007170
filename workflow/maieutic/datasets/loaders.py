"""What a loader is: the way from source records to items."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from maieutic.config.datasets import Source
from maieutic.core.records import Item


class Loader(NamedTuple):
    """A function from source records and a task's name to items, and the prompt variables that it gives.

    solved: its items' references have a `solution`, which a judge's prompt may use as
    `reference_solution`; replied: they have a person's reply.
    """

    load: Callable[[list[Source], str], list[Item]]
    variables: set[str]
    solved: bool = False
    replied: bool = True

    @property
    def judged(self) -> set[str]:
        """The variables that a judge's prompt may use besides the reply."""
        return {*self.variables, *({"reference_solution"} if self.solved else ())}
