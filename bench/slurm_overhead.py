"""Measure SLURM's overhead per job: `touch` jobs, submitted with different settings.

Needs a cluster (`tests/slurm/cluster up` starts one). Prints the tables of bench/slurm.md: the seconds of a Snakemake
run with one job and with eight parallel jobs, and the seconds that each job kept its allocation; with `--arrays`, the
seconds and the calls of `sbatch` for jobs submitted one by one and as a job array.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import NamedTuple

SNAKEMAKE = Path(sys.executable).parent / "snakemake"
SNAKEFILE = """
rule all:
    input: expand("{{n}}.txt", n=range({jobs}))
rule touch:
    output: "{{n}}.txt"
    resources: runtime=5, mem_mb=200
    shell: "touch {{output}}"
"""
SBATCH = """#!/usr/bin/env bash
echo call >>{log}
exec {sbatch} "$@"
"""
COMMON = ["--executor", "slurm", "--jobs", "100", "--slurm-status-command", "squeue", "--slurm-keep-successful-logs"]
SETTINGS = {"40 (the executor's default)": "40", "20": "20", "8 (our profile)": "8", "3": "3"}
SUBMITTED = re.compile(r"SLURM jobid (\d+)")


def allocated(job: str) -> float:
    """Return the seconds that a job kept its allocation."""
    elapsed = subprocess.run(
        ["squeue", "--noheader", "--states=all", f"--jobs={job}", "--format=%M"],
        text=True,
        capture_output=True,
        check=True,
    ).stdout.split()[0]
    minutes, seconds = elapsed.split(":")[-2:]
    return int(minutes) * 60 + int(seconds)


class Figures(NamedTuple):
    """Wall seconds of a run, its calls of `sbatch`, and the seconds that each job kept its allocation."""

    seconds: float
    calls: int
    allocated: list[float]


def measure(jobs: int, interval: str, *options: str) -> Figures:
    """Return the figures of a run of `jobs` touch jobs.

    interval: seconds before the executor's first status check; options: further options of Snakemake.
    """
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "Snakefile").write_text(SNAKEFILE.format(jobs=jobs), encoding="utf-8")
        log, counting = Path(folder, "calls"), Path(folder, "bin/sbatch")
        counting.parent.mkdir()
        counting.write_text(SBATCH.format(log=log, sbatch=shutil.which("sbatch")), encoding="utf-8")
        counting.chmod(0o755)
        env = {**os.environ, "PATH": f"{counting.parent}:{os.environ['PATH']}"}
        began = time.monotonic()
        done = subprocess.run(
            [SNAKEMAKE, *COMMON, "--slurm-init-seconds-before-status-checks", interval, *options],
            cwd=folder, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=True,
        )  # fmt: skip
        seconds = time.monotonic() - began
        calls = len(log.read_text(encoding="utf-8").splitlines())
    return Figures(seconds, calls, [allocated(job) for job in set(SUBMITTED.findall(done.stdout))])


def compare_arrays(jobs: int) -> None:
    """Print the seconds and the calls of `sbatch` of equal jobs submitted one by one and as a job array."""
    print(f"| {jobs} equal jobs | calls of `sbatch` | seconds of the run |")
    print("| --- | --- | --- |")
    for name, options in {"one by one": (), "as a job array": ("--slurm-array-jobs", "touch")}.items():
        figures = measure(jobs, "8", *options)
        print(f"| {name} | {figures.calls} | {figures.seconds:.0f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=8, help="number of jobs of the larger run")
    parser.add_argument("--interval", choices=SETTINGS.values(), help="measure only this setting")
    parser.add_argument("--arrays", action="store_true", help="compare jobs submitted one by one with a job array")
    args = parser.parse_args()
    if args.arrays:
        compare_arrays(args.jobs)
        return
    print(
        f"| `slurm-init-seconds-before-status-checks` | one job, s | {args.jobs} jobs, s "
        f"| in its allocation, median s (one job / {args.jobs} jobs) |"
    )
    print("| --- | --- | --- | --- |")
    for name, interval in SETTINGS.items():
        if args.interval in {None, interval}:
            single, many = measure(1, interval), measure(args.jobs, interval)
            print(
                f"| {name} | {single.seconds:.0f} | {many.seconds:.0f} "
                f"| {median(single.allocated):.0f} / {median(many.allocated):.0f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
