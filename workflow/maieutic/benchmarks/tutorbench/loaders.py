"""Loaders of TutorBench's items, by their names on the cards."""

from __future__ import annotations

from maieutic.benchmarks.tutorbench import items as tutorbench
from maieutic.datasets.loaders import Loader

LOADERS = {
    "tutorbench_text": Loader(tutorbench.text_items, tutorbench.VARIABLES, has_human_reply=False),
    "tutorbench_multimodal": Loader(tutorbench.multimodal_items, tutorbench.VARIABLES, has_human_reply=False),
    "tutorbench_copied_text": Loader(tutorbench.copied_text_items, tutorbench.VARIABLES, has_human_reply=False),
}
