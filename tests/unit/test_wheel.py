"""Tests of the installed package: what the wheel depends on, and what it contains."""

from __future__ import annotations

import importlib.util
import re
import sys
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from conftest import ROOT

INTERFACES = {
    "hatchling.builders.hooks.plugin.interface": "BuildHookInterface",
    "hatchling.metadata.plugin.interface": "MetadataHookInterface",
}  # of the build's own environment


@pytest.fixture
def hooks(monkeypatch: pytest.MonkeyPatch) -> Any:
    for name, interface in INTERFACES.items():
        module = ModuleType(name)
        setattr(module, interface, object)
        monkeypatch.setitem(sys.modules, name, module)
    spec = importlib.util.spec_from_file_location("wheel_hooks", ROOT / "envs/wheel.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_wheel_depends_on_the_locks_versions_of_direct_requirements(hooks: Any) -> None:
    requirements = hooks.locked_requirements(ROOT)
    lines = (ROOT / "envs/driver.in").read_text(encoding="utf-8").splitlines()
    names = [re.split(r"[<>=~! ]", line)[0] for line in lines if line.strip() and not line.startswith("#")]
    assert [requirement.partition("==")[0] for requirement in requirements] == names
    lock = (ROOT / "envs/driver.txt").read_text(encoding="utf-8")
    assert all(f"\n{requirement} " in f"\n{lock}".casefold() for requirement in map(str.casefold, requirements))


def test_the_wheel_contains_all_that_a_run_reads() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    included = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    assert included == {name: f"maieutic_workflow/{name}" for name in included}
    assert {"Snakefile", "workflow", "resources", "config", "profiles", "envs", "containers"} == {*included}
    assert all((ROOT / name).exists() for name in included)
    start = Path(ROOT / "envs/maieutic_start.py").read_text(encoding="utf-8")
    assert '"maieutic_workflow/workflow"' in start
