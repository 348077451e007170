"""Trivial tutors: what they say, and that they say nothing where the data give them nothing to say."""

from __future__ import annotations

import pytest
from maieutic.core.records import NO_REPLY, Item
from maieutic.replies.baselines import baseline_reply


def item(**reference: object) -> Item:
    return Item(id="a-1", task="t", cluster="p", vars={"dialog": "Tutor: Hi."}, reference=reference, tags={})


@pytest.mark.parametrize(
    ("tutor", "reference", "said"),
    [
        ("reveal", {"text": "Well done.", "solution": "2 + 2 = 4"}, ["The answer is: 2 + 2 = 4"]),
        ("reveal", {"text": "4"}, ["The answer is: 4"]),
        ("reveal", {"text": "Well done.", "solution": "N/A"}, []),
        ("reveal", {"text": "Well done.", "solution": " "}, []),
        ("reveal", {"text": ""}, []),
        ("reference", {"text": "Well done."}, ["Well done."]),
        ("reference", {"text": " "}, []),
        ("reference", {"text": "b", "replies": ["a", "b"]}, ["a", "b"]),
    ],
)
def test_what_the_data_lack_is_no_reply(tutor: str, reference: dict[str, object], said: list[str]) -> None:
    reply = baseline_reply("name", tutor, item(**reference), max(1, len(said)))
    assert [turn.text for turn in reply.turns] == said
    assert reply.error == (None if said else NO_REPLY)
