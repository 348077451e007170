"""Reader of the replies in MRBench's released files. A record contains a dialogue and the replies of all tutors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from maieutic.core.records import Item
from maieutic.datasets.mrbench import TASK, dialogue_item, responses_of
from maieutic.replies.foreign_formats import RecordedForm


def mrbench_replies(record: Mapping[str, Any]) -> dict[str, str]:
    """Return the reply of each tutor in a record."""
    return {name: str(response["response"]) for name, response in responses_of(dict(record)).items()}


def mrbench_item_of(record: Mapping[str, Any]) -> Item:
    """Return the item of a record, identified by its dialogue."""
    return dialogue_item(dict(record), "recorded", TASK)


RECORDED = {"mrbench": RecordedForm("mrbench", lambda path: TASK, mrbench_replies, mrbench_item_of)}
