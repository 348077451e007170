"""Label source of MR-GSM8K: people's verdicts on the reasons that models gave for first wrong steps."""

from maieutic.benchmarks.kmpbench import items, mr_gsm8k
from maieutic.datasets.releases import LabelSource

RELEASES = {
    "mr_gsm8k_reasons": LabelSource(
        load=mr_gsm8k.graded_reasons,
        scales=mr_gsm8k.REASONS,
        variables=frozenset({*items.EC_VARIABLES, "response_1", "response_2"}),
    ),
}
