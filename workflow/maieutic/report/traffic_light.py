"""Traffic lights beside the report's numbers. Each light is for one grader and one kind of this grader's verdicts.

A judge has one kind of verdict for each of its rubrics, named after the rubric. A reward model has one kind: which of
two replies is better. Classifiers have one kind: their labels of dialogues that were held out from training.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

from maieutic.config.cards import JUDGE, REWARD, Card
from maieutic.config.models import BaselineModel, CriteriaModel, JudgeModel, RewardModel
from maieutic.config.rubrics import read_rubric, rubric_for_card
from maieutic.core import paths
from maieutic.core.plugins import plugin_objects
from maieutic.core.records import Label, Quantity, Score, iter_records
from maieutic.people.sample import critical_tags
from maieutic.plan.plan import Plan
from maieutic.report.tables import items_of_task, score_file
from maieutic.scores.score import all_metrics
from maieutic.validation.trust import BINARY, MEAN_KAPPA, WEIGHTED_KAPPA

# Minimum number of labelled replies or pairs for each colour. In the simulation of `bench/lights.py`, up to 15 of 100
# graders with a true kappa of 0.6 or more would be red with 30 labels (if one label is rare), and up to 5 with 50.
FEWEST_FOR_COLOUR = {"green": 30, "amber": 30, "red": 50}
# Thresholds. kappa: weighted kappa with people's labels (0.6 is substantial, 0.4 moderate: Landis and Koch, 1977);
# unreadable: share of unparsed verdicts; flips: share of pairs whose verdict follows the position; pairs: accuracy on
# the pairs; kappa_low, pairs_low: lower ends of the intervals.
GREEN = {"kappa": 0.6, "kappa_low": 0.4, "unreadable": 0.05, "flips": 0.2, "pairs": 0.8, "pairs_low": 0.7}
AMBER = {"kappa": 0.4, "kappa_low": 0.2, "unreadable": 0.2, "flips": 0.4, "pairs": 0.65, "pairs_low": 0.5}
COLOUR_MEANINGS = {
    "green": "substantial agreement with people",
    "amber": "moderate agreement with people: report this agreement with the grader's scores",
    "red": "below substantial agreement with people: base no claim on the grader's scores",
    "grey": "too little evidence for a colour",
    "none": "not validated here",
}


class Light(NamedTuple):
    """A traffic light: its colour, the reason for the colour, and the data on which the grader was measured."""

    colour: str
    why: str
    data: str = ""

    @property
    def meaning(self) -> str:
        """The meaning of the colour."""
        return COLOUR_MEANINGS[self.colour]

    @property
    def summary(self) -> str:
        """One line with the colour's meaning, the reason and the data."""
        return f"{self.meaning} ({'; '.join(filter(None, (self.why, self.data)))})"


NOT_VALIDATED = Light("none", "this run has no labels of people for this kind of verdict")


def kappa_score(scores: Mapping[Quantity, Score], release: str | None, criterion: str | None = None) -> Score | None:
    """Return a grader's weighted kappa on a labelled release; None if it was not measured.

    For classifiers, it is the kappa of binary labels. criterion: None for the mean over all criteria.
    """
    metric = MEAN_KAPPA if criterion is None else WEIGHTED_KAPPA
    kappas = (scores.get(Quantity(metric, criterion, subset, release)) for subset in (None, BINARY))
    return next((kappa for kappa in kappas if kappa is not None), None)


def light_of(
    scores: Mapping[Quantity, Score], release: str | None, rubric: str | None, criterion: str | None = None
) -> Light:
    """Return the traffic light of one grader, by its kappa on a labelled release or, without a kappa, by pair accuracy.

    scores: scores of the grader's validation; release: the labelled release; rubric: the judge's rubric for pairs, None
    for a reward model; criterion: the only criterion to consider, None for all.
    """
    flips = scores.get(Quantity("flip_rate", rubric))
    kappa = kappa_score(scores, release, criterion)
    if kappa is not None:
        checks = {
            "kappa": kappa,
            "unreadable": scores.get(kappa.quantity._replace(metric="unreadable")),
            "flips": flips,
        }
        checks["unreadable pairs"] = scores.get(Quantity("unreadable", rubric))
        total = kappa.n if criterion is None else kappa.n + kappa.missing
        return light_by_thresholds(kappa, total, checks, "labelled replies", "weighted kappa")
    pairs = scores.get(Quantity("pair_accuracy", rubric))
    if pairs is None:
        return Light("grey", "not measured")
    if rubric and pairs.value is not None and (flips is None or flips.value is None):
        return Light("grey", "no pair has a parsed verdict in both orders")
    counted = flips or pairs  # `flips` counts each pair once; a judge's `pairs` counts it twice, once per order
    checks = {"pairs": pairs, "unreadable pairs": scores.get(Quantity("unreadable", rubric)), "flips": flips}
    return light_by_thresholds(pairs, counted.n + counted.missing, checks, "pairs", "accuracy on the pairs")


