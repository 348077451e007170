"""From source files to items: one module a source that several benchmarks read, and the loaders of all benchmarks."""

from __future__ import annotations

from maieutic.core.plugins import merged
from maieutic.datasets.loaders import Loader

LOADERS: dict[str, Loader] = merged("loaders", "LOADERS")
