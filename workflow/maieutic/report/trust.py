"""The page on trust: for every grader of the run, how far people agree with it, and a traffic light."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from maieutic.config.models import BaselineModel, CriteriaModel, JudgeModel, Model, RewardModel
from maieutic.core import paths
from maieutic.core.records import Difference, Judgement, Quantity, Score, read_records
from maieutic.judges.panels import PanelWeights
from maieutic.judges.probes import PROBES
from maieutic.judges.rubrics import LoadedRubric, read_rubric, rubric_path
from maieutic.plan.plan import Plan
from maieutic.report.figures import agreement_chart
from maieutic.report.tables import cost, label_of, read_json, score_file
from maieutic.report.traffic_light import (
    PAIRS,
    LightOf,
    Measured,
    all_graders,
    criteria_of,
    kinds_of,
    measured_of,
    people_kappa,
    release_of,
    states_of,
    title_of,
)
from maieutic.validation.carry_over import FEWEST as FEWEST_PROBLEMS
from maieutic.validation.carry_over import HELD_BIAS, HELD_CORRECTED, HELD_KAPPA, state_of, worst_of
from maieutic.validation.floors import FLOORS
from maieutic.validation.people import FEWEST as FEWEST_LABELS
from maieutic.validation.probes import GAIN, SELF_PREFERENCE
from maieutic.validation.traffic_light import AMBER, FEWEST, GREEN, Light, mean_kappa
from maieutic.validation.trust import ALL, BINARY, LENIENCY, PANEL_GAIN, PANEL_GAIN_P, THIRDS, WEIGHTED_KAPPA

CALLED = {"humanlikeness": "Human-likeness", "Revealing_of_the_Answer": "Revealing of the answer"}
EXCERPT, MOST_REASONS = 300, 4
TOKENS = ("prompt_tokens", "completion_tokens", "cached_tokens")
PAIR_MEASURES = (
    "pair_accuracy", "consistent_accuracy", "flip_rate", "first_place", "unreadable", "length_correlation",
)  # fmt: skip
SEEN = "seen_in_training"
KINDS = {JudgeModel: "judge", RewardModel: "reward model", CriteriaModel: "classifiers"}


def called(criterion: str) -> str:
    """A criterion's name as people write it."""
    return CALLED.get(criterion, criterion.replace("_", " ").capitalize())


def floors_of(results: Path, name: str) -> dict[str, Measured]:
    """How far the floors of a grader agree with people on the replies that it was asked about, by floor."""
    floors: dict[str, Measured] = {floor: {} for floor in FLOORS}
    for score in score_file(paths.LABEL_VALIDATION.within(results, grader=name)):
        if score.grader in floors and score.by == name and score.scoring == "robust":
            floors[score.grader][score.quantity] = score
    return {floor: measured for floor, measured in floors.items() if measured}


def summary_rows(plan: Plan, results: Path, name: str, lights: LightOf) -> list[dict[str, Any]]:
    """One grader in the table of graders: a line for each kind of its verdicts, the floors under those with labels."""
    rows: list[dict[str, Any]] = []
    scores, floors, model = measured_of(plan, results, name), floors_of(results, name), plan.models[name]
    learnt = any(score.value for quantity, score in scores.items() if quantity.metric == SEEN)
    for kind in kinds_of(plan, name):
        release = release_of(plan, name, kind)
        of_pairs = kind == PAIRS or (isinstance(model, JudgeModel) and kind in model.pairs)
        by_pairs = partial(Quantity, criterion=None if kind == PAIRS else kind)
        beside = {floor: score for floor, measured in floors.items() if (score := mean_kappa(measured, release))}
        kappa = mean_kappa(scores, release)
        if release is None and not of_pairs and isinstance(model, JudgeModel) and plan.run.human_labels:
            kappa = people_kappa(plan, results, name, kind)
        on = by_pairs if of_pairs else partial(Quantity, subset=subset_of(model), release=release)
        rows.append(
            {
                "name": name,
                "label": label_of(plan, name),
                "kind": next(word for model_class, word in KINDS.items() if isinstance(model, model_class)),
                "what": title_of(kind),
                "light": lights(name, kind),
                "dimensions": dimension_lights(plan, name, kind, scores, lights),
                "kappa": kappa,
                "beaten": [floor for floor, score in beside.items() if above(kappa, score)],
                "floors": beside,
                "pairs": scores.get(by_pairs("pair_accuracy")) if of_pairs else None,
                "flips": scores.get(by_pairs("flip_rate")) if of_pairs else None,
                "first_place": scores.get(by_pairs("first_place")) if of_pairs else None,
                "unreadable": scores.get(on("unreadable")),
                "length": scores.get(on("length_correlation")),
                "seen": learnt,
                "missing": not scores,
            }
        )
    return rows


