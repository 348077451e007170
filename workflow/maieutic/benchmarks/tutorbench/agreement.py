"""Agreement of a judge with people who rated the criteria of this run's items, for the report's traffic lights."""

from __future__ import annotations

from pathlib import Path

from maieutic.benchmarks.tutorbench.raters import KAPPA
from maieutic.config.rubrics import read_rubric, rubric_for_card
from maieutic.core import paths
from maieutic.core.records import Score
from maieutic.plan.plan import Plan
from maieutic.report.tables import score_file


def rated_kappa(plan: Plan, results: Path, judge: str, kind: str) -> list[Score] | None:
    """Return a judge's kappa with the majority of raters, by benchmark, or None if the rubric has its own criteria.

    The list is empty if the run has no ratings. results: folder of the results; kind: name of the rubric.
    """
    if not read_rubric(kind).rubric.rules.weighted:
        return None
    kappas: list[Score] = []
    for benchmark in plan.judged_benchmarks(judge):
        cards = plan.judge_cards(benchmark, judge)
        if any(rubric_for_card(judge, plan.judge_entry(judge), card).name == kind for card in cards):
            scores = score_file(paths.RATERS.within(results, judge=judge, benchmark=benchmark))
            kappas += [score for score in scores if (score.grader, score.metric) == (judge, KAPPA)]
    return kappas


AGREEMENT = rated_kappa
