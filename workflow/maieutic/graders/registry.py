"""Registry of the graders, under the names that task cards use."""

from __future__ import annotations

from maieutic.core.plugins import merged_plugin_tables
from maieutic.graders.grader import Grader

GRADERS: dict[str, Grader] = merged_plugin_tables("graders", "GRADERS")
OBJECTIVE_GRADERS = frozenset(name for name, grader in GRADERS.items() if not grader.descriptive)
