"""The releases of MRBench, and of the shared task that was made of it."""

from maieutic.datasets import mrbench
from maieutic.judges.releases import LabelSource

V1 = LabelSource(
    title="MRBench V1",
    load=mrbench.labelled_set,
    datasets=("mrbench",),
    scales=mrbench.LABELS,
    variables=frozenset(mrbench.JUDGED),
    desired=mrbench.DESIRED,
    seen_by="mrbench",
    pick=True,
    taxonomy=True,
)
DEVELOPMENT, TEST = "MRBench V3 (BEA 2025, development)", "MRBench V3 (BEA 2025, test)"
RELEASES = {
    "mrbench": V1,
    "mrbench_v2": V1._replace(title="MRBench V2", datasets=("mrbench_v2",), pick=False),
    "mrbench_v3": V1._replace(title=DEVELOPMENT, datasets=("mrbench_v3",), pick=False),
    "mrbench_v3_test": V1._replace(
        title=TEST, datasets=("mrbench_v3_test",), labelled=False, pick=False, asked=mrbench.SHARED_TASK
    ),
}
