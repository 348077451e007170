"""Report page that shows KMP-Bench's tables beside this run's numbers: Tables 1 to 6, Figure 5, and the human study.

The paper's data are not released, so this run's numbers do not reproduce the paper's numbers. Each row of the page
names its data set.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from maieutic.benchmarks.kmpbench.alignment import COMPARISON_RUBRIC
from maieutic.benchmarks.kmpbench.items import PRINCIPLES
from maieutic.benchmarks.kmpbench.printed import GAIN
from maieutic.benchmarks.kmpbench.stage import compared_benchmarks
from maieutic.config.models import BaselineModel
from maieutic.config.rubrics import read_rubric
from maieutic.core import paths
from maieutic.core.records import Item, Judgement, Reply, Score, read_records
from maieutic.judges.questions import verdicts_by_criterion
from maieutic.plan.plan import Plan
from maieutic.report.sections import ReportInput, Section
from maieutic.report.tables import display_label, is_leading, items_of_task, score_file
from maieutic.report.traffic_light import kinds_on
from maieutic.scores.papers import PrintedRow, printed_rows
from maieutic.validation.trust import PEOPLE

BENCHMARK = "kmpbench"
ERROR_TYPES, ERROR_TYPE = "kmp_error_types", "error_type"
GAIN_MODELS = ("KMP-LM-7B", "Qwen2.5-Math-7B-Inst")  # the gain is the first model's value minus the second's
EXAMPLES_PER_TYPE = 2  # maximum number of examples of each error type
RATES = ("alignment_rate", "overall_alignment")
EXAMPLE_CHARACTERS = 700  # texts in examples are cut to this many characters


class PrintedColumn(NamedTuple):
    """A column of a table in the paper. printed: metric of the paper; task, metric: task and metric of this project."""

    title: str
    printed: str
    task: str
    metric: str


class PrintedTable(NamedTuple):
    """A table in the paper. suffixes: for each data set of this project, the suffix of its task names (key of DATA)."""

    number: str
    name: str
    columns: tuple[PrintedColumn, ...]
    suffixes: tuple[str, ...] = ("",)


DIALOGUE = PrintedTable(
    "5",
    "KMP-Dialogue (Tables 1 and 5)",
    (
        PrintedColumn("Overall judgement", "overall_judgement", "dialogue", "overall_judgement"),
        PrintedColumn("General level", "general_level", "dialogue", "general_level"),
        *(PrintedColumn(name.capitalize(), name, "dialogue", name) for name in PRINCIPLES),
        PrintedColumn("Overall", "overall", "dialogue", "overall"),
    ),
)
SKILLS = PrintedTable(
    "6",
    "KMP-Skills (Tables 2 and 6)",
    (
        PrintedColumn("FQA, last round", "final_round", "fqa", "final_round"),
        PrintedColumn("EC, MR-Score", "mr_score", "ec", "mr_score"),
        PrintedColumn("EC, F1", "f1", "ec", "f1"),
        PrintedColumn("EC, correction", "correction", "ec", "correction"),
        PrintedColumn("Gen, follow-up", "gen_followup", "gen_followup", "last_round"),
        PrintedColumn("Gen, similar", "gen_similar", "gen_similar", "last_round"),
    ),
    ("", "_mathchat", "_stepverify", "_mrgsm8k", "_mrgsm8k_full", "_processbench"),
)
DETECTION = PrintedTable(
    "4",
    "Error detection in detail (Table 4)",
    (
        PrintedColumn("Task 1, MCC", "task1_mcc", "ec", "task1_mcc"),
        PrintedColumn("Task 2, first wrong step", "task2_step", "ec", "task2_step"),
        PrintedColumn("Task 3, reason", "task3_reason", "ec", "task3_reason"),
        PrintedColumn("MR-Score", "mr_score", "ec", "mr_score"),
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


def paper_rows(table: PrintedTable, printed: Iterable[PrintedRow]) -> list[dict[str, Any]]:
    """Return the paper's rows of a table, and a last row with the gain of the paper's model from its training."""
    by_model: dict[str, dict[str, PrintedRow]] = defaultdict(dict)
    for entry in printed:
        if entry.table == table.number and entry.group != GAIN:
            by_model[entry.row][entry.metric] = entry
    rows: list[dict[str, Any]] = []
    for model, by_metric in by_model.items():
        cells = [by_metric[column.printed].value if column.printed in by_metric else None for column in table.columns]
        rows.append({"who": model, "group": next(iter(by_metric.values())).group, "cells": cells})
    by_name = {row["who"]: row["cells"] for row in rows}
    if all(name in by_name for name in GAIN_MODELS):
        pairs = zip(by_name[GAIN_MODELS[0]], by_name[GAIN_MODELS[1]], strict=True)
        gains = [None if None in (ours, base) else ours - base for ours, base in pairs]
        rows.append({"who": f"{GAIN_MODELS[0]} minus {GAIN_MODELS[1]}", "group": GAIN, "cells": gains})
    return rows


def our_rows(plan: Plan, table: PrintedTable, scores: Sequence[Score]) -> list[dict[str, Any]]:
    """Return this run's scores in the columns of a table: one row for each data set and tutor."""
    by_metric = {
        (score.tutor, score.task, score.metric): score
        for score in scores
        if score.scoring == "robust" and is_leading(plan, score)
    }
    rows = []
    for suffix in table.suffixes:
        for model in plan.tutors:
            cells = [by_metric.get((model, f"{column.task}{suffix}", column.metric)) for column in table.columns]
            baseline = isinstance(plan.models[model], BaselineModel)
            if not any(cells):
                continue
            rows.append({"who": display_label(plan, model), "data": DATA[suffix], "baseline": baseline, "cells": cells})
    return rows


