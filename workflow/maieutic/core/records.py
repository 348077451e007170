"""Types of the records that stages exchange as JSON lines. The fields of these records are declared only here."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from operator import attrgetter, not_
from pathlib import Path
from types import EllipsisType
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from maieutic.core.errors import UserError
from maieutic.core.files import atomic_file

Scoring = Literal["paper_compat", "robust"]
# Cases in which a criterion with a negative weight lowers the rating.
NegativeWeights = Literal["by_phrasing", "violated", "satisfied"]
SCORINGS: tuple[Scoring, ...] = ("paper_compat", "robust")


NO_REPLY = "no recorded reply"  # value of `Reply.error` if a recorded tutor did not answer the item
REBUILD_FIX = "delete this file and run again: it is rebuilt"
COPY_MARK = "~"  # precedes the number of a copy in the id of an item
NO_REQUEST = "none"  # request key of replies and verdicts for which no model was called


MAX_TURNS = 20  # maximum number of turns of a scripted conversation


class Record(BaseModel):
    """Base class of the lines of results files. Unknown fields are refused.

    IDENTITY: fields that together identify a record within its file; empty if a file may contain equal records.
    """

    model_config = ConfigDict(defer_build=True, extra="forbid", frozen=True)
    IDENTITY: ClassVar[tuple[str, ...]] = ()

    def identity(self) -> tuple[Any, ...]:
        """Return the values that identify this record within its file."""
        return tuple(getattr(self, field) for field in self.IDENTITY)


class Item(Record):
    """One test case. `vars` fill the prompt; `cluster` identifies the problem that the bootstrap resamples.

    script: the student's turns after the card's own turns, in a conversation whose student follows a script. Each one
    replaces the variable `student` in the card's last template.
    history: chat messages (`role`, `content`) before the card's first turn; speaker: role of the card's first turn if
    other messages precede it; images: files in the picture store that are added to the first user message; repeat:
    number of earlier copies of this item, 0 for the item itself. Copies have the same content and cluster, and are
    asked once more (`repeats` of a model).
    """

    IDENTITY = ("task", "id")

    id: str
    task: str
    cluster: str
    vars: dict[str, str]
    reference: dict[str, Any]
    tags: dict[str, str] = Field(default_factory=dict)  # a factory, since pydantic copies other mutable defaults slowly
    images: list[str] = Field(default_factory=list)
    history: list[dict[str, str]] = Field(default_factory=list)
    script: list[str] = Field(default_factory=list, max_length=MAX_TURNS - 1)
    speaker: Literal["user", "assistant"] = "user"
    repeat: int = 0

    @property
    def base(self) -> str:
        """Id of the item of which this item is a copy, or its own id."""
        return self.id.removesuffix(f"{COPY_MARK}{self.repeat + 1}") if self.repeat else self.id

    def copy_number(self, repeat: int) -> Item:
        """Return the copy of this item for a repeat; the item itself for 0."""
        return self.model_copy(update={"id": f"{self.id}{COPY_MARK}{repeat + 1}", "repeat": repeat}) if repeat else self


NO_SOLUTION = ("", "N/A", "None", "Not Available")  # texts that mark a missing solution in the data sets


def known_solution(text: str) -> str | None:
    """Return a reference solution, or None if the data set marks it as missing."""
    return None if text.strip() in NO_SOLUTION else text


class Picture(Record):
    """One picture of a source record, stored under its SHA-256.

    record: number of the source record, from 0; file: name in the picture store, None if the picture is unavailable;
    width, height: in pixels.
    """

    record: int
    address: str
    file: str | None
    origin: Literal["embedded", "path", "address"] | None = None
    width: int | None = None
    height: int | None = None
    why_none: str | None = None


# True if a request was in a batch of a provider's batch API, which costs less. Files contain the field only if True.
Batched = Annotated[bool, Field(exclude_if=not_)]


class Turn(Record):
    """One request of a conversation and its answer.

    messages: hash of the prompt; text: the answer without its reasoning; raw: the text as the server sent it, if it
    differs; no_text: True if the server sent null; endpoint: API that was called, None if no model was called; seconds:
    duration of the request, 0 for a request in a batch.
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
    batched: Batched = False

    @property
    def released(self) -> str:
        """Text as MathTutorBench's released client returns it: stripped for the completions API, otherwise as sent.

        Source: eth-lre/mathtutorbench@54b6213, models/completion_api.py.
        """
        sent = self.text if self.raw is None else self.raw
        return sent.strip() if self.endpoint == "completions" else sent


