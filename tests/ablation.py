"""Ablation of the regular expressions with which replies are read: which of them change the reading of no example?

Each pattern is replaced by one that never matches, and the examples in which it matched are read again. A pattern that
changes none is needless or lacks its example.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from importlib import import_module
from types import ModuleType, TracebackType
from typing import Any

# Modules of maieutic.graders whose patterns read numbers, steps and verdicts.
MODULES = (
    "lexicon", "number_words", "numerals", "reading", "solution_numbers", "polarity", "passages", "verdict_text", "turns",
    "evidence", "answers", "steps", "yes_no",
)  # fmt: skip


class Watched:
    """Pattern that records whether it matched. It never matches while `active` is `off`."""

    def __init__(self, pattern: re.Pattern[str]) -> None:
        self.on = self.active = pattern
        self.matched = False
        names = {number: name for name, number in pattern.groupindex.items()}
        groups = (f"(?P<{names[number]}>)" if number in names else "()" for number in range(1, pattern.groups + 1))
        self.off = re.compile("(?!)" + "".join(groups))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.active, name)

    def noted(self, match: re.Match[str] | None) -> re.Match[str] | None:
        self.matched |= match is not None
        return match

    def search(self, *arguments: Any) -> re.Match[str] | None:
        return self.noted(self.active.search(*arguments))

    def match(self, *arguments: Any) -> re.Match[str] | None:
        return self.noted(self.active.match(*arguments))

    def fullmatch(self, *arguments: Any) -> re.Match[str] | None:
        return self.noted(self.active.fullmatch(*arguments))

    def finditer(self, *arguments: Any) -> Iterator[re.Match[str] | None]:
        return map(self.noted, self.active.finditer(*arguments))

    def findall(self, *arguments: Any) -> list[Any]:
        matches = self.active.findall(*arguments)
        self.matched |= bool(matches)
        return matches

    def split(self, *arguments: Any, **options: Any) -> list[Any]:
        parts = self.active.split(*arguments, **options)
        self.matched |= len(parts) > 1
        return parts

    def sub(self, *arguments: Any, **options: Any) -> str:
        text, count = self.active.subn(*arguments, **options)
        self.matched |= count > 0
        return text


class Ablation:
    """Context in which the patterns of MODULES are watched.

    names: each pattern by the variable that holds it first, such as "steps.LABEL" or "answers.MARKERS[2]"."""

    def __init__(self) -> None:
        self.modules = [import_module(f"maieutic.graders.{name}") for name in MODULES]
        self.watched: dict[int, Watched] = {}
        self.names: dict[str, Watched] = {}
        self.replaced: list[tuple[ModuleType, str, object]] = []

    def __enter__(self) -> Ablation:
        for module in self.modules:
            for name, value in list(vars(module).items()):
                watched = self.watch(value, f"{module.__name__.rpartition('.')[2]}.{name}")
                if watched is not value:
                    self.replaced.append((module, name, value))
                    setattr(module, name, watched)
        self.caches = {
            function
            for module in self.modules
            for function in vars(module).values()
            if hasattr(function, "cache_clear")
        }
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for module, name, value in self.replaced:
            setattr(module, name, value)
        self.clear_caches()

    def clear_caches(self) -> None:
        for function in self.caches:
            function.cache_clear()

    def watch(self, value: Any, name: str) -> Any:
        """Return a value with its patterns watched: a pattern, or a tuple of patterns and others."""
        if isinstance(value, re.Pattern):
            if id(value) not in self.watched:
                self.watched[id(value)] = self.names[name] = Watched(value)
            return self.watched[id(value)]
        if type(value) is tuple:
            elements = tuple(self.watch(element, f"{name}[{place}]") for place, element in enumerate(value))
            return elements if any(new is not old for new, old in zip(elements, value, strict=True)) else value
        return value

    def without_effect(self, examples: Iterable[Callable[[], object]], exempt: Collection[str]) -> list[str]:
        """Return the names of the patterns that change the reading of no example, without the exempt ones.

        examples: functions that read one example each. They are read until every pattern has changed one.
        """
        undecided = {name: watched for name, watched in self.names.items() if name not in exempt}
        for read in examples:
            if not undecided:
                break
            self.clear_caches()
            for watched in undecided.values():
                watched.matched = False
            whole = read()
            for name in [name for name, watched in undecided.items() if watched.matched]:
                watched = undecided[name]
                watched.active = watched.off
                self.clear_caches()
                if outcome(read) != whole:
                    del undecided[name]
                watched.active = watched.on
        return list(undecided)


def outcome(read: Callable[[], object]) -> object:
    """Return what a function reads. An exception is an outcome, because an assertion or index may rely on a pattern."""
    try:
        return read()
    except Exception as error:
        return type(error)
