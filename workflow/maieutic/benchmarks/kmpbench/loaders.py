"""The loaders of KMP-Bench's items, by the name that cards give."""

from __future__ import annotations

from maieutic.benchmarks.kmpbench import items as kmp
from maieutic.benchmarks.kmpbench import mathchat, mr_gsm8k, processbench, stepverify
from maieutic.datasets.loaders import Loader

LOADERS = {
    "kmp_fqa": Loader(kmp.follow_up, kmp.FQA_VARIABLES),
    "kmp_ec": Loader(kmp.error_correction, kmp.EC_VARIABLES),
    "kmp_gen_followup": Loader(kmp.gen_follow_up, kmp.GEN_VARIABLES),
    "kmp_gen_similar": Loader(kmp.gen_similar, kmp.GEN_VARIABLES),
    "kmp_dialogue": Loader(kmp.dialogue, kmp.DIALOGUE_VARIABLES),
    "mathchat_fqa": Loader(mathchat.follow_up, kmp.FQA_VARIABLES),
    "mathchat_gen_followup": Loader(mathchat.gen_follow_up, kmp.GEN_VARIABLES),
    "mathchat_gen_similar": Loader(mathchat.gen_similar, kmp.GEN_VARIABLES),
    "stepverify_ec": Loader(stepverify.detection, kmp.EC_VARIABLES),
    "processbench_ec": Loader(processbench.detection, kmp.EC_VARIABLES),
    "mr_gsm8k_ec": Loader(mr_gsm8k.detection, kmp.EC_VARIABLES),
    "mr_gsm8k_ec_twins": Loader(mr_gsm8k.with_twins, kmp.EC_VARIABLES),
}
