"""`maieutic forget`: drop the refusals from a run's journals, so that the next run asks those requests again."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from maieutic.config.registry import unknown
from maieutic.core import paths
from maieutic.core.errors import UserError
from maieutic.core.files import whole_file
from maieutic.core.journal import take_lock
from maieutic.core.paths import Pattern
from maieutic.plan.runs import NO_NAME, saved_config, saved_configs

log = logging.getLogger(__name__)
# The journals of what is asked, and the outputs that are made of them.
MADE_OF: dict[Pattern, tuple[Pattern, ...]] = {
    paths.REPLY_JOURNAL: (paths.REPLIES,),
    paths.SHARD_JOURNAL: (paths.SHARD_REPLIES, paths.REPLIES),
    paths.VERDICT_JOURNAL: (paths.VERDICTS,),
    paths.LABELLED_JOURNAL: (paths.LABELLED_VERDICTS,),
    paths.TAG_JOURNAL: (paths.TAGS,),
}


class Kept(NamedTuple):
    """A journal of a run: its file, who is asked, and the outputs that are made of it."""

    path: Path
    asked: str
    outputs: list[Path]


def forget(run: str | None = None, *, refused: bool) -> None:
    """Drop the refused requests of a run from its journals; the next run asks them again.

    The outputs that hold them are removed, so that Snakemake makes them anew. Whatever was answered stays on file.

    run: its name (`maieutic runs`); left out: every run of this folder. refused: what is dropped.
    """
    if not refused:
        raise UserError("maieutic forget", "nothing is named that is to be dropped", "add --refused")
    names = names_of(run)
    dropped = 0
    for journal in journals():
        if names is None or journal.asked in names:
            dropped += without_refusals(journal)
    what = "are asked by the next run" if dropped else "were on file"
    log.info("%d refused requests %s", dropped, what)


def names_of(run: str | None) -> set[str] | None:
    """Return who is asked in a run: tutors, judges, taggers; None for every run. Raises UserError for no such run."""
    if run is None:
        return None
    configs = map(saved_config, saved_configs(Path(paths.ROOT)))
    found = {str(config.get("run", {}).get("name") or NO_NAME): config for config in configs}
    if run not in found:
        raise unknown("maieutic forget", run, list(found), "the runs of this folder")
    chosen, models = found[run].get("run", {}), found[run].get("models", {})
    judges = list(chosen.get("judges") or ())
    members = [name for judge in judges for name in (models.get(judge) or {}).get("judges") or ()]
    return {*(chosen.get("tutors") or ()), *judges, *members, *(chosen.get("taggers") or ())}


def journals() -> Iterator[Kept]:
    """Yield the journals of requests in this folder's results."""
    for path in sorted(Path(paths.JOURNALS).rglob("*.jsonl")):
        for pattern, outputs in MADE_OF.items():
            if match := as_regex(pattern).fullmatch(path.as_posix()):
                wildcards = match.groupdict()
                asked = next(wildcards[name] for name in ("tutor", "judge", "tagger") if name in wildcards)
                yield Kept(path, asked, [Path(output.of(**wildcards)) for output in outputs])
                break


def as_regex(pattern: Pattern) -> re.Pattern[str]:
    """Return a regular expression for the paths of a pattern, a group for each name."""
    return re.compile(re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[^/]+)", re.escape(pattern)))


def without_refusals(journal: Kept) -> int:
    """Drop a journal's refusals and the outputs that hold them; return how many there were."""
    handle = take_lock(journal.path.with_suffix(".lock"))
    try:
        lines = journal.path.read_bytes().splitlines(keepends=True)
        kept = [line for line in lines if not is_refused(line)]
        if len(kept) == len(lines):
            return 0
        for output in journal.outputs:  # first: an output without its journal's line is made anew in any case
            output.unlink(missing_ok=True)
        with whole_file(journal.path, "wb") as file:
            file.writelines(kept)
        return len(lines) - len(kept)
    finally:
        handle.close()


def is_refused(line: bytes) -> bool:
    """Return whether a journal's line is a refusal; a damaged line is not."""
    try:
        entry = json.loads(line)
    except ValueError:
        return False
    return isinstance(entry, dict) and bool(entry.get("error"))
