"""Part of the plan that covers scores."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from maieutic.config.cards import JUDGE, REWARD, Card, LoadedCard
from maieutic.config.models import HostedModel, VllmModel
from maieutic.config.registry import unknown_name
from maieutic.core import paths
from maieutic.core.errors import UserError
from maieutic.plan.plan import Plan
from maieutic.plan.slice_plan import Checks, SlicePlan, used_on_benchmark
from maieutic.replies.stage import reader_grades
from maieutic.scores.anytime import BoundMeans, is_mean_of_shares
from maieutic.scores.differences import CompareTutors
from maieutic.scores.printed import check_papers
from maieutic.scores.registry import METRICS
from maieutic.scores.score import ScoreReplies


def judge_grades(plan: Plan, benchmark: str, tutor: str) -> list[str]:
    """Return the grade files for one tutor's replies, one for each judge."""
    return [
        paths.JUDGE_GRADES.of(benchmark=benchmark, judge=judge, tutor=tutor)
        for judge in plan.judges_of(benchmark, tutor)
    ]


def reward_grades(plan: Plan, benchmark: str, tutor: str) -> list[str]:
    """Return the grade files for one tutor's replies, one for each reward model; empty if no model scores them."""
    if benchmark not in plan.rewarded_benchmarks:
        return []
    if not any(tutor in tutors for tutors in plan.reward_batches(benchmark).values()):
        return []
    return [
        paths.REWARD_GRADES.of(benchmark=benchmark, reward_model=name, tutor=tutor) for name in plan.run.reward_models
    ]


def leading_graders(plan: Plan, benchmark: str) -> list[str]:
    """Return the files that name the leading reward model and judge, without those that are the run's first ones."""
    chosen = {
        paths.LEADING_REWARD_MODEL: plan.chooses_reward_model and benchmark in plan.rewarded_benchmarks,
        paths.LEADING_JUDGE: plan.chooses_judge and benchmark in plan.judged_benchmarks(),
    }
    return [path.of() for path, is_chosen in chosen.items() if is_chosen]


def all_grades(plan: Plan, benchmark: str, tutor: str) -> list[str]:
    """Return all grade files for one tutor's replies: those of parsers, the reader, reward models and judges."""
    parsed = paths.PARSED.of(benchmark=benchmark, tutor=tutor)
    by_models = (reader_grades, reward_grades, judge_grades)
    return [parsed, *(file for grades in by_models for file in grades(plan, benchmark, tutor))]


def tutors_and_floors(plan: Plan, benchmark: str) -> list[str]:
    """Return the run's tutors that answer a benchmark, and the trivial tutors with which they are compared."""
    return [*plan.compared_tutors(benchmark), *plan.floor_tutors(benchmark)]


def compared_grades(plan: Plan, benchmark: str) -> list[str]:
    """Return all grade files of the tutors that are compared on a benchmark."""
    return [file for tutor in tutors_and_floors(plan, benchmark) for file in all_grades(plan, benchmark, tutor)]


def absent_grader_kinds(plan: Plan, benchmark: str) -> list[str]:
    """Return the kinds of model graders that a benchmark's cards name but the run lacks.

    If a kind is absent, the tables lead with the substitute metrics that the cards define.
    """
    here = [path for path, loaded in plan.cards.items() if loaded.card.benchmark == benchmark]
    shipped = {kind for path in here for kind in plan.shipped_card(path, plan.run.protocol).card.graders}
    by_kind = {REWARD: plan.run.reward_models, JUDGE: benchmark in plan.judged_benchmarks()}
    return [kind for kind, graders in by_kind.items() if kind in shipped and not graders]


def scoring_fields(plan: Plan, benchmark: str, judged: list[Card]) -> dict[str, Any]:
    """Return the fields that all scoring jobs of a benchmark share. judged: cards whose replies judges grade."""
    return {
        "benchmark": benchmark,
        "judging": {card.task: plan.judges_of_card(card) for card in judged},
        "absent": absent_grader_kinds(plan, benchmark),
        "unjudged": plan.tasks_without_rubric.get(benchmark, []),
        **plan.bootstrap_settings,
    }


