"""Somebody's own predictions on a labelled release, by the protocol of the BEA 2025 shared task (five tracks).

For predictions that were made elsewhere: a judge of a run is measured by the same functions inside the workflow.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import ValidationError
from sklearn.metrics import accuracy_score, f1_score

from maieutic.config.registry import unknown
from maieutic.core.errors import UserError
from maieutic.core.files import write_json
from maieutic.core.objects import json_value
from maieutic.core.records import Record
from maieutic.core.stats import Sampling
from maieutic.core.tables import decoded, known_word
from maieutic.datasets.mrbench import LABELS, SCALES
from maieutic.judges.labels import Labels, read_labels
from maieutic.validation.agreement import measure
from maieutic.validation.trust import Said, pairings_of

Missing = Literal["wrong", "exclude", "refuse"]
IDENTIFICATION = "tutor_identification"
BEA = ("macro_f1", "accuracy", "lenient_macro_f1", "lenient_accuracy")
FORM = 'one JSON object a line: {"conversation_id": ..., "tutor": ..., "pred": {"Actionability": "Yes", ...}}'
SHOWN = 20  # faults of one kind that a message names by their lines


class Row(Record):
    """One line of predictions. item: names the dialogue where two of a release share an id (results/labels)."""

    conversation_id: str
    tutor: str
    pred: dict[str, str | None] | None
    item: str | None = None


class Fault(NamedTuple):
    """Something wrong with one line: what, and what to do about it."""

    line: int
    problem: str
    mend: str


class Predicted(NamedTuple):
    """The predictions of a file: labels by item, tutor and criterion, and the identified tutors by item and tutor.

    None: the line is there and gives no label. tracks: those that some line names.
    """

    said: Said
    identified: dict[tuple[str, str], str | None]
    tracks: list[str]


def read_predictions(path: Path, labels: Labels) -> Predicted:
    """Read and match a file. Raises UserError that names every line with a fault of the first kind that it meets.

    `pred` holds labels by dimension, and under tutor_identification a tutor's name; null is an answer without any.
    """
    rows = numbered_rows(path)
    places = places_of(path, rows, labels)
    tracks = tracks_of(labels)
    refuse(path, [fault for number, row in rows for fault in label_faults(number, row, tracks)])
    predicted = Predicted({}, {}, list(dict.fromkeys(name for _, row in rows for name in row.pred or {})))
    for number, row in rows:
        item = places[number]
        for name, written in (row.pred or {}).items():
            label = spelt(written, tracks.get(name, ()))
            if name == IDENTIFICATION:
                predicted.identified[item, row.tutor] = label
            else:
                predicted.said[item, row.tutor, name] = label
        if row.pred is None:
            predicted.said.update({(item, row.tutor, name): None for name in tracks if name != IDENTIFICATION})
            predicted.identified[item, row.tutor] = None
    return predicted


def spelt(label: str | None, known: Sequence[str]) -> str | None:
    """Return a label as the release spells it; an unknown one as it is."""
    return None if label is None else known_word(label, known) or label


def tracks_of(labels: Labels) -> dict[str, Sequence[str]]:
    """The labels of each track that a release can score: its labelled dimensions, and the names of its tutors."""
    labelled = {label.criterion for label in labels.labels}
    return {
        **{name: tuple(known) for name, known in LABELS.items() if name in labelled},
        IDENTIFICATION: sorted({reply.tutor for reply in labels.replies}),
    }


def refuse(path: Path, faults: Iterable[Fault]) -> None:
    """Raise UserError for faults of one kind, naming the first one and all lines."""
    fault_list = list(faults)
    if not fault_list:
        return
    more = ", ".join(str(fault.line) for fault in fault_list[:SHOWN]) + (", ..." if len(fault_list) > SHOWN else "")
    suffix = f" ({len(fault_list)} such lines: {more})" if len(fault_list) > 1 else ""
    raise UserError(f"{path}:{fault_list[0].line}", f"{fault_list[0].problem}{suffix}", fault_list[0].mend)


def numbered_rows(path: Path) -> list[tuple[int, Row]]:
    """The lines of a file with their numbers, from 1."""
    try:
        text = decoded(path.read_bytes(), str(path))
    except OSError as error:
        raise UserError(str(path), f"cannot be read: {error.strerror or error}", FORM) from None
    if text.lstrip().startswith("["):
        return submitted_rows(path, text)
    rows, faults = [], []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            record: Any = json_value(line, object_pairs_hook=named_once)
            rows.append(
                (number, Row.model_validate({name: record[name] for name in Row.model_fields if name in record}))
            )
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = ".".join(map(str, first["loc"]))
            faults.append(Fault(number, f"cannot be read: {where}: {first['msg']}, found {first['input']!r:.80}", FORM))
        except (ValueError, KeyError, TypeError) as error:
            faults.append(Fault(number, f"cannot be read: {error}", FORM))
    refuse(path, faults)
    if not rows:
        raise UserError(str(path), "no prediction is in it: the file is empty", FORM)
    return rows


def submitted_rows(path: Path, text: str) -> list[tuple[int, Row]]:
    """The predictions of the shared task's submission form, each with the number of its dialogue, from 1.

    A JSON list of dialogues with `conversation_id` and `tutor_responses`, by tutor with an `annotation` of labels.
    """
    rows = []
    try:
        for number, dialogue in enumerate(json_value(text), 1):
            for tutor, said in dialogue["tutor_responses"].items():
                pred = said.get("annotation")
                rows.append((number, Row(conversation_id=dialogue["conversation_id"], tutor=tutor, pred=pred)))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        fault = f"not the shared task's submission form: {type(error).__name__}: {error}"[:200]
        raise UserError(str(path), fault, FORM) from None
    return rows


def named_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object. Raises ValueError for a key that stands twice in it: which of its values is meant?"""
    named = dict(pairs)
    if len(named) < len(pairs):
        twice = next(name for number, (name, _) in enumerate(pairs) if name in dict(pairs[:number]))
        raise ValueError(f"the key {twice!r} stands twice")
    return named


