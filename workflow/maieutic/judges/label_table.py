"""Labelled replies in a table of one's own (docs/people.md): a line for each label, or each reply with its labels."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from maieutic.config.datasets import Source
from maieutic.core.errors import UserError
from maieutic.core.records import NOBODY_ASKED, Item, Label, LabelledSet, Reply, Scale, Scales, Turn
from maieutic.core.tables import check_columns, known_word, with_known_names
from maieutic.datasets.sources import read_source
from maieutic.judges.annotators import agreed, yes

REPLY = ("reply", "replies")
OF_A_LABEL = ("criterion", "label", "labels", "annotator", "resolves", "probability", "stratum", "seconds", "comment")
FIXED = ("id", "tutor", *REPLY, *OF_A_LABEL, "problem")
REFERENCE = {"reference": "text", "reference_solution": "solution"}  # columns that are no variables of a prompt
NEEDED = "id, tutor, reply, criterion and label"


class Line(NamedTuple):
    """One label: its place in the file, whose reply to which item, and who gave it."""

    place: str
    item: str
    tutor: str
    criterion: str
    label: str
    annotator: str | None
    resolves: bool
    probability: float | None


def variables_of_table(columns: Iterable[str]) -> frozenset[str]:
    """What a judge's prompt may use of a table with these columns."""
    own = {name for name in columns if name not in FIXED and name not in REFERENCE}
    return frozenset({*own, "reference_solution", "response"})


def records_of(path: Path) -> list[Source]:
    """The records of a table of one's own, read once a process while it stays the same."""
    if not path.is_file():
        raise UserError(str(path), "there is no such file", "name one, or leave its set out of the registry")
    return records_at(path, path.stat().st_mtime_ns)


@lru_cache(maxsize=8)
def records_at(path: Path, changed: int) -> list[Source]:
    """The records of a file. changed: when it was, so that another content is read anew."""
    known = (*FIXED, *REFERENCE)
    records = read_source(path, path.suffix[1:], str(path), own=True)
    return [with_known_names(record, known) if isinstance(record, dict) else record for record in records]


def columns_of(path: Path) -> list[str]:
    """The columns of a table of one's own. Raises UserError for a file that is not there, or has no record."""
    records = records_of(path)
    if not records:
        raise UserError(str(path), "no records", f"a line for each label: {NEEDED}")
    for number, record in enumerate(records, 1):
        if not isinstance(record, dict):
            raise UserError(f"{path}, record {number}", f"is no mapping, but {type(record).__name__}", NEEDED)
    columns = list(dict.fromkeys(name for record in records for name in record))
    reply = [name for name in REPLY if name in columns] or ["reply"]
    label = ["labels"] if "labels" in columns else ["criterion", "label"]
    check_columns(str(path), columns, ["id", "tutor", reply[0], *label], f"a line for each label: {NEEDED}")
    return columns


def label_in(scale: Scale, text: str) -> str | None:
    """Return the label of a scale that a text means, whatever its case and blanks; None for none of the scale."""
    whole = text.strip().removesuffix(".0")  # a spreadsheet writes 1.0 for 1
    return known_word(text, scale.labels) or known_word(whole, scale.labels)


def labelled_table(scales: Scales, *sources: Sequence[Source], where: str = "") -> LabelledSet:
    """The replies and labels of a table. Raises UserError naming every line that cannot be one.

    where: what stands before a record's number in messages. Several annotators of a reply are joined by majority, a
    resolver before it; what divides them has no label.
    """
    faults: list[UserError] = []
    items: dict[str, Item] = {}
    replies: dict[tuple[str, str], Reply] = {}
    lines: list[Line] = []
    for number, record in enumerate((record for source in sources for record in source), 1):
        place = f"{where}record {number}"
        try:
            item, reply = item_of(place, record), reply_of(place, record)
            if (known := items.setdefault(item.id, item)) != item:
                names = {*known.vars, *item.vars}
                apart = [name for name in sorted(names) if known.vars.get(name) != item.vars.get(name)]
                what = f"another context ({', '.join(apart) or 'reference, problem'})"
                raise UserError(place, f"{item.id} has {what} in an earlier line", "give each item its own id")
            if replies.setdefault((reply.id, reply.tutor), reply) != reply:
                raise UserError(place, f"{item.id} has another reply in an earlier line", "give each item its own id")
            lines += lines_of(place, record, item, reply, scales)
        except UserError as error:
            faults += error.all
    faults += doubled(lines)
    if faults:
        raise UserError.of(faults)
    given = [
        Label(
            id=line.item,
            task=items[line.item].task,
            tutor=line.tutor,
            criterion=line.criterion,
            label=line.label,
            problem=items[line.item].cluster,
            annotator=line.annotator,
            resolves=line.resolves,
            probability=line.probability,
        )
        for line in lines
    ]
    joined = [label for label in (agreed(votes) for votes in by_reply(given)) if label is not None]
    return LabelledSet([*items.values()], [*replies.values()], joined, {}, given)


