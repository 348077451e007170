"""The JSON schemas in workflow/schemas, made from the declarations in this package (one fact in one place)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import BaseModel, TypeAdapter

from maieutic.cards import Card
from maieutic.datasets.sources import Dataset
from maieutic.files import whole_file
from maieutic.journal import Entry, Scored
from maieutic.judges.rubrics import Rubric
from maieutic.models import ModelEntry
from maieutic.records import (
    Grade,
    Item,
    Judgement,
    Label,
    Labelling,
    Pair,
    PairReward,
    Prompt,
    Reply,
    Reward,
    Score,
)
from maieutic.settings import Config

RECORDS: list[type[BaseModel]] = [
    Item,
    Reply,
    Prompt,
    Pair,
    Reward,
    PairReward,
    Labelling,
    Label,
    Judgement,
    Grade,
    Score,
]


def overlay_schema() -> dict[str, Any]:
    """The configuration's schema for a file that holds a part of it: what an editor checks."""
    schema = Config.model_json_schema()
    schema["required"] = []
    schema["$defs"]["Run"]["required"] = []
    return schema


def all_schemas() -> dict[str, str]:
    """File name to JSON text."""
    schemas = {
        "config": Config.model_json_schema(),
        "overlay": overlay_schema(),
        "models": TypeAdapter(dict[str, ModelEntry]).json_schema(),
        "datasets": TypeAdapter(dict[str, Dataset]).json_schema(),
        "card": Card.model_json_schema(),
        "rubric": Rubric.model_json_schema(),
        "journal": Entry.model_json_schema(),
        "scored": Scored.model_json_schema(),
        **{kind.__name__.lower(): kind.model_json_schema() for kind in RECORDS},
    }
    return {
        f"{name}.schema.json": json.dumps(schema, indent=1, sort_keys=True) + "\n" for name, schema in schemas.items()
    }


def export_schemas(out: Path) -> None:
    """Write every schema into the folder `out`."""
    for name, text in all_schemas().items():
        with whole_file(out / name) as handle:
            handle.write(text)
