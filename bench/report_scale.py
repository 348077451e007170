"""Measure the report of a large run: 1, 20 and 100 tutors (`--tutors`) with 30,000 items each (`--items`).

With more than 20 tutors, a thirtieth of the items is used. The run covers all tasks of the demo. One tutor is run on a
scripted endpoint; its items are multiplied and its files copied under the other tutors' names, so that the report reads
as much as in a run of that size. The differences of all pairs are computed. Prints one line of JSON: seconds and memory
of `build-report`, and the sizes of the page and of the files beside it. If Chromium is installed, the line also
contains the seconds from its start to the page's first table, less those of an empty page.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml
from cheap_jobs import ROOT, SNAKEMAKE, copy_checkout

FIRST_TUTOR = "tutor-001"
MAX_TUTORS_WITH_ALL_ITEMS = 20  # above it fewer items are used, to save disk space
TASKS = yaml.safe_load((ROOT / "config/config.yaml").read_text(encoding="utf-8"))["run"]["tasks"]
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
# Without these options the browser contacts hosts at its start and, without a network, waits for a time-out.
BROWSER_OPTIONS = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"]  # fmt: skip


# Runs the rule compare_tutors of every benchmark without Snakemake, and collects garbage as rarely as a job does.
COMPARE = """
import sys
from pathlib import Path
from maieutic.core.parent_process import collect_garbage_rarely
from maieutic.core.yaml_files import read_yaml
from maieutic.run_plan import plan_of
from maieutic.record.planned_jobs import jobs_of_run
collect_garbage_rarely()
plan = plan_of(read_yaml(Path(sys.argv[1])))
for job in jobs_of_run(plan, Path("results")):
    if job.rule == "compare_tutors":
        for path in job.outputs:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
        job.run({})
"""


def numbered(line: str, number: int, kind: str) -> str:
    """Return a record's line as copy `number`, under the id of a separate item and, for items, a separate problem."""
    record = json.loads(line)
    record["id"] = f"{record['id']}-{number}"
    if kind == "items":
        record["cluster"] = f"{record['cluster']}-{number}"
    return json.dumps(record, ensure_ascii=False) + "\n"


def multiply(path: Path, times: int, kind: str) -> None:
    """Repeat every record of a file a number of times, each time under different ids."""
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    with open(path, "w", encoding="utf-8") as handle:
        for number in range(times):
            handle.writelines(numbered(line, number, kind) for line in lines)


def files_of(results: Path, kind: str, name: str) -> Iterable[Path]:
    """Return the files of a tutor in one folder of the results. kind: the folder; name: the tutor."""
    return sorted((results / kind).rglob(f"{name}.*"))


