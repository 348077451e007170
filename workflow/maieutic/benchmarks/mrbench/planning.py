"""MRBench's part of the plan: submissions to the BEA 2025 shared task."""

from __future__ import annotations

from maieutic.benchmarks.mrbench import inputs, jobs
from maieutic.core import paths
from maieutic.plan.plan import Plan
from maieutic.plan.slice_plan import SlicePlan


def submissions(plan: Plan) -> list[str]:
    """Return the submission file of each judge for each unlabelled release that the judge labels."""
    return [
        paths.SUBMISSION.of(release=release, judge=judge)
        for judge in plan.run.judges
        for release in plan.predicted_releases(judge)
    ]


PLANNING = SlicePlan(inputs=inputs, jobs=jobs, last_files=submissions)
