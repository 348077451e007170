"""File patterns of simulations. All other patterns are in `maieutic.core.paths`."""

from __future__ import annotations

from maieutic.core.paths import Pattern

HOME = "results/simulations/{simulation}"
CONVERSATIONS = Pattern(HOME + "/conversations/{tutor}.jsonl")
CLAIMS = Pattern(f"{HOME}/claims.jsonl")
SCORES = Pattern(f"{HOME}/scores.json")
