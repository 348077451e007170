"""Rubric cards: the question to a judge, the form of its answer, and the criteria of its verdicts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, ValidationError, model_validator

from maieutic.config.cards import Card, card_folders, card_of_prompt, read_text, read_with_base, turn_criterion
from maieutic.config.faults import suggestion_for, validation_fault
from maieutic.config.models import JudgeModel, StrictModel
from maieutic.config.prompts import template_variables
from maieutic.config.rubric_kinds import KINDS, PASS_FAIL, RubricKind
from maieutic.core.errors import UserError
from maieutic.core.extensions import resource_folders
from maieutic.core.paths import RESOURCES
from maieutic.core.records import MAX_TURNS, Scale

USER_RUBRICS = RESOURCES / "rubrics"  # folder of users' cards; a benchmark's cards are in the benchmark's folder
if TYPE_CHECKING:
    KindName = str
else:
    KindName = Literal[tuple(KINDS)]
AnswerForm = Literal["result", "letter", "json"]
# Variables that every prompt can use, regardless of the judged data
BUILT_IN_VARIABLES = {"criteria", "definition", "scoring", "notice", "order", "picture_shown"}


class Criterion(StrictModel):
    """One criterion of a rubric. Its labels are listed by rising score, or by falling score with `scores_fall`."""

    title: str
    definition: str = Field(description="Question that the judge answers")
    scoring: str = Field("", description="Scoring rubric of the criterion, verbatim from its source")
    aspects: list[str] = Field([], description="Aspects that the judge considers, in the order of the prompt")
    group: str | None = Field(
        None,
        description="Group of the criterion. The share of desired verdicts in each group is a grade. Items may name "
        "the groups that apply to them",
    )
    source: str = Field("", description="Publication that defines the criterion, or a note that the criterion is ours")
    turn: int | None = Field(
        None, ge=1, description="Turn of the tutor that the criterion is about. Set by the rubric's `turns`"
    )
    labels: list[str] = Field([], description="Allowed answers, spelt as in the data")
    desired: str | None = Field(None, description="Label of a good reply; null if no label is better than another")
    level: Literal["ordinal", "nominal"] = Field(
        "ordinal", description="ordinal: the labels are ordered as listed; nominal: they have no order"
    )
    weight: float | None = Field(None, description="Weight of the criterion in a weighted rubric")


class FollowUp(StrictModel):
    """Follow-up question about replies that received a certain verdict."""

    rubric: str
    criterion: str
    value: str = Field(
        description="Verdict that leads to the follow-up question, as stored in grades: win, tie or lose"
    )


def kinds_with(condition: Callable[[RubricKind], bool]) -> str:
    """Return the names of the kinds that satisfy a condition, joined by "or"."""
    return " or ".join(name for name, kind in KINDS.items() if condition(kind))


class Rubric(StrictModel):
    """Content of a rubric card. Its prompt files are stored in the card's folder."""

    rubric: str = Field(pattern=r"^[a-z][a-z0-9_]*$")
    version: int = Field(
        ge=1, description="Version of the rubric, to be increased whenever the meaning of verdicts changes"
    )
    title: str
    source: str = Field(description="Paper and figure that contain the rubric, and a note on the parts that are ours")
    kind: KindName
    answer: AnswerForm = Field(
        description="Form of the answer. result: [RESULT] and a score; letter: [[A]] or [[B]]; json: an object, "
        "constrained by a schema if the server supports it"
    )
    system: str | None = Field(None, description="Template of the system message")
    prompt: str = Field(description="Template of the user message")
    scores_fall: bool = Field(
        False,
        description="For `answer: result`: true if the first label has the highest score and the last one has score 1",
    )
    separate: bool = Field(
        False, description="Ask one question for each criterion instead of one question for all criteria"
    )
    turns: int | None = Field(
        None,
        ge=1,
        le=MAX_TURNS,
        description="For kind turns: maximum number of turns. Each criterion NAME becomes the group NAME of the "
        "criteria NAME_turn_1, NAME_turn_2, ...",
    )
    both_orders: bool = Field(False, description="Ask about two replies twice, in both orders")
    about_tutor: bool = Field(
        False,
        description="For win_tie_lose: the answer is Win, Tie or Lose for the tutor's reply, instead of A, tie or B",
    )
    about: Literal["replies", "items", "criteria"] = Field(
        "replies",
        description="Objects that the rubric is about. Judges judge replies; `run.taggers` tag items and criteria",
    )
    when: str | None = Field(
        None, description="Condition that a reply must satisfy to be judged; other replies get no grade"
    )
    follow_up: FollowUp | None = Field(
        None, description="Follow-up question about replies that received a certain verdict"
    )
    filled_in: list[str] = Field(
        [],
        description="Passages of a quoted prompt that are in our words, because they are illegible in its source; the "
        "report marks them",
    )
    asks: int = Field(
        1,
        ge=1,
        le=3,
        description="Maximum number of requests; later requests ask about criteria that an answer omitted",
    )
    reworded: str | None = Field(
        None, description="Rubric card with the same criteria and labels in other words, for `run.probes`"
    )
    criteria: dict[str, Criterion] = Field({}, description="Criteria of the card; empty if every item has its own")
    temperature: float = Field(0.0, ge=0)
    max_tokens: int = Field(512, ge=1)

    @model_validator(mode="after")
    def check_combination(self) -> Rubric:
        kind = self.rules
        if kind.own_labels:
            if not self.criteria:
                raise ValueError(f"kind: {self.kind} needs criteria on the card")
            for name, criterion in self.criteria.items():
                if len(criterion.labels) < 2 or criterion.desired not in {None, *criterion.labels}:
                    raise ValueError(f"criteria.{name} needs at least two labels, and 'desired' must be one of them")
        if self.answer not in kind.answers or (self.answer == "result" and not self.separate):
            alone = " with separate: true" if self.answer == "result" else ""
            kinds = kinds_with(lambda rules: self.answer in rules.answers)
            raise ValueError(f"answer: {self.answer} requires kind: {kinds}{alone}")
        if (self.turns is not None) != kind.by_turn:
            raise ValueError("turns (a number) and kind: turns require each other")
        if self.scores_fall and self.answer != "result":
            raise ValueError("scores_fall requires answer: result")
        if self.both_orders and not kind.paired:
            raise ValueError(f"both_orders requires two replies, so set kind: {kinds_with(lambda rules: rules.paired)}")
        if self.about != "replies" and not kind.tags:
            raise ValueError(f"about: items and about: criteria require kind: {kinds_with(lambda rules: rules.tags)}")
        if self.about_tutor and not kind.against_reference:
            raise ValueError(f"about_tutor requires kind: {kinds_with(lambda rules: rules.against_reference)}")
        return self

    @model_validator(mode="before")
    @classmethod
    def with_turns(cls, content: Any) -> Any:
        """Replace each criterion by one for each turn, in the order of the turns."""
        turns, criteria = (content.get(key) if isinstance(content, dict) else None for key in ("turns", "criteria"))
        if not isinstance(turns, int) or not 1 <= turns <= MAX_TURNS or not isinstance(criteria, dict):
            return content  # the checks of the single fields find these faults
        if not all(isinstance(criterion, dict) and "turn" not in criterion for criterion in criteria.values()):
            return content
        by_turn = {
            turn_criterion(name, turn): {
                **criterion, "turn": turn, "group": name, "title": f"{criterion.get('title', name)}, turn {turn}"
            }
            for turn in range(1, turns + 1)
            for name, criterion in criteria.items()
        }  # fmt: skip
        return {**content, "criteria": by_turn}

    @property
    def rules(self) -> RubricKind:
        """Rules of the rubric's kind."""
        return KINDS[self.kind]


