"""Tests of the pages and sizes that the benches write."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path


def run_bench(bench: str, *arguments: str) -> str:
    """Run a bench and return its standard output."""
    command = [sys.executable, f"bench/{bench}.py", *arguments]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": "workflow"}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_shipped_page_is_that_of_the_shipped_figures() -> None:
    spec = importlib.util.spec_from_file_location("write_page", "bench/write_page.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    results = json.loads(module.RESULTS.read_text(encoding="utf-8"))
    assert module.PAGE.read_text(encoding="utf-8") == module.page(results)
    assert list(results["benches"]) == list(module.BENCHES)


def test_the_shipped_tables_of_a_full_runs_cost_are_those_of_the_code() -> None:
    pages = [Path(f"docs/{name}.md").read_text(encoding="utf-8") for name in ("cluster", "models")]
    assert run_bench("paper_run", "--print") == "\n".join(pages) + "\n"
    assert [len(re.findall("^<!-- end -->$", page, re.MULTILINE)) for page in pages] == [3, 2]


def test_the_page_of_commands_is_that_of_the_run_files() -> None:
    """Every run file that it names is shipped, and its bill is the estimate's."""
    text = Path("docs/reproduce.md").read_text(encoding="utf-8")
    assert run_bench("reproduce", "--print") == text
    named = set(re.findall(r"config/(\w+)\.yaml\)", text))
    shipped = {path.stem for path in Path("config").glob("*.yaml")}
    assert named == shipped - {"models", "datasets", "pins.lock", "config", "curation", "sample"}


def test_sizes_of_requests_are_those_of_the_data(tmp_path: Path, data: Path) -> None:
    """Reproduce the shipped sizes with bench/request_sizes.py on the same data."""
    out = tmp_path / "sizes.csv"
    run_bench("request_sizes", "--out", str(out))
    assert out.read_text(encoding="utf-8") == Path("resources/sizes.csv").read_text(encoding="utf-8")
