"""Each bench runs, in small: one that nobody runs rots. (Of reward scoring: tests/faults; of SLURM: make test-slurm.)"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SMALL = {"dry_run": ["--models", "2"], "driver_overhead": ["--requests", "60"]}


@pytest.mark.parametrize("bench", SMALL)
def test_a_bench_runs_in_small(bench: str) -> None:
    line = [sys.executable, f"bench/{bench}.py", *SMALL[bench]]
    done = subprocess.run(line, env={**os.environ, "PYTHONPATH": "workflow"}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)
    assert len(figures) >= 3 and all(value > 0 for value in figures.values())


def test_every_bench_is_run_by_a_test() -> None:
    texts = [path.read_text(encoding="utf-8") for path in Path("tests").rglob("test_*.py")]
    benches = {path.stem for path in Path("bench").glob("*.py")} - {"slow_server", *SMALL}
    assert {name for name in benches if not any(f"bench/{name}.py" in text for text in texts)} == set()
