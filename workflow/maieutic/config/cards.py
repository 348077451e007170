"""Task cards: data, prompt, graders, metrics and baseline tutors of each task."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import Field, PrivateAttr, ValidationError, field_validator

from maieutic.config.faults import validation_fault
from maieutic.config.models import LANGUAGE, Endpoint, StrictModel
from maieutic.config.prompts import template_variables
from maieutic.core.errors import UserError
from maieutic.core.extensions import resource_folders
from maieutic.core.paths import RESOURCES
from maieutic.core.records import MAX_TURNS
from maieutic.core.yaml_files import read_yaml

FindCard = Callable[[str], Path]
CARDS = RESOURCES / "benchmarks"  # cards that are shipped; extensions have a folder of the same name
RELEASED = "released"
REWARD = "reward"
JUDGE = "judge"
MODEL_GRADERS = (REWARD, JUDGE)  # kinds of graders that are models; all other graders are parsers


def turn_criterion(name: str, turn: int) -> str:
    """Return the name of a criterion or metric about one turn of the tutor, numbered from 1."""
    return f"{name}_turn_{turn}"


class MetricPart(StrictModel):
    """One of a metric's `parts`: a grader and, if it has several, the criterion of the grades to combine."""

    grader: str
    criterion: str | None = None


class Metric(StrictModel):
    """Definition of one metric, computed from one grader's grades or from grades of several graders (`parts`)."""

    headline: bool = Field(False, description="Show this metric in the leaderboard. Each card has one headline metric.")
    grader: str | None = Field(None, description="Grader that supplies the grades; `null`: the card's first grader.")
    criterion: str | None = Field(None, description="Criterion of the grades; `null`: the grader's only criterion.")
    function: str | None = Field(
        None, description="Name of the function that computes the metric; `null`: the metric's name."
    )
    higher_is_better: bool | None = Field(
        True, description="`true`: higher values are better; `false`: lower values are better; `null`: neither."
    )
    ceiling: bool = Field(
        True,
        description=(
            "Show the ceiling tutor's value as the ceiling. Set to `false` if the metric compares replies with the "
            "reference, which the ceiling tutor repeats."
        ),
    )
    subset: bool = Field(
        False, description="Use only items that have a grade for this metric. Other items do not count as missing."
    )
    stand_in: bool = Field(
        False, description="Use this metric as the headline if the run lacks the grader of the headline metric."
    )
    value: str | None = Field(
        None, description="Value that makes a grade count as correct, regardless of the grader's own decision."
    )
    only: dict[str, str] = Field({}, description="Use only items with these tags (a mapping of tag names to values).")
    by: dict[str, list[str]] = Field(
        {},
        description=(
            "Tags with values, such as `source: [bridge, mathdial]`. Each value adds the metric NAME_VALUE (or "
            "NAME_TAG_VALUE if two tags share it), which uses only the items with this value."
        ),
    )
    turns: int | None = Field(
        None,
        ge=1,
        le=MAX_TURNS,
        description=(
            "Add the metrics NAME_turn_1, NAME_turn_2, ... up to this number of turns, each under the criterion "
            "CRITERION_turn_1, ...: the share of desired verdicts among the conversations that reach the turn."
        ),
    )
    parts: list[MetricPart] = Field(
        [],
        description=(
            "Graders (with a `criterion` if they have several) whose grades the metric combines, item by item. "
            "The metric's function receives None for a missing grade."
        ),
    )
    readable: bool = Field(
        False,
        description=(
            "Use only answers that could be parsed. Each metric of a parser automatically gets a variant with this "
            "setting, named NAME_readable."
        ),
    )

    def for_subset(self, name: str, tag: str, value: str) -> Metric:
        """Return this metric, whose name is `name`, for the items with one value of a tag."""
        only = {**self.only, tag: value}
        return self.further(function=self.function or name, only=only)

    def for_turn(self, turn: int) -> Metric:
        """Return the metric of one turn: the share of desired verdicts under the criterion of that turn."""
        return self.further(function="accuracy", criterion=turn_criterion(str(self.criterion), turn), subset=True)

    def further(self, **changes: Any) -> Metric:
        """Return a copy that is added to the card's metrics, so that it is no headline and adds none itself."""
        return self.model_copy(update={"headline": False, "stand_in": False, "by": {}, "turns": None, **changes})


