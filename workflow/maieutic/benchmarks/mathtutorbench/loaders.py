"""The loaders of MathTutorBench's items, by the name that cards give."""

from __future__ import annotations

from maieutic.benchmarks.mathtutorbench import mathdial_bridge
from maieutic.datasets import gsm8k, stepverify, word_problems
from maieutic.datasets.loaders import Loader

LOADERS = {
    "word_problems": Loader(word_problems.solving, word_problems.VARIABLES),
    "gsm8k_solving": Loader(gsm8k.solving, gsm8k.VARIABLES),
    "gsm8k_socratic": Loader(gsm8k.socratic, gsm8k.VARIABLES),
    "stepverify_correctness": Loader(stepverify.correctness, stepverify.CHAT_VARIABLES),
    "stepverify_location": Loader(stepverify.location, stepverify.LOCATION_VARIABLES),
    "stepverify_correction": Loader(stepverify.correction, stepverify.CHAT_VARIABLES),
    "mathdial_bridge": Loader(mathdial_bridge.next_turn, mathdial_bridge.VARIABLES, solved=True),
}
