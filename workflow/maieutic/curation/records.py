"""Records of a curation: seeds, components, flows, dialogues, and the outcome of every stage."""

from __future__ import annotations

from typing import Any, Literal

from maieutic.core.records import Record

PRINCIPLES = ("challenge", "explanation", "modelling", "practice", "questioning", "feedback")
Level = Literal["easy", "medium", "hard"]
LEVELS: tuple[Level, ...] = ("easy", "medium", "hard")


class PosedProblem(Record):
    """A problem, its worked solution with one boxed answer, and its final answer: a number or an option's letter."""

    problem: str
    solution: str
    answer: str


class Seed(PosedProblem):
    """A problem of a source dataset. id: dataset and item id, joined by `-`; cluster: copied from the item."""

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
    """Feedback on a solution (Figure 11). step: number of the first wrong step, from 1; 0 if the solution is right."""

    step: int
    reason: str = ""
    corrected: str = ""


class StudentSolution(Record):
    """A student's solution as uniform steps, with feedback on it. by: the model that wrote it, or `validators`."""

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
    """A seed with its four components (KMP-Bench, section 2.2). similar: one similar problem of each level."""

    standards: list[Standard]
    followups: list[PosedProblem]
    solutions: list[StudentSolution]
    similar: dict[Level, PosedProblem]
    clarifications: list[Clarification]

    @property
    def domain(self) -> str:
        """The domain of the seed's first standard."""
        return self.standards[0].domain

    @property
    def grade(self) -> str:
        """The grade of the seed's first standard."""
        return self.standards[0].grade


class Exchange(Record):
    """The plan of one exchange: what student and tutor do, with which materials, and the tutor's principles."""

    student: str
    student_materials: list[str]
    tutor: str
    tutor_materials: list[str]
    principles: list[str]


class Flow(Record):
    """The plan of a dialogue (KMP-Bench, section 2.3)."""

    id: str
    persona: str
    student_profile: str
    objectives: list[str]
    storyline: str
    exchanges: list[Exchange]


class DialogueTurn(Record):
    """A turn of a dialogue. Only a tutor's turn has principles.

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
    """A rejected attempt: the reason, and each model's answer (`by`, `text`)."""

    reason: str
    answers: list[dict[str, str]]


class Outcome(Record):
    """The outcome of one product of one stage.

    part: name of the product among the seed's products at this stage; reason: reason for the rejection, None if the
    product was accepted; refined: True if the model revised the product; truncated: True if the product is a flow that
    was shortened; attempts: number of attempts; by: models that answered, or `people`; earlier: rejected attempts
    before the last one.
    A rejected outcome keeps the last answers as `product`; if the stage judges the product of another stage, that
    product is kept as `judged`.
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
