"""Trivial tutors with answers in the formats of KMP-Bench's tasks."""

from __future__ import annotations

from maieutic.benchmarks.kmpbench.answer_formats import detection_answer, problem_answer
from maieutic.core.records import Item
from maieutic.replies.sentences import last_sentence, student_solution


def copy_seed_problem(item: Item) -> str:
    """Return the seed problem and its solution, in the format of a new problem."""
    problem = item.vars.get("seed_problem") or last_sentence(item)
    return problem_answer(problem, item.vars.get("seed_solution", ""))


TUTORS = {
    "finds-nothing": lambda item: [detection_answer(True, 0), student_solution(item)],
    "blames-step-1": lambda item: [detection_answer(False, 1, "This step is wrong."), student_solution(item)],
    "copy-seed": copy_seed_problem,
}
