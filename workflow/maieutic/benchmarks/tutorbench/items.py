"""TutorBench (arXiv 2510.02663): the hub's release, its 30-row sample, and a third-party copy of the text-only part.

The copy has neither TASK_ID nor BATCH: its rows are named by their number, and a row without a first explanation is
taken for active learning where its criteria speak of hints or forbid something, else for assessment. That is a guess,
and such an item's tag says so.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from maieutic.config.datasets import Source
from maieutic.core.objects import json_value
from maieutic.core.records import Item
from maieutic.datasets.text import cluster_of
from maieutic.graders.rubric import prohibits, unclear

BATCH = re.compile(r"USE_CASE_([123])_(TEXT|MULTIMODAL)")
USE_CASES = {"1": "adaptive", "2": "assessment", "3": "active_learning"}
WEIGHTS = {"critical": 5.0, "not_critical": 1.0, "critical_negative": -5.0}  # section 2.3
LEFT_OUT = "deleted"
WEIGHT = "weight"  # an explicit weight of a criterion, beside its text or among its attributes: it is obeyed
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
NONE = {"", "none", "not applicable", "n/a"}
HINT = re.compile(r"\bhint", re.IGNORECASE)
VARIABLES = {"use_case", "modality", "subject", "question", "explanation", "message", "work"}


class Asked(NamedTuple):
    """What kind of sample a record is."""

    use_case: str
    modality: str
    guessed: bool = False


def text(records: list[Source], task: str) -> list[Item]:
    """The samples without pictures."""
    samples = with_batch(records, "text")
    return told([(number, item_of(record, number, task, None)) for number, record in samples])


def multimodal(records: list[Source], task: str) -> list[Item]:
    """The samples with pictures; `images` names the record, until its picture's file is known."""
    samples = with_batch(records, "multimodal")
    return told([(number, item_of(record, number, task, str(number))) for number, record in samples])


def copied_text(records: list[Source], task: str) -> list[Item]:
    """The copy of the text-only part."""
    rows = [{**record, "BATCH": None} for record in records]
    return told([(number, item_of(record, number, task, None)) for number, record in enumerate(rows)])


def told(numbered: list[tuple[int, Item]]) -> list[Item]:
    """The items, their contradictions said in one line. numbered: with the numbers of their records."""
    items = [item for _, item in numbered]
    contradictions = [
        f"record {number} {item.id} {contradiction}"
        for number, item in numbered
        for contradiction in item.reference["contradictions"]
    ]
    if contradictions:
        log.warning(
            "%s: %d criteria have a weight that contradicts their severity, the first %s: the weight is obeyed. Fix: "
            "mend the record's RUBRICS if the severity is right",
            *(items[0].task, len(contradictions), contradictions[0]),
        )
    return items


def place_of(record: Source, number: int) -> str:
    """A record by its number and name."""
    return " ".join(filter(None, (f"record {number}", str(record.get("TASK_ID") or ""))))


def with_batch(records: list[Source], modality: str) -> list[tuple[int, Source]]:
    """The records of one modality with their numbers."""
    return [
        (number, record) for number, record in enumerate(records) if asked_of(record, number, []).modality == modality
    ]


def asked_of(record: Source, number: int, criteria: Sequence[dict[str, Any]]) -> Asked:
    """Use case and modality, from the batch where there is one. Raises ValueError for a batch that is none."""
    if record.get("BATCH", "") is None and criteria:
        return guessed(record, criteria)
    match = BATCH.fullmatch(str(record.get("BATCH")).strip())
    if not match:
        raise ValueError(
            f"{place_of(record, number)}: BATCH is USE_CASE_1_TEXT or the like, found {record.get('BATCH')!r}"
        )
    return Asked(USE_CASES[match[1]], match[2].lower())


def guessed(record: Source, criteria: Sequence[dict[str, Any]]) -> Asked:
    """The use case of a record that does not say it."""
    if (record.get("UC1_INITIAL_EXPLANATION") or "").strip():
        return Asked("adaptive", "text")
    hints = any(
        criterion["severity"] == "critical_negative" or HINT.search(criterion["text"]) for criterion in criteria
    )
    return Asked("active_learning" if hints else "assessment", "text", True)


def item_of(record: Source, number: int, task: str, picture: str | None) -> Item:
    """One sample (section 2.1; layout: appendix A.6). What the student has written stands as the model's first answer.

    A picture stands in the first message, with the question.
    """
    criteria = criteria_in(record, number)
    asked = asked_of(record, number, criteria)
    question, explanation, follow_up = (
        (record.get(name) or "").strip() for name in ("PROMPT", "UC1_INITIAL_EXPLANATION", "FOLLOW_UP_PROMPT")
    )
    adaptive = asked.use_case == "adaptive"
    if not question or (adaptive and not (explanation and follow_up)) or not (adaptive or picture or follow_up):
        raise ValueError(f"{place_of(record, number)}: a question, explanation, follow-up or solution is missing")
    before = [{"role": "user", "content": question}] if adaptive or not picture else []
    if adaptive:
        before.append({"role": "assistant", "content": explanation})
    with_picture = "\n\n".join(filter(None, (question, follow_up)))
    return Item(
        id=str(record.get("TASK_ID") or f"row-{number + 1:04d}"),
        task=task,
        cluster=cluster_of(question),
        vars={
            "use_case": asked.use_case,
            "modality": asked.modality,
            "subject": str(record["SUBJECT"]).strip(),
            "question": question,
            "explanation": explanation,
            "message": follow_up if before else with_picture,
            "work": "" if adaptive else follow_up,
        },
        reference=reference_of(criteria),
        tags=item_tags(record, asked),
        history=before,
        speaker="user" if adaptive or picture else "assistant",
        images=[picture] if picture else [],
    )