def dimension_lights(
    plan: Plan, name: str, kind: str, scores: Measured, lights: LightOf
) -> list[tuple[str, Light, Score | None]]:
    """Return criterion, light and weighted kappa of each criterion of a kind that was checked alone, if several are."""
    release, subset = release_of(plan, name, kind), subset_of(plan.models[name])
    checked = {
        criterion: scores.get(Quantity(WEIGHTED_KAPPA, criterion, subset, release))
        for criterion in criteria_of(plan, name, kind)
    }
    known = {criterion: kappa for criterion, kappa in checked.items() if kappa is not None}
    if release is None or len(known) < 2:
        return []
    return [(called(criterion), lights(name, kind, None, criterion), kappa) for criterion, kappa in known.items()]


def leniency_tables(plan: Plan, results: Path) -> list[dict[str, Any]]:
    """For each judge and labelled release, by dimension and over all: the judge's rate less people's, by length."""
    tables = []
    for name in plan.run.judges:
        scores = measured_of(plan, results, name)
        for release in plan.releases_for(name):
            on = partial(Quantity, LENIENCY, release=release)
            criteria = [one.criterion for one in scores if (one.metric, one.release) == (LENIENCY, release)]
            rows = []
            for criterion in dict.fromkeys(criteria):
                cells = [scores.get(on(criterion=criterion, subset=subset)) for subset in (None, *THIRDS)]
                title = called(criterion) if criterion else "all dimensions"
                rows.append({"dimension": title, "cells": cells, "word": leniency_word(cells[1:])})
            if rows:
                title = plan.label_sets[release].title
                tables.append({"label": label_of(plan, name), "release": title, "rows": rows})
    return tables


def leniency_word(by_length: Sequence[Score | None]) -> str:
    """Summarize a judge's leniency over the thirds of replies by length, from the signs of its intervals."""
    known = [one for one in by_length if one is not None and one.low is not None and one.high is not None]
    if len(known) < len(THIRDS):
        return ""
    below, above = [(one.high or 0.0) < 0 for one in known], [(one.low or 0.0) > 0 for one in known]
    if all(below):
        return "stricter at every length"
    if all(above):
        return "more lenient at every length"
    if any(below) and any(above):
        return "stricter at some lengths, more lenient at others"
    if any(below):
        return "stricter at some lengths"
    return "more lenient at some lengths" if any(above) else "no difference shown"


def subset_of(model: Model) -> str | None:
    """The subset of a grader's scores on labels: classifiers know desired labels and others."""
    return BINARY if isinstance(model, CriteriaModel) else None


def above(score: Score | None, floor: Score) -> bool:
    """Whether a grader's kappa lies above a floor's; a floor that never varies has 0."""
    return score is not None and score.value is not None and score.value > (floor.value or 0.0)


COLUMNS = (
    "kappa", "weighted_kappa", "ac", "ac_paper", "spearman", "macro_f1", "accuracy", "majority_accuracy", "unreadable",
    "length_correlation", "people_length_correlation",
)  # fmt: skip


