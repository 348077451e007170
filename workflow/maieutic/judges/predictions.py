"""Somebody's own predictions on a labelled release, by the protocol of the BEA 2025 shared task (five tracks).

For predictions that were made elsewhere: a judge of a run is measured by the same functions inside the workflow.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sklearn.metrics import accuracy_score, f1_score

from maieutic.datasets.mrbench import LABELS
from maieutic.errors import UserError
from maieutic.files import write_json
from maieutic.judges.agreement import measure
from maieutic.judges.labels import Labels, read_labels
from maieutic.judges.trust import Said, pairings_of
from maieutic.records import Record
from maieutic.registry import unknown

IDENTIFICATION = "tutor_identification"
BEA = ("macro_f1", "accuracy", "lenient_macro_f1", "lenient_accuracy")
FORM = 'one JSON object a line: {"conversation_id": ..., "tutor": ..., "pred": {"Actionability": "Yes", ...}}'


def read_predictions(path: Path, labels: Labels) -> tuple[Said, dict[tuple[str, str], str | None]]:
    """Verdicts by item, tutor and criterion, and the identified tutors. Raises UserError naming the line.

    `pred` holds labels by dimension, and under tutor_identification a tutor's name; null is an answer without any.
    """
    by_conversation: dict[str, list[str]] = {}
    for item in labels.items.values():
        by_conversation.setdefault(item.tags["conversation"], []).append(item.id)
    # Whatever is not predicted stays without a label, which counts as wrong.
    identified: dict[tuple[str, str], str | None] = {(reply.id, reply.model): None for reply in labels.replies}
    said: Said = {(label.id, label.model, label.criterion): None for label in labels.labels}
    seen: set[tuple[str, str]] = set()
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(str(path), f"cannot be read: {error}", FORM) from None
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        place = f"{path}:{number}"
        row = row_of(place, line)
        names = by_conversation.get(row.conversation_id, [])
        key = (names[0] if len(names) == 1 else "", row.tutor)
        if len(names) != 1 or key not in identified:
            found = f"{row.tutor} has no reply" if len(names) == 1 else f"{len(names)} dialogues have its id"
            raise UserError(place, found, "take ids and tutors from the release; four ids of V1 occur twice")
        if key in seen:
            raise UserError(place, "this reply is predicted twice", "one line a reply")
        seen.add(key)
        for name, label in (row.pred or {}).items():
            if name == IDENTIFICATION:
                identified[key] = label
            else:
                said[(*key, name)] = label_in(place, name, label)
    return said, identified


class Row(Record):
    """One line of predictions."""

    conversation_id: str
    tutor: str
    pred: dict[str, str | None] | None


def row_of(place: str, line: str) -> Row:
    """One line, read."""
    try:
        given: Any = json.loads(line)
        return Row.model_validate({name: given[name] for name in Row.model_fields})
    except (ValueError, KeyError, TypeError) as error:  # pydantic's is a ValueError
        why = str(error).split("\n", 1)[0]
        raise UserError(place, f"cannot be read: {type(error).__name__}: {why}", FORM) from None


def label_in(place: str, criterion: str, label: str | None) -> str | None:
    """One predicted label, None where there is none."""
    if criterion not in LABELS:
        raise unknown(place, criterion, [*LABELS, IDENTIFICATION], "MRBench's dimensions")
    if label is not None and label not in LABELS[criterion]:
        raise UserError(place, f"no such label {criterion}: {label!r}", f"known: {', '.join(LABELS[criterion])}")
    return label


def score_predictions(folder: Path, path: Path, out: Path, resamples: int, seed: int) -> None:
    """Write value, interval and n of each track and measure as JSON. What is missing counts as wrong."""
    labels = read_labels(folder)
    said, identified = read_predictions(path, labels)
    found: dict[str, dict[str, Any]] = {}
    for criterion, pairings in pairings_of(labels.labels, said, {}).items():
        if all(one.said is None for one in pairings):
            continue
        found[criterion] = {}
        for name in BEA:
            one = measure(name, pairings, len(LABELS[criterion]), True, resamples, seed)
            found[criterion][name] = {
                "value": one.value,
                "low": one.interval.low,
                "high": one.interval.high,
                "n": one.n,
            }
    if any(identified.values()):
        gold = [tutor for _, tutor in identified]
        named = [name or "" for name in identified.values()]
        classes = sorted(set(gold))
        found[IDENTIFICATION] = {
            "macro_f1": {"value": float(f1_score(gold, named, labels=classes, average="macro")), "n": len(gold)},
            "accuracy": {"value": float(accuracy_score(gold, named)), "n": len(gold)},
        }
    if not found:
        raise UserError(str(path), "no prediction is in it", FORM)
    write_json(out, found)
    for track, measures in found.items():
        print(
            track, *(f"{name} {one['value']:.4f}" for name, one in measures.items()), f"n {measures['accuracy']['n']}"
        )
