"""Report page with MRBench's Tables 3 and 5 to 9 beside the same values of the released data, and BEA 2025 scores.

Some of the paper's values cannot be reproduced from the released data. A note in the cell then states the reason.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pandas as pd

from maieutic.benchmarks.mrbench.printed import BENCHMARK, CRITIC_RUBRIC, CRITIC_TABLES, PAPER_TUTORS
from maieutic.benchmarks.mrbench.releases import HUMANS, SUBSETS
from maieutic.config.models import JudgeModel
from maieutic.config.rubrics import read_rubric
from maieutic.core import paths
from maieutic.core.records import Judgement, Quantity, Score, read_records
from maieutic.datasets.labelled_sets import LabelledData, read_labelled_data
from maieutic.datasets.mrbench import DESIRED_LABELS
from maieutic.plan.plan import Plan
from maieutic.report.figures import levels_chart, radar_chart, stacked_chart
from maieutic.report.sections import ReportInput, Section
from maieutic.report.tables import display_label, read_json, score_file
from maieutic.report.traffic_light import release_rubric
from maieutic.report.trust import criterion_title
from maieutic.scores.papers import PrintedRow, printed_rows
from maieutic.scores.printed import paper_name
from maieutic.validation.surface_measures import (
    CORRELATION,
    MEAN_LABEL,
    SURFACE_MEASURES,
    bin_by_measure,
    measure_replies,
)
from maieutic.validation.trust import LabelsByReply, verdict_labels

TutorOrder = Callable[[Any], list[str]]  # function that sorts tutors as in the paper's tables


def verdicts_by_release(plan: Plan, results: Path) -> dict[str, dict[str, LabelsByReply]]:
    """Return the verdicts on the labelled sets, by name of the set and display label of the judge."""
    by_release: dict[str, dict[str, LabelsByReply]] = defaultdict(dict)
    for name in plan.run.judges:
        path = paths.LABELLED_VERDICTS.within(results, judge=name)
        by_set: dict[str, list[Judgement]] = defaultdict(list)
        for judgement in read_records(path, Judgement) if path.exists() else ():
            by_set[judgement.task].append(judgement)
        for release, judgements in by_set.items():
            by_release[release][display_label(plan, name)] = verdict_labels(judgements)
    return by_release


def labelled_set_views(
    results: Path,
    release: str,
    by_judge: Mapping[str, LabelsByReply],
    dimensions: Sequence[str],
) -> dict[str, Any] | None:
    """Return the page's charts and tables for one labelled set, or None if the set's files were deleted.

    by_judge: each judge's verdicts on the set.
    """
    folder = paths.LABELS.within(results, release=release).parent
    if not paths.LABELS.within(results, release=release).exists():
        return None
    labels = read_labelled_data(folder)
    return {
        "distributions": stacked_chart(
            label_shares(labels, by_judge, dimensions), "share of labels", shares=True, facet="dimension"
        ),
        "fifths": first_label_by_fifth(labels, dimensions),
    }


PLACES = ("first label", "second", "third", "fourth")  # on the scale of a dimension


def label_shares(
    labels: LabelledData, by_judge: Mapping[str, LabelsByReply], dimensions: Sequence[str]
) -> pd.DataFrame:
    """Return the share of each label in each dimension, among people's labels and among each judge's.

    The columns are dimension, level (`people` or the judge), part (position of the label on its scale) and count (the
    share).
    """
    rows = []
    for name in dimensions:
        scale = labels.scales[name].labels
        people = Counter(label.label for label in labels.labels if label.criterion == name)
        counters = {"people": people} | {
            judge: Counter(str(value) for key, value in verdicts.items() if key[2] == name and value is not None)
            for judge, verdicts in by_judge.items()
        }
        for who, counts in counters.items():
            for label, place in zip_longest(scale, PLACES[: len(scale)], fillvalue="further"):
                share = counts[label] / max(1, counts.total())
                rows.append({"dimension": criterion_title(name), "level": who, "part": place, "count": share})
    return pd.DataFrame(rows, columns=["dimension", "level", "part", "count"])


def first_label_by_fifth(labels: LabelledData, dimensions: Sequence[str]) -> list[dict[str, Any]]:
    """Return a table for each surface measure, with one row per dimension.

    The measure divides the replies into fifths. For each fifth, a row contains the share of the replies to which people
    gave the first label of the scale.
    """
    tables = []
    for measure, count in SURFACE_MEASURES.items():
        values = measure_replies(count, labels)
        rows = []
        for name in dimensions:
            named = [label for label in labels.labels if label.criterion == name]
            first = [label.label == labels.scales[name].labels[0] for label in named]
            parts = bin_by_measure([values[label.id, label.tutor] for label in named], first)
            rows.append({"dimension": criterion_title(name), "parts": parts})
        tables.append({"measure": measure, "rows": rows})
    return tables


def mean_label_rows(
    scores: Mapping[str, Sequence[Score]], release: str, dimensions: Sequence[str], order: TutorOrder
) -> list[dict[str, Any]]:
    """Return each tutor's mean label in each dimension, from people and from each judge.

    scores: scores from people, then from each judge.
    """
    cells: dict[str, dict[str, dict[str, Score]]] = defaultdict(lambda: defaultdict(dict))
    for who, means in scores.items():
        for score in means:
            if (score.metric, score.release) == (MEAN_LABEL, release):
                cells[str(score.tutor)][who][str(score.criterion)] = score
    return [
        {"tutor": tutor if place == 0 else "", "by": who, "cells": [by_dimension.get(name) for name in dimensions]}
        for tutor in order(cells)
        for place, (who, by_dimension) in enumerate(cells[tutor].items())
    ]


def mean_label_radar(people: Sequence[Score], release: str, dimensions: Sequence[str], order: TutorOrder) -> str:
    """Return a radar chart of people's mean labels, with a ring per tutor; empty for fewer than three dimensions."""
    values: dict[str, dict[str, float]] = defaultdict(dict)
    for score in people:
        if (score.metric, score.release) == (MEAN_LABEL, release) and score.value is not None:
            values[str(score.tutor)][str(score.criterion)] = score.value
    if len(dimensions) < 3 or not values:
        return ""
    rings = {tutor: [values[tutor].get(name, 0.0) for name in dimensions] for tutor in order(values)}
    return radar_chart(rings, [criterion_title(name) for name in dimensions])


