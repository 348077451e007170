"""Tuning of Python's garbage collector."""

from __future__ import annotations

import atexit
import gc

NEW_OBJECTS = 100_000  # number of new objects after which they are scanned
NEW_OBJECTS_OF_A_PLAN = 1_000_000  # the same in Snakemake, whose plan of ten thousand jobs has millions of objects
OLDER_THRESHOLDS = (50, 1000)


def collect_garbage_rarely(new_objects: int = NEW_OBJECTS) -> None:
    """Collect reference cycles a hundred times less often than by default, and not at all when the process exits.

    Records and the jobs of a plan are hundreds of thousands of small objects that live until the process ends.
    Repeated scans of them took more than half of the time to build a report and a tenth of the time to build a large
    plan. The scan at exit took a seventh of the time of a cheap job.

    new_objects: number of new objects after which they are scanned.
    """
    gc.set_threshold(new_objects, *OLDER_THRESHOLDS)
    gc.enable()
    atexit.register(gc.freeze)
