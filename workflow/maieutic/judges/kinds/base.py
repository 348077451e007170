"""What the kind of a rubric decides, and what it decides unless a kind says otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

from maieutic.core.records import Item, Reply

Order = Literal["ab", "ba"]
PASS_FAIL = ("pass", "fail")


class Kind:
    """By default one reply, to which each criterion gives one of its own labels, with a reason.

    name: as cards say it; answers: the forms of an answer that it may be given in; own_labels: its criteria name their
    labels; needs_criteria: there is something to judge by; paired: two replies, each called A or B by its place, which
    may be shown in both orders; of_labelled_pairs: it compares the pairs of a labelled release; against_reference: it
    may compare the tutor's reply with the reference by name (`about_tutor`); tags: it may be about items or criteria;
    weighted: criteria of the items' own have weights; silence_fails: a criterion that a whole answer leaves out fails.
    """

    name: ClassVar[str]
    answers: ClassVar[tuple[str, ...]] = ("json",)
    own_labels: ClassVar[bool] = False
    needs_criteria: ClassVar[bool] = True
    paired: ClassVar[bool] = False
    of_labelled_pairs: ClassVar[bool] = False
    against_reference: ClassVar[bool] = False
    tags: ClassVar[bool] = False
    weighted: ClassVar[bool] = False
    silence_fails: ClassVar[bool] = False

    def values(self, labels: Sequence[str], about_tutor: bool) -> list[str]:
        """What may be answered under one criterion. labels: its own."""
        return [*labels]

    def desired(self, label: str | None) -> str | bool | None:
        """The verdict of a good reply, in the terms of the grades; None: none is better. label: the criterion's own."""
        return label

    def words(self, labels: Sequence[str]) -> tuple[str, ...]:
        """What people may say under one criterion, whose own labels these are."""
        return tuple(labels)

    def desired_word(self, label: str | None) -> str | None:
        """What people say of a good reply. label: the criterion's own."""
        return label

    def verdict(self, value: str) -> str | bool:
        """An answer's value as a verdict."""
        return value

    def in_own_terms(self, value: str, order: Order, about_tutor: bool) -> str:
        """A verdict about A and B as one about the first and the second reply, whatever stood where."""
        return value

    def property_of(self, label: dict[str, Any], reasons: bool) -> dict[str, Any]:
        """What stands under one criterion in an answer's JSON schema. label: the schema of the verdict alone."""
        if not reasons:
            return label
        return {
            "type": "object",
            "properties": {"reason": {"type": "string"}, "verdict": label},
            "required": ["reason", "verdict"],
            "additionalProperties": False,
        }

    def texts(self, item: Item, reply: Reply, about_tutor: bool) -> dict[str, str]:
        """The tutors' texts that a prompt is given of a reply, by their names: every turn of a conversation."""
        if len(reply.turns) == 1:
            return {"response": reply.text}
        return {f"response_{number}": turn.text for number, turn in enumerate(reply.turns, 1)}

    def variables(self, turns: int, about_tutor: bool) -> set[str]:
        """The names of the texts that a prompt may use. turns: of the task's conversation."""
        return {"response"} if turns == 1 else {f"response_{number}" for number in range(1, turns + 1)}


class PassFail(Kind):
    """One reply, which passes or fails by each criterion."""

    def values(self, labels: Sequence[str], about_tutor: bool) -> list[str]:
        """Pass or fail."""
        return [*PASS_FAIL]

    def words(self, labels: Sequence[str]) -> tuple[str, ...]:
        """Pass or fail."""
        return PASS_FAIL

    def desired_word(self, label: str | None) -> str | None:
        """To pass."""
        return PASS_FAIL[0]

    def desired(self, label: str | None) -> str | bool | None:
        """To pass."""
        return True

    def verdict(self, value: str) -> str | bool:
        """Whether it passes."""
        return value == "pass"
