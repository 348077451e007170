"""Test of the list of equivalent changes, which `make mutants` leaves out."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
import yaml

LISTED = Path("tests/mutants/equivalent.yaml")


def functions_of(module: Path) -> set[str]:
    """Return the qualified names of a module's functions and methods."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    body = ast.parse(module.read_text(encoding="utf-8")).body
    classes = [node for node in body if isinstance(node, ast.ClassDef)]
    methods = {f"{node.name}.{method.name}" for node in classes for method in node.body if isinstance(method, kinds)}
    return {node.name for node in body if isinstance(node, kinds)} | methods


@pytest.mark.own_text
def test_each_equivalent_change_is_one_of_an_existing_function() -> None:
    """Names have mutmut's form: `module.x_function` and `module.xǁClassǁmethod`. Texts start with the old lines."""
    stale = []
    listed = yaml.safe_load(LISTED.read_text(encoding="utf-8"))
    for name, changes in listed.items():
        if name == "everywhere":
            continue
        module, _, function = name.partition(".xǁ" if ".xǁ" in name else ".x_")
        path = Path("workflow", *module.split(".")).with_suffix(".py")
        if not path.is_file() or function.replace("ǁ", ".") not in functions_of(path):
            stale.append(name)
            continue
        text = path.read_text(encoding="utf-8")
        old_lines = [line for change in changes for line in change[1:].partition(" +")[0].split(" -")]
        stale += [f"{name}: {line}" for line in old_lines if line not in text]
    assert len(listed) > 50 and stale == []
