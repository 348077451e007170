"""`maieutic verify`: check that a received run is complete and that its numbers follow from its replies."""

from __future__ import annotations

import logging
import shlex
import tempfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from maieutic.core import paths
from maieutic.core.errors import UserError
from maieutic.core.extensions import LISTED, listed_path
from maieutic.core.files import sha256_of
from maieutic.launch.provenance import code_state
from maieutic.plan.provenance import CodeState, Provenance, read_provenance
from maieutic.plan.rules import RulePlan
from maieutic.record.file_comparison import compare_report_files, file_difference
from maieutic.record.finished_run import own_file, plan_of_run, results_folder_of, single_run_folder
from maieutic.record.planned_jobs import PlannedJob, folder_of_run, jobs_of_run
from maieutic.record.received import (
    ASK_SENDER,
    MOST_LISTED_FAULTS,
    MOST_RUN_MB,
    check_json_sizes,
    error_text,
    unpack_run,
)
from maieutic.record.signing import check_signature
from maieutic.report import write_report

log = logging.getLogger(__name__)
# Exceptions that may be raised if a received file has unexpected content
READING_ERRORS = (OSError, ValueError, KeyError, AttributeError, TypeError, IndexError, RecursionError, UserError)


class Recomputed(NamedTuple):
    """Result of recomputing a run's files.

    names: paths of the recomputed files, relative to the crate's folder; faults: a line for each file that differs.
    """

    names: list[str]
    faults: list[str]


def verify(received: Path, /, *, signed_by: Path | None = None, most_mb: float = MOST_RUN_MB) -> None:
    """Check a shared run: its checksums, its numbers against its replies, and its report against its numbers.

    Recomputes grades, scores, differences and scores by tag, then every page, table and picture of the report, and
    compares each file with the received one (tables in every column). Lists the files that are checked only by their
    checksums. Needs neither a server nor a key.

    Args:
        received: folder or .zip file that `maieutic share` wrote
        signed_by: file of public keys, one of which must have signed the manifest
        most_mb: maximum total size of all files, in MB

    Raises:
        UserError: has a line for each fault
    """
    with unpack_run(received, most_mb) as (folder, listed):
        signature = check_signature(received, folder, signed_by)
        check_json_sizes(folder, listed)
        try:
            run = single_run_folder(folder)
            provenance = read_provenance(own_file(run, paths.PROVENANCE))
            again = recompute_run(plan_of_run(run), run, folder, provenance)
            code_changes = code_differences(provenance, folder)
        except READING_ERRORS as error:
            raise UserError(str(received), f"cannot be recomputed: {error_text(error)}", ASK_SENDER) from None
    if again.faults:
        raise altered_run_error(received, again.faults, code_changes, provenance)
    for line in code_changes:
        log.warning("%s; this checkout reproduces the run's numbers", line)
    log.info("%s: %d files, every checksum matches%s", received, len(listed), signature)
    log.info("recomputed, with the same values in every column: %s", count_by_folder(again.names))
    log.info("checked by checksum alone: %s", count_by_folder(listed.keys() - set(again.names)))


def count_by_folder(names: Iterable[str]) -> str:
    """Return a text that lists the folders of the named files (up to two levels), each with its number of files."""
    folders = Counter(
        "/".join(Path(name).parts[:2] if len(Path(name).parts) > 2 else Path(name).parts[:1]) for name in names
    )
    return ", ".join(f"{folder} ({number})" if number > 1 else folder for folder, number in sorted(folders.items()))


def altered_run_error(
    received: Path, faults: list[str], code_changes: list[str], provenance: Provenance | None
) -> UserError:
    """Return the error for a run whose files differ from the recomputed ones.

    code_changes: differences between this checkout and the code and cards that made the run. Without such
    differences, the run was altered; otherwise, they may be the cause.
    """
    more = [f"{len(faults) - MOST_LISTED_FAULTS} more faults"] if len(faults) > MOST_LISTED_FAULTS else []
    lines = [*faults[:MOST_LISTED_FAULTS], *more]
    if not code_changes:
        return UserError.of([UserError(str(received), f"was altered: {fault}", ASK_SENDER) for fault in lines])
    first = UserError(
        str(received),
        f"recomputed numbers differ; differences in code or cards may be the cause: {'; '.join(code_changes)}",
        verification_commands(received, provenance),
    )
    return UserError.of(
        [first, *(UserError(str(received), fault, "verify the run with its own code") for fault in lines)]
    )