def with_turn_metrics(metrics: dict[str, Metric]) -> dict[str, Metric]:
    """Return metrics, each followed by its metrics for single turns."""
    result = {}
    for name, metric in metrics.items():
        result[name] = metric.model_copy(update={"turns": None})
        for turn in range(1, (metric.turns or 0) + 1):
            result[turn_criterion(name, turn)] = metric.for_turn(turn)
    return result


def tag_values(metric: Metric) -> list[tuple[str, str]]:
    """Return the tags in a metric's `by`, each with each of its values."""
    return [(tag, value) for tag, values in metric.by.items() for value in values]


class Baselines(StrictModel):
    """Trivial tutors whose values are the floor and the ceiling of a task."""

    floor: list[str] = Field([], description="Trivial tutors. The best value among them is the task's floor.")
    ceiling: str | None = Field(
        "reference", description="Trivial tutor that replies with the item's reference; `null`: no ceiling."
    )

    @property
    def named(self) -> list[str]:
        """Names of all baseline tutors of the card, with the ceiling last."""
        return [*self.floor, *([self.ceiling] if self.ceiling else [])]


class Variant(StrictModel):
    """A named variant of a card's prompts and request settings. If it omits a key, the card's value applies."""

    note: str = Field(description="Differences from the card, and the publication that defines the variant.")
    system: str | None = None
    turns: list[str] | None = None
    role: Literal["system", "user"] | None = None
    shots: str | None = None
    stop: list[str] | None = None
    endpoint: Endpoint | None = None


