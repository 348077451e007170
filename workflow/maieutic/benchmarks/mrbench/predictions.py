"""Scores of external predictions on a labelled release, by the protocol of the BEA 2025 shared task (five tracks).

External predictions were made outside a run. For the judges of a run, the workflow computes the same measures.
"""

from __future__ import annotations

import json
import logging
import zipfile
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import ValidationError
from sklearn.metrics import accuracy_score, f1_score

from maieutic.config.registry import unknown_name
from maieutic.core.errors import UserError
from maieutic.core.files import atomic_file, write_json
from maieutic.core.jobs import Job
from maieutic.core.json_text import json_value, object_of_unique_keys
from maieutic.core.records import Judgement, Record, read_records
from maieutic.core.stats import BootstrapSettings
from maieutic.core.tables import decode_table, match_known_word
from maieutic.core.terminal import say
from maieutic.datasets.labelled_sets import LabelledData, read_labelled_data
from maieutic.datasets.mrbench import LABELS, SCALES, SHARED_TASK, responses_of
from maieutic.datasets.sources import read_source
from maieutic.validation.agreement import estimate_agreement
from maieutic.validation.trust import LabelsByReply, pairings_of, verdict_labels

MissingRule = Literal["wrong", "exclude", "refuse"]
IDENTIFICATION = "tutor_identification"
BEA_MEASURES = ("macro_f1", "accuracy", "lenient_macro_f1", "lenient_accuracy")
WRITE_LINES = (
    'write one JSON object per line: {"conversation_id": ..., "tutor": ..., "pred": {"Actionability": "Yes", ...}}'
)
MAX_NAMED_LINES = 20  # maximum number of line numbers in a message about one kind of fault


class PredictionRow(Record):
    """One line of predictions. item: id of the item, needed only if several dialogues have the same conversation id."""

    conversation_id: str
    tutor: str
    pred: dict[str, str | None] | None
    item: str | None = None


class RowFault(NamedTuple):
    """A fault in one line of a file of predictions, and its fix."""

    line: int
    problem: str
    fix: str


class Predictions(NamedTuple):
    """The predictions in a file: labels by item, tutor and criterion, and identified tutors by item and tutor.

    A value is None if its line contains null instead of a label. tracks: the tracks that occur in at least one line.
    """

    labels: LabelsByReply
    identified: dict[tuple[str, str], str | None]
    tracks: list[str]


def read_predictions(path: Path, labels: LabelledData) -> Predictions:
    """Read a file of predictions and match it to the items of a release.

    In each line, `pred` maps dimensions to labels, and `tutor_identification` to the name of a tutor. A null value is a
    prediction without a label. Raises UserError that lists all lines with the first kind of fault found.
    """
    rows = read_rows(path)
    places = match_rows(path, rows, labels)
    tracks = tracks_of(labels)
    raise_row_faults(path, [fault for number, row in rows for fault in label_faults(number, row, tracks)])
    predicted = Predictions({}, {}, list(dict.fromkeys(name for _, row in rows for name in row.pred or {})))
    for number, row in rows:
        item = places[number]
        for name, spelling in (row.pred or {}).items():
            label = release_spelling(spelling, tracks.get(name, ()))
            if name == IDENTIFICATION:
                predicted.identified[item, row.tutor] = label
            else:
                predicted.labels[item, row.tutor, name] = label
        if row.pred is None:
            predicted.labels.update({(item, row.tutor, name): None for name in tracks if name != IDENTIFICATION})
            predicted.identified[item, row.tutor] = None
    return predicted


def release_spelling(label: str | None, known: Sequence[str]) -> str | None:
    """Return a label in the spelling of the release, or unchanged if it is not a label of the release (`known`)."""
    return None if label is None else match_known_word(label, known) or label


def tracks_of(labels: LabelledData) -> dict[str, Sequence[str]]:
    """Map each track that a release can score to its possible answers: labels of a dimension, or names of tutors."""
    labelled = {label.criterion for label in labels.labels}
    return {
        **{name: tuple(known) for name, known in LABELS.items() if name in labelled},
        IDENTIFICATION: sorted({reply.tutor for reply in labels.replies}),
    }


