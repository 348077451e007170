"""`maieutic forget`: drop missing answers from a run's journals, or all texts of a run on transcripts."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Container, Iterator
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

from maieutic.config.registry import unknown_name
from maieutic.core import paths
from maieutic.core.errors import UserError
from maieutic.core.files import atomic_file, remove
from maieutic.core.journal import failed_path, lock_path, take_lock, unparsed_path
from maieutic.core.ledger import valid_json_lines
from maieutic.core.paths import Pattern
from maieutic.core.states import filter_error, is_missing_answer, state_of
from maieutic.launch.results_lock import locked_results
from maieutic.launch.saved_runs import name_of_run, saved_config, saved_configs
from maieutic.serving.batches import NO_NAME, BatchFolder
from maieutic.simulation import stage as simulation_stage
from maieutic.simulation.stage import (
    CLAIM_JOURNAL,
    CLAIMS,
    CONVERSATIONS,
    FLOORS,
    SCORES,
    STUDENT_JOURNAL,
    TUTOR_JOURNAL,
)
from maieutic.transcripts.moments import DATA_FILE, DATASET_SUFFIX, FOLDER_MARK, REPLIES_FILE

log = logging.getLogger(__name__)
# journal of requests -> outputs that are made from it
OUTPUTS_OF_JOURNAL: dict[Pattern, tuple[Pattern, ...]] = {
    paths.REPLY_JOURNAL: (paths.REPLIES,),
    paths.SHARD_JOURNAL: (paths.SHARD_REPLIES, paths.REPLIES),
    paths.VERDICT_JOURNAL: (paths.VERDICTS,),
    paths.LABELLED_JOURNAL: (paths.LABELLED_VERDICTS,),
    paths.TAG_JOURNAL: (paths.TAGS,),
    paths.READER_JOURNAL: (paths.READINGS,),
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


Missing = Literal["refused", "filtered", "failed", "unparsed"]
REFUSED, FILTERED, FAILED, UNPARSED = "refused", "filtered", "failed", "unparsed"


def forget(
    run: str | None = None,
    *,
    missing: list[Missing] | None = None,
    refused: bool = False,
    transcripts: bool = False,
    yes: bool = False,
) -> None:
    """Drop requests without a usable answer from a run's journals, or all texts of a run on transcripts.

    The next run repeats dropped requests. Outputs made from these journals are removed, so that Snakemake makes them
    anew, and all other answers are kept. With `transcripts`, the conversations are removed from the data folder, and
    so is every text made from them: items, replies, verdicts, grades, journals, logs and the page. The numbers (scores
    and tables) are kept.

    Args:
        run: name or folder of the run; with --missing, all runs in this folder if omitted
        missing: why an answer is missing: `refused` by the endpoint, `filtered` by it, `failed` in every attempt,
            or `unparsed` (a judge's answer that cannot be read)
        refused: the same as --missing refused
        transcripts: remove the run's conversations, and every text made from them
        yes: remove the files; without it, they are only listed
    """
    reasons: set[str] = {*(missing or []), *([REFUSED] if refused else [])}
    if bool(reasons) == transcripts:
        fix = "add either --missing REASON or --transcripts"
        raise UserError("maieutic forget", "expected one kind of content to drop", fix)
    run = run and name_of_run(run)
    with locked_results("forget"):
        if transcripts:
            forget_transcripts(run, yes)
            return
        names = asked_models_of_run(run)
        chosen = (journal for journal in journals() if names is None or journal.model in names)
        dropped = sum(drop_missing(journal, reasons) for journal in chosen)
    what = ", ".join(sorted(reasons))
    log.info("requests dropped (%s): %d%s", what, dropped, "; the next run repeats them" if dropped else "")


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


# folders of results that contain no texts
KEPT_FOLDERS = frozenset({"scores", "runs", "report", "benchmarks", "validation", "{run}"})


def forget_transcripts(run: str | None, yes: bool) -> None:
    """Remove the texts of a run on transcripts. Raises UserError if the run is unknown or has no transcripts.

    yes: False to only list them; the error then names the flag.
    """
    if run is None:
        raise UserError("maieutic forget", "expected the name of a run, found none", "pass a name of `maieutic runs`")
    prepared = Path(run)
    if (prepared / FOLDER_MARK).is_file() and run not in configs_by_run():  # prepared, but never started
        remove_all(Owned([prepared / DATA_FILE, prepared / REPLIES_FILE], []), run, yes)
        return
    config = config_of_run(run)
    datasets = config.get("datasets", {})
    benchmarks = {str(task).partition("/")[0] for task in config.get("run", {}).get("tasks", ())}
    names = {name for name in benchmarks if f"{name}{DATASET_SUFFIX}" in datasets}
    if not names:
        raise UserError("maieutic forget", f"run {run} has no transcripts", "name a run of `maieutic transcripts`")
    page = Path(paths.ROOT) / f"runs/{run}"
    doomed, shared = [page / "index.html", page / "items", page / "partial", page / "kept"], list[Path]()
    doomed += [Path(paths.PROGRESS.of()), Path(paths.LIVE_PAGE.of())]  # the latest replies of the last run
    for name in names:
        data = Path(datasets[f"{name}{DATASET_SUFFIX}"]["published"]["path"])
        doomed += [data, data.with_name(REPLIES_FILE)]
        simulations = [
            simulation
            for simulation, entry in (config.get("simulations") or {}).items()
            if str(entry.get("task")).partition("/")[0] == name
        ]
        for wildcard, owner in [
            ("dataset", f"{name}{DATASET_SUFFIX}"),
            ("benchmark", name),
            *(("simulation", simulation) for simulation in simulations),
        ]:
            owned = owned_files(wildcard, owner, KEPT_FOLDERS)
            doomed += [path for path in owned.own if path.name != Path(SCORES).name]
            shared += owned.shared
    remove_all(Owned(doomed, shared), run, yes)


def remove_all(doomed: Owned, run: str, yes: bool) -> None:
    """Remove files and folders with texts of a run, and log what was removed and what was not.

    yes: False to only list them. Raises UserError that names the flag.
    """
    existing = [path for path in doomed.own if path.exists()]
    for path in doomed.shared:
        log.warning("not removed: %s may belong to something else that is called like this run", path)
    if not yes and existing:
        for path in existing:
            log.info("would be removed: %s", path)
        problem = f"nothing was removed yet: {len(existing)} files and folders with texts of run {run}"
        raise UserError("maieutic forget", problem, "add --yes to remove them")
    for path in existing:
        remove(path)
        log.info("removed %s", path)
    log.info("removed: %d files and folders with texts of run %s", len(existing), run)
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
                name = next(
                    wildcards[kind]
                    for kind in ("reader", "tutor", "judge", "tagger", "simulation")
                    if kind in wildcards
                )
                yield RequestJournal(path, name, [Path(output.of(**wildcards)) for output in outputs])
                break


def path_regex(pattern: Pattern) -> re.Pattern[str]:
    """Return the regular expression for the paths that match a pattern, with a named group for each wildcard."""
    return re.compile(re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[^/]+)", re.escape(pattern)))


def drop_missing(journal: RequestJournal, reasons: Container[str]) -> int:
    """Remove the requests without a usable answer from a journal, and return their number.

    reasons: reasons for which they have none. If there are any, the outputs made from the journal are removed as well.
    """
    handle = take_lock(lock_path(journal.path))
    try:
        keys = unparsed_keys(journal) if UNPARSED in reasons else set()
        lines = journal.path.read_bytes().splitlines(keepends=True)
        dropped = [key for line in lines if (key := missing_key(line, reasons, keys)) is not None]
        failed, failures = 0, failed_path(journal.path)
        forgets_failures = FAILED in reasons and failures.is_file()
        if forgets_failures:
            BatchFolder().forget_unanswered(str(journal.path))
            failed = len({entry.get("key") for entry in valid_json_lines(failures)})
        if not dropped and not forgets_failures:
            return 0
        # Remove the outputs before rewriting the journal, so that they are made anew after a kill in between.
        for output in journal.outputs:
            output.unlink(missing_ok=True)
        if forgets_failures:
            failures.unlink()
        if dropped:
            with atomic_file(journal.path, "wb") as file:
                file.writelines(line for line in lines if missing_key(line, reasons, keys) is None)
            unparsed_path(journal.path).unlink(missing_ok=True)
        return len(dropped) + failed
    finally:
        handle.close()


def missing_key(line: bytes, reasons: Container[str], unparsed: Container[str]) -> str | None:
    """Return the key of a journal's line that is to be dropped, else None. A damaged line is kept.

    unparsed: keys of the answers that could not be read.
    """
    try:
        entry = json.loads(line)
    except ValueError:
        return None
    if not isinstance(entry, dict) or not isinstance(key := entry.get("key"), str):
        return None
    state = state_of(filter_error(entry.get("finish"), entry.get("error")))
    return key if state in reasons or key in unparsed else None


def unparsed_keys(journal: RequestJournal) -> set[str]:
    """Return the keys of a judge's answers that could not be read: those of its job, and those of its verdicts."""
    keys = set[str]()
    if (listed := unparsed_path(journal.path)).is_file():
        keys |= set(listed.read_text(encoding="utf-8").split())
    for output in (path for path in journal.outputs if path.is_file()):
        for line in valid_json_lines(output):
            verdicts = line.get("verdicts") if isinstance(line, dict) else None
            if isinstance(verdicts, list) and any(
                verdict.get("value") is None and not is_missing_answer(str(verdict.get("why_none")))
                for verdict in verdicts
            ):
                keys.add(str(line.get("key")))
    return keys


RULES = Path(__file__).resolve().parents[2] / "rules"
RULE_PATH = re.compile(r'"(results/[^"*]*\{[^"*]*)"')
WILDCARD = re.compile(r"\{(\w+)\}")


class Owned(NamedTuple):
    """Files and folders of one name. shared: those that may as well belong to something else of the same name."""

    own: list[Path]
    shared: list[Path]


@cache
def all_patterns() -> tuple[tuple[str, ...], ...]:
    """Return the components of every path with wildcards that a rule or the package uses."""
    known = [value for module in (paths, simulation_stage) for value in vars(module).values()]
    patterns = {str(value) for value in known if isinstance(value, Pattern) and "{" in value}
    for file in sorted(RULES.glob("*.smk")):
        patterns |= set(RULE_PATH.findall(file.read_text(encoding="utf-8")))
    return tuple(sorted(tuple(pattern.split("/")) for pattern in patterns))


@cache
def reserved_names() -> frozenset[str]:
    """Return the names of folders under `results/` that no benchmark, dataset or run may have."""
    parts = {part for pattern in all_patterns() for part in pattern if not WILDCARD.search(part)}
    return frozenset(parts | {Path(part).stem for part in parts})


def component_regex(component: str) -> re.Pattern[str]:
    """Return the regular expression for one component of a pattern."""
    return re.compile("".join(".+" if part == 1 else re.escape(text) for text, part in split_wildcards(component)))


def split_wildcards(component: str) -> Iterator[tuple[str, int]]:
    """Yield the parts of a component: (text, 0), or (name, 1) for a wildcard."""
    for number, text in enumerate(WILDCARD.split(component)):
        if text:
            yield text, number % 2


def matches(pattern: tuple[str, ...], parts: tuple[str, ...]) -> bool:
    """Return True if the first components of a pattern can be those of a path."""
    return len(pattern) >= len(parts) and all(
        component_regex(component).fullmatch(part) for component, part in zip(pattern, parts, strict=False)
    )


def owned_files(wildcard: str, name: str, kept: frozenset[str]) -> Owned:
    """Return the files and folders of a benchmark, dataset or simulation in the current folder's results.

    A folder belongs to it if its name stands in the place of the wildcard, and if nothing else has a path there. Files
    in a folder that something else of the same name may use are listed as shared unless no other path is like theirs.

    wildcard: kind of the name in paths, such as `benchmark`; kept: folders of results that are left out.
    """
    own_paths, shared = set[Path](), set[Path]()
    mark = f"{{{wildcard}}}"
    for pattern in all_patterns():
        place = next((number for number, part in enumerate(pattern) if mark in part), None)
        if place is None or pattern[1] in kept:
            continue
        parts = tuple(part.replace(mark, name) for part in pattern[: place + 1])
        if Path(parts[-1]).suffix == ".jsonl":
            parts = (*parts[:-1], f"{Path(parts[-1]).stem}.*")  # with the ledger and the batches of a journal
        for path in Path(paths.ROOT).glob("/".join(WILDCARD.sub("*", part) for part in parts[1:])):
            others = [other for other in all_patterns() if matches(other, path.parts) and mark not in other[place]]
            if not others:
                own_paths.add(path)
                continue
            for file in path.rglob("*") if path.is_dir() else [path]:
                if file.is_file():
                    alike = [other for other in others if len(other) == len(file.parts) and matches(other, file.parts)]
                    is_own = matches(pattern, file.parts) and len(pattern) == len(file.parts) and not alike
                    (own_paths if is_own else shared).add(file)
    outer = {path for path in own_paths if not any(parent in own_paths for parent in path.parents)}
    return Owned(sorted(outer), sorted(shared - own_paths))
