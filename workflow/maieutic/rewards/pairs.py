"""Preference pairs by source: which datasets they are made of, and which pairs are refused."""

from __future__ import annotations

import logging
from collections import Counter
from functools import partial
from pathlib import Path

from maieutic.config.datasets import Source
from maieutic.config.people import TABLE, PreferenceSet
from maieutic.config.registry import unknown
from maieutic.core.errors import UserError
from maieutic.core.files import write_json
from maieutic.core.jobs import Job
from maieutic.core.plugins import merged
from maieutic.core.records import Pair, write_records
from maieutic.datasets.sources import read_source
from maieutic.rewards.pair_table import preferences_of_table
from maieutic.rewards.sources import PairSource

log = logging.getLogger(__name__)
PAIR_SOURCES: dict[str, PairSource] = merged("pairs", "PAIR_SOURCES")


def refusal(pair: Pair) -> str | None:
    """Why a pair says nothing, or None where it does."""
    if not pair.chosen:
        return "no chosen reply"
    if not pair.rejected:
        return "no rejected reply"
    if pair.chosen == pair.rejected:
        return "equal replies"
    return None


def turns_before(pair: Pair) -> int:
    """Turns of the dialogue before the reply, neighbours of one speaker counted once."""
    return len(pair.prompt) - 1 if pair.tutoring else len(pair.prompt)


def pair_source(name: str, entry: PreferenceSet | None) -> PairSource:
    """How a set of pairs is made: a set of the registry by its loader, else a source of training pairs by its name."""
    if entry is None:
        return PAIR_SOURCES[name]
    if entry.loader != TABLE:
        if entry.loader not in PAIR_SOURCES:
            raise unknown(f"preferences.{name}.loader", entry.loader, [TABLE, *PAIR_SOURCES], "the loaders of pairs")
        return PAIR_SOURCES[entry.loader]
    load = partial(preferences_of_table, name, entry.columns, values=entry.values)
    return PairSource(entry.title, load, tuple(entry.datasets), None, None, "preferred", "not preferred", test=True)


class MakePairs(Job):
    """A source of preference pairs, the forms of its files, and whether they are the published ones.

    entry: of a set of the registry; None: pairs to train on.
    """

    source: str
    forms: list[str]
    published: bool = False
    entry: PreferenceSet | None = None


def make_pairs(*, job: MakePairs, sources: list[Path], out: Path, counts: Path) -> None:
    """Write the pairs of one source, and what was counted."""
    own = job.entry is not None and job.entry.file is not None
    records = [read_source(path, form, own=own) for path, form in zip(sources, job.forms, strict=True)]
    write_pairs(job.source, records, out, counts, job.published, job.entry)


def write_pairs(
    source: str,
    records: list[list[Source]],
    out: Path,
    counts_out: Path,
    published: bool = False,
    entry: PreferenceSet | None = None,
) -> None:
    """Write the pairs of one source, and what was counted: pairs, refused ones by reason, average turns.

    records: those of each of the source's datasets; published: they are the published ones; entry: of the registry.
    Raises UserError where the fields, or the count of a source whose rule is known exactly, are not as published.
    """
    about = pair_source(source, entry)
    try:
        made = about.load(*records)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise UserError(
            f"preferences/{source}",
            f"{', '.join(about.datasets)} cannot be read: {type(error).__name__}: {error}",
            "check the files' fields",
        ) from error
    refused = Counter(why for pair in made if (why := refusal(pair)))
    kept = [pair for pair in made if not refusal(pair)]
    if not kept:
        raise UserError(f"preferences/{source}", f"no pair is left of {len(made)}: {dict(refused)}", "check the data")
    if published and about.exact and len(kept) != about.pairs:
        raise UserError(f"preferences/{source}", f"{about.pairs} pairs are published, {len(kept)} found", "fetch anew")
    for why, number in sorted(refused.items()):
        log.warning("%s: %d pair(s) refused: %s", source, number, why)
    counts = {
        "source": source,
        "title": about.title,
        "pairs": len(kept),
        "refused": dict(sorted(refused.items())),
        "turns": round(sum(map(turns_before, kept)) / len(kept), 3),
        "problems": len({pair.problem for pair in kept}),
        "people_ties": sum(pair.tie for pair in kept),
        "published": about.pairs,
        "published_turns": about.turns,
    }
    write_records(out, kept)
    write_json(counts_out, counts)
    log.info("%s: %d pairs, %.2f turns before the reply", source, len(kept), counts["turns"])