class Card(StrictModel):
    """A task card. The prompt and few-shot files that it names are in the card's folder."""

    task: str = Field(
        pattern=r"^[a-z][a-z0-9_]*$", description="Name of the task, equal to the card's file name without `.yaml`."
    )
    benchmark: str = Field(
        pattern=r"^[a-z][a-z0-9_]*$", description="Name of the benchmark, equal to the name of the card's folder."
    )
    version: int = Field(ge=1, description="Version of the card, increased whenever the meaning of results changes.")
    title: str = Field(description="Name of the task in the report.")
    skill: str = Field(description="Name of the task's group in the report.")
    source: str = Field(
        description="Origin of the task: section and figure of the paper, and the released file with its commit."
    )
    dataset: str = Field(description="Name of the task's dataset in the dataset registry.")
    loader: str = Field(description="Name of the function that turns the dataset's records into items.")
    items: int = Field(description="Number of the task's items in the published data.")
    images: bool = Field(
        False, description="`true` if every item has a picture. Tutors without image input then skip the task."
    )
    tutors: Literal["all", "recorded", "asked"] = Field(
        "all",
        description=(
            "Tutors that answer the task. `recorded`: only recorded tutors, for replies that no model can give anew; "
            "`asked`: all others, whose replies are compared with recorded ones."
        ),
    )
    language: str = Field(
        "en",
        pattern=LANGUAGE,
        description=(
            "Language of the task (ISO 639-1), whose notation of numbers its replies use: in `de`, 1.200 is 1200."
        ),
    )
    pool: str | None = Field(
        None,
        description=(
            "Name of the task's pool. The items of all tasks in a pool are also scored together, separately for "
            "each tag (see TutorBench's `breakdown.py`)."
        ),
    )
    system: str | None = Field(
        None,
        description=(
            "File with the template of the system message. If it is set, the first turn is sent as a user message."
        ),
    )
    turns: list[str] = Field(
        min_length=1, description="Files with the prompt templates, one for each turn of the conversation."
    )
    role: Literal["system", "user"] | None = Field(
        None, description="Role of the first turn's message; `null`: the model's `prompt_role`."
    )
    shots: str | None = Field(None, description="File with the few-shot text, available to templates as {{ shots }}.")
    stop: list[str] = Field([], description="Stop strings. Generation ends at the first one that occurs.")
    endpoint: Endpoint = Field(
        "completions", description="Kind of request: `chat` (messages) or `completions` (one raw prompt)."
    )
    temperature: float = Field(0.0, ge=0, description="Sampling temperature.")
    max_tokens: int = Field(2048, ge=1, description="Maximum number of tokens in one answer.")
    graders: list[str] = Field(
        min_length=1,
        description="Graders of the replies: parsers, `reward` or `judge`. The first is the default grader of metrics.",
    )
    rubrics: list[str] = Field(
        [], description="Rubric cards for this task. Each judge uses one that its registry entry also lists."
    )
    metrics: dict[str, Metric] = Field(min_length=1, description="Metrics of the task, by name.")
    baselines: Baselines = Field(description="Trivial tutors whose values are the task's floor and ceiling.")
    variants: dict[str, Variant] = Field({}, description="Variants of the prompts, by protocol.")
    help: str = Field(description="One or two sentences on how to interpret the task's values.")

    # name of the headline metric and kind of its grader if this run lacks the grader, otherwise None
    _ungraded: tuple[str, str] | None = PrivateAttr(None)

    @field_validator("metrics")
    @classmethod
    def with_subsets(cls, metrics: dict[str, Metric]) -> dict[str, Metric]:
        """Add the metrics of single turns, and a metric NAME_VALUE for each value in `by`, after the last `by`."""
        metrics = with_turn_metrics(metrics)
        split = {name: metric for name, metric in metrics.items() if metric.by}
        if not split:
            return metrics
        subsets = list(dict.fromkeys(pair for metric in split.values() for pair in tag_values(metric)))
        values = [value for _, value in subsets]
        further = {
            f"{name}_{value if values.count(value) == 1 else f'{tag}_{value}'}": metric.for_subset(name, tag, value)
            for tag, value in subsets
            for name, metric in split.items()
            if (tag, value) in tag_values(metric)
        }
        if repeated := sorted(further.keys() & metrics.keys()):
            raise ValueError(f"`by` adds metrics that the card already has: {', '.join(repeated)}")
        whole = {name: metric.model_copy(update={"by": {}}) for name, metric in metrics.items()}
        last = list(whole).index(list(split)[-1]) + 1
        entries = list(whole.items())
        return dict([*entries[:last], *further.items(), *entries[last:]])

    @property
    def headline(self) -> str:
        """Name of the card's headline metric, even if this run lacks the metric's grader."""
        if self._ungraded:
            return self._ungraded[0]
        return next(name for name, metric in self.metrics.items() if metric.headline)

    @property
    def headline_metric(self) -> Metric | None:
        """The card's headline metric; None if this run lacks the metric's grader."""
        return self.metrics.get(self.headline)

    @property
    def missing_grader(self) -> str | None:
        """Kind of grader (`judge`, `reward`) that the headline metric needs and this run lacks, or None."""
        return self._ungraded[1] if self._ungraded else None

    def without_grader(self, grader: str) -> Card:
        """Return a copy of the card for a run that lacks a grader, without the grader and its metrics.

        If the headline metric is removed, the metric marked `stand_in` becomes the headline; if no metric is marked,
        the task has no headline metric in this run. grader: `judge`, `reward` or a parser's name.
        """
        if grader not in self.graders:
            return self
        kept = {name: metric for name, metric in self.metrics.items() if (metric.grader or self.graders[0]) != grader}
        standing_in = None
        if not any(metric.headline for metric in kept.values()):
            standing_in = next((name for name, metric in kept.items() if metric.stand_in), None)
        left = {
            name: metric.model_copy(update={"headline": metric.headline or name == standing_in})
            for name, metric in kept.items()
        }
        card = self.model_copy(update={"graders": [name for name in self.graders if name != grader], "metrics": left})
        if self._ungraded is None and not any(metric.headline for metric in left.values()):
            card._ungraded = (self.headline, grader)
        return card

    def with_variant(self, protocol: str) -> Card:
        """Return the card with the protocol's variant applied, or unchanged if it has no variant of that name."""
        variant = self.variants.get(protocol)
        if variant is None:
            return self
        changes = {key: value for key, value in variant.model_dump(exclude={"note"}).items() if value is not None}
        return self.model_copy(update=changes)


