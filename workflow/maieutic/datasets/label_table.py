"""Labelled replies in a user's table (docs/people.md): a line for each label, or for each reply with all its labels."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from maieutic.config.datasets import SourceRecord
from maieutic.core.errors import UserError
from maieutic.core.records import NO_REQUEST, Item, Label, LabelledSet, Reply, Scale, Scales, Turn
from maieutic.core.tables import check_columns, match_known_word, rename_known_keys
from maieutic.datasets.annotators import aggregate_labels, cell_is_yes
from maieutic.datasets.sources import read_source

REPLY_COLUMNS = ("reply", "replies")
LABEL_COLUMNS = (
    "criterion",
    "label",
    "labels",
    "annotator",
    "resolves",
    "probability",
    "stratum",
    "seconds",
    "comment",
)
FIXED_COLUMNS = ("id", "tutor", *REPLY_COLUMNS, *LABEL_COLUMNS, "problem")
# Columns that are stored in an item's reference instead of its prompt variables, with their keys in the reference
REFERENCE_COLUMNS = {"reference": "text", "reference_solution": "solution"}
REQUIRED_FIELDS = "id, tutor, reply, criterion and label"


class LabelLine(NamedTuple):
    """One label in a user's table.

    place: place in the file, for messages; item, tutor: item and tutor of the labelled reply; resolves: True if the
    annotator settles disagreements; probability: probability with which the reply was sampled, None if unknown.
    """

    place: str
    item: str
    tutor: str
    criterion: str
    label: str
    annotator: str | None
    resolves: bool
    probability: float | None


def table_variables(columns: Iterable[str]) -> frozenset[str]:
    """Return the variables that a judge's prompt may use for a table with these columns."""
    variables = {name for name in columns if name not in FIXED_COLUMNS and name not in REFERENCE_COLUMNS}
    return frozenset({*variables, "reference_solution", "response"})


def table_records(path: Path) -> list[SourceRecord]:
    """Return the records of a user's table. They are cached in this process until the file changes.

    Raises UserError if the file does not exist.
    """
    if not path.is_file():
        fix = "correct the file's path in the registry, or remove the set that uses the file"
        raise UserError(str(path), "the file does not exist", fix)
    return cached_table_records(path, path.stat().st_mtime_ns)


@lru_cache(maxsize=8)
def cached_table_records(path: Path, changed: int) -> list[SourceRecord]:
    """Return the records of a file. changed: the file's modification time in nanoseconds, part of the cache key."""
    known = (*FIXED_COLUMNS, *REFERENCE_COLUMNS)
    records = read_source(path, path.suffix[1:], str(path), user_file=True)
    return [rename_known_keys(record, known) if isinstance(record, dict) else record for record in records]


def label_table_columns(path: Path) -> list[str]:
    """Return the columns of a user's table. Raises UserError if the file does not exist or has no records."""
    records = table_records(path)
    if not records:
        raise UserError(
            str(path), "expected at least one record, found none", f"add a line for each label, with {REQUIRED_FIELDS}"
        )
    for number, record in enumerate(records, 1):
        if not isinstance(record, dict):
            problem = f"expected a mapping, found {type(record).__name__}"
            raise UserError(f"{path}, record {number}", problem, f"write a mapping with {REQUIRED_FIELDS}")
    columns = list(dict.fromkeys(name for record in records for name in record))
    reply = [name for name in REPLY_COLUMNS if name in columns] or ["reply"]
    label = ["labels"] if "labels" in columns else ["criterion", "label"]
    check_columns(
        str(path), columns, ["id", "tutor", reply[0], *label], f"write a line for each label, with {REQUIRED_FIELDS}"
    )
    return columns


def label_on_scale(scale: Scale, text: str) -> str | None:
    """Return the label of a scale that equals a text, ignoring case and whitespace, or None if no label matches."""
    whole = text.strip().removesuffix(".0")  # spreadsheets write 1.0 for 1
    return match_known_word(text, scale.labels) or match_known_word(whole, scale.labels)


