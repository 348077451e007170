"""Tests of trivial tutors: their replies, and no reply where the data lack the text that they would repeat."""

from __future__ import annotations

import pytest
from maieutic.core.records import NO_REPLY, Item
from maieutic.replies.baselines import baseline_reply


def item(**reference: object) -> Item:
    return Item(id="a-1", task="t", cluster="p", vars={"dialog": "Tutor: Hi."}, reference=reference, tags={})


@pytest.mark.parametrize(("tutor", "reference", "expected"), [
    ("reveal", {"text": "Well done.", "solution": "2 + 2 = 4"}, ["The answer is: 2 + 2 = 4"]),
    ("reveal", {"text": "4"}, ["The answer is: 4"]),
    ("reveal", {"text": "Well done.", "solution": "N/A"}, []),
    ("reveal", {"text": "Well done.", "solution": " "}, []),
    ("reveal", {"text": ""}, []),
    ("reference", {"text": "Well done."}, ["Well done."]),
    ("reference", {"text": " "}, []),
    ("reference", {"text": "b", "replies": ["a", "b"]}, ["a", "b"]),
])  # fmt: skip
def test_a_trivial_tutor_replies_only_with_texts_of_the_data(
    tutor: str, reference: dict[str, object], expected: list[str]
) -> None:
    reply = baseline_reply("name", tutor, item(**reference), max(1, len(expected)))
    assert [turn.text for turn in reply.turns] == expected
    assert reply.error == (None if expected else NO_REPLY)
