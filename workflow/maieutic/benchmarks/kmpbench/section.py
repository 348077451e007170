"""KMP-Bench's tables beside this run's numbers: Tables 1 to 6, Figure 5, and the study with people.

The paper's data are not released, so no number of ours is a repetition of a printed one. The page says on which data
each row rests.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from maieutic.benchmarks.kmpbench.items import PRINCIPLES
from maieutic.config.models import BaselineModel
from maieutic.core import paths
from maieutic.core.records import Item, Judgement, Reply, Score, read_records
from maieutic.judges.kinds.win_tie_lose import COMPARISONS
from maieutic.judges.questions import merged
from maieutic.judges.rubrics import read_rubric
from maieutic.plan.plan import Plan
from maieutic.report.sections import Run, Section
from maieutic.report.tables import items_of_task, label_of, leads, score_file
from maieutic.report.traffic_light import kinds_on
from maieutic.scores.papers import PrintedRow, printed_rows
from maieutic.validation.trust import PEOPLE

BENCHMARK = "kmpbench"
ERROR_TYPES, ERROR_TYPE = "kmp_error_types", "error_type"
DELTA = ("KMP-LM-7B", "Qwen2.5-Math-7B-Inst")  # the paper's last row: what its training gains
EXAMPLES = 2  # of each error type
RATES = ("alignment_rate", "overall_alignment")
LONGEST = 700  # characters of a reply that stands as an example


class Column(NamedTuple):
    """A column of a printed table: its metric there, and the task and metric of ours."""

    title: str
    printed: str
    task: str
    metric: str


class Table(NamedTuple):
    """A printed table. suffixes: of the tasks that stand for the same on public data."""

    number: str
    name: str
    columns: tuple[Column, ...]
    suffixes: tuple[str, ...] = ("",)


DIALOGUE = Table(
    "5",
    "KMP-Dialogue (Tables 1 and 5)",
    (
        Column("Overall judgement", "overall_judgement", "dialogue", "overall_judgement"),
        Column("General level", "general_level", "dialogue", "general_level"),
        *(Column(name.capitalize(), name, "dialogue", name) for name in PRINCIPLES),
        Column("Overall", "overall", "dialogue", "overall"),
    ),
)
SKILLS = Table(
    "6",
    "KMP-Skills (Tables 2 and 6)",
    (
        Column("FQA, last round", "final_round", "fqa", "final_round"),
        Column("EC, MR-Score", "mr_score", "ec", "mr_score"),
        Column("EC, F1", "f1", "ec", "f1"),
        Column("EC, correction", "correction", "ec", "correction"),
        Column("Gen, follow-up", "gen_followup", "gen_followup", "last_round"),
        Column("Gen, similar", "gen_similar", "gen_similar", "last_round"),
    ),
    ("", "_mathchat", "_stepverify", "_mrgsm8k", "_mrgsm8k_full", "_processbench"),
)
DETECTION = Table(
    "4",
    "Error detection in detail (Table 4)",
    (
        Column("Task 1, MCC", "task1_mcc", "ec", "task1_mcc"),
        Column("Task 2, first wrong step", "task2_step", "ec", "task2_step"),
        Column("Task 3, reason", "task3_reason", "ec", "task3_reason"),
        Column("MR-Score", "mr_score", "ec", "mr_score"),
    ),
    ("", "_stepverify", "_mrgsm8k", "_mrgsm8k_full", "_processbench"),
)
DATA = {
    "": "curated set",
    "_mathchat": "MathChat",
    "_stepverify": "StepVerify",
    "_mrgsm8k": "MR-GSM8K",
    "_mrgsm8k_full": "MR-GSM8K, all",
    "_processbench": "ProcessBench",
}


def paper_rows(table: Table, printed: Iterable[PrintedRow]) -> list[dict[str, Any]]:
    """The printed rows, and the gain of the paper's own model."""
    by_model: dict[str, dict[str, PrintedRow]] = defaultdict(dict)
    for entry in printed:
        if entry.table == table.number:
            by_model[entry.row][entry.metric] = entry
    rows: list[dict[str, Any]] = []
    for model, by_metric in by_model.items():
        cells = [by_metric[column.printed].value if column.printed in by_metric else None for column in table.columns]
        rows.append({"who": model, "group": next(iter(by_metric.values())).group, "cells": cells})
    by_name = {row["who"]: row["cells"] for row in rows}
    if all(name in by_name for name in DELTA):
        pairs = zip(by_name[DELTA[0]], by_name[DELTA[1]], strict=True)
        gains = [None if None in (ours, base) else ours - base for ours, base in pairs]
        rows.append({"who": f"{DELTA[0]} minus {DELTA[1]}", "group": "gain", "cells": gains})
    return rows


