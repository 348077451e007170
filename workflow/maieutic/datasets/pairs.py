"""Preference pairs, made from the datasets of each source. Pairs that express no preference are left out."""

from __future__ import annotations

from functools import partial

from maieutic.config.people import TABLE_LOADER, PreferenceSet
from maieutic.config.registry import unknown_name
from maieutic.core.plugins import merged_plugin_tables
from maieutic.datasets.pair_sources import PairSource
from maieutic.datasets.pair_table import preferences_of_table

PAIR_SOURCES: dict[str, PairSource] = merged_plugin_tables("pairs", "PAIR_SOURCES")


def pair_source(name: str, entry: PreferenceSet | None) -> PairSource:
    """Return the source of a set of pairs. Raises UserError if the entry's loader does not exist.

    name: name of the set; entry: its registry entry, or None for training pairs, whose source has the same name.
    """
    if entry is None:
        return PAIR_SOURCES[name]
    if entry.loader != TABLE_LOADER:
        if entry.loader not in PAIR_SOURCES:
            raise unknown_name(
                f"preferences.{name}.loader", entry.loader, [TABLE_LOADER, *PAIR_SOURCES], "the loaders of pairs"
            )
        return PAIR_SOURCES[entry.loader]
    load = partial(preferences_of_table, name, entry.columns, values=entry.values)
    return PairSource(entry.title, load, tuple(entry.datasets), None, None, "preferred", "not preferred", test=True)
