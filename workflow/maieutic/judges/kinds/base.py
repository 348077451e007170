"""Base classes of rubric kinds, with the default behaviour of a kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

from maieutic.core.records import Item, Reply

Order = Literal["ab", "ba"]
PASS_FAIL = ("pass", "fail")


class RubricKind:
    """Base class of rubric kinds. By default a judge assigns one label to a reply under each criterion, and a reason.

    name: name on rubric cards; answers: allowed forms of the answer; own_labels: True if each criterion lists its
    labels; needs_criteria: True if a question needs a criterion; paired: True if two replies are compared, called A and
    B by position, with an optional second question in reversed order; compares_labelled_pairs: True if pairs of a
    labelled release can be compared; against_reference: True if a verdict can name the tutor's reply instead of a
    position (`about_tutor`); tags: True if the kind can tag items or criteria; weighted: True if the items' own
    criteria have weights; omission_fails: True if a criterion fails when a complete answer omits it.
    """

    name: ClassVar[str]
    answers: ClassVar[tuple[str, ...]] = ("json",)
    own_labels: ClassVar[bool] = False
    needs_criteria: ClassVar[bool] = True
    paired: ClassVar[bool] = False
    compares_labelled_pairs: ClassVar[bool] = False
    against_reference: ClassVar[bool] = False
    tags: ClassVar[bool] = False
    weighted: ClassVar[bool] = False
    omission_fails: ClassVar[bool] = False

    def values(self, labels: Sequence[str], about_tutor: bool) -> list[str]:
        """Return the allowed answers under one criterion. labels: the criterion's own labels."""
        return [*labels]

    def desired(self, label: str | None) -> str | bool | None:
        """Return the verdict of a good reply as stored in grades, or None if the criterion has no desired label."""
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
        """Convert a verdict about A and B to one about the first and second reply. order: order in the question."""
        return value

    def criterion_schema(self, label: dict[str, Any], reasons: bool) -> dict[str, Any]:
        """Return the JSON schema of one criterion in an answer. label: schema of the verdict alone."""
        if not reasons:
            return label
        return {
            "type": "object",
            "properties": {"reason": {"type": "string"}, "verdict": label},
            "required": ["reason", "verdict"],
            "additionalProperties": False,
        }

    def texts(self, item: Item, reply: Reply, about_tutor: bool) -> dict[str, str]:
        """Return the texts of a reply by prompt variable, one for each turn of a conversation."""
        if len(reply.turns) == 1:
            return {"response": reply.text}
        return {f"response_{number}": turn.text for number, turn in enumerate(reply.turns, 1)}

    def variables(self, turns: int, about_tutor: bool) -> set[str]:
        """Return the names of the texts that a prompt may use. turns: number of turns of the task's conversation."""
        return {"response"} if turns == 1 else {f"response_{number}" for number in range(1, turns + 1)}


class PassFail(RubricKind):
    """Base class of kinds by which one reply passes or fails each criterion."""

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
        """Return True: a good reply passes."""
        return True

    def verdict(self, value: str) -> str | bool:
        """Return True if the value is pass."""
        return value == "pass"
