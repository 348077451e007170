"""Graders: what is read from a reply. A grader is a function of item, text and scoring; this dict lists them."""

from __future__ import annotations

from collections.abc import Callable

from maieutic.graders.answers import answer, corrected_answer
from maieutic.graders.labels import step, yes_no
from maieutic.graders.questions import question, socratic_bleu, statistics
from maieutic.graders.reading import Reading
from maieutic.records import Item, Scoring

Grader = Callable[[Item, str, Scoring], list[Reading]]

GRADERS: dict[str, Grader] = {
    "answer": answer,
    "corrected_answer": corrected_answer,
    "yes_no": yes_no,
    "step": step,
    "socratic_bleu": socratic_bleu,
    "question": question,
    "statistics": statistics,
}

GOLD_FIELD = {"yes_no": "incorrect", "step": "step"}  # the reference field that holds a grader's gold label
