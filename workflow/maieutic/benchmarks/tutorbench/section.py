"""TutorBench's page: its paper's tables and figures beside this run's values, agreement with raters, and examples."""

from __future__ import annotations

import csv
import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from maieutic.benchmarks.tutorbench.breakdown import ANSWERED, BLOOM_VOTE, OVERALL, Slice
from maieutic.benchmarks.tutorbench.items import BLOOM, DIMENSIONS, SKILLS, USE_CASES
from maieutic.benchmarks.tutorbench.printed import USER_LAST_NOTE
from maieutic.benchmarks.tutorbench.raters import AGREEMENT, ALL_RATERS, KAPPA
from maieutic.config.cards import Card
from maieutic.config.models import BaselineModel
from maieutic.core import paths
from maieutic.core.records import Item, Picture, Reply, Score, read_records
from maieutic.graders.weighted_rubric import NEGATIVE_WEIGHT_READINGS
from maieutic.plan.plan import Plan
from maieutic.report.browser import cut_text, grades_by_judges, thumbnail
from maieutic.report.figures import histogram, levels_chart, stacked_chart
from maieutic.report.sections import ReportInput, Section
from maieutic.report.tables import breakdown_scores, display_label, items_of_task, score_file
from maieutic.report.traffic_light import kinds_on
from maieutic.scores.papers import PERCENT, PrintedRow, printed_rows

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


TABLE_1 = {  # key of this run's score, by column of the paper's table
    "modality/text": Slice("modality", "text"),
    "modality/multimodal": Slice("modality", "multimodal"),
    OVERALL: Slice(OVERALL),
}
TUTORS_PER_EXAMPLE = 3  # maximum number of tutors shown in each example


def scores_by_pool(plan: Plan, results: Path) -> dict[str, ScoresBySlice]:
    """Return the leading judge's scores by pool, then by tutor and slice."""
    by_pool: dict[str, ScoresBySlice] = defaultdict(dict)
    judge = plan.leading_judge(BENCHMARK)
    for score in breakdown_scores(plan, results)[BENCHMARK]:
        if score.by == judge:
            by_pool[score.task][str(score.tutor), Slice(score.metric, score.subset)] = score
    return dict(by_pool)


def paper_rows(printed: Sequence[PrintedRow]) -> list[dict[str, Any]]:
    """Return the paper's rows of Table 1, and its row of study mode."""
    rows: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    for row in printed:
        if row.group in {"ranked", "text-only model", "study mode"}:
            rows[row.row, row.group][row.metric] = row.value
    return [
        {
            "who": model,
            "group": group,
            "cells": [by_metric.get(name) for name in TABLE_1],
            "normal": by_metric.get("normal"),
        }
        for (model, group), by_metric in rows.items()
    ]


def tutor_notes(plan: Plan, model: str, cards: Sequence[Card]) -> str:
    """Return the notes on a tutor's row: no picture input, student's work as a user message, a different protocol."""
    blind = not all(plan.can_answer(card, model) for card in cards)
    user_last = getattr(plan.models[model], "user_last", False)
    protocol = plan.protocol_of(model)
    notes = {
        "takes no pictures": blind and not isinstance(plan.models[model], BaselineModel),
        USER_LAST_NOTE: user_last,
        f"protocol {protocol}": protocol != plan.run.protocol,
    }
    return "".join(f"; {note}" for note, applies in notes.items() if applies)


def count_lost_pictures(plan: Plan, results: Path, cards: Sequence[Card]) -> int:
    """Return the number of samples that are left out because their picture is unavailable."""
    names = {card.dataset for card in cards if card.images}
    files = [paths.PICTURE_LIST.within(results, dataset=name) for name in names]
    return sum(picture.file is None for path in files if path.exists() for picture in read_records(path, Picture))


def has_unverified_files(plan: Plan, cards: Sequence[Card]) -> bool:
    """Return True if files in data_dir replace a download from the hub. The commit of such files is not verified."""
    copies = [plan.datasets[card.dataset].published for card in cards]
    return plan.edition == "published" and plan.config.data_dir is not None and any(copy.hub for copy in copies)


def our_rows(plan: Plan, scores: ScoresBySlice, cards: Sequence[Card]) -> list[dict[str, Any]]:
    """Return every tutor's text, multimodal and overall scores. Tutors without picture input have a text score only."""
    rows = []
    for model in plan.tutors_on(BENCHMARK):
        cells = [scores.get((model, key)) for key in TABLE_1.values()]
        if any(cells):
            rows.append(
                {
                    "model": model,
                    "who": display_label(plan, model),
                    "baseline": isinstance(plan.models[model], BaselineModel),
                    "cells": cells,
                    "notes": tutor_notes(plan, model, cards),
                }
            )
    return rows


