"""File patterns of curations and tunings. All other patterns are in `maieutic.core.paths`."""

from __future__ import annotations

from maieutic.core.paths import Pattern

HOME = "results/curation/{curation}"
SEEDS = Pattern(f"{HOME}/seeds.jsonl")
COMPONENTS = Pattern(f"{HOME}/components.jsonl")
FLOWS = Pattern(f"{HOME}/flows.jsonl")
SHEET = Pattern(f"{HOME}/flows.csv")
DIALOGUES = Pattern(f"{HOME}/dialogues.jsonl")
OUTCOMES = Pattern(HOME + "/outcomes/{step}.jsonl")
SETS = {"skills": Pattern(f"{HOME}/sets/skills.jsonl"), "dialogues": Pattern(f"{HOME}/sets/dialogues.jsonl")}
EVALUATION_SHEET = Pattern(f"{HOME}/sets/evaluation.json")
RAW = Pattern(f"{HOME}/training.raw.jsonl")
TRAINING_SET = Pattern(f"{HOME}/sets/training.jsonl")
TRAINING_PARQUET = Pattern(f"{HOME}/sets/training.parquet")
TRAINING_SHEET = Pattern(f"{HOME}/sets/training.json")
FIGURES = Pattern(f"{HOME}/figures.json")
RATINGS = Pattern(HOME + "/ratings/{judge}.jsonl")
RATING_JOURNAL = Pattern("results/journal/curation/{curation}/ratings/{judge}.jsonl")
RATING_SERVER_LOG = Pattern("results/logs/serve/curation/{curation}/ratings/{judge}.log")
JOURNAL = Pattern("results/journal/curation/{curation}/{step}.jsonl")
SERVER_LOGS = Pattern("results/logs/serve/curation/{curation}/{step}")
EXAMPLES = Pattern("results/tuning/{tuning}/examples.jsonl")
EXAMPLE_SHEET = Pattern("results/tuning/{tuning}/examples.json")
TUNED = Pattern("results/tuning/{tuning}/model/manifest.json")
TUNING_JOURNAL = Pattern("results/journal/tuning/{tuning}")