class Reply(Record):
    """One tutor's reply to one item.

    error: message of a permanent refusal by the server, such as for a context that is too long, or NO_REPLY; `turns`
    may then be empty. ended: reason why a scripted conversation ended early, other than a refusal.
    """

    IDENTITY = ("tutor", "task", "id")

    id: str
    task: str
    tutor: str
    key: str
    turns: list[Turn]
    error: str | None = None
    ended: str | None = None

    @property
    def absent(self) -> bool:
        """True if a recorded tutor has no reply to the item, which counts as missing, not as wrong."""
        return self.error == NO_REPLY

    @property
    def trivial(self) -> bool:
        """True if the reply was made without a call to a model, as by a baseline tutor."""
        return self.key == NO_REQUEST

    @property
    def text(self) -> str:
        """Answer of the last turn without its reasoning, or an empty string."""
        return self.turns[-1].text if self.turns else ""

    @property
    def released(self) -> str:
        """Text of the last turn as MathTutorBench's released client returns it, or an empty string."""
        return self.turns[-1].released if self.turns else ""


class Prompt(Record):
    """One prompt, stored once under its hash: chat messages, or a single user message for a raw completion."""

    messages: str
    content: list[dict[str, Any]]


class Pair(Record):
    """One preference between two replies: `chosen` is a better continuation of `prompt` than `rejected`.

    problem: identifier of the problem, like `cluster` of an item; margin: number of criteria with the desired label in
    `chosen`, minus their number in `rejected` (MathTutorBench, equation 2), 1 if there are no labels, 0 for a tie;
    tutoring: True if a reward model's instruction is put before the prompt, False for general requests; tie: True if
    people prefer neither reply.
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


class RewardScalar(Record):
    """Output of a reward model for one text. `key` identifies the scored conversation."""

    key: str
    score: float | None
    why_none: str | None = None


class Closeness(Record):
    """Cosine similarity of a labelled reply to the student's last turn and to the dialogue; None for an empty text."""

    IDENTITY = ("tutor", "id")

    id: str
    tutor: str
    last_turn: float | None
    dialogue: float | None


class Reward(Record):
    """Scalar of a reward model for one tutor's reply to one item; `score` is None if it could not be computed.

    released: scalar for the text as the released scorer reads it (not stripped, reasoning included), if that text
    differs; refused: True if the tutor's server refused the request, so that there is no reply to score.
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
    released: RewardScalar | None = None
    refused: bool = False

    def under(self, scoring: Scoring) -> RewardScalar:
        """Return the scalar under a scoring: `released` under paper_compat if it is set, otherwise `score`."""
        robust = RewardScalar(key=self.key, score=self.score, why_none=self.why_none)
        return self.released if scoring == "paper_compat" and self.released else robust


class PairReward(Record):
    """Scalars of both replies of a pair, from one reward model or one criterion's classifier."""

    id: str
    problem: str
    criterion: str | None = None
    chosen: float | None
    rejected: float | None
    why_none: str | None = None


class Labelling(Record):
    """Human label of a held-out reply under one criterion, and the probability of label 1 from the classifier."""

    id: str
    dialogue: str
    criterion: str
    label: int
    probability: float | None
    tokens: int


class Scale(Record):
    """Label scale of one criterion.

    labels: labels as spelled in the data, in order if the scale is ordinal; desired: label of a good reply, None if no
    label is better than the others; level: level of measurement.
    """

    labels: tuple[str, ...]
    desired: str | None = None
    level: Literal["ordinal", "nominal"] = "ordinal"


Scales = Mapping[str, Scale]  # criterion -> its label scale


class LabelSetDescription(Record):
    """Description of a labelled set, stored next to its items, replies and labels.

    scales: label scale of each criterion; asked: criteria that judges apply if the set has no labels; rubric: rubric
    card that defines the scales, None if any card with these criteria and labels fits.
    """

    scales: dict[str, Scale]
    asked: tuple[str, ...] = ()
    rubric: str | None = None


class Label(Record):
    """Human label of one tutor's reply under one criterion. `problem` is the cluster that the bootstrap resamples.

    resolves: True if this annotator resolves disagreements; probability: inclusion probability of the reply in the
    sample drawn for labelling, None if unknown; stratum: sampling stratum of the reply; stratum_size: number of replies
    in the stratum.
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
    """Items, replies and human labels of one release.

    labels: labels consolidated over annotators; lengths: number of characters in each item's dialogue as released,
    empty if the release contains no dialogues; annotations: labels of the individual annotators, if released.
    """

    items: list[Item]
    replies: list[Reply]
    labels: list[Label]
    lengths: dict[str, int] = {}
    annotations: list[Label] = []


class Verdict(Record):
    """A judge's verdict under one criterion. `value` is None if it could not be parsed; `why_none` is then the reason.

    recovered: True if the answer was invalid JSON that was parsed after its quotation marks or commas were repaired.
    """

    criterion: str | None
    value: str | bool | None
    why_none: str | None = None
    reason: str | None = None
    recovered: bool = False


class Judgement(Record):
    """One question to a judge about one reply or a pair of replies, with the full answer.

    tutor: author of the judged reply, None for a pair; order: order of the two replies in the prompt, None for a single
    reply.
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
    batched: Batched = False

    @property
    def recovered(self) -> int:
        """Number of verdicts parsed from repaired JSON (`Verdict.recovered`)."""
        return sum(verdict.recovered for verdict in self.verdicts)

    def identity(self) -> tuple[Any, ...]:
        """Return the identity with the criteria, since one rubric can lead to several questions about a reply."""
        return *super().identity(), *(verdict.criterion for verdict in self.verdicts)


