"""Label sources of MRBench's releases and of the BEA 2025 shared task, which was built on MRBench."""

from maieutic.benchmarks.mrbench.statistics import release_statistics
from maieutic.datasets import mrbench
from maieutic.datasets.releases import LabelSource

LABELLED = LabelSource(
    load=mrbench.labelled_set,
    scales=mrbench.SCALES,
    variables=frozenset(mrbench.JUDGE_PROMPT_VARIABLES),
    taxonomy=True,
    statistics=release_statistics,
)
RELEASES = {"mrbench": LABELLED, "mrbench_test": LABELLED._replace(labelled=False, judged_criteria=mrbench.SHARED_TASK)}
