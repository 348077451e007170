"""TutorBench's Figures 3 to 5, 7, 11 and 12: scores by tag, and numbers of items and criteria, as charts and tables."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd

from maieutic.benchmarks.tutorbench.breakdown import BLOOM_VOTE, Slice
from maieutic.benchmarks.tutorbench.items import BLOOM, DIMENSIONS, SKILLS, USE_CASES
from maieutic.core.records import Item, Score
from maieutic.plan.plan import Plan
from maieutic.report.figures import levels_chart, stacked_chart
from maieutic.report.tables import display_label
from maieutic.scores.papers import PERCENT

BENCHMARK = "tutorbench"
LEVEL_LABELS = {
    "adaptive": "Adaptive explanation",
    "assessment": "Assessment and feedback",
    "active_learning": "Active learning",
    "core_difficulty": "Identifying the core difficulty",
    "correct_steps": "Identifying correct steps",
    "incorrect_steps": "Identifying incorrect steps",
    "stating_knowledge": "Recalling and stating knowledge",
    "alternative_solutions": "Alternative solutions",
    "examples": "Examples, analogies",
    "guiding_questions": "Asking guiding questions",
    "step_by_step": "Step-by-step help",
    "conciseness_relevance": "Conciseness and relevance",
    "style_tone": "Style and tone",
    "student_level_calibration": "Student-level calibration",
    "emotional_component": "Emotional component",
    "critical": "critical (+5)",
    "not_critical": "not critical (+1)",
    "critical_negative": "critical, negative (-5)",
}
BAR_KINDS = {"use_case"}  # kinds of tag that are drawn as bars, like the paper's Figure 3


class TagFigure(NamedTuple):
    """A figure of the paper. kind: kind of tag; name: caption; levels: tags of this kind in the paper's order."""

    kind: str
    name: str
    levels: tuple[str, ...]


FIGURES = (
    TagFigure("use_case", "By use case (Figure 3): mean ARR_w of items", tuple(USE_CASES.values())),
    TagFigure("dimension", "By evaluation dimension (Figure 4): pass rate of criteria", DIMENSIONS),
    TagFigure("bloom", "By Bloom level (Figure 4): mean ARR_w of items", BLOOM),
    TagFigure(BLOOM_VOTE, "By Bloom level as voted by this run's taggers: mean ARR_w of items", BLOOM),
    TagFigure("skill", "By tutoring skill (Figure 5): pass rate of criteria", tuple(SKILLS.values())),
)
FIGURE_REFERENCES = {
    "explicitness and objectivity": " (Figure 11)",
    "dimension": " (Figure 12a)",
    "skill": " (Figure 12b)",
}
TABLE_KINDS = ("subject", "explicitness", "objectivity", "severity")


def level_label(level: str) -> str:
    """Return the name of a tag in the report."""
    return LEVEL_LABELS.get(level, level.replace("_", " ").capitalize() if level.islower() else level)


ScoresBySlice = dict[tuple[str, Slice], Score]  # scores by tutor and slice


def levels_of(figure: TagFigure, scores: ScoresBySlice) -> list[str]:
    """Return the levels that have scores: first the paper's levels, in the paper's order, then all others."""
    present = dict.fromkeys(str(key.subset) for _, key in scores if key.metric == figure.kind)
    others = [level for level in present if level not in figure.levels]
    return [*(level for level in figure.levels if level in present), *others]


def tag_figure(
    plan: Plan, figure: TagFigure, scores: ScoresBySlice, paper: Mapping[str, float]
) -> dict[str, Any] | None:
    """Return a figure and its values as a table, or None if no item or criterion has a tag of its kind.

    paper: mean score of the paper's models for each tag, in per cent.
    """
    levels = levels_of(figure, scores)
    if not levels:
        return None
    all_tutors = plan.tutors_on(BENCHMARK)
    tutors = [name for name in all_tutors if any((name, Slice(figure.kind, level)) in scores for level in levels)]
    table = [
        {
            "level": level_label(level),
            "paper": paper.get(f"{figure.kind}/{level}"),
            "cells": [scores.get((model, Slice(figure.kind, level))) for model in tutors],
        }
        for level in levels
    ]
    names = [display_label(plan, model) for model in tutors]
    marks = level_marks(table, names)
    title, order = figure.name.partition(": ")[2], [display_label(plan, model) for model in all_tutors]
    return {
        "name": figure.name,
        "svg": levels_chart(pd.DataFrame(marks), title, order, figure.kind in BAR_KINDS) if marks else "",
        "tutors": names,
        "rows": table,
        "paper": any(row["paper"] is not None for row in table),
    }


