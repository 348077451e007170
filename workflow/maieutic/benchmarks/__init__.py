"""The benchmarks, and what their folders plug into the generic code.

A benchmark is a folder here and one of its name in `resources/benchmarks`. Of the modules below it has those that it
needs; generic code asks for them by name and names no benchmark itself.

| module, object | what it adds |
| --- | --- |
| loaders, LOADERS | functions from the records of a source file to items, by name |
| graders, GRADERS | parsers of a reply, by name |
| metrics, METRICS | metrics of its own, by name |
| baselines, TUTORS | trivial tutors, by name |
| conditions, CONDITIONS | when a rubric asks about a reply, by name |
| releases, RELEASES | releases of replies that people have labelled, by name |
| pairs, PAIR_SOURCES | sources of preference pairs, by name |
| printed, PRINTED | the numbers that its paper prints |
| section, PAGES | pages of its own in the report |
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

BENCHMARKS = ("mathtutorbench", "mrbench", "kmpbench", "tutorbench")


def parts(module: str, name: str) -> dict[str, Any]:
    """What each benchmark plugs in: the object `name` of its module, for those that have such a module.

    These are the only imports by a computed name; `maieutic.digest` follows them by the constants of the call.
    """
    return {
        benchmark: getattr(import_module(f"{__name__}.{benchmark}.{module}"), name)
        for benchmark in BENCHMARKS
        if find_spec(f"{__name__}.{benchmark}.{module}")
    }


def merged(module: str, name: str) -> dict[str, Any]:
    """The tables that benchmarks plug in, as one. Raises ValueError for a key that two of them have."""
    found: dict[str, Any] = {}
    for benchmark, table in parts(module, name).items():
        if twice := found.keys() & table.keys():
            raise ValueError(f"{benchmark}.{module}.{name}: {', '.join(sorted(twice))} is in another benchmark's too")
        found |= table
    return found
