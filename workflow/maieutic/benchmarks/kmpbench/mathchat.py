"""MathChat (Liang et al., 2024): follow-ups of GSM8K's test problems, and similar problems. Licence: Apache-2.0.

MathChat replaces the data of KMP-Bench's FQA and Gen tasks, which are not released.
"""

from __future__ import annotations

import re

from maieutic.benchmarks.kmpbench.items import SolvedProblem, fqa_item, gen_item
from maieutic.config.datasets import SourceRecord
from maieutic.core.records import Item
from maieutic.datasets.gsm8k import gold_answer_of
from maieutic.datasets.text import plain_solution
from maieutic.graders.numerals import numerals

ROUND = re.compile(r"(?:^|\n)\s*[*]{0,2}([AB]):[*]{0,2}\s*")
ANSWER_IS = re.compile(r"answer is", re.IGNORECASE)
MARKED_ANSWER = re.compile(r"\\ANSWER\s*\{([^{}]*)\}")
LATEX = re.compile(r"\\(?:[A-Za-z]+|.)|[{}]")
NEW_PROBLEM = re.compile(r"^\W*New Problem\W*:\s*(.*?)\n+\W*Solution\W*:\s*(.*)$", re.DOTALL | re.IGNORECASE)


def mathchat_seed(number: int, record: SourceRecord) -> tuple[str, SolvedProblem]:
    """Return the item id and the GSM8K problem that a record extends. number: index of the record."""
    solution = plain_solution(record["answer"].rsplit("####", 1)[0]).strip()
    return f"mathchat-{number:04d}", SolvedProblem(record["question"], solution, gold_answer_of(record["answer"]))


def rounds_of(text: str) -> list[SolvedProblem]:
    """Return the rounds (question and answer) of a follow-up text in which the answer is a single number."""
    parts = ROUND.split(text)[1:]
    turns = list(zip(parts[0::2], parts[1::2], strict=True))
    rounds = []
    for (speaker, question), (other, solution) in zip(turns[0::2], turns[1::2], strict=False):
        answer = stated_number(solution)
        if (speaker, other) == ("A", "B") and answer is not None:
            rounds.append(SolvedProblem(question.strip(), MARKED_ANSWER.sub(r"\1", solution).strip(), answer))
    return rounds


def stated_number(solution: str) -> str | None:
    """Return the number that a solution states as its final answer.

    Returns None for an answer with several numbers ("16 for Ann and 24 for Bob") and for a time (9:15)."""
    answers = MARKED_ANSWER.findall(solution) or ANSWER_IS.split(solution)[1:]
    if not answers or ":" in answers[-1]:
        return None
    numbers = {numeral.value for numeral in numerals(LATEX.sub(" ", answers[-1]))}
    return f"{numbers.pop():.10g}" if len(numbers) == 1 else None


def problems_with_follow_ups(records: list[SourceRecord]) -> list[tuple[str, SolvedProblem, list[SolvedProblem]]]:
    """Return the item id, problem and follow-ups of each record with two parsed rounds (1,237 of 1,319 records)."""
    problems = [
        (*mathchat_seed(number, record), rounds_of(record["followup"])) for number, record in enumerate(records)
    ]
    return [(name, seed, rounds) for name, seed, rounds in problems if len(rounds) == 2]


def mathchat_fqa_items(records: list[SourceRecord], task: str) -> list[Item]:
    """Load FQA items: a problem and its two follow-ups in one conversation."""
    return [fqa_item(name, task, seed, rounds) for name, seed, rounds in problems_with_follow_ups(records)]


def mathchat_gen_followup_items(records: list[SourceRecord], task: str) -> list[Item]:
    """Load Gen items that ask for two follow-ups of a problem; the record's follow-ups are the reference."""
    return [gen_item(name, task, seed, rounds) for name, seed, rounds in problems_with_follow_ups(records)]


def mathchat_gen_similar_items(records: list[SourceRecord], task: str) -> list[Item]:
    """Load Gen items that ask for two similar problems; the record's only similar problem is the reference for both."""
    items = []
    for number, record in enumerate(records):
        name, seed = mathchat_seed(number, record)
        if match := NEW_PROBLEM.match(record["new_problem"]):
            similar = SolvedProblem(match[1].strip(), match[2].strip(), "")
            items.append(gen_item(name, task, seed, [similar, similar]))
    return items