class LoadedCard(StrictModel):
    """A task card with the texts of its prompt and few-shot files.

    files: paths of the card, its base card and its text files, as inputs of the rules that use the card; like: path of
    the base card, or None.
    """

    card: Card
    files: list[Path]
    templates: list[str]
    shots: str
    system: str = ""
    like: Path | None = None


def card_without_graders(card: Card, absent: list[str]) -> Card:
    """Return a copy of the card for a run that lacks all graders in `absent`."""
    for kind in absent:
        card = card.without_grader(kind)
    return card


def card_folders() -> list[Path]:
    """Return the folders of benchmarks' cards: the shipped one, then those of extensions."""
    return [folder / "benchmarks" for folder in resource_folders()]


def benchmarks_with_cards() -> list[str]:
    """Return the names of all benchmarks with cards, shipped or in an extension."""
    folders = [path for folder in card_folders() if folder.is_dir() for path in folder.iterdir() if path.is_dir()]
    return sorted({folder.name for folder in folders})


def cards_of(benchmark: str) -> list[Path]:
    """Return the paths of a benchmark's cards by task, shipped or in an extension."""
    names = {path.stem for folder in card_folders() for path in (folder / benchmark).glob("*.yaml")}
    return [card_path(benchmark, name) for name in sorted(names)]


def card_path(benchmark: str, task: str) -> Path:
    """Return the path of a task's card; that of a shipped card if none exists.

    Raises UserError if the card exists twice.
    """
    paths = [path for folder in card_folders() if (path := folder / benchmark / f"{task}.yaml").is_file()]
    if len(paths) > 1:
        raise UserError(str(paths[1]), f"{paths[0]} has the same name", "rename the card of the extension")
    return paths[0] if paths else CARDS / benchmark / f"{task}.yaml"


def base_path(path: Path, task: str) -> Path:
    """Return the path of the card that a card's `like` names: beside it, or among all cards of its benchmark."""
    beside = path.with_name(f"{task}.yaml")
    return beside if beside.is_file() else card_path(path.parent.name, task)


def parse_card(place: str, content: Any) -> Card:
    """Return the validated card. Raises UserError with one line for each fault. place: the card's path."""
    try:
        return Card.model_validate(content)
    except ValidationError as error:
        raise validation_fault(error, Card, place, "workflow/schemas/card.schema.json") from None


def read_card(path: Path, protocol: str = RELEASED) -> LoadedCard:
    """Return the card at `path`, with the protocol's variant applied and the texts of its files.

    Raises UserError, which names the invalid key, if the card's names, files or headline metric are invalid.
    """
    if not path.is_file():
        known = sorted(other.stem for other in path.parent.glob("*.yaml"))
        raise UserError(
            str(path),
            f"benchmark {path.parent.name} has no card of this name",
            f"choose one of {', '.join(known)}",
        )
    content, like = read_with_base(path, partial(base_path, path))
    card = parse_card(str(path), content)
    if (card.task, card.benchmark) != (path.stem, path.parent.name):
        raise UserError(
            str(path),
            f"expected benchmark/task {path.parent.name}/{path.stem}, found {card.benchmark}/{card.task}",
            "rename the file, or correct the keys `benchmark` and `task`",
        )
    check_headline(path, card)
    effective = card.with_variant(protocol)
    if effective.endpoint == "completions" and (len(effective.turns) > 1 or effective.system):
        raise UserError(
            f"{path}: turns", "several turns or a system message require the chat endpoint", "set endpoint: chat"
        )
    prompts = {
        name: partial(read_text, card_of_prompt(path, like, name), name=name)
        for name in (*effective.turns, effective.shots, effective.system)
    }
    templates = [prompts[name]("turns") for name in effective.turns]
    shots, system = prompts[effective.shots]("shots"), prompts[effective.system]("system")
    names = [*effective.turns, *filter(None, (effective.shots, effective.system))]
    files = [path, *([like] if like else []), *(card_of_prompt(path, like, name).parent / name for name in names)]
    return LoadedCard(card=effective, files=files, templates=templates, shots=shots, system=system, like=like)


class MergedCard(NamedTuple):
    """Content of a card merged with its base card, and the path of the base card (None if the card names none)."""

    content: Any
    like: Path | None


