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
