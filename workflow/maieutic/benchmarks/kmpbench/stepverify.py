"""StepVerify's solutions as items of error detection."""

from __future__ import annotations

from maieutic.benchmarks.kmpbench.items import Posed, Solved, detected
from maieutic.config.datasets import Source
from maieutic.core.records import Item


def detection(records: list[Source], task: str) -> list[Item]:
    """KMP-Bench's EC: the wrong solution with its step and reason, and the reference solution as its right twin.

    Three in ten have no description of the error; there the reason is its category. The last step is the bare answer,
    which in 16 records is the first that is wrong.
    """
    items = []
    for number, record in enumerate(records):
        lines = [line.strip() for line in record["reference_solution"].split("\n") if line.strip()]
        seed = Posed(record["problem"], "\n".join(lines[:-1]), lines[-1].replace(",", ""))
        reason = record["error_description"] or f"{record['error_category']}: {record['incorrect_step']}"
        wrong = Solved(record["student_incorrect_solution"], int(record["incorrect_index"]) + 1, reason)
        tags = {"error_category": record["error_category"]}
        items.append(detected(f"stepverify-{number:04d}-wrong", task, seed, wrong, tags))
        items.append(detected(f"stepverify-{number:04d}-right", task, seed, Solved(lines, 0), tags))
    return items
