"""How often Python looks for cycles among objects."""

from __future__ import annotations

import atexit
import gc

THRESHOLDS = (100_000, 50, 1000)


def collect_seldom() -> None:
    """Look for cycles a hundred times less often than Python does by itself.

    Records, and the jobs of a plan, are hundreds of thousands of small objects that live to a process's end. Looking
    for cycles among them again and again took more than half of a report's time, and a tenth of a large plan's; a last
    time, at the end, a seventh of a cheap job's.
    """
    gc.set_threshold(*THRESHOLDS)
    gc.enable()
    atexit.register(gc.freeze)
