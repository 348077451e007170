"""Tests of the package's structure: imports between layers, and generic code that names no benchmark or feature."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from maieutic.benchmarks import BENCHMARKS
from maieutic.plan.digest import command_functions
from run_configs import STAGES, rule_bodies

PACKAGE = Path("workflow/maieutic")
pytestmark = pytest.mark.own_text


def test_the_layers_of_the_documents_are_kept() -> None:
    contract = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"][0]
    layers = [sorted(layer.split(" : ")) for layer in contract["layers"]]
    page = Path("CONTRIBUTING.md").read_text(encoding="utf-8").partition("## Layers")[2].partition("## House")[0]
    rows = [re.findall(r"`(\w+)`", row.split("|")[1]) for row in page.splitlines() if row.startswith("| `")]
    assert [sorted(row) for row in rows] == layers and len(layers) == 9
    line = [Path(sys.executable).parent / "lint-imports", "--no-cache"]
    done = subprocess.run(line, env={**os.environ, "PYTHONPATH": "workflow"}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_generic_code_names_no_benchmark() -> None:
    """Check string constants only, because comments, docstrings and descriptions of keys may give examples."""
    benchmark_names: dict[str, list[str]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        if "benchmarks" in path.parts or path.parent.name == "datasets":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            text = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
            if text in BENCHMARKS:
                benchmark_names.setdefault(str(path.relative_to(PACKAGE)), []).append(text)
    assert benchmark_names == {}


RULE_BODIES = rule_bodies()


@pytest.mark.parametrize("rule", RULE_BODIES)
def test_the_command_job_and_inputs_of_a_rule_are_in_one_folder(rule: str) -> None:
    """Inputs that other stages select too are in `plan`, or in the folder of the stage that makes these files."""
    path, body = RULE_BODIES[rule]
    commands = re.findall(r'command\(\s*"([\w-]+)"', body)
    folders = {command_functions()[name].module.partition(".")[0] for name in commands}
    for command, job in re.findall(r'job\("(\w+)"(?:, "(\w+)")?\)', body):
        folders |= {module.__name__.split(".")[1] for module in STAGES if hasattr(module, f"{job or command}_job")}
    assert len(folders) <= 1, folders
    layers = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"][0][
        "layers"
    ]
    height = {name: number for number, layer in enumerate(layers) for name in layer.split(" : ")}
    aliases = dict(
        re.findall(r"^from maieutic\.(\w+)\S* import stage as (\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    )
    named = {alias: folder for folder, alias in aliases.items()} | {"inputs": "plan"}
    for alias in re.findall(r"plan\.select\(\s*(\w+)\.", body):
        assert all(height[named[alias]] >= height[folder] for folder in folders), alias
