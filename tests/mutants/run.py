"""Change the code in small ways, one at a time, and see whether a unit test notices: `make mutants` (hours).

In a copy of the checkout, `.mutants`: mutmut makes the changes, and for each the tests that reach the changed function
are run to the first that fails: the quick ones for every change, then all of them for those that are left. Prints each
change that no test notices and `equivalent.yaml` does not list with the reason why none can, and the share of those
noticed by module. Ends with 1 below 95 %. What became of each stands in `.mutants/outcomes.jsonl` as it comes.
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
from changes import Change, copy_checkout, write_changes
from mutmut.configuration import config
from mutmut.mutation.trampoline import set_mutant_under_test
from trying import NOTICED, TEST_SECONDS, Trials, Tried

ROOT = Path(__file__).parents[2]
COPY = ROOT / ".mutants"
OUTCOMES = COPY / "outcomes.jsonl"
MODULES = ["core/*", "scores/*", "graders/*", "plan/*", "serving/conversations.py"]
ENOUGH = 0.95
SAY_SECONDS = 30.0
PYTEST = ["-q", "-m", "not slow and not own_text", "--capture=sys", f"--timeout={TEST_SECONDS}"]


class Equivalent:
    """The changes that no test can tell from the original: of one function, and those of which it holds everywhere."""

    def __init__(self, path: Path) -> None:
        known: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
        self.rules: list[dict[str, str]] = known.pop("everywhere")
        self.of_function: dict[str, dict[str, str]] = known

    def __contains__(self, change: Change) -> bool:
        return change.text in self.of_function.get(change.function, {}) or self.is_everywhere(change.text)

    def is_everywhere(self, text: str) -> bool:
        """Whether a rule is about this change. text: `-old +new`."""
        places = [place for place in range(len(text)) if text.startswith(" +", place)]
        pairs = [(text[1:place], text[place + 2 :]) for place in places]
        return any(
            rule["old"] in old and old.replace(rule["old"], rule["new"], 1) == new
            for old, new in pairs
            for rule in self.rules
        )

    def stale(self, changes: dict[str, list[Change]]) -> list[str]:
        """Functions with an entry about a change that is none any more, of the modules that were changed."""
        modules = {module_of(function) for function in changes}
        return [
            function
            for function, texts in self.of_function.items()
            if module_of(function) in modules and texts.keys() - {change.text for change in changes.get(function, [])}
        ]


class Record:
    """The outcomes as they come: a line each in `outcomes.jsonl`, and now and then one on the terminal."""

    def __init__(self, total: int) -> None:
        self.total, self.said = total, time.monotonic()
        self.last: dict[str, Tried] = {}

    def add(self, tried: Tried) -> None:
        """Put one down."""
        self.last[tried.change.name] = tried
        line = {**tried.change._asdict(), "outcome": tried.outcome, "test": tried.test}
        with open(OUTCOMES, "a", encoding="utf-8") as handle:
            handle.write(json.dumps(line, ensure_ascii=False) + "\n")
        if time.monotonic() - self.said > SAY_SECONDS:
            self.said = time.monotonic()
            counts = Counter(one.outcome for one in self.last.values())
            told = ", ".join(f"{number} {outcome}" for outcome, number in counts.most_common())
            print(f"{len(self.last)} of {self.total} changes: {told}", file=sys.__stderr__, flush=True)


def module_of(function: str) -> str:
    """`core.stats` of `maieutic.core.stats.x_share`."""
    return function.replace(".xǁ", ".x_").partition(".x_")[0].removeprefix("maieutic.")


def options() -> argparse.Namespace:
    """What is asked for on the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("modules", nargs="*", default=MODULES, help="patterns of modules, below workflow/maieutic")
    parser.add_argument("--functions", default="*", help="only functions of this pattern: '*.x_share'")
    parser.add_argument("--tests", nargs="*", default=[], help="only these files of tests/unit: test_stats.py")
    parser.add_argument("--known", type=Path, help="outcomes of an earlier run: what was noticed is not tried again")
    parser.add_argument("--listed", action="store_true", help="try those of equivalent.yaml too")
    return parser.parse_args()


def noticed_before(outcomes: Path) -> set[tuple[str, str]]:
    """Function and text of the changes that an earlier run's tests noticed."""
    lines = map(json.loads, outcomes.read_text(encoding="utf-8").splitlines())
    return {(Change(line["name"], line["text"]).function, line["text"]) for line in lines if line["outcome"] == NOTICED}


def main() -> int:
    asked = options()
    known = noticed_before(asked.known) if asked.known else set()
    listed = Equivalent(Path(__file__).parent / "equivalent.yaml")
    copy_checkout(ROOT, COPY)
    os.chdir(COPY)
    config()  # mutmut reads it from the current folder, which tests change
    every = write_changes(asked.modules)
    wanted = {
        function: [
            change
            for change in changes
            if (asked.listed or change not in listed) and (function, change.text) not in known
        ]
        for function, changes in every.items()
        if fnmatch.fnmatch(function, asked.functions)
    }
    record = Record(sum(map(len, wanted.values())))
    set_mutant_under_test("none")
    tests = [f"tests/unit/{name}" for name in asked.tests] or ["tests/unit"]
    code = pytest.main([*PYTEST, *tests], plugins=[Trials(wanted, record.add)])
    if code != pytest.ExitCode.OK:
        return int(code)
    return tell(list(record.last.values()), listed.stale(every))


def tell(tried: list[Tried], stale: list[str]) -> int:
    """Print what became of the changes; gives the exit status."""
    counts: dict[str, Counter[bool]] = defaultdict(Counter)
    unnoticed: dict[str, list[str]] = defaultdict(list)
    for one in tried:
        counts[module_of(one.change.function)][one.outcome == NOTICED] += 1
        if one.outcome != NOTICED:
            unnoticed[one.change.function].append(f"{one.outcome}: {one.change.text}")
    for function, changes in sorted(unnoticed.items()):
        print(function, *changes, sep="\n  ")
    for function in stale:
        print(f"equivalent.yaml: {function} has no such change any more")
    for module, of in sorted(counts.items()):
        print(f"{module:32} {of[True] / of.total():7.1%} of {of.total()}")
    total = sum(counts.values(), Counter[bool]())
    print(f"{'all':32} {total[True] / total.total():7.1%} of {total.total()}")
    return 0 if total[True] >= ENOUGH * total.total() else 1


if __name__ == "__main__":
    sys.exit(main())
