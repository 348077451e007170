"""Records of a curation: seeds, components, flows, dialogues, and the outcomes of the stages."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Literal

from maieutic.core.records import Record

PRINCIPLES = ("challenge", "explanation", "modelling", "practice", "questioning", "feedback")
Level = Literal["easy", "medium", "hard"]
LEVELS: tuple[Level, ...] = ("easy", "medium", "hard")


class PosedProblem(Record):
    """A problem with its solution and final answer.

    solution: worked solution with one boxed answer; answer: a number or the letter of an option.
    """

    problem: str
    solution: str
    answer: str


class Seed(PosedProblem):
    """A problem from a source dataset. id: dataset and item id, joined by `-`; cluster: the item's cluster."""

    id: str
    source: str
    licence: str
    cluster: str


class Standard(Record):
    """A standard of the Common Core hierarchy, with its grade, domain and cluster."""

    code: str
    grade: str
    domain: str
    cluster: str
    standard: str = ""


class Feedback(Record):
    """Feedback on a solution (KMP-Bench, Figure 11).

    step: number of the first wrong step, counted from 1; 0 if the solution is right.
    """

    step: int
    reason: str = ""
    corrected: str = ""


class StudentSolution(Record):
    """A student's solution in numbered steps, and feedback on it. by: the model that wrote it, or `validators`."""

    steps: list[str]
    answer: str
    by: str
    feedback: Feedback


class Clarification(Record):
    """A point of confusion, and the tutor's answer to it."""

    kind: Literal["What", "How", "Why"]
    query: str
    answer: str


class Components(Seed):
    """A seed with its four components (KMP-Bench, section 2.2). similar: one similar problem per level."""

    standards: list[Standard]
    followups: list[PosedProblem]
    solutions: list[StudentSolution]
    similar: dict[Level, PosedProblem]
    clarifications: list[Clarification]

    @property
    def domain(self) -> str:
        """Domain of the seed's first standard."""
        return self.standards[0].domain

    @property
    def grade(self) -> str:
        """Grade of the seed's first standard."""
        return self.standards[0].grade


class Exchange(Record):
    """Plan of one exchange: actions and materials of the student and the tutor, and the tutor's principles."""

    student: str
    student_materials: list[str]
    tutor: str
    tutor_materials: list[str]
    principles: list[str]


class Flow(Record):
    """Plan of a dialogue (KMP-Bench, section 2.3)."""

    id: str
    persona: str
    student_profile: str
    objectives: list[str]
    storyline: str
    exchanges: list[Exchange]


class DialogueTurn(Record):
    """A turn of a dialogue. Only tutors' turns have principles.

    evaluate: True if the turn is a test case; instruction: the system prompt of that test case.
    """

    speaker: Literal["student", "tutor"]
    text: str
    principles: list[str] | None = None
    evaluate: bool | None = None
    instruction: str | None = None


class Dialogue(Record):
    """A dialogue in the format of the loader `kmp_dialogues`."""

    id: str
    problem: str
    solution: str
    persona: str
    student_profile: str
    objectives: list[str]
    turns: list[DialogueTurn]


class Rejection(Record):
    """A rejected attempt: the reason, and each answer with its model (`by`) and its `text`."""

    reason: str
    answers: list[dict[str, str]]


class Outcome(Record):
    """Outcome of one product of one stage.

    part: name of the product among the seed's products at this stage; reason: reason for the rejection, None if the
    product was accepted; refined: True if the model revised the product; truncated: True if the product is a flow that
    was shortened; attempts: number of attempts; by: models that answered, or `people`; product: last answers if the
    product was rejected; judged: rejected product of another stage, if this stage judges such products; earlier:
    rejected attempts before the last attempt.
    """

    seed: str
    stage: str
    part: str = ""
    reason: str | None = None
    refined: bool = False
    truncated: bool = False
    attempts: int = 1
    by: list[str] = []
    product: Any = None
    judged: Any = None
    earlier: list[Rejection] = []


WORD = re.compile(r"[^\W_]+")


def folded_words(text: str) -> list[str]:
    """Return the case-folded words of a text in any script."""
    return WORD.findall(text.casefold())


def numbered_steps(steps: Sequence[str]) -> str:
    """Return steps as text, with one numbered step per line, as in KMP-Bench's Figure 11."""
    return "\n".join(f"Step {number}: {step}" for number, step in enumerate(steps, 1))
