"""File patterns of curations and tunings. All other patterns are in `maieutic.core.paths`."""

from __future__ import annotations

from maieutic.core.paths import Pattern

HOME = "results/curation/{curation}"
SEEDS = Pattern(f"{HOME}/seeds.jsonl")
SHEET = Pattern(f"{HOME}/flows.csv")
OUTCOMES = Pattern(HOME + "/outcomes/{step}.jsonl")
SETS = {"skills": Pattern(f"{HOME}/sets/skills.jsonl"), "dialogues": Pattern(f"{HOME}/sets/dialogues.jsonl")}
EVALUATION_SHEET = Pattern(f"{HOME}/sets/evaluation.json")
TRAINING_SET = Pattern(f"{HOME}/sets/training.jsonl")
TRAINING_SHEET = Pattern(f"{HOME}/sets/training.json")
FIGURES = Pattern(f"{HOME}/figures.json")
RATINGS = Pattern(HOME + "/ratings/{judge}.jsonl")
EXAMPLES = Pattern("results/tuning/{tuning}/examples.jsonl")
TUNED = Pattern("results/tuning/{tuning}/model/manifest.json")
