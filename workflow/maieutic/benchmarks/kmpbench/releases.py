"""The graded error reasons of MR-GSM8K: people's verdicts on what a tutor of error detection says."""

from maieutic.benchmarks.kmpbench import items, mr_gsm8k
from maieutic.judges.releases import LabelSource

RELEASES = {
    "mr_gsm8k_reasons": LabelSource(
        load=mr_gsm8k.graded_reasons,
        scales=mr_gsm8k.REASONS,
        variables=frozenset({*items.EC_VARIABLES, "response_1", "response_2"}),
    ),
}