def alignment_rows(plan: Plan, results: Path, printed: Iterable[PrintedRow]) -> list[dict[str, Any]]:
    """Return the rows of Table 3: the paper's, then those that compare each judge of the run with people's labels."""
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
            for by, by_label in ((judge, display_label(plan, judge)), (PEOPLE, "people")):
                cells = [by_metric.get((tutor, name, by)) for name in columns[:-1]]
                rates = [by_metric.get((tutor, name, by)) if by == judge else None for name in RATES]
                who = display_label(plan, tutor) if tutor in plan.models else tutor
                rows.append({"who": who, "by": by_label, "cells": [*cells, *rates]})
    return rows


def error_section(plan: Plan, results: Path, printed: Iterable[PrintedRow]) -> dict[str, Any] | None:
    """Return the data for Figure 5: error types of each tutor's replies that lost to the reference, with examples.

    The error types are assigned by the first judge that compares replies with the reference.
    """
    if not compared_benchmarks(plan):
        return None
    types = read_rubric(ERROR_TYPES).rubric.criteria[ERROR_TYPE].labels
    paper = {entry.metric: entry.value for entry in printed if entry.table == "figure 5"}
    counts: dict[str, Counter[str]] = {}
    lost: dict[str, int] = {}
    examples: dict[str, list[dict[str, Any]]] = defaultdict(list)
    items = compared_items(plan, results)
    for tutor, judged in error_judgements(plan, results).items():
        kinds = {
            (judgement.task, judgement.id): str(verdicts_by_criterion([judgement], False)[ERROR_TYPE][0].value)
            for judgement in judged
        }
        counts[tutor] = Counter(value for value in kinds.values() if value in types)
        lost[tutor] = len(kinds)
        if not isinstance(plan.models[tutor], BaselineModel):
            for kind, example in lost_replies(plan, results, tutor, kinds, items):
                if len(examples[kind]) < EXAMPLES_PER_TYPE:
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
        {"label": display_label(plan, tutor), "read": tally.total(), "lost": lost[tutor]}
        for tutor, tally in counts.items()
    ]
    return {
        "rows": rows,
        "tutors": tutors,
        "examples": dict(examples),
        "types": types,
        "judge": comparing_judge(plan),
        "kind": ERROR_TYPES,
    }


def comparing_judge(plan: Plan) -> str:
    """Return the first judge that compares replies with the reference."""
    return next(name for name in plan.judges_of_replies if compared_benchmarks(plan, name))


def error_judgements(plan: Plan, results: Path) -> dict[str, list[Judgement]]:
    """Return, by tutor, the judgements on error types in replies that lost to the reference.

    The judgements are by the first judge that compares replies with the reference. Tutors without a lost reply are left
    out.
    """
    judge = comparing_judge(plan)
    by_tutor: dict[str, list[Judgement]] = defaultdict(list)
    for benchmark in compared_benchmarks(plan):
        for batch in plan.judge_batches(benchmark):
            path = paths.VERDICTS.within(results, judge=judge, benchmark=benchmark, batch=batch)
            for judgement in read_records(path, Judgement) if path.exists() else []:
                if judgement.rubric == ERROR_TYPES and judgement.tutor is not None:
                    by_tutor[judgement.tutor].append(judgement)
    order = [name for name in plan.tutors if name in by_tutor]
    return {name: by_tutor[name] for name in order}


def compared_items(plan: Plan, results: Path) -> dict[tuple[str, str], Item]:
    """Return the items whose replies are compared with a reference, by task and id."""
    return {
        (item.task, item.id): item
        for benchmark in compared_benchmarks(plan)
        for loaded in plan.benchmarks[benchmark]
        if COMPARISON_RUBRIC in loaded.card.rubrics
        for item in items_of_task(results, benchmark, loaded.card.task)
    }


def lost_replies(
    plan: Plan,
    results: Path,
    tutor: str,
    kinds: Mapping[tuple[str, str], str],
    items: Mapping[tuple[str, str], Item],
) -> Iterable[tuple[str, dict[str, Any]]]:
    """Yield the error type of each reply that lost to the reference, and an example with the texts of both.

    kinds: error types by task and item id; items: items by task and id.
    """
    for benchmark in compared_benchmarks(plan):
        for reply in read_records(paths.REPLIES.within(results, benchmark=benchmark, tutor=tutor), Reply):
            kind, item = kinds.get((reply.task, reply.id)), items.get((reply.task, reply.id))
            if kind and item:
                yield (
                    kind,
                    {
                        "id": item.id,
                        "tutor": display_label(plan, tutor),
                        "principles": item.tags.get("principles", ""),
                        "student": shorten_example(item.vars["question"]),
                        "reply": shorten_example(reply.text),
                        "reference": shorten_example(str(item.reference["text"])),
                    },
                )


def shorten_example(text: str) -> str:
    """Return the text of an example, cut to EXAMPLE_CHARACTERS characters."""
    return text if len(text) <= EXAMPLE_CHARACTERS else f"{text[:EXAMPLE_CHARACTERS]} [...]"


def kmpbench_section(plan: Plan, results: Path, scores: Sequence[Score]) -> dict[str, Any] | None:
    """Return the variables of KMP-Bench's page, or None for a run without the benchmark."""
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


def variables(run: ReportInput) -> dict[str, Any] | None:
    """Return the variables of KMP-Bench's page template, or None if the page is left out."""
    section = kmpbench_section(run.plan, run.results, run.scores.get(BENCHMARK, []))
    return {"kmpbench": section} if section else None


PAGES = (Section("#/kmpbench", "KMP-Bench's tables", "kmpbench", variables),)
