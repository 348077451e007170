"""Rubric cards: what a judge is asked, the form of its answer, and the criteria that it judges by."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import Field, ValidationError, model_validator

from maieutic.config.cards import CARDS, read_like, read_text
from maieutic.config.faults import fault_of
from maieutic.config.models import Entry
from maieutic.config.prompts import variables_of
from maieutic.core.errors import UserError
from maieutic.core.paths import RESOURCES
from maieutic.core.records import Scale
from maieutic.judges.kinds import KINDS
from maieutic.judges.kinds.base import PASS_FAIL, Kind

RUBRICS = RESOURCES / "rubrics"  # of your own; those of a benchmark lie in its folder
if TYPE_CHECKING:
    KindName = str
else:
    KindName = Literal[tuple(KINDS)]
Answer = Literal["result", "letter", "json"]
OWN = {
    "criteria",
    "definition",
    "scoring",
    "notice",
    "order",
    "picture_shown",
}  # what the engine itself gives every prompt


class Criterion(Entry):
    """One thing that is judged. `labels` stand in the order of the scores 1, 2, 3 of a printed rubric."""

    title: str
    definition: str = Field(description="The question that the judge answers")
    scoring: str = Field("", description="The printed rubric, word for word")
    aspects: list[str] = Field([], description="What to look at, in the order of the prompt")
    group: str | None = Field(None, description="Whose share of desired verdicts is a grade too; see groups of items")
    source: str = Field("", description="Where it is printed, or that it is ours")
    labels: list[str] = Field([], description="What may be answered, as the data spell it")
    desired: str | None = Field(None, description="The label of a good reply; null: none is better")
    level: Literal["ordinal", "nominal"] = Field(
        "ordinal", description="nominal: the order of the labels means nothing, and no label is nearer to another"
    )
    weight: float | None = Field(None, description="Of a weighted rubric")


class FollowUp(Entry):
    """A further question about the replies with a certain verdict."""

    rubric: str
    criterion: str
    value: str = Field(description="The verdict, in the terms of the grades: win, tie, lose")


def kinds_with(holds: Callable[[Kind], bool]) -> str:
    """The names of the kinds for which something holds."""
    return " or ".join(name for name, kind in KINDS.items() if holds(kind))


class Rubric(Entry):
    """What a judge is asked. Prompt files lie beside the card."""

    rubric: str = Field(pattern=r"^[a-z][a-z0-9_]*$")
    version: int = Field(ge=1, description="Raised whenever verdicts change meaning")
    title: str
    source: str = Field(description="Paper, figure; what is ours")
    kind: KindName
    answer: Answer = Field(description="result: [RESULT] n; letter: [[A]]; json: an object, by schema where offered")
    system: str | None = Field(None, description="Template of the system message")
    prompt: str = Field(description="Template of the user message")
    scores_fall: bool = Field(
        False, description="answer: result: the highest printed score is that of the first label, 1 that of the last"
    )
    separate: bool = Field(False, description="One question for each criterion; else all at once")
    both_orders: bool = Field(False, description="Two replies are shown in both orders")
    about_tutor: bool = Field(
        False, description="win_tie_lose: Win, Tie, Lose of the tutor's reply, wherever it stands"
    )
    about: Literal["replies", "items", "criteria"] = Field(
        "replies", description="items, criteria: tags without any reply, for run.taggers"
    )
    when: str | None = Field(None, description="Only replies of which this holds are judged; the others have no grade")
    follow_up: FollowUp | None = Field(None, description="What is asked next, in the same job")
    filled_in: list[str] = Field(
        [],
        description="Passages of a quoted prompt that its source does not show legibly: ours, and marked on the page",
    )
    asks: int = Field(1, ge=1, le=3, description="How often criteria that an answer leaves out are asked for")
    reworded: str | None = Field(
        None, description="A card that asks for the same criteria and labels in other words, for `run.probes`"
    )
    criteria: dict[str, Criterion] = Field({}, description="Empty: every item brings its own")
    temperature: float = Field(0.0, ge=0)
    max_tokens: int = Field(512, ge=1)

    @model_validator(mode="after")
    def fits(self) -> Rubric:
        kind = self.rules
        if kind.own_labels:
            if not self.criteria:
                raise ValueError(f"kind: {self.kind} needs criteria of its own")
            for name, criterion in self.criteria.items():
                if len(criterion.labels) < 2 or criterion.desired not in {None, *criterion.labels}:
                    raise ValueError(f"criteria.{name} needs two labels or more, and 'desired' is one of them")
        if self.answer not in kind.answers or (self.answer == "result" and not self.separate):
            alone = " with separate: true" if self.answer == "result" else ""
            kinds = kinds_with(lambda rules: self.answer in rules.answers)
            raise ValueError(f"answer: {self.answer} is for kind: {kinds}{alone}")
        if self.scores_fall and self.answer != "result":
            raise ValueError("scores_fall is for answer: result")
        if self.both_orders and not kind.paired:
            raise ValueError(f"both_orders is for two replies: kind {kinds_with(lambda rules: rules.paired)}")
        if self.about != "replies" and not kind.tags:
            raise ValueError(f"about: items and about: criteria are for kind: {kinds_with(lambda rules: rules.tags)}")
        if self.about_tutor and not kind.against_reference:
            raise ValueError(f"about_tutor is for kind: {kinds_with(lambda rules: rules.against_reference)}")
        return self

    @property
    def rules(self) -> Kind:
        """What its kind decides."""
        return KINDS[self.kind]


class LoadedRubric(Entry):
    """A rubric with the texts of its prompts."""

    rubric: Rubric
    system: str
    prompt: str
    files: tuple[Path, ...] = ()
    like: str | None = None

    @property
    def name(self) -> str:
        """The rubric's name."""
        return self.rubric.rubric