def places_of(path: Path, rows: list[tuple[int, Row]], labels: Labels) -> dict[int, str]:
    """The item that each line predicts.

    Where several dialogues of a release share an id (four pairs in V1), the lines of one tutor count in the release's
    order, unless `item` names one; a dialogue without a line of its own has no prediction.
    """
    by_conversation: dict[str, list[str]] = defaultdict(list)
    for item in labels.items.values():
        by_conversation[item.tags["conversation"]].append(item.id)
    replies = {(reply.id, reply.tutor) for reply in labels.replies}
    tutors = sorted({tutor for _, tutor in replies})
    lines: dict[tuple[str, str], list[tuple[int, Row]]] = defaultdict(list)
    for number, row in rows:
        lines[row.conversation_id, row.tutor].append((number, row))
    places: dict[int, str] = {}
    absent: list[Fault] = []
    nobody: list[Fault] = []
    repeated: list[Fault] = []
    for (conversation, tutor), group in lines.items():
        known = by_conversation.get(conversation, [])
        left = [item for item in known if (item, tutor) in replies]
        if not known:
            mend = "take the ids from the release (its conversation_id)"
            absent += [Fault(number, f"0 dialogues have its id {conversation!r}", mend) for number, _ in group]
        elif not left:
            mend = f"tutors of the release: {', '.join(tutors)}"
            nobody += [Fault(number, f"{tutor} has no reply to {conversation}", mend) for number, _ in group]
        else:
            for number, row in group:
                place = row.item or next(iter(left), None)
                if place is None or place not in left:
                    mend = f"one line a reply; {len(known)} dialogue(s) of the release have this id: {', '.join(known)}"
                    repeated.append(Fault(number, "this reply is predicted twice, or its item is unknown", mend))
                    continue
                left.remove(place)
                places[number] = place
    for faults in (absent, nobody, repeated):
        refuse(path, sorted(faults))
    return places


def label_faults(number: int, row: Row, tracks: Mapping[str, Sequence[str]]) -> Iterable[Fault]:
    """What is wrong with the labels of one line. tracks: the labels of each track that the release has labels for."""
    for criterion, label in (row.pred or {}).items():
        if criterion not in (*LABELS, IDENTIFICATION):
            error = unknown("", criterion, [*LABELS, IDENTIFICATION], "MRBench's dimensions")
            yield Fault(number, error.problem, error.mend)
        elif criterion not in tracks:
            mend = f"leave it out; the release has {', '.join(tracks)}"
            yield Fault(number, f"the release has no labels of {criterion}", mend)
        elif label is not None and known_word(label, tracks[criterion]) is None:
            yield Fault(number, f"no such label {criterion}: {label!r}", f"known: {', '.join(tracks[criterion])}, null")


class Coverage(NamedTuple):
    """How many labelled replies of a track have a prediction.

    absent: replies without a line; unparsed: lines without a label (null).
    """

    replies: int
    absent: int
    unparsed: int


