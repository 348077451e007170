"""`weighted`: each item's own criteria with weights, pass or fail (TutorBench, section 3)."""

from __future__ import annotations

from maieutic.judges.kinds.base import PassFail


class Weighted(PassFail):
    """One reply, judged by the weighted criteria of its item."""

    name = "weighted"
    weighted = True
