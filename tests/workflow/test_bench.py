"""Tests of the benches with small inputs. tests/faults covers reward scoring and vLLM, tests/slurm SLURM."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

TRIVIAL_RUN = {"tutors": ["echo"], "tasks": ["mathtutorbench/problem_solving"], "judges": [], "classifiers": []}
SMALL_ARGUMENTS = {
    "demo": ["--run", json.dumps({**TRIVIAL_RUN, "reward_models": [], "reward_comparisons": []})],
    "dry_run": ["--models", "2"],
    "driver_overhead": ["--requests", "60", "--many", "120"],
    "cheap_jobs": ["--tasks", "mathtutorbench/problem_solving"],
    "peers": ["--requests", "20"],
    "label_sampling": ["--runs", "20", "--labels", "60"],
    "report_scale": ["--tutors", "2", "--items", "30", "--tasks", "mathtutorbench/problem_solving"],
}


def run_bench(bench: str, *arguments: str) -> str:
    """Run a bench and return its standard output."""
    command = [sys.executable, f"bench/{bench}.py", *arguments]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": "workflow"}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("bench", SMALL_ARGUMENTS)
def test_a_bench_runs_in_small(bench: str) -> None:
    figures = json.loads(run_bench(bench, *SMALL_ARGUMENTS[bench]))
    assert len(figures) >= 3 and all(value > 0 for value in figures.values())


def test_the_page_of_figures_is_written_from_what_the_benches_print(tmp_path: Path) -> None:
    results, page = tmp_path / "results.json", tmp_path / "performance.md"
    small = json.dumps({"dry_run": ["--models", "2"], "driver_overhead": ["--nonsense"]})
    out = run_bench(
        "write_page", "dry_run", "driver_overhead", "--results", str(results), "--page", str(page), "--small", small
    )
    figures = json.loads(results.read_text(encoding="utf-8"))["benches"]
    written = page.read_text(encoding="utf-8")
    assert f"| 2 models: jobs | {figures['dry_run']['2 models: jobs']} |" in written
    assert "Not measured here: " in written and "--nonsense" in written
    assert "over their limit: none" in out
    again = {"driver_overhead": SMALL_ARGUMENTS["driver_overhead"]}
    options = ["--again", "--results", str(results), "--page", str(page), "--small", json.dumps(again)]
    run_bench("write_page", "driver_overhead", *options)
    later = json.loads(results.read_text(encoding="utf-8"))
    assert later["benches"]["dry_run"] == figures["dry_run"] and list(later["benches"]) == list(figures)
    assert page.read_text(encoding="utf-8").count("Measured again in a separate call: ") == 1
    assert "Not measured here" not in page.read_text(encoding="utf-8")


def test_the_shipped_page_is_that_of_the_shipped_figures() -> None:
    spec = importlib.util.spec_from_file_location("write_page", "bench/write_page.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    results = json.loads(module.RESULTS.read_text(encoding="utf-8"))
    assert module.PAGE.read_text(encoding="utf-8") == module.page(results)
    assert list(results["benches"]) == list(module.BENCHES)


def test_the_shipped_page_of_scale_is_that_of_the_code() -> None:
    assert run_bench("paper_run", "--print") == Path("docs/scale.md").read_text(encoding="utf-8") + "\n"


def test_the_page_of_commands_is_that_of_the_run_files() -> None:
    """Every run file that it names is shipped, and its bill is the estimate's."""
    text = Path("docs/reproduce.md").read_text(encoding="utf-8")
    assert run_bench("reproduce", "--print") == text
    named = set(re.findall(r"config/(\w+)\.yaml\)", text))
    shipped = {path.stem for path in Path("config").glob("*.yaml")}
    assert named == shipped - {"models", "datasets", "pins.lock", "demo", "curation", "sample"}


def test_sizes_of_requests_are_those_of_the_data(tmp_path: Path, data: Path) -> None:
    """Reproduce the shipped sizes with bench/request_sizes.py on the same data."""
    out = tmp_path / "sizes.csv"
    run_bench("request_sizes", "--out", str(out))
    assert out.read_text(encoding="utf-8") == Path("resources/sizes.csv").read_text(encoding="utf-8")


def test_colours_of_lights_are_simulated() -> None:
    """Run bench/lights.py with one grader per cell, and check that each cell has four percentages."""
    lines = run_bench("lights", "1").splitlines()
    cells = [cell for line in lines for cell in re.findall(r"\d+: (\d+)/(\d+)/(\d+)/(\d+)", line)]
    assert len(cells) == 3 * 6 * 7 and all(sum(map(int, cell)) == 100 for cell in cells)
