"""ProcessBench (Zheng et al., 2024), GSM8K part: models' solutions with the first wrong step. Licence Apache-2.0.

There are no reference answers, so the solutions can be judged but not corrected.
"""

from __future__ import annotations

from maieutic.benchmarks.kmpbench.items import SolvedProblem, StudentAttempt, ec_item
from maieutic.config.datasets import SourceRecord
from maieutic.core.records import Item


def processbench_items(records: list[SourceRecord], task: str) -> list[Item]:
    """Return 400 items, 207 of them with a wrong solution.

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
