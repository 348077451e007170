"""What the folders of benchmarks plug in, imported by name: `maieutic.benchmarks` says what there may be."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

PACKAGE = "maieutic.benchmarks"


def benchmarks() -> tuple[str, ...]:
    """The benchmarks, in their order."""
    names: tuple[str, ...] = import_module(PACKAGE).BENCHMARKS
    return names


def parts(module: str, name: str) -> dict[str, Any]:
    """What each benchmark plugs in: the object `name` of its module, for those that have such a module.

    These are the only imports by a computed name; `maieutic.plan.digest` follows them by the constants of the call.
    """
    return {
        benchmark: getattr(import_module(f"{PACKAGE}.{benchmark}.{module}"), name)
        for benchmark in benchmarks()
        if find_spec(f"{PACKAGE}.{benchmark}.{module}")
    }


def merged(module: str, name: str) -> dict[str, Any]:
    """The tables that benchmarks plug in, as one. Raises ValueError for a key that two of them have."""
    union: dict[str, Any] = {}
    for benchmark, table in parts(module, name).items():
        if twice := union.keys() & table.keys():
            raise ValueError(f"{benchmark}.{module}.{name}: {', '.join(sorted(twice))} is in another benchmark's too")
        union |= table
    return union
