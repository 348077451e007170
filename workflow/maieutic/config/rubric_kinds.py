"""Rubric kinds. To add a kind, add a class and an entry in `KINDS`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

from maieutic.core.records import Item, Reply

Order = Literal["ab", "ba"]
PASS_FAIL = ("pass", "fail")


class RubricKind:
    """Base class of rubric kinds. By default, a judge gives a reply one label and a reason under each criterion.

    name: name on rubric cards; answers: allowed forms of the answer; own_labels: True if each criterion lists its
    own labels; needs_criteria: True if a question needs at least one criterion; paired: True if two replies, A and
    B, are compared, with an optional second question in which they change places; compares_labelled_pairs: True if
    the kind can compare the replies of a preference pair; against_reference: True if a reply is compared with the
    reference, so that an answer can be about the tutor's reply instead of A and B (`about_tutor`); tags: True if
    the kind can tag items or criteria; by_turn: True if every turn of the tutor is judged under each criterion;
    weighted: True if the items' own criteria have weights; omission_fails: True if a criterion fails when a
    complete answer omits it.
    """

    name: ClassVar[str]
    answers: ClassVar[tuple[str, ...]] = ("json",)
    own_labels: ClassVar[bool] = False
    needs_criteria: ClassVar[bool] = True
    paired: ClassVar[bool] = False
    compares_labelled_pairs: ClassVar[bool] = False
    against_reference: ClassVar[bool] = False
    tags: ClassVar[bool] = False
    by_turn: ClassVar[bool] = False
    weighted: ClassVar[bool] = False
    omission_fails: ClassVar[bool] = False

    def values(self, labels: Sequence[str], about_tutor: bool) -> list[str]:
        """Return the allowed answers under one criterion.

        labels: the criterion's own labels; about_tutor: True if the answer is about the tutor's reply, not A and B.
        """
        return [*labels]

    def desired(self, label: str | None) -> str | bool | None:
        """Return the verdict on a good reply, as stored in grades. label: the criterion's desired label, if any."""
        return label

    def annotator_labels(self, labels: Sequence[str]) -> tuple[str, ...]:
        """Return the labels that annotators may choose under one criterion. labels: the criterion's own labels."""
        return tuple(labels)

    def desired_label(self, label: str | None) -> str | None:
        """Return the label that annotators give a good reply. label: the criterion's desired label."""
        return label

    def verdict(self, value: str) -> str | bool:
        """Return the verdict for the value of a parsed answer."""
        return value

    def resolve_position(self, value: str, order: Order, about_tutor: bool) -> str:
        """Convert a verdict about A and B to one about the first and second reply.

        order: order of the replies in the question; about_tutor: True if the verdict is about the tutor's reply.
        """
        return value

    def criterion_schema(self, label: dict[str, Any], reasons: bool) -> dict[str, Any]:
        """Return the JSON schema of one criterion in an answer.

        label: schema of the verdict alone; reasons: True if the answer also contains a reason.
        """
        if not reasons:
            return label
        return {
            "type": "object",
            "properties": {"reason": {"type": "string"}, "verdict": label},
            "required": ["reason", "verdict"],
            "additionalProperties": False,
        }

    def texts(self, item: Item, reply: Reply, about_tutor: bool) -> dict[str, str]:
        """Return the texts of a reply, one for each turn of a conversation, by the names of their prompt variables."""
        if len(reply.turns) == 1:
            return {"response": reply.text}
        return {f"response_{number}": turn.text for number, turn in enumerate(reply.turns, 1)}

    def conversation(self, student_turns: Sequence[str], blocks: dict[str, str]) -> dict[str, Any]:
        """Return further prompt variables that arrange the fenced texts: none, except for kinds about conversations.

        student_turns: the student's turns; blocks: the tutor's texts between delimiters, by name.
        """
        return {}

    def variables(self, turns: int, about_tutor: bool) -> set[str]:
        """Return the prompt variables for the texts of a reply. turns: number of turns of the task's conversation."""
        return {"response"} if turns == 1 else {f"response_{number}" for number in range(1, turns + 1)}


class PassFail(RubricKind):
    """Base class of kinds in which one reply passes or fails each criterion."""

    def values(self, labels: Sequence[str], about_tutor: bool) -> list[str]:
        """Return the allowed answers: pass and fail."""
        return [*PASS_FAIL]

    def annotator_labels(self, labels: Sequence[str]) -> tuple[str, ...]:
        """Return the annotators' labels: pass and fail."""
        return PASS_FAIL

    def desired_label(self, label: str | None) -> str | None:
        """Return the label of a good reply: pass."""
        return PASS_FAIL[0]

    def desired(self, label: str | None) -> str | bool | None:
        """Return True, since a good reply passes."""
        return True

    def verdict(self, value: str) -> str | bool:
        """Return True if the value is pass."""
        return value == "pass"


class LabelsKind(RubricKind):
    """Rubric kind in which a judge assigns a label under each criterion to a reply, an item or a criterion."""

    name = "labels"
    answers: ClassVar[tuple[str, ...]] = ("json", "result")
    own_labels = True
    tags = True

    def criterion_schema(self, label: dict[str, Any], reasons: bool) -> dict[str, Any]:
        """Return the schema of the label alone. Labels come without a reason, so `reasons` is ignored."""
        return label


