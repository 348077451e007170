"""Input files of MRBench's own rules that depend on the run's tasks and models (as in `maieutic.plan.inputs`)."""

from __future__ import annotations

from maieutic.plan.inputs import source_files
from maieutic.plan.plan import Plan


def submission_source(plan: Plan, release: str) -> list[str]:
    """Return the source files of an unlabelled release."""
    return source_files(plan.label_datasets(release))
