"""Report page with all riddles."""

from __future__ import annotations

from typing import Any

from maieutic.core import paths
from maieutic.core.records import Item, read_records
from maieutic.report.sections import ReportInput, Section


def variables(run: ReportInput) -> dict[str, Any] | None:
    """Return the riddles of the run and their things, or None if the run has no riddles."""
    if "riddles" not in run.plan.benchmarks:
        return None
    items = read_records(paths.ITEMS.within(run.results, benchmark="riddles", task="things"), Item)
    return {"riddles": [(item.vars["riddle"], item.reference["thing"]) for item in items]}


PAGES = (Section("#/riddles", "Riddles", "riddles", variables),)