def correlation_rows(
    people: Sequence[Score], judged: Mapping[str, Sequence[Score]], release: str, dimensions: Sequence[str]
) -> list[dict[str, Any]]:
    """Return the Spearman correlations of surface measures, then of judges, with people's labels in each dimension."""
    cells: dict[str, dict[str, Score]] = defaultdict(dict)
    for score in people:
        if (score.metric, score.release) == (CORRELATION, release):
            cells[str(score.by)][str(score.criterion)] = score
    overall = ("spearman", release, "robust", None, None)
    for judge, scores in judged.items():
        for score in scores:
            if (score.metric, score.release, score.scoring, score.tutor, score.by) == overall:
                cells[judge][str(score.criterion)] = score
    return [
        {"what": what, "cells": [by_dimension.get(name) for name in dimensions]} for what, by_dimension in cells.items()
    ]


def correlation_chart(rows: Sequence[Mapping[str, Any]], dimensions: Sequence[str]) -> str:
    """Return a chart of correlations with their intervals, by dimension. rows: result of correlation_rows."""
    points = [
        {
            "level": criterion_title(name),
            "series": row["what"],
            "value": score.value,
            "low": score.low,
            "high": score.high,
        }
        for row in rows
        for name, score in zip(dimensions, row["cells"], strict=True)
        if score is not None and score.value is not None
    ]
    if not points:
        return ""
    names = list(dict.fromkeys(str(point["series"]) for point in points))
    return levels_chart(pd.DataFrame(points), "Spearman's correlation with people's labels", names)


DAMR_TABLES = {"all": 3, "bridge": 8, "mathdial": 9}
PRINTED_N = {"all": 192, "bridge": 60, "mathdial": 132}  # replies per tutor in the paper; the novice has 60 in total
NOTED_DIFFERENCE = 0.05  # larger differences between the paper and the released labels get a note
STATISTICS = {
    "dialogues": "#Dialogues",
    "turns": "Avg. turns",
    "dialogue_length": "Avg. dialogue length",
    "llm_responses": "#LLM responses",
    "human_responses": "#Human responses",
    "responses": "#Total responses",
}


