"""Jobs of KMP-Bench's own rules. Each function has the name of its rule and maps wildcards to a job."""

from __future__ import annotations

from maieutic.benchmarks.kmpbench.alignment import AlignJudge
from maieutic.plan.plan import Plan
from maieutic.validation.jobs import people_label_fields


def align_judge(plan: Plan, judge: str) -> AlignJudge:
    return AlignJudge(judge=judge, **people_label_fields(plan))
