"""Access to the plug-in folders of benchmarks and features, which are imported by name.

`maieutic.benchmarks` and `maieutic.features` document the modules that a folder may contain.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from maieutic.core.extensions import benchmarks_with_code, code_folders

PACKAGE = "maieutic"


def benchmark_names() -> tuple[str, ...]:
    """Return the names of the benchmarks: the shipped ones in their declared order, then those of extensions."""
    package = import_module(f"{PACKAGE}.benchmarks")
    for folder in code_folders():
        if str(folder) not in package.__path__:
            package.__path__.append(str(folder))
    return (*package.BENCHMARKS, *(name for name in benchmarks_with_code() if name not in package.BENCHMARKS))


def plugin_packages() -> dict[str, str]:
    """Map the name of each benchmark and feature to its plug-in package."""
    features: tuple[str, ...] = import_module(f"{PACKAGE}.features").FEATURES
    packages = {name: f"{PACKAGE}.benchmarks.{name}" for name in benchmark_names()}
    return packages | {name: f"{PACKAGE}.{name}" for name in features}


def plugin_folders() -> list[Path]:
    """Return the folders of all plug-in packages."""
    specs = [find_spec(package) for package in plugin_packages().values()]
    return [Path(spec.origin).parent for spec in specs if spec is not None and spec.origin is not None]


def plugin_objects(module: str, name: str) -> dict[str, Any]:
    """Import `module` from each plug-in folder that has it, and return the module's object `name` by plug-in.

    Apart from `stage_objects`, `command_tables` and the lookup of a command's function, only this function imports
    modules by a computed name.
    `maieutic.plan.digest` finds the imported modules by the string constants in calls to this function.
    """
    return {
        owner: getattr(import_module(f"{package}.{module}"), name)
        for owner, package in plugin_packages().items()
        if find_spec(f"{package}.{module}")
    }


def stage_objects(module: str, name: str) -> list[Any]:
    """Import `module` from the folder of each stage, in the order of the data, and return its objects `name`."""
    stages: tuple[str, ...] = import_module(f"{PACKAGE}.features").STAGES
    return [getattr(import_module(f"{PACKAGE}.{stage}.{module}"), name) for stage in stages]


def command_tables() -> list[dict[str, tuple[str, ...]]]:
    """Return the table COMMANDS of each stage's folder, and of each plug-in folder that has one."""
    stages: tuple[str, ...] = import_module(f"{PACKAGE}.features").STAGES
    packages = (*(f"{PACKAGE}.{stage}" for stage in stages), *plugin_packages().values())
    return [getattr(import_module(package), "COMMANDS", {}) for package in packages]


def merged_plugin_tables(module: str, name: str) -> dict[str, Any]:
    """Return the union of the tables `name` in the `module` of each plug-in folder.

    Raises ValueError if two tables have the same key.
    """
    union: dict[str, Any] = {}
    for owner, table in plugin_objects(module, name).items():
        if repeated := union.keys() & table.keys():
            raise ValueError(f"{owner}.{module}.{name}: another folder also defines {', '.join(sorted(repeated))}")
        union |= table
    return union
