"""Replies in MRBench's own files: of each dialogue those of all tutors, labelled or not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from maieutic.core.records import Item
from maieutic.datasets.mrbench import TASK, item_of, responses_of
from maieutic.replies.forms import RecordedForm


def tutors(record: Mapping[str, Any]) -> dict[str, str]:
    """What each tutor replied."""
    return {name: str(response["response"]) for name, response in responses_of(dict(record)).items()}


def item(record: Mapping[str, Any]) -> Item:
    """The dialogue."""
    return item_of(dict(record), "recorded", TASK)


RECORDED = {"mrbench": RecordedForm("mrbench", lambda path: TASK, tutors, item)}
