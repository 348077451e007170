"""Task cards: the one place that says what a task asks, of which data, and how the answers are read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import Field, PrivateAttr, ValidationError

from maieutic.config.faults import fault_of
from maieutic.config.models import Endpoint, Entry
from maieutic.config.prompts import variables_of
from maieutic.core.documents import read_yaml
from maieutic.core.errors import UserError
from maieutic.core.paths import RESOURCES

Find = Callable[[str], Path]
CARDS = RESOURCES / "benchmarks"
RELEASED = "released"
REWARD = "reward"
JUDGE = "judge"
MODEL_GRADERS = (REWARD, JUDGE)  # graders that are models of their own, not parsers


class Part(Entry):
    """The grades of one grader under one criterion, for a metric that is made of several."""

    grader: str
    criterion: str | None = None


class Metric(Entry):
    """How one number is made from the grades of one grader, or from the parts of several."""

    headline: bool = Field(False, description="The number of the leaderboard; one for each task")
    grader: str | None = Field(None, description="Whose grades; default: the card's first grader")
    criterion: str | None = Field(None, description="Which of the grader's criteria; default: its only one")
    function: str | None = Field(None, description="Name of a metric; default: the metric's own name")
    higher_is_better: bool | None = Field(True, description="null: neither is better")
    ceiling: bool = Field(True, description="Whether the ceiling tutor's value is one: it cannot win against itself")
    subset: bool = Field(False, description="Made of the items that have such a grade; the others are not missing")
    stand_in: bool = Field(
        False, description="A published score of its own: the headline of a run without the headline's grader"
    )
    value: str | None = Field(None, description="A grade with this value is right, whatever the grader says")
    only: dict[str, str] = Field({}, description="Made of the items with these tags")
    parts: list[Part] = Field([], description="Made of all these grades of an item; one that was not asked for is none")
    readable: bool = Field(
        False, description="Over readable answers alone: derived for every metric of a parser, named NAME_readable"
    )


class Baselines(Entry):
    """The trivial tutors between which a useful score lies."""

    floor: list[str] = Field(min_length=1, description="Tutors that know nothing; the best of them is the floor")
    ceiling: str = Field("reference", description="Tutor that knows the reference")

    @property
    def named(self) -> list[str]:
        """All of them, the ceiling last."""
        return [*self.floor, self.ceiling]


class Variant(Entry):
    """A named other reading of what is asked; what it leaves out stays as on the card."""

    note: str = Field(description="What differs, and where it is printed")
    system: str | None = None
    turns: list[str] | None = None
    role: Literal["system", "user"] | None = None
    shots: str | None = None
    stop: list[str] | None = None
    endpoint: Endpoint | None = None


class Card(Entry):
    """One task. Prompt and few-shot files lie beside the card and are named relative to it."""

    task: str = Field(pattern=r"^[a-z][a-z0-9_]*$")
    benchmark: str = Field(pattern=r"^[a-z][a-z0-9_]*$")
    version: int = Field(ge=1, description="Raised whenever results change meaning")
    title: str
    skill: str = Field(description="Group of tasks in the report")
    source: str = Field(description="Paper, section, figure; released file and commit")
    dataset: str = Field(description="Entry of the dataset registry")
    loader: str = Field(description="Name in datasets/")
    items: int = Field(description="Published number of items")
    images: bool = Field(False, description="Every item has a picture; a tutor that takes none is not asked")
    pool: str | None = Field(None, description="Tasks of one pool are also scored together, by tag; see breakdown.py")
    system: str | None = Field(None, description="Template of the system message; the first turn is then the user's")
    turns: list[str] = Field(min_length=1, description="One prompt template for each turn of the conversation")
    role: Literal["system", "user"] | None = Field(
        None, description="Of the first turn; null: the model's (prompt_role)"
    )
    shots: str | None = Field(None, description="Few-shot text, rendered as {{ shots }}")
    stop: list[str] = []
    endpoint: Endpoint = "completions"
    temperature: float = Field(0.0, ge=0)
    max_tokens: int = Field(2048, ge=1)
    graders: list[str] = Field(min_length=1)
    rubrics: list[str] = Field([], description="Rubric cards by which a judge may judge the replies")
    metrics: dict[str, Metric] = Field(min_length=1)
    baselines: Baselines
    variants: dict[str, Variant] = {}
    help: str = Field(description="How to read this task's number, in one or two sentences")

    # Of a run without the grader of the headline: the headline's name and the kind of grader that is missing.
    _ungraded: tuple[str, str] | None = PrivateAttr(None)

    @property
    def headline(self) -> str:
        """The name of the metric that stands in the leaderboard, also where its grader is missing in this run."""
        if self._ungraded:
            return self._ungraded[0]
        return next(name for name, metric in self.metrics.items() if metric.headline)

    @property
    def headline_metric(self) -> Metric | None:
        """The metric that stands in the leaderboard; None where the task is not graded in this run."""
        return self.metrics.get(self.headline)

    @property
    def missing_grader(self) -> str | None:
        """The kind of grader (`judge`, `reward`) that the headline needs and this run lacks."""
        return self._ungraded[1] if self._ungraded else None

    def without(self, grader: str) -> Card:
        """The card of a run that has no such grader (no reward model, no judge).

        A headline that needs it goes: the task is not graded in this run, unless the card has another published score
        (`stand_in`).
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

    def under(self, protocol: str) -> Card:
        """The card as read under a named protocol; a card without that variant stays as released."""
        variant = self.variants.get(protocol)
        if variant is None:
            return self
        changes = {key: value for key, value in variant.model_dump(exclude={"note"}).items() if value is not None}
        return self.model_copy(update=changes)


