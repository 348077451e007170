"""The robust readers on whole replies: real reasoning, then a last line of a known value.

The last lines were written by people who had not seen the readers. `seen` was known while these were written; `opened`
was opened once they read all of `seen`, and mended afterwards; `fresh`, free speech with slang and typing errors, was
opened last; `second` is a second set of kinds, of which one half was mended before the other was opened.
docs/reading-answers.md gives the shares at the first opening of each.
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
# The least share that is read right, and the largest that is read wrong; the rest is unread.
FLOORS = {
    "seen": {"step": (0.995, 0.002), "yes_no": (0.995, 0.002), "number": (0.995, 0.002)},
    "opened": {"step": (0.995, 0.002), "yes_no": (0.995, 0.002), "number": (0.995, 0.002)},
    "second": {"step": (0.995, 0.002), "yes_no": (0.995, 0.002), "number": (0.995, 0.002)},
    "fresh": {"step": (0.85, 0.05), "yes_no": (0.75, 0.03), "number": (0.90, 0.07)},
}


def read(task: str, text: str) -> float | bool | None:
    if task == "number":
        return read_final(text).value
    found = read_step(text) if task == "step" else read_yes_no(text)
    return None if found is None else found[0]


def verdict(expected: float | bool | None, value: float | bool | None) -> str:
    if value is None or expected is None:
        return "right" if value is expected else "wrong" if expected is None else "unread"
    return "right" if math.isclose(value, expected, rel_tol=1e-9) else "wrong"


@pytest.mark.slow
@pytest.mark.parametrize("kinds", FLOORS)
def test_last_lines_after_real_reasoning_are_read(kinds: str, data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found: Counter[tuple[str, str]] = Counter()
    for reply in build(TABLES / f"last_lines_{kinds}.yaml", data, 1, PER_FORM):
        found[reply["task"], verdict(reply["value"], read(reply["task"], reply["text"]))] += 1
    for task, (least, most) in FLOORS[kinds].items():
        whole = sum(found[task, how] for how in ("right", "wrong", "unread"))
        right, wrong = found[task, "right"] / whole, found[task, "wrong"] / whole
        with capsys.disabled():
            print(f"\n{kinds} {task}: {whole} replies, {right:.1%} right, {wrong:.1%} wrong")
        assert whole > 400 and right >= least and wrong <= most
