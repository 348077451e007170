"""The forms in which KMP-Bench's tasks ask for an answer, for references and trivial tutors (tags: its Figure 11)."""

from __future__ import annotations


def detected(correct: bool, step: int, reason: str = "") -> str:
    """A verdict on a solution: its first wrong step, counted from 1 (0: none), and why."""
    marks = f"<correctness>{'yes' if correct else 'no'}</correctness>\n<error_step_num>{step}</error_step_num>"
    return marks if correct else f"{marks}\n<error_reason>{reason}</error_reason>"


def constructed(problem: str, solution: str) -> str:
    """A problem with its solution."""
    return f"<problem>{problem}</problem>\n<solution>{solution}</solution>"
