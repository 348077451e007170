"""The trust page: the agreement of every grader of the run with people, summarised as a traffic light."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pandas as pd

from maieutic.config.models import CriteriaModel, JudgeModel, Model, RewardModel
from maieutic.config.rubrics import LoadedRubric, read_rubric, rubric_path
from maieutic.core import paths
from maieutic.core.extensions import listed_name
from maieutic.core.records import Difference, Judgement, Quantity, Scale, Score, read_records
from maieutic.judges.probes import PROBES
from maieutic.judges.stage import used_probes
from maieutic.plan.plan import Plan
from maieutic.report.browser import Browsed, Cell
from maieutic.report.figures import GREY, levels_chart
from maieutic.report.sections import ReportInput
from maieutic.report.tables import (
    TokenCounts,
    cost,
    display_label,
    distinct_judgements,
    leading_judge,
    read_json,
    score_file,
    token_counts,
)
from maieutic.report.traffic_light import (
    AMBER,
    FEWEST_FOR_COLOUR,
    GREEN,
    PAIRS,
    Light,
    LightOf,
    Measured,
    all_graders,
    criteria_of_kind,
    kappa_score,
    kinds_of_grader,
    measured_of,
    people_kappa,
    release_of,
    verdict_kind_title,
)
from maieutic.validation.corrected_rates import FEWEST_LABELS
from maieutic.validation.grader_baselines import FLOORS
from maieutic.validation.probes import PADDED_GAIN, SELF_PREFERENCE
from maieutic.validation.trust import BINARY, LENGTH_THIRDS, LENIENCY, PANEL_GAIN, PANEL_GAIN_P, WEIGHTED_KAPPA

CRITERION_TITLES = {"humanlikeness": "Human-likeness", "Revealing_of_the_Answer": "Revealing of the answer"}
EXCERPT, MOST_REASONS = 300, 4
PAIR_MEASURES = (
    "pair_accuracy", "consistent_accuracy", "flip_rate", "first_place", "unreadable", "length_correlation",
)  # fmt: skip
SEEN_IN_TRAINING = "seen_in_training"
GRADER_KINDS = {JudgeModel: "judge", RewardModel: "reward model", CriteriaModel: "classifiers"}


def criterion_title(criterion: str) -> str:
    """Return the display name of a criterion."""
    return CRITERION_TITLES.get(criterion, criterion.replace("_", " ").capitalize())


def floors_of(results: Path, name: str) -> dict[str, Measured]:
    """Return the agreement of each floor (trivial grader) with people on the replies that the grader `name` judged."""
    floors: dict[str, Measured] = {floor: {} for floor in FLOORS}
    for score in score_file(paths.LABEL_VALIDATION.within(results, grader=name)):
        if score.grader in floors and score.by == name and score.scoring == "robust":
            floors[score.grader][score.quantity] = score
    return {floor: measured for floor, measured in floors.items() if measured}


def summary_rows(plan: Plan, results: Path, name: str, lights: LightOf) -> list[dict[str, Any]]:
    """Return a grader's rows in the summary table: one per validated kind of verdict, one for all other kinds."""
    rows: list[dict[str, Any]] = []
    scores, floors, model = measured_of(plan, results, name), floors_of(results, name), plan.models[name]
    learnt = any(score.value for quantity, score in scores.items() if quantity.metric == SEEN_IN_TRAINING)
    for kind in kinds_of_grader(plan, name):
        release = release_of(plan, name, kind)
        of_pairs = kind == PAIRS or (isinstance(model, JudgeModel) and kind in model.pairs)
        by_pairs = partial(Quantity, criterion=None if kind == PAIRS else kind)
        beside = {floor: score for floor, measured in floors.items() if (score := kappa_score(measured, release))}
        kappa = kappa_score(scores, release)
        if release is None and not of_pairs and isinstance(model, JudgeModel) and plan.run.human_labels:
            kappa = people_kappa(plan, results, name, kind)
        on = by_pairs if of_pairs else partial(Quantity, subset=label_subset(model), release=release)
        rows.append(
            {
                "name": name,
                "label": display_label(plan, name),
                "kind": next(word for model_class, word in GRADER_KINDS.items() if isinstance(model, model_class)),
                "what": verdict_kind_title(kind),
                "kinds": [],
                "light": lights(name, kind),
                "dimensions": dimension_lights(plan, name, kind, scores, lights),
                "kappa": kappa,
                "beaten": [floor for floor, score in beside.items() if beats_floor(kappa, score)],
                "floors": beside,
                "best_floor": max(beside, key=lambda floor: beside[floor].value or 0.0) if beside else None,
                "pairs": scores.get(by_pairs("pair_accuracy")) if of_pairs else None,
                "flips": scores.get(by_pairs("flip_rate")) if of_pairs else None,
                "unreadable": scores.get(on("unreadable")),
                "seen": learnt,
                "missing": not scores,
            }
        )
    return join_unvalidated(rows)


