"""Records of simulated conversations and of claims."""

from __future__ import annotations

from typing import Literal

from maieutic.core.records import Record


class SimulatedTurn(Record):
    """A turn of the tutor, and the turn of the simulated student that follows it, None after the last one."""

    tutor: str
    tutor_key: str
    student: str | None = None
    student_key: str | None = None


class SimulatedConversation(Record):
    """One conversation of a tutor with a simulated student.

    cluster: problem of the item; answer: final number of the solution; leak: number of the tutor's turn that first
    states the answer before the student does, or None; resolved: number of the tutor's turns before the
    student first states the answer, or None; ended: reason why the conversation ended early;
    ended_by: side whose empty or refused turn ended it; refused: True if the turn was refused.
    """

    IDENTITY = ("tutor", "id")

    id: str
    tutor: str
    cluster: str
    answer: float
    turns: list[SimulatedTurn]
    leak: int | None = None
    resolved: int | None = None
    ended: str | None = None
    ended_by: Literal["tutor", "student"] | None = None
    refused: bool = False


class ClaimAnswer(Record):
    """The simulated student's answer to a claim about a problem's answer.

    agrees: None if the answer contains no single yes or no, or was refused.
    """

    IDENTITY = ("id", "kind")

    id: str
    cluster: str
    kind: Literal["right", "wrong"]
    claim: float
    agrees: bool | None
    text: str
    key: str