def light_of_people(kappa: Score) -> Light:
    """Return the light for one kind of verdict by this run's own human labels. kappa: weighted kappa with interval."""
    total = kappa.n + kappa.missing
    unread = kappa.model_copy(update={"value": kappa.missing / total if total else None})
    return light_by_thresholds(
        kappa, total, {"kappa": kappa, "unreadable": unread}, "labelled verdicts", "weighted kappa"
    )


def light_by_thresholds(main: Score, total: int, checks: Mapping[str, Score | None], unit: str, name: str) -> Light:
    """Return the light for one measure, such as kappa, on `total` replies or pairs.

    main: score of the measure; checks: all scores with thresholds, including `main`; a score that misses its threshold
    can worsen the light. unit, name: words for the replies or pairs and for the measure.

    The light is red only if the interval of `main` ends below the green threshold, or if another check fails. It is
    grey if the interval extends from below the amber threshold to the green threshold.
    """
    if total < FEWEST_FOR_COLOUR["amber"]:
        return Light("grey", f"{total} {unit}, fewer than {FEWEST_FOR_COLOUR['amber']}")
    if main.value is None:
        unread = any(check and check.value == 1.0 for key, check in checks.items() if key in UNREADABLE)
        return Light("red", "no verdict can be parsed") if unread else Light("grey", "the labels do not vary")
    summary = f"{name} {main.value:.2f}"
    if main.low is None:
        return Light("grey", f"{summary}, without an interval: too few problems, or labels that are too rare")
    for colour, bound in (("green", GREEN), ("amber", AMBER)):
        if not failed_checks(checks, bound):
            return Light(colour, summary)
    missed = failed_checks(checks, AMBER)
    key = next(key for key, check in checks.items() if check is main)
    if missed == {key} and total < FEWEST_FOR_COLOUR["red"]:
        return Light("grey", f"{summary} on {total} {unit}, but red needs {FEWEST_FOR_COLOUR['red']}")
    if missed == {key} and main.high is not None and main.high >= GREEN[key]:
        return Light("grey", f"{summary} ({main.low:.2f} to {main.high:.2f}) on {total} {unit}")
    values = {key: check.value for key, check in checks.items() if check is not None and key in missed}
    besides = [reason.format(values[key]) for key, reason in REASONS.items() if key in values]
    return Light("red", ", ".join([summary, *besides]))


UNREADABLE = {"unreadable", "unreadable pairs"}
REASONS = {
    "unreadable": "{:.0%} of the verdicts cannot be parsed",
    "unreadable pairs": "{:.0%} of the verdicts on pairs cannot be parsed",
    "flips": "{:.0%} of the pairs are judged by position",
}


def failed_checks(checks: Mapping[str, Score | None], bound: Mapping[str, float]) -> set[str]:
    """Return the checks that miss a colour's thresholds, which are minima for kappa and accuracy, otherwise maxima."""
    missed = set()
    for key, check in checks.items():
        if check is None or check.value is None:
            continue
        if key in {"kappa", "pairs"}:
            if check.value < bound[key] or (check.low or 0.0) < bound[f"{key}_low"]:
                missed.add(key)
        elif check.value > bound[key.split()[0]]:
            missed.add(key)
    return missed


PAIRS, LABELS = "pairs", "labels"
TITLES = {PAIRS: "which of two replies is better", LABELS: "the criteria learnt in training"}
BRIDGE = "Bridge pairs"
# Function of a slice: (plan, results, judge, kind) -> the judge's kappas with people on this run's replies, or None if
# the kind of verdict belongs to another slice
Agreement = Callable[[Plan, Path, str, str], list[Score] | None]
AGREEMENTS: tuple[Agreement, ...] = tuple(plugin_objects("agreement", "AGREEMENT").values())
Measured = dict[Quantity, Score]  # scores of a grader by quantity
LightOf = Callable[..., Light]  # (grader, kind of verdict, optional tutor and criterion) -> light


def all_graders(plan: Plan) -> list[str]:
    """Return the names of the run's graders, judges first. Parsers are left out."""
    return [*plan.run.judges, *plan.reward_models, *plan.classifiers]


