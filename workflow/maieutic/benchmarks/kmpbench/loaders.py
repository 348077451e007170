"""Loaders of KMP-Bench's items, by their names on the cards."""

from __future__ import annotations

from maieutic.benchmarks.kmpbench import items as kmp
from maieutic.benchmarks.kmpbench import mathchat, mr_gsm8k, orca_math, processbench, stepverify
from maieutic.datasets.loaders import Loader

LOADERS = {
    "kmp_fqa": Loader(kmp.kmp_fqa_items, kmp.FQA_VARIABLES),
    "kmp_ec": Loader(kmp.kmp_ec_items, kmp.EC_VARIABLES),
    "kmp_gen_followup": Loader(kmp.kmp_gen_followup_items, kmp.GEN_VARIABLES),
    "kmp_gen_similar": Loader(kmp.kmp_gen_similar_items, kmp.GEN_VARIABLES),
    "kmp_dialogue": Loader(kmp.kmp_dialogue_items, kmp.DIALOGUE_VARIABLES),
    "mathchat_fqa": Loader(mathchat.mathchat_fqa_items, kmp.FQA_VARIABLES),
    "mathchat_gen_followup": Loader(mathchat.mathchat_gen_followup_items, kmp.GEN_VARIABLES),
    "mathchat_gen_similar": Loader(mathchat.mathchat_gen_similar_items, kmp.GEN_VARIABLES),
    "stepverify_ec": Loader(stepverify.stepverify_items, kmp.EC_VARIABLES),
    "processbench_ec": Loader(processbench.processbench_items, kmp.EC_VARIABLES),
    "mr_gsm8k_ec": Loader(mr_gsm8k.mr_gsm8k_items, kmp.EC_VARIABLES),
    "orca_math": Loader(orca_math.orca_math_items, orca_math.VARIABLES),
    "mr_gsm8k_ec_twins": Loader(mr_gsm8k.mr_gsm8k_twin_items, kmp.EC_VARIABLES),
}
