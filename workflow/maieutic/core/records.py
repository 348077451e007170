"""The records that pass between stages: one JSON line each, their fields declared here and nowhere else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from types import EllipsisType
from typing import Any, ClassVar, Literal, NamedTuple, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from maieutic.core.errors import UserError
from maieutic.core.files import whole_file

Scoring = Literal["paper_compat", "robust"]
NegativeWeights = Literal["by_phrasing", "violated", "satisfied"]  # when a negative criterion counts
SCORINGS: tuple[Scoring, ...] = ("paper_compat", "robust")


NO_REPLY = "no recorded reply"  # instead of a refusal: the tutor has said nothing of the item
REBUILD = "delete this file and run again: it is rebuilt"
NOBODY_ASKED = "none"  # instead of a request's key


class Record(BaseModel):
    """A line of a results file. Unknown fields are refused.

    IDENTITY: the fields that tell it from every other line of its file; none: a file may hold it twice.
    """

    model_config = ConfigDict(defer_build=True, extra="forbid", frozen=True)
    IDENTITY: ClassVar[tuple[str, ...]] = ()

    def identity(self) -> tuple[Any, ...]:
        """What no other line of a file has."""
        return tuple(getattr(self, field) for field in self.IDENTITY)


class Item(Record):
    """One test case. `vars` fill the prompt, `cluster` names the problem that the bootstrap resamples.

    history: chat messages (`role`, `content`) that stand before the card's first turn; speaker: whose words that turn
    renders, where something stands before it; images: files of the picture store, which the user's first message holds.
    """

    IDENTITY = ("task", "id")

    id: str
    task: str
    cluster: str
    vars: dict[str, str]
    reference: dict[str, Any]
    tags: dict[str, str] = Field(default_factory=dict)  # factories, since pydantic copies other defaults slowly
    images: list[str] = Field(default_factory=list)
    history: list[dict[str, str]] = Field(default_factory=list)
    speaker: Literal["user", "assistant"] = "user"


NO_SOLUTION = ("", "N/A", "None", "Not Available")  # how data write a missing solution


def known_solution(text: str) -> str | None:
    """Return a reference solution, or None where the data write that there is none."""
    return None if text.strip() in NO_SOLUTION else text


class Picture(Record):
    """One record's picture: its file in the picture store, named by its SHA-256; None where it is not to be had.

    record: the number of the source's record, from 0; width and height in pixels.
    """

    record: int
    address: str
    file: str | None
    origin: Literal["embedded", "path", "address"] | None = None
    width: int | None = None
    height: int | None = None
    why_none: str | None = None


class Turn(Record):
    """One request of a conversation and what came back. `messages` is the hash of what was sent; times in seconds.

    text: the answer without its reasoning; raw: the text as the server sent it, where it differs; no_text: the server
    sent none (null); endpoint: how it was asked, null where nobody was.
    """

    messages: str
    text: str
    raw: str | None = None
    no_text: bool = False
    endpoint: Literal["chat", "completions", "responses"] | None = None
    reasoning: str | None = None
    finish: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    seconds: float | None = None

    @property
    def released(self) -> str:
        """The text that MathTutorBench's released client hands on: as sent, a completion without outer blanks.

        Source: eth-lre/mathtutorbench@54b6213, models/completion_api.py.
        """
        sent = self.text if self.raw is None else self.raw
        return sent.strip() if self.endpoint == "completions" else sent


class Reply(Record):
    """What one tutor said to one item. `error` holds a permanent refusal (context too long), then `turns` may lack."""

    IDENTITY = ("tutor", "task", "id")

    id: str
    task: str
    tutor: str
    key: str
    turns: list[Turn]
    error: str | None = None

    @property
    def absent(self) -> bool:
        """Whether a recorded tutor has no reply to the item: it is missing, and not wrong."""
        return self.error == NO_REPLY

    @property
    def trivial(self) -> bool:
        """Whether a baseline tutor said it: nobody was asked."""
        return self.key == NOBODY_ASKED

    @property
    def text(self) -> str:
        """The last turn's answer without its reasoning; empty where there is none."""
        return self.turns[-1].text if self.turns else ""

    @property
    def released(self) -> str:
        """The last turn's text as the released code reads it; empty where there is none."""
        return self.turns[-1].released if self.turns else ""


