"""Traffic lights beside the report's numbers. Each light is for one grader and one kind of this grader's verdicts.

A judge has one kind of verdict for each of its rubrics, named after the rubric. A reward model has one kind: which of
two replies is better. Classifiers have one kind: their labels of dialogues that were held out from training.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache, partial
from pathlib import Path

from maieutic.config.cards import JUDGE, REWARD, Card
from maieutic.config.models import BaselineModel, CriteriaModel, JudgeModel, RewardModel
from maieutic.config.rubrics import read_rubric, rubric_for_card
from maieutic.core import paths
from maieutic.core.plugins import plugin_objects
from maieutic.core.records import Quantity, Score
from maieutic.plan.plan import Plan
from maieutic.report.tables import score_file
from maieutic.scores.score import all_metrics
from maieutic.validation.traffic_light import NOT_VALIDATED, Light, kappa_score, light_of, light_of_people
from maieutic.validation.trust import MEAN_KAPPA, WEIGHTED_KAPPA

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
