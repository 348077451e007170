"""From source files to items: one module a source, one function a task."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from maieutic.datasets import (
    gsm8k,
    kmp,
    mathchat,
    mathdial_bridge,
    mr_gsm8k,
    mrbench,
    processbench,
    stepverify,
    tutorbench,
)
from maieutic.datasets.sources import Source
from maieutic.records import Item


class Loader(NamedTuple):
    """A function from source records and a task's name to items, and the prompt variables that it gives.

    solved: its items' references have a `solution`, which a judge's prompt may use as
    `reference_solution`; replied: they have a person's reply.
    """

    load: Callable[[list[Source], str], list[Item]]
    variables: set[str]
    solved: bool = False
    replied: bool = True

    @property
    def judged(self) -> set[str]:
        """The variables that a judge's prompt may use besides the reply."""
        return {*self.variables, *({"reference_solution"} if self.solved else ())}


LOADERS = {
    "gsm8k_solving": Loader(gsm8k.solving, gsm8k.VARIABLES),
    "gsm8k_socratic": Loader(gsm8k.socratic, gsm8k.VARIABLES),
    "stepverify_correctness": Loader(stepverify.correctness, stepverify.CHAT_VARIABLES),
    "stepverify_location": Loader(stepverify.location, stepverify.LOCATION_VARIABLES),
    "stepverify_correction": Loader(stepverify.correction, stepverify.CHAT_VARIABLES),
    "mathdial_bridge": Loader(mathdial_bridge.next_turn, mathdial_bridge.VARIABLES, solved=True),
    "mrbench": Loader(mrbench.remediation, mrbench.VARIABLES, solved=True),
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
    "tutorbench_text": Loader(tutorbench.text, tutorbench.VARIABLES, replied=False),
    "tutorbench_multimodal": Loader(tutorbench.multimodal, tutorbench.VARIABLES, replied=False),
    "tutorbench_copied_text": Loader(tutorbench.copied_text, tutorbench.VARIABLES, replied=False),
    "mr_gsm8k_ec_twins": Loader(mr_gsm8k.with_twins, kmp.EC_VARIABLES),
}
