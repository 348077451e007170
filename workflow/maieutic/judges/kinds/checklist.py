"""`checklist`: a criterion passes if the answer shows that it holds (KMP-Bench, Figure 20)."""

from __future__ import annotations

from maieutic.judges.kinds.base import PassFail


class Checklist(PassFail):
    """One reply by the rubric's own rule, which the judge is told: what is not shown to hold, fails."""

    name = "checklist"
    silence_fails = True
