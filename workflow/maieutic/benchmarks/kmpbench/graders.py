"""The parsers of KMP-Bench's tasks."""

from __future__ import annotations

from maieutic.benchmarks.kmpbench.detection import correction, error_detection
from maieutic.benchmarks.kmpbench.problems import new_problem
from maieutic.benchmarks.kmpbench.rounds import round_answers
from maieutic.graders.gold import gold_correction, gold_detection, gold_rounds
from maieutic.graders.grader import Grader

GRADERS = {
    "round_answers": Grader(read_all=round_answers, gold_replies=gold_rounds, version=2),
    "error_detection": Grader(read_all=error_detection, gold="incorrect", gold_replies=gold_detection, version=2),
    "correction": Grader(read_all=correction, gold_replies=gold_correction, version=2),
    "new_problem": Grader(read_all=new_problem, version=2),
}
