"""Each bench runs, in small: one that nobody runs rots. (Of reward scoring and vLLM: tests/faults; of SLURM: make test-slurm.)"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ALONE = {"tutors": ["echo"], "tasks": ["mathtutorbench/problem_solving"], "judges": [], "classifiers": []}
SMALL = {
    "demo": ["--run", json.dumps({**ALONE, "reward_models": [], "reward_comparisons": []})],
    "dry_run": ["--models", "2"],
    "driver_overhead": ["--requests", "60", "--many", "120"],
    "cheap_jobs": ["--tasks", "mathtutorbench/problem_solving"],
    "peers": ["--requests", "20"],
    "label_sampling": ["--runs", "20", "--labels", "60"],
    "report_scale": ["--tutors", "2", "--items", "30", "--tasks", "mathtutorbench/problem_solving"],
}


def ran(bench: str, *arguments: str) -> str:
    """What a bench prints."""
    line = [sys.executable, f"bench/{bench}.py", *arguments]
    done = subprocess.run(line, env={**os.environ, "PYTHONPATH": "workflow"}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("bench", SMALL)
def test_a_bench_runs_in_small(bench: str) -> None:
    figures = json.loads(ran(bench, *SMALL[bench]))
    assert len(figures) >= 3 and all(value > 0 for value in figures.values())


def test_the_page_of_figures_is_written_from_what_the_benches_print(tmp_path: Path) -> None:
    results, page = tmp_path / "results.json", tmp_path / "performance.md"
    small = json.dumps({"dry_run": ["--models", "2"], "driver_overhead": ["--nonsense"]})
    out = ran(
        "write_page", "dry_run", "driver_overhead", "--results", str(results), "--page", str(page), "--small", small
    )
    figures = json.loads(results.read_text(encoding="utf-8"))["benches"]
    written = page.read_text(encoding="utf-8")
    assert f"| 2 models: jobs | {figures['dry_run']['2 models: jobs']} |" in written
    assert "Not measured here: " in written and "--nonsense" in written
    assert "over their bar: none" in out
    again = {"driver_overhead": SMALL["driver_overhead"]}
    options = ["--again", "--results", str(results), "--page", str(page), "--small", json.dumps(again)]
    ran("write_page", "driver_overhead", *options)
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


def test_a_run_on_paper_is_that_of_the_code() -> None:
    assert ran("paper_run", "--print") == Path("docs/scale.md").read_text(encoding="utf-8") + "\n"


def test_sizes_of_requests_are_those_of_the_data(tmp_path: Path, data: Path) -> None:
    """bench/request_sizes.py on the same data gives what is shipped."""
    out = tmp_path / "sizes.csv"
    ran("request_sizes", "--out", str(out))
    assert out.read_text(encoding="utf-8") == Path("resources/sizes.csv").read_text(encoding="utf-8")


def test_colours_of_lights_are_simulated() -> None:
    """bench/lights.py: one grader a cell, the four colours in per cent."""
    lines = ran("lights", "1").splitlines()
    cells = [cell for line in lines for cell in re.findall(r"\d+: (\d+)/(\d+)/(\d+)/(\d+)", line)]
    assert len(cells) == 3 * 6 * 7 and all(sum(map(int, cell)) == 100 for cell in cells)


def test_every_bench_is_run_by_a_test() -> None:
    texts = [path.read_text(encoding="utf-8") for path in Path("tests").rglob("test_*.py")]
    named = {"slow_server", "request_sizes", "paper_run", *SMALL}
    benches = {path.stem for path in Path("bench").glob("*.py")} - named
    assert {name for name in benches if not any(f"bench/{name}.py" in text for text in texts)} == set()