def coverage_of(keys: Iterable[Any], answers: Mapping[Any, str | None]) -> Coverage:
    """The coverage of the labelled replies `keys`."""
    wanted = list(keys)
    absent = sum(key not in answers for key in wanted)
    return Coverage(len(wanted), absent, sum(answers.get(key, "") is None for key in wanted))


def score_predictions(
    labels: Path, predictions: Path, out: Path, resamples: int = 2000, seed: int = 1, missing: Missing = "wrong"
) -> None:
    """Write value, interval and n of each track and measure as JSON, with what is missing and the rule for it.

    labels: the folder of a labelled release (results/labels/RELEASE); predictions: a file of your own.
    missing: what a reply without a prediction or with an unparsed one is: `wrong`, as in the shared task, left out
    (`exclude`), or an error (`refuse`). A track that no line names is left out, which is printed.
    """
    release, path = read_labels(labels), predictions
    predicted = read_predictions(path, release)
    by_track: dict[str, dict[str, Any]] = {}
    for criterion in (name for name in predicted.tracks if name != IDENTIFICATION):
        labelled = [label for label in release.labels if label.criterion == criterion]
        keys = [(label.id, label.tutor, criterion) for label in labelled]
        covered = coverage_of(keys, predicted.said)
        check_missing(path, criterion, covered, missing)
        answers: Said = {key: predicted.said.get(key) for key in keys}
        [(_, pairings)] = pairings_of(labelled, answers, {}, SCALES).items()
        by_track[criterion] = {
            name: {
                "value": estimate.value,
                "low": estimate.interval.low,
                "high": estimate.interval.high,
                "n": estimate.n,
            }
            for name in BEA
            for estimate in [
                measure(name, pairings, len(LABELS[criterion]), missing == "wrong", Sampling(resamples, seed))
            ]
        }
        by_track[criterion]["missing"] = {"rule": missing, **covered._asdict()}
    if IDENTIFICATION in predicted.tracks:
        by_track[IDENTIFICATION] = identification(path, release, predicted, missing)
    if not by_track:
        raise UserError(str(path), "no prediction is in it", FORM)
    write_json(out, by_track)
    say(by_track)
    if left_out := [name for name in tracks_of(release) if name not in by_track]:
        print(f"not in {path}, so without a score: {', '.join(left_out)}")


def identification(path: Path, labels: Labels, predicted: Predicted, missing: Missing) -> dict[str, Any]:
    """The track in which the tutor is identified: macro F1 over the release's tutors, and accuracy."""
    keys = [(reply.id, reply.tutor) for reply in labels.replies]
    covered = coverage_of(keys, predicted.identified)
    check_missing(path, IDENTIFICATION, covered, missing)
    used = [key for key in keys if missing == "wrong" or predicted.identified.get(key)]
    gold = [tutor for _, tutor in used]
    named = [predicted.identified.get(key) or "" for key in used]
    classes = sorted({tutor for _, tutor in keys})
    return {
        "macro_f1": {"value": float(f1_score(gold, named, labels=classes, average="macro")), "n": len(gold)},
        "accuracy": {"value": float(accuracy_score(gold, named)), "n": len(gold)},
        "missing": {"rule": missing, **covered._asdict()},
    }


def check_missing(path: Path, track: str, covered: Coverage, missing: Missing) -> None:
    """Refuse a file that lacks predictions, where that is wanted."""
    if missing == "exclude" and covered.absent + covered.unparsed == covered.replies:
        raise UserError(str(path), f"{track}: no label is left to score", "leave the track out, or give it labels")
    if missing == "refuse" and (covered.absent or covered.unparsed):
        raise UserError(
            str(path),
            f"{track}: of {covered.replies} replies {covered.absent} have no line and {covered.unparsed} no label",
            "complete the file, or choose --missing wrong or --missing exclude",
        )


def say(by_track: Mapping[str, Mapping[str, Any]]) -> None:
    """Print a line for each track, with what is missing and which rule was applied."""
    for track, measures in by_track.items():
        values = [f"{name} {estimate['value']:.4f}" for name, estimate in measures.items() if name != "missing"]
        lacks = measures["missing"]
        suffix = ""
        if lacks["absent"] or lacks["unparsed"]:
            rule = {"wrong": "counted as wrong", "exclude": "left out"}[lacks["rule"]]
            suffix = f"; {lacks['absent']} replies without a line and {lacks['unparsed']} without a label are {rule}"
        print(track, *values, f"n {measures['accuracy']['n']}{suffix}")
