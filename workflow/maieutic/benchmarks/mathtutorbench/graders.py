"""Parsers of replies to MathTutorBench's tasks."""

from __future__ import annotations

from maieutic.benchmarks.mathtutorbench.questions import grade_asking, socratic_bleu, utterance_statistics
from maieutic.graders.answers import grade_answer, grade_corrected_answer
from maieutic.graders.gold import gold_answer, gold_questions, gold_step, gold_yes_no
from maieutic.graders.grader import Grader
from maieutic.graders.short_answers import grade_step, grade_yes_no

GRADERS = {
    "answer": Grader(
        grade_answer, gold_replies=gold_answer, reads_passage=True, version=4,
        question="Which final answer to the problem does the reply give: a number, or the letter of an option?",
    ),
    "corrected_answer": Grader(
        grade_corrected_answer, gold_replies=gold_answer, reads_passage=True, version=4,
        question="Which number does the reply give as the right final answer to the problem?",
    ),
    "yes_no": Grader(
        grade_yes_no, gold_field="incorrect", gold_replies=gold_yes_no, reads_passage=True, version=4,
        question='Does the reply call the student\'s work incorrect ("yes"), or correct ("no")?',
    ),
    "step": Grader(
        grade_step, gold_field="step", gold_replies=gold_step, reads_passage=True, version=4,
        question="Which step does the reply call the first wrong one: its number, or 0 if it calls no step wrong?",
    ),
    "socratic_bleu": Grader(socratic_bleu, gold_replies=gold_questions, version=2),
    "question": Grader(grade_asking),
    "statistics": Grader(utterance_statistics, descriptive=True),
}  # fmt: skip
