"""Files under `results/` that belong to one benchmark, dataset or simulation, by the paths of rules and code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from maieutic.core import paths
from maieutic.core.paths import Pattern
from maieutic.simulation import paths as simulation_paths

RULES = Path(__file__).resolve().parents[2] / "rules"
RULE_PATH = re.compile(r'"(results/[^"*]*\{[^"*]*)"')
WILDCARD = re.compile(r"\{(\w+)\}")


class Owned(NamedTuple):
    """Files and folders of one name. shared: those that may as well belong to something else of the same name."""

    own: list[Path]
    shared: list[Path]


@cache
def all_patterns() -> tuple[tuple[str, ...], ...]:
    """Return the components of every path with wildcards that a rule or the package uses."""
    known = [value for module in (paths, simulation_paths) for value in vars(module).values()]
    patterns = {str(value) for value in known if isinstance(value, Pattern) and "{" in value}
    for file in sorted(RULES.glob("*.smk")):
        patterns |= set(RULE_PATH.findall(file.read_text(encoding="utf-8")))
    return tuple(sorted(tuple(pattern.split("/")) for pattern in patterns))


@cache
def reserved_names() -> frozenset[str]:
    """Return the names of folders under `results/` that no benchmark, dataset or run may have."""
    parts = {part for pattern in all_patterns() for part in pattern if not WILDCARD.search(part)}
    return frozenset(parts | {Path(part).stem for part in parts})


def component_regex(component: str) -> re.Pattern[str]:
    """Return the regular expression for one component of a pattern."""
    return re.compile("".join(".+" if part == 1 else re.escape(text) for text, part in split_wildcards(component)))


def split_wildcards(component: str) -> Iterator[tuple[str, int]]:
    """Yield the parts of a component: (text, 0), or (name, 1) for a wildcard."""
    for number, text in enumerate(WILDCARD.split(component)):
        if text:
            yield text, number % 2


def matches(pattern: tuple[str, ...], parts: tuple[str, ...]) -> bool:
    """Return True if the first components of a pattern can be those of a path."""
    return len(pattern) >= len(parts) and all(
        component_regex(component).fullmatch(part) for component, part in zip(pattern, parts, strict=False)
    )


def owned_files(wildcard: str, name: str, kept: frozenset[str]) -> Owned:
    """Return the files and folders of a benchmark, dataset or simulation in the current folder's results.

    A folder belongs to it if its name stands in the place of the wildcard, and if nothing else has a path there. Files
    in a folder that something else of the same name may use are listed as shared unless no other path is like theirs.

    wildcard: kind of the name in paths, such as `benchmark`; kept: folders of results that are left out.
    """
    own_paths, shared = set[Path](), set[Path]()
    mark = f"{{{wildcard}}}"
    for pattern in all_patterns():
        place = next((number for number, part in enumerate(pattern) if mark in part), None)
        if place is None or pattern[1] in kept:
            continue
        parts = tuple(part.replace(mark, name) for part in pattern[: place + 1])
        if Path(parts[-1]).suffix == ".jsonl":
            parts = (*parts[:-1], f"{Path(parts[-1]).stem}.*")  # with the ledger and the batches of a journal
        for path in Path(paths.ROOT).glob("/".join(WILDCARD.sub("*", part) for part in parts[1:])):
            others = [other for other in all_patterns() if matches(other, path.parts) and mark not in other[place]]
            if not others:
                own_paths.add(path)
                continue
            for file in path.rglob("*") if path.is_dir() else [path]:
                if file.is_file():
                    alike = [other for other in others if len(other) == len(file.parts) and matches(other, file.parts)]
                    is_own = matches(pattern, file.parts) and len(pattern) == len(file.parts) and not alike
                    (own_paths if is_own else shared).add(file)
    outer = {path for path in own_paths if not any(parent in own_paths for parent in path.parents)}
    return Owned(sorted(outer), sorted(shared - own_paths))
