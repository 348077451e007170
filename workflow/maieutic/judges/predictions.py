"""Somebody's own predictions on a labelled release, by the protocol of the BEA 2025 shared task (five tracks).

For predictions that were made elsewhere: a judge of a run is measured by the same functions inside the workflow.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sklearn.metrics import accuracy_score, f1_score

from maieutic.datasets.mrbench import LABELS
from maieutic.errors import UserError
from maieutic.files import write_json
from maieutic.judges.agreement import measure
from maieutic.judges.labels import Labels, read_labels
from maieutic.judges.trust import Said, pairings_of

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
    replies = {(reply.id, reply.model) for reply in labels.replies}
    said: Said = {}
    identified: dict[tuple[str, str], str | None] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        place = f"{path}:{number}"
        if not line.strip():
            continue
        try:
            row: Any = json.loads(line)
            conversation, tutor, given = row["conversation_id"], row["tutor"], row["pred"] or {}
        except (ValueError, KeyError, TypeError) as error:
            raise UserError(place, f"cannot be read: {type(error).__name__}: {error}", FORM) from None
        names = by_conversation.get(conversation, [])
        if len(names) != 1 or (names[0], tutor) not in replies:
            found = f"{len(names)} dialogues have the id {conversation}" if len(names) != 1 else f"{tutor} has no reply"
            raise UserError(place, found, "take ids and tutors from the release; four ids of V1 occur twice")
        for criterion in LABELS:
            said[names[0], tutor, criterion] = label_in(place, criterion, given)
        identified[names[0], tutor] = given.get(IDENTIFICATION)
    return said, identified


def label_in(place: str, criterion: str, given: Mapping[str, Any]) -> str | None:
    """One predicted label, None where there is none."""
    label = given.get(criterion)
    if label is not None and label not in LABELS[criterion]:
        raise UserError(place, f"no such label {criterion}: {label!r}", f"known: {', '.join(LABELS[criterion])}")
    return None if label is None else str(label)


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
