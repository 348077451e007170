"""The loaders of MRBench's items, by the name that cards give."""

from __future__ import annotations

from maieutic.datasets import mrbench
from maieutic.datasets.loaders import Loader

LOADERS = {
    "mrbench": Loader(mrbench.remediation, mrbench.VARIABLES, solved=True),
}