def reference_of(criteria: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The criteria with weights and tags. They keep the names of their places, those that are left out have none."""
    kept = {f"c{place:02d}": entry for place, entry in enumerate(criteria, 1) if entry["severity"] != LEFT_OUT}
    return {
        "criteria": {
            name: {"title": name, "definition": entry["text"], "weight": entry["weight"]}
            for name, entry in kept.items()
        },
        "criterion_tags": {name: tags_of(entry) for name, entry in kept.items()},
        "left_out": len(criteria) - len(kept),
        "contradictions": [
            f"{name}: {entry['severity']} ({WEIGHTS[entry['severity']]:+g}) with weight {entry['weight']:+g}"
            for name, entry in kept.items()
            if entry["weight"] != WEIGHTS[entry["severity"]]
        ],
    }


def item_tags(record: Source, asked: Asked) -> dict[str, str]:
    """What a sample is counted under."""
    bloom = str(record.get("bloom_taxonomy") or "").strip().casefold()
    return {
        "use_case": asked.use_case,
        "modality": asked.modality,
        "subject": str(record["SUBJECT"]).strip(),
        **({"bloom": slug(bloom)} if bloom not in NONE else {}),
        **({"use_case_from": "guess"} if asked.guessed else {}),
    }


def criteria_in(record: Source, number: int) -> list[dict[str, Any]]:
    """The rubric of a sample: `text`, `severity` and the other attributes. Raises ValueError naming what is wrong."""
    place = f"{place_of(record, number)}: RUBRICS"
    try:
        rubric = json_value(record["RUBRICS"]) if isinstance(record["RUBRICS"], str) else record["RUBRICS"]
    except ValueError as error:
        raise ValueError(f"{place} is no JSON: {error}") from None
    if not isinstance(rubric, list) or not rubric:
        raise ValueError(f"{place} is no list of criteria")
    criteria = []
    for entry in rubric:
        definition = str(entry.get("criteria") or "").strip() if isinstance(entry, dict) else ""
        attributes = entry.get("attributes") if definition else None
        severity = str((attributes or {}).get("severity", "")).strip()
        if not isinstance(attributes, dict) or severity not in {*WEIGHTS, LEFT_OUT}:
            known = f"{', '.join(WEIGHTS)}, {LEFT_OUT}"
            raise ValueError(f"{place}: a criterion needs a text and a severity ({known}), found {str(entry)[:80]}")
        weight = weight_of(entry, WEIGHTS.get(severity, 0.0))
        if weight is None:
            raise ValueError(f"{place}: a weight is a number other than 0, and one, found {str(entry)[:80]}")
        criteria.append({**attributes, "text": definition, "severity": severity, WEIGHT: weight})
    if not any(criterion[WEIGHT] > 0 for criterion in criteria if criterion["severity"] != LEFT_OUT):
        raise ValueError(f"{place} has no criterion with a positive weight")
    return criteria


def weight_of(criterion: dict[str, Any], usual: float) -> float | None:
    """A criterion's own weight, else the usual one of its severity; None for one that is no number, 0, or two."""
    values = [value for value in (criterion.get(WEIGHT), criterion["attributes"].get(WEIGHT)) if value is not None]
    if not values:
        return usual
    try:
        weights = {float(value) for value in values}
    except (TypeError, ValueError):
        return None
    weight = weights.pop()
    of_numbers = not weights and not any(isinstance(value, bool) for value in values)
    return weight if of_numbers and math.isfinite(weight) and weight else None


def tags_of(criterion: dict[str, Any]) -> dict[str, Any]:
    """The tags of a criterion (section 2.4). `dimension` may be several; a skill that is none is left out."""
    skill, explicit, objective = (
        str(criterion.get(name) or "").strip().casefold() for name in ("tutoring_skill", "explicitness", "objectivity")
    )
    named = [dimension.strip().casefold() for dimension in str(criterion.get("eval_dimension") or "").split(",")]
    return {
        "severity": criterion["severity"],
        "prohibits": prohibits(criterion["text"]),
        "unclear": unclear(criterion["text"]),
        "skill": SKILLS.get(skill, None if skill in NONE else slug(skill)),
        "dimensions": [slug(dimension) for dimension in named if dimension not in NONE],
        "explicitness": slug(explicit) or None,
        "objectivity": slug(objective) or None,
    }


def slug(tag: str) -> str:
    """A tag that this module does not know, as a name of its own: a further level is no error."""
    return re.sub(r"[^a-z0-9]+", "_", tag).strip("_")
