"""Measure the CPU seconds of cheap jobs and of Snakemake itself: a run of baselines on the demo's data, then a re-run.

The workflow runs in a copy of this checkout, in which a wrapper around the interpreter records each command's CPU time.
Prints one line of JSON: the median by command, the sum over all jobs, and the re-run, which has nothing to do.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parents[1]
SNAKEMAKE = [str(Path(sys.executable).parent / "snakemake"), "--cores", str(min(2, os.cpu_count() or 1))]
COMMANDS = ("generate-replies", "parse-replies", "score-replies", "compare-tutors", "build-report", "check-report")
WRAPPER = """#!{python}
import json, os, resource, subprocess, sys
code = subprocess.run([{python!r}, *sys.argv[1:]]).returncode
used = resource.getrusage(resource.RUSAGE_CHILDREN)
with open({times!r}, "a") as handle:
    handle.write(json.dumps([sys.argv[3] if len(sys.argv) > 3 else "", used.ru_utime + used.ru_stime]) + "\\n")
sys.exit(code)
"""


def copy_checkout(folder: Path) -> None:
    """Copy this checkout without its results; the environments are shared by a link."""
    shutil.copytree(ROOT, folder, symlinks=True, ignore=shutil.ignore_patterns(".*", "results", "tests"))
    (folder / ".venv").symlink_to(ROOT / ".venv")


def cpu_seconds_of(line: list[str], folder: Path) -> float:
    """Run a command, and return the CPU seconds that it and its children used."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(line, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", default=["mathtutorbench", "mrbench", "kmpbench/fqa", "tutorbench/text"])
    tasks = parser.parse_args().tasks
    with tempfile.TemporaryDirectory() as place:
        folder, times = Path(place) / "checkout", Path(place) / "times.jsonl"
        copy_checkout(folder)
        wrapper = Path(place) / "python"
        wrapper.write_text(WRAPPER.format(python=sys.executable, times=str(times)), encoding="utf-8")
        wrapper.chmod(0o755)
        config = {
            "edition": "demo",
            "interpreters": {"driver": str(wrapper)},
            "run": {"tutors": ["echo"], "tasks": tasks, "classifiers": [], "judges": []},
        }
        (folder / "bench.yaml").write_text(json.dumps(config), encoding="utf-8")
        first = cpu_seconds_of([*SNAKEMAKE, "--configfile", "bench.yaml"], folder)
        costs = [json.loads(text) for text in times.read_text(encoding="utf-8").splitlines()]
        again = cpu_seconds_of([*SNAKEMAKE, "--configfile", "bench.yaml"], folder)
    seconds_by_command: dict[str, list[float]] = defaultdict(list)
    for command, seconds in costs:
        seconds_by_command[command].append(seconds)
    figures: dict[str, float] = {
        f"{name}: CPU seconds": round(median(seconds_by_command[name]), 2)
        for name in COMMANDS
        if name in seconds_by_command
    }
    figures["all jobs: number"] = len(costs)
    figures["all jobs: CPU seconds"] = round(sum(seconds for _, seconds in costs), 1)
    figures["Snakemake beside them: CPU seconds"] = round(first - sum(seconds for _, seconds in costs), 1)
    figures["the same run again: CPU seconds"] = round(again, 2)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
