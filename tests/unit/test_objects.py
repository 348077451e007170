"""The objects of a text, as a decoder finds them that is started at each brace."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from maieutic.core.json_text import json_objects

DECODER = json.JSONDecoder()
PARTS = ["{", "}", '"a"', ":", "1", ",", "[", "]", " ", "x", '"', "\\", '{"a":', '{"b":2}', '"{"', "\n", "'", "NaN"]


def one_by_one(text: str) -> list[tuple[int, int, dict[str, Any]]]:
    """What is found where each brace is tried anew: quadratic."""
    found, place = [], text.find("{")
    while place >= 0:
        end = place + 1
        try:
            value, end = DECODER.raw_decode(text, place)
            found.append((place, end, value))
        except ValueError:
            pass
        place = text.find("{", end)
    return found


def test_objects_are_those_that_a_decoder_finds_from_each_brace() -> None:
    draw, read = random.Random(3), 0
    for _ in range(40_000):
        text = "".join(draw.choice(PARTS) for _ in range(draw.randint(1, 24)))
        found = [one for one in json_objects(text, DECODER) if one[2] is not None]
        assert str(found) == str(one_by_one(text)), text
        read += bool(found)
    assert read > 5000


@pytest.mark.parametrize("unit", ['{"a":', "{", '{"a":{"b":1},', '{"a":[{', '{"a":"{'])
def test_each_brace_is_decoded_once_at_most(unit: str) -> None:
    """Counted, not timed: a decoder from each brace would read the rest of the text as often."""

    class Counting(json.JSONDecoder):
        read = 0

        def raw_decode(self, s: str, idx: int = 0) -> tuple[Any, int]:
            try:
                value, end = super().raw_decode(s, idx)
            except json.JSONDecodeError as error:
                Counting.read += error.pos - idx
                raise
            Counting.read += end - idx
            return value, end

    text = unit * 180  # nested less deeply than Python reads
    list(json_objects(text, Counting()))
    assert Counting.read < 4 * len(text)


def test_what_is_nested_deeper_than_python_reads_is_passed_over() -> None:
    deep = '{"a":' * 100_000
    found = [one[2] for one in json_objects(f'{deep} {{"b": 1}}', DECODER) if one[2] is not None]
    assert found in ([{"b": 1}], []) and sum(1 for _ in json_objects(deep, DECODER)) < 2000
