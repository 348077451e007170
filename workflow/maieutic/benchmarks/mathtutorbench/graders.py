"""The parsers of MathTutorBench's tasks."""

from __future__ import annotations

from maieutic.benchmarks.mathtutorbench.questions import question, socratic_bleu, statistics
from maieutic.graders.answers import answer, corrected_answer
from maieutic.graders.gold import gold_answer, gold_questions, gold_step, gold_yes_no
from maieutic.graders.grader import Grader
from maieutic.graders.labels import step, yes_no

GRADERS = {
    "answer": Grader(answer, gold_replies=gold_answer, version=2),
    "corrected_answer": Grader(corrected_answer, gold_replies=gold_answer, version=2),
    "yes_no": Grader(yes_no, gold="incorrect", gold_replies=gold_yes_no, version=2),
    "step": Grader(step, gold="step", gold_replies=gold_step, version=2),
    "socratic_bleu": Grader(socratic_bleu, gold_replies=gold_questions, version=2),
    "question": Grader(question),
    "statistics": Grader(statistics, describing=True),
}
