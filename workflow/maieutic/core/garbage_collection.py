"""Tuning of Python's garbage collector."""

from __future__ import annotations

import atexit
import gc

THRESHOLDS = (100_000, 50, 1000)


def collect_garbage_rarely() -> None:
    """Collect reference cycles a hundred times less often than by default, and not at all when the process exits.

    Records and the jobs of a plan are hundreds of thousands of small objects that live until the process ends.
    Scanning them repeatedly took more than half of a report's time and a tenth of a large plan's. The final scan took
    a seventh of a cheap job's time.
    """
    gc.set_threshold(*THRESHOLDS)
    gc.enable()
    atexit.register(gc.freeze)
