"""Bridge (Wang et al., 2024): novice tutors' replies with experts' revisions. Licence CC BY-NC 4.0 (hub card)."""

from __future__ import annotations

from collections.abc import Iterable

from maieutic.config.datasets import Source
from maieutic.core.records import Pair
from maieutic.datasets.mrbench import bridge_topics
from maieutic.datasets.text import cluster_of
from maieutic.serving.conversations import UNKNOWN_SOLUTION, dialogue, merged, role_of


def said(turns: Iterable[Source]) -> str:
    """Several turns of one speaker as one reply."""
    return " ".join(turn["text"].strip() for turn in turns).strip()


def preferences(train: list[Source], validation: list[Source], test: list[Source], mrbench: list[Source]) -> list[Pair]:
    """The expert's reply over the novice's: 482 test pairs (MathTutorBench, Table 2).

    The leakage rule: an item is left out where its topic is one of MRBench's, which the reward models are trained on.
    Pairs of one topic belong together (`problem`): the 482 have 167 topics.
    """
    leaked = bridge_topics(mrbench)
    pairs = []
    for number, record in enumerate([*train, *validation, *test]):
        if record["lesson_topic"] in leaked:
            continue
        history = merged((role_of(turn["user"]), turn["text"]) for turn in record["c_h"])
        pairs.append(
            Pair(
                id=f"bridge-{number:03d}",
                source="bridge",
                problem=cluster_of(record["lesson_topic"]),
                prompt=dialogue("", UNKNOWN_SOLUTION, history),
                chosen=said(record["c_r_"]),
                rejected=said(record["c_r"]),
                margin=1.0,
            )
        )
    return pairs