def dimension_tables(plan: Plan, results: Path) -> list[dict[str, Any]]:
    """For each grader and labelled release, every measure by dimension."""
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
                    "criterion": called(str(quantity.criterion)),
                    "n": scores[quantity._replace(metric="accuracy")].n,
                    "cells": [scores.get(quantity._replace(metric=column)) for column in COLUMNS],
                    "floor": best_floor(floors, quantity),
                }
                for quantity in kappas
            ]
            tables.append(
                {
                    "label": label_of(plan, name),
                    "release": plan.label_sets[release].title,
                    "binary": isinstance(plan.models[name], CriteriaModel),
                    "rows": rows,
                }
            )
    return tables


def best_floor(floors: Mapping[str, Measured], quantity: Quantity) -> tuple[str, float] | None:
    """The floor with the highest value of a measure, and that value; None where none was measured."""
    values = [(floor, measured[quantity].value or 0.0) for floor, measured in floors.items() if quantity in measured]
    return max(values, key=lambda pair: pair[1], default=None)


def agreement_figure(plan: Plan, results: Path) -> str:
    """Weighted kappa of every grader and dimension."""
    table = []
    for name in all_graders(plan):
        for quantity, score in measured_of(plan, results, name).items():
            if quantity.metric != "weighted_kappa" or score.value is None:
                continue
            if quantity.release != next(iter(plan.releases_for(name)), None):
                continue
            shown = {"criterion": called(str(quantity.criterion)), "grader": label_of(plan, name)}
            table.append({**shown, "value": score.value, "low": score.low, "high": score.high})
    return agreement_chart(pd.DataFrame(table)) if table else ""


def reward_rows(plan: Plan, results: Path) -> list[dict[str, Any]]:
    """Reward models on the same labels: rank correlation with desired labels, and AUC by dimension."""
    rows = []
    for name in plan.reward_models:
        scores, release = measured_of(plan, results, name), plan.taxonomy_release(name)
        on = partial(Quantity, release=release)
        desired = scores.get(on("desired_correlation"))
        if desired is None:
            continue
        rows.append(
            {
                "label": label_of(plan, name),
                "desired": desired,
                "length": scores.get(on("length_correlation")),
                "seen": bool(scores[on(SEEN)].value),
                "auc": {
                    called(str(quantity.criterion)): score
                    for quantity, score in scores.items()
                    if (quantity.metric, quantity.release) == ("auc", release)
                },
            }
        )
    return rows


def people_scores_of(plan: Plan, results: Path, judge: str) -> list[Score]:
    """A judge against the labels that people gave to this run's replies; none in a run without such labels."""
    if not plan.run.human_labels:
        return []
    return score_file(paths.CORRECTED.within(results, judge=judge))


def why_not(corrected: Score) -> str:
    """Why a corrected rate is left out."""
    if corrected.clusters < FEWEST_LABELS:
        return f"{corrected.clusters} labels, fewer than {FEWEST_LABELS}"
    if corrected.missing:
        return f"{corrected.missing} replies unreadable to the judge or divided between annotators"
    return "the strata of the labels are not those of the replies: part of the sample is open, or two are in one file"


def people_rows(plan: Plan, results: Path) -> list[dict[str, Any]]:
    """This run's tutors as people and a judge see them, where people have labelled some of their replies."""
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
                    "judge": label_of(plan, name),
                    "tutor": label_of(plan, tutor),
                    "criterion": called(str(criterion)),
                    "corrected": score,
                    "why": why_not(score) if score.value is None else "",
                    "labelled": score.clusters,
                    "by_judge": by_cell[tutor, "ppi_judge", criterion],
                    "by_people": by_cell[tutor, "ppi_labels", criterion],
                    "saved": by_cell.get((tutor, "ppi_saved", criterion)),
                }
            )
    return rows


