"""Tuning of Python's garbage collector."""

from __future__ import annotations

import atexit
import gc

THRESHOLDS = (100_000, 50, 1000)


def collect_garbage_rarely() -> None:
    """Collect reference cycles a hundred times less often than by default, and not at all when the process exits.

    Records and the jobs of a plan are hundreds of thousands of small objects that live until the process ends.
    Repeated scans of them took more than half of the time to build a report and a tenth of the time to build a large
    plan. The scan at exit took a seventh of the time of a cheap job.
    """
    gc.set_threshold(*THRESHOLDS)
    gc.enable()
    atexit.register(gc.freeze)
