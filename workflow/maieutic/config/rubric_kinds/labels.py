"""`labels`: each criterion has its own labels, which annotators also use."""

from __future__ import annotations

from typing import Any, ClassVar

from maieutic.config.rubric_kinds.base import RubricKind


class LabelsKind(RubricKind):
    """Rubric kind in which a judge assigns a label under each criterion to a reply, an item or a criterion."""

    name = "labels"
    answers: ClassVar[tuple[str, ...]] = ("json", "result")
    own_labels = True
    tags = True

    def criterion_schema(self, label: dict[str, Any], reasons: bool) -> dict[str, Any]:
        """Return the schema of the label alone. Labels come without a reason, so `reasons` is ignored."""
        return label