class Grade(Record):
    """One grader's value for one tutor's reply under one scoring. Scores are computed from grades alone.

    kind: the parser's name, `reward` or `judge`; by: the reward model or judge, None for a parser; value: None if the
    answer could not be parsed, and `why_none` is then the reason; correct: None if the task has no right answer; gold:
    reference value; raw: the parsed passage, normalised; span: turn, start and end of the shortest passage from which
    the parser reads the value (in code points of the turn's text, end exclusive), None without a single passage;
    reason: the judge's rationale; refused: True if the tutor's server refused the request, so that the item is missing,
    not wrong.
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
    span: tuple[int, int, int] | None = None
    why_none: str | None = None
    reason: str | None = None
    refused: bool = False


class Quantity(NamedTuple):
    """Identity of a reported number: its metric and, where they apply, criterion, subset and labelled release."""

    metric: str
    criterion: str | None = None
    subset: str | None = None
    release: str | None = None


class Score(Record):
    """One number with its 95 % interval [low, high], the counts behind it, and a description of what was measured.

    benchmark, task: source of the items. `task` may also name a pool of tasks, or a validation of graders (`trust`).
    tutor: author of the replies. grader: the validated judge, reward model or rater, if the number describes a grader.
    criterion: criterion of a rubric or classifier, or the rubric by which pairs are judged. subset: subset of the items
    or criteria. release: release of human labels. by: reward model, judge or people that graded, None for a parser.
    n: number of items in the value. missing: number of items left out because the grader's answer cannot be parsed or
    the tutor's server refused the request. unreadable: number of items, included in `n`, whose reply cannot be parsed
    and counts as wrong. doubtful: number of those replies that the parser did not understand, although a value may
    stand in them; best: the value if all of them were right, None without any. if_wrong, if_right: the value if every
    item without an answer by the tutor were wrong, and if every one were right; None without such items, or if the
    metric's scale has no right and wrong. withheld: True if this would be the headline of its task, but more items than
    `run.max_missing` have no answer. clusters: number of problems that the
    bootstrap resamples. normal: half-width of the normal 95 % interval, 1.96 sd / sqrt(n), which some papers report.
    version: version of the task's card, None for a number over several tasks or about a grader.
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
    doubtful: int = 0
    best: float | None = None
    if_wrong: float | None = None
    if_right: float | None = None
    withheld: bool = False
    version: int | None = None
    normal: float | None = None

    @property
    def quantity(self) -> Quantity:
        """Identity of the number among the numbers of its task and tutor."""
        return Quantity(self.metric, self.criterion, self.subset, self.release)

    @property
    def readable(self) -> float | None:
        """Share of the items for which both the tutor's and the grader's answer can be parsed; None without items."""
        items = self.n + self.missing
        return (self.n - self.unreadable) / items if items else None


class ReportedScore(Score):
    """Score with the reference values that the report shows next to it.

    floor: value of the best trivial tutor; ceiling: value of the human reference; paper: value in the paper, if it is
    comparable; changed: True if a card, prompt, rubric or source file behind the number differs from the shipped one.
    """

    tutor: str  # required here, since only tutors have a floor and a value in a paper
    floor: float | None = None
    ceiling: float | None = None
    paper: float | None = None
    changed: bool = False


