"""What folders plug into the generic code, imported by name: those of benchmarks and of extensions.

`maieutic.benchmarks` and `maieutic.extensions` say what there may be.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

PACKAGE = "maieutic"


def benchmarks() -> tuple[str, ...]:
    """The benchmarks, in their order."""
    names: tuple[str, ...] = import_module(f"{PACKAGE}.benchmarks").BENCHMARKS
    return names


def folders() -> dict[str, str]:
    """The packages that plug in, by the name of the benchmark or extension."""
    extensions: tuple[str, ...] = import_module(f"{PACKAGE}.extensions").EXTENSIONS
    own = {name: f"{PACKAGE}.benchmarks.{name}" for name in benchmarks()}
    return own | {name: f"{PACKAGE}.{name}" for name in extensions}


def places() -> list[str]:
    """The folders that plug in, relative to the package's own."""
    return [package.removeprefix(f"{PACKAGE}.").replace(".", "/") for package in folders().values()]


def parts(module: str, name: str) -> dict[str, Any]:
    """What each folder plugs in: the object `name` of its module, for those that have such a module.

    These are the only imports by a computed name but for that of a command's function; `maieutic.plan.digest` follows
    them by the constants of the call.
    """
    return {
        owner: getattr(import_module(f"{package}.{module}"), name)
        for owner, package in folders().items()
        if find_spec(f"{package}.{module}")
    }


def merged(module: str, name: str) -> dict[str, Any]:
    """The tables that folders plug in, as one. Raises ValueError for a key that two of them have."""
    union: dict[str, Any] = {}
    for owner, table in parts(module, name).items():
        if twice := union.keys() & table.keys():
            raise ValueError(f"{owner}.{module}.{name}: {', '.join(sorted(twice))} is in another folder's too")
        union |= table
    return union