def by_reply(labels: Iterable[Label]) -> list[list[Label]]:
    """All labels of each reply under each criterion."""
    votes: dict[tuple[str, str, str, str], list[Label]] = defaultdict(list)
    for label in labels:
        votes[label.task, label.id, label.tutor, label.criterion].append(label)
    return list(votes.values())


def text_at(place: str, record: Mapping[str, Any], column: str) -> str:
    """A cell that has to hold something."""
    value = record.get(column)
    if value is None or not str(value).strip():
        raise UserError(place, f"{column} is missing", f"a line has {NEEDED}")
    return str(value).strip()


def item_of(place: str, record: Source) -> Item:
    """What was asked: every column that is not ours is a variable of the judge's prompt."""
    name = text_at(place, record, "id")
    others = {key: value for key, value in record.items() if key not in {*FIXED, *REFERENCE} and value is not None}
    if lists := [key for key, value in others.items() if isinstance(value, list | dict)]:
        raise UserError(place, f"{lists[0]} is no text", "a dialogue as lines: Tutor: ..., Student: ...")
    own = {key: str(value) for key, value in others.items()}
    reference = {key: str(record[column]) for column, key in REFERENCE.items() if record.get(column)}
    problem = str(record.get("problem") or name)
    return Item(id=name, task="labelled", cluster=problem, vars=own, reference=reference)


def reply_of(place: str, record: Source) -> Reply:
    """What the tutor said: one text, or of a conversation a list."""
    said = next((record[column] for column in REPLY if record.get(column) not in (None, "")), None)
    texts = said if isinstance(said, list) else [said]
    turns = [
        Turn(messages="none", text=text.strip(), finish="stop")
        for text in texts
        if isinstance(text, str) and text.strip()
    ]
    if not turns or len(turns) < len(texts):
        raise UserError(place, "reply is no text", "a string, or in JSON lines a list of them, one for each turn")
    return Reply(
        id=text_at(place, record, "id"),
        task="labelled",
        tutor=text_at(place, record, "tutor"),
        key=NOBODY_ASKED,
        turns=turns,
    )


def lines_of(place: str, record: Source, item: Item, reply: Reply, scales: Scales) -> Iterator[Line]:
    """The labels of one record. Raises UserError naming each that its criterion's scale does not have."""
    several = record.get("labels")
    if several is not None and not isinstance(several, Mapping):
        raise UserError(place, "labels is no mapping", "by criterion its label, or the columns criterion and label")
    given = several or {text_at(place, record, "criterion"): text_at(place, record, "label")}
    annotator = str(record.get("annotator") or "").strip() or None
    probability = probability_of(place, record.get("probability"))
    faults = []
    for criterion, text in given.items():
        scale = scales.get(str(criterion))
        label = label_in(scale, str(text)) if scale else None
        if scale is None or label is None:
            known = ", ".join(scale.labels if scale else scales)
            faults.append(UserError(place, f"no such label {criterion}: {text!r}", f"known: {known}"))
            continue
        resolves = yes(record.get("resolves"))
        yield Line(place, item.id, reply.tutor, str(criterion), label, annotator, resolves, probability)
    if faults:
        raise UserError.of(faults)


def probability_of(place: str, value: Any) -> float | None:
    """The probability that a reply was drawn with; None where the line does not say it."""
    if value is None or not str(value).strip():
        return None
    try:
        number = float(value)
    except (ValueError, TypeError):
        number = 0.0
    if not 0 < number <= 1:
        raise UserError(place, f"probability is {str(value)[:20]!r}", "above 0, at most 1, as the sample was drawn")
    return number


def doubled(lines: Sequence[Line]) -> Iterator[UserError]:
    """Each label that its annotator has given before."""
    seen: dict[tuple[str, str, str, str | None], str] = {}
    for line in lines:
        key = line.item, line.tutor, line.criterion, line.annotator
        if key in seen:
            who = line.annotator or "nobody by name"
            yield UserError(
                line.place,
                f"{who} has labelled {line.item}, {line.tutor}, {line.criterion} in {seen[key]} already",
                "leave one, or name its annotators in a column",
            )
        seen.setdefault(key, line.place)