def join_unvalidated(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Join a grader's rows about kinds of verdicts that this run has not compared with people's into the last row."""
    unvalidated = [row for row in rows if row["light"].colour == "none" and not row["missing"]]
    if len(unvalidated) < 2:
        return list(rows)
    joined = {
        **unvalidated[0],
        "what": f"{len(unvalidated)} other kinds" if len(unvalidated) < len(rows) else "all kinds",
        "kinds": [row["what"] for row in unvalidated],
    }
    return [*(row for row in rows if row not in unvalidated), joined]


def dimension_lights(
    plan: Plan, name: str, kind: str, scores: Measured, lights: LightOf
) -> list[tuple[str, Light, Score | None]]:
    """Return title, light and weighted kappa of each separately checked criterion; an empty list for fewer than two."""
    release, subset = release_of(plan, name, kind), label_subset(plan.models[name])
    checked = {
        criterion: scores.get(Quantity(WEIGHTED_KAPPA, criterion, subset, release))
        for criterion in criteria_of_kind(plan, name, kind)
    }
    known = {criterion: kappa for criterion, kappa in checked.items() if kappa is not None}
    if release is None or len(known) < 2:
        return []
    return [
        (criterion_title(criterion), lights(name, kind, None, criterion), kappa) for criterion, kappa in known.items()
    ]


def leniency_tables(plan: Plan, results: Path) -> list[dict[str, Any]]:
    """Return a table per judge and release: the judge's rate minus people's rate, by dimension and reply length."""
    tables = []
    for name in plan.run.judges:
        scores = measured_of(plan, results, name)
        for release in plan.validating_releases(name):
            on = partial(Quantity, LENIENCY, release=release)
            criteria = [key.criterion for key in scores if (key.metric, key.release) == (LENIENCY, release)]
            rows = []
            for criterion in dict.fromkeys(criteria):
                cells = [scores.get(on(criterion=criterion, subset=subset)) for subset in (None, *LENGTH_THIRDS)]
                title = criterion_title(criterion) if criterion else "all dimensions"
                rows.append({"dimension": title, "cells": cells, "word": leniency_word(cells[1:])})
            if rows:
                title = plan.label_sets[release].title
                tables.append({"label": display_label(plan, name), "release": title, "rows": rows})
    return tables


def leniency_word(by_length: Sequence[Score | None]) -> str:
    """Return a phrase that describes how lenient a judge is on replies of different length; empty without intervals.

    by_length: the judge's leniency on the short, the middle and the long third of the replies.
    """
    known = [score for score in by_length if score is not None and score.low is not None and score.high is not None]
    if len(known) < len(LENGTH_THIRDS):
        return ""
    below, above = [(score.high or 0.0) < 0 for score in known], [(score.low or 0.0) > 0 for score in known]
    if all(below):
        return "stricter at every length"
    if all(above):
        return "more lenient at every length"
    if any(below) and any(above):
        return "stricter at some lengths, more lenient at others"
    if any(below):
        return "stricter at some lengths"
    return "more lenient at some lengths" if any(above) else "no difference shown"


def label_subset(model: Model) -> str | None:
    """Return the subset of a grader's scores on labels: BINARY for classifiers, which detect only the worst label."""
    return BINARY if isinstance(model, CriteriaModel) else None


def beats_floor(score: Score | None, floor: Score) -> bool:
    """Return True if a grader's kappa is above a floor's. A constant floor, which has no kappa, counts as 0."""
    return score is not None and score.value is not None and score.value > (floor.value or 0.0)


DIMENSION_MEASURES = (
    "kappa", "weighted_kappa", "ac", "ac_paper", "spearman", "macro_f1", "accuracy", "majority_accuracy", "unreadable",
    "length_correlation", "people_length_correlation",
)  # fmt: skip


def dimension_tables(plan: Plan, results: Path) -> list[dict[str, Any]]:
    """Return a table for each grader and labelled release, with every measure for each dimension."""
    tables = []
    for name in all_graders(plan):
        scores, floors = measured_of(plan, results, name), floors_of(results, name)
        for release in plan.label_sets:
            kappas = [
                quantity for quantity in scores if (quantity.metric, quantity.release) == ("weighted_kappa", release)
            ]
            if not kappas:
                continue
            rows = [
                {
                    "criterion": criterion_title(str(quantity.criterion)),
                    "n": scores[quantity._replace(metric="accuracy")].n,
                    "cells": [scores.get(quantity._replace(metric=column)) for column in DIMENSION_MEASURES],
                    "floor": best_floor(floors, quantity),
                }
                for quantity in kappas
            ]
            tables.append(
                {
                    "label": display_label(plan, name),
                    "release": plan.label_sets[release].title,
                    "binary": isinstance(plan.models[name], CriteriaModel),
                    "rows": rows,
                }
            )
    return tables


def best_floor(floors: Mapping[str, Measured], quantity: Quantity) -> tuple[str, float] | None:
    """Return the floor with the highest value of a quantity, and this value; None if no floor has the quantity."""
    values = [(floor, measured[quantity].value or 0.0) for floor, measured in floors.items() if quantity in measured]
    return max(values, key=lambda pair: pair[1], default=None)


def agreement_figure(plan: Plan, results: Path) -> str:
    """Return the chart of every grader's weighted kappa by dimension; empty if there are no values."""
    table = []
    for name in all_graders(plan):
        for quantity, score in measured_of(plan, results, name).items():
            if quantity.metric != "weighted_kappa" or score.value is None:
                continue
            if quantity.release != next(iter(plan.validating_releases(name)), None):
                continue
            names = {"level": criterion_title(str(quantity.criterion)), "series": display_label(plan, name)}
            table.append({**names, **score.model_dump(include={"value", "low", "high"})})
    if not table:
        return ""
    graders = list(dict.fromkeys(row["series"] for row in table))
    bounds = {GREY: (0.0, 0.4, 0.6)}  # the latter are the limits of moderate and substantial agreement
    return levels_chart(pd.DataFrame(table), "weighted kappa with people", graders, lines=bounds, domain=(-0.4, 1.0))


def reward_rows(plan: Plan, results: Path) -> list[dict[str, Any]]:
    """Return a row per reward model checked on labels, with its rank correlation with desired labels and its AUCs."""
    rows = []
    for name in plan.reward_models:
        scores, release = measured_of(plan, results, name), plan.taxonomy_release(name)
        on = partial(Quantity, release=release)
        desired = scores.get(on("desired_correlation"))
        if desired is None:
            continue
        rows.append(
            {
                "label": display_label(plan, name),
                "desired": desired,
                "length": scores.get(on("length_correlation")),
                "seen": bool(scores[on(SEEN_IN_TRAINING)].value),
                "auc": {
                    criterion_title(str(quantity.criterion)): score
                    for quantity, score in scores.items()
                    if (quantity.metric, quantity.release) == ("auc", release)
                },
            }
        )
    return rows


def people_scores_of(plan: Plan, results: Path, judge: str) -> list[Score]:
    """Return a judge's scores against people's labels of this run's replies. The list is empty without such labels."""
    if not plan.run.human_labels:
        return []
    return score_file(paths.CORRECTED.within(results, judge=judge))


def why_uncorrected(corrected: Score, by_labels: Score) -> str:
    """Return the reason why a corrected rate has no value; empty if it has one."""
    if corrected.value is not None:
        return ""
    if by_labels.value is None:
        return "the labels contradict the known error rates of their annotators"
    if corrected.clusters < FEWEST_LABELS:
        return f"{corrected.clusters} labels, fewer than {FEWEST_LABELS}"
    if corrected.missing:
        return f"replies without a verdict, or with annotators who disagree: {corrected.missing}"
    return "the strata of labels and replies differ: part of the sample is unlabelled, or one file contains two samples"


def corrected_rate_rows(plan: Plan, results: Path) -> list[dict[str, Any]]:
    """Return rows with a judge's rate, people's rate and the corrected rate for each labelled tutor and criterion."""
    rows = []
    tutors = plan.tutors
    for name in plan.run.judges:
        by_cell = {
            (score.tutor, score.metric, score.criterion): score for score in people_scores_of(plan, results, name)
        }
        for (tutor, metric, criterion), score in by_cell.items():
            if metric != "ppi" or tutor not in tutors:
                continue
            rows.append(
                {
                    "judge": display_label(plan, name),
                    "tutor": display_label(plan, tutor),
                    "criterion": criterion_title(str(criterion)),
                    "corrected": score,
                    "why": why_uncorrected(score, by_cell[tutor, "ppi_labels", criterion]),
                    "labelled": score.clusters,
                    "by_judge": by_cell[tutor, "ppi_judge", criterion],
                    "by_people": by_cell[tutor, "ppi_labels", criterion],
                    "saved": by_cell.get((tutor, "ppi_saved", criterion)),
                }
            )
    return rows


def people_differences(plan: Plan, results: Path) -> list[dict[str, Any]]:
    """Return the difference in corrected rates for each pair of tutors whose replies people have labelled."""
    rows = []
    for name in plan.run.judges if plan.run.human_labels else ():
        entries = read_json(paths.CORRECTED_DIFFERENCES.within(results, judge=name)) or []
        for difference in (Difference.model_validate(entry) for entry in entries):
            tutors = {side: display_label(plan, getattr(difference, side)) for side in ("first", "second")}
            criterion = criterion_title(str(difference.criterion))
            rows.append({"judge": display_label(plan, name), **tutors, "criterion": criterion, "apart": difference})
    return rows


def agreement_on_run(plan: Plan, results: Path) -> list[dict[str, Any]]:
    """Return each judge's agreement with people's labels of this run's replies, by dimension."""
    rows = []
    for name in plan.run.judges:
        scores = people_scores_of(plan, results, name)
        by_cell = {(score.metric, score.criterion): score for score in scores if score.scoring == "robust"}
        for criterion in [criterion for metric, criterion in by_cell if metric == "weighted_kappa"]:
            cells = [by_cell.get((measure, criterion)) for measure in ("weighted_kappa", "ac", "accuracy")]
            n = by_cell["accuracy", criterion].n
            rows.append(
                {
                    "judge": display_label(plan, name),
                    "criterion": criterion_title(str(criterion)),
                    "n": n,
                    "cells": cells,
                }
            )
    return rows


def annotator_rows(plan: Plan, results: Path) -> list[dict[str, Any]]:
    """Return the agreement between the people who labelled this run's replies, by dimension."""
    if not plan.run.judges:
        return []
    scores = people_scores_of(plan, results, plan.run.judges[0])
    by_cell = {(score.metric, score.criterion): score for score in scores}
    return [
        {"criterion": criterion_title(str(criterion)), "n": score.n, "fleiss": score.value,
         "cohen": by_cell["cohen_kappa", criterion].value,
         "alpha": alpha.value if (alpha := by_cell.get(("krippendorff_alpha", criterion))) else None}
        for (metric, criterion), score in by_cell.items()
        if metric == "fleiss_kappa"
    ]  # fmt: skip


def judged_files(plan: Plan, results: Path, judge: str) -> dict[str, list[Path]]:
    """Return the files of a judge's verdicts on labelled replies and pairs, on probes, and on this run's replies."""
    batches = [
        paths.VERDICTS.within(results, judge=judge, benchmark=benchmark, batch=batch)
        for benchmark in plan.judged_benchmarks(judge)
        for batch in plan.judge_batches(benchmark)
    ]
    labelled = paths.LABELLED_VERDICTS.within(results, judge=judge)
    probed = [paths.PROBE_VERDICTS.within(results, judge=judge, probe=probe) for probe in used_probes(plan)]
    files = {"labelled replies and pairs": [labelled], "probes": probed, "this run's replies": batches}
    return {what: [path for path in files_on if path.exists()] for what, files_on in files.items()}


def cost_rows(plan: Plan, results: Path) -> list[dict[str, Any]]:
    """Return the cost of each judge's answers, and the reasons for missing verdicts with an example of each reason."""
    rows = []
    for name in plan.run.judges:
        for what, verdict_files in judged_files(plan, results, name).items():
            judgements = requests_in(verdict_files)
            if not judgements:
                continue
            tokens = token_counts(judgements)
            spent = tokens.values()
            reasons: dict[str, list[str]] = {}
            for judgement in judgements:
                for verdict in judgement.verdicts:
                    if verdict.value is None:
                        reasons.setdefault(verdict.why_none or "", []).append(judgement.raw)
            rows.append(
                {
                    "name": name,
                    "label": display_label(plan, name),
                    "what": what,
                    "questions": len(judgements),
                    "verdicts": sum(len(judgement.verdicts) for judgement in judgements),
                    "recovered": sum(judgement.recovered for judgement in judgements),
                    "tokens": [sum(part.prompt for part in spent), sum(part.completion for part in spent)],
                    "usd": panel_usd(plan, results, name, what, judgements)
                    if name in plan.panels
                    else judging_usd(plan, name, tokens),
                    "panel": name in plan.panels,
                    "reasons": sorted(
                        ((why, len(raws), raws[0][:EXCERPT]) for why, raws in reasons.items()), key=lambda row: -row[1]
                    )[:MOST_REASONS],
                }
            )
    return rows


def requests_in(files: Iterable[Path]) -> list[Judgement]:
    """Return the judgements of files, one for each request. Each file has requests of its own."""
    return [judgement for path in files for judgement in distinct_judgements(read_records(path, Judgement))]


def judging_usd(plan: Plan, name: str, tokens: Mapping[bool, TokenCounts]) -> float | None:
    """Return a judge's cost in US dollars at the price of the judge's model; None if this model has no price.

    tokens: tokens of single requests (False) and of requests in batches (True).
    """
    return cost(plan.models[plan.answering_entry(name)], tokens)


def panel_usd(plan: Plan, results: Path, panel: str, what: str, judgements: Sequence[Judgement]) -> float | None:
    """Return the cost in US dollars of the judgements that a panel combined; None if one of its judges has no price.

    what: what was judged, a key of the dict that `judged_files` returns.
    """
    amounts = []
    used = {key for judgement in judgements for key in judgement.key.split("+")}
    for judge in plan.judge_entry(panel).judges:
        files = judged_files(plan, results, judge)[what]
        parts = [part for part in requests_in(files) if part.key in used]
        amounts.append(judging_usd(plan, judge, token_counts(parts)))
    return None if None in amounts else round(sum(amount or 0.0 for amount in amounts), 4)


def panel_rows(plan: Plan, results: Path) -> list[dict[str, Any]]:
    """Return a row per panel: its judges, and its gain in agreement with people over the best of them."""
    rows = []
    for name in plan.panels:
        panel = plan.judge_entry(name)
        judges = [display_label(plan, judge) for judge in panel.judges]
        scores = score_file(paths.LABEL_VALIDATION.within(results, grader=name))
        p_values = {(score.release, score.by): score.value for score in scores if score.metric == PANEL_GAIN_P}
        gains = [
            {
                "release": plan.label_sets[str(score.release)].title,
                "best": display_label(plan, str(score.by)),
                "gain": score,
                "p": p_values.get((score.release, score.by)),
            }
            for score in scores
            if score.metric == PANEL_GAIN
        ]
        label = display_label(plan, name)
        rows.append({"label": label, "vote": panel.vote, "judges": judges, "gains": gains})
    return rows


PROBE_MEASURES = (*(f"{probe}_same" for probe in PROBES), PADDED_GAIN, SELF_PREFERENCE)


def probe_rows(plan: Plan, results: Path) -> list[dict[str, Any]]:
    """Return each probed judge's rows: results of probes on each labelled set, and flips on pairs in both orders."""
    rows = []
    for name in plan.probed_judges:
        by_set: dict[str | None, dict[str, Score]] = {}
        for row in score_file(paths.PROBE_VALIDATION.within(results, grader=name)):
            if row.release in plan.validating_releases(name):
                by_set.setdefault(row.release, {})[row.metric] = row
        for release, measured in by_set.items():
            cells = {metric: measured.get(metric) for metric in PROBE_MEASURES}
            title = plan.label_sets[str(release)].title
            rows.append({"label": display_label(plan, name), "on": title, "flips": None, **cells})
        for rubric in plan.judge_entry(name).pairs:
            flips = measured_of(plan, results, name).get(Quantity("flip_rate", rubric))
            if flips and (by_set or plan.run.probes):
                empty = dict.fromkeys(PROBE_MEASURES)
                on = f"pairs, {read_rubric(rubric).rubric.title}"
                rows.append({"label": display_label(plan, name), "on": on, "flips": flips, **empty})
    return rows


def judge_pair_rows(plan: Plan, results: Path) -> list[dict[str, Any]]:
    """Return a row per judge and rubric for pairs: accuracy, flips, bias towards the first and the longer reply."""
    rows = []
    for name in plan.run.judges:
        scores = measured_of(plan, results, name)
        for rubric in plan.judge_entry(name).pairs:
            measures = {kind: scores.get(Quantity(kind, rubric)) for kind in PAIR_MEASURES}
            if not measures["flip_rate"]:
                continue
            pairs = measures["flip_rate"].n + measures["flip_rate"].missing
            title = read_rubric(rubric).rubric.title
            names = {"name": name, "kind": rubric, "label": display_label(plan, name), "title": title, "pairs": pairs}
            rows.append({**names, **measures})
    return rows


PREFERENCE_MEASURES = (
    "pair_accuracy", "accuracy_with_ties", "flip_rate", "ties", "unreadable", "leaked_text", "leaked_dialogue",
    "clean_pair_accuracy",
)  # fmt: skip


def preference_tables(plan: Plan, results: Path) -> list[dict[str, Any]]:
    """Return a table per set of preference pairs, with a row per checked grader. A judge has a row per rubric."""
    tables = []
    for place, source in enumerate(plan.preferences):
        counts = read_json(paths.PAIR_COUNTS.within(results, source=source))
        rows = []
        for name in all_graders(plan):
            where = paths.PAIR_VALIDATION if place == 0 else paths.SET_VALIDATION.partly(source=source)
            scores = {score.quantity: score for score in score_file(where.within(results, grader=name))}
            model = plan.models[name]
            for kind in model.pairs if isinstance(model, JudgeModel) else [None]:
                cells = {metric: scores.get(Quantity(metric, kind)) for metric in PREFERENCE_MEASURES}
                title = read_rubric(kind).rubric.title if kind else ""
                if cells["pair_accuracy"]:
                    rows.append({"label": display_label(plan, name), "card": title, **cells})
        if rows and counts:
            tables.append({"title": plan.config.preferences[source].title, "counts": counts, "rows": rows})
    return tables


def judges_on_tutors(plan: Plan) -> list[tuple[str, str]]:
    """Return the labels of judge and tutor for each judge that runs on the same model as a tutor of the run."""
    answering = [(name, plan.answering_entry(name)) for name in plan.judges_with_model]
    return [
        (display_label(plan, name), display_label(plan, model)) for name, model in answering if model in plan.run.tutors
    ]


def marked_passages(loaded: LoadedRubric) -> list[tuple[str, bool]]:
    """Split a rubric's prompt into parts, each with True if it is a passage that this project filled in."""
    parts: list[tuple[str, bool]] = []
    rest = loaded.prompt
    for passage in sorted(loaded.rubric.filled_in, key=loaded.prompt.index):
        before, _, rest = rest.partition(passage)
        parts += [(before, False), (passage, True)]
    return [*parts, (rest, False)]


def answering_description(judge: JudgeModel) -> str:
    """Return a description of the source of a judge's verdicts: a model, a panel of judges or lists of words."""
    return judge.model or (f"panel of {', '.join(judge.judges)}" if judge.judges else "lists of words")


def rubric_rows(plan: Plan) -> list[dict[str, Any]]:
    """Return each judge's rubrics with their sources and prompts."""
    rows = []
    for name in plan.run.judges:
        for rubric in plan.rubric_names(name):
            card = read_rubric(rubric).rubric
            rows.append(
                {
                    "judge": display_label(plan, name),
                    "answers": answering_description(plan.judge_entry(name)),
                    "title": card.title,
                    "source": card.source,
                    "file": listed_name(rubric_path(rubric)),
                    "prompt": marked_passages(read_rubric(rubric)),
                }
            )
    return rows


def label_counts(plan: Plan, results: Path) -> dict[str, Any] | None:
    """Return the number of dialogues and of replies in the first labelled release; None if there is no release."""
    for release in plan.releases:
        path = paths.LABEL_STATISTICS.within(results, release=release)
        if path.exists():
            counts: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))["all"]
            return counts
    return None


