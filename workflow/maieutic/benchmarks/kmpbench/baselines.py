"""Trivial tutors in the forms in which KMP-Bench's tasks want an answer."""

from __future__ import annotations

from maieutic.benchmarks.kmpbench.forms import constructed, detected
from maieutic.core.records import Item
from maieutic.replies.sentences import last_sentence, student_solution


def copied_seed(item: Item) -> str:
    """The problem that a new one was to be made of, as if it were new."""
    problem = item.vars.get("seed_problem") or last_sentence(item)
    return constructed(problem, item.vars.get("seed_solution", ""))


TUTORS = {
    "finds-nothing": lambda item: [detected(True, 0), student_solution(item)],
    "blames-step-1": lambda item: [detected(False, 1, "This step is wrong."), student_solution(item)],
    "copy-seed": copied_seed,
}