class Prompt(Record):
    """What was sent, stored once under its hash: chat messages, or one user message for a raw completion."""

    messages: str
    content: list[dict[str, Any]]


class Pair(Record):
    """A preference: after the messages of `prompt`, `chosen` is the better reply. `margin` is f(chosen) - f(rejected).

    `problem` names the problem (as an item's cluster); `tutoring` says that a reward model's instruction belongs before
    the prompt, as it does not before general requests; `tie`: people prefer neither.
    """

    id: str
    source: str
    problem: str
    prompt: list[dict[str, str]]
    chosen: str
    rejected: str
    margin: float
    tutoring: bool = True
    tie: bool = False


class Scalar(Record):
    """What a reward model says of one text; `key` names the conversation that it was given."""

    key: str
    score: float | None
    why_none: str | None = None


class Closeness(Record):
    """How close a labelled reply is to the student's last turn and to the dialogue: cosines, None of an empty text."""

    IDENTITY = ("tutor", "id")

    id: str
    tutor: str
    last_turn: float | None
    dialogue: float | None


class Reward(Record):
    """The scalar that a reward model gives to one tutor's reply to one item; None where it could not be scored.

    released: the same for the text as the released scorer takes it (unstripped, reasoning included), where it differs;
    refused: the tutor's server refused the request, so that there is no reply.
    """

    IDENTITY = ("tutor", "task", "id")

    id: str
    task: str
    tutor: str
    key: str
    score: float | None
    tokens: int
    seconds: float | None = None
    why_none: str | None = None
    released: Scalar | None = None
    refused: bool = False

    def under(self, scoring: Scoring) -> Scalar:
        """What counts under a scoring."""
        own = Scalar(key=self.key, score=self.score, why_none=self.why_none)
        return self.released if scoring == "paper_compat" and self.released else own


class PairReward(Record):
    """The scalars of both replies of a pair, by one reward model or one criterion's classifier."""

    id: str
    problem: str
    criterion: str | None = None
    chosen: float | None
    rejected: float | None
    why_none: str | None = None


class Labelling(Record):
    """What one criterion's classifier says of a held-out reply: the label of people, and the probability of 1."""

    id: str
    dialogue: str
    criterion: str
    label: int
    probability: float | None
    tokens: int


class Scale(Record):
    """What may be said of a reply under one criterion.

    labels: as the data spell them, of an ordinal scale from one end to the other; desired: the label of a good reply,
    None where none is better; level: whether the order of the labels means something.
    """

    labels: tuple[str, ...]
    desired: str | None = None
    level: Literal["ordinal", "nominal"] = "ordinal"


Scales = Mapping[str, Scale]  # by criterion


class LabelSetAbout(Record):
    """What a labelled set is, beside its items, replies and labels.

    scales: by criterion; asked: the criteria that a judge of a set without labels is asked; rubric: the card that gave
    the scales, None where every card with these criteria and labels fits.
    """

    scales: dict[str, Scale]
    asked: tuple[str, ...] = ()
    rubric: str | None = None


class Label(Record):
    """What people say of one tutor's reply under one criterion. `problem` is what the bootstrap draws.

    resolves: by somebody who decides where others differ; probability: that the reply was drawn for people to label,
    None where nobody has said it; stratum: of the replies of which it was drawn at random, so many.
    """

    id: str
    task: str
    tutor: str
    criterion: str
    label: str
    problem: str
    annotator: str | None = None
    resolves: bool = False
    probability: float | None = Field(None, gt=0, le=1)
    stratum: str | None = None
    stratum_size: int | None = None


class LabelledSet(NamedTuple):
    """A labelled release: its items, what each tutor said, what people say of it.

    lengths: characters of a dialogue as released, by item, where the release has dialogues; given: the labels of each
    annotator, where the set has them; `labels` then says what they say together.
    """

    items: list[Item]
    replies: list[Reply]
    labels: list[Label]
    lengths: dict[str, int] = {}
    given: list[Label] = []


class Verdict(Record):
    """What a judge says under one criterion; None where nothing could be read, and `why_none` says why.

    recovered: the answer was no valid JSON and was read after its quotation marks or commas had been mended.
    """

    criterion: str | None
    value: str | bool | None
    why_none: str | None = None
    reason: str | None = None
    recovered: bool = False