def confusion_matrices(plan: Plan, browsed: Browsed) -> list[dict[str, Any]]:
    """Return the confusion matrices of each judge on each set of labels: people's labels (rows) and verdicts (columns).

    There is one table per criterion. Each count has the address of its replies in the item browser.
    """
    titles = {f"{loaded.card.benchmark}/{loaded.card.task}": loaded.card.title for loaded in plan.cards.values()}
    titles |= {task: described["title"] for task, described in browsed.data["sets"].items()}
    return [
        {
            "judge": display_label(plan, judge),
            "title": titles[task],
            "tables": [
                confusion_matrix(task, judge, criterion, counts, browsed.scales[task].get(criterion))
                for criterion in dict.fromkeys(cell[1] for cell in counts if cell[0] == judge)
            ],
        }
        for task, counts in browsed.confusions.items()
        for judge in dict.fromkeys(cell[0] for cell in counts)
    ]


def confusion_matrix(
    task: str, judge: str, criterion: str, counts: Mapping[Cell, int], scale: Scale | None
) -> dict[str, Any]:
    """Return one judge's confusion matrix on one criterion. Labels outside the scale follow those of the scale."""
    cells = {cell[2:]: n for cell, n in counts.items() if cell[:2] == (judge, criterion)}
    known = scale.labels if scale else ()
    verdicts, labels = ([*known, *sorted({pair[side] for pair in cells} - {*known})] for side in (0, 1))

    def cell_of(verdict: str, label: str) -> dict[str, Any]:
        query = urlencode({"task": task, "cell": "|".join((judge, criterion, verdict, label))})
        n = cells.get((verdict, label), 0)
        return {"n": n, "agrees": verdict.lower() == label.lower(), "address": f"#/items?{query}"}

    rows = [{"label": label, "cells": [cell_of(verdict, label) for verdict in verdicts]} for label in labels]
    return {"criterion": criterion_title(criterion), "verdicts": verdicts, "rows": rows}