def kinds_of_grader(plan: Plan, name: str) -> list[str]:
    """Return a grader's kinds of verdict in this run. Kinds that are checked on labels come first."""
    model = plan.models[name]
    if isinstance(model, RewardModel):
        return [PAIRS]
    if isinstance(model, CriteriaModel):
        return [LABELS]
    assert isinstance(model, JudgeModel)
    checked = [release_rubric(plan, name, release) for release in plan.validating_releases(name)]
    used: list[str] = []
    for benchmark in plan.judged_benchmarks(name):
        for card in plan.judge_cards(benchmark, name):
            loaded = rubric_for_card(name, model, card)
            used += [loaded.name, *([loaded.rubric.follow_up.rubric] if loaded.rubric.follow_up else [])]
    return list(dict.fromkeys([*filter(None, checked), *used, *model.pairs]))


def release_rubric(plan: Plan, judge: str, release: str) -> str | None:
    """Return the name of the rubric with which a judge is checked on a release of labels; None if no rubric fits."""
    loaded = plan.rubric_for_release(judge, release)
    return loaded.name if loaded else None


def kind_on(plan: Plan, name: str, card: Card, metric: str | None = None) -> str | None:
    """Return the kind of a grader's verdicts on a task's replies; None if `name` is not a grader of this run.

    metric: metric of the task. If the metric counts a criterion of the judge's follow-up rubric, the follow-up rubric
    is the kind.
    """
    model = plan.models.get(name)
    if name not in all_graders(plan):
        return None
    if not isinstance(model, JudgeModel):
        return PAIRS if isinstance(model, RewardModel) else LABELS
    loaded = rubric_for_card(name, model, card)
    more = loaded.rubric.follow_up
    criteria = read_rubric(more.rubric).rubric.criteria if more else {}
    if more and metric and all_metrics(card)[metric].criterion in criteria:
        return more.rubric
    return loaded.name


def criterion_on(card: Card, metric: str) -> str | None:
    """Return the criterion that a task's metric counts; None if there is no criterion or no metric with this name."""
    definition = all_metrics(card).get(metric)
    return definition.criterion if definition else None


def kinds_on(plan: Plan, cards: Iterable[Card], names: Callable[[Card], Iterable[str]]) -> list[tuple[str, str]]:
    """Return the distinct pairs of grader and kind of verdict on the given tasks.

    names: function that returns the names of a task's graders.
    """
    kinds = [(name, kind_on(plan, name, card)) for card in cards for name in names(card)]
    return list(dict.fromkeys((name, kind) for name, kind in kinds if kind))


def verdict_kind_title(kind: str) -> str:
    """Return the display name of a kind of verdict."""
    return TITLES.get(kind) or read_rubric(kind).rubric.title


def release_of(plan: Plan, name: str, kind: str) -> str | None:
    """Return the first release of labels on which a kind of verdict was checked, or None."""
    model = plan.models[name]
    if isinstance(model, CriteriaModel):
        return next(iter(plan.validating_releases(name)), None)
    if not isinstance(model, JudgeModel):
        return None
    return next(
        (source for source in plan.validating_releases(name) if release_rubric(plan, name, source) == kind), None
    )


def measured_of(plan: Plan, results: Path, name: str) -> Measured:
    """Return a grader's own scores on labels and pairs, by quantity. Scores of trivial graders are left out."""
    patterns = (paths.LABEL_VALIDATION, paths.PAIR_VALIDATION)
    scores = [score for pattern in patterns for score in score_file(pattern.within(results, grader=name))]
    return {score.quantity: score for score in scores if score.scoring == "robust" and score.grader == name}


def criteria_of_kind(plan: Plan, name: str, kind: str) -> list[str]:
    """Return the criteria of a kind of verdict, empty for verdicts on pairs and for criteria that belong to items."""
    model = plan.models[name]
    if isinstance(model, CriteriaModel):
        return model.train.criteria
    return list(read_rubric(kind).rubric.criteria) if isinstance(model, JudgeModel) and kind not in model.pairs else []


def light_on(plan: Plan, results: Path, name: str, kind: str, criterion: str | None = None) -> Light:
    """Return the light of one grader for one kind of verdict, or for one criterion of this kind.

    A criterion that was not checked separately gets the light of the whole kind.
    """
    model, scores = plan.models[name], measured_of(plan, results, name)
    edition = ", demo edition" if plan.edition == "demo" else ""
    if kind == PAIRS or (isinstance(model, JudgeModel) and kind in model.pairs):
        rubric = None if kind == PAIRS else kind
        pairs = scores.get(Quantity("pair_accuracy", rubric))
        judged = scores.get(Quantity("flip_rate", rubric)) or pairs
        data = f"{BRIDGE}{edition}, {judged.n + judged.missing:,}" if judged else ""
        return light_of(scores, None, rubric)._replace(data=data)
    if release := release_of(plan, name, kind):
        alone = criterion if criterion is not None and kappa_score(scores, release, criterion) else None
        kappa = kappa_score(scores, release, alone)
        data = f"{plan.label_sets[release].title}{edition}, {kappa.n:,} replies" if kappa else ""
        return light_of(scores, release, None, alone)._replace(data=data)
    people = people_kappa(plan, results, name, kind, criterion) if plan.run.human_labels else None
    if people is None:
        return NOT_VALIDATED
    critical = critical_tags(kind)
    if critical and (labelled := critical_labels(plan, results, name, kind)) < FEWEST_FOR_COLOUR["red"]:
        tags = ", ".join(f"{tag} {value}" for tag, value in critical.items())
        return Light("grey", f"{labelled} labelled replies to items with {tags}, fewer than {FEWEST_FOR_COLOUR['red']}")
    return light_of_people(people)._replace(data=f"{plan.run.human_labels}, labels of this run's replies")


