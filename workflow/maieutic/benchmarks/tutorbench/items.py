"""Items of TutorBench (arXiv 2510.02663), from the hub's release, its 30-row sample, or a copy of its text part.

The copy, by a third party, has neither TASK_ID nor BATCH, so row numbers serve as ids, and use cases are guessed. A row
with a first explanation is adaptive. Another row is active learning if its criteria mention hints or forbid something,
and assessment otherwise. Items with a guessed use case get a tag.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from maieutic.config.datasets import SourceRecord
from maieutic.core.json_text import json_value
from maieutic.core.records import Item
from maieutic.datasets.text import cluster_of
from maieutic.graders.weighted_rubric import is_prohibition, is_unclear_negation

BATCH = re.compile(r"USE_CASE_([123])_(TEXT|MULTIMODAL)")
USE_CASES = {"1": "adaptive", "2": "assessment", "3": "active_learning"}
WEIGHTS = {"critical": 5.0, "not_critical": 1.0, "critical_negative": -5.0}  # weight by severity (section 2.3)
DELETED = "deleted"
WEIGHT = "weight"  # key of an explicit weight, which overrides the weight of the severity
log = logging.getLogger(__name__)
SKILLS = {
    "identifying core difficulty/ misconception attribution": "core_difficulty",
    "identifying correct steps by student": "correct_steps",
    "identifying incorrect steps by student": "incorrect_steps",
    "stating definitions/ formulae/ theorems/ laws": "stating_knowledge",
    "provides alternative solutions/ paths/": "alternative_solutions",
    "includes examples/ analogy": "examples",
    "asks questions to guide students": "guiding_questions",
    "step by step help/ analysis": "step_by_step",
}
DIMENSIONS = (
    "instruction_following",
    "truthfulness",
    "conciseness_relevance",
    "style_tone",
    "visual_perception",
    "visual_reasoning",
    "student_level_calibration",
    "emotional_component",
)
BLOOM = ("remember", "understand", "apply", "analyze", "evaluate", "create")
ABSENT_TAGS = {"", "none", "not applicable", "n/a"}
HINT = re.compile(r"\bhint", re.IGNORECASE)
VARIABLES = {"use_case", "modality", "subject", "question", "explanation", "message", "work"}


class SampleKind(NamedTuple):
    """Use case and modality of a record. guessed: True if the record does not state its use case."""

    use_case: str
    modality: str
    guessed: bool = False


def text_items(records: list[SourceRecord], task: str) -> list[Item]:
    """Load the samples without pictures."""
    samples = records_of_modality(records, "text")
    return warn_of_contradictions([(number, sample_item(record, number, task, None)) for number, record in samples])


def multimodal_items(records: list[SourceRecord], task: str) -> list[Item]:
    """Load the samples with pictures. An item's `images` contains the record's number until the picture is fetched."""
    samples = records_of_modality(records, "multimodal")
    return warn_of_contradictions(
        [(number, sample_item(record, number, task, str(number))) for number, record in samples]
    )


def copied_text_items(records: list[SourceRecord], task: str) -> list[Item]:
    """Load the third-party copy of the text-only part."""
    rows = [{**record, "BATCH": None} for record in records]
    return warn_of_contradictions(
        [(number, sample_item(record, number, task, None)) for number, record in enumerate(rows)]
    )


def warn_of_contradictions(numbered: list[tuple[int, Item]]) -> list[Item]:
    """Return the items. Log a warning if weights contradict severities. numbered: items with their record numbers."""
    items = [item for _, item in numbered]
    contradictions = [
        f"record {number} {item.id} {contradiction}"
        for number, item in numbered
        for contradiction in item.reference["contradictions"]
    ]
    if contradictions:
        log.warning(
            "%s: found criteria whose weight contradicts their severity: %d in total, the first in %s. The weight is "
            "used. Fix: if the severity is right, correct the weight in the record's RUBRICS",
            *(items[0].task, len(contradictions), contradictions[0]),
        )
    return items


def record_place(record: SourceRecord, number: int) -> str:
    """Return the number and the id of a record, for messages."""
    return " ".join(filter(None, (f"record {number}", str(record.get("TASK_ID") or ""))))


def records_of_modality(records: list[SourceRecord], modality: str) -> list[tuple[int, SourceRecord]]:
    """Return the records of one modality with their numbers."""
    return [
        (number, record)
        for number, record in enumerate(records)
        if sample_kind(record, number, []).modality == modality
    ]


def sample_kind(record: SourceRecord, number: int, criteria: Sequence[dict[str, Any]]) -> SampleKind:
    """Return a record's use case and modality, from its batch or by a guess. Raises ValueError for an unknown batch."""
    if record.get("BATCH", "") is None and criteria:
        return guess_sample_kind(record, criteria)
    match = BATCH.fullmatch(str(record.get("BATCH")).strip())
    if not match:
        raise ValueError(
            f"{record_place(record, number)}: expected a BATCH like USE_CASE_1_TEXT, found {record.get('BATCH')!r}"
        )
    return SampleKind(USE_CASES[match[1]], match[2].lower())