def raise_row_faults(path: Path, faults: Iterable[RowFault]) -> None:
    """Raise UserError if there are faults. The message describes the first fault and lists the lines of all faults.

    faults: faults of the same kind.
    """
    fault_list = list(faults)
    if not fault_list:
        return
    more = ", ".join(str(fault.line) for fault in fault_list[:MAX_NAMED_LINES]) + (
        ", ..." if len(fault_list) > MAX_NAMED_LINES else ""
    )
    suffix = f" ({len(fault_list)} lines have such a fault: {more})" if len(fault_list) > 1 else ""
    raise UserError(f"{path}:{fault_list[0].line}", f"{fault_list[0].problem}{suffix}", fault_list[0].fix)


def read_rows(path: Path) -> list[tuple[int, PredictionRow]]:
    """Return the rows of a file with their line numbers, counted from 1. Raises UserError for an unreadable file."""
    try:
        text = decode_table(path.read_bytes(), str(path))
    except OSError as error:
        problem = f"cannot be read: {error.strerror or error}"
        raise UserError(str(path), problem, f"correct the path, and {WRITE_LINES}") from None
    if text.lstrip().startswith("["):
        return read_submission(path, text)
    rows, faults = [], []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            record: Any = json_value(line, object_pairs_hook=object_of_unique_keys)
            rows.append(
                (
                    number,
                    PredictionRow.model_validate(
                        {name: record[name] for name in PredictionRow.model_fields if name in record}
                    ),
                )
            )
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            place = ".".join(map(str, first["loc"]))
            faults.append(
                RowFault(number, f"cannot be read: {place}: {first['msg']}, found {first['input']!r:.80}", WRITE_LINES)
            )
        except (ValueError, KeyError, TypeError) as error:
            faults.append(RowFault(number, f"cannot be read: {error}", WRITE_LINES))
    raise_row_faults(path, faults)
    if not rows:
        raise UserError(str(path), "expected predictions, found an empty file", WRITE_LINES)
    return rows


def read_submission(path: Path, text: str) -> list[tuple[int, PredictionRow]]:
    """Return the rows of a file in the shared task's submission form, each with its dialogue's number, counted from 1.

    The form is a JSON list of dialogues with `conversation_id` and `tutor_responses`, which maps each tutor to a
    response with an `annotation` of labels.
    """
    rows = []
    try:
        for number, dialogue in enumerate(json_value(text), 1):
            for tutor, response in dialogue["tutor_responses"].items():
                pred = response.get("annotation")
                rows.append(
                    (number, PredictionRow(conversation_id=dialogue["conversation_id"], tutor=tutor, pred=pred))
                )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        fault = f"expected the shared task's submission form, found a fault: {type(error).__name__}: {error}"[:200]
        raise UserError(str(path), fault, WRITE_LINES) from None
    return rows


def match_rows(path: Path, rows: list[tuple[int, PredictionRow]], labels: LabelledData) -> dict[int, str]:
    """Map the number of each line to the id of its item.

    Several dialogues of a release can have the same id (four pairs in V1). The lines of one tutor are then matched to
    them in the order of the release, unless a line names its `item`. A dialogue without a line has no prediction.
    """
    by_conversation: dict[str, list[str]] = defaultdict(list)
    for item in labels.items.values():
        by_conversation[item.tags["conversation"]].append(item.id)
    replies = {(reply.id, reply.tutor) for reply in labels.replies}
    tutors = sorted({tutor for _, tutor in replies})
    lines: dict[tuple[str, str], list[tuple[int, PredictionRow]]] = defaultdict(list)
    for number, row in rows:
        lines[row.conversation_id, row.tutor].append((number, row))
    places: dict[int, str] = {}
    unknown_ids: list[RowFault] = []
    unknown_tutors: list[RowFault] = []
    repeated: list[RowFault] = []
    for (conversation, tutor), group in lines.items():
        known = by_conversation.get(conversation, [])
        left = [item for item in known if (item, tutor) in replies]
        if not known:
            fix = "use the conversation_id of a dialogue of the release"
            problem = f"no dialogue of the release has the id {conversation!r}"
            unknown_ids += [RowFault(number, problem, fix) for number, _ in group]
        elif not left:
            fix = f"use one of the tutors of the release: {', '.join(tutors)}"
            unknown_tutors += [RowFault(number, f"{tutor} has no reply to {conversation}", fix) for number, _ in group]
        else:
            for number, row in group:
                place = row.item or next(iter(left), None)
                if place is None or place not in left:
                    dialogues = f"items of the release with this conversation_id: {', '.join(known)}"
                    fix = f"write one line per reply, with its `item`; {dialogues}"
                    repeated.append(RowFault(number, "this reply is predicted twice, or its item is unknown", fix))
                    continue
                left.remove(place)
                places[number] = place
    for faults in (unknown_ids, unknown_tutors, repeated):
        raise_row_faults(path, sorted(faults))
    return places


