"""The light beside a number: it belongs to a grader and to the kind of verdict that people have checked.

A kind of a judge's verdicts is the rubric that it judges by. Reward models know one kind, which of two replies is
better; classifiers one, the labels that they were held back from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache, partial
from pathlib import Path

from maieutic.benchmarks.kmpbench.alignment import ALL, KAPPA
from maieutic.benchmarks.tutorbench.raters import KAPPA as RATED_KAPPA
from maieutic.config.cards import JUDGE, REWARD, Card
from maieutic.config.models import BaselineModel, CriteriaModel, JudgeModel, RewardModel
from maieutic.core import paths
from maieutic.core.records import Quantity, Score
from maieutic.judges.assignments import rubric_of
from maieutic.judges.rubrics import read_rubric
from maieutic.plan.plan import Plan
from maieutic.report.tables import score_file
from maieutic.scores.score import all_metrics
from maieutic.validation.carry_over import BIAS, State, state_of, worst_of
from maieutic.validation.traffic_light import NOT_VALIDATED, Light, light_of, light_of_people, mean_kappa
from maieutic.validation.trust import MEAN_KAPPA, WEIGHTED_KAPPA

PAIRS, LABELS = "pairs", "labels"
TITLES = {PAIRS: "which of two replies is better", LABELS: "the criteria that they have learnt"}
BRIDGE = "Bridge pairs"
Measured = dict[Quantity, Score]  # by what was measured
LightOf = Callable[..., Light]  # of a grader and a kind, and of a tutor whose replies it grades


def all_graders(plan: Plan) -> list[str]:
    """Every grader of the run that is a model: judges first."""
    return [*plan.run.judges, *plan.reward_models, *plan.classifiers]


def kinds_of(plan: Plan, name: str) -> list[str]:
    """The kinds of verdict that a grader gives in this run: those that were checked on labels first."""
    model = plan.models[name]
    if isinstance(model, RewardModel):
        return [PAIRS]
    if isinstance(model, CriteriaModel):
        return [LABELS]
    assert isinstance(model, JudgeModel)
    checked = [release_rubric(plan, name, release) for release in plan.releases_for(name)]
    used: list[str] = []
    for benchmark in plan.judged_benchmarks(name):
        for card in plan.judge_cards(benchmark, name):
            loaded = rubric_of(name, model, card)
            used += [loaded.name, *([loaded.rubric.follow_up.rubric] if loaded.rubric.follow_up else [])]
    return list(dict.fromkeys([*filter(None, checked), *used, *model.pairs]))


def release_rubric(plan: Plan, judge: str, release: str) -> str | None:
    """The name of the rubric by which a judge is checked on a labelled set."""
    loaded = plan.rubric_on(judge, release)
    return loaded.name if loaded else None


def kind_on(plan: Plan, name: str, card: Card, metric: str | None = None) -> str | None:
    """The kind of verdict that a grader gives on the replies to a task, or that one of its metrics rests on.

    None of what is no grader of this run.
    """
    model = plan.models.get(name)
    if name not in all_graders(plan):
        return None
    if not isinstance(model, JudgeModel):
        return PAIRS if isinstance(model, RewardModel) else LABELS
    loaded = rubric_of(name, model, card)
    more = loaded.rubric.follow_up
    asked_after = read_rubric(more.rubric).rubric.criteria if more else {}
    if more and metric and all_metrics(card)[metric].criterion in asked_after:
        return more.rubric
    return loaded.name


def criterion_on(card: Card, metric: str) -> str | None:
    """Return the criterion that a metric of a task rests on; None of a metric that the task does not have."""
    found = all_metrics(card).get(metric)
    return found.criterion if found else None


def kinds_on(plan: Plan, cards: Iterable[Card], names: Callable[[Card], Iterable[str]]) -> list[tuple[str, str]]:
    """Each grader of some tasks with each kind of its verdicts on them."""
    kinds = [(name, kind_on(plan, name, card)) for card in cards for name in names(card)]
    return list(dict.fromkeys((name, kind) for name, kind in kinds if kind))


def title_of(kind: str) -> str:
    """What a kind of verdict is called."""
    return TITLES.get(kind) or read_rubric(kind).rubric.title


def release_of(plan: Plan, name: str, kind: str) -> str | None:
    """The labelled release on which a kind of verdict was checked: the first one that fits."""
    model = plan.models[name]
    if isinstance(model, CriteriaModel):
        return next(iter(plan.releases_for(name)), None)
    if not isinstance(model, JudgeModel):
        return None
    return next((source for source in plan.releases_for(name) if release_rubric(plan, name, source) == kind), None)


def measured_of(plan: Plan, results: Path, name: str) -> Measured:
    """What was measured of one grader itself, by metric: on labels, and on the pairs."""
    patterns = (paths.LABEL_VALIDATION, paths.PAIR_VALIDATION)
    scores = [score for pattern in patterns for score in score_file(pattern.within(results, grader=name))]
    return {score.quantity: score for score in scores if score.scoring == "robust" and score.grader == name}


def criteria_of(plan: Plan, name: str, kind: str) -> list[str]:
    """Return the criteria of a kind of verdict that a grader gives; none of pairs, and of items' own criteria."""
    model = plan.models[name]
    if isinstance(model, CriteriaModel):
        return model.train.criteria
    return list(read_rubric(kind).rubric.criteria) if isinstance(model, JudgeModel) and kind not in model.pairs else []


