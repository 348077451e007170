"""Registries and run files: how they are merged, and checks of files that Snakemake's own YAML reader would accept.

The shipped registries are in `resources/registries`. A working folder may have registries of its own in `config`, whose
entries replace shipped entries of the same name.

Snakemake's reader resolves Python names, expands aliases without limit, keeps the last value of a repeated key without
a warning, and can evaluate expressions in a file. Run files have already been read when the rules are loaded, so an
unsafe run file is refused before its settings are used.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from maieutic.core.errors import UserError, check_all
from maieutic.core.paths import RESOURCES
from maieutic.core.yaml_files import read_yaml
from maieutic.launch.snakemake_compat import Workflow, read_config_files

NAMES = ("models.yaml", "datasets.yaml")
SHIPPED_REGISTRIES = tuple(RESOURCES / "registries" / name for name in NAMES)
OWN_REGISTRIES = tuple(Path("config") / name for name in NAMES)


def check_config_files(workflow: Workflow) -> None:
    """Raise UserError unless all registries of the working folder and all run files can be read safely."""
    registries = [path for path in OWN_REGISTRIES if path.is_file()]
    check_all(partial(read_yaml, path) for path in dict.fromkeys([*registries, *read_config_files(workflow)]))


def read_mapping(path: Path) -> dict[str, Any]:
    """Return the content of a registry or run file. Raises UserError if it has no keys at the top level."""
    content = read_yaml(path, "correct the path or the file")
    if not isinstance(content, dict | None):
        kind = "list" if isinstance(content, list) else type(content).__name__
        raise UserError(str(path), f"expected keys at the top level, found a {kind}", "write `run:` and its keys")
    return content or {}


def registries() -> dict[str, Any]:
    """Return the entries of all registries: the shipped ones, and those of the working folder, which come first."""
    merged: dict[str, Any] = {}
    if SHIPPED_REGISTRIES and not SHIPPED_REGISTRIES[0].is_file():
        problem = "this folder has resources/benchmarks, but not the registries of a checkout"
        raise UserError(str(Path.cwd()), problem, "start from a checkout, or from a folder without `resources`")
    for path in (*SHIPPED_REGISTRIES, *filter(Path.is_file, OWN_REGISTRIES)):
        for kind, entries in read_mapping(path).items():
            if isinstance(entries, dict):
                merged[kind] = {**merged.get(kind, {}), **entries}
            elif entries is not None:
                problem = f"{kind}: expected entries by name, found a {type(entries).__name__}"
                raise UserError(str(path), problem, "write `NAME:` and its keys")
    return merged


def add_registries(config: dict[str, Any]) -> None:
    """Add the entries of the registries to a configuration, whose own values are kept."""
    from snakemake.utils import update_config

    update_config(merged := registries(), config)
    config.update(merged)


def merged_configuration(files: Sequence[Path]) -> dict[str, Any]:
    """Return the configuration that Snakemake builds from the registries and some run files."""
    from snakemake.utils import update_config

    raw = registries()
    for path in files:
        update_config(raw, read_mapping(path))
    return raw


def own_entry_lines() -> Iterator[str]:
    """Yield a line for each registry of the working folder that replaces or adds entries, with their names."""
    for shipped, path in zip(SHIPPED_REGISTRIES, OWN_REGISTRIES, strict=True):
        known = read_mapping(shipped) if path.is_file() else {}
        entries = {
            (kind, name): entry
            for kind, content in (read_mapping(path) if path.is_file() else {}).items()
            if isinstance(content, dict)
            for name, entry in content.items()
        }
        for word, is_known in (("replaces", True), ("adds", False)):
            names = [
                f"{kind}.{name}"
                for (kind, name), entry in entries.items()
                if (name in known.get(kind, {})) == is_known and entry != known.get(kind, {}).get(name)
            ]
            if names:
                yield f"{path} {word} {', '.join(names)}"
