"""ProcessBench (Zheng et al., 2024), GSM8K part: models' solutions with the first wrong step. Licence Apache-2.0.

No reference answers: the solutions can be judged and not corrected.
"""

from __future__ import annotations

from maieutic.benchmarks.kmpbench.items import Posed, Solved, detected
from maieutic.config.datasets import Source
from maieutic.core.records import Item


def detection(records: list[Source], task: str) -> list[Item]:
    """400 items, 207 of them wrong. `label` is counted from 0, and -1 where all steps are right."""
    return [
        detected(
            record["id"],
            task,
            Posed(record["problem"], "", ""),
            Solved(record["steps"], int(record["label"]) + 1),
            {"generator": record["generator"]},
        )
        for record in records
    ]