def guess_sample_kind(record: SourceRecord, criteria: Sequence[dict[str, Any]]) -> SampleKind:
    """Return the use case and modality of a record without a batch, guessed from its texts and criteria."""
    if (record.get("UC1_INITIAL_EXPLANATION") or "").strip():
        return SampleKind("adaptive", "text")
    hints = any(
        criterion["severity"] == "critical_negative" or HINT.search(criterion["text"]) for criterion in criteria
    )
    return SampleKind("active_learning" if hints else "assessment", "text", True)


def sample_item(record: SourceRecord, number: int, task: str, picture: str | None) -> Item:
    """Return the item of one sample (section 2.1; layout: appendix A.6).

    The first explanation, or the student's work in a text sample, is an assistant message. A picture belongs to the
    first message, which also contains the question. picture: entry in `images`, or None for a text sample.
    """
    criteria = parse_rubric(record, number)
    sample = sample_kind(record, number, criteria)
    question, explanation, follow_up = (
        (record.get(name) or "").strip() for name in ("PROMPT", "UC1_INITIAL_EXPLANATION", "FOLLOW_UP_PROMPT")
    )
    adaptive = sample.use_case == "adaptive"
    if not question or (adaptive and not (explanation and follow_up)) or not (adaptive or picture or follow_up):
        raise ValueError(
            f"{record_place(record, number)}: the question, explanation, follow-up or solution is missing "
            "in PROMPT, UC1_INITIAL_EXPLANATION or FOLLOW_UP_PROMPT"
        )
    before = [{"role": "user", "content": question}] if adaptive or not picture else []
    if adaptive:
        before.append({"role": "assistant", "content": explanation})
    with_picture = "\n\n".join(filter(None, (question, follow_up)))
    return Item(
        id=str(record.get("TASK_ID") or f"row-{number + 1:04d}"),
        task=task,
        cluster=cluster_of(question),
        vars={
            "use_case": sample.use_case,
            "modality": sample.modality,
            "subject": str(record["SUBJECT"]).strip(),
            "question": question,
            "explanation": explanation,
            "message": follow_up if before else with_picture,
            "work": "" if adaptive else follow_up,
        },
        reference=rubric_reference(criteria),
        tags=item_tags(record, sample),
        history=before,
        speaker="user" if adaptive or picture else "assistant",
        images=[picture] if picture else [],
    )