def labelled_table(scales: Scales, *sources: Sequence[SourceRecord], where: str = "") -> LabelledSet:
    """Return the replies and labels in a table. Raises UserError that names every invalid line.

    where: text before a record's number in messages. If several annotators label a reply, a unanimous label counts,
    otherwise the resolvers' most frequent label, or without resolvers the annotators' most frequent one. If they are
    divided, the reply has no label.
    """
    faults: list[UserError] = []
    items: dict[str, Item] = {}
    replies: dict[tuple[str, str], Reply] = {}
    lines: list[LabelLine] = []
    for number, record in enumerate((record for source in sources for record in source), 1):
        place = f"{where}record {number}"
        try:
            item, reply = labelled_item(place, record), labelled_reply(place, record)
            if (known := items.setdefault(item.id, item)) != item:
                names = {*known.vars, *item.vars}
                apart = [name for name in sorted(names) if known.vars.get(name) != item.vars.get(name)]
                what = f"a different context ({', '.join(apart) or 'reference, problem'})"
                raise UserError(place, f"{item.id} has {what} in an earlier line", "give each item its own id")
            if replies.setdefault((reply.id, reply.tutor), reply) != reply:
                raise UserError(
                    place, f"{item.id} has a different reply in an earlier line", "give each item its own id"
                )
            lines += label_lines(place, record, item, reply, scales)
        except UserError as error:
            faults += error.all
    faults += duplicate_labels(lines)
    if faults:
        raise UserError.of(faults)
    annotations = [
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
    joined = [
        label for label in (aggregate_labels(votes) for votes in group_by_reply(annotations)) if label is not None
    ]
    return LabelledSet([*items.values()], [*replies.values()], joined, {}, annotations)


def group_by_reply(labels: Iterable[Label]) -> list[list[Label]]:
    """Return the labels grouped by reply and criterion."""
    votes: dict[tuple[str, str, str, str], list[Label]] = defaultdict(list)
    for label in labels:
        votes[label.task, label.id, label.tutor, label.criterion].append(label)
    return list(votes.values())


def required_text(place: str, record: Mapping[str, Any], column: str) -> str:
    """Return the text of a required cell. Raises UserError if it is empty."""
    value = record.get(column)
    if value is None or not str(value).strip():
        raise UserError(place, f"{column} is missing", f"fill in {REQUIRED_FIELDS} in every line")
    return str(value).strip()


def labelled_item(place: str, record: SourceRecord) -> Item:
    """Return the item of a record. Columns without a fixed meaning become variables of the judge's prompt."""
    name = required_text(place, record, "id")
    others = {
        key: value
        for key, value in record.items()
        if key not in {*FIXED_COLUMNS, *REFERENCE_COLUMNS} and value is not None
    }
    if lists := [key for key, value in others.items() if isinstance(value, list | dict)]:
        problem = f"expected text in {lists[0]}, found {type(others[lists[0]]).__name__}"
        raise UserError(place, problem, "write a dialogue as one text with lines such as Tutor: ... and Student: ...")
    variables = {key: str(value) for key, value in others.items()}
    reference = {key: str(record[column]) for column, key in REFERENCE_COLUMNS.items() if record.get(column)}
    problem = str(record.get("problem") or name)
    return Item(id=name, task="labelled", cluster=problem, vars=variables, reference=reference)


def labelled_reply(place: str, record: SourceRecord) -> Reply:
    """Return the reply of a record: one text, or a list of texts for a conversation."""
    content = next((record[column] for column in REPLY_COLUMNS if record.get(column) not in (None, "")), None)
    texts = content if isinstance(content, list) else [content]
    turns = [
        Turn(messages="none", text=text.strip(), finish="stop")
        for text in texts
        if isinstance(text, str) and text.strip()
    ]
    if not turns or len(turns) < len(texts):
        fix = "write a string, or in a JSON Lines file a list of strings, one for each turn"
        raise UserError(place, "reply is not text", fix)
    return Reply(
        id=required_text(place, record, "id"),
        task="labelled",
        tutor=required_text(place, record, "tutor"),
        key=NO_REQUEST,
        turns=turns,
    )


def label_lines(place: str, record: SourceRecord, item: Item, reply: Reply, scales: Scales) -> Iterator[LabelLine]:
    """Yield the labels in one record. Raises a UserError for each label that is not on its criterion's scale."""
    several = record.get("labels")
    if several is not None and not isinstance(several, Mapping):
        fix = "write a mapping from criteria to labels, or use the columns criterion and label"
        raise UserError(place, f"expected a mapping in labels, found {type(several).__name__}", fix)
    labels = several or {required_text(place, record, "criterion"): required_text(place, record, "label")}
    annotator = str(record.get("annotator") or "").strip() or None
    probability = probability_of(place, record.get("probability"))
    faults = []
    for criterion, text in labels.items():
        scale = scales.get(str(criterion))
        label = label_on_scale(scale, str(text)) if scale else None
        if scale is None or label is None:
            known = ", ".join(scale.labels if scale else scales)
            faults.append(
                UserError(
                    place,
                    f"{criterion} has no label {text!r}" if scale else f"the set has no criterion {criterion!r}",
                    f"use one of {known}",
                )
            )
            continue
        resolves = cell_is_yes(record.get("resolves"))
        yield LabelLine(place, item.id, reply.tutor, str(criterion), label, annotator, resolves, probability)
    if faults:
        raise UserError.of(faults)


def probability_of(place: str, value: Any) -> float | None:
    """Return the probability with which a reply was sampled, or None for an empty cell."""
    if value is None or not str(value).strip():
        return None
    try:
        number = float(value)
    except (ValueError, TypeError):
        number = 0.0
    if not 0 < number <= 1:
        problem = f"expected a probability above 0 and at most 1, found {str(value)[:20]!r}"
        raise UserError(
            place, problem, "write the probability with which the reply was sampled, or leave the cell empty"
        )
    return number


def duplicate_labels(lines: Sequence[LabelLine]) -> Iterator[UserError]:
    """Yield an error for each line that has the same annotator, reply and criterion as an earlier line."""
    seen: dict[tuple[str, str, str, str | None], str] = {}
    for line in lines:
        key = line.item, line.tutor, line.criterion, line.annotator
        if key in seen:
            who = line.annotator or "an unnamed annotator"
            yield UserError(
                line.place,
                f"{who} already labelled {line.criterion} for {line.item} and {line.tutor} in {seen[key]}",
                "remove one of the two lines, or add a column `annotator`",
            )
        seen.setdefault(key, line.place)