def reading_rows(plan: Plan, scores: ScoresBySlice) -> list[dict[str, Any]]:
    """Return each tutor's ARR_w on its items: unclipped, clipped, and under each rule for negative weights."""
    names = [ANSWERED, f"{ANSWERED}_clipped", *(f"{ANSWERED}_{reading}" for reading in NEGATIVE_WEIGHT_READINGS)]
    return [
        {"who": display_label(plan, model), "cells": [scores.get((model, Slice(name))) for name in names]}
        for model in plan.tutors_on(BENCHMARK)
        if (model, Slice(ANSWERED)) in scores
    ]


def rater_section(plan: Plan, results: Path) -> list[dict[str, Any]]:
    """Return the data of Figure 6: each judge beside the people who rated the same criteria."""
    rows = []
    kinds = kinds_on(plan, plan.pooled_cards(BENCHMARK), lambda card: plan.judges_of_card(card))
    for judge in plan.pooled_judges(BENCHMARK) if plan.run.human_labels else []:
        scores = score_file(paths.RATERS.within(results, judge=judge, benchmark=BENCHMARK))
        judge_scores = {(score.metric, score.subset): score for score in scores if score.grader == judge}
        people = [
            score for score in scores if score.metric == AGREEMENT and score.grader != judge and score.value is not None
        ]
        if not people or (AGREEMENT, None) not in judge_scores:
            continue
        f1 = {score.grader: score for score in scores if score.metric == "f1"}
        rows.append(
            {
                "judge": judge,
                "kinds": [(name, kind) for name, kind in kinds if name == judge],
                "svg": histogram(
                    Counter(score.value or 0.0 for score in people),
                    "agreement with the other raters",
                    "people",
                    0.05,
                    judge_scores[AGREEMENT, None].value,
                ),
                "agreement": judge_scores[AGREEMENT, None],
                "mean": next(score for score in scores if score.metric == "mean_agreement"),
                "fleiss": next(score for score in scores if score.metric == "fleiss_kappa"),
                "kappa": judge_scores[KAPPA, None],
                "f1": [(name, judge_scores["f1", name]) for name in (ALL_RATERS, "critical", "not_critical")],
                "people": [
                    (score.grader, score, judge_scores.get((AGREEMENT, score.grader)), f1.get(score.grader))
                    for score in people
                ],
            }
        )
    return rows


def difficulty_section(plan: Plan, results: Path) -> dict[str, Any] | None:
    """Return the counts of the difficulty filter, in total and by subject; None if the run has no filter."""
    path = paths.DIFFICULTY.within(results, benchmark=BENCHMARK)
    if not plan.run.difficulty.tutors or not path.exists():
        return None
    with open(path, encoding="utf-8", newline="") as handle:
        rows = list(csv.DictReader(handle))
    by_subject: dict[str, Counter[str]] = defaultdict(Counter)
    for row in rows:
        by_subject[row["subject"]][row["hard"]] += 1
    return {"counts": Counter(row["hard"] for row in rows), "by_subject": dict(by_subject), "n": len(rows)}


def tag_section(plan: Plan, results: Path) -> dict[str, Any] | None:
    """Return the Bloom levels by vote, and the taggers' agreement; None if the run has no taggers."""
    path = paths.VOTES.within(results, benchmark=BENCHMARK)
    if not plan.run.taggers or not path.exists():
        return None
    votes: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return votes