class Judgement(Record):
    """One question put to a judge about one reply (or pair of replies), with the whole answer.

    `tutor`: whose reply is judged, None for a pair; `order` says which reply stood first.
    """

    IDENTITY = ("tutor", "task", "id", "rubric", "order")

    id: str
    task: str
    tutor: str | None
    rubric: str
    order: Literal["ab", "ba"] | None = None
    key: str
    verdicts: list[Verdict]
    raw: str
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    seconds: float | None = None

    @property
    def recovered(self) -> int:
        """Number of verdicts from invalid JSON that was mended (`Verdict.recovered`)."""
        return sum(verdict.recovered for verdict in self.verdicts)

    def identity(self) -> tuple[Any, ...]:
        """A rubric may ask about each criterion apart, and again about those that an answer left out."""
        return *super().identity(), *(verdict.criterion for verdict in self.verdicts)


class Grade(Record):
    """One value of one tutor's reply by one grader under one scoring: all that scoring reads.

    kind: the parser's name, `reward` or `judge`; by: the reward model or judge, None for a parser; value: None where
    nothing could be read, and `why_none` says why; correct: whether it is right, where there is a right and a wrong;
    gold: what it was held against; raw: the passage that was read; reason: a judge's; refused: the tutor's server gave
    no reply, so that the item is missing and not wrong.
    """

    IDENTITY = ("task", "id", "kind", "by", "scoring", "criterion")

    id: str
    task: str
    kind: str
    by: str | None = None
    scoring: Scoring
    criterion: str | None = None
    value: float | int | str | bool | None
    correct: bool | None
    gold: float | int | str | bool | None = None
    raw: str
    why_none: str | None = None
    reason: str | None = None
    refused: bool = False


class Quantity(NamedTuple):
    """What a number is of: its metric, and the criterion, the subset and the labelled release, where it is of one."""

    metric: str
    criterion: str | None = None
    subset: str | None = None
    release: str | None = None


class Score(Record):
    """One number with its 95 % interval [low, high] and the counts behind it; what it is of stands in columns.

    benchmark, task: of the items; a pool of tasks, or `trust` and the like for what graders are worth; tutor: whose
    replies; grader: which judge, reward model or rater is validated, where the number is its own; criterion: of a
    rubric or of classifiers, or the rubric by which pairs are judged; subset: of the items or criteria; release: of
    people's labels; by: the reward model, judge or people that the number rests on, None: a parser.
    n: items in the value; missing: items left out, since a grader's answer cannot be read or the tutor's server refused
    and there is no reply to grade; unreadable: of n, those whose reply cannot be read and counts as wrong; clusters:
    problems, of which the bootstrap draws; normal: half the width of the normal 95 % interval, 1.96 sd / sqrt(n), as
    some papers print it; version: of the task's card, None for a number of several tasks, or of a grader.
    """

    benchmark: str | None = None
    task: str
    tutor: str | None = None
    grader: str | None = None
    metric: str
    criterion: str | None = None
    subset: str | None = None
    release: str | None = None
    by: str | None = None
    scoring: Scoring
    headline: bool
    value: float | None
    low: float | None
    high: float | None
    n: int
    missing: int
    clusters: int
    unreadable: int = 0
    version: int | None = None
    normal: float | None = None

    @property
    def quantity(self) -> Quantity:
        """What the number is of."""
        return Quantity(self.metric, self.criterion, self.subset, self.release)

    @property
    def readable(self) -> float | None:
        """The share of the items with an answer that can be read, the tutor's or its grader's; None without items."""
        counted = self.n + self.missing
        return (self.n - self.unreadable) / counted if counted else None


class ReportedScore(Score):
    """A score beside what the report holds against it.

    floor: the best trivial tutor's value; ceiling: the human reference's; paper: the printed value, where it may be
    compared; changed: a card, prompt, rubric or source file behind the number is not as shipped.
    """

    tutor: str  # what the report shows beside floors and papers is always a tutor's
    floor: float | None = None
    ceiling: float | None = None
    paper: float | None = None
    changed: bool = False


