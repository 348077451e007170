"""Jobs of MRBench's own rules. Each function has the name of its rule and maps wildcards to a job."""

from __future__ import annotations

from maieutic.benchmarks.mrbench.submission import WriteSubmission
from maieutic.plan.plan import Plan


def write_submission(plan: Plan, judge: str, release: str) -> WriteSubmission:
    return WriteSubmission(release=release)
