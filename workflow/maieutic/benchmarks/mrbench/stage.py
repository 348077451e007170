"""MRBench's part of the plan: submissions to the BEA 2025 shared task."""

from __future__ import annotations

from maieutic.benchmarks.mrbench.predictions import WriteSubmission
from maieutic.core import paths
from maieutic.plan.inputs import source_files
from maieutic.plan.plan import Plan
from maieutic.plan.slice_plan import SlicePlan


def submission_source(plan: Plan, release: str) -> list[str]:
    """Return the source files of an unlabelled release."""
    return source_files(plan.label_datasets(release))


def write_submission_job(plan: Plan, judge: str, release: str) -> WriteSubmission:
    return WriteSubmission(release=release)


def submissions(plan: Plan) -> list[str]:
    """Return the submission file of each judge for each unlabelled release that the judge labels."""
    return [
        paths.SUBMISSION.of(release=release, judge=judge)
        for judge in plan.run.judges
        for release in plan.predicted_releases(judge)
    ]


STAGE = SlicePlan(module=__name__, last_files=submissions)
