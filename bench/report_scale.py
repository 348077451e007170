"""The report of a large run: 1, 20 and 100 tutors (`--tutors`) with 30,000 items each (`--items`; of 100 tutors 1,000).

Over all tasks of the demo. One tutor is run for real, on a scripted endpoint; its items are multiplied, and its files copied under the other
tutors' names, so that the report reads what it would read of a run of that size; the differences of all pairs are
computed. Prints a line of JSON: seconds and
memory of `build-report`, the size of the page and of all that lies beside it, and, where Chromium is there, the seconds
from its start to the page's first table, less those of an empty page.
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
from cheap_jobs import ROOT, SNAKEMAKE, copied

FIRST = "tutor-001"
MANY = 20  # tutors; of more of them the disk holds fewer items
TASKS = yaml.safe_load((ROOT / "config/demo.yaml").read_text(encoding="utf-8"))["run"]["tasks"]
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
# Without these a browser asks for hosts at its start, and waits for them where there is no network.
QUIET = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"]  # fmt: skip


# The rule compare_tutors of every benchmark, without Snakemake.
COMPARE = """
import sys
from pathlib import Path
from maieutic.core.documents import read_yaml
from maieutic.plan.rules import plan_of
from maieutic.report.record.contents import flat, steps
from maieutic.report.record.verify import run_step
plan = plan_of(read_yaml(Path(sys.argv[1])))
for step in steps(plan):
    if step.rule == "compare_tutors":
        written = {path: Path(path) for path in flat(step.outs)}
        for path in written.values():
            path.parent.mkdir(parents=True, exist_ok=True)
        run_step(plan, step, Path.cwd(), written)
"""


def numbered(line: str, number: int, kind: str) -> str:
    """A record's line as that of its copy `number`, of an item and a problem of its own."""
    record = json.loads(line)
    record["id"] = f"{record['id']}-{number}"
    if kind == "items":
        record["cluster"] = f"{record['cluster']}-{number}"
    return json.dumps(record, ensure_ascii=False) + "\n"


def multiply(path: Path, times: int, kind: str) -> None:
    """Every record of a file so many times, as other items."""
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    with open(path, "w", encoding="utf-8") as handle:
        for number in range(times):
            handle.writelines(numbered(line, number, kind) for line in lines)


def files_of(results: Path, kind: str, name: str) -> Iterable[Path]:
    """The files of a tutor, of one folder of the results."""
    return sorted((results / kind).rglob(f"{name}.*"))


def enlarge(results: Path, tutors: list[str], items: int) -> int:
    """Make of a run of one tutor one of many with many items; gives the items a tutor."""
    own = sum(path.read_text(encoding="utf-8").count("\n") for path in files_of(results, "replies", FIRST) if path.parent.name != "prompts")  # fmt: skip
    times = max(items // own, 1)
    for kind, pattern in (("items", "*.jsonl"), ("replies", "*.jsonl"), ("grades", "*.jsonl")):
        for path in sorted((results / kind).rglob(pattern)):
            if path.parent.name != "prompts":
                multiply(path, times, kind)
    for kind in ("replies", "grades", "scores"):
        for path in files_of(results, kind, FIRST):
            text = path.read_text(encoding="utf-8")
            for name in tutors:
                path.with_name(path.name.replace(FIRST, name)).write_text(text.replace(FIRST, name), encoding="utf-8")
    return own * times


def measured(line: list[str], folder: Path) -> dict[str, float]:
    """Seconds, CPU seconds and MB of a command."""
    began = time.perf_counter()
    environment = {**os.environ, "PYTHONPATH": str(folder / "workflow")}
    process = subprocess.Popen(line, cwd=folder, env=environment, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    assert status == 0, line
    return {"seconds": time.perf_counter() - began, "cpu": used.ru_utime + used.ru_stime, "mb": used.ru_maxrss / 1024}


def seconds_to_show(page: Path) -> float:
    """Seconds until Chromium has a page with its scripts done."""
    assert CHROMIUM is not None
    with tempfile.TemporaryDirectory() as profile:
        began = time.perf_counter()
        line = [CHROMIUM, *QUIET, f"--user-data-dir={profile}", "--dump-dom", page.as_uri()]
        out = subprocess.run(line, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    assert "<table" in out or page.stat().st_size < 1000
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tutors", type=int, nargs="+", default=[1, 20, 100])
    parser.add_argument("--items", type=int, default=30_000, help="a tutor")
    parser.add_argument("--tasks", nargs="+", default=TASKS)
    args = parser.parse_args()
    figures: dict[str, float] = {}
    for tutors in args.tutors:
        names = [f"tutor-{number:03d}" for number in range(1, tutors + 1)]
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place) / "checkout"
            copied(folder)
            run_one_tutor(folder, names, args.tasks)
            items = args.items if tutors <= MANY else args.items // 30
            figures |= figures_of(folder, names, items)
    print(json.dumps(figures))


def run_one_tutor(folder: Path, names: list[str], tasks: list[str]) -> None:
    """Leave the first tutor's results in a checkout, and the configuration of the whole run as large.yaml."""
    server = subprocess.Popen(
        [sys.executable, str(ROOT / "bench/slow_server.py"), "0"], stdout=subprocess.PIPE, text=True
    )
    try:
        assert server.stdout is not None
        address = f"http://127.0.0.1:{server.stdout.readline().strip()}/v1"
        models = {name: {"engine": "hosted", "base_url": address, "model": "m"} for name in names}
        written = "results/report/config.yaml"
        for tutors, words in ((names, [written]), ([FIRST], ["--omit-from", "build_report"])):
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
    """What the report of the enlarged run takes."""
    own = enlarge(folder / "results", names, items)
    out = folder / "large"
    compared = measured([sys.executable, "-c", COMPARE, "large.yaml"], folder)
    command = [sys.executable, "-m", "maieutic", "build-report", "--config", "large.yaml", "--results", "results"]
    cost = measured([*command, "--out", str(out)], folder)
    page = out / "index.html"
    beside = sum(path.stat().st_size for path in out.rglob("*") if path.is_file()) - page.stat().st_size
    size = f"{len(names)} tutor{'' if len(names) == 1 else 's'}"
    figures: dict[str, float] = {
        f"{size}: replies": own * len(names),
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
        seconds_to_show(empty)  # its first start reads it from the disk
        seconds = seconds_to_show(page) - seconds_to_show(empty)
        figures[f"{size}: seconds to the first table"] = round(max(seconds, 0.01), 2)
    return figures


if __name__ == "__main__":
    main()
