"""Tests of the installed package: what the wheel depends on, and what it contains."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import zipfile
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


def test_a_built_wheel_starts_by_itself(tmp_path: Path) -> None:
    """Build the wheel, unpack it, and run its command without this checkout on Python's path."""
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path / "dist")]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    [wheel] = (tmp_path / "dist").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "installed")
    [entry_points] = (tmp_path / "installed").glob("*.dist-info/entry_points.txt")
    assert "maieutic = maieutic_start:main" in entry_points.read_text(encoding="utf-8")
    start = "import sys; from maieutic_start import main; sys.argv = ['maieutic', 'run', '--help']; sys.exit(main())"
    env = {**os.environ, "PYTHONPATH": str(tmp_path / "installed")}
    done = subprocess.run([sys.executable, "-c", start], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == 0 and "run file" in done.stdout, done.stderr
    assert (tmp_path / "installed/snakemake_logger_plugin_maieutic/__init__.py").is_file()