class LoadedRubric(StrictModel):
    """Rubric card with the texts of its prompts. like: name of the card that it extends."""

    rubric: Rubric
    system: str
    prompt: str
    files: tuple[Path, ...] = ()
    like: str | None = None

    @property
    def name(self) -> str:
        """Name of the rubric."""
        return self.rubric.rubric


def rubric_folders() -> list[Path]:
    """Return the folders of rubric cards: the users' folder, each benchmark's folder, and those of extensions."""
    folders = [folder / "rubrics" for folder in resource_folders()]
    of_benchmarks = [path for folder in card_folders() for path in sorted(folder.glob("*/rubrics"))]
    return [folders[0], *of_benchmarks, *folders[1:]]


def rubric_names() -> list[str]:
    """Return the names of all rubric cards."""
    return sorted(path.stem for folder in rubric_folders() for path in folder.glob("*.yaml"))


def rubric_path(name: str) -> Path:
    """Return the path of a rubric card, in USER_RUBRICS if no such card exists.

    Raises UserError if two cards have the name.
    """
    paths = [path for folder in rubric_folders() if (path := folder / f"{name}.yaml").is_file()]
    if len(paths) > 1:
        raise UserError(str(paths[0]), f"{paths[1]} has the same name", "rename one of the two cards")
    return paths[0] if paths else USER_RUBRICS / f"{name}.yaml"


def chosen_rubrics(names: Sequence[str], on_card: Sequence[str]) -> list[str]:
    """Return those of a judge's rubrics (`names`) that a task card lists (`on_card`) or that extend a listed rubric."""
    return [name for name in names if name in on_card or (on_card and read_rubric(name).like in on_card)]


def files_of_rubric(name: str) -> list[Path]:
    """Return the card and prompt files of a rubric and of its follow-up, as inputs of workflow rules."""
    loaded = read_rubric(name)
    follow_up = loaded.rubric.follow_up
    return [*loaded.files, *(files_of_rubric(follow_up.rubric) if follow_up else [])]


