"""MRBench's own tables beside what the released data give: Tables 3, 5 to 9, and the BEA 2025 protocol.

The printed tables cannot all be had from the released data. Where that is so, the cell says why.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from maieutic.benchmarks.mrbench.figures import (
    mean_rows,
    measure_chart,
    measure_rows,
    shown_set,
    spider,
    verdicts_on_sets,
)
from maieutic.benchmarks.mrbench.printed import BENCHMARK, CRITIC, CRITICS, TUTORS
from maieutic.benchmarks.mrbench.statistics import SUBSETS
from maieutic.config.models import JudgeModel
from maieutic.core import paths
from maieutic.core.records import Quantity, Score
from maieutic.datasets.mrbench import DESIRED
from maieutic.judges.rubrics import read_rubric
from maieutic.plan.plan import Plan
from maieutic.report.sections import Run, Section
from maieutic.report.tables import label_of, read_json, score_file
from maieutic.report.traffic_light import release_rubric
from maieutic.report.trust import called
from maieutic.scores.papers import PrintedRow, printed_rows
from maieutic.scores.printed import paper_name

DAMR_TABLES = {"all": 3, "bridge": 8, "mathdial": 9}
PRINTED_N = {"all": 192, "bridge": 60, "mathdial": 132}  # replies of a tutor, as printed; the novice has 60 of 192
FAR = 0.05  # a difference that a reader should see
STATISTICS = {
    "dialogues": "#Dialogues",
    "turns": "Avg. turns",
    "dialogue_length": "Avg. dialogue length",
    "llm_responses": "#LLM responses",
    "human_responses": "#Human responses",
    "responses": "#Total responses",
}
DOUBTS = {  # printed numbers that contradict other printed numbers
    ("#Human responses", "all"): "120 + 132 are 252",
    ("Avg. dialogue length", "all"): "lies above both parts; their weighted mean is 666.95",
    ("Avg. Llama-3.1-405B response length", "all"): "lies above both parts; their weighted mean is 205.97",
    ("Avg. Gemini response length", "all"): "the parts' weighted mean is 132.9",
}


def attainable(percent: float, n: int) -> bool:
    """Whether a share of n replies, rounded to two digits, can be this percentage."""
    nearest = round(percent * n / 100)
    return any(abs(round(100 * hits / n, 2) - percent) < 0.0051 for hits in (nearest - 1, nearest, nearest + 1))


def cell_notes(entry: PrintedRow, ours: float | None) -> list[str]:
    """Why a printed cell of Table 3, 8 or 9 is no target."""
    notes = []
    n = 60 if entry.row == "Novice" else PRINTED_N[entry.subset]
    if not attainable(entry.value, n):
        notes.append(f"no share of {n} replies is {entry.value:.2f} %")
    if entry.text:
        notes.append(f"printed under {entry.text}: the two headers are swapped, Table 3 shows it")
    if (entry.subset, entry.row, entry.metric) == ("all", "Expert", "Tutor_Tone"):
        notes.append("Tables 8 and 9 imply 12.19")
    if ours is not None and abs(ours - entry.value / 100) > FAR:
        notes.append(f"the released labels differ by {100 * ours - entry.value:+.1f} points")
    return notes


def damr_tables(
    release: str,
    people: list[Score],
    judged: dict[str, list[Score]],
    plan: Plan,
    dimensions: list[str],
    published: bool,
) -> list[dict[str, Any]]:
    """Tables 3, 8 and 9: the labels of people, the paper's values with notes, and each judge of the run."""
    printed = {
        (entry.row, entry.subset, entry.metric): entry
        for entry in printed_rows(BENCHMARK)
        if entry.table in {"3", "8", "9"}
    }
    tables = []
    for subset in SUBSETS:
        ours = cells_by_tutor(people, release, subset)
        rows: list[dict[str, Any]] = []
        for tutor in in_papers_order(ours):
            paper = [printed.get((TUTORS.get(tutor, ""), subset, dimension)) for dimension in dimensions]
            cells = [ours[tutor].get(dimension) for dimension in dimensions]
            rows.append({"who": TUTORS.get(tutor, tutor), "by": "people, released labels", "cells": cells})
            if published and any(paper):
                noted = [
                    None if entry is None else {"value": entry.value / 100, "notes": cell_notes(entry, value_of(cell))}
                    for entry, cell in zip(paper, cells, strict=True)
                ]
                rows.append({"who": "", "by": f"paper, Table {DAMR_TABLES[subset]}", "paper": noted})
            for judge, scores in judged.items():
                by_dimension = cells_by_tutor(scores, release, subset).get(tutor, {})
                if by_dimension:
                    sample = ", on a sample" if plan.label_limit(judge) else ""
                    by = f"{label_of(plan, judge)}, judge{sample}"
                    rows.append(
                        {"who": "", "by": by, "cells": [by_dimension.get(name) for name in dimensions], "judge": judge}
                    )
        if rows:
            tables.append({"subset": subset, "number": DAMR_TABLES[subset], "rows": rows})
    return tables


