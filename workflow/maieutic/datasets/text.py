"""Readings of problem texts and dialogues that several sources share."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping

CALCULATOR = re.compile(r"<<[^<>]*>>")


def cluster_of(problem: str) -> str:
    """A short name of the problem, the same for texts that differ in blanks, case or typographic marks only."""
    words = re.findall(r"[a-z0-9]+", problem.casefold())
    return "p-" + hashlib.sha256(" ".join(words).encode()).hexdigest()[:12]


def last_student_turn(history: str) -> str:
    """What a student says last in lines `Tutor: ...`, `Student: ...`; of a text without speakers all of it."""
    return history.rsplit("Student:", 1)[-1].strip()


def plain_solution(solution: str) -> str:
    """A GSM8K solution without its calculator marks."""
    return CALCULATOR.sub("", solution)


def spoken(turns: Iterable[Mapping[str, str]]) -> str:
    """A dialogue as lines `Teacher: ...` and `Student: ...`."""
    return "\n".join(f"{'Student' if turn['user'] == 'Student' else 'Teacher'}: {turn['text']}" for turn in turns)