class LoadedCard(Entry):
    """A card with the texts of its files. like: the card that it is like."""

    card: Card
    templates: list[str]
    shots: str
    system: str = ""
    like: Path | None = None


def without(card: Card, absent: list[str]) -> Card:
    """The card of a run that has no such graders."""
    for kind in absent:
        card = card.without(kind)
    return card


def card_path(benchmark: str, task: str) -> Path:
    """Where a task's card lies."""
    return CARDS / benchmark / f"{task}.yaml"


def parse(place: str, content: Any) -> Card:
    """Validate, with the first error as one line."""
    try:
        return Card.model_validate(content)
    except ValidationError as error:
        raise fault_of(error, Card, place, "workflow/schemas/card.schema.json") from None


def read_card(path: Path, protocol: str = RELEASED) -> LoadedCard:
    """Read and check a card: its name, its files, its headline metric. Raises UserError naming the key."""
    if not path.is_file():
        known = sorted(other.stem for other in path.parent.glob("*.yaml"))
        raise UserError(
            str(path), f"there is no such card; {path.parent.name} has {', '.join(known)}", "name one of these"
        )
    content, like = read_like(path)
    card = parse(str(path), content)
    if (card.task, card.benchmark) != (path.stem, path.parent.name):
        raise UserError(str(path), f"task and benchmark say {card.benchmark}/{card.task}", "name the file as the task")
    check_headline(path, card)
    asked = card.under(protocol)
    if asked.endpoint == "completions" and (len(asked.turns) > 1 or asked.system):
        raise UserError(
            f"{path}: turns", "several turns or a system message need the chat endpoint", "set endpoint: chat"
        )
    templates = [read_text(path, "turns", name) for name in asked.turns]
    shots, system = read_text(path, "shots", asked.shots), read_text(path, "system", asked.system)
    return LoadedCard(card=asked, templates=templates, shots=shots, system=system, like=like)


class Merged(NamedTuple):
    """The content of a card with what it takes over, and the card that it is like, if there is one."""

    content: Any
    like: Path | None


def read_like(path: Path, find: Find | None = None) -> Merged:
    """Read a card, each file once. One that is `like` another says only what differs.

    Mappings are merged, and null takes a key of theirs away. find: the path of the card of a name; None: beside it.
    """
    content = read_yaml(path)
    if not isinstance(content, dict) or "like" not in content:
        return Merged(content, None)
    name = Path(str(content.pop("like"))).name
    other = find(name) if find else path.with_name(f"{name}.yaml")
    base = read_yaml(other) if other.is_file() else None
    if not isinstance(base, dict) or "like" in base:
        raise UserError(f"{path}: like", f"{other.name} is no card that stands by itself", "name one of this folder")
    for key, value in content.items():
        both = isinstance(value, dict) and isinstance(base.get(key), dict)
        merged = {**base[key], **value} if both else value
        base[key] = {name: setting for name, setting in merged.items() if setting is not None} if both else merged
    return Merged(base, other)


def check_headline(path: Path, card: Card) -> None:
    """Exactly one metric is the headline."""
    if sum(metric.headline for metric in card.metrics.values()) != 1:
        raise UserError(f"{path}: metrics", "expected one headline, found another number", "set headline: true on one")
    if (JUDGE in card.graders) != bool(card.rubrics):
        raise UserError(f"{path}: rubrics", "a judge among the graders needs rubric cards", "name them, or drop both")


def read_text(card: Path, key: str, name: str | None) -> str:
    """The text of a file beside the card."""
    if name is None:
        return ""
    path = card.parent / name
    if path.parent != card.parent or not path.is_file():
        raise UserError(f"{card}: {key}", f"there is no file {name} beside the card", "add it, or mend the name")
    return path.read_text(encoding="utf-8")


def check_variables(path: Path, loaded: LoadedCard, offered: set[str]) -> None:
    """Refuse a prompt that asks for a variable which its loader does not give."""
    asked = [(0, loaded.card.system, loaded.system)] if loaded.card.system else []
    asked += zip(range(len(loaded.templates)), loaded.card.turns, loaded.templates, strict=True)
    for turn, name, template in asked:
        try:
            needed = variables_of(template)
        except ValueError as error:
            raise UserError(str(path.parent / str(name)), f"not a template: {error}", "mend the template") from None
        if unknown := needed - offered - ({"shots", "answers"} if turn else {"shots"}):
            raise UserError(
                str(path.parent / str(name)),
                f"undefined prompt variable {', '.join(sorted(unknown))}",
                f"loader {loaded.card.loader} gives {', '.join(sorted(offered))}",
            )


def files_of(path: Path, loaded: LoadedCard) -> list[Path]:
    """The card and every file that it is read with: the inputs of a rule that uses it."""
    names = [*loaded.card.turns, *filter(None, (loaded.card.shots, loaded.card.system))]
    return [path, *([loaded.like] if loaded.like else []), *(path.parent / name for name in names)]


def cards_of(benchmark: str, tasks: list[str], protocol: str) -> list[LoadedCard]:
    """The cards of some tasks of one benchmark, as a job reads them."""
    return [read_card(card_path(benchmark, task), protocol) for task in tasks]