def rubric_reference(criteria: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the criteria with weights and tags. Deleted criteria are left out, but their numbers are not reused."""
    kept = {f"c{place:02d}": entry for place, entry in enumerate(criteria, 1) if entry["severity"] != DELETED}
    return {
        "criteria": {
            name: {"title": name, "definition": entry["text"], "weight": entry["weight"]}
            for name, entry in kept.items()
        },
        "criterion_tags": {name: tags_of_criterion(entry) for name, entry in kept.items()},
        "left_out": len(criteria) - len(kept),
        "contradictions": [
            f"{name}: {entry['severity']} ({WEIGHTS[entry['severity']]:+g}) with weight {entry['weight']:+g}"
            for name, entry in kept.items()
            if entry["weight"] != WEIGHTS[entry["severity"]]
        ],
    }


def item_tags(record: SourceRecord, sample: SampleKind) -> dict[str, str]:
    """Return the tags by which samples are grouped in scores and counts."""
    bloom = str(record.get("bloom_taxonomy") or "").strip().casefold()
    return {
        "use_case": sample.use_case,
        "modality": sample.modality,
        "subject": str(record["SUBJECT"]).strip(),
        **({"bloom": tag_slug(bloom)} if bloom not in ABSENT_TAGS else {}),
        **({"use_case_from": "guess"} if sample.guessed else {}),
    }


def parse_rubric(record: SourceRecord, number: int) -> list[dict[str, Any]]:
    """Return a sample's criteria, each with `text`, `severity`, `weight` and its other attributes.

    Raises ValueError for an invalid rubric.
    """
    place = f"{record_place(record, number)}: RUBRICS"
    try:
        rubric = json_value(record["RUBRICS"]) if isinstance(record["RUBRICS"], str) else record["RUBRICS"]
    except ValueError as error:
        raise ValueError(f"{place}: cannot be parsed as JSON: {error}") from None
    if not isinstance(rubric, list) or not rubric:
        raise ValueError(f"{place}: expected a list of criteria, found {str(rubric)[:40]!r}")
    criteria = []
    for entry in rubric:
        definition = str(entry.get("criteria") or "").strip() if isinstance(entry, dict) else ""
        attributes = entry.get("attributes") if definition else None
        severity = str((attributes or {}).get("severity", "")).strip()
        if not isinstance(attributes, dict) or severity not in {*WEIGHTS, DELETED}:
            known = f"{', '.join(WEIGHTS)}, {DELETED}"
            fault = f"expected a criterion with a text and a severity ({known}), found {str(entry)[:80]}"
            raise ValueError(f"{place}: {fault}")
        weight = weight_of_criterion(entry, WEIGHTS.get(severity, 0.0))
        if weight is None:
            raise ValueError(f"{place}: expected a single weight other than 0, found {str(entry)[:80]}")
        criteria.append({**attributes, "text": definition, "severity": severity, WEIGHT: weight})
    if not any(criterion[WEIGHT] > 0 for criterion in criteria if criterion["severity"] != DELETED):
        raise ValueError(f"{place}: expected a criterion with a positive weight, found none")
    return criteria


def weight_of_criterion(criterion: dict[str, Any], usual: float) -> float | None:
    """Return a criterion's explicit weight, or `usual`, the weight of its severity, if no weight is given.

    Returns None if the weight is 0, ambiguous or not a number."""
    values = [value for value in (criterion.get(WEIGHT), criterion["attributes"].get(WEIGHT)) if value is not None]
    if not values:
        return usual
    try:
        weights = {float(value) for value in values}
    except (TypeError, ValueError):
        return None
    weight = weights.pop()
    is_number = not weights and not any(isinstance(value, bool) for value in values)
    return weight if is_number and math.isfinite(weight) and weight else None


def tags_of_criterion(criterion: dict[str, Any]) -> dict[str, Any]:
    """Return the tags of a criterion (section 2.4). It can have several dimensions; an absent skill is None."""
    skill, explicit, objective = (
        str(criterion.get(name) or "").strip().casefold() for name in ("tutoring_skill", "explicitness", "objectivity")
    )
    named = [dimension.strip().casefold() for dimension in str(criterion.get("eval_dimension") or "").split(",")]
    return {
        "severity": criterion["severity"],
        "prohibits": is_prohibition(criterion["text"]),
        "unclear": is_unclear_negation(criterion["text"]),
        "skill": SKILLS.get(skill, None if skill in ABSENT_TAGS else tag_slug(skill)),
        "dimensions": [tag_slug(dimension) for dimension in named if dimension not in ABSENT_TAGS],
        "explicitness": tag_slug(explicit) or None,
        "objectivity": tag_slug(objective) or None,
    }


def tag_slug(tag: str) -> str:
    """Return the words of a lower-case tag, joined by underscores. The tag may be unknown to this module."""
    return re.sub(r"[^a-z0-9]+", "_", tag).strip("_")