def alternative_wording(name: str) -> list[str]:
    """Return a list with the name of a rubric's reworded card, or an empty list if the rubric has no such card.

    Raises UserError if the two cards have different criteria or labels. If the rubric's card only inherits the reworded
    card from the card that it extends, the list is empty in this case.
    """
    loaded = read_rubric(name)
    rubric = loaded.rubric
    if rubric.reworded is None:
        return []
    other = read_rubric(rubric.reworded).rubric
    labels, others = ({key: criterion.labels for key, criterion in card.criteria.items()} for card in (rubric, other))
    if rubric.rules is not other.rules or labels != others:
        if loaded.like and read_rubric(loaded.like).rubric.reworded == rubric.reworded:
            return []
        problem = f"{rubric.reworded} has other criteria or labels than {name}"
        fix = "give both cards the same criteria and labels, and reword only the questions"
        raise UserError(f"{rubric_path(name)}: reworded", problem, fix)
    return [rubric.reworded]


@lru_cache(maxsize=64)
def read_rubric(name: str) -> LoadedRubric:
    """Read and check a rubric card. Raises UserError that names the file and the key."""
    path = rubric_path(name)
    if not path.is_file():
        raise UserError(str(path), "the rubric does not exist", suggestion_for(name, rubric_names()))
    content, like = read_with_base(path, rubric_path)
    try:
        card = Rubric.model_validate(content)
    except ValidationError as error:
        raise validation_fault(error, Rubric, str(path), "workflow/schemas/rubric.schema.json") from None
    if card.rubric != path.stem:
        raise UserError(
            str(path),
            f"expected rubric: {path.stem}, found {card.rubric}",
            "give the file and its rubric the same name",
        )
    prompts = {key: getattr(card, key) for key in ("system", "prompt")}
    beside = {key: card_of_prompt(path, like, file) for key, file in prompts.items()}
    texts = {key: prompt_file_text(beside[key], key, file) for key, file in prompts.items()}
    if strange := [passage for passage in card.filled_in if passage not in texts["prompt"]]:
        raise UserError(
            f"{path}: filled_in", f"{strange[0]!r} is not in {card.prompt}", "replace it with a passage of the prompt"
        )
    files = [*([like] if like else []), path, *(beside[key].parent / file for key, file in prompts.items() if file)]
    return LoadedRubric(rubric=card, files=tuple(files), like=like.stem if like else None, **texts)


def prompt_file_text(card: Path, key: str, name: str | None) -> str:
    """Return the text of a prompt file in the card's folder. Raises UserError if it is not a valid template."""
    text = read_text(card, key, name)
    try:
        template_variables(text)
    except ValueError as error:
        raise UserError(f"{card}: {key}", f"{name} is not a valid template: {error}", "correct the template") from None
    return text


def check_rubric_variables(loaded: LoadedRubric, offered: set[str]) -> None:
    """Raise UserError if a prompt uses a variable that the judged data do not have. offered: variables of the data."""
    needed = template_variables(loaded.system) | template_variables(loaded.prompt)
    if unknown := needed - offered - BUILT_IN_VARIABLES:
        raise UserError(
            str(rubric_path(loaded.name)),
            f"the prompt uses undefined variables: {', '.join(sorted(unknown))}",
            f"use only these variables: {', '.join(sorted(offered | BUILT_IN_VARIABLES))}",
        )


def allowed_answers(rubric: Rubric, criterion: Criterion | None) -> list[str]:
    """Return the allowed answers under one criterion. criterion: None for a rubric without criteria."""
    return rubric.rules.values(criterion.labels if criterion else [], rubric.about_tutor)


def desired_verdict(rubric: Rubric, criterion: Criterion | None) -> str | bool | None:
    """Return the verdict on a good reply, as stored in grades, or None if no verdict is better than the others."""
    return rubric.rules.desired(criterion.desired if criterion else None)


def annotation_scales(rubric: Rubric) -> dict[str, Scale]:
    """Return the scale of labels that annotators use under each criterion."""
    return {
        name: Scale(
            labels=rubric.rules.annotator_labels(criterion.labels),
            desired=rubric.rules.desired_label(criterion.desired),
            level=criterion.level,
        )
        for name, criterion in rubric.criteria.items()
    }


def verdict_label(value: str | bool) -> str:
    """Return a verdict as a label: True as pass, False as fail."""
    return value if isinstance(value, str) else PASS_FAIL[not value]


def rubric_for_card(key: str, judge: JudgeModel, card: Card) -> LoadedRubric:
    """Return the first of a judge's rubrics that fits a task's card. key: the judge's config key, for messages."""
    for name in chosen_rubrics(judge.rubrics, card.rubrics):
        return read_rubric(name)
    task, names = f"{card.benchmark}/{card.task}", ", ".join(judge.rubrics) or "none"
    fix = f"add a rubric that the task's card names: {', '.join(card.rubrics)}"
    raise UserError(f"{key}.rubrics", f"expected a rubric for {task}, found {names}", fix)
