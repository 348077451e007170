"""UltraFeedback, binarized (Cui et al., 2024): general requests with a better and a worse answer. Licence MIT."""

from __future__ import annotations

from maieutic.config.datasets import Source
from maieutic.core.records import Pair
from maieutic.datasets.text import cluster_of


def answer(value: object) -> str:
    """A reply that is a text, or the last message of a conversation."""
    reply = value[-1]["content"] if isinstance(value, list) else value
    return str(reply).strip()


def preferences(records: list[Source]) -> list[Pair]:
    """One pair a record; the margin is 1, since the scores are on another scale than the tutoring criteria."""
    return [
        Pair(
            id=f"ultrafeedback-{number:05d}",
            source="ultrafeedback",
            problem=cluster_of(record["prompt"]),
            prompt=[{"role": "user", "content": record["prompt"]}],
            chosen=answer(record["chosen"]),
            rejected=answer(record["rejected"]),
            margin=1.0,
            tutoring=False,
        )
        for number, record in enumerate(records)
    ]
