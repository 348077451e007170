"""Sources of the preference pairs on which MathTutorBench's reward models are trained and tested (Table 2)."""

from maieutic.datasets import bridge, gsm8k, mathdial, mrbench, ultrafeedback
from maieutic.datasets.pair_sources import PairSource

PAIR_SOURCES = {
    "gsm8k_inpainted": PairSource(
        "GSM8k-inpainted", gsm8k.inpainted_pairs, ("gsm8k_socratic_train", "gsm8k_socratic"), 22753, 4.38,
        "sub-question", "solution step",
    ),
    "mathdial": PairSource(
        "MathDial", mathdial.mathdial_pairs, ("mathdial_train",), 3615, 2.93,
        "probing or focus turn", "reference solution",
    ),
    "mrbench": PairSource(
        "MRBench", mrbench.mrbench_pairs, ("mrbench",), 4521, 3.74,
        "more desired criteria", "fewer desired criteria", exact=True,
    ),
    "ultrafeedback": PairSource(
        "UltraFeedback", ultrafeedback.ultrafeedback_pairs, ("ultrafeedback",), None, None,
        "better answer", "worse answer",
    ),
    "bridge": PairSource(
        "Bridge", bridge.bridge_pairs, ("bridge_train", "bridge_validation", "bridge_test", "mrbench"), 482, 2.79,
        "expert teacher", "novice teacher", test=True, exact=True,
    ),
}  # fmt: skip
