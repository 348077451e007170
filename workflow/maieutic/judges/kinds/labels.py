"""`labels`: each criterion has labels of its own, as annotators give them."""

from __future__ import annotations

from typing import Any

from maieutic.judges.kinds.base import Kind


class Labels(Kind):
    """One reply (or an item, or a criterion, which is tagged), each criterion answered by one of its labels."""

    name = "labels"
    answers = ("json", "result")
    own_labels = True
    tags = True

    def property_of(self, label: dict[str, Any], reasons: bool) -> dict[str, Any]:
        """A label is not argued for."""
        return label
