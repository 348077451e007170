"""Graders: what is read from a reply, by functions of item, text and scoring. Their names are those that cards give."""

from __future__ import annotations

from maieutic.core.plugins import merged
from maieutic.graders.grader import Grader

GRADERS: dict[str, Grader] = merged("graders", "GRADERS")
OBJECTIVE = frozenset(name for name, grader in GRADERS.items() if not grader.describing)
