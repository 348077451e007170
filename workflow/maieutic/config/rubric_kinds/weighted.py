"""`weighted`: a reply passes or fails each of its item's own criteria, which have weights (TutorBench, section 3)."""

from __future__ import annotations

from maieutic.config.rubric_kinds.base import PassFail


class Weighted(PassFail):
    """Rubric kind for one reply, which is judged by its item's own weighted criteria."""

    name = "weighted"
    weighted = True