def enlarge(results: Path, tutors: list[str], items: int) -> int:
    """Turn a run of one tutor into a run of many tutors and items, and return the number of items per tutor."""
    first_items = sum(path.read_text(encoding="utf-8").count("\n") for path in files_of(results, "replies", FIRST_TUTOR) if path.parent.name != "prompts")  # fmt: skip
    times = max(items // first_items, 1)
    for kind, pattern in (("items", "*.jsonl"), ("replies", "*.jsonl"), ("grades", "*.jsonl")):
        for path in sorted((results / kind).rglob(pattern)):
            if path.parent.name != "prompts":
                multiply(path, times, kind)
    for kind in ("replies", "grades", "scores"):
        for path in files_of(results, kind, FIRST_TUTOR):
            text = path.read_text(encoding="utf-8")
            for name in tutors:
                path.with_name(path.name.replace(FIRST_TUTOR, name)).write_text(
                    text.replace(FIRST_TUTOR, name), encoding="utf-8"
                )
    return first_items * times


def measure(line: list[str], folder: Path) -> dict[str, float]:
    """Run a command, and return its seconds, CPU seconds and MB of memory."""
    began = time.perf_counter()
    environment = {**os.environ, "PYTHONPATH": str(folder / "workflow")}
    process = subprocess.Popen(line, cwd=folder, env=environment, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    assert status == 0, line
    return {"seconds": time.perf_counter() - began, "cpu": used.ru_utime + used.ru_stime, "mb": used.ru_maxrss / 1024}


def seconds_to_show(page: Path) -> float:
    """Return the seconds until Chromium has loaded a page and run its scripts."""
    assert CHROMIUM is not None
    with tempfile.TemporaryDirectory() as profile:
        began = time.perf_counter()
        line = [CHROMIUM, *BROWSER_OPTIONS, f"--user-data-dir={profile}", "--dump-dom", page.as_uri()]
        out = subprocess.run(line, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    assert "<table" in out or page.stat().st_size < 1000
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tutors", type=int, nargs="+", default=[1, 20, 100])
    parser.add_argument("--items", type=int, default=30_000, help="items per tutor")
    parser.add_argument("--tasks", nargs="+", default=TASKS)
    args = parser.parse_args()
    figures: dict[str, float] = {}
    for tutors in args.tutors:
        names = [f"tutor-{number:03d}" for number in range(1, tutors + 1)]
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place) / "checkout"
            copy_checkout(folder)
            run_one_tutor(folder, names, args.tasks)
            items = args.items if tutors <= MAX_TUTORS_WITH_ALL_ITEMS else args.items // 30
            figures |= figures_of(folder, names, items)
    print(json.dumps(figures))


def run_one_tutor(folder: Path, names: list[str], tasks: list[str]) -> None:
    """Write the first tutor's results into a checkout, and the configuration of the whole run as large.yaml."""
    server = subprocess.Popen(
        [sys.executable, str(ROOT / "bench/slow_server.py"), "0"], stdout=subprocess.PIPE, text=True
    )
    try:
        assert server.stdout is not None
        address = f"http://127.0.0.1:{server.stdout.readline().strip()}/v1"
        models = {name: {"engine": "hosted", "base_url": address, "model": "m"} for name in names}
        written = "results/report/config.yaml"
        for tutors, words in ((names, [written]), ([FIRST_TUTOR], ["--omit-from", "build_report"])):
            config: dict[str, Any] = {"edition": "demo", "models": models, "run": {"tutors": tutors, "tasks": tasks}}
            (folder / "bench.yaml").write_text(json.dumps(config), encoding="utf-8")
            done = subprocess.run(
                [*SNAKEMAKE, *words, "--configfile", "bench.yaml"], cwd=folder, capture_output=True, text=True
            )
            assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
            if written in words:
                shutil.copy2(folder / written, folder / "large.yaml")
    finally:
        server.kill()


def figures_of(folder: Path, names: list[str], items: int) -> dict[str, float]:
    """Return the figures of the enlarged run's report. items: intended number of items per tutor."""
    item_count = enlarge(folder / "results", names, items)
    out = folder / "large"
    compared = measure([sys.executable, "-c", COMPARE, "large.yaml"], folder)
    command = [sys.executable, "-m", "maieutic", "build-report", "--config", "large.yaml", "--results", "results"]
    cost = measure([*command, "--out", str(out)], folder)
    page = out / "index.html"
    beside = sum(path.stat().st_size for path in out.rglob("*") if path.is_file()) - page.stat().st_size
    size = f"{len(names)} tutor{'' if len(names) == 1 else 's'}"
    figures: dict[str, float] = {
        f"{size}: replies": item_count * len(names),
        f"{size}: seconds for the differences of all pairs": round(compared["seconds"], 1),
        f"{size}: seconds": round(cost["seconds"], 1),
        f"{size}: CPU seconds": round(cost["cpu"], 1),
        f"{size}: MB of memory": round(cost["mb"]),
        f"{size}: MB of the page": round(page.stat().st_size / 2**20, 2),
        f"{size}: MB of files beside it": round(beside / 2**20, 2),
    }
    if CHROMIUM:
        empty = folder / "empty.html"
        empty.write_text("<!doctype html><p>", encoding="utf-8")
        seconds_to_show(empty)  # warm up: the first start reads Chromium from the disk
        seconds = seconds_to_show(page) - seconds_to_show(empty)
        figures[f"{size}: seconds to the first table"] = round(max(seconds, 0.01), 2)
    return figures


if __name__ == "__main__":
    main()
