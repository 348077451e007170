"""KMP-Bench's part of the plan: alignment of judges with people's comparisons."""

from __future__ import annotations

from maieutic.benchmarks.kmpbench import inputs, jobs
from maieutic.core import paths
from maieutic.plan.plan import Plan
from maieutic.plan.slice_plan import SlicePlan
from maieutic.plan.used_code import Replacements, unused_metrics


def report_files(plan: Plan) -> list[str]:
    """Return the alignment file of each judge that compares replies with a reference; empty without human labels."""
    judges = plan.run.judges if plan.run.human_labels else ()
    return [paths.ALIGNMENT.of(judge=name) for name in judges if inputs.compared_verdicts(plan, name)]


def used_by_align_judge(plan: Plan, judge: str) -> Replacements:
    """Leave out the metrics that no card names in the benchmarks where the judge compares replies with a reference."""
    cards = [loaded.card for name in inputs.compared_benchmarks(plan, judge) for loaded in plan.benchmarks[name]]
    return unused_metrics(cards)


PLANNING = SlicePlan(
    inputs=inputs, jobs=jobs, report_files=report_files, used_code={"align_judge": used_by_align_judge}
)
