"""Accuracy of the robust answer parsers on whole replies: real reasoning, then a last line with a known value.

The last lines were written by people who had not seen the parsers. The set `seen` was known while the parsers were
written. `opened` was first used when they read all of `seen`, and the parsers were fixed afterwards. `fresh`, free speech
with slang and typing errors, was used last. `second` is a second set of kinds: one half was fixed before the other was
used.
"""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path

import pytest
from built_replies import build
from maieutic.graders.answers import read_final
from maieutic.graders.steps import read_step
from maieutic.graders.yes_no import read_yes_no

TABLES = Path(__file__).parents[1] / "tables"
PER_FORM = 4
# Lowest share of replies parsed correctly and highest share parsed wrongly; the rest is unreadable.
LIMITS = {
    "seen": {"step": (0.995, 0.002), "yes_no": (0.995, 0.002), "number": (0.995, 0.002)},
    "opened": {"step": (0.995, 0.002), "yes_no": (0.995, 0.002), "number": (0.995, 0.002)},
    "second": {"step": (0.995, 0.002), "yes_no": (0.995, 0.002), "number": (0.995, 0.002)},
    "fresh": {"step": (0.85, 0.05), "yes_no": (0.75, 0.03), "number": (0.90, 0.07)},
}


def parse(task: str, text: str) -> float | bool | None:
    """Return the value that the robust parser of a task finds in a reply."""
    if task == "number":
        return read_final(text).value
    return read_step(text).value if task == "step" else read_yes_no(text).value


def outcome_of(expected: float | bool | None, value: float | bool | None) -> str:
    if value is None or expected is None:
        return "right" if value is expected else "wrong" if expected is None else "unread"
    return "right" if math.isclose(value, expected, rel_tol=1e-9) else "wrong"


@pytest.mark.slow
@pytest.mark.parametrize("kinds", LIMITS)
def test_last_lines_after_real_reasoning_are_read(kinds: str, data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    counts: Counter[tuple[str, str]] = Counter()
    for reply in build(TABLES / f"last_lines_{kinds}.yaml", data, 1, PER_FORM):
        counts[reply["task"], outcome_of(reply["value"], parse(reply["task"], reply["text"]))] += 1
    for task, (least_right, most_wrong) in LIMITS[kinds].items():
        total = sum(counts[task, outcome] for outcome in ("right", "wrong", "unread"))
        right, wrong = counts[task, "right"] / total, counts[task, "wrong"] / total
        with capsys.disabled():
            print(f"\n{kinds} {task}: {total} replies, {right:.1%} right, {wrong:.1%} wrong")
        assert total > 400 and right >= least_right and wrong <= most_wrong
