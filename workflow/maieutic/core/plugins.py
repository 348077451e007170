"""Plug-in folders of benchmarks and features, imported by name.

`maieutic.benchmarks` and `maieutic.features` document the modules that a folder may contain.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

PACKAGE = "maieutic"


def benchmark_names() -> tuple[str, ...]:
    """Return the names of the benchmarks in their declared order."""
    names: tuple[str, ...] = import_module(f"{PACKAGE}.benchmarks").BENCHMARKS
    return names


def plugin_packages() -> dict[str, str]:
    """Map the name of each benchmark and feature to its plug-in package."""
    features: tuple[str, ...] = import_module(f"{PACKAGE}.features").FEATURES
    packages = {name: f"{PACKAGE}.benchmarks.{name}" for name in benchmark_names()}
    return packages | {name: f"{PACKAGE}.{name}" for name in features}


def plugin_folders() -> list[str]:
    """Return the plug-in folders, relative to the package's folder."""
    return [package.removeprefix(f"{PACKAGE}.").replace(".", "/") for package in plugin_packages().values()]


def plugin_objects(module: str, name: str) -> dict[str, Any]:
    """Return the object `name` of each plug-in folder's `module`, for the folders that have this module.

    Apart from the lookup of a command's function, only this function imports modules by a computed name.
    `maieutic.plan.digest` finds those modules by the string constants in calls to this function.
    """
    return {
        owner: getattr(import_module(f"{package}.{module}"), name)
        for owner, package in plugin_packages().items()
        if find_spec(f"{package}.{module}")
    }


def merged_plugin_tables(module: str, name: str) -> dict[str, Any]:
    """Return the union of all plug-in folders' tables `name` of `module`. Raises ValueError for a repeated key."""
    union: dict[str, Any] = {}
    for owner, table in plugin_objects(module, name).items():
        if repeated := union.keys() & table.keys():
            raise ValueError(f"{owner}.{module}.{name}: another folder also defines {', '.join(sorted(repeated))}")
        union |= table
    return union