def rubric_folders() -> list[Path]:
    """Where rubric cards lie."""
    return [RUBRICS, *sorted(CARDS.glob("*/rubrics"))]


def rubric_names() -> list[str]:
    """Every rubric card on file."""
    return sorted(path.stem for folder in rubric_folders() for path in folder.glob("*.yaml"))


def rubric_path(name: str) -> Path:
    """Where a rubric card lies, or would lie as one of your own. Raises UserError for one that lies in two folders."""
    paths = [path for folder in rubric_folders() if (path := folder / f"{name}.yaml").is_file()]
    if len(paths) > 1:
        raise UserError(str(paths[0]), f"{paths[1]} has that name too", "give one of them another name")
    return paths[0] if paths else RUBRICS / f"{name}.yaml"


def chosen_rubrics(own: Sequence[str], named: Sequence[str]) -> list[str]:
    """Of a judge's own rubrics those that a card names, or that are like one that it names."""
    return [name for name in own if name in named or (named and read_rubric(name).like in named)]


def files_of(name: str) -> list[Path]:
    """A rubric's card and prompts: the inputs of a rule that uses it."""
    loaded = read_rubric(name)
    follow_up = loaded.rubric.follow_up
    return [*loaded.files, *(files_of(follow_up.rubric) if follow_up else [])]


def reworded_of(name: str) -> list[str]:
    """The card that asks for the same in other words, where a rubric has one. Raises UserError for other labels.

    A card that is like another has its wording only as long as it has its criteria and labels too.
    """
    loaded = read_rubric(name)
    rubric = loaded.rubric
    if rubric.reworded is None:
        return []
    other = read_rubric(rubric.reworded).rubric
    labels, others = ({key: one.labels for key, one in card.criteria.items()} for card in (rubric, other))
    if rubric.rules is not other.rules or labels != others:
        if loaded.like and read_rubric(loaded.like).rubric.reworded == rubric.reworded:
            return []
        problem = f"{rubric.reworded} has other criteria or labels than {name}"
        raise UserError(f"{rubric_path(name)}: reworded", problem, "reword the questions alone")
    return [rubric.reworded]


@lru_cache(maxsize=64)
def read_rubric(name: str) -> LoadedRubric:
    """Read and check a rubric card. Raises UserError naming file and key."""
    path = rubric_path(name)
    if not path.is_file():
        known = ", ".join(rubric_names())
        raise UserError(str(path), f"there is no such rubric; there are {known}", "name one of these")
    content, like = read_like(path, rubric_path)
    try:
        card = Rubric.model_validate(content)
    except ValidationError as error:
        raise fault_of(error, Rubric, str(path), "workflow/schemas/rubric.schema.json") from None
    if card.rubric != path.stem:
        raise UserError(str(path), f"rubric says {card.rubric}", "name the file as the rubric")
    named = {key: getattr(card, key) for key in ("system", "prompt")}
    beside = {key: card_beside(path, like, file) for key, file in named.items()}
    texts = {key: text_of(beside[key], key, file) for key, file in named.items()}
    if strange := [passage for passage in card.filled_in if passage not in texts["prompt"]]:
        raise UserError(f"{path}: filled_in", f"{strange[0]!r} is not in {card.prompt}", "quote the prompt's own words")
    files = [*([like] if like else []), path, *(beside[key].parent / file for key, file in named.items() if file)]
    return LoadedRubric(rubric=card, files=tuple(files), like=like.stem if like else None, **texts)


def card_beside(path: Path, like: Path | None, file: str | None) -> Path:
    """The card beside which a prompt lies: the rubric's own, or the one that it is like."""
    return like if like and file and not (path.parent / file).is_file() else path


def text_of(card: Path, key: str, name: str | None) -> str:
    """The text of a prompt file beside the card, its template checked."""
    text = read_text(card, key, name)
    try:
        variables_of(text)
    except ValueError as error:
        raise UserError(f"{card}: {key}", f"{name} is no template: {error}", "mend the template") from None
    return text


def check_rubric_variables(loaded: LoadedRubric, offered: set[str]) -> None:
    """Refuse a prompt that asks for a variable which the judged data do not give."""
    needed = variables_of(loaded.system) | variables_of(loaded.prompt)
    if unknown := needed - offered - OWN:
        raise UserError(
            str(rubric_path(loaded.name)),
            f"undefined prompt variable {', '.join(sorted(unknown))}",
            f"the judged data give {', '.join(sorted(offered | OWN))}",
        )


def values_of(rubric: Rubric, criterion: Criterion | None) -> list[str]:
    """What may be answered under one criterion."""
    return rubric.rules.values(criterion.labels if criterion else [], rubric.about_tutor)


def desired_of(rubric: Rubric, criterion: Criterion | None) -> str | bool | None:
    """The verdict of a good reply, in the terms of the grades."""
    return rubric.rules.desired(criterion.desired if criterion else None)


def scales_of(rubric: Rubric) -> dict[str, Scale]:
    """What people may say under each criterion of a rubric, in words: labels, pass and fail, win, tie and lose."""
    return {
        name: Scale(
            labels=rubric.rules.words(criterion.labels),
            desired=rubric.rules.desired_word(criterion.desired),
            level=criterion.level,
        )
        for name, criterion in rubric.criteria.items()
    }


def word_of(value: str | bool) -> str:
    """A verdict in the words of labels."""
    return value if isinstance(value, str) else PASS_FAIL[not value]
