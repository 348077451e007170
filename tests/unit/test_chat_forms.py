"""Tests of public chat data: records in each card's schema become chats, and unsuitable ones are counted."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from maieutic.benchmarks.kmpbench.orca_math import orca_math_items
from maieutic.core.errors import UserError
from maieutic.curation.examples import ChatSource, UnsuitableChatError, chat_of, chats
from maieutic.curation.seeds import SeedSource, seeds_of

ULTRACHAT = {"id": "0", "data": ["How can cross training help?", "It can help in several ways.", "Which?", "Strength."]}
WILDCHAT: dict[str, Any] = {
    "conversation_hash": "a", "model": "gpt-4", "turn": 2, "language": "English",
    "conversation": [
        {"content": "Hi", "role": "user", "hashed_ip": "x", "header": {"user-agent": "y"}, "toxic": False},
        {"content": "Hello", "role": "assistant", "hashed_ip": None, "header": None, "toxic": False},
        {"content": "2+2?", "role": "user", "hashed_ip": "x", "header": {"user-agent": "y"}, "toxic": False},
        {"content": "4", "role": "assistant", "hashed_ip": None, "header": None, "toxic": False},
    ],
}  # fmt: skip
MATHCHAT = {"conversations": [{"from": "human", "value": "2+2?"}, {"from": "gpt", "value": "4"}]}
TUTORCHAT = {"conversation": ["Chapter 1", "What is it?", "A sum."], "mode": "openbook", "name": "n", "num_turns": 1}


def roles_of(record: dict[str, Any]) -> list[str]:
    messages = chat_of(record)
    assert messages is not None and all(set(message) == {"role", "content"} for message in messages)
    return [message["role"] for message in messages]


@pytest.mark.parametrize(("record", "roles"), [
    (ULTRACHAT, ["user", "assistant", "user", "assistant"]),
    (WILDCHAT, ["user", "assistant", "user", "assistant"]),
    (MATHCHAT, ["user", "assistant"]),
    (TUTORCHAT, ["system", "user", "assistant"]),
    ({**TUTORCHAT, "mode": "closedbook", "conversation": ["Hi, what is it?", "No idea", "A sum."]}, ["assistant", "user", "assistant"]),
    ({**TUTORCHAT, "mode": "singleturn", "conversation": ["Chapter", "### STUDENT: What is it?\nTEACHER: A sum.\nTwo lines"]}, ["user", "assistant"]),
    ({**TUTORCHAT, "mode": "singleturn", "conversation": ["QUESTION: 2+2?\nANSWER: 4"]}, ["user", "assistant"]),
])  # fmt: skip
def test_each_schema_becomes_a_chat(record: dict[str, Any], roles: list[str]) -> None:
    assert roles_of(record) == roles


@pytest.mark.parametrize(("record", "reason"), [
    ({**WILDCHAT, "turn": 1}, "a single exchange"),
    ({**WILDCHAT, "conversation": [{"content": "", "role": "user"}, {"content": "Hello", "role": "assistant"}]}, "an empty message"),
    ({**WILDCHAT, "conversation": [{"content": None, "role": "user"}]}, "an empty message"),
    ({"conversations": [{"from": "observation", "value": "x"}]}, "unknown speaker"),
    ({"conversations": [{"from": "human", "value": None}]}, "unknown speaker"),
    ({**TUTORCHAT, "mode": "other"}, "unknown mode 'other'"),
    ({**TUTORCHAT, "mode": "singleturn", "conversation": ["no speakers here"]}, "not a question and its answer"),
    ({**TUTORCHAT, "mode": "singleturn", "conversation": ["STUDENT: a\nSTUDENT: b"]}, "not a question and its answer"),
])  # fmt: skip
def test_a_conversation_that_is_no_example_says_why(record: dict[str, Any], reason: str) -> None:
    with pytest.raises(UnsuitableChatError, match=reason):
        chat_of(record)


@pytest.mark.parametrize(
    "record", [{}, {"data": "text"}, {"data": []}, {"conversation": ["a"]}, {"conversations": [1]}]
)
def test_other_records_are_in_none_of_the_formats(record: dict[str, Any]) -> None:
    assert chat_of(record) is None


def test_unsuitable_conversations_are_counted_and_others_refused(tmp_path: Path) -> None:
    path, unsuitable = tmp_path / "chats.jsonl", Counter[str]()
    records = [WILDCHAT, {**WILDCHAT, "turn": 1}, {**WILDCHAT, "turn": 1}, MATHCHAT]
    path.write_text("\n".join(map(json.dumps, records)), encoding="utf-8")
    source = ChatSource(name="wild", share=1.0, form="jsonl")
    examples = chats(source, path, "tunings.t.mix.wild", unsuitable)
    assert [example["id"] for example in examples] == ["0", "3"] and unsuitable == {"a single exchange": 2}
    path.write_text(json.dumps({"question": "2+2?"}), encoding="utf-8")
    with pytest.raises(UserError, match=r"tunings\.t\.mix\.wild: record 0 is not a chat"):
        chats(source, path, "tunings.t.mix.wild", unsuitable)


ORCA = [
    {"question": "How many apples are 3 and 4?", "answer": "Three and four make seven, so 3 + 4 = 7. There are 7 apples."},
    {"question": "What does he pay?", "answer": "He pays 5 x $1,000 = $5,000. Therefore, he pays $5,000."},
    {"question": "Is it so?", "answer": "Yes, it is."},
]  # fmt: skip


def test_seeds_of_orca_math_have_the_final_number_of_the_solution() -> None:
    items = orca_math_items(ORCA, "seeds")
    assert [item.reference["answer"] for item in items] == ["7", "5000", ""]
    source = SeedSource(dataset="orca_math", loader="orca_math", form="parquet", licence="MIT")
    seeds = seeds_of(items, source, "curations.c.seeds.orca_math")
    assert [(seed.answer, seed.solution) for seed in seeds] == [("7", ORCA[0]["answer"]), ("5000", ORCA[1]["answer"])]