def level_marks(table: Sequence[Mapping[str, Any]], tutors: Sequence[str]) -> list[dict[str, Any]]:
    """Return the data points of a table's chart: one for each level and tutor with a value."""
    return [
        {
            "level": row["level"],
            "series": tutor,
            **cell.model_dump(include={"value", "low", "high"}),
            "paper": float("nan") if row["paper"] is None else row["paper"] / PERCENT,
        }
        for row in table
        for tutor, cell in zip(tutors, row["cells"], strict=True)
        if cell and cell.value is not None
    ]


def data_counts(items: Sequence[Item]) -> dict[str, Any]:
    """Return the numbers of items and criteria by kind, with charts (Figures 7, 11 and 12)."""
    by_item: dict[str, Counter[tuple[str, str]]] = defaultdict(Counter)
    by_criterion: dict[str, Counter[str]] = defaultdict(Counter)
    for item in items:
        for kind in ("subject", "use_case"):
            by_item[kind][item.tags[kind], item.tags["modality"]] += 1
        for tags in item.reference["criterion_tags"].values():
            by_criterion["severity"][tags["severity"]] += 1
            by_criterion["skill"][tags["skill"] or "none"] += 1
            by_criterion["explicitness and objectivity"][f"{tags['explicitness']}, {tags['objectivity']}"] += 1
            for dimension in tags["dimensions"]:
                by_criterion["dimension"][dimension] += 1
    charts = [
        {"name": f"Samples by {kind.replace('_', ' ')} (Figure 7)", "svg": item_chart(counts)}
        for kind, counts in by_item.items()
    ]
    charts += [
        {"name": f"Criteria by {kind}{FIGURE_REFERENCES.get(kind, '')}", "svg": criterion_chart(counts)}
        for kind, counts in by_criterion.items()
    ]
    negative = [
        tags
        for item in items
        for tags in item.reference["criterion_tags"].values()
        if tags["severity"] == "critical_negative"
    ]
    return {
        "charts": charts,
        **data_sizes(items),
        "contradictions": [
            f"{item.id} {contradiction}" for item in items for contradiction in item.reference["contradictions"]
        ],
        "negative": len(negative),
        "prohibitions": sum(tags["prohibits"] for tags in negative),
        "unclear": sum(tags["unclear"] for tags in negative),
        "guessed": sum("use_case_from" in item.tags for item in items),
    }


def data_sizes(items: Sequence[Item]) -> dict[str, int]:
    """Return the numbers of samples, of criteria, and of the criteria that are marked as deleted and left out."""
    sizes = [len(item.reference["criteria"]) for item in items]
    return {
        "samples": len(items),
        "criteria": sum(sizes),
        "least": min(sizes, default=0),
        "most": max(sizes, default=0),
        "left_out": sum(item.reference["left_out"] for item in items),
    }


def criterion_chart(counts: Counter[str]) -> str:
    """Return a bar chart of criteria, the most frequent first."""
    rows = [{"level": level_label(name), "part": "criteria", "count": n} for name, n in counts.most_common()]
    return stacked_chart(pd.DataFrame(rows), "number")


def modality_sort_key(entry: tuple[tuple[str, str], int]) -> tuple[int, str]:
    """Return a sort key that puts text before multimodal samples and then sorts by level."""
    (level, modality), _ = entry
    return ("text", "multimodal").index(modality), level


def item_chart(counts: Mapping[tuple[str, str], int]) -> str:
    """Return a bar chart of the number of samples by level, stacked by modality."""
    rows = [
        {"level": level_label(level), "part": modality, "count": n}
        for (level, modality), n in sorted(counts.items(), key=modality_sort_key)
    ]
    return stacked_chart(pd.DataFrame(rows), "number")