class Difference(Record):
    """How far one tutor is ahead of another by a headline metric, on the items that both have answered.

    value: the first one's less the second one's, with its 95 % interval [low, high] over problems; p: of no difference,
    by the same bootstrap; p_holm: corrected over all differences of a benchmark under one scoring; by: the reward model
    or judge, None: a parser; n: items, of so many problems (clusters). Where an item is right or wrong:
    first_alone_right, second_alone_right: items that one of both has right; mcnemar_p: McNemar's exact test of these.
    """

    benchmark: str | None
    task: str
    first: str
    second: str
    metric: str
    criterion: str | None
    by: str | None
    scoring: Scoring
    value: float | None
    low: float | None
    high: float | None
    p: float | None
    p_holm: float | None = None
    n: int
    clusters: int
    first_alone_right: int | None = None
    second_alone_right: int | None = None
    mcnemar_p: float | None = None


R = TypeVar("R", bound=Record)


def write_records(path: Path, records: Iterable[Record]) -> None:
    """Write one record per line; the file appears whole or not at all."""
    with whole_file(path) as handle:
        for record in records:
            handle.write(record.model_dump_json() + "\n")


def each_record(path: Path, kind: type[R], first: int = 0, step: int = 1) -> Iterator[R]:
    """The records of a results file, one at a time.

    A line that is broken, or is there twice, is refused by file and line number.
    first, step: only every `step`-th record, from the one at place `first` on, from 0.
    """
    seen: dict[tuple[Any, ...], tuple[int, int]] = {}  # by identity, the line's number and the hash of its text
    with open(path, "rb") as handle:
        for number, line in islice(enumerate(handle, 1), first, None, step):
            try:
                record = kind.model_validate_json(line)
            except ValidationError as error:
                fault = error.errors()[0]
                field = ".".join(map(str, fault["loc"])) or "the line"
                problem = f"expected a {kind.__name__} record, found {fault['msg'].lower()} at {field}"
                raise UserError(f"{path}:{number}", problem, REBUILD) from None
            if kind.IDENTITY:
                content = hash(line.strip())
                before = seen.setdefault(record.identity(), (number, content))
                if before[0] != number:
                    does = "repeats" if before[1] == content else "contradicts"
                    raise UserError(f"{path}:{number}", f"{does} line {before[0]}, {shown(record)}", REBUILD)
            yield record


def shown(record: Record) -> str:
    """What a line is of, as words of a message."""
    fields = {field: getattr(record, field) for field in record.IDENTITY}
    about = [f"{field} {value!r}" for field, value in fields.items() if value is not None]
    return f"a {type(record).__name__} of {', '.join(about)}"


def read_records(path: Path, kind: type[R]) -> list[R]:
    """The records of a results file."""
    return list(each_record(path, kind))


def records_about(path: Path, kind: type[R], items: Iterable[Item], **owner: str | EllipsisType | None) -> list[R]:
    """The records of a results file, each about an item that is known wherever one of its task is, all of one owner."""
    return checked(path, read_records(path, kind), items, **owner)


def checked(path: Path, records: list[R], items: Iterable[Item], **owner: str | EllipsisType | None) -> list[R]:
    """The records of a file. Raises UserError for one about an unknown item of a known task, or of another owner.

    owner: a field with the value that it has in every line of the file, `...` for that of the first line.
    """
    known = {(item.task, item.id) for item in items}
    tasks = {task for task, _ in known}
    for number, record in enumerate(records, 1):
        place = f"{path}:{number}"
        task, item = getattr(record, "task"), getattr(record, "id")  # noqa: B009 (of those kinds that have them)
        if task in tasks and (task, item) not in known:
            raise UserError(place, f"{shown(record)}, and {task} has no such item", REBUILD)
        for field, value in owner.items():
            found = getattr(record, field)
            if value is ...:
                value = owner[field] = found
            if found != value:
                raise UserError(place, f"expected {field} {value!r}, found {found!r} ({shown(record)})", REBUILD)
    return records


def read_items(folder: Path, tasks: Iterable[str]) -> list[Item]:
    """The items of some tasks, task by task. folder: of a benchmark's items, a file for each task."""
    return [item for task in tasks for item in read_records(folder / f"{task}.jsonl", Item)]
