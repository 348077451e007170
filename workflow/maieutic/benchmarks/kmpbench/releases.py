"""The graded error reasons of MR-GSM8K: people's verdicts on what a tutor of error detection says."""

from maieutic.benchmarks.kmpbench import items, mr_gsm8k
from maieutic.judges.releases import LabelSource

RELEASES = {
    "mr_gsm8k_reasons": LabelSource(
        title="MR-GSM8K, graded reasons",
        load=mr_gsm8k.graded_reasons,
        datasets=tuple(
            f"mr_gsm8k_{name}" for name in ("wrong", "gpt35", "llama2", "mammoth", "metamath", "wizardmath")
        ),
        scales=mr_gsm8k.REASONS,
        variables=frozenset({*items.EC_VARIABLES, "response_1", "response_2"}),
        pick=True,
    ),
}
