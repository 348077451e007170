"""Agreement of a judge with people's comparisons of this run's replies, for the report's traffic lights."""

from __future__ import annotations

from pathlib import Path

from maieutic.benchmarks.kmpbench.alignment import ALIGNMENT_KAPPA, ALL_TUTORS
from maieutic.config.rubrics import read_rubric
from maieutic.core import paths
from maieutic.core.records import Score
from maieutic.plan.plan import Plan
from maieutic.report.tables import score_file


def comparison_kappa(plan: Plan, results: Path, judge: str, kind: str) -> list[Score] | None:
    """Return a judge's weighted kappa with people over all tutors, or None if the rubric does not compare two replies.

    The list is empty if the judge has no alignment. results: folder of the results; kind: name of the rubric.
    """
    if not read_rubric(kind).rubric.about_tutor:
        return None
    scores = score_file(paths.ALIGNMENT.within(results, judge=judge))
    return [score for score in scores if (score.tutor, score.metric) == (ALL_TUTORS, ALIGNMENT_KAPPA)]


AGREEMENT = comparison_kappa
