"""Jobs of the rules for scores. The function named like a rule returns the rule's job."""

from __future__ import annotations

from typing import Any

from maieutic.config.cards import JUDGE, REWARD, Card
from maieutic.plan.plan import Plan
from maieutic.scores.differences import CompareTutors
from maieutic.scores.inputs import all_grades
from maieutic.scores.score import ScoreReplies


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


def score_replies(plan: Plan, benchmark: str, tutor: str) -> ScoreReplies:
    """Return the job that scores a tutor's replies, without judges if no judge judges these replies.

    A tutor that is not judged has no headline score on tasks that judges grade.
    """
    judged = plan.judge_cards(benchmark) if plan.judges_of(benchmark, tutor) else []
    return ScoreReplies(
        tutor=tutor,
        tasks=plan.tasks_for(benchmark, tutor),
        repeats=plan.repeats_of(tutor),
        **scoring_fields(plan, benchmark, judged),
    )


def compare_tutors(plan: Plan, benchmark: str) -> CompareTutors:
    """Return the job that compares tutors on a benchmark, by each grader that at least one of them has.

    The job's `tutors` repeats the name of a tutor for each of its grade files.
    """
    return CompareTutors(
        tutors=[name for name in plan.compared_tutors(benchmark) for _ in all_grades(plan, benchmark, name)],
        tasks=[loaded.card.task for loaded in plan.benchmarks[benchmark]],
        repeats={name: several for name in plan.compared_tutors(benchmark) if (several := plan.repeats_of(name)) > 1},
        **scoring_fields(plan, benchmark, plan.judge_cards(benchmark)),
    )
