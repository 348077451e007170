"""The parsers of MathTutorBench's tasks."""

from __future__ import annotations

from maieutic.benchmarks.mathtutorbench.questions import question, socratic_bleu, statistics
from maieutic.graders.answers import answer, corrected_answer
from maieutic.graders.gold import told_answer, told_questions, told_step, told_yes_no
from maieutic.graders.grader import Grader
from maieutic.graders.labels import step, yes_no

GRADERS = {
    "answer": Grader(answer, told=told_answer),
    "corrected_answer": Grader(corrected_answer, told=told_answer),
    "yes_no": Grader(yes_no, gold="incorrect", told=told_yes_no),
    "step": Grader(step, gold="step", told=told_step),
    "socratic_bleu": Grader(socratic_bleu, told=told_questions),
    "question": Grader(question),
    "statistics": Grader(statistics, describing=True),
}
