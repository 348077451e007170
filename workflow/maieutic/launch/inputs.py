"""Input files of the rules for the run as a whole that depend on the run's tasks and models."""

from __future__ import annotations

from maieutic.core import paths
from maieutic.plan.plan import Plan


def last_checks(plan: Plan) -> list[str]:
    """Return the outputs of a run's last two checks (of the page, of missing verdicts), and slices' last files."""
    return [
        plan.run_path(paths.REPORT_CHECK),
        plan.run_path(paths.KEPT),
        *([plan.run_path(paths.JUDGE_CHECK)] if plan.run.judges else []),
        *(file for part in plan.slices for file in part.last_files(plan)),
    ]
