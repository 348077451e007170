"""What a curation writes: seeds, components, flows, dialogues, and the outcome of every stage."""

from __future__ import annotations

from typing import Any, Literal

from maieutic.core.records import Record

PRINCIPLES = ("challenge", "explanation", "modelling", "practice", "questioning", "feedback")
Level = Literal["easy", "medium", "hard"]
LEVELS: tuple[Level, ...] = ("easy", "medium", "hard")


class Posed(Record):
    """A problem, its worked solution with one box, and its final answer: a number or an option's letter."""

    problem: str
    solution: str
    answer: str


class Seed(Posed):
    """A problem of a source. id: its name in that source, after the dataset's; cluster: of its text."""

    id: str
    source: str
    licence: str
    cluster: str


class Standard(Record):
    """A standard of the hierarchy, or the cluster where no standard of it was chosen."""

    code: str
    grade: str
    domain: str
    cluster: str
    standard: str = ""


class Feedback(Record):
    """What is said of a solution (Figure 11). step: the first wrong one, from 1 on; 0 where the solution is right."""

    step: int
    reason: str = ""
    corrected: str = ""


class Attempted(Record):
    """A student's solution as uniform steps, with what is wrong in it."""

    steps: list[str]
    answer: str
    by: str
    feedback: Feedback


class Clarification(Record):
    """A point of confusion and what the tutor says of it."""

    kind: Literal["What", "How", "Why"]
    query: str
    answer: str


class Components(Seed):
    """A seed with what was made of it (section 2.2). similar: by level, easy, medium, hard."""

    standards: list[Standard]
    followups: list[Posed]
    solutions: list[Attempted]
    similar: dict[Level, Posed]
    clarifications: list[Clarification]

    @property
    def domain(self) -> str:
        """The domain of its first standard."""
        return self.standards[0].domain

    @property
    def grade(self) -> str:
        """The grade of its first standard."""
        return self.standards[0].grade


class Exchange(Record):
    """What student and tutor are to do in one exchange, the materials that they use, the tutor's principles."""

    student: str
    student_materials: list[str]
    tutor: str
    tutor_materials: list[str]
    principles: list[str]


class Flow(Record):
    """The plan of a dialogue (section 2.3)."""

    id: str
    persona: str
    student_profile: str
    objectives: list[str]
    storyline: str
    exchanges: list[Exchange]


class Said(Record):
    """A turn, a tutor's with its principles. evaluate: it is a test case; instruction: the system prompt of that."""

    speaker: Literal["student", "tutor"]
    text: str
    principles: list[str] | None = None
    evaluate: bool | None = None
    instruction: str | None = None


class Dialogue(Record):
    """A dialogue in the format of `kmp_dialogues` (benchmarks/kmpbench/items.py)."""

    id: str
    problem: str
    solution: str
    persona: str
    student_profile: str
    objectives: list[str]
    turns: list[Said]


class Rejection(Record):
    """An attempt that was not kept: why, and what was answered (`by`, `text`)."""

    reason: str
    answers: list[dict[str, str]]


class Outcome(Record):
    """What became of one product of one stage.

    part: which of a seed's products at this stage; reason: why it was rejected, None: accepted; refined: its maker
    revised it; truncated: a flow lost its end; attempts: how often it was asked; by: whose it is.
    Of a rejected one `product`: what was answered last, and `judged`: the product of another stage that was rejected by
    it. earlier: the attempts before the last.
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