def trust_section(run: ReportInput, lights: LightOf, browsed: Browsed) -> dict[str, Any] | None:
    """Return the template variables of the trust page, None in a run without graders that are models.

    browsed: what was counted while the items were written.
    """
    plan, results = run.plan, run.results
    names = all_graders(plan)
    if not names:
        return None
    return {
        "rows": [row for name in names for row in summary_rows(plan, results, name, lights)],
        "floors": FLOORS,
        "notices": {display_label(plan, name): plan.models[name].notice for name in names if plan.models[name].notice},
        "green": GREEN,
        "amber": AMBER,
        "fewest": FEWEST_FOR_COLOUR,
        "figure": agreement_figure(plan, results),
        "confusions": confusion_matrices(plan, browsed),
        "dimensions": dimension_tables(plan, results),
        "leniency": leniency_tables(plan, results),
        "columns": DIMENSION_MEASURES,
        "rewards": reward_rows(plan, results),
        "people": corrected_rate_rows(plan, results),
        "choice": leading_judge(plan, results),
        "own_agreement": agreement_on_run(plan, results),
        "apart": people_differences(plan, results),
        "costs": run.costs,
        "panels": panel_rows(plan, results),
        "probes": probe_rows(plan, results),
        "pairs": judge_pair_rows(plan, results),
        "preferences": preference_tables(plan, results) if plan.further_pairs else [],
        "own_judges": judges_on_tutors(plan),
        "human_labels": plan.run.human_labels,
        "annotators": annotator_rows(plan, results),
        "rubrics": rubric_rows(plan),
        "judged": plan.judged_benchmarks(),
        "counts": label_counts(plan, results),
        "release": " and ".join(plan.label_sets[release].title for release in plan.releases),
    }
