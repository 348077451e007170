"""Base classes of rubric kinds, with the default behaviour of a kind."""

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
