"""The JSON schemas in workflow/schemas, made from the declarations in this package (one fact in one place)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pydantic import BaseModel, TypeAdapter

from maieutic.config.cards import Card
from maieutic.config.datasets import Dataset
from maieutic.config.faults import is_model, kinds_of
from maieutic.config.models import (
    BaselineModel,
    CriteriaModel,
    HostedModel,
    JudgeModel,
    Model,
    ModelEntry,
    RecordedModel,
    RewardModel,
    ServedModel,
    VllmModel,
    WeightsOnly,
)
from maieutic.config.settings import Config
from maieutic.core.files import whole_file
from maieutic.core.journal import Entry, Scored
from maieutic.core.records import (
    Difference,
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
from maieutic.judges.rubrics import Rubric

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
    Difference,
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
    """Write every schema into the folder `out`, and the tables of config/README.md anew."""
    for name, text in all_schemas().items():
        with whole_file(out / name) as handle:
            handle.write(text)
    page = config_page()
    with whole_file(CONFIG_PAGE) as handle:
        handle.write(page)


# config/README.md -----------------------------------------------------------------------------------------------------

CONFIG_PAGE = Path("config/README.md")
BEGIN, END = "<!-- keys: make schemas writes what follows -->", "<!-- end of keys -->"
ENGINES: dict[str, tuple[type[BaseModel], str]] = {
    "vllm": (VllmModel, "a tutor whose weights we serve"),
    "hosted": (HostedModel, "a tutor behind somebody else's endpoint"),
    "recorded": (RecordedModel, "a tutor whose replies exist already"),
    "baseline": (BaselineModel, "a trivial tutor"),
    "weights": (WeightsOnly, "a base for training that is no tutor"),
    "reward": (RewardModel, "a sequence classifier with one output: `weights` or `train`"),
    "criteria": (CriteriaModel, "binary classifiers on MRBench's labels"),
    "judge": (JudgeModel, "a model that answers, and rubric cards"),
}


def config_keys() -> str:
    """The tables of config/README.md: every key, what it means, and what it is where it is left out."""
    common, served = set(Model.model_fields), set(ServedModel.model_fields)
    models: set[type[BaseModel]] = set()
    parts = [
        "## Run file",
        *table(Config, {"models", "datasets"}, models),
        "## models.yaml: one entry a model",
        f"`engine` says what an entry is: {'; '.join(f'`{name}`, {what}' for name, (_, what) in ENGINES.items())}.",
        "Every entry may have:",
        *table(Model, set(), models),
        "Engines `vllm` and `hosted` besides:",
        *table(ServedModel, common, models),
    ]
    for name, (kind, what) in ENGINES.items():
        known = common | (served if issubclass(kind, ServedModel) else set())
        parts += [f"Engine `{name}`, {what}:", *table(kind, known, models)]
    return "\n\n".join([*parts, "## datasets.yaml: one entry a source file", *table(Dataset, set(), models)])


def table(model: type[BaseModel], without: set[str], models: set[type[BaseModel]]) -> list[str]:
    """The keys of a model as a Markdown table, those of models within it by their whole path.

    models: those whose keys stand in an earlier table; those of this one join them.
    """
    rows = [
        f"| `{name}` | {words[0].upper()}{words[1:]} | {default} |".replace("  |", " |")
        for name, words, default in keys_of(model, "", without, models)
    ]
    return ["\n".join(["| key | meaning | default |", "| --- | --- | --- |", *rows])]


def keys_of(
    model: type[BaseModel], prefix: str, without: set[str], models: set[type[BaseModel]]
) -> Iterable[tuple[str, str, str]]:
    """Each key with its meaning and its default as YAML writes it."""
    for name, field in model.model_fields.items():
        if name in without or name == "engine":
            continue
        default = field.get_default(call_default_factory=True)
        if field.description:
            plain = field.is_required() or isinstance(default, BaseModel)
            yield f"{prefix}{name}", field.description, "" if plain else f"`{json.dumps(default)}`"
        within = [kind.type for kind in kinds_of(field.annotation) if is_model(kind)]
        shared: set[str] = set()
        for child in within:
            if child not in models:
                models.add(child)
                yield from keys_of(child, f"{prefix}{name}.", shared, models)
            shared = shared | set(child.model_fields)


def config_page() -> str:
    """config/README.md with its tables made anew."""
    text = CONFIG_PAGE.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n\n{config_keys()}\n\n{END}{rest.split(END)[1]}"