def state_rows(plan: Plan, results: Path) -> list[dict[str, Any]]:
    """For each judge and tutor of the run, whether the judge's agreement with people carries over to it."""
    rows = []
    for name in plan.run.judges:
        for kind, tasks in plan.labelled_by(name).items():
            states = states_of(plan, results, name, kind)
            judged = [tutor for tutor in plan.run.tutors if not isinstance(plan.models[tutor], BaselineModel)]
            known = labelled_range(plan, results, name, kind)
            for tutor in dict.fromkeys([*judged, *states]) if tasks else ():
                by_criterion = states.get(tutor, {})
                worst = worst_of(state for state, _ in by_criterion.values())
                rows.append(
                    {
                        "judge": label_of(plan, name),
                        "tutor": label_of(plan, tutor),
                        "what": title_of(kind),
                        "state": worst,
                        "criteria": [
                            {"criterion": called(criterion), "state": state, "bias": bias}
                            for criterion, (state, bias) in by_criterion.items()
                        ],
                        "range": known if worst == "NOT CHECKED" else None,
                    }
                )
    return rows


def labelled_range(plan: Plan, results: Path, judge: str, kind: str) -> tuple[float, float] | None:
    """The lowest and the highest rate by a judge of the tutors of the labelled set that it was checked on."""
    release = release_of(plan, judge, kind)
    scores = score_file(paths.LABEL_VALIDATION.within(results, grader=judge)) if release else []
    rates: dict[str, list[float]] = {}
    for score in scores:
        if (score.metric, score.release, score.by, score.subset) == ("damr", release, judge, ALL):
            rates.setdefault(str(score.tutor), []).append(score.value or 0.0)
    means = [sum(values) / len(values) for values in rates.values()]
    return (min(means), max(means)) if means else None


def carried_rows(plan: Plan, results: Path) -> list[dict[str, Any]]:
    """Each tutor of a labelled set as if nobody had labelled it: bias of the judge, and of the corrected rate."""
    rows = []
    for name in plan.run.judges:
        by_cell = {
            (score.release, score.tutor, score.criterion, score.metric): score
            for score in score_file(paths.LABEL_VALIDATION.within(results, grader=name))
            if score.metric in (HELD_BIAS, HELD_CORRECTED, HELD_KAPPA)
        }
        for release, tutor, criterion, metric in by_cell:
            if metric != HELD_BIAS:
                continue
            cells = {
                key: by_cell.get((release, tutor, criterion, key)) for key in (HELD_BIAS, HELD_CORRECTED, HELD_KAPPA)
            }
            shown = {"judge": label_of(plan, name), "tutor": tutor, "criterion": called(str(criterion))}
            title = plan.label_sets[str(release)].title
            states = {key: state_of(cells[key], plan.config.report.margin) for key in (HELD_BIAS, HELD_CORRECTED)}
            rows.append({**shown, "release": title, **cells, "states": states})
    return rows


def people_differences(plan: Plan, results: Path) -> list[dict[str, Any]]:
    """Any two tutors' corrected rates, where people have labelled both."""
    rows = []
    for name in plan.run.judges if plan.run.human_labels else ():
        found = read_json(paths.CORRECTED_DIFFERENCES.within(results, judge=name)) or []
        for difference in (Difference.model_validate(one) for one in found):
            tutors = {side: label_of(plan, getattr(difference, side)) for side in ("first", "second")}
            criterion = called(str(difference.criterion))
            rows.append({"judge": label_of(plan, name), **tutors, "criterion": criterion, "apart": difference})
    return rows


def own_agreement(plan: Plan, results: Path) -> list[dict[str, Any]]:
    """How far each judge agrees with the labels that people gave to this run's replies, by dimension."""
    rows = []
    for name in plan.run.judges:
        scores = people_scores_of(plan, results, name)
        by_cell = {(score.metric, score.criterion): score for score in scores if score.scoring == "robust"}
        for criterion in [criterion for metric, criterion in by_cell if metric == "weighted_kappa"]:
            cells = [by_cell.get((measure, criterion)) for measure in ("weighted_kappa", "ac", "accuracy")]
            n = by_cell["accuracy", criterion].n
            rows.append({"judge": label_of(plan, name), "criterion": called(str(criterion)), "n": n, "cells": cells})
    return rows


