"""Measure SLURM's overhead per job: `touch` jobs, submitted with different settings.

Needs a cluster (`tests/slurm/cluster up` starts one). Prints the table of docs/cluster.md: the seconds of a Snakemake
run with one job and with eight parallel jobs, and the seconds that each job kept its allocation.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

SNAKEMAKE = Path(sys.executable).parent / "snakemake"
SNAKEFILE = """
rule all:
    input: expand("{{n}}.txt", n=range({jobs}))
rule touch:
    output: "{{n}}.txt"
    resources: runtime=5, mem_mb=200
    shell: "touch {{output}}"
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


def measure(jobs: int, interval: str) -> tuple[float, list[float]]:
    """Return the wall seconds of a run of `jobs` touch jobs, and the seconds that each job kept its allocation.

    interval: seconds before the executor's first status check.
    """
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "Snakefile").write_text(SNAKEFILE.format(jobs=jobs), encoding="utf-8")
        began = time.monotonic()
        done = subprocess.run(
            [SNAKEMAKE, *COMMON, "--slurm-init-seconds-before-status-checks", interval],
            cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=True,
        )  # fmt: skip
        seconds = time.monotonic() - began
    return seconds, [allocated(job) for job in set(SUBMITTED.findall(done.stdout))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=8, help="number of jobs of the larger run")
    parser.add_argument("--interval", choices=SETTINGS.values(), help="measure only this setting")
    args = parser.parse_args()
    print(
        f"| `slurm-init-seconds-before-status-checks` | one job, s | {args.jobs} jobs, s "
        f"| in its allocation, median s (one job / {args.jobs} jobs) |"
    )
    print("| --- | --- | --- | --- |")
    for name, interval in SETTINGS.items():
        if args.interval in {None, interval}:
            one_seconds, one_allocated = measure(1, interval)
            many_seconds, many_allocated = measure(args.jobs, interval)
            print(
                f"| {name} | {one_seconds:.0f} | {many_seconds:.0f} | {median(one_allocated):.0f} / {median(many_allocated):.0f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
