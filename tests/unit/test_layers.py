"""Which module may import which, and what generic code may not name."""

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
from maieutic.plan.syntax import without_docstrings

PACKAGE = Path("workflow/maieutic")
pytestmark = pytest.mark.own_text


def test_the_layers_of_the_documents_are_kept() -> None:
    contract = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"][0]
    layers = [sorted(layer.split(" : ")) for layer in contract["layers"]]
    page = Path("docs/architecture.md").read_text(encoding="utf-8").partition("## Layers")[2].partition("## Words")[0]
    rows = [re.findall(r"`(\w+)`", row.split("|")[1]) for row in page.splitlines() if row.startswith("| `")]
    assert [sorted(row) for row in rows] == layers and len(layers) == 9
    line = [Path(sys.executable).parent / "lint-imports", "--no-cache"]
    done = subprocess.run(line, env={**os.environ, "PYTHONPATH": "workflow"}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_generic_code_names_no_benchmark() -> None:
    """In code: comments and docstrings cite papers, descriptions of keys give examples."""
    named: dict[str, list[str]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        if "benchmarks" in path.parts or path.parent.name == "datasets":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            text = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
            if text in BENCHMARKS:
                named.setdefault(str(path.relative_to(PACKAGE)), []).append(text)
    assert named == {}


def words_in(path: Path) -> str:
    """What a module says besides comments, docstrings and descriptions: its names, and the strings that it uses."""
    tree = without_docstrings(ast.parse(path.read_text(encoding="utf-8")))
    return ast.dump(tree).casefold()


OF_EXTENSIONS = "(?<!ac)curat|tuning|tuned"  # "accurate" is a word of verdicts


@pytest.mark.slow
def test_an_extension_is_a_folder_with_its_keys_and_its_rules() -> None:
    """Curation and fine-tuning: beside files of their own at most five others know of them."""
    own = {"config/curation.py", "../rules/curation.smk", "../rules/tuning.smk"}
    modules = [path for path in sorted(PACKAGE.rglob("*.py")) if path.relative_to(PACKAGE).parts[0] != "curation"]
    # In KMP-Bench's folder "curated" is the paper's word for a set of problems.
    modules = [path for path in modules if "kmpbench" not in path.parts]
    others = {str(path.relative_to(PACKAGE)) for path in modules if re.search(OF_EXTENSIONS, words_in(path))}
    rules = [PACKAGE / "../Snakefile", *sorted(PACKAGE.parent.glob("rules/*.smk"))]
    for path in rules:
        code = re.sub(r"#.*|\"\"\".*?\"\"\"", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
        if re.search(OF_EXTENSIONS, code.casefold()):
            others.add(os.path.relpath(path, PACKAGE))
    assert others - own == {
        "extensions.py", "config/settings.py", "config/models.py", "config/datasets.py", "../Snakefile",
    }  # fmt: skip