def our_rows(plan: Plan, table: Table, scores: Sequence[Score]) -> list[dict[str, Any]]:
    """Every tutor's numbers, a row for each set of data."""
    by_metric = {
        (score.tutor, score.task, score.metric): score
        for score in scores
        if score.scoring == "robust" and leads(plan, score)
    }
    rows = []
    for suffix in table.suffixes:
        for model in plan.tutors:
            cells = [by_metric.get((model, f"{column.task}{suffix}", column.metric)) for column in table.columns]
            baseline = isinstance(plan.models[model], BaselineModel)
            if not any(cells):
                continue
            rows.append({"who": label_of(plan, model), "data": DATA[suffix], "baseline": baseline, "cells": cells})
    return rows


def alignment_rows(plan: Plan, results: Path, printed: Iterable[PrintedRow]) -> list[dict[str, Any]]:
    """Table 3: the paper's, then each judge of the run against the labels that people gave."""
    columns = ("general_level", "principle_level", "overall", "alignment_rate")
    by_row: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    for entry in printed:
        if entry.table == "3":
            by_row[entry.row, entry.group][entry.metric] = entry.value
    rows: list[dict[str, Any]] = [
        {"who": model, "by": by, "paper": [*(values.get(name) for name in columns), None]}
        for (model, by), values in by_row.items()
    ]
    for judge in plan.judges_of_replies if plan.run.human_labels else []:
        scores = score_file(paths.ALIGNMENT.within(results, judge=judge))
        by_metric = {(score.tutor, score.metric, score.by): score for score in scores}
        for tutor in dict.fromkeys(model for model, metric, _ in by_metric if metric in RATES):
            for by, shown in ((judge, label_of(plan, judge)), (PEOPLE, "people")):
                cells = [by_metric.get((tutor, name, by)) for name in columns[:-1]]
                rates = [by_metric.get((tutor, name, by)) if by == judge else None for name in RATES]
                who = label_of(plan, tutor) if tutor in plan.models else tutor
                rows.append({"who": who, "by": shown, "cells": [*cells, *rates]})
    return rows


def error_section(plan: Plan, results: Path, printed: Iterable[PrintedRow]) -> dict[str, Any] | None:
    """Figure 5: why responses lose, by the first judge; shares of each tutor's lost ones, and examples."""
    if not plan.compared_benchmarks():
        return None
    types = read_rubric(ERROR_TYPES).rubric.criteria[ERROR_TYPE].labels
    paper = {entry.metric: entry.value for entry in printed if entry.table == "figure 5"}
    counts: dict[str, Counter[str]] = {}
    lost: dict[str, int] = {}
    examples: dict[str, list[dict[str, Any]]] = defaultdict(list)
    items = compared_items(plan, results)
    for tutor, judged in error_judgements(plan, results).items():
        kinds = {
            (judgement.task, judgement.id): str(merged([judgement], False)[ERROR_TYPE][0].value) for judgement in judged
        }
        counts[tutor] = Counter(value for value in kinds.values() if value in types)
        lost[tutor] = len(kinds)
        if not isinstance(plan.models[tutor], BaselineModel):
            for kind, example in examples_of(plan, results, tutor, kinds, items):
                if len(examples[kind]) < EXAMPLES:
                    examples[kind].append(example)
    rows = [
        {
            "type": kind,
            "paper": paper.get(kind),
            "cells": [tally[kind] / tally.total() if tally.total() else None for tally in counts.values()],
        }
        for kind in types
    ]
    tutors = [
        {"label": label_of(plan, tutor), "read": tally.total(), "lost": lost[tutor]} for tutor, tally in counts.items()
    ]
    judge = comparing(plan)
    shown = {"rows": rows, "tutors": tutors, "examples": dict(examples), "types": types}
    return {**shown, "judge": judge, "kind": ERROR_TYPES}


