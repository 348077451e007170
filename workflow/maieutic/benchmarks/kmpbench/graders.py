"""Parsers of replies to KMP-Bench's tasks."""

from __future__ import annotations

from maieutic.benchmarks.kmpbench.detection import grade_correction, grade_detection
from maieutic.benchmarks.kmpbench.final_answers import grade_rounds
from maieutic.benchmarks.kmpbench.problems import grade_new_problem
from maieutic.graders.gold import gold_correction, gold_detection, gold_rounds
from maieutic.graders.grader import Grader

GRADERS = {
    "round_answers": Grader(read_all=grade_rounds, gold_replies=gold_rounds, reads_passage=True, version=4),
    "error_detection": Grader(
        read_all=grade_detection, gold_field="incorrect", gold_replies=gold_detection, reads_passage=True, version=4
    ),
    "correction": Grader(read_all=grade_correction, gold_replies=gold_correction, reads_passage=True, version=4),
    "new_problem": Grader(read_all=grade_new_problem, version=4),
}
