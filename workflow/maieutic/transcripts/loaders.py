"""Loaders of transcripts' moments and whole conversations, by their names on cards."""

from __future__ import annotations

from maieutic.config.datasets import SourceRecord
from maieutic.core.records import Item
from maieutic.datasets.loaders import Loader
from maieutic.transcripts.moments import dialogue_text, reply_of, whole_id

MOMENT_VARIABLES = {"question", "history", "topic", "level", "message"}


def moment_items(records: list[SourceRecord], task: str) -> list[Item]:
    """Return the moments as items that ask for the tutor's next turn. The reference is the reply that was given.

    Items of one conversation form one cluster.
    """
    items = []
    for record in records:
        for moment in record["moments"]:
            *before, last = record["messages"][: moment["message"]]
            items.append(
                Item(
                    id=moment["id"],
                    task=task,
                    cluster=record["conversation"],
                    vars={
                        "question": record["problem"],
                        "history": dialogue_text([*before, last]),
                        "topic": "",
                        "level": "",
                        "message": last["content"],
                    },
                    reference={"text": reply_of(record, moment), "solution": record["solution"]},
                    tags=moment["tags"],
                    history=before,
                )
            )
    return items


def conversation_items(records: list[SourceRecord], task: str) -> list[Item]:
    """Return one item per conversation, whose recorded reply is the whole dialogue."""
    return [
        Item(
            id=whole_id(record),
            task=task,
            cluster=record["conversation"],
            vars={"question": record["problem"]},
            reference={"text": "", "solution": record["solution"]},
            tags=record["tags"],
        )
        for record in records
    ]


LOADERS = {
    "transcript_moments": Loader(moment_items, MOMENT_VARIABLES, has_solution=True, has_human_reply=False),
    "transcript_conversations": Loader(conversation_items, {"question"}, has_solution=True, has_human_reply=False),
}
