"""The parsers of MathTutorBench's tasks."""

from __future__ import annotations

from maieutic.benchmarks.mathtutorbench.questions import question, socratic_bleu, statistics
from maieutic.graders.answers import answer, corrected_answer
from maieutic.graders.grader import Grader
from maieutic.graders.labels import step, yes_no

GRADERS = {
    "answer": Grader(answer),
    "corrected_answer": Grader(corrected_answer),
    "yes_no": Grader(yes_no, gold="incorrect"),
    "step": Grader(step, gold="step"),
    "socratic_bleu": Grader(socratic_bleu),
    "question": Grader(question),
    "statistics": Grader(statistics, describing=True),
}
