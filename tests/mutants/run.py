"""Mutation tests: change the code in small ways, one at a time, and run the unit tests: `make mutants` (hours).

mutmut makes the changes in a copy of the checkout, `.mutants`. The tests of a changed function run until one fails:
first the quick ones, and all of them if these pass. The script prints each change that no test notices, unless
`equivalent.yaml` lists it with a reason, and the share of noticed changes by module. It exits with 1 if that share is
below 95 %. Results are appended to `.mutants/outcomes.jsonl` at once.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest
import yaml
from changes import PACKAGE, Change, copy_checkout, write_changes
from mutmut.configuration import config
from mutmut.mutation.trampoline import set_mutant_under_test
from trials import NOTICED, TEST_SECONDS, Result, Trials

ROOT = Path(__file__).parents[2]
COPY = ROOT / ".mutants"
OUTCOMES = COPY / "outcomes.jsonl"
MODULES = ["core/*", "scores/*", "graders/*", "plan/*", "launch/*", "tools/*", "serving/conversations.py"]
MIN_SHARE = 0.95
PRINT_SECONDS = 30.0
PYTEST = ["-q", "-m", "not slow and not own_text", "--capture=sys", f"--timeout={TEST_SECONDS}"]


class Equivalent:
    """Changes that are equivalent to the original, by function, and rules for those that are equivalent everywhere."""

    def __init__(self, path: Path) -> None:
        content: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
        self.rules: list[dict[str, str]] = content.pop("everywhere")
        self.of_function: dict[str, dict[str, str]] = content

    def __contains__(self, change: Change) -> bool:
        return change.text in self.of_function.get(change.function, {}) or self.is_everywhere(change.text)

    def is_everywhere(self, text: str) -> bool:
        """Return True if a rule covers this change. text: `-old +new`."""
        places = [place for place in range(len(text)) if text.startswith(" +", place)]
        pairs = [(text[1:place], text[place + 2 :]) for place in places]
        return any(
            rule["old"] in old and old.replace(rule["old"], rule["new"], 1) == new
            for old, new in pairs
            for rule in self.rules
        )

    def stale(self, changes: dict[str, list[Change]]) -> list[str]:
        """Return the listed functions with an entry for a change that does not exist.

        Modules that were not changed are left out, unless the package no longer has them.
        """
        modules = {module_of(function) for function in changes}
        return [
            function
            for function, texts in self.of_function.items()
            if not is_module(module_of(function))
            or (module_of(function) in modules and texts.keys() - {change.text for change in changes.get(function, [])})
        ]


class Record:
    """Results until now. They are also written to `outcomes.jsonl`, and a summary to the terminal at intervals."""

    def __init__(self, total: int) -> None:
        self.total, self.printed_at = total, time.monotonic()
        self.last: dict[str, Result] = {}

    def add(self, result: Result) -> None:
        """Add a result."""
        self.last[result.change.name] = result
        line = {**result.change._asdict(), "outcome": result.outcome, "test": result.test}
        with open(OUTCOMES, "a", encoding="utf-8") as handle:
            handle.write(json.dumps(line, ensure_ascii=False) + "\n")
        if time.monotonic() - self.printed_at > PRINT_SECONDS:
            self.printed_at = time.monotonic()
            counts = Counter(result.outcome for result in self.last.values())
            summary = ", ".join(f"{number} {outcome}" for outcome, number in counts.most_common())
            print(f"{len(self.last)} of {self.total} changes: {summary}", file=sys.__stderr__, flush=True)


def module_of(function: str) -> str:
    """Return the module of a function: `core.stats` for `maieutic.core.stats.x_share`."""
    return function.replace(".xǁ", ".x_").partition(".x_")[0].removeprefix("maieutic.")


def is_module(module: str) -> bool:
    """Return True if the package in this folder has a module or subpackage of this name."""
    path = PACKAGE / module.replace(".", "/")
    return path.is_dir() or path.with_suffix(".py").is_file()


def parse_arguments() -> argparse.Namespace:
    """Return the arguments of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("modules", nargs="*", default=MODULES, help="patterns of modules, below workflow/maieutic")
    parser.add_argument("--functions", default="*", help="only functions of this pattern: '*.x_share'")
    parser.add_argument("--tests", nargs="*", default=[], help="only these files of tests/unit: test_stats.py")
    parser.add_argument("--known", type=Path, help="outcomes of an earlier run: changes noticed there are skipped")
    parser.add_argument("--listed", action="store_true", help="also try the changes listed in equivalent.yaml")
    return parser.parse_args()


def noticed_before(outcomes: Path) -> set[tuple[str, str]]:
    """Return function and text of the changes that the tests of an earlier run noticed."""
    lines = map(json.loads, outcomes.read_text(encoding="utf-8").splitlines())
    return {(Change(line["name"], line["text"]).function, line["text"]) for line in lines if line["outcome"] == NOTICED}


def main() -> int:
    arguments = parse_arguments()
    noticed = noticed_before(arguments.known) if arguments.known else set()
    equivalent = Equivalent(Path(__file__).parent / "equivalent.yaml")
    copy_checkout(ROOT, COPY)
    os.chdir(COPY)
    config()  # mutmut reads it from the current folder, which tests change later
    changes_by_function = write_changes(arguments.modules)
    selected = {
        function: [
            change
            for change in changes
            if (arguments.listed or change not in equivalent) and (function, change.text) not in noticed
        ]
        for function, changes in changes_by_function.items()
        if fnmatch.fnmatch(function, arguments.functions)
    }
    record = Record(sum(map(len, selected.values())))
    set_mutant_under_test("none")
    tests = [f"tests/unit/{name}" for name in arguments.tests] or ["tests/unit"]
    code = pytest.main([*PYTEST, *tests], plugins=[Trials(selected, record.add)])
    if code != pytest.ExitCode.OK:
        return int(code)
    return print_results(list(record.last.values()), equivalent.stale(changes_by_function))


def print_results(results: list[Result], stale: list[str]) -> int:
    """Print the results, and return the exit status."""
    counts: dict[str, Counter[bool]] = defaultdict(Counter)
    unnoticed: dict[str, list[str]] = defaultdict(list)
    for result in results:
        counts[module_of(result.change.function)][result.outcome == NOTICED] += 1
        if result.outcome != NOTICED:
            unnoticed[result.change.function].append(f"{result.outcome}: {result.change.text}")
    for function, changes in sorted(unnoticed.items()):
        print(function, *changes, sep="\n  ")
    for function in stale:
        print(f"equivalent.yaml: {function} has an entry for a change that does not exist")
    for module, by_noticed in sorted(counts.items()):
        print(f"{module:32} {by_noticed[True] / by_noticed.total():7.1%} of {by_noticed.total()}")
    total = sum(counts.values(), Counter[bool]())
    print(f"{'all':32} {total[True] / total.total():7.1%} of {total.total()}")
    return 0 if total[True] >= MIN_SHARE * total.total() else 1


if __name__ == "__main__":
    sys.exit(main())