def value_of(score: Score | None) -> float | None:
    """A score's value."""
    return score.value if score else None


def cells_by_tutor(scores: list[Score], release: str, subset: str) -> dict[str, dict[str, Score]]:
    """DAMR by tutor and dimension."""
    by_tutor: dict[str, dict[str, Score]] = defaultdict(dict)
    for score in scores:
        if (score.metric, score.release, score.subset) == ("damr", release, subset):
            by_tutor[str(score.tutor)][str(score.criterion)] = score
    return by_tutor


SHOWN = {"ac": "aligned", "ac_paper": "the paper's coding", "spearman": "Spearman", "weighted_kappa": "weighted kappa"}


def correlation_tables(
    release: str, judged: dict[str, list[Score]], plan: Plan, dimensions: list[str], published: bool
) -> list[dict[str, Any]]:
    """Tables 5 and 6: AC of each judge by tutor and dimension, in both codings, beside the paper's critic."""
    printed = {(entry.table, entry.row, entry.metric): entry.value for entry in printed_rows(BENCHMARK)}
    tables = []
    for judge, scores in judged.items():
        as_in_paper = published and release_rubric(plan, judge, release) == CRITIC
        number = CRITICS.get(paper_name(plan.models[judge].paper, BENCHMARK) or "") if as_in_paper else None
        by_tutor: dict[str, dict[tuple[str, str], Score]] = defaultdict(dict)
        for score in scores:
            if score.metric in SHOWN and score.criterion and score.release == release and score.tutor:
                by_tutor[score.tutor][score.metric, score.criterion] = score
        rows = []
        for tutor in in_papers_order(by_tutor):
            by_metric = by_tutor[tutor]
            if all(score.value is None for score in by_metric.values()):
                continue
            n = max((score.n for score in by_metric.values()), default=0)
            lines = [
                {"what": word, "cells": [value_of(by_metric.get((kind, name))) for name in dimensions]}
                for kind, word in SHOWN.items()
            ]
            if number:
                lines.append(
                    {
                        "what": "paper",
                        "cells": [printed.get((str(number), TUTORS.get(tutor, ""), name)) for name in dimensions],
                    }
                )
            rows.append({"who": TUTORS.get(tutor, tutor), "n": n, "lines": lines})
        if by_tutor:
            tables.append({"name": judge, "label": label_of(plan, judge), "number": number, "rows": rows})
    return tables


def in_papers_order(tutors: Iterable[str]) -> list[str]:
    """Tutors as the paper's tables list them, others last."""
    return sorted(tutors, key=lambda name: [*TUTORS].index(name) if name in TUTORS else len(TUTORS))


def statistics_rows(statistics: dict[str, Any], published: bool) -> list[dict[str, Any]]:
    """Table 7: what the released file holds, beside what is printed."""
    printed = {
        (entry.row, entry.subset): entry.value for entry in printed_rows(BENCHMARK) if entry.table == "7" and published
    }
    rows = [
        {"label": label, "cells": [statistic(statistics, subset, key, label, printed) for subset in SUBSETS]}
        for key, label in STATISTICS.items()
    ]
    for tutor in in_papers_order(statistics["all"]["response_length"]):
        label = f"Avg. {TUTORS.get(tutor, tutor)} response length"
        cells = [
            {
                "ours": statistics[subset]["response_length"].get(tutor),
                "paper": printed.get((label, subset)),
                "doubt": DOUBTS.get((label, subset)) if published else None,
            }
            for subset in SUBSETS
        ]
        rows.append({"label": label, "cells": cells})
    return rows


def statistic(
    statistics: dict[str, Any], subset: str, key: str, label: str, printed: dict[tuple[str, str], float]
) -> dict[str, Any]:
    """One cell of Table 7."""
    return {
        "ours": statistics[subset][key],
        "paper": printed.get((label, subset)),
        "doubt": DOUBTS.get((label, subset)) if (label, subset) in printed else None,
    }


BEA = {
    "macro_f1": "exact_f1",
    "accuracy": "exact_acc",
    "lenient_macro_f1": "lenient_f1",
    "lenient_accuracy": "lenient_acc",
}
BEA_TRACKS = ("Mistake_Identification", "Mistake_Location", "Providing_Guidance", "Actionability")