def example_section(plan: Plan, results: Path, items: Sequence[Item]) -> list[dict[str, Any]]:
    """Return one item of each use case, with replies and verdicts side by side as in Figures 8 to 10."""
    ranked = sorted(plan.tutors_on(BENCHMARK), key=lambda name: isinstance(plan.models[name], BaselineModel))
    replies, verdicts = {}, {}
    for model in ranked[:TUTORS_PER_EXAMPLE]:
        path = paths.REPLIES.within(results, benchmark=BENCHMARK, tutor=model)
        for reply in read_records(path, Reply) if path.exists() else []:
            replies[model, reply.task, reply.id] = reply
        for grade in grades_by_judges(plan, results, BENCHMARK, model):
            verdicts[model, grade.task, grade.id, str(grade.criterion)] = grade
    sides = {
        item.id: [name for name in ranked[:TUTORS_PER_EXAMPLE] if (name, item.task, item.id) in replies]
        for item in items
    }

    def rank(item: Item) -> tuple[bool, bool]:
        """Return a sort key that puts items with a reply of the first tutor first, then items with pictures."""
        return ranked[0] not in sides[item.id], not item.images

    chosen: dict[str, Item] = {}
    for item in sorted(items, key=rank):
        if sides[item.id]:
            chosen.setdefault(item.tags["use_case"], item)
    return [
        {
            "item": item,
            "use_case": level_label(use_case),
            "pictures": [thumbnail(results, file) for file in item.images],
            "tutors": [
                (display_label(plan, tutor), cut_text(replies[tutor, item.task, item.id].text))
                for tutor in sides[item.id]
            ],
            "criteria": [
                (criterion, [verdicts.get((model, item.task, item.id, name)) for model in sides[item.id]])
                for name, criterion in item.reference["criteria"].items()
            ],
        }
        for use_case, item in chosen.items()
    ]


def printed_counts() -> list[PrintedRow]:
    """Return the printed sizes of the paper's data and of the public release."""
    return [row for row in printed_rows(BENCHMARK) if row.group == "counts" and row.metric in {"samples", "criteria"}]


def data_pools(plan: Plan, results: Path, cards: Sequence[Card]) -> list[dict[str, Any]]:
    """Return a description of the data of each pool (tasks that are scored together)."""
    pools = []
    for pool in dict.fromkeys(str(card.pool) for card in cards):
        pool_cards = [card for card in cards if card.pool == pool]
        items = [item for card in pool_cards for item in items_of_task(results, BENCHMARK, card.task)]
        pools.append(
            {
                "name": pool,
                "counts": data_counts(items),
                "lost": count_lost_pictures(plan, results, pool_cards),
                "unverified": has_unverified_files(plan, pool_cards),
            }
        )
    return pools


def tutorbench_section(plan: Plan, results: Path) -> dict[str, Any] | None:
    """Return the variables of TutorBench's page, or None for a run without TutorBench.

    Without a judge of the replies, the page only describes the data.
    """
    if BENCHMARK not in plan.benchmarks:
        return None
    if BENCHMARK not in plan.pooled_benchmarks:
        pools = data_pools(plan, results, [loaded.card for loaded in plan.benchmarks[BENCHMARK] if loaded.card.pool])
        return {"judge": None, "printed_counts": printed_counts(), "pools": pools} if pools else None
    printed, cards = printed_rows(BENCHMARK), plan.pooled_cards(BENCHMARK)
    means = {row.metric: row.value for row in printed if row.row == "mean"}
    scores = scores_by_pool(plan, results)
    pools = []
    for about in data_pools(plan, results, cards):
        pool_cards = [card for card in cards if card.pool == about["name"]]
        items = [item for card in pool_cards for item in items_of_task(results, BENCHMARK, card.task)]
        pool_scores = scores.get(about["name"], {})
        figures = [tag_figure(plan, figure, pool_scores, means) for figure in FIGURES]
        tables = [tag_figure(plan, TagFigure(kind, f"By {kind}", ()), pool_scores, means) for kind in TABLE_KINDS]
        pools.append(
            {
                **about,
                "ours": our_rows(plan, pool_scores, pool_cards),
                "readings": reading_rows(plan, pool_scores),
                "figures": [figure for figure in figures if figure],
                "tables": [table for table in tables if table],
                "blind": any(plan.is_blind(plan.leading_judge(BENCHMARK), card) for card in pool_cards),
                "examples": example_section(plan, results, items),
            }
        )
    return {
        "judge": plan.leading_judge(BENCHMARK),
        "kinds": kinds_on(plan, cards, lambda card: plan.judges_of_card(card)[:1]),
        "paper": paper_rows(printed),
        "raters": rater_section(plan, results),
        "printed_raters": [row for row in printed if row.table == "section 3.7"],
        "printed_counts": printed_counts(),
        "difficulty": difficulty_section(plan, results),
        "tags": tag_section(plan, results),
        "readings": NEGATIVE_WEIGHT_READINGS,
        "pools": pools,
    }


def variables(run: ReportInput) -> dict[str, Any] | None:
    """Return the variables of TutorBench's page template, or None if the page is left out."""
    section = tutorbench_section(run.plan, run.results)
    return {"tutorbench": section} if section else None


PAGES = (Section("#/tutorbench", "TutorBench's tables", "tutorbench", variables, {"level": level_label}),)
