"""UltraFeedback, binarized (Cui et al., 2024): general requests with a better and a worse answer. Licence: MIT."""

from __future__ import annotations

from maieutic.config.datasets import SourceRecord
from maieutic.core.records import Pair
from maieutic.datasets.text import cluster_of


def message_or_text(value: object) -> str:
    """Return a reply as text. If the reply is a list of messages, it is the text of the last message."""
    reply = value[-1]["content"] if isinstance(value, list) else value
    return str(reply).strip()


def ultrafeedback_pairs(records: list[SourceRecord]) -> list[Pair]:
    """Return one pair per record. The margin is 1, since the scores and the tutoring criteria have different scales."""
    return [
        Pair(
            id=f"ultrafeedback-{number:05d}",
            source="ultrafeedback",
            problem=cluster_of(record["prompt"]),
            prompt=[{"role": "user", "content": record["prompt"]}],
            chosen=message_or_text(record["chosen"]),
            rejected=message_or_text(record["rejected"]),
            margin=1.0,
            tutoring=False,
        )
        for number, record in enumerate(records)
    ]
