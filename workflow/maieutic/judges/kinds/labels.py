"""`labels`: each criterion has labels of its own, as annotators give them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from maieutic.judges.kinds.base import Kind


class Labels(Kind):
    """One reply (or an item, or a criterion, which is tagged), each criterion answered by one of its labels."""

    name = "labels"
    answers = ("json", "result")
    own_labels = True
    tags = True

    def values(self, labels: Sequence[str], about_tutor: bool) -> list[str]:
        """The criterion's labels."""
        return [*labels]

    def desired(self, label: str | None) -> str | bool | None:
        """The criterion's desired label; None where none is better."""
        return label

    def verdict(self, value: str) -> str | bool:
        """The label itself."""
        return value

    def property_of(self, label: dict[str, Any], reasons: bool) -> dict[str, Any]:
        """A label is not argued for."""
        return label
