"""`maieutic forget`: drop refusals from a run's journals, so that the next run repeats the refused requests."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from maieutic.config.registry import unknown_name
from maieutic.core import paths
from maieutic.core.errors import UserError
from maieutic.core.files import atomic_file
from maieutic.core.journal import take_lock
from maieutic.core.paths import Pattern
from maieutic.launch.runs import NO_NAME, saved_config, saved_configs

log = logging.getLogger(__name__)
# journal of requests -> outputs that are made from it
OUTPUTS_OF_JOURNAL: dict[Pattern, tuple[Pattern, ...]] = {
    paths.REPLY_JOURNAL: (paths.REPLIES,),
    paths.SHARD_JOURNAL: (paths.SHARD_REPLIES, paths.REPLIES),
    paths.VERDICT_JOURNAL: (paths.VERDICTS,),
    paths.LABELLED_JOURNAL: (paths.LABELLED_VERDICTS,),
    paths.TAG_JOURNAL: (paths.TAGS,),
}


class RequestJournal(NamedTuple):
    """Journal of a run's requests.

    model: tutor, judge or tagger whose answers the journal stores; outputs: files that are made from it.
    """

    path: Path
    model: str
    outputs: list[Path]


def forget(run: str | None = None, *, refused: bool) -> None:
    """Drop the refused requests of a run from its journals. The next run repeats them.

    Outputs made from these journals are removed, so that Snakemake makes them anew. All other answers are kept.

    run: name of the run, as listed by `maieutic runs`; if omitted, all runs in this folder. refused: drop refusals
    (required).
    """
    if not refused:
        raise UserError("maieutic forget", "expected a kind of answer to drop, found none", "add --refused")
    names = asked_models_of_run(run)
    dropped = 0
    for journal in journals():
        if names is None or journal.model in names:
            dropped += drop_refusals(journal)
    log.info("refused requests dropped: %d%s", dropped, "; the next run repeats them" if dropped else "")


def asked_models_of_run(run: str | None) -> set[str] | None:
    """Return the tutors, judges and taggers of a run; None if no run is named. Raises UserError for an unknown run."""
    if run is None:
        return None
    configs = map(saved_config, saved_configs(Path(paths.ROOT)))
    by_name = {str(config.get("run", {}).get("name") or NO_NAME): config for config in configs}
    if run not in by_name:
        raise unknown_name("maieutic forget", run, list(by_name), "the runs of this folder")
    chosen, models = by_name[run].get("run", {}), by_name[run].get("models", {})
    judges = list(chosen.get("judges") or ())
    members = [name for judge in judges for name in (models.get(judge) or {}).get("judges") or ()]
    return {*(chosen.get("tutors") or ()), *judges, *members, *(chosen.get("taggers") or ())}


def journals() -> Iterator[RequestJournal]:
    """Yield all journals of requests in the current folder's results."""
    for path in sorted(Path(paths.JOURNALS).rglob("*.jsonl")):
        for pattern, outputs in OUTPUTS_OF_JOURNAL.items():
            if match := path_regex(pattern).fullmatch(path.as_posix()):
                wildcards = match.groupdict()
                name = next(wildcards[kind] for kind in ("tutor", "judge", "tagger") if kind in wildcards)
                yield RequestJournal(path, name, [Path(output.of(**wildcards)) for output in outputs])
                break


def path_regex(pattern: Pattern) -> re.Pattern[str]:
    """Return the regular expression for the paths that match a pattern, with a named group for each wildcard."""
    return re.compile(re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[^/]+)", re.escape(pattern)))


def drop_refusals(journal: RequestJournal) -> int:
    """Remove all refusals from a journal, and return their number.

    If there are any, the outputs made from the journal are removed as well.
    """
    handle = take_lock(journal.path.with_suffix(".lock"))
    try:
        lines = journal.path.read_bytes().splitlines(keepends=True)
        kept = [line for line in lines if not is_refusal_line(line)]
        if len(kept) == len(lines):
            return 0
        # Remove the outputs before rewriting the journal, so that they are made anew after a kill in between.
        for output in journal.outputs:
            output.unlink(missing_ok=True)
        with atomic_file(journal.path, "wb") as file:
            file.writelines(kept)
        return len(lines) - len(kept)
    finally:
        handle.close()


def is_refusal_line(line: bytes) -> bool:
    """Return True if a line of a journal is a refusal. A damaged line does not count as one."""
    try:
        entry = json.loads(line)
    except ValueError:
        return False
    return isinstance(entry, dict) and bool(entry.get("error"))
