"""Loader of Orca-Math's word problems, the seeds of KMP-Bench's training dialogues (section 2.3).

The card of hub microsoft/orca-math-word-problems-200k (README.md) names two fields: `question: string` and
`answer: string`, a worked solution in prose. This loader was never run on the real file.
"""

from __future__ import annotations

from maieutic.config.datasets import SourceRecord
from maieutic.core.records import Item
from maieutic.datasets.text import cluster_of
from maieutic.graders.solution_numbers import solution_number

VARIABLES = {"question"}


def orca_math_items(records: list[SourceRecord], task: str) -> list[Item]:
    """Return one item per record. Its answer is the last number of the worked solution, or "" without a number."""
    items = []
    for number, record in enumerate(records):
        question, solution = str(record["question"]).strip(), str(record["answer"]).strip()
        final = solution_number(solution).value
        items.append(
            Item(
                id=f"orca-{number:06d}",
                task=task,
                cluster=cluster_of(question),
                vars={"question": question},
                reference={"answer": "" if final is None else f"{final:.15g}", "text": solution},
            )
        )
    return items
