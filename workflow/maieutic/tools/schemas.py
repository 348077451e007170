"""Generator of files from this package: workflow/schemas, the tables in config/README.md, and docs/cli.md."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel, TypeAdapter

from maieutic.cli import application
from maieutic.commands import USER_STAGES, all_commands, name_of_command
from maieutic.config.cards import Card
from maieutic.config.datasets import Dataset
from maieutic.config.faults import alternatives_of, is_model_type
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
from maieutic.config.rubrics import Rubric
from maieutic.config.settings import Config, Run
from maieutic.core.files import atomic_file

CLI_PAGE = Path("docs/cli.md")
INTRODUCTION = """# Commands

`maieutic COMMAND --help` prints the same texts with defaults and further remarks. `make schemas` writes this page.
"""


def cli_page() -> str:
    """Return the text of docs/cli.md."""
    app, parts = application(True), [INTRODUCTION]
    for stage in USER_STAGES:
        parts.append(f"## {stage}\n")
        for function in all_commands()[stage]:
            parts += command_lines(app[name_of_command(function)], name_of_command(function))
    return "\n".join(parts)


def command_lines(command: Any, name: str) -> Iterator[str]:
    """Yield the lines of one command: its summary, then its arguments and options. command: cyclopts application."""
    arguments = list(command_arguments(command))
    words = [option_name(argument) for argument in arguments if not is_option(argument)]
    yield f"### maieutic {' '.join([name, *words])}\n"
    yield f"{command.help}\n"
    texts = [" ".join(str(argument.parameter.help).split()) for argument in arguments]
    lines = [f"`{option_name(argument)}`: {text}" for argument, text in zip(arguments, texts, strict=True)]
    if lines:
        yield "\\\n".join(lines) + "\n"  # a line each


def command_arguments(command: Any) -> Iterator[Any]:
    """Yield the arguments and options of a command that its help shows."""
    collection = command.assemble_argument_collection(parse_docstring=True)
    return (argument for argument in collection if argument.show and argument.names != ("*",))


def is_option(argument: Any) -> bool:
    """Return True if an argument can only be passed by its flag."""
    return argument.index is None


def option_name(argument: Any) -> str:
    """Return the name of an argument as it is typed: FILE for an argument with a place, --option otherwise."""
    name = str(argument.names[0])
    return name if is_option(argument) else name.removeprefix("--").upper().replace("-", "_")


def overlay_schema() -> dict[str, Any]:
    """Return the schema with which editors check run files: the keys of the configuration, none of them required."""

    def all_optional(model: type[BaseModel], place: str) -> dict[str, Any]:
        keys = {name: {"$ref": f"config.schema.json#{place}/{name}"} for name in model.model_fields}
        return {"type": "object", "additionalProperties": False, "properties": keys}

    schema = all_optional(Config, "/properties")
    schema["properties"]["run"] = all_optional(Run, "/$defs/Run/properties")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Run file", **schema}


def all_schemas() -> dict[str, str]:
    """Return the text of every schema, by file name."""
    schemas = {
        "config": Config.model_json_schema(),
        "overlay": overlay_schema(),
        "models": TypeAdapter(dict[str, ModelEntry]).json_schema(),
        "datasets": TypeAdapter(dict[str, Dataset]).json_schema(),
        "card": Card.model_json_schema(),
        "rubric": Rubric.model_json_schema(),
    }
    return {
        f"{name}.schema.json": json.dumps(schema, indent=1, sort_keys=True) + "\n" for name, schema in schemas.items()
    }


def export_schemas(out: Path) -> None:
    """Write every schema into the folder `out`, and regenerate docs/cli.md and the tables of config/README.md."""
    for name, text in all_schemas().items():
        with atomic_file(out / name) as handle:
            handle.write(text)
    for path, text in ((CONFIG_PAGE, config_page()), (CLI_PAGE, cli_page())):
        with atomic_file(path) as handle:
            handle.write(text)


# config/README.md -----------------------------------------------------------------------------------------------------

CONFIG_PAGE = Path("config/README.md")
KEYS_BEGIN, KEYS_END = "<!-- keys: make schemas writes what follows -->", "<!-- end of keys -->"
ENGINES: dict[str, tuple[type[BaseModel], str]] = {
    "vllm": (VllmModel, "a tutor that the run serves from its weights"),
    "hosted": (HostedModel, "a tutor behind an OpenAI-compatible endpoint"),
    "recorded": (RecordedModel, "a tutor with recorded replies"),
    "baseline": (BaselineModel, "a trivial tutor"),
    "weights": (WeightsOnly, "a base model for training or a sentence encoder, not a tutor"),
    "reward": (RewardModel, "a sequence classifier with one output, loaded (`weights`) or trained (`train`)"),
    "criteria": (CriteriaModel, "binary classifiers trained on MRBench's labels"),
    "judge": (JudgeModel, "a model, panel or word list with rubric cards"),
}


def config_keys() -> str:
    """Return the tables in config/README.md, which list every key with its meaning and default."""
    common, served = set(Model.model_fields), set(ServedModel.model_fields)
    models: set[type[BaseModel]] = set()
    parts = [
        "## Run file",
        *keys_table(Config, {"models", "datasets"}, models),
        "## Registry of models: one entry per model",
        f"`engine` sets the kind of an entry: {'; '.join(f'`{name}`, {what}' for name, (_, what) in ENGINES.items())}.",
        "Keys of every entry:",
        *keys_table(Model, set(), models),
        "Further keys of the engines `vllm` and `hosted`:",
        *keys_table(ServedModel, common, models),
    ]
    for name, (kind, what) in ENGINES.items():
        known = common | (served if issubclass(kind, ServedModel) else set())
        parts += [f"Keys of engine `{name}`, {what}:", *keys_table(kind, known, models)]
    return "\n\n".join([*parts, "## Registry of source files: one entry per file", *keys_table(Dataset, set(), models)])


def keys_table(model: type[BaseModel], without: set[str], models: set[type[BaseModel]]) -> list[str]:
    """Return the keys of a Pydantic model as a Markdown table, in which keys of nested models have dotted paths.

    without: keys to leave out; models: nested models in earlier tables, to which those in this table are added.
    """
    rows = [
        f"| `{name}` | {words[0].upper()}{words[1:]} | {default} |".replace("  |", " |")
        for name, words, default in described_keys(model, "", without, models)
    ]
    return ["\n".join(["| key | meaning | default |", "| --- | --- | --- |", *rows])]


def described_keys(
    model: type[BaseModel], prefix: str, without: set[str], models: set[type[BaseModel]]
) -> Iterable[tuple[str, str, str]]:
    """Yield the path, the description and the default of each key of a Pydantic model.

    prefix: beginning of the paths; without: keys to leave out; models: see `keys_table`.
    """
    for name, field in model.model_fields.items():
        if name in without or name == "engine":
            continue
        default = field.get_default(call_default_factory=True)
        if field.description:
            plain = field.is_required() or isinstance(default, BaseModel)
            yield f"{prefix}{name}", field.description, "" if plain else f"`{json.dumps(default)}`"
        within = [kind.type for kind in alternatives_of(field.annotation) if is_model_type(kind)]
        shared: set[str] = set()
        for child in within:
            if child not in models:
                models.add(child)
                yield from described_keys(child, f"{prefix}{name}.", shared, models)
            shared = shared | set(child.model_fields)


def config_page() -> str:
    """Return the text of config/README.md with regenerated tables."""
    text = CONFIG_PAGE.read_text(encoding="utf-8")
    before, rest = text.split(KEYS_BEGIN)
    return f"{before}{KEYS_BEGIN}\n\n{config_keys()}\n\n{KEYS_END}{rest.split(KEYS_END)[1]}"
