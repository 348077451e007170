"""Run the fault drills, and print their table: `make drills`. The full form writes docs/reliability.md too.

Arguments are pytest's. MAIEUTIC_DRILLS=full: the full form. On CI (CI=true) without those that `make test` has run.
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
PAGE = ROOT / "docs/reliability.md"
REPORTS = ROOT / ".drills"  # of the last call, as JUnit writes them
HEAD = """# Reliability

Written by `make drills FULL=1`. What happens when things go wrong, as tests with figures: real SIGKILLs, real servers that answer nonsense, a real
browser. `make drills` runs the short form, as CI does. What may do what to whom is in [SECURITY.md](../SECURITY.md).

"""


class Outcome(NamedTuple):
    """What became of a file's tests: how many passed, how many did not, the figures that they put down by drill."""

    passed: int
    failed: int
    figures: dict[int, list[str]]


def outcomes(report: Path) -> dict[str, Outcome]:
    """By file below tests/, what a JUnit report says."""
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
    """The table's rows: number, drill, how, figure, date."""
    rows = []
    for number, drill in enumerate(drills, 1):
        ran = [by_file[name] for name in drill["tests"] if name in by_file]
        passed, failed = sum(outcome.passed for outcome in ran), sum(outcome.failed for outcome in ran)
        told = [f"{passed} tests passed" + (f", {failed} did not" if failed else "")] if ran else ["by `make test`"]
        told += [figure for outcome in ran for figure in outcome.figures.get(number, ())]
        if "elsewhere" in drill:
            told.append(f"and `{drill['elsewhere']}`")
        rows.append((str(number), drill["drill"], drill["how"], "; ".join(told), date))
    return rows


def table(rows: list[tuple[str, ...]]) -> str:
    """The rows as Markdown."""
    lines = ["| | drill | how | figure | date |", "| --- | --- | --- | --- | --- |"]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)]) + "\n"


def main() -> int:
    full = os.environ.get("MAIEUTIC_DRILLS") == "full"
    drills = yaml.safe_load(DRILLS.read_text(encoding="utf-8"))
    named = {name for drill in drills for name in drill["tests"]}
    faults = {f"faults/{path.name}" for path in (ROOT / "tests/faults").glob("test_*.py")}
    files = sorted(faults | (set() if os.environ.get("CI") == "true" else named))
    ended, by_file = 0, dict[str, Outcome]()
    REPORTS.mkdir(exist_ok=True)
    # A call for each: files of one name in two folders are one module to pytest.
    for folder in ("faults", "workflow", "unit"):
        if own := [str(ROOT / "tests" / name) for name in files if name.startswith(folder)]:
            report = REPORTS / f"{folder}.xml"
            line = [sys.executable, "-m", "pytest", *own, f"--junitxml={report}", *sys.argv[1:]]
            ended = subprocess.run(line, cwd=ROOT).returncode or ended
            by_file |= outcomes(report)
    written = table(rows_of(drills, by_file, datetime.now(UTC).date().isoformat()))
    print(f"\n{written}")
    if full and not ended:
        PAGE.write_text(HEAD + written, encoding="utf-8")
    return ended


if __name__ == "__main__":
    sys.exit(main())
