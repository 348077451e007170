"""Run the fault drills and print their table (`make drills`). The full form also writes bench/reliability.md.

Arguments are passed to pytest. MAIEUTIC_DRILLS=full selects the full form. On CI (CI=true), tests that `make test` has
run already are left out.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

import yaml

ROOT = Path(__file__).parents[1]
DRILLS = ROOT / "tests/drills.yaml"
PAGE = ROOT / "bench/reliability.md"
REPORTS = ROOT / ".drills"  # JUnit reports of the last call
HEAD = """# Reliability

Written by `make drills FULL=1`. The fault drills use real SIGKILLs, real servers with invalid answers and a real browser.
`make drills` runs the short form, as CI does. [SECURITY.md](../SECURITY.md) describes the threats.

"""


class Outcome(NamedTuple):
    """Results of a file's tests: numbers of passed and failed ones, and the figures that they recorded, by drill."""

    passed: int
    failed: int
    figures: dict[int, list[str]]


def outcomes(report: Path) -> dict[str, Outcome]:
    """Return the results in a JUnit report, by file below tests/."""
    passed: dict[str, int] = defaultdict(int)
    failed: dict[str, int] = defaultdict(int)
    figures: dict[str, dict[int, list[str]]] = defaultdict(lambda: defaultdict(list))
    for case in ElementTree.parse(report).iter("testcase"):
        name = str(case.get("classname")).removeprefix("tests.").replace(".", "/") + ".py"
        bad = any(case.find(kind) is not None for kind in ("failure", "error", "skipped"))
        (failed if bad else passed)[name] += 1
        for figure in case.iter("property"):
            number, _, text = str(figure.get("value")).partition(": ")
            if figure.get("name") == "figure":
                figures[name][int(number)].append(text)
    return {name: Outcome(passed[name], failed[name], figures[name]) for name in {*passed, *failed}}


def rows_of(drills: list[dict[str, Any]], by_file: dict[str, Outcome], date: str) -> list[tuple[str, ...]]:
    """Return the rows of the table: number, drill, method, tests and date."""
    rows = []
    for number, drill in enumerate(drills, 1):
        ran = [by_file[name] for name in drill["tests"] if name in by_file]
        passed, failed = sum(outcome.passed for outcome in ran), sum(outcome.failed for outcome in ran)
        tests = f"{passed} passed" + (f", {failed} failed" if failed else "") if ran else "by `make test`"
        if "elsewhere" in drill:
            tests += f", and `{drill['elsewhere']}`"
        rows.append((str(number), drill["drill"], drill["how"], tests, date))
    return rows


def figure_lines(drills: list[dict[str, Any]], by_file: dict[str, Outcome]) -> list[str]:
    """Return the figures that the drills recorded, one line of Markdown each."""
    return [
        f"- Drill {number}: {figure}."
        for number, drill in enumerate(drills, 1)
        for name in drill["tests"]
        if name in by_file
        for figure in by_file[name].figures.get(number, ())
    ]


def table(rows: list[tuple[str, ...]]) -> str:
    """Return the rows as a Markdown table."""
    lines = ["| | drill | method | tests | date |", "| --- | --- | --- | --- | --- |"]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)]) + "\n"


def main() -> int:
    full = os.environ.get("MAIEUTIC_DRILLS") == "full"
    drills = yaml.safe_load(DRILLS.read_text(encoding="utf-8"))
    named = {name for drill in drills for name in drill["tests"]}
    faults = {f"faults/{path.name}" for path in (ROOT / "tests/faults").glob("test_*.py")}
    files = sorted(faults | (set() if os.environ.get("CI") == "true" else named))
    status, by_file = 0, dict[str, Outcome]()
    REPORTS.mkdir(exist_ok=True)
    # One call per folder, because pytest treats files of the same name in two folders as one module.
    for folder in ("faults", "workflow", "unit"):
        if paths := [str(ROOT / "tests" / name) for name in files if name.startswith(folder)]:
            report = REPORTS / f"{folder}.xml"
            line = [sys.executable, "-m", "pytest", *paths, f"--junitxml={report}", *sys.argv[1:]]
            status = subprocess.run(line, cwd=ROOT).returncode or status
            by_file |= outcomes(report)
    text = table(rows_of(drills, by_file, datetime.now(UTC).date().isoformat()))
    if figures := figure_lines(drills, by_file):
        text += "\n## Figures\n\n" + "\n".join(figures) + "\n"
    print(f"\n{text}")
    if full and not status:
        PAGE.write_text(HEAD + text, encoding="utf-8")
    return status


if __name__ == "__main__":
    sys.exit(main())
