"""The GSM8K part of ProcessBench (Zheng et al., 2024): solutions by models, annotated with the first wrong step.

It has no reference answers, so its items are used for error detection but not for correction. Licence: Apache-2.0.
"""

from __future__ import annotations

from maieutic.benchmarks.kmpbench.items import SolvedProblem, StudentAttempt, ec_item
from maieutic.config.datasets import SourceRecord
from maieutic.core.records import Item


def processbench_items(records: list[SourceRecord], task: str) -> list[Item]:
    """Load 400 EC items. The solution is wrong in 207 of them.

    A record's `label` is the first wrong step, counted from 0, or -1 if all steps are right.
    """
    return [
        ec_item(
            record["id"],
            task,
            SolvedProblem(record["problem"], "", ""),
            StudentAttempt(record["steps"], int(record["label"]) + 1),
            {"generator": record["generator"]},
        )
        for record in records
    ]
