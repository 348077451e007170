"""File patterns of simulations. All other patterns are in `maieutic.core.paths`."""

from __future__ import annotations

from maieutic.core.paths import Pattern

JOURNALS = "results/journal/simulations/{simulation}"
TUTOR_JOURNAL = Pattern(JOURNALS + "/tutors/{tutor}.jsonl")
STUDENT_JOURNAL = Pattern(JOURNALS + "/students/{tutor}.jsonl")
CLAIM_JOURNAL = Pattern(f"{JOURNALS}/claims.jsonl")
HOME = "results/simulations/{simulation}"
CONVERSATIONS = Pattern(HOME + "/conversations/{tutor}.jsonl")
CLAIMS = Pattern(f"{HOME}/claims.jsonl")
SCORES = Pattern(f"{HOME}/scores.json")
