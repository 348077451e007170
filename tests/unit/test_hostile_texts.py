"""No reader of a model's text takes more than linear time: one looping reply must not hold a run for hours."""

from __future__ import annotations

import os
import random

import pytest
from hostile_texts import MOST_RATIO, NOTICED, SIZES, UNITS, readers, seconds, shapes, text_of

MEGABYTE = 1_000_000
# With MAIEUTIC_SHAPES=all every unit is tried, for half an hour: every one that the package's patterns bring, too.
ALL = os.environ.get("MAIEUTIC_SHAPES") == "all"
OFTEN, SAMPLE = 2, 12  # else every second one of UNITS, and so many of the others
HEADS = ("[[" * 3000, "{" * 3000, '{"a":' * 3000, "<think>", "\\boxed{" * 500, "| a | b |\n|---|---|\n", "```json\n")
READERS = readers()


def tried() -> list[tuple[str, str]]:
    """Return the shapes of this test: common units, units behind a head, and a sample of the patterns' own units."""
    own = [shape for shape in shapes() if shape[1] not in UNITS]
    heads = [(head, unit) for head in HEADS for unit in ("a", "}", "1 ")]
    if ALL:
        return [*(("", unit) for unit in UNITS), *heads, *own]
    return [*(("", unit) for unit in UNITS[::OFTEN]), *heads[::OFTEN], *random.Random(1).sample(own, SAMPLE)]


@pytest.mark.slow
@pytest.mark.parametrize("name", READERS)
def test_a_reader_takes_linear_time(name: str) -> None:
    """Compare CPU times, the least of three readings each. The ratio of readings under 50 ms is noise."""
    slow = []
    for shape in tried():
        half, whole = (seconds(READERS[name], text_of(shape, size), 1) for size in SIZES[1:])
        if whole < NOTICED or whole < 2 * half:  # of a reader that stops at some length, most
            continue
        taken = [seconds(READERS[name], text_of(shape, size)) for size in SIZES]
        slow += [
            (shape, size, before, after)
            for size, before, after in zip(SIZES[1:], taken, taken[1:], strict=False)
            if before > NOTICED and after > MOST_RATIO * before
        ]
    assert not slow, slow[:3]


@pytest.mark.slow
@pytest.mark.parametrize("name", READERS)
def test_a_megabyte_is_read_in_two_seconds(name: str) -> None:
    for unit in ("-", " ", "a ", "sk-", "1", '{"a":', "initially ", "? "):
        assert seconds(READERS[name], text_of(("", unit), MEGABYTE), 1) < 2, unit
