"""Bridge (Wang et al., 2024): novice tutors' replies with revisions by experts. Licence: CC BY-NC 4.0 (hub card)."""

from __future__ import annotations

from collections.abc import Iterable

from maieutic.config.datasets import SourceRecord
from maieutic.core.records import Pair
from maieutic.datasets.mrbench import bridge_topics
from maieutic.datasets.text import cluster_of
from maieutic.serving.conversations import UNKNOWN_SOLUTION, merge_turns, messages_before_reply, role_of


def join_turn_texts(turns: Iterable[SourceRecord]) -> str:
    """Join the texts of one speaker's turns into one reply."""
    return " ".join(turn["text"].strip() for turn in turns).strip()


def bridge_pairs(
    train: list[SourceRecord], validation: list[SourceRecord], test: list[SourceRecord], mrbench: list[SourceRecord]
) -> list[Pair]:
    """Return pairs that prefer an expert's reply to a novice's reply: 482 test pairs (MathTutorBench, Table 2).

    Records on a topic that occurs in MRBench are left out, since the reward models are trained on MRBench. Pairs on the
    same topic have the same `problem`: the 482 pairs have 167 topics.
    """
    leaked = bridge_topics(mrbench)
    pairs = []
    for number, record in enumerate([*train, *validation, *test]):
        if record["lesson_topic"] in leaked:
            continue
        history = merge_turns((role_of(turn["user"]), turn["text"]) for turn in record["c_h"])
        pairs.append(
            Pair(
                id=f"bridge-{number:03d}",
                source="bridge",
                problem=cluster_of(record["lesson_topic"]),
                prompt=messages_before_reply("", UNKNOWN_SOLUTION, history),
                chosen=join_turn_texts(record["c_r_"]),
                rejected=join_turn_texts(record["c_r"]),
                margin=1.0,
            )
        )
    return pairs