def annotator_rows(plan: Plan, results: Path) -> list[dict[str, Any]]:
    """How far the people who labelled this run's replies agree with each other."""
    if not plan.run.judges:
        return []
    scores = people_scores_of(plan, results, plan.run.judges[0])
    by_cell = {(score.metric, score.criterion): score for score in scores}
    return [
        {"criterion": called(str(criterion)), "n": score.n, "fleiss": score.value,
         "cohen": by_cell["cohen_kappa", criterion].value,
         "alpha": alpha.value if (alpha := by_cell.get(("krippendorff_alpha", criterion))) else None}
        for (metric, criterion), score in by_cell.items()
        if metric == "fleiss_kappa"
    ]  # fmt: skip


def judged_files(plan: Plan, results: Path, judge: str) -> dict[str, list[Path]]:
    """What a judge has said: on labelled replies and pairs, and on this run's replies."""
    batches = [
        paths.VERDICTS.within(results, judge=judge, benchmark=benchmark, batch=batch)
        for benchmark in plan.judged_benchmarks(judge)
        for batch in plan.judge_batches(benchmark)
    ]
    labelled = paths.LABELLED_VERDICTS.within(results, judge=judge)
    probed = [paths.PROBE_VERDICTS.within(results, judge=judge, probe=probe) for probe in plan.probes]
    files = {"labelled replies and pairs": [labelled], "probes": probed, "this run's replies": batches}
    return {what: [path for path in written if path.exists()] for what, written in files.items()}


def cost_rows(plan: Plan, results: Path) -> list[dict[str, Any]]:
    """What judging took, and why answers could not be read, with one of them."""
    rows = []
    for name in plan.run.judges:
        for what, written in judged_files(plan, results, name).items():
            judgements = [judgement for path in written for judgement in read_records(path, Judgement)]
            if not judgements:
                continue
            tokens = [sum(getattr(judgement, key) or 0 for judgement in judgements) for key in TOKENS]
            reasons: dict[str, list[str]] = {}
            for judgement in judgements:
                for verdict in judgement.verdicts:
                    if verdict.value is None:
                        reasons.setdefault(verdict.why_none or "", []).append(judgement.raw)
            rows.append(
                {
                    "name": name,
                    "label": label_of(plan, name),
                    "what": what,
                    "questions": len(judgements),
                    "verdicts": sum(len(judgement.verdicts) for judgement in judgements),
                    "recovered": sum(judgement.recovered for judgement in judgements),
                    "tokens": tokens[:2],
                    "usd": panel_usd(plan, results, name, what, judgements)
                    if name in plan.panels
                    else usd(plan, name, *tokens),
                    "panel": name in plan.panels,
                    "reasons": sorted(
                        ((why, len(raws), raws[0][:EXCERPT]) for why, raws in reasons.items()), key=lambda row: -row[1]
                    )[:MOST_REASONS],
                }
            )
    return rows


def usd(plan: Plan, name: str, prompt_tokens: int, completion_tokens: int, cached_tokens: int = 0) -> float | None:
    """US dollars by the registry's price of the model that answers, None where it has none."""
    return cost(plan.models[plan.answering(name)], prompt_tokens, completion_tokens, cached_tokens)


def panel_usd(plan: Plan, results: Path, panel: str, what: str, judgements: Sequence[Judgement]) -> float | None:
    """US dollars that the judges of a panel took for what it is made of; None where one of them has no price."""
    amounts = []
    used = {key for one in judgements for key in one.key.split("+")}
    for judge in plan.judge_entry(panel).judges:
        files = judged_files(plan, results, judge)[what]
        read = [one for path in files for one in read_records(path, Judgement) if one.key in used]
        amounts.append(usd(plan, judge, *(sum(getattr(one, key) or 0 for one in read) for key in TOKENS)))
    return None if None in amounts else round(sum(amount or 0.0 for amount in amounts), 4)