class Difference(Record):
    """Paired difference of two tutors under a headline metric, on the items that both answered.

    value: first tutor's value minus the second's, with its 95 % interval [low, high] over problems; p: p value of the
    hypothesis of no difference, from the same Student's t distribution as the interval; p_holm: p value with Holm's
    correction over all differences of a benchmark under one scoring; centre, error: centre and standard error of that
    distribution, which has `clusters` - 1 degrees of freedom; None without an interval; largest: largest possible
    difference, None if the metric is not bounded; same: True if every shared item has the same grade for both tutors;
    by: reward model or judge, None for a parser; n: number of shared items; clusters: number of problems. The other
    fields are set only if each item is right or wrong: first_alone_right, second_alone_right: number of items that only
    the first or only the second tutor answered correctly; mcnemar_p: p value of McNemar's exact test of these two.
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
    centre: float | None = None
    error: float | None = None
    largest: float | None = None
    same: bool = False
    n: int
    clusters: int
    first_alone_right: int | None = None
    second_alone_right: int | None = None
    mcnemar_p: float | None = None


R = TypeVar("R", bound=Record)


def write_records(path: Path, records: Iterable[Record]) -> None:
    """Write records as JSON lines, atomically."""
    with atomic_file(path) as handle:
        for record in records:
            handle.write(record.model_dump_json() + "\n")


def iter_records(path: Path, kind: type[R], first: int = 0, step: int = 1) -> Iterator[R]:
    """Yield the records of a results file one at a time.

    first, step: yield only every `step`-th record, starting with record `first`, counted from 0.
    Raises UserError with the file and the line number for a malformed or repeated line.
    """
    # A results file may have millions of lines, so this loop calls no Python function per line.
    validate = kind.__pydantic_validator__.validate_json
    identity: Callable[[R], Any] | None = None
    if kind.IDENTITY:
        identity = attrgetter(*kind.IDENTITY) if kind.identity is Record.identity else kind.identity
    first_lines: dict[Any, int] = {}  # number of the first line of each record, by the record's identity
    with open(path, "rb") as handle:
        for number, line in islice(enumerate(handle, 1), first, None, step):
            try:
                record: R = validate(line)
            except ValidationError as error:
                fault = error.errors()[0]
                field = ".".join(map(str, fault["loc"]))
                problem = f"the line is not a valid {kind.__name__} record: {fault['msg'].lower()}"
                problem += f" at {field}" if field else ""
                raise UserError(f"{path}:{number}", problem, REBUILD_FIX) from None
            if identity is not None and (before := first_lines.setdefault(identity(record), number)) != number:
                verb = "repeats" if line_of(path, before).strip() == line.strip() else "contradicts"
                raise UserError(
                    f"{path}:{number}", f"the line {verb} line {before}, {describe_record(record)}", REBUILD_FIX
                )
            yield record


def line_of(path: Path, number: int) -> bytes:
    """Return a line of a file. number: line number, counted from 1."""
    with open(path, "rb") as handle:
        return next(islice(handle, number - 1, None))


def describe_record(record: Record) -> str:
    """Return a description of a record for messages, such as "the Grade record of task 'x', id 'y'"."""
    fields = {field: getattr(record, field) for field in record.IDENTITY}
    parts = [f"{field} {value!r}" for field, value in fields.items() if value is not None]
    return f"the {type(record).__name__} record of {', '.join(parts)}"


def read_records(path: Path, kind: type[R]) -> list[R]:
    """Return the records of a results file."""
    return list(iter_records(path, kind))


COPY_SUFFIX = re.compile(rf"{COPY_MARK}\d+\Z")


def without_copies(judgements: Iterable[Judgement]) -> list[Judgement]:
    """Return judgements without those about copies of items, whose ids end with COPY_MARK and a number.

    An item's own id may have such an end. It is the id of a copy only if the item without this end was judged too.
    """
    listed = list(judgements)
    judged = {(judgement.task, judgement.id) for judgement in listed}

    def is_copy(judgement: Judgement) -> bool:
        base = COPY_SUFFIX.sub("", judgement.id)
        return base != judgement.id and (judgement.task, base) in judged

    return [judgement for judgement in listed if not is_copy(judgement)]


def read_checked_records(
    path: Path, kind: type[R], items: Iterable[Item], **owner: str | EllipsisType | None
) -> list[R]:
    """Return the records of a results file, checked by `check_items_and_owner`."""
    return check_items_and_owner(path, read_records(path, kind), items, **owner)


def check_items_and_owner(
    path: Path, records: list[R], items: Iterable[Item], **owner: str | EllipsisType | None
) -> list[R]:
    """Return the records unchanged. Raises UserError if a record has an unknown item or a wrong value in a field.

    items: known items; tasks without any known item are not checked. owner: the value that every record must have in
    a field, by field; `...` requires the value in the first record.
    """
    known = {(item.task, item.id) for item in items}
    tasks = {task for task, _ in known}
    for number, record in enumerate(records, 1):
        place = f"{path}:{number}"
        task, item = getattr(record, "task"), getattr(record, "id")  # noqa: B009 (callers pass kinds with these fields)
        if task in tasks and (task, item) not in known:
            raise UserError(place, f"found {describe_record(record)}, but {task} has no such item", REBUILD_FIX)
        for field, value in owner.items():
            actual = getattr(record, field)
            if value is ...:
                value = owner[field] = actual
            if actual != value:
                raise UserError(
                    place, f"expected {field} {value!r}, found {actual!r} ({describe_record(record)})", REBUILD_FIX
                )
    return records


def read_items(folder: Path, tasks: Iterable[str]) -> list[Item]:
    """Return the items of some tasks, in the order of `tasks`.

    folder: folder of a benchmark's items, with one file per task.
    """
    return [item for task in tasks for item in read_records(folder / f"{task}.jsonl", Item)]
