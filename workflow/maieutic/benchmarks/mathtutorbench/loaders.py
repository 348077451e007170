"""Loaders of MathTutorBench's items, by their names on cards."""

from __future__ import annotations

from maieutic.benchmarks.mathtutorbench import mathdial_bridge
from maieutic.datasets import gsm8k, stepverify, word_problems
from maieutic.datasets.loaders import Loader

LOADERS = {
    "word_problems": Loader(word_problems.word_problem_items, word_problems.VARIABLES),
    "gsm8k_solving": Loader(gsm8k.gsm8k_items, gsm8k.VARIABLES),
    "gsm8k_socratic": Loader(gsm8k.socratic_items, gsm8k.VARIABLES),
    "stepverify_correctness": Loader(stepverify.correctness_items, stepverify.CHAT_VARIABLES),
    "stepverify_location": Loader(stepverify.location_items, stepverify.LOCATION_VARIABLES),
    "stepverify_correction": Loader(stepverify.correction_items, stepverify.CHAT_VARIABLES),
    "mathdial_bridge": Loader(mathdial_bridge.next_turn, mathdial_bridge.VARIABLES, has_solution=True),
}
