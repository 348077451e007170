"""Tests that each reader of a model's text takes linear time: a looping reply must not delay a run for hours."""

from __future__ import annotations

import os
import random

import pytest
from hostile_texts import MOST_RATIO, NOTICED, SIZES, UNITS, readers, seconds, shapes, text_of

MEGABYTE = 1_000_000
# MAIEUTIC_SHAPES=all tests every unit, including those of the package's patterns, which takes half an hour.
TEST_ALL = os.environ.get("MAIEUTIC_SHAPES") == "all"
STEP, SAMPLE_SIZE = 3, 6  # otherwise every third one of UNITS, and this number of the patterns' units
HEADS = ("[[" * 3000, "{" * 3000, '{"a":' * 3000, "<think>", "\\boxed{" * 500, "| a | b |\n|---|---|\n", "```json\n")
READERS = readers()


def selected_shapes() -> list[tuple[str, str]]:
    """Return the shapes of this test: common units, units behind a head, and a sample of the patterns' own units."""
    pattern_shapes = [shape for shape in shapes() if shape[1] not in UNITS]
    heads = [(head, unit) for head in HEADS for unit in ("a", "}", "1 ")]
    if TEST_ALL:
        return [*(("", unit) for unit in UNITS), *heads, *pattern_shapes]
    return [
        *(("", unit) for unit in UNITS[::STEP]),
        *heads[::STEP],
        *random.Random(1).sample(pattern_shapes, SAMPLE_SIZE),
    ]


@pytest.mark.slow
@pytest.mark.parametrize("name", READERS)
def test_a_reader_takes_linear_time(name: str) -> None:
    """Compare CPU times. A busy machine slows single readings, so each of three comparisons must show the same."""
    slow = []
    for shape in selected_shapes():
        short, long = (text_of(shape, size) for size in SIZES)
        first = seconds(READERS[name], long, 1)
        if first > max(NOTICED, MOST_RATIO * seconds(READERS[name], short, 1)) and all(
            seconds(READERS[name], long) > MOST_RATIO * seconds(READERS[name], short) for _ in range(3)
        ):
            slow.append((shape[0][:20], shape[1]))
    assert not slow, slow[:3]


@pytest.mark.slow
@pytest.mark.parametrize("name", READERS)
def test_a_megabyte_is_read_in_two_seconds(name: str) -> None:
    for unit in ("-", " ", "a ", "sk-", "1", '{"a":', "initially ", "? "):
        assert seconds(READERS[name], text_of(("", unit), MEGABYTE), 1) < 2, unit
