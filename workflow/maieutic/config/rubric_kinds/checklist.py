"""`checklist`: a criterion passes if the judge shows that it is met (KMP-Bench, Figure 20)."""

from __future__ import annotations

from maieutic.config.rubric_kinds.base import PassFail


class Checklist(PassFail):
    """Rubric kind for one reply, with a rule stated in the prompt: a criterion that is not shown to be met fails."""

    name = "checklist"
    omission_fails = True
