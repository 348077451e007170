"""Command that makes the preference pairs of one source."""

from __future__ import annotations

import logging
from collections import Counter
from pathlib import Path

from maieutic.config.datasets import SourceRecord
from maieutic.config.people import PreferenceSet
from maieutic.core.errors import UserError
from maieutic.core.files import write_json
from maieutic.core.jobs import Job
from maieutic.core.records import Pair, write_records
from maieutic.datasets.pairs import pair_source
from maieutic.datasets.sources import read_source

log = logging.getLogger(__name__)


def refusal_reason(pair: Pair) -> str | None:
    """Return the reason why a pair expresses no preference, or None if it expresses one."""
    if not pair.chosen:
        return "no chosen reply"
    if not pair.rejected:
        return "no rejected reply"
    if pair.chosen == pair.rejected:
        return "equal replies"
    return None


def turns_before(pair: Pair) -> int:
    """Return the number of turns before the reply, counting consecutive turns of one speaker as one turn."""
    return len(pair.prompt) - 1 if pair.tutoring else len(pair.prompt)


class MakePairs(Job):
    """Job that makes the preference pairs of one source.

    forms: formats of the source's files; published: True if the files are the published ones; entry: registry entry of
    the set, or None for training pairs.
    """

    source: str
    forms: list[str]
    published: bool = False
    entry: PreferenceSet | None = None


def make_pairs(*, job: MakePairs, sources: list[Path], out: Path, counts: Path) -> None:
    """Write the preference pairs of one source, and counts of these pairs."""
    is_user_file = job.entry is not None and job.entry.file is not None
    records = [read_source(path, form, user_file=is_user_file) for path, form in zip(sources, job.forms, strict=True)]
    write_pairs(job.source, records, out, counts, job.published, job.entry)


def write_pairs(
    source: str,
    records: list[list[SourceRecord]],
    out: Path,
    counts_out: Path,
    published: bool = False,
    entry: PreferenceSet | None = None,
) -> None:
    """Write the pairs of one source, and counts: valid pairs, refused pairs by reason, and mean number of turns.

    records: the records of each dataset of the source; published: True for the published files; entry: registry entry
    of the set, or None for training pairs. Raises UserError if a field is missing in the records, if no pair is valid,
    or if an exact source (`PairSource.exact`) does not yield the published number of pairs.
    """
    definition = pair_source(source, entry)
    try:
        pairs = definition.load(*records)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise UserError(
            f"preferences/{source}",
            f"{', '.join(definition.datasets)} cannot be read: {type(error).__name__}: {error}",
            "correct the files' fields",
        ) from error
    refused = Counter(reason for pair in pairs if (reason := refusal_reason(pair)))
    kept = [pair for pair in pairs if not refusal_reason(pair)]
    if not kept:
        raise UserError(
            f"preferences/{source}",
            f"expected valid pairs, found none among {len(pairs)}; pairs by fault: {dict(refused)}",
            f"correct the source files of {source}",
        )
    if published and definition.exact and len(kept) != definition.pairs:
        problem = f"expected the {definition.pairs} published pairs, found {len(kept)}"
        raise UserError(f"preferences/{source}", problem, "download the files again")
    for reason, number in sorted(refused.items()):
        log.warning("%s: %d pair(s) refused: %s", source, number, reason)
    counts = {
        "source": source,
        "title": definition.title,
        "pairs": len(kept),
        "refused": dict(sorted(refused.items())),
        "turns": round(sum(map(turns_before, kept)) / len(kept), 3),
        "problems": len({pair.problem for pair in kept}),
        "people_ties": sum(pair.tie for pair in kept),
        "published": definition.pairs,
        "published_turns": definition.turns,
    }
    write_records(out, kept)
    write_json(counts_out, counts)
    log.info("%s: %d pairs, on average %.2f turns before the reply", source, len(kept), counts["turns"])
