"""StepVerify's solutions as items of the error-detection task."""

from __future__ import annotations

from maieutic.benchmarks.kmpbench.items import SolvedProblem, StudentAttempt, ec_item
from maieutic.config.datasets import SourceRecord
from maieutic.core.records import Item


def stepverify_items(records: list[SourceRecord], task: str) -> list[Item]:
    """Return EC items: the wrong solution with its step and reason, and the reference solution as its right twin.

    Three in ten records have no description of the error. Their reason consists of the error's category and the wrong
    step. The last step is the bare answer, which is the first wrong step in 16 records.
    """
    items = []
    for number, record in enumerate(records):
        lines = [line.strip() for line in record["reference_solution"].split("\n") if line.strip()]
        seed = SolvedProblem(record["problem"], "\n".join(lines[:-1]), lines[-1].replace(",", ""))
        reason = record["error_description"] or f"{record['error_category']}: {record['incorrect_step']}"
        wrong = StudentAttempt(record["student_incorrect_solution"], int(record["incorrect_index"]) + 1, reason)
        tags = {"error_category": record["error_category"]}
        items.append(ec_item(f"stepverify-{number:04d}-wrong", task, seed, wrong, tags))
        items.append(ec_item(f"stepverify-{number:04d}-right", task, seed, StudentAttempt(lines, 0), tags))
    return items