def panel_rows(plan: Plan, results: Path) -> list[dict[str, Any]]:
    """Each panel, and what its judges count under each criterion."""
    rows = []
    for name in plan.panels:
        found = read_json(paths.PANEL_WEIGHTS.within(results, judge=name))
        if found is None:
            continue
        made = PanelWeights.model_validate(found)
        judges = [label_of(plan, judge) for judge in made.judges]
        cells = [
            {
                "criterion": called(criterion) if criterion else "preferred reply",
                "labels": made.labels[criterion],
                "counts": [(weights.get(judge, 0.0), made.agreement[criterion].get(judge)) for judge in made.judges],
            }
            for criterion, weights in made.weights.items()
        ]
        scores = score_file(paths.LABEL_VALIDATION.within(results, grader=name))
        p_values = {(one.release, one.by): one.value for one in scores if one.metric == PANEL_GAIN_P}
        gains = [
            {
                "release": plan.label_sets[str(one.release)].title,
                "best": label_of(plan, str(one.by)),
                "gain": one,
                "p": p_values.get((one.release, one.by)),
            }
            for one in scores
            if one.metric == PANEL_GAIN
        ]
        shown = {"label": label_of(plan, name), "vote": made.vote, "judges": judges, "criteria": cells, "gains": gains}
        rows.append(shown)
    return rows


PROBE_MEASURES = (*(f"{probe}_same" for probe in PROBES), GAIN, SELF_PREFERENCE)


def probe_rows(plan: Plan, results: Path) -> list[dict[str, Any]]:
    """Each judge that was probed, on each labelled set, and on pairs in both orders."""
    rows = []
    for name in plan.probed_judges:
        by_set: dict[str | None, dict[str, Score]] = {}
        for row in score_file(paths.PROBE_VALIDATION.within(results, grader=name)):
            if row.release in plan.releases_for(name):
                by_set.setdefault(row.release, {})[row.metric] = row
        for release, measured in by_set.items():
            cells = {metric: measured.get(metric) for metric in PROBE_MEASURES}
            title = plan.label_sets[str(release)].title
            rows.append({"label": label_of(plan, name), "on": title, "flips": None, **cells})
        for rubric in plan.judge_entry(name).pairs:
            flips = measured_of(plan, results, name).get(Quantity("flip_rate", rubric))
            if flips and (by_set or plan.run.probes):
                empty = dict.fromkeys(PROBE_MEASURES)
                on = f"pairs, {read_rubric(rubric).rubric.title}"
                rows.append({"label": label_of(plan, name), "on": on, "flips": flips, **empty})
    return rows


def pair_rows(plan: Plan, results: Path) -> list[dict[str, Any]]:
    """Each judge on the pairs under each of its cards: accuracy, both orders, place, length."""
    rows = []
    for name in plan.run.judges:
        scores = measured_of(plan, results, name)
        for rubric in plan.judge_entry(name).pairs:
            measures = {kind: scores.get(Quantity(kind, rubric)) for kind in PAIR_MEASURES}
            if not measures["flip_rate"]:
                continue
            pairs = measures["flip_rate"].n + measures["flip_rate"].missing
            title = read_rubric(rubric).rubric.title
            shown = {"name": name, "kind": rubric, "label": label_of(plan, name), "title": title, "pairs": pairs}
            rows.append({**shown, **measures})
    return rows


PREFERENCE_MEASURES = (
    "pair_accuracy", "accuracy_with_ties", "flip_rate", "ties", "unreadable", "leaked_text", "leaked_dialogue",
    "clean_pair_accuracy",
)  # fmt: skip


def preference_tables(plan: Plan, results: Path) -> list[dict[str, Any]]:
    """For each set of preferences every grader that was checked on it, judges under each of their cards."""
    tables = []
    for place, source in enumerate(plan.preferences):
        counts = read_json(paths.PAIR_COUNTS.within(results, source=source))
        rows = []
        for name in all_graders(plan):
            where = paths.PAIR_VALIDATION if place == 0 else paths.SET_VALIDATION.partly(source=source)
            scores = {one.quantity: one for one in score_file(where.within(results, grader=name))}
            model = plan.models[name]
            for kind in model.pairs if isinstance(model, JudgeModel) else [None]:
                cells = {metric: scores.get(Quantity(metric, kind)) for metric in PREFERENCE_MEASURES}
                title = read_rubric(kind).rubric.title if kind else ""
                if cells["pair_accuracy"]:
                    rows.append({"label": label_of(plan, name), "card": title, **cells})
        if rows and counts:
            tables.append({"title": plan.config.preferences[source].title, "counts": counts, "rows": rows})
    return tables


