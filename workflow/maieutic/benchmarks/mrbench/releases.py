"""How the releases of MRBench are read, and those of the shared task that was made of it."""

from maieutic.benchmarks.mrbench.statistics import statistics
from maieutic.datasets import mrbench
from maieutic.judges.releases import LabelSource

LABELLED = LabelSource(
    load=mrbench.labelled_set,
    scales=mrbench.SCALES,
    variables=frozenset(mrbench.JUDGED),
    taxonomy=True,
    statistics=statistics,
)
RELEASES = {"mrbench": LABELLED, "mrbench_test": LABELLED._replace(labelled=False, asked=mrbench.SHARED_TASK)}
