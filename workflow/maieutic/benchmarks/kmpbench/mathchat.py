"""MathChat (Liang et al., 2024): follow-up questions and similar problems to GSM8K's test problems. Licence Apache-2.0.

A stand-in for KMP-Bench's FQA and Gen, whose own data are not released.
"""

from __future__ import annotations

import re

from maieutic.benchmarks.kmpbench.items import Posed, asked, constructed
from maieutic.config.datasets import Source
from maieutic.core.records import Item
from maieutic.datasets.gsm8k import answer_of
from maieutic.datasets.text import plain_solution
from maieutic.graders.numerals import numerals

ROUND = re.compile(r"(?:^|\n)\s*[*]{0,2}([AB]):[*]{0,2}\s*")
STATED = re.compile(r"answer is", re.IGNORECASE)
MARKED = re.compile(r"\\ANSWER\s*\{([^{}]*)\}")
LATEX = re.compile(r"\\(?:[A-Za-z]+|.)|[{}]")
PROBLEM = re.compile(r"^\W*New Problem\W*:\s*(.*?)\n+\W*Solution\W*:\s*(.*)$", re.DOTALL | re.IGNORECASE)


def seed_of(number: int, record: Source) -> tuple[str, Posed]:
    """The problem that a record extends, as GSM8K solves it."""
    solution = plain_solution(record["answer"].rsplit("####", 1)[0]).strip()
    return f"mathchat-{number:04d}", Posed(record["question"], solution, answer_of(record["answer"]))


def rounds_of(text: str) -> list[Posed]:
    """The question and answer rounds of a follow-up. A round without one marked number is left out."""
    parts = ROUND.split(text)[1:]
    turns = list(zip(parts[0::2], parts[1::2], strict=True))
    rounds = []
    for (speaker, question), (other, solution) in zip(turns[0::2], turns[1::2], strict=False):
        answer = stated(solution)
        if (speaker, other) == ("A", "B") and answer is not None:
            rounds.append(Posed(question.strip(), MARKED.sub(r"\1", solution).strip(), answer))
    return rounds


def stated(solution: str) -> str | None:
    """The number that a solution ends with. "16 for Ann and 24 for Bob" is no single answer, nor is 9:15."""
    answers = MARKED.findall(solution) or STATED.split(solution)[1:]
    if not answers or ":" in answers[-1]:
        return None
    numbers = {numeral.value for numeral in numerals(LATEX.sub(" ", answers[-1]))}
    return f"{numbers.pop():.10g}" if len(numbers) == 1 else None


def followed(records: list[Source]) -> list[tuple[str, Posed, list[Posed]]]:
    """The problems with two follow-ups that can be read: 1,237 of 1,319."""
    problems = [(*seed_of(number, record), rounds_of(record["followup"])) for number, record in enumerate(records)]
    return [(name, seed, rounds) for name, seed, rounds in problems if len(rounds) == 2]


def follow_up(records: list[Source], task: str) -> list[Item]:
    """Follow-up problem-solving: the problem and two follow-ups in one conversation."""
    return [asked(name, task, seed, rounds) for name, seed, rounds in followed(records)]


def gen_follow_up(records: list[Source], task: str) -> list[Item]:
    """Construct two follow-ups of a problem; the file's own are the reference."""
    return [constructed(name, task, seed, rounds) for name, seed, rounds in followed(records)]


def gen_similar(records: list[Source], task: str) -> list[Item]:
    """Construct two similar problems; the file has one a problem, which the reference says twice."""
    items = []
    for number, record in enumerate(records):
        name, seed = seed_of(number, record)
        if match := PROBLEM.match(record["new_problem"]):
            posed = Posed(match[1].strip(), match[2].strip(), "")
            items.append(constructed(name, task, seed, [posed, posed]))
    return items