def bea_rows(release: str, plan: Plan, results: Path, published: bool) -> list[dict[str, Any]]:
    """The BEA 2025 protocol: unreadable verdicts are wrong. The shared task's best team stands above the judges."""
    best: dict[str, dict[str, PrintedRow]] = defaultdict(dict)
    for entry in printed_rows(BENCHMARK) if published and release == "mrbench_v3" else []:
        if entry.table == "bea":
            best[entry.metric].setdefault(entry.subset, entry)
    rows: list[dict[str, Any]] = []
    for dimension in (*BEA_TRACKS, "tutor_identification"):
        if top := best.get(dimension):
            team = f"best team of the shared task ({top['exact_f1'].row}), on its test set"
            values = [top[name].value if name in top else None for name in BEA.values()]
            rows.append({"dimension": called(dimension), "by": team, "cells": values})
        for judge in plan.run.judges:
            scores = {
                score.quantity: score
                for score in score_file(paths.LABEL_VALIDATION.within(results, grader=judge))
                if score.scoring == "paper_compat"
            }
            cells = [scores.get(Quantity(measure, dimension, release=release)) for measure in BEA]
            if any(cells):
                name = called(dimension) if not best else ""
                named = {"dimension": name, "criterion": dimension, "name": judge}
                rows.append({**named, "by": label_of(plan, judge), "scores": cells})
    return rows


def mended(release: str, judged: dict[str, list[Score]], plan: Plan) -> list[dict[str, Any]]:
    """What half the labels would mend: how far each estimate is from what people say of the same replies."""
    rows = []
    for judge, scores in judged.items():
        cells = {(score.tutor, score.quantity): score.value for score in scores if score.release == release}
        errors: dict[str, list[float]] = defaultdict(list)
        for (tutor, quantity), value in cells.items():
            truth = cells.get((tutor, quantity._replace(metric="people_damr", subset="all")))
            by_judge, by_labels = (
                cells.get((tutor, quantity._replace(metric=f"ppi_half_{who}"))) for who in ("judge", "labels")
            )
            if quantity.metric != "ppi_half" or None in (value, truth, by_judge, by_labels):
                continue
            for name, guess in (("corrected", value), ("judge", by_judge), ("labels", by_labels)):
                errors[name].append(abs(float(guess or 0.0) - float(truth or 0.0)))
        if errors:
            means = {name: sum(values) / len(values) for name, values in errors.items()}
            rows.append({"name": judge, "label": label_of(plan, judge), "n": len(errors["judge"]), "errors": means})
    return rows


def earlier_schemes() -> dict[str, set[str]]:
    """Table 1: which of the dimensions earlier evaluations of tutors look at, scheme by scheme."""
    by_scheme: dict[str, set[str]] = {}
    for entry in printed_rows(BENCHMARK):
        if entry.table == "1":
            by_scheme.setdefault(entry.row, set()).update([entry.metric] if entry.value else [])
    return by_scheme


def printed_agreement() -> dict[str, float]:
    """How far the paper's annotators agree with each other, by measure (sections 4.2 and 5.2)."""
    return {entry.row: entry.value for entry in printed_rows(BENCHMARK) if entry.table == "agreement"}


def mrbench_section(plan: Plan, results: Path) -> list[dict[str, Any]]:
    """Everything that the page on labelled releases shows, release by release."""
    shown = []
    said = verdicts_on_sets(plan, results)
    judges = [name for name in plan.run.judges if isinstance(plan.models[name], JudgeModel)]
    for release in (name for name in plan.releases if name in plan.taxonomies):
        people = score_file(paths.LABEL_SCORES.within(results, release=release))
        statistics = read_json(paths.LABEL_STATISTICS.within(results, release=release))
        if not people or not statistics:
            continue
        judged = {name: score_file(paths.LABEL_VALIDATION.within(results, grader=name)) for name in judges}
        labelled = {score.criterion for score in people}
        dimensions = [name for name in DESIRED if name in labelled]
        published = release == "mrbench" and plan.edition == "published"
        by_judge = {label_of(plan, name): scores for name, scores in judged.items()}
        measures = measure_rows(people, by_judge, release, dimensions)
        shown.append(
            {
                "name": release,
                "title": plan.label_sets[release].title,
                "published": published,
                "kinds": {name: release_rubric(plan, name, release) for name in judges},
                "counts": statistics["all"],
                "damr": damr_tables(release, people, judged, plan, dimensions, published),
                "ac": correlation_tables(release, judged, plan, dimensions, published),
                "statistics": statistics_rows(statistics, published),
                "bea": bea_rows(release, plan, results, plan.edition == "published"),
                "mended": mended(release, judged, plan),
                "criteria": dimensions,
                "dimensions": [called(name) for name in dimensions],
                "means": mean_rows(
                    {"people": people} | by_judge,
                    release,
                    dimensions,
                    in_papers_order,
                ),
                "spider": spider(people, release, dimensions, in_papers_order),
                "measures": measures,
                "measure_chart": measure_chart(measures, dimensions),
                "explorer": shown_set(plan, results, release, said.get(release, {}), dimensions, in_papers_order),
            }
        )
    return shown


def variables(run: Run) -> dict[str, Any] | None:
    """What the page on labelled releases shows; None in a run without any."""
    releases = mrbench_section(run.plan, run.results)
    dimensions = read_rubric("mrbench_taxonomy").rubric.criteria
    shown = {"dimensions": dimensions, "schemes": earlier_schemes(), "agreement": printed_agreement()}
    return {"releases": releases, **shown} if releases else None


PAGES = (Section("#/labels", "Human labels", "labels", variables),)
