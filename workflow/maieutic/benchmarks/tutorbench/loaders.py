"""The loaders of TutorBench's items, by the name that cards give."""

from __future__ import annotations

from maieutic.benchmarks.tutorbench import items as tutorbench
from maieutic.datasets.loaders import Loader

LOADERS = {
    "tutorbench_text": Loader(tutorbench.text, tutorbench.VARIABLES, replied=False),
    "tutorbench_multimodal": Loader(tutorbench.multimodal, tutorbench.VARIABLES, replied=False),
    "tutorbench_copied_text": Loader(tutorbench.copied_text, tutorbench.VARIABLES, replied=False),
}
