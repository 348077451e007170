"""Graders: what is read from a reply, by functions of item, text and scoring.

Those of GRADERS read a reply's last turn, those of CONVERSATION_GRADERS all its turns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from maieutic.graders.answers import answer, corrected_answer
from maieutic.graders.detection import correction, error_detection
from maieutic.graders.labels import step, yes_no
from maieutic.graders.problems import new_problem
from maieutic.graders.questions import question, socratic_bleu, statistics
from maieutic.graders.reading import Reading
from maieutic.graders.rounds import round_answers
from maieutic.records import Item, Scoring

Grader = Callable[[Item, str, Scoring], list[Reading]]
ConversationGrader = Callable[[Item, Sequence[str], Scoring], list[Reading]]

PARSERS = "_parsers"  # the folder of the grades that no model gives: no name in the registry begins so
GRADERS: dict[str, Grader] = {
    "answer": answer,
    "corrected_answer": corrected_answer,
    "yes_no": yes_no,
    "step": step,
    "socratic_bleu": socratic_bleu,
    "question": question,
    "statistics": statistics,
}

CONVERSATION_GRADERS: dict[str, ConversationGrader] = {
    "round_answers": round_answers,
    "error_detection": error_detection,
    "correction": correction,
    "new_problem": new_problem,
}

# Graders that describe a reply: what they leave open (no solution to reveal) does not apply. What any other parser
# cannot read is an answer that the tutor did not give.
DESCRIBING = frozenset({"statistics"})
OBJECTIVE = frozenset({*GRADERS, *CONVERSATION_GRADERS}) - DESCRIBING

GOLD_FIELD = {
    "yes_no": "incorrect",
    "step": "step",
    "error_detection": "incorrect",
}  # the reference field that holds a grader's gold label