def light_on(plan: Plan, results: Path, name: str, kind: str, criterion: str | None = None) -> Light:
    """Return the light of one grader for one kind of verdict, or for one criterion of it.

    A criterion that was not checked alone has the light of its kind.
    """
    model, scores = plan.models[name], measured_of(plan, results, name)
    edition = ", demo edition" if plan.edition == "demo" else ""
    if kind == PAIRS or (isinstance(model, JudgeModel) and kind in model.pairs):
        rubric = None if kind == PAIRS else kind
        pairs = scores.get(Quantity("pair_accuracy", rubric))
        asked = scores.get(Quantity("flip_rate", rubric)) or pairs
        data = f"{BRIDGE}{edition}, {asked.n + asked.missing:,}" if asked else ""
        return light_of(scores, None, rubric)._replace(data=data)
    if release := release_of(plan, name, kind):
        alone = criterion if criterion is not None and mean_kappa(scores, release, criterion) else None
        kappa = mean_kappa(scores, release, alone)
        data = f"{plan.label_sets[release].title}{edition}, {kappa.n:,} replies" if kappa else ""
        return light_of(scores, release, None, alone)._replace(data=data)
    people = people_kappa(plan, results, name, kind, criterion) if plan.run.human_labels else None
    if people is None:
        return NOT_VALIDATED
    return light_of_people(people)._replace(data=f"{plan.run.human_labels}, labels of this run's replies")


def people_kappa(plan: Plan, results: Path, judge: str, kind: str, criterion: str | None = None) -> Score | None:
    """Return a judge's weighted kappa with the labels that people gave to this run's replies; None without labels.

    criterion: the one that is asked about, where people labelled it alone; None: the mean over all.
    """
    rubric = read_rubric(kind).rubric
    kappas: list[Score] = []
    if rubric.about_tutor:
        scores = score_file(paths.ALIGNMENT.within(results, judge=judge))
        kappas = [score for score in scores if (score.tutor, score.metric) == (ALL, KAPPA)]
    elif rubric.rules.weighted:
        for benchmark in plan.judged_benchmarks(judge):
            cards = plan.judge_cards(benchmark, judge)
            if any(rubric_of(judge, plan.judge_entry(judge), card).name == kind for card in cards):
                scores = score_file(paths.RATERS.within(results, judge=judge, benchmark=benchmark))
                kappas += [score for score in scores if (score.grader, score.metric) == (judge, RATED_KAPPA)]
    elif kind in plan.labelled_by(judge):
        scores = score_file(paths.CORRECTED.within(results, judge=judge))
        wanted = (Quantity(WEIGHTED_KAPPA, criterion), Quantity(MEAN_KAPPA, kind))
        robust = {score.quantity: score for score in scores if score.scoring == "robust"}
        kappas = [robust[quantity] for quantity in wanted if quantity in robust]
    return next((kappa for kappa in kappas if kappa.n + kappa.missing), None)


def states_of(plan: Plan, results: Path, judge: str, kind: str) -> dict[str, dict[str, tuple[State, Score]]]:
    """By tutor that people have labelled, and criterion of a kind, whether the judge's agreement carries over to it."""
    if not plan.run.human_labels or kind not in plan.labelled_by(judge):
        return {}
    criteria = read_rubric(kind).rubric.criteria
    states: dict[str, dict[str, tuple[State, Score]]] = {}
    for found in score_file(paths.CORRECTED.within(results, judge=judge)):
        if found.metric == BIAS and found.criterion in criteria and found.tutor is not None:
            state = state_of(found, plan.config.report.margin)
            states.setdefault(found.tutor, {})[str(found.criterion)] = (state, found)
    return states


def on_tutor(light: Light, state: State, margin: float) -> Light:
    """A judge's light on one tutor, by whether its agreement with people carries over: no green without a PASS."""
    if state == "FAIL":
        return light._replace(colour="red", why=f"{light.why}; on this tutor its rate is off by more than {margin}")
    if light.colour == "green" and state != "PASS":
        return light._replace(colour="amber", why=f"{light.why}; on this tutor: {state.lower()}")
    return light


def headliner(plan: Plan, card: Card) -> str | None:
    """Return the reward model or judge on which a task's headline rests: the run's first that grades it."""
    first = {REWARD: plan.run.reward_models[:1], JUDGE: plan.judges_of_card(card)[:1]}
    metric = card.headline_metric
    return next(iter(first.get(str(metric.grader), [])), None) if metric else None


def lights(plan: Plan, results: Path) -> LightOf:
    """The light of each grader and kind of verdict, on all or on one tutor, looked up once."""

    on_all = cache(partial(light_on, plan, results))
    states = cache(partial(states_of, plan, results))

    def light(name: str, kind: str, tutor: str | None = None, criterion: str | None = None) -> Light:
        trivial = tutor is None or isinstance(plan.models.get(tutor), BaselineModel)
        if tutor is None or trivial or not isinstance(plan.models[name], JudgeModel):
            return on_all(name, kind, criterion)
        by_criterion = states(name, kind).get(tutor, {})
        asked = [by_criterion[criterion]] if criterion in by_criterion else [*by_criterion.values()]
        return on_tutor(on_all(name, kind, criterion), worst_of(state for state, _ in asked), plan.config.report.margin)

    return light
