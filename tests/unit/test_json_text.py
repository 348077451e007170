"""Tests of the extraction of JSON objects from a text, against a decoder started at each brace."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from maieutic.core.json_text import json_objects

DECODER = json.JSONDecoder()
PARTS = ["{", "}", '"a"', ":", "1", ",", "[", "]", " ", "x", '"', "\\", '{"a":', '{"b":2}', '"{"', "\n", "'", "NaN"]


def objects_by_brace(text: str) -> list[tuple[int, int, dict[str, Any]]]:
    """Return the objects found by a decoder started at each brace, which takes quadratic time."""
    objects, place = [], text.find("{")
    while place >= 0:
        end = place + 1
        try:
            value, end = DECODER.raw_decode(text, place)
            objects.append((place, end, value))
        except ValueError:
            pass
        place = text.find("{", end)
    return objects


def test_objects_are_those_that_a_decoder_finds_from_each_brace() -> None:
    rng, nonempty = random.Random(3), 0
    for _ in range(40_000):
        text = "".join(rng.choice(PARTS) for _ in range(rng.randint(1, 24)))
        objects = [entry for entry in json_objects(text, DECODER) if entry[2] is not None]
        assert str(objects) == str(objects_by_brace(text)), text
        nonempty += bool(objects)
    assert nonempty > 5000


@pytest.mark.parametrize("unit", ['{"a":', "{", '{"a":{"b":1},', '{"a":[{', '{"a":"{'])
def test_each_brace_is_decoded_once_at_most(unit: str) -> None:
    """Count decoded characters instead of time: a decoder started at each brace would read the rest each time."""

    class CountingDecoder(json.JSONDecoder):
        read = 0

        def raw_decode(self, s: str, idx: int = 0) -> tuple[Any, int]:
            try:
                value, end = super().raw_decode(s, idx)
            except json.JSONDecodeError as error:
                CountingDecoder.read += error.pos - idx
                raise
            CountingDecoder.read += end - idx
            return value, end

    text = unit * 180  # less deep than Python's recursion limit
    list(json_objects(text, CountingDecoder()))
    assert CountingDecoder.read < 4 * len(text)


def test_objects_nested_too_deeply_for_python_are_skipped() -> None:
    deep = '{"a":' * 100_000
    objects = [entry[2] for entry in json_objects(f'{deep} {{"b": 1}}', DECODER) if entry[2] is not None]
    assert objects in ([{"b": 1}], []) and sum(1 for _ in json_objects(deep, DECODER)) < 2000