def is_attainable(percent: float, n: int) -> bool:
    """Return True if a share of n replies can be this percentage, rounded to two digits."""
    nearest = round(percent * n / 100)
    return any(abs(round(100 * hits / n, 2) - percent) < 0.0051 for hits in (nearest - 1, nearest, nearest + 1))


def cell_notes(entry: PrintedRow, ours: float | None) -> list[str]:
    """Return notes on a doubtful cell of the paper's Table 3, 8 or 9. ours: the same rate in the released labels."""
    notes = []
    n = 60 if entry.row == "Novice" else PRINTED_N[entry.subset]
    if not is_attainable(entry.value, n):
        notes.append(f"no share of {n} replies is {entry.value:.2f} %")
    if entry.text:
        notes.append(f"printed under {entry.text}: these two headers are swapped, as a comparison with Table 3 shows")
    if entry.note:
        notes.append(entry.note)
    if ours is not None and abs(ours - entry.value / 100) > NOTED_DIFFERENCE:
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
    """Return Tables 3, 8 and 9: desired-label rates (DAMR) from people, from the paper with notes, and from each judge.

    published: True if the release is the one in the paper; the paper's rates are shown only then.
    """
    printed = {
        (entry.row, entry.subset, entry.metric): entry
        for entry in printed_rows(BENCHMARK)
        if entry.table in {"3", "8", "9"}
    }
    tables = []
    for subset in SUBSETS:
        ours = damr_by_tutor(people, release, subset)
        rows: list[dict[str, Any]] = []
        for tutor in in_papers_order(ours):
            paper = [printed.get((PAPER_TUTORS.get(tutor, ""), subset, dimension)) for dimension in dimensions]
            cells = [ours[tutor].get(dimension) for dimension in dimensions]
            rows.append({"who": PAPER_TUTORS.get(tutor, tutor), "by": "people, released labels", "cells": cells})
            if published and any(paper):
                noted = [
                    None
                    if entry is None
                    else {"value": entry.value / 100, "notes": cell_notes(entry, optional_value(cell))}
                    for entry, cell in zip(paper, cells, strict=True)
                ]
                rows.append({"who": "", "by": f"paper, Table {DAMR_TABLES[subset]}", "paper": noted})
            for judge, scores in judged.items():
                by_dimension = damr_by_tutor(scores, release, subset).get(tutor, {})
                if by_dimension:
                    sample = ", on a sample" if plan.label_limit(judge) else ""
                    by = f"{display_label(plan, judge)}, judge{sample}"
                    rows.append(
                        {"who": "", "by": by, "cells": [by_dimension.get(name) for name in dimensions], "judge": judge}
                    )
        if rows:
            tables.append({"subset": subset, "number": DAMR_TABLES[subset], "rows": rows})
    return tables


def optional_value(score: Score | None) -> float | None:
    """Return a score's value, or None without a score."""
    return score.value if score else None


def damr_by_tutor(scores: list[Score], release: str, subset: str) -> dict[str, dict[str, Score]]:
    """Return the desired-label rates (DAMR) of one subset, by tutor and dimension."""
    by_tutor: dict[str, dict[str, Score]] = defaultdict(dict)
    for score in scores:
        if (score.metric, score.release, score.subset) == ("damr", release, subset):
            by_tutor[str(score.tutor)][str(score.criterion)] = score
    return by_tutor


CORRELATION_TITLES = {
    "ac": "aligned",
    "ac_paper": "the paper's coding",
    "spearman": "Spearman",
    "weighted_kappa": "weighted kappa",
}