REPLY_BY_POSITION: dict[Order, dict[str, str]] = {
    "ab": {"A": "first", "B": "second"},
    "ba": {"A": "second", "B": "first"},
}


class Pairwise(RubricKind):
    """Rubric kind for two replies, of which the judge names the better one."""

    name = "pairwise"
    answers = ("json", "letter")
    needs_criteria = False
    paired = True
    compares_labelled_pairs = True

    def values(self, labels: Sequence[str], about_tutor: bool) -> list[str]:
        """Return the allowed answers: A and B, the positions of the replies."""
        return ["A", "B"]

    def resolve_position(self, value: str, order: Order, about_tutor: bool) -> str:
        """Return `first` or `second`: the reply that was shown at the position that the verdict names, A or B."""
        return REPLY_BY_POSITION[order].get(value, value)


WIN_TIE_LOSE = ("win", "tie", "lose")
COMPARED_VARIABLES = ("tutor_response", "reference_response")


class WinTieLose(RubricKind):
    """Rubric kind that compares a reply with the reference. Answers are A, tie or B, or Win, Tie or Lose."""

    name = "win_tie_lose"
    paired = True
    against_reference = True

    def values(self, labels: Sequence[str], about_tutor: bool) -> list[str]:
        """Return the allowed answers: A, tie and B, or Win, Tie and Lose if they are about the tutor's reply."""
        return ["Win", "Tie", "Lose"] if about_tutor else ["A", "tie", "B"]

    def desired(self, label: str | None) -> str | bool | None:
        """Return `win`, since a good reply is better than the reference."""
        return "win"

    def annotator_labels(self, labels: Sequence[str]) -> tuple[str, ...]:
        """Return the annotators' labels: win, tie and lose."""
        return WIN_TIE_LOSE

    def desired_label(self, label: str | None) -> str | None:
        """Return the label of a good reply: win."""
        return WIN_TIE_LOSE[0]

    def resolve_position(self, value: str, order: Order, about_tutor: bool) -> str:
        """Return `win`, `tie` or `lose` for the tutor's reply, which is the first of the two texts."""
        if about_tutor:
            return value.lower()
        place = REPLY_BY_POSITION[order].get(value, value)
        return {"first": "win", "second": "lose"}.get(place, place)

    def texts(self, item: Item, reply: Reply, about_tutor: bool) -> dict[str, str]:
        """Return the texts of the reply and the reference, by role if `about_tutor`, or as `first` and `second`."""
        names = COMPARED_VARIABLES if about_tutor else ("first", "second")
        return dict(zip(names, (reply.text, str(item.reference["text"])), strict=True))

    def variables(self, turns: int, about_tutor: bool) -> set[str]:
        """Return the prompt variables for both texts, named by role if `about_tutor`, otherwise by position."""
        return {*COMPARED_VARIABLES} if about_tutor else {"response_a", "response_b"}


class Weighted(PassFail):
    """Rubric kind for one reply, which is judged by its item's own weighted criteria."""

    name = "weighted"
    weighted = True


class Checklist(PassFail):
    """Rubric kind for one reply, with a rule stated in the prompt: a criterion that is not shown to be met fails."""

    name = "checklist"
    omission_fails = True


RESPONSE = "response_{}"


class Turns(LabelsKind):
    """Rubric kind for a whole conversation. The judge sees all turns in order, and labels each turn of the tutor.

    The prompt shows `conversation`, a list of turns with the fields `student` and `tutor`.
    """

    name = "turns"
    answers: ClassVar[tuple[str, ...]] = ("json",)
    by_turn = True
    tags = False

    def criterion_schema(self, label: dict[str, Any], reasons: bool) -> dict[str, Any]:
        """Return the schema of one turn's verdict, with a reason if `reasons`, as for kinds other than labels."""
        return super(LabelsKind, self).criterion_schema(label, reasons)

    def texts(self, item: Item, reply: Reply, about_tutor: bool) -> dict[str, str]:
        """Return the text of each turn, also for a conversation of a single turn."""
        return {RESPONSE.format(number): turn.text for number, turn in enumerate(reply.turns, 1)}

    def variables(self, turns: int, about_tutor: bool) -> set[str]:
        """Return an empty set, because the loader of a scripted task offers `conversation`."""
        return set()

    def conversation(self, student_turns: Sequence[str], blocks: dict[str, str]) -> dict[str, Any]:
        """Return the prompt variable `conversation`. blocks: the tutor's turns between delimiters, by name."""
        tutor_turns = [blocks[RESPONSE.format(number)] for number in range(1, len(blocks) + 1)]
        pairs = zip(student_turns, tutor_turns, strict=False)  # a conversation may have ended before its script
        return {"conversation": [{"student": student, "tutor": tutor} for student, tutor in pairs]}


KINDS: dict[str, RubricKind] = {
    kind.name: kind for kind in (LabelsKind(), Pairwise(), WinTieLose(), Weighted(), Checklist(), Turns())
}
