"""GSM8K (Cobbe et al., 2021), main and Socratic: word problems with worked solutions. Licence MIT."""

from __future__ import annotations

from maieutic.datasets.sources import Source
from maieutic.datasets.text import cluster_of, plain_solution
from maieutic.records import Item

VARIABLES = {"question"}


def answer_of(solution: str) -> str:
    """The gold answer: what follows the hash marks, without thousands commas (MathTutorBench, problem_solving.yaml)."""
    return solution.split("### ")[-1].replace(",", "").strip()


def solving(records: list[Source], task: str) -> list[Item]:
    """Problem solving, 1,319 items (MathTutorBench, Table 1)."""
    return [
        Item(
            id=f"gsm8k-{number:04d}",
            task=task,
            cluster=cluster_of(record["question"]),
            vars={"question": record["question"]},
            reference={
                "answer": answer_of(record["answer"]),
                "text": plain_solution(record["answer"].rsplit("####", 1)[0])
                + f"Final answer: {answer_of(record['answer'])}",
            },
        )
        for number, record in enumerate(records)
    ]


def socratic(records: list[Source], task: str) -> list[Item]:
    """Socratic questioning, 1,319 items: the sub-questions before ` ** ` on every line but the last."""
    items = []
    for number, record in enumerate(records):
        questions = [line.split(" ** ")[0].strip() for line in record["answer"].split("\n") if " ** " in line]
        items.append(
            Item(
                id=f"gsm8k-{number:04d}",
                task=task,
                cluster=cluster_of(record["question"]),
                vars={"question": record["question"]},
                reference={"questions": questions, "text": "\n".join(questions)},
            )
        )
    return items
