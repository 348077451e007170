"""Tests of the installed package: what the wheel depends on, and what it contains."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
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


def test_the_wheel_contains_what_git_knows_of_the_workflow(hooks: Any, tmp_path: Path) -> None:
    for name in ("Snakefile", "workflow/a.py", "config/config.yaml", "config/mine.yaml", "docs/a.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x", encoding="utf-8")
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@example.org"]

    def included() -> set[str]:
        hook, data = hooks.WorkflowFiles(), {"force_include": {}}
        hook.root = str(tmp_path)
        hook.initialize("standard", data)
        return {*data["force_include"].values()} - {"snakemake_logger_plugin_maieutic"}

    assert included() == {
        f"maieutic_workflow/{name}" for name in ("Snakefile", "workflow/a.py", "config/config.yaml", "config/mine.yaml")
    }
    for words in (
        ["init", "-q"],
        ["add", "Snakefile", "workflow", "config/config.yaml", "docs"],
        ["commit", "-qm", "all"],
    ):
        subprocess.run([*git, *words], check=True, capture_output=True)
    tracked = {f"maieutic_workflow/{name}" for name in ("Snakefile", "workflow/a.py", "config/config.yaml")}
    assert included() == tracked, "no run file of the user, and no commit beside a change"
    (tmp_path / "config/mine.yaml").unlink()
    assert included() == {*tracked, "maieutic_workflow/COMMIT"}
    assert all((ROOT / name).exists() for name in hooks.INCLUDED)
    assert (ROOT / "workflow/plugin/snakemake_logger_plugin_maieutic/__init__.py").is_file(), "installed by itself too"
