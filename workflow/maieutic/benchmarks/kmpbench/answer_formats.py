"""Answer formats of KMP-Bench's tasks, used by references and trivial tutors.

The tags are those of the paper's Figure 11.
"""

from __future__ import annotations


def detection_answer(correct: bool, step: int, reason: str = "") -> str:
    """Return a tagged verdict on a solution.

    step: first wrong step, counted from 1, or 0 if all steps are right; reason: explanation of the error."""
    marks = f"<correctness>{'yes' if correct else 'no'}</correctness>\n<error_step_num>{step}</error_step_num>"
    return marks if correct else f"{marks}\n<error_reason>{reason}</error_reason>"


def problem_answer(problem: str, solution: str) -> str:
    """Return a new problem with its solution, both tagged."""
    return f"<problem>{problem}</problem>\n<solution>{solution}</solution>"