def label_faults(number: int, row: PredictionRow, tracks: Mapping[str, Sequence[str]]) -> Iterable[RowFault]:
    """Yield the faults in the labels of one line. tracks: the release's tracks, each with its possible answers."""
    for criterion, label in (row.pred or {}).items():
        if criterion not in (*LABELS, IDENTIFICATION):
            error = unknown_name("", criterion, [*LABELS, IDENTIFICATION], "MRBench's dimensions")
            yield RowFault(number, error.problem, error.fix)
        elif criterion not in tracks:
            fix = f"remove this track; the release has {', '.join(tracks)}"
            yield RowFault(number, f"the release has no labels of {criterion}", fix)
        elif label is not None and match_known_word(label, tracks[criterion]) is None:
            labels = ", ".join(tracks[criterion])
            yield RowFault(number, f"{label!r} is not a label of {criterion}", f"use one of {labels}, or null")


class Coverage(NamedTuple):
    """Number of a track's labelled replies, and numbers of labelled replies without a prediction.

    absent: number of replies without a line; unparsed: number of replies with null in their line.
    """

    replies: int
    absent: int
    unparsed: int


def coverage_of(keys: Iterable[Any], answers: Mapping[Any, str | None]) -> Coverage:
    """Count labelled replies with and without a prediction. keys: keys of the replies; answers: prediction by key."""
    key_list = list(keys)
    absent = sum(key not in answers for key in key_list)
    return Coverage(len(key_list), absent, sum(answers.get(key, "") is None for key in key_list))


def score_predictions(
    labels: Path, predictions: Path, out: Path, resamples: int = 2000, seed: int = 1, missing: MissingRule = "wrong"
) -> None:
    """Write a JSON file with value, interval and n of each measure on each track, and counts of missing predictions.

    Tracks that occur in no line are not scored; their names are printed.

    Args:
        labels: folder of a labelled release (results/labels/RELEASE)
        predictions: file of predictions
        out: JSON file to write
        resamples: number of bootstrap resamples
        seed: seed of the bootstrap
        missing: treatment of replies that have no line, or null instead of a label: `wrong` counts them as wrong,
            as in the shared task; `exclude` leaves them out; `refuse` raises UserError
    """
    release, path = read_labelled_data(labels), predictions
    predicted = read_predictions(path, release)
    by_track: dict[str, dict[str, Any]] = {}
    for criterion in (name for name in predicted.tracks if name != IDENTIFICATION):
        labelled = [label for label in release.labels if label.criterion == criterion]
        keys = [(label.id, label.tutor, criterion) for label in labelled]
        covered = coverage_of(keys, predicted.labels)
        check_missing(path, criterion, covered, missing)
        answers: LabelsByReply = {key: predicted.labels.get(key) for key in keys}
        [(_, pairings)] = pairings_of(labelled, answers, {}, SCALES).items()
        by_track[criterion] = {
            name: {
                "value": estimate.value,
                "low": estimate.interval.low,
                "high": estimate.interval.high,
                "n": estimate.n,
            }
            for name in BEA_MEASURES
            for estimate in [
                estimate_agreement(
                    name, pairings, len(LABELS[criterion]), missing == "wrong", BootstrapSettings(resamples, seed)
                )
            ]
        }
        by_track[criterion]["missing"] = {"rule": missing, **covered._asdict()}
    if IDENTIFICATION in predicted.tracks:
        by_track[IDENTIFICATION] = score_identification(path, release, predicted, missing)
    if not by_track:
        raise UserError(str(path), "expected predictions, found no track in any line", WRITE_LINES)
    write_json(out, by_track)
    print_tracks(by_track)
    if left_out := [name for name in tracks_of(release) if name not in by_track]:
        say(f"tracks that are not scored, since {path} has no predictions for them: {', '.join(left_out)}")