def read_with_base(path: Path, find: FindCard | None = None) -> MergedCard:
    """Return a card's content, merged with the base card that its key `like` names, if any.

    The card's keys replace those of the base card, except that two mappings under the same key are merged. In such a
    mapping, a null value removes the base card's key.
    find: maps a card's name to its path; by default, cards are looked up in the folder of `path`.
    """
    content = read_yaml(path)
    if not isinstance(content, dict) or "like" not in content:
        return MergedCard(content, None)
    name = Path(str(content.pop("like"))).name
    other = find(name) if find else path.with_name(f"{name}.yaml")
    base = read_yaml(other) if other.is_file() else None
    if not isinstance(base, dict) or "like" in base:
        raise UserError(
            f"{path}: like",
            f"expected a card that has no base card itself, found {other.name}",
            "set `like` to the name of a card without the key `like`",
        )
    for key, value in content.items():
        both = isinstance(value, dict) and isinstance(base.get(key), dict)
        merged = {**base[key], **value} if both else value
        removed = {name for name, setting in value.items() if setting is None} if both else set()
        base[key] = {name: setting for name, setting in merged.items() if name not in removed} if both else merged
    return MergedCard(base, other)


def check_headline(path: Path, card: Card) -> None:
    """Raise UserError unless the card has one headline metric, and has rubrics if and only if `judge` is a grader."""
    if (headlines := sum(metric.headline for metric in card.metrics.values())) != 1:
        raise UserError(
            f"{path}: metrics",
            f"expected one metric with headline: true, found {headlines}",
            "set headline: true on exactly one metric",
        )
    if REWARD in card.graders and card.baselines.ceiling is None:
        problem = "a reward model compares replies with those of the ceiling tutor, which is not set"
        raise UserError(f"{path}: baselines.ceiling", problem, "set it, or remove reward from graders")
    if (JUDGE in card.graders) != bool(card.rubrics):
        raise UserError(
            f"{path}: rubrics",
            "expected rubrics if and only if judge is among the graders",
            "set rubrics and add judge to graders, or remove both",
        )


def card_of_prompt(path: Path, like: Path | None, file: str | None) -> Path:
    """Return the card whose folder contains a prompt file: the card itself, or the card that it extends.

    path: the card itself; like: the card that it extends, if any; file: name of the prompt file, if any.
    """
    return like if like and file and not (path.parent / file).is_file() else path


def read_text(card: Path, key: str, name: str | None) -> str:
    """Return the text of the file `name` in the card's folder, empty for None. Raises UserError if it is missing.

    key: the card's key that names the file, for the error.
    """
    if name is None:
        return ""
    path = card.parent / name
    if path.parent != card.parent or not path.is_file():
        raise UserError(f"{card}: {key}", f"found no file {name} beside the card", "add the file, or correct the name")
    return path.read_text(encoding="utf-8")


def check_variables(path: Path, loaded: LoadedCard, offered: set[str]) -> None:
    """Raise UserError if a template has a syntax error, or uses a variable that the card's loader does not offer."""
    templates = [(0, loaded.card.system, loaded.system)] if loaded.card.system else []
    templates += zip(range(len(loaded.templates)), loaded.card.turns, loaded.templates, strict=True)
    for turn, name, template in templates:
        try:
            needed = template_variables(template)
        except ValueError as error:
            raise UserError(
                str(path.parent / str(name)), f"the template cannot be parsed: {error}", "correct the template's syntax"
            ) from None
        if unknown := needed - offered - ({"shots", "answers"} if turn else {"shots"}):
            raise UserError(
                str(path.parent / str(name)),
                f"found undefined prompt variable{'s' if len(unknown) > 1 else ''} {', '.join(sorted(unknown))}",
                f"use a variable of loader {loaded.card.loader}: {', '.join(sorted(offered))}",
            )


def load_cards(benchmark: str, tasks: list[str], protocol: str) -> list[LoadedCard]:
    """Return the loaded cards of the named tasks of a benchmark, with the protocol's variants applied."""
    return [read_card(card_path(benchmark, task), protocol) for task in tasks]
