"""Loader of MRBench's items, by its name on cards."""

from __future__ import annotations

from maieutic.datasets import mrbench
from maieutic.datasets.loaders import Loader

LOADERS = {
    "mrbench": Loader(mrbench.remediation_items, mrbench.VARIABLES, has_solution=True),
}
