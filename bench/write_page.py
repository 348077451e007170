"""Run every benchmark script, and write the figures to bench/results.json and bench/README.md (`make bench`).

All figures of a page are from one machine and, without --again, from one call. If a script cannot run here, the page
states the reason.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

from maieutic.core.machine import this_machine

ROOT = Path(__file__).parents[1]
RESULTS, PAGE = ROOT / "bench/results.json", ROOT / "bench/README.md"
GPU = ROOT / "bench/gpu.json"
SERVE = ".venv/serve/bin/python"
# Interpreter of each script, and the heading of its section.
BENCHES = {
    "demo": (sys.executable, "the demo by `snakemake --cores 2`, from nothing but the environments"),
    "dry_run": (sys.executable, "planning, by `snakemake -n --forceall`"),
    "cheap_jobs": (sys.executable, "jobs without a model"),
    "driver_overhead": (sys.executable, "the client and its journal"),
    "peers": (sys.executable, "the client beside other harnesses"),
    "vllm_ceiling": (SERVE, "a served job beside vLLM alone"),
    "report_scale": (sys.executable, "the report of a large run"),
    "reward_scoring": (SERVE, "scoring by a reward model"),
}
# Largest acceptable value of each figure.
LIMITS = {
    "the demo: seconds": 240, "the demo again: CPU seconds": 2,
    "100 models: CPU seconds": 6, "100 models: MB": 400, "500 models: CPU seconds": 20,
    "generate-replies: CPU seconds": 0.3, "parse-replies: CPU seconds": 0.3, "score-replies: CPU seconds": 0.3,
    "check-report: CPU seconds": 0.3, "the same run again: CPU seconds": 2,
    "2,000 requests of 50 ms, 256 in flight: seconds": 0.9,
    "2,000 requests of 50 ms, 256 in flight: ms of CPU a request": 0.6,
    "100,000 requests of 50 ms, 256 in flight: MB": 300,
    "20 tutors: seconds": 35, "20 tutors: seconds for the differences of all pairs": 30,
    "20 tutors: MB of memory": 1536, "20 tutors: MB of the page": 50,
    "20 tutors: seconds to the first table": 3,
}  # fmt: skip


def figures_of(bench: str, arguments: list[str]) -> dict[str, Any]:
    """Return the figures that a script printed, or the reason why it could not run."""
    interpreter, _ = BENCHES[bench]
    done = subprocess.run(
        [interpreter, f"bench/{bench}.py", *arguments],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": "workflow"}, capture_output=True, text=True,
    )  # fmt: skip
    if done.returncode != 0:
        return {"failed": (done.stderr.strip().splitlines() or ["no message"])[-1]}
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return figures


def page(results: dict[str, Any]) -> str:
    """Return the results as a Markdown page."""
    lines = [
        "# What the software itself costs",
        "",
        f"Written by `make bench` on {results['date']}: {results['machine']}, Python {results['python']}. All figures before",
        "*On a GPU* are from one machine and, unless marked, from one call. They are also in `bench/results.json`. A *limit* is the",
        "largest acceptable value; a larger value is bold. Further pages: [SLURM jobs](slurm.md), [traffic lights](lights.md) and [fault",
        "drills](reliability.md).",
    ]  # fmt: skip
    for bench, figures in results["benches"].items():
        lines += ["", f"## {BENCHES[bench][1][0].upper()}{BENCHES[bench][1][1:]}", "", f"`bench/{bench}.py`", ""]
        if bench in results.get("again", {}):
            lines += [f"Measured again in a separate call: {results['again'][bench]}.", ""]
        if "failed" in figures:
            lines.append(f"Not measured here: {figures['failed']}")
            continue
        lines += ["| figure | value | limit |", "| --- | --- | --- |"]
        lines += [figure_row(name, value) for name, value in figures.items()]
    if GPU.exists():
        lines += gpu_section(json.loads(GPU.read_text(encoding="utf-8")))
    return "\n".join(lines) + "\n"


def figure_row(name: str, value: float) -> str:
    """Return a row of a table: a figure, its value, and its limit if it has one."""
    text = f"**{value:,}**" if exceeds_limit(name, value) else f"{value:,}"
    return f"| {name} | {text} | {LIMITS.get(name, '')} |"


def exceeds_limit(name: str, value: float) -> bool:
    """Return True if a figure has a limit and is above it."""
    return name in LIMITS and value > LIMITS[name]


def gpu_section(results: dict[str, Any]) -> list[str]:
    """Return the section with the figures of bench/gpu.py."""
    versions = ", ".join(f"{package} {version}" for package, version in results["versions"].items())
    lines = [
        "",
        "## On a GPU",
        "",
        f"`make bench-gpu`, in one call on {results['date']}: {results['card'] or 'no GPU'}, driver {results['driver']}, "
        f"{results['machine']}; Python {results['python']}, CUDA {results['cuda']}, {versions}.",
        "",
        "The models have random weights in the shapes of Qwen2.5 1.5B and 7B. The peak is the rate of a bfloat16 product",
        f"of two 8,192 x 8,192 matrices in the same call: {results['peak TFLOP/s']} TFLOP/s. A share of the peak counts 6",
        "operations per parameter and token, or 4 with adapters, and no recomputed activations. A reward model's scores",
        "have weights in bfloat16; a training computes in bfloat16 with weights in float32, and recomputes activations.",
    ]  # fmt: skip
    for part, figures in results["parts"].items():
        lines += ["", f"### {part[0].upper()}{part[1:]}", ""]
        if "not measured" in figures:
            lines.append(f"Not measured: {figures['not measured']}.")
            continue
        lines += ["| figure | value |", "| --- | --- |"]
        lines += [f"| {name} | {value:,} |" for name, value in figures.items()]
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "benches",
        nargs="*",
        default=list(BENCHES),
        help="scripts to run; without --again, the page contains only these",
    )
    parser.add_argument(
        "--again", action="store_true", help="keep the figures of the other scripts; the page marks the new ones"
    )
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--page", type=Path, default=PAGE)
    parser.add_argument("--small", type=json.loads, default={}, help="arguments by script, as JSON, for a smaller run")
    parser.add_argument("--render", action="store_true", help="run nothing; write the page from the kept figures")
    args = parser.parse_args()
    if args.render:
        args.page.write_text(page(json.loads(args.results.read_text(encoding="utf-8"))), encoding="utf-8")
        return
    benches = {}
    for bench in args.benches:
        print(f"bench/{bench}.py ...", flush=True)
        benches[bench] = figures_of(bench, args.small.get(bench, []))
        print(json.dumps(benches[bench], indent=1), flush=True)
    today = f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}"
    results: dict[str, Any] = {
        "date": today,
        "machine": this_machine().summary,
        "python": platform.python_version(),
        "benches": benches,
    }
    if args.again:
        before = json.loads(args.results.read_text(encoding="utf-8"))
        if before["machine"] != results["machine"]:
            parser.error(f"the kept figures are from another machine: {before['machine']}. Fix: run without --again")
        again = {**before.get("again", {}), **dict.fromkeys(benches, today)}
        results = {**before, "again": again, "benches": {**before["benches"], **benches}}
    args.results.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    args.page.write_text(page(results), encoding="utf-8")
    missed = [name for figures in benches.values() for name, value in figures.items() if exceeds_limit(name, value)]
    print(f"{args.page}: written; over their limit: {', '.join(missed) or 'none'}")


if __name__ == "__main__":
    main()