def correlation_tables(
    release: str, judged: dict[str, list[Score]], plan: Plan, dimensions: list[str], published: bool
) -> list[dict[str, Any]]:
    """Return Tables 5 and 6: each judge's correlation with people (AC), and that of the paper's critic.

    AC is computed by tutor and dimension, with an aligned coding of the labels and with the paper's coding.
    published: True if the release is the one in the paper; the paper's critic is shown only then.
    """
    printed = {(entry.table, entry.row, entry.metric): entry.value for entry in printed_rows(BENCHMARK)}
    tables = []
    for judge, scores in judged.items():
        as_in_paper = published and release_rubric(plan, judge, release) == CRITIC_RUBRIC
        number = CRITIC_TABLES.get(paper_name(plan.models[judge].paper, BENCHMARK) or "") if as_in_paper else None
        by_tutor: dict[str, dict[tuple[str, str], Score]] = defaultdict(dict)
        for score in scores:
            if score.metric in CORRELATION_TITLES and score.criterion and score.release == release and score.tutor:
                by_tutor[score.tutor][score.metric, score.criterion] = score
        rows = []
        for tutor in in_papers_order(by_tutor):
            by_metric = by_tutor[tutor]
            if all(score.value is None for score in by_metric.values()):
                continue
            n = max((score.n for score in by_metric.values()), default=0)
            lines = [
                {"what": word, "cells": [optional_value(by_metric.get((kind, name))) for name in dimensions]}
                for kind, word in CORRELATION_TITLES.items()
            ]
            if number:
                lines.append(
                    {
                        "what": "paper",
                        "cells": [printed.get((str(number), PAPER_TUTORS.get(tutor, ""), name)) for name in dimensions],
                    }
                )
            rows.append({"who": PAPER_TUTORS.get(tutor, tutor), "n": n, "lines": lines})
        if by_tutor:
            tables.append({"name": judge, "label": display_label(plan, judge), "number": number, "rows": rows})
    return tables


def in_papers_order(tutors: Iterable[str]) -> list[str]:
    """Return tutors in the order of the paper's tables, then all other tutors."""
    return sorted(tutors, key=lambda name: [*PAPER_TUTORS].index(name) if name in PAPER_TUTORS else len(PAPER_TUTORS))


def table_7_values(statistics: dict[str, Any]) -> dict[tuple[str, str], float | None]:
    """Return the values of Table 7 for a release, by row and subset, in the order of the paper's rows."""
    lengths = {subset: statistics[subset]["response_length"] for subset in SUBSETS}
    values = {(label, subset): statistics[subset][key] for key, label in STATISTICS.items() for subset in SUBSETS}
    for tutor in in_papers_order(lengths["all"]):
        label = f"Avg. {PAPER_TUTORS.get(tutor, tutor)} response length"
        values |= {(label, subset): lengths[subset].get(tutor) for subset in SUBSETS}
    if not any(name in PAPER_TUTORS for name in lengths["all"]):
        return values  # the release does not name its tutors
    for subset in SUBSETS:
        people = sum(name in HUMANS for name in lengths[subset])
        values["#Humans as tutors", subset] = people
        values["#LLMs as tutors", subset] = len(lengths[subset]) - people
    return values


def statistics_rows(statistics: dict[str, Any], published: bool) -> list[dict[str, Any]]:
    """Return the rows of Table 7: counts in the released file beside the counts in the paper.

    published: True if the release is the one in the paper; the paper's counts are shown only then.
    """
    printed = {
        (entry.row, entry.subset): entry for entry in printed_rows(BENCHMARK) if entry.table == "7" and published
    }
    values = table_7_values(statistics)
    return [
        {
            "label": label,
            "cells": [
                {
                    "ours": values[label, subset],
                    "paper": entry.value if (entry := printed.get((label, subset))) else None,
                    "doubt": entry.note if entry else "",
                }
                for subset in SUBSETS
            ],
        }
        for label in dict.fromkeys(label for label, _ in values)
    ]


BEA_PRINTED = {
    "macro_f1": "exact_f1",
    "accuracy": "exact_acc",
    "lenient_macro_f1": "lenient_f1",
    "lenient_accuracy": "lenient_acc",
}
BEA_TRACKS = ("Mistake_Identification", "Mistake_Location", "Providing_Guidance", "Actionability")