def comparing(plan: Plan) -> str:
    """The first judge that compares replies with the reference."""
    return next(name for name in plan.judges_of_replies if plan.compared_benchmarks(name))


def error_judgements(plan: Plan, results: Path) -> dict[str, list[Judgement]]:
    """What the first judge says of each tutor's lost responses; tutors without any are left out."""
    judge = comparing(plan)
    by_tutor: dict[str, list[Judgement]] = defaultdict(list)
    for benchmark in plan.compared_benchmarks():
        for batch in plan.judge_batches(benchmark):
            path = paths.VERDICTS.within(results, judge=judge, benchmark=benchmark, batch=batch)
            for judgement in read_records(path, Judgement) if path.exists() else []:
                if judgement.rubric == ERROR_TYPES and judgement.tutor is not None:
                    by_tutor[judgement.tutor].append(judgement)
    order = [name for name in plan.tutors if name in by_tutor]
    return {name: by_tutor[name] for name in order}


def compared_items(plan: Plan, results: Path) -> dict[tuple[str, str], Item]:
    """The items whose replies are compared with a reference."""
    return {
        (item.task, item.id): item
        for benchmark in plan.compared_benchmarks()
        for loaded in plan.benchmarks[benchmark]
        if COMPARISONS in loaded.card.rubrics
        for item in items_of_task(results, benchmark, loaded.card.task)
    }


def examples_of(
    plan: Plan,
    results: Path,
    tutor: str,
    kinds: Mapping[tuple[str, str], str],
    items: Mapping[tuple[str, str], Item],
) -> Iterable[tuple[str, dict[str, Any]]]:
    """Lost responses with their error type, beside the reference."""
    for benchmark in plan.compared_benchmarks():
        for reply in read_records(paths.REPLIES.within(results, benchmark=benchmark, tutor=tutor), Reply):
            kind, item = kinds.get((reply.task, reply.id)), items.get((reply.task, reply.id))
            if kind and item:
                yield (
                    kind,
                    {
                        "id": item.id,
                        "tutor": label_of(plan, tutor),
                        "principles": item.tags.get("principles", ""),
                        "student": cut(item.vars["question"]),
                        "reply": cut(reply.text),
                        "reference": cut(str(item.reference["text"])),
                    },
                )


def cut(text: str) -> str:
    """A text of a length that a table can hold."""
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} [...]"


def kmpbench_section(plan: Plan, results: Path, scores: Sequence[Score]) -> dict[str, Any] | None:
    """Everything that the page on KMP-Bench shows; None for a run without it."""
    if BENCHMARK not in plan.benchmarks:
        return None
    printed, cards = printed_rows(BENCHMARK), plan.benchmarks[BENCHMARK]
    tables = [
        {
            "name": table.name,
            "columns": [column.title for column in table.columns],
            "ours": our_rows(plan, table, scores),
            "paper": paper_rows(table, printed),
        }
        for table in (DIALOGUE, SKILLS, DETECTION)
    ]
    return {
        "tables": tables,
        "alignment": alignment_rows(plan, results, printed),
        "people": bool(plan.run.human_labels),
        "judges": kinds_on(plan, [loaded.card for loaded in cards], lambda card: plan.judges_of_card(card)[:1]),
        "errors": error_section(plan, results, printed),
    }


def variables(run: Run) -> dict[str, Any] | None:
    """What the page shows."""
    made = kmpbench_section(run.plan, run.results, run.scores.get(BENCHMARK, []))
    return {"kmpbench": made} if made else None


PAGES = (Section("#/kmpbench", "KMP-Bench's tables", "kmpbench", variables),)
