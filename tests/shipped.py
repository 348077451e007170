"""The shipped configuration."""

from __future__ import annotations

import copy
from functools import cache
from typing import Any

from conftest import ROOT
from maieutic.core.yaml_files import read_yaml
from snakemake.utils import update_config


@cache
def read(name: str) -> dict[str, Any]:
    """Return the content of a registry or of a file of `config`, read once for all tests."""
    folder = "resources/registries" if name in ("models", "datasets") else "config"
    return read_yaml(ROOT / f"{folder}/{name}.yaml")


def registries() -> dict[str, Any]:
    """Return the registries of models, data sets and human labels. The caller may change them."""
    merged = copy.deepcopy(read("models"))
    update_config(merged, copy.deepcopy(read("datasets")))
    return merged


def shipped(*names: str) -> dict[str, Any]:
    """Return the registries merged with run files (default: the demo). The caller may change the result."""
    merged = registries()
    for name in names or ("config",):
        update_config(merged, copy.deepcopy(read(name)))  # mappings are merged, as by --configfile
    return merged