def own_judges(plan: Plan) -> list[tuple[str, str]]:
    """Judges that answer with a tutor of the run: they judge themselves."""
    answering = [(name, plan.answering(name)) for name in plan.asked_judges]
    return [(label_of(plan, name), label_of(plan, model)) for name, model in answering if model in plan.run.tutors]


def marked(loaded: LoadedRubric) -> list[tuple[str, bool]]:
    """A rubric's prompt in parts, each with whether it is a passage that was filled in."""
    parts: list[tuple[str, bool]] = []
    rest = loaded.prompt
    for passage in sorted(loaded.rubric.filled_in, key=loaded.prompt.index):
        before, _, rest = rest.partition(passage)
        parts += [(before, False), (passage, True)]
    return [*parts, (rest, False)]


def answers_of(judge: JudgeModel) -> str:
    """Who answers for a judge."""
    return judge.model or (f"panel of {', '.join(judge.judges)}" if judge.judges else "lists of words")


def rubric_rows(plan: Plan) -> list[dict[str, Any]]:
    """Each judge's cards and where their texts come from."""
    rows = []
    for name in plan.run.judges:
        for rubric in plan.rubric_names(name):
            card = read_rubric(rubric).rubric
            rows.append(
                {
                    "judge": label_of(plan, name),
                    "answers": answers_of(plan.judge_entry(name)),
                    "title": card.title,
                    "source": card.source,
                    "file": paths.shipped_name(rubric_path(rubric)),
                    "prompt": marked(read_rubric(rubric)),
                }
            )
    return rows


def label_counts(plan: Plan, results: Path) -> dict[str, Any] | None:
    """How many dialogues and replies the first labelled release has."""
    for release in plan.releases:
        path = paths.LABEL_STATISTICS.within(results, release=release)
        if path.exists():
            counts: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))["all"]
            return counts
    return None


def trust_section(plan: Plan, results: Path, lights: LightOf) -> dict[str, Any] | None:
    """Everything that the page on trust shows; None in a run without graders that are models."""
    names = all_graders(plan)
    if not names:
        return None
    return {
        "rows": [row for name in names for row in summary_rows(plan, results, name, lights)],
        "floors": FLOORS,
        "notices": {label_of(plan, name): plan.models[name].notice for name in names if plan.models[name].notice},
        "green": GREEN,
        "amber": AMBER,
        "fewest": FEWEST,
        "figure": agreement_figure(plan, results),
        "dimensions": dimension_tables(plan, results),
        "leniency": leniency_tables(plan, results),
        "columns": COLUMNS,
        "rewards": reward_rows(plan, results),
        "people": people_rows(plan, results),
        "own_agreement": own_agreement(plan, results),
        "states": state_rows(plan, results),
        "margin": plan.config.report.margin,
        "fewest_problems": FEWEST_PROBLEMS,
        "carried": carried_rows(plan, results),
        "apart": people_differences(plan, results),
        "costs": cost_rows(plan, results),
        "panels": panel_rows(plan, results),
        "probes": probe_rows(plan, results),
        "pairs": pair_rows(plan, results),
        "preferences": preference_tables(plan, results) if plan.further_pairs else [],
        "own_judges": own_judges(plan),
        "human_labels": plan.run.human_labels,
        "annotators": annotator_rows(plan, results),
        "rubrics": rubric_rows(plan),
        "judged": plan.judged_benchmarks(),
        "counts": label_counts(plan, results),
        "release": " and ".join(plan.label_sets[release].title for release in plan.releases),
    }
