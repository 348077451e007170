"""GSM8K (Cobbe et al., 2021) in its main and Socratic versions: word problems with worked solutions. Licence: MIT."""

from __future__ import annotations

from maieutic.config.datasets import SourceRecord
from maieutic.core.records import Item, Pair
from maieutic.datasets.text import cluster_of, plain_solution
from maieutic.serving.conversations import merge_turns, messages_before_reply

VARIABLES = {"question"}


def gold_answer_of(solution: str) -> str:
    """Return the gold answer: the text after `####`, without commas (MathTutorBench, problem_solving.yaml)."""
    return solution.split("### ")[-1].replace(",", "").strip()


def gsm8k_items(records: list[SourceRecord], task: str) -> list[Item]:
    """Return one item of problem solving per record: 1,319 items of the test split (MathTutorBench, Table 1)."""
    return [
        Item(
            id=f"gsm8k-{number:04d}",
            task=task,
            cluster=cluster_of(record["question"]),
            vars={"question": record["question"]},
            reference={
                "answer": gold_answer_of(record["answer"]),
                "text": plain_solution(record["answer"].rsplit("####", 1)[0])
                + f"Final answer: {gold_answer_of(record['answer'])}",
            },
        )
        for number, record in enumerate(records)
    ]


def socratic_items(records: list[SourceRecord], task: str) -> list[Item]:
    """Return one item of Socratic questioning per record: 1,319 items of the test split (MathTutorBench, Table 1).

    Every line of an answer except the last contains a sub-question, followed by ` ** ` and a solution step.
    """
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


def inpainted_pairs(*splits: list[SourceRecord]) -> list[Pair]:
    """Return pairs that prefer a sub-question to the solution step that it leads to (MathTutorBench, Table 2).

    A pair's dialogue consists of the earlier sub-questions and steps, so there is no pair for the first step. The paper
    counts 22,753 pairs in the train and test splits, which include four blank lines of the training solutions.
    """
    pairs = []
    for number, record in enumerate(record for split in splits for record in split):
        steps = [line.split(" ** ", 1) for line in record["answer"].split("\n") if " ** " in line]
        turns = [(role, text) for step in steps for role, text in zip(("assistant", "user"), step, strict=True)]
        solution = plain_solution("\n".join(step for _, step in steps)) + f"\n{gold_answer_of(record['answer'])}"
        for place in range(1, len(steps)):
            history = merge_turns((role, plain_solution(text)) for role, text in turns[: 2 * place])
            pairs.append(
                Pair(
                    id=f"gsm8k-{number:05d}-{place + 1}",
                    source="gsm8k_inpainted",
                    problem=cluster_of(record["question"]),
                    prompt=messages_before_reply(record["question"], solution, history),
                    chosen=steps[place][0].strip(),
                    rejected=plain_solution(steps[place][1]).strip(),
                    margin=1.0,
                )
            )
    return pairs
