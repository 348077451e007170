"""`weighted`: criteria of each item's own, with weights, pass or fail (TutorBench, section 3)."""

from __future__ import annotations

from maieutic.judges.kinds.base import PassFail


class Weighted(PassFail):
    """One reply by the criteria that its item brings; what passes adds its weight."""

    name = "weighted"
    weighted = True