def score_identification(
    path: Path, labels: LabelledData, predicted: Predictions, missing: MissingRule
) -> dict[str, Any]:
    """Score the tutor identification track: macro F1 over the release's tutors, and accuracy."""
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


def check_missing(path: Path, track: str, covered: Coverage, missing: MissingRule) -> None:
    """Raise UserError if no reply is left to score, or if `missing` is `refuse` and predictions are missing."""
    if missing == "exclude" and covered.absent + covered.unparsed == covered.replies:
        raise UserError(str(path), f"{track}: no reply has a predicted label", "remove the track, or add labels for it")
    if missing == "refuse" and (covered.absent or covered.unparsed):
        raise UserError(
            str(path),
            f"{track}: of {covered.replies} replies, {covered.absent} have no line and "
            f"{covered.unparsed} have no label",
            "add the missing labels, or pass --missing wrong or --missing exclude",
        )


def print_tracks(by_track: Mapping[str, Mapping[str, Any]]) -> None:
    """Print the measures of each track, with the number of missing predictions and their treatment."""
    for track, measures in by_track.items():
        values = [f"{name} {estimate['value']:.4f}" for name, estimate in measures.items() if name != "missing"]
        coverage = measures["missing"]
        suffix = ""
        if coverage["absent"] or coverage["unparsed"]:
            rule = {"wrong": "counted as wrong", "exclude": "left out"}[coverage["rule"]]
            without_line, without_label = coverage["absent"], coverage["unparsed"]
            suffix = f"; replies without a line ({without_line}) or without a label ({without_label}) are {rule}"
        say(track, *values, f"n {measures['accuracy']['n']}{suffix}")


log = logging.getLogger(__name__)
ARCHIVED_FILE = "predictions.json"


class WriteSubmission(Job):
    """Settings of write_submission. release: name of an unlabelled release for which a judge predicts the labels."""

    release: str


def write_submission(*, job: WriteSubmission, source: Path, verdicts: Path, out: Path, packed: Path) -> None:
    """Write the labels that a judge predicts for a release's replies, as a JSON file and as a zip archive of this file.

    Missing verdicts are left out and counted; no default label replaces them.

    source: file of the release; verdicts: file of the judge's verdicts; out: JSON file; packed: zip archive.
    """
    release = job.release
    answers = verdict_labels(judgement for judgement in read_records(verdicts, Judgement) if judgement.task == release)
    records = read_source(source, "json")
    missing = 0
    predicted = []
    for number, record in enumerate(records):
        responses = {}
        for tutor, response in responses_of(record).items():
            labels = {name: answers.get((f"mrbench-{number:03d}", tutor, name)) for name in SHARED_TASK}
            annotation = {name: label for name, label in labels.items() if label is not None}
            missing += len(SHARED_TASK) - len(annotation)
            responses[tutor] = {"response": response["response"], "annotation": annotation}
        dialogue = {key: record[key] for key in ("conversation_id", "conversation_history")}
        predicted.append({**dialogue, "tutor_responses": responses})
    write_json(out, predicted)
    with atomic_file(packed, "wb") as handle, zipfile.ZipFile(handle, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(zipfile.ZipInfo(ARCHIVED_FILE), json.dumps(predicted, indent=1))
    if missing:
        log.warning(
            "the file lacks %d labels because verdicts are missing: add these labels before you submit the file",
            missing,
        )
    replies = sum(len(record["tutor_responses"]) for record in predicted)
    log.info("wrote the labels of %d replies in %d dialogues to %s", replies, len(predicted), packed)