def verification_commands(received: Path, provenance: Provenance | None) -> str:
    """Return the shell commands that verify a run with the code that made it, or advice if the commit is unknown."""
    commit = provenance.code.commit if provenance else None
    if commit is None:
        return "ask the sender for the code of the run, whose commit is not recorded"
    place = f"../maieutic-{commit[:7]}"
    edited = " (and ask the sender for the edited files)" if provenance and provenance.code.n_edited else ""
    return (
        f"git fetch --all; git worktree add {place} {commit} && make -C {place} driver && "
        f"(cd {place} && .venv/bin/maieutic verify {shlex.quote(str(received.resolve()))}){edited}"
    )


def code_differences(provenance: Provenance | None, folder: Path) -> list[str]:
    """Return how this checkout differs from the code that made a run: commit, edited files, cards and rubrics."""
    here, there = code_state(paths.HOME), provenance.code if provenance else CodeState(commit=None)
    lines = []
    if there.commit is None:
        lines.append("the commit of the run's code is not recorded")
    elif here.commit != there.commit:
        lines.append(
            f"the run was made with commit {there.commit}, but this checkout is "
            + (f"at {here.commit}" if here.commit else "not a git checkout")
        )
    if there.n_edited:
        lines.append(f"the run's code had {there.n_edited} edited files, such as {', '.join(there.edited[:3])}")
    if here.n_edited:
        lines.append(f"this checkout has {here.n_edited} edited files, such as {', '.join(here.edited[:3])}")
    return [*lines, *extension_differences(provenance, folder), *card_differences(folder)]


def extension_differences(provenance: Provenance | None, folder: Path) -> list[str]:
    """Return a line for each file of an extension that a run's record names and the folder lacks or has changed."""
    recorded = (provenance.extensions if provenance else None) or {}
    packed = {name: folder / name for name in recorded}
    return [
        f"{name} is not the file that the run's record names"
        for name, path in packed.items()
        if not path.is_file() or sha256_of(path) != recorded[name]
    ]


def card_differences(folder: Path) -> list[str]:
    """Return a line for each card, prompt and rubric of a run that differs from the file in this checkout.

    Files of extensions are compared with those of the active extensions.
    """
    faults = []
    for path in sorted(path for name in ("resources", LISTED) for path in (folder / name).rglob("*")):
        name = path.relative_to(folder)
        if path.is_file():
            current = listed_path(str(name))
            if not current.is_file() or current.read_bytes() != path.read_bytes():
                faults.append(f"{name} differs from the file in this checkout")
    return faults


def recompute_run(plan: RulePlan, run: Path, folder: Path, provenance: Provenance | None) -> Recomputed:
    """Recompute all files of a received run that follow from its other files, and compare them with the received ones.

    run: the run's own folder; folder: the crate's folder.
    """
    results = folder / paths.ROOT
    jobs = jobs_of_run(plan, results)
    done = recompute_jobs([job for job in jobs if not (job.missing and job.validates)], results)
    if done.faults:  # skip the report, which would repeat each fault of the scores
        return done
    with tempfile.TemporaryDirectory() as place:
        write_report(plan, provenance, results_folder_of(run), Path(place))
        made = [path.relative_to(place) for path in Path(place).rglob("*") if path.is_file()]
        names = [str((run / name).relative_to(folder)) for name in made]
        return Recomputed([*done.names, *names], compare_report_files(run, Path(place)))


def recompute_jobs(jobs: Iterable[PlannedJob], results: Path) -> Recomputed:
    """Recompute the outputs of a run's jobs, and compare them with the files in its results folder."""
    names, faults = list[str](), list[str]()
    with folder_of_run(results):
        for job in jobs:
            with tempfile.TemporaryDirectory() as place:
                outputs = {
                    path: Path(place) / f"{number}{Path(path).suffix}" for number, path in enumerate(job.outputs)
                }
                try:
                    job.run(outputs)
                    differences = {path: file_difference(Path(path), output) for path, output in outputs.items()}
                except READING_ERRORS as error:
                    differences = {job.outputs[0]: error_text(error)}
            faults += [f"{path}: {fault}" for path, fault in differences.items() if fault]
            names += list(outputs)
    return Recomputed(names, faults)
