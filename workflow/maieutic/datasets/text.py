"""Functions for problem texts and dialogues, used by the loaders of several datasets."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping

CALCULATOR = re.compile(r"<<[^<>]*>>")


def cluster_of(problem: str) -> str:
    """Return a short id of a problem. Texts that differ only in whitespace, case or punctuation have the same id."""
    words = re.findall(r"[a-z0-9]+", problem.casefold())
    return "p-" + hashlib.sha256(" ".join(words).encode()).hexdigest()[:12]


def last_student_turn(history: str) -> str:
    """Return the last student turn of a history, or the whole history if it has no student turn.

    history: dialogue as lines `Tutor: ...` and `Student: ...`.
    """
    return history.rsplit("Student:", 1)[-1].strip()


def plain_solution(solution: str) -> str:
    """Return a GSM8K solution without its calculator annotations (`<<...>>`)."""
    return CALCULATOR.sub("", solution)


def dialogue_lines(turns: Iterable[Mapping[str, str]]) -> str:
    """Return a dialogue as lines `Teacher: ...` and `Student: ...`."""
    return "\n".join(f"{'Student' if turn['user'] == 'Student' else 'Teacher'}: {turn['text']}" for turn in turns)
