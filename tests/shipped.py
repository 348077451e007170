"""The configuration as it is shipped."""

from __future__ import annotations

import copy
from functools import cache
from typing import Any

from conftest import ROOT
from maieutic.core.documents import read_yaml
from snakemake.utils import update_config


@cache
def read(name: str) -> dict[str, Any]:
    """A file of `config`, read once for all tests."""
    return read_yaml(ROOT / f"config/{name}.yaml")


def registries() -> dict[str, Any]:
    """Every model, dataset and set of people's words that exists. The caller may change it."""
    return copy.deepcopy(read("models") | read("datasets"))


def shipped(*names: str) -> dict[str, Any]:
    """The registries with some run files; without names, with the demo. The caller may change it."""
    merged = registries()
    for name in names or ("demo",):
        update_config(merged, copy.deepcopy(read(name)))  # mappings are merged, as by --configfile
    return merged
