"""Agreement of a judge with people's comparisons of this run's replies, for the report's lights."""

from __future__ import annotations

from pathlib import Path

from maieutic.benchmarks.kmpbench.alignment import ALIGNMENT_KAPPA, ALL_TUTORS
from maieutic.core import paths
from maieutic.core.records import Score
from maieutic.judges.rubrics import read_rubric
from maieutic.plan.plan import Plan
from maieutic.report.tables import score_file


def comparison_kappa(plan: Plan, results: Path, judge: str, kind: str) -> list[Score] | None:
    """Return a judge's weighted kappa over all tutors; None if verdicts of this kind compare no reply with another.

    results: folder of the results; kind: name of the rubric. Empty if the run has no alignment.
    """
    if not read_rubric(kind).rubric.about_tutor:
        return None
    scores = score_file(paths.ALIGNMENT.within(results, judge=judge))
    return [score for score in scores if (score.tutor, score.metric) == (ALL_TUTORS, ALIGNMENT_KAPPA)]


AGREEMENT = comparison_kappa