def bea_rows(release: str, plan: Plan, results: Path, published: bool) -> list[dict[str, Any]]:
    """Return scores by the BEA 2025 protocol: the best team's, then each judge's. Missing verdicts count as wrong."""
    best: dict[str, dict[str, PrintedRow]] = defaultdict(dict)
    for entry in printed_rows(BENCHMARK) if published and release == "mrbench_v3" else []:
        if entry.table == "bea":
            best[entry.metric].setdefault(entry.subset, entry)
    rows: list[dict[str, Any]] = []
    for dimension in (*BEA_TRACKS, "tutor_identification"):
        if top := best.get(dimension):
            team = f"best team of the shared task ({top['exact_f1'].row}), on its test set"
            values = [top[name].value if name in top else None for name in BEA_PRINTED.values()]
            rows.append({"dimension": criterion_title(dimension), "by": team, "cells": values})
        for judge in plan.run.judges:
            scores = {
                score.quantity: score
                for score in score_file(paths.LABEL_VALIDATION.within(results, grader=judge))
                if score.scoring == "paper_compat"
            }
            cells = [scores.get(Quantity(measure, dimension, release=release)) for measure in BEA_PRINTED]
            if any(cells):
                name = criterion_title(dimension) if not best else ""
                named = {"dimension": name, "criterion": dimension, "name": judge}
                rows.append({**named, "by": display_label(plan, judge), "scores": cells})
    return rows


def correction_errors(release: str, judged: dict[str, list[Score]], plan: Plan) -> list[dict[str, Any]]:
    """Return, for each judge, the mean absolute error of three estimates of the tutors' desired-label rates.

    The estimates are the judge's rate corrected with half of the labels, the judge's rate alone, and the rate in that
    half of the labels."""
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
            rows.append(
                {"name": judge, "label": display_label(plan, judge), "n": len(errors["judge"]), "errors": means}
            )
    return rows


def earlier_schemes() -> dict[str, set[str]]:
    """Return the dimensions that each earlier evaluation scheme covers (Table 1)."""
    by_scheme: dict[str, set[str]] = {}
    for entry in printed_rows(BENCHMARK):
        if entry.table == "1":
            by_scheme.setdefault(entry.row, set()).update([entry.metric] if entry.value else [])
    return by_scheme


def printed_agreement() -> dict[str, float]:
    """Return the agreement of the paper's annotators with each other, by measure (sections 4.2 and 5.2)."""
    return {entry.row: entry.value for entry in printed_rows(BENCHMARK) if entry.table == "agreement"}


def release_sections(plan: Plan, results: Path) -> list[dict[str, Any]]:
    """Return the variables of the page on labelled releases, one entry per release."""
    sections = []
    verdicts = verdicts_by_release(plan, results)
    judges = [name for name in plan.run.judges if isinstance(plan.models[name], JudgeModel)]
    for release in (name for name in plan.releases if name in plan.taxonomy_releases):
        people = score_file(paths.LABEL_SCORES.within(results, release=release))
        statistics = read_json(paths.LABEL_STATISTICS.within(results, release=release))
        if not people or not statistics:
            continue
        judged = {name: score_file(paths.LABEL_VALIDATION.within(results, grader=name)) for name in judges}
        labelled = {score.criterion for score in people}
        dimensions = [name for name in DESIRED_LABELS if name in labelled]
        published = release == "mrbench" and plan.edition == "published"
        by_judge = {display_label(plan, name): scores for name, scores in judged.items()}
        measures = correlation_rows(people, by_judge, release, dimensions)
        sections.append(
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
                "mended": correction_errors(release, judged, plan),
                "criteria": dimensions,
                "dimensions": [criterion_title(name) for name in dimensions],
                "means": mean_label_rows(
                    {"people": people} | by_judge,
                    release,
                    dimensions,
                    in_papers_order,
                ),
                "spider": mean_label_radar(people, release, dimensions, in_papers_order),
                "measures": measures,
                "measure_chart": correlation_chart(measures, dimensions),
                "explorer": labelled_set_views(results, release, verdicts.get(release, {}), dimensions),
            }
        )
    return sections


def labels_page(run: ReportInput) -> dict[str, Any] | None:
    """Return the variables of the page on labelled releases, or None if the run has no labelled release."""
    releases = release_sections(run.plan, run.results)
    dimensions = read_rubric("mrbench_taxonomy").rubric.criteria
    tables = {"dimensions": dimensions, "schemes": earlier_schemes(), "agreement": printed_agreement()}
    return {"releases": releases, **tables} if releases else None


PAGES = (Section("#/labels", "Human labels", "labels", labels_page),)
