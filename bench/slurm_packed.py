"""Measure the savings of `servers.pack` on a cluster: the demo's tutor in a job per benchmark, and in one job for all.

Needs a cluster (`tests/slurm/cluster up` starts one), and uses real weights and vLLM. `--config` names a run file that
is measured instead of the demo. Prints one line of JSON: submitted jobs, seconds of their allocations, and seconds
of the whole run.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import yaml
from cheap_jobs import ROOT, copy_checkout
from slurm_overhead import SUBMITTED, allocated

TASKS = ["mathtutorbench/problem_solving", "mathtutorbench/mistake_location", "mrbench", "kmpbench/fqa", "tutorbench/text"]  # fmt: skip
SITE = ["--profile", "slurm", "--slurm-init-seconds-before-status-checks", "3", "--slurm-keep-successful-logs"]


def measure(folder: Path, config: dict[str, Any], pack: bool, site: list[str]) -> tuple[dict[str, float], set[str]]:
    """Run a configuration whose files are fetched already, and return its figures and the ids of its jobs."""
    path = folder / "run.yaml"
    path.write_text(json.dumps({**config, "servers": {"pack": pack}}), encoding="utf-8")
    line = [str(Path(sys.executable).parent / "snakemake"), *site, "--configfile", str(path)]
    began = time.monotonic()
    done = subprocess.run(line, cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0, done.stdout[-3000:]
    seconds = time.monotonic() - began
    jobs = set(SUBMITTED.findall(done.stdout))
    form = "one job for all" if pack else "a job a benchmark"
    figures = {
        f"{form}: submitted jobs": len(jobs),
        f"{form}: seconds in allocations": sum(map(allocated, jobs)),
        f"{form}: seconds of the run": round(seconds),
    }
    return figures, jobs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", type=Path, help="a run file")
    parser.add_argument("--site", nargs="*", default=[], help="further arguments of Snakemake")
    args = parser.parse_args()
    run: dict[str, Any] = {"tutors": ["smollm2-135m"], "tasks": TASKS, "limit": 4, "max_tokens": 32}
    config = yaml.safe_load(args.config.read_text(encoding="utf-8")) if args.config else {"edition": "demo", "run": run}
    figures: dict[str, float] = {}
    with tempfile.TemporaryDirectory(dir=ROOT.parent) as place:
        for pack in (False, True):
            folder = Path(place) / f"checkout{int(pack)}"
            copy_checkout(folder)
            line = [str(Path(sys.executable).parent / "snakemake"), "--cores", "1", "fetch"]
            (folder / "run.yaml").write_text(json.dumps(config), encoding="utf-8")
            subprocess.run([*line, "--configfile", "run.yaml"], cwd=folder, check=True, capture_output=True)
            figures |= measure(folder, config, pack, [*SITE, *args.site])[0]
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
