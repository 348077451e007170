"""`maieutic forget`: drop refusals from a run's journals, or all texts of a run on transcripts."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from maieutic.config.registry import unknown_name
from maieutic.core import paths
from maieutic.core.errors import UserError
from maieutic.core.files import atomic_file, remove
from maieutic.core.journal import lock_path, take_lock
from maieutic.core.paths import Pattern
from maieutic.launch.batches import NO_NAME
from maieutic.launch.runs import saved_config, saved_configs
from maieutic.serving.batches import BatchFolder
from maieutic.simulation.paths import (
    CLAIM_JOURNAL,
    CLAIMS,
    CONVERSATIONS,
    SCORES,
    STUDENT_JOURNAL,
    TUTOR_JOURNAL,
)
from maieutic.simulation.planned import FLOORS
from maieutic.transcripts.moments import DATA_FILE, DATASET_SUFFIX, FOLDER_MARK, REPLIES_FILE

log = logging.getLogger(__name__)
# journal of requests -> outputs that are made from it
OUTPUTS_OF_JOURNAL: dict[Pattern, tuple[Pattern, ...]] = {
    paths.REPLY_JOURNAL: (paths.REPLIES,),
    paths.SHARD_JOURNAL: (paths.SHARD_REPLIES, paths.REPLIES),
    paths.VERDICT_JOURNAL: (paths.VERDICTS,),
    paths.LABELLED_JOURNAL: (paths.LABELLED_VERDICTS,),
    paths.TAG_JOURNAL: (paths.TAGS,),
    TUTOR_JOURNAL: (CONVERSATIONS, SCORES),
    STUDENT_JOURNAL: (CONVERSATIONS, SCORES),
    CLAIM_JOURNAL: (CLAIMS, SCORES),
}


class RequestJournal(NamedTuple):
    """Journal of a run's requests.

    model: tutor, judge or tagger whose answers the journal stores, or the simulation of its claims; outputs: files that
    are made from it.
    """

    path: Path
    model: str
    outputs: list[Path]


def forget(run: str | None = None, *, refused: bool = False, transcripts: bool = False) -> None:
    """Drop the refused requests of a run from its journals, or all texts of a run on transcripts.

    refused: drop refusals; the next run repeats these requests. Outputs made from these journals are removed, so that
    Snakemake makes them anew, and all other answers are kept. transcripts: remove the conversations from the data
    folder, and every text made from them: items, replies, verdicts, grades, journals, logs and the page. Its numbers
    (scores and tables) are kept.

    run: name of the run, as listed by `maieutic runs`; with `refused`, all runs in this folder if omitted.
    """
    if refused == transcripts:
        fix = "add either --refused or --transcripts"
        raise UserError("maieutic forget", "expected one kind of content to drop", fix)
    if transcripts:
        forget_transcripts(run)
        return
    names = asked_models_of_run(run)
    dropped = 0
    for journal in journals():
        if names is None or journal.model in names:
            dropped += drop_refusals(journal)
    log.info("refused requests dropped: %d%s", dropped, "; the next run repeats them" if dropped else "")


def configs_by_run() -> dict[str, dict[str, Any]]:
    """Return the saved configuration of each run of this folder, by its name."""
    configs = map(saved_config, saved_configs(Path(paths.ROOT)))
    return {str(config.get("run", {}).get("name") or NO_NAME): config for config in configs}


def config_of_run(run: str) -> dict[str, Any]:
    """Return the saved configuration of a run. Raises UserError for an unknown run."""
    by_name = configs_by_run()
    if run not in by_name:
        raise unknown_name("maieutic forget", run, list(by_name), "the runs of this folder")
    return by_name[run]


KEPT_FOLDERS = ("scores", "runs", "report", "benchmarks", "validation")  # folders of results that contain no texts


def forget_transcripts(run: str | None) -> None:
    """Remove the texts of a run on transcripts. Raises UserError if the run is unknown or has no transcripts."""
    if run is None:
        raise UserError("maieutic forget", "expected the name of a run, found none", "pass a name of `maieutic runs`")
    prepared = Path(run)
    if (prepared / FOLDER_MARK).is_file() and run not in configs_by_run():  # prepared, but never started
        remove_all([prepared / DATA_FILE, prepared / REPLIES_FILE], run)
        return
    config = config_of_run(run)
    datasets = config.get("datasets", {})
    benchmarks = {str(task).partition("/")[0] for task in config.get("run", {}).get("tasks", ())}
    names = {name for name in benchmarks if f"{name}{DATASET_SUFFIX}" in datasets}
    if not names:
        raise UserError("maieutic forget", f"run {run} has no transcripts", "name a run of `maieutic transcripts`")
    results = Path(paths.ROOT)
    page = results / f"runs/{run}"
    doomed = [page / "index.html", page / "items", page / "partial"]
    for name in names:
        data = Path(datasets[f"{name}{DATASET_SUFFIX}"]["published"]["path"])
        doomed += [Path(paths.SOURCE.of(dataset=f"{name}{DATASET_SUFFIX}")), data, data.with_name(REPLIES_FILE)]
        folders = [path for path in results.rglob(name) if path.is_dir()]
        doomed += [path for path in folders if path.relative_to(results).parts[0] not in KEPT_FOLDERS]
    doomed += [
        path
        for name, entry in (config.get("simulations") or {}).items()
        if str(entry.get("task")).partition("/")[0] in names
        for path in simulated_texts(results, name)
    ]
    remove_all(doomed, run)


def simulated_texts(results: Path, simulation: str) -> list[Path]:
    """Return the folders and files with texts of a simulation. Its scores are not among them."""
    claims = Path(CLAIMS.of(simulation=simulation))
    return [
        claims,
        claims.with_name("conversations"),
        results / f"journal/simulations/{simulation}",
        results / f"logs/serve/simulations/{simulation}",
        results / f"logs/simulate_conversations/{simulation}",
        results / f"logs/measure_claims/{simulation}.log",
    ]


def remove_all(doomed: Iterable[Path], run: str) -> None:
    """Remove files and folders with texts of a run, and log what was removed and what was not."""
    removed = 0
    for path in doomed:
        if remove(path):
            removed += 1
            log.info("removed %s", path)
    log.info("removed: %d files and folders with texts of run %s", removed, run)
    log.info(
        "not removed: the file with your transcripts, other runs that were made from it, samples of `maieutic label`, "
        "and archives"
    )


def asked_models_of_run(run: str | None) -> set[str] | None:
    """Return the tutors, judges, taggers and simulations of a run; None if no run is named.

    Raises UserError for an unknown run.
    """
    if run is None:
        return None
    config = config_of_run(run)
    chosen, models = config.get("run", {}), config.get("models", {})
    judges = list(chosen.get("judges") or ())
    members = [name for judge in judges for name in (models.get(judge) or {}).get("judges") or ()]
    simulations = config.get("simulations") or {}
    simulated = {*simulations, *FLOORS} if simulations else set()
    return {*(chosen.get("tutors") or ()), *judges, *members, *(chosen.get("taggers") or ()), *simulated}


def journals() -> Iterator[RequestJournal]:
    """Yield all journals of requests in the current folder's results."""
    for path in sorted(Path(paths.JOURNALS).rglob("*.jsonl")):
        for pattern, outputs in OUTPUTS_OF_JOURNAL.items():
            if match := path_regex(pattern).fullmatch(path.as_posix()):
                wildcards = match.groupdict()
                name = next(wildcards[kind] for kind in ("tutor", "judge", "tagger", "simulation") if kind in wildcards)
                yield RequestJournal(path, name, [Path(output.of(**wildcards)) for output in outputs])
                break


def path_regex(pattern: Pattern) -> re.Pattern[str]:
    """Return the regular expression for the paths that match a pattern, with a named group for each wildcard."""
    return re.compile(re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[^/]+)", re.escape(pattern)))


def drop_refusals(journal: RequestJournal) -> int:
    """Remove all refusals from a journal, and return their number.

    If there are any, the outputs made from the journal are removed as well.
    """
    handle = take_lock(lock_path(journal.path))
    try:
        BatchFolder.beside(journal.path).drop_refusals()
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