def score_replies_job(plan: Plan, benchmark: str, tutor: str) -> ScoreReplies:
    """Return the job that scores a tutor's replies, without judges if no judge judges these replies.

    A tutor that is not judged has no headline score on tasks that judges grade.
    """
    judged = plan.judge_cards(benchmark) if plan.judges_of(benchmark, tutor) else []
    return ScoreReplies(
        tutor=tutor,
        tasks=plan.tasks_for(benchmark, tutor),
        repeats=plan.repeats_of(tutor),
        max_missing=plan.run.max_missing if isinstance(plan.models[tutor], HostedModel | VllmModel) else 1.0,
        **scoring_fields(plan, benchmark, judged),
    )


def compare_tutors_job(plan: Plan, benchmark: str) -> CompareTutors:
    """Return the job that compares tutors on a benchmark, by each grader that at least one of them has.

    The job's `tutors` repeats the name of a tutor for each of its grade files.
    """
    return CompareTutors(
        tutors=[name for name in tutors_and_floors(plan, benchmark) for _ in all_grades(plan, benchmark, name)],
        floors=plan.floor_tutors(benchmark),
        tasks=[loaded.card.task for loaded in plan.benchmarks[benchmark]],
        repeats={name: several for name in plan.compared_tutors(benchmark) if (several := plan.repeats_of(name)) > 1},
        **scoring_fields(plan, benchmark, plan.judge_cards(benchmark)),
    )


def compared_sources(plan: Plan, benchmark: str) -> list[str]:
    """Return the source file of each selected task of a benchmark."""
    return [paths.SOURCE.of(dataset=loaded.card.dataset) for loaded in plan.benchmarks[benchmark]]


def compared_pictures(plan: Plan, benchmark: str) -> list[str]:
    """Return the list of pictures of each selected task with pictures."""
    cards = [loaded.card for loaded in plan.benchmarks[benchmark]]
    return [paths.PICTURE_LIST.of(dataset=card.dataset) for card in cards if card.images]


def bound_means_job(plan: Plan, benchmark: str) -> BoundMeans:
    cards = [loaded.card for loaded in plan.benchmarks[benchmark]]
    forms = {card.task: plan.datasets[card.dataset].format_of(plan.edition) for card in cards}
    pictured = [card.task for card in cards if card.images]
    tutors = tutors_and_floors(plan, benchmark)
    models = {name: plan.models[name] for name in tutors}
    return BoundMeans(
        **dict(compare_tutors_job(plan, benchmark)),
        forms=forms,
        pictured=pictured,
        answered={name: plan.tasks_for(benchmark, name) for name in tutors},
        asked={name: model.repeats for name, model in models.items() if isinstance(model, HostedModel | VllmModel)},
        limit=plan.run.limit,
    )


def bounds_files(plan: Plan) -> list[str]:
    """Return the files of bounds that the report reads; empty for a run that does not stop at a width."""
    return [paths.MEAN_BOUNDS.of(benchmark=name) for name in plan.benchmarks] if plan.run.stop_width else []


def check_metrics(path: Path, loaded: LoadedCard) -> None:
    """Raise UserError if a card names an unknown metric. path: the card's file."""
    for name, metric in loaded.card.metrics.items():
        if (function := metric.function or name) not in METRICS:
            raise unknown_name(f"{path}: metrics.{name}", function, list(METRICS), "the registry")


def check_stop_width(plan: Plan) -> None:
    """Raise UserError if a run is to stop at a width, but none of its headlines has an interval that decides."""
    heads = [(loaded.card.headline, loaded.card.headline_metric) for loaded in plan.cards.values()]
    has_mean = any(metric and is_mean_of_shares(METRICS[metric.function or name], metric) for name, metric in heads)
    if plan.run.stop_width is not None and not has_mean:
        problem = "no headline of this run is a mean of numbers from 0 to 1, so no interval decides when to stop"
        raise UserError("run.stop_width (--stop-at)", problem, "remove the option")


STAGE = SlicePlan(
    module=__name__,
    checks=Checks(
        names=lambda plan: [partial(check_papers, plan.models)],
        cards=lambda plan: [partial(check_metrics, path, loaded) for path, loaded in plan.cards.items()],
        data=lambda plan: [partial(check_stop_width, plan)],
    ),
    report_files=bounds_files,
    used_code={
        "score_replies": used_on_benchmark,
        "compare_tutors": used_on_benchmark,
        "bound_means": used_on_benchmark,
    },
)