def people_kappa(plan: Plan, results: Path, judge: str, kind: str, criterion: str | None = None) -> Score | None:
    """Return a judge's weighted kappa with people's labels of this run's replies; None if no reply is labelled.

    criterion: a criterion that people labelled separately; if None, the mean over all criteria is returned.
    """
    of_slices = (agreement(plan, results, judge, kind) for agreement in AGREEMENTS)
    kappas: list[Score] = next((scores for scores in of_slices if scores is not None), [])
    if not kappas and kind in plan.tasks_by_rubric(judge):
        scores = score_file(paths.CORRECTED.within(results, judge=judge))
        quantities = (Quantity(WEIGHTED_KAPPA, criterion), Quantity(MEAN_KAPPA, kind))
        robust = {score.quantity: score for score in scores if score.scoring == "robust"}
        kappas = [robust[quantity] for quantity in quantities if quantity in robust]
    return next((kappa for kappa in kappas if kappa.n + kappa.missing), None)


def critical_labels(plan: Plan, results: Path, judge: str, kind: str) -> int:
    """Return the number of labelled replies to items that the rubric of a judge's kind of verdict calls critical."""
    critical, labels = critical_tags(kind), Path(paths.OWN_LABELS.within(results))
    if not critical or not labels.is_file():
        return 0
    cards = [card for benchmark in plan.judged_benchmarks(judge) for card in plan.judge_cards(benchmark, judge)]
    tasks = plan.tasks_by_rubric(judge).get(kind, [])
    items = {
        (card.task, item.id)
        for card in cards
        if card.task in tasks
        for item in items_of_task(results, card.benchmark, card.task)
        if critical.items() <= item.tags.items()
    }
    criteria = read_rubric(kind).rubric.criteria
    judged = (label for label in iter_records(labels, Label) if label.criterion in criteria)
    labelled = {(label.task, label.id, label.tutor) for label in judged}
    return sum((task, name) in items for task, name, _ in labelled)


def labelled_tutors(plan: Plan, results: Path, judge: str, kind: str) -> set[str]:
    """Return the tutors of this run whose replies people have labelled by the criteria of a judge's kind of verdict."""
    if not plan.run.human_labels or kind not in plan.tasks_by_rubric(judge):
        return set()
    criteria = read_rubric(kind).rubric.criteria
    scores = score_file(paths.CORRECTED.within(results, judge=judge))
    return {str(score.tutor) for score in scores if score.metric == "ppi" and score.criterion in criteria}


def light_on_tutor(light: Light, is_labelled: bool) -> Light:
    """Return a judge's light for one tutor. A green light stays green only if people labelled this tutor's replies."""
    if light.colour == "green" and not is_labelled:
        return light._replace(colour="amber", why=f"{light.why}; no labels of this tutor's replies")
    return light


def headline_grader(plan: Plan, card: Card) -> str | None:
    """Return the reward model or judge that grades a task's headline metric; None if a parser grades it."""
    first = {REWARD: plan.run.reward_models[:1], JUDGE: plan.judges_of_card(card)[:1]}
    metric = card.headline_metric
    return next(iter(first.get(str(metric.grader), [])), None) if metric else None


def light_lookup(plan: Plan, results: Path) -> LightOf:
    """Return a cached function that returns a grader's light for a kind of verdict.

    A tutor and a criterion may be passed as well; otherwise the light is for all tutors and for all criteria.
    """

    on_all = cache(partial(light_on, plan, results))
    labelled = cache(partial(labelled_tutors, plan, results))

    def light(name: str, kind: str, tutor: str | None = None, criterion: str | None = None) -> Light:
        trivial = tutor is None or isinstance(plan.models.get(tutor), BaselineModel)
        if tutor is None or trivial or not isinstance(plan.models[name], JudgeModel):
            return on_all(name, kind, criterion)
        return light_on_tutor(on_all(name, kind, criterion), tutor in labelled(name, kind))

    return light
