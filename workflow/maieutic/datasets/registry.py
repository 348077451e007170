"""Registry of the loaders of all benchmarks, which turn source records into items."""

from __future__ import annotations

from maieutic.core.plugins import merged_plugin_tables
from maieutic.datasets.loaders import Loader

LOADERS: dict[str, Loader] = merged_plugin_tables("loaders", "LOADERS")
