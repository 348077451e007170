"""`maieutic verify`: whether a received run is whole, and whether its numbers follow from its replies."""

from __future__ import annotations

import itertools
import logging
import shlex
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

from maieutic.core import paths
from maieutic.core.errors import UserError
from maieutic.plan.provenance import Code, Provenance, code_state, read_provenance
from maieutic.plan.rules import RulePlan
from maieutic.report import write_report
from maieutic.report.record.altered import altered, difference_of
from maieutic.report.record.contents import Step, Wildcards, flat, inputs, own_name, steps, validation_steps, where
from maieutic.report.record.opened import own_file, plan_of_run, results_of, run_folder
from maieutic.report.record.received import (
    ASK,
    MOST_FAULTS,
    MOST_MB,
    check_files,
    check_records,
    unpacked,
    words,
)
from maieutic.report.record.signing import check_signature

log = logging.getLogger(__name__)
# What a file that is no such file raises.
UNREADABLE = (OSError, ValueError, KeyError, AttributeError, TypeError, IndexError, RecursionError, UserError)


class Again(NamedTuple):
    """What was computed again. names: of the files, from the crate's folder; faults: a line for each that differs."""

    names: list[str]
    faults: list[str]


def verify(received: Path, /, *, signed_by: Path | None = None, most_mb: float = MOST_MB) -> None:
    """Check a run that somebody shared: its checksums, its numbers from its replies, its page from its numbers.

    Grades, scores, differences and scores by tag are computed again, then every table, picture and page of the report,
    and compared in every column. What is only checked by its checksum is listed. No server and no key is needed.

    received: the folder or the .zip that `maieutic share` wrote; signed_by: a file with the public key, or keys, of
    which one must have signed the manifest; most_mb: the most that all files may have together, in MB. Raises UserError
    with a line for each fault.
    """
    with unpacked(received, most_mb) as folder:
        listed = check_files(folder)
        signature = check_signature(received, folder, signed_by)
        check_records(folder, listed)
        try:
            run = run_folder(folder)
            made_of = read_provenance(own_file(run, paths.PROVENANCE))
            again = computed_again(plan_of_run(run), run, folder, made_of)
            other = other_code(made_of, folder)
        except UNREADABLE as error:
            raise UserError(str(received), f"it cannot be computed again: {words(error)}", ASK) from None
    if again.faults:
        raise not_the_same(received, again.faults, other, made_of)
    for line in other:
        log.warning("%s; the numbers are the same by this checkout", line)
    log.info("%s: %d files, every checksum holds%s", received, len(listed), signature)
    log.info("computed again and the same, in every column: %s", counted(again.names))
    log.info("checked by their checksums alone: %s", counted(listed.keys() - set(again.names)))


def counted(names: Iterable[str]) -> str:
    """Return how many files lie where, by the folder of a stage."""
    folders = Counter(
        "/".join(Path(name).parts[:2] if len(Path(name).parts) > 2 else Path(name).parts[:1]) for name in names
    )
    return ", ".join(f"{folder} ({number})" if number > 1 else folder for folder, number in sorted(folders.items()))


def not_the_same(received: Path, faults: list[str], other: list[str], made_of: Provenance | None) -> UserError:
    """Return the error for a run whose files differ. other: how this checkout differs from the run's code and cards."""
    more = [f"and {len(faults) - MOST_FAULTS} more like these"] if len(faults) > MOST_FAULTS else []
    shown = [*faults[:MOST_FAULTS], *more]
    if not other:
        return UserError.of([UserError(str(received), f"it was altered: {fault}", ASK) for fault in shown])
    first = UserError(
        str(received), f"its numbers come out differently here, which proves nothing: {'; '.join(other)}",
        at_its_own_commit(received, made_of),
    )  # fmt: skip
    return UserError.of(
        [first, *(UserError(str(received), fault, "verify it by the run's own code") for fault in shown)]
    )


def at_its_own_commit(received: Path, made_of: Provenance | None) -> str:
    """Return the command that verifies a run by the code that it was made by."""
    commit = made_of.code.commit if made_of else None
    if commit is None:
        return "ask the sender for the code of the run: its commit is not recorded"
    place = f"../maieutic-{commit[:7]}"
    edited = " (and ask the sender for the edited files)" if made_of and made_of.code.n_edited else ""
    return (
        f"git fetch --all; git worktree add {place} {commit} && make -C {place} driver && "
        f"(cd {place} && .venv/bin/maieutic verify {shlex.quote(str(received.resolve()))}){edited}"
    )


def other_code(made_of: Provenance | None, folder: Path) -> list[str]:
    """Return how this checkout differs from what a run was made by: its commit, edited files, cards and rubrics."""
    here, there = code_state(paths.HOME), made_of.code if made_of else Code(commit=None)
    found = []
    if there.commit is None:
        found.append("the commit of the run's code is not recorded")
    elif here.commit != there.commit:
        own = here.commit or "no git checkout"
        found.append(f"the run was made by commit {there.commit}, and this checkout is {own}")
    if there.n_edited:
        found.append(f"the run's code had {there.n_edited} edited files, such as {', '.join(there.edited[:3])}")
    if here.n_edited:
        found.append(f"this checkout has {here.n_edited} edited files, such as {', '.join(here.edited[:3])}")
    return [*found, *other_cards(folder)]


def other_cards(folder: Path) -> list[str]:
    """Return the run's cards, prompts and rubrics that differ in this checkout."""
    faults = []
    for path in sorted((folder / "resources").rglob("*")):
        name = path.relative_to(folder)
        if path.is_file():
            own = paths.HOME / name
            if not own.is_file() or own.read_bytes() != path.read_bytes():
                faults.append(f"{name} differs from this checkout's")
    return faults


def computed_again(plan: RulePlan, run: Path, folder: Path, made_of: Provenance | None) -> Again:
    """Compute everything again that follows from files of a received run, and compare it.

    run: the run's own folder; folder: the crate's.
    """
    done = steps_again(plan, folder)
    if done.faults:  # the report would repeat each of them
        return done
    with tempfile.TemporaryDirectory() as place:
        write_report(plan, made_of, results_of(run), Path(place))
        own = [path.relative_to(place) for path in Path(place).rglob("*") if path.is_file()]
        names = [str((run / name).relative_to(folder)) for name in own]
        return Again([*done.names, *names], altered(run, Path(place)))


def steps_again(plan: RulePlan, folder: Path) -> Again:
    """Compute grades, scores, differences and validation again, as far as what they rest on is in the crate."""
    names, faults = [], []
    there = (own for own in validation_steps(plan) if is_there(plan, own, folder))
    for own in itertools.chain(steps(plan), there):
        with tempfile.TemporaryDirectory() as place:
            again = {path: Path(place) / f"{number}{Path(path).suffix}" for number, path in enumerate(flat(own.outs))}
            try:
                run_step(plan, own, folder, again)
                found = {path: difference_of(folder / path, made) for path, made in again.items()}
            except UNREADABLE as error:
                found = {next(iter(again)): words(error)}
        faults += [f"{path}: {fault}" for path, fault in found.items() if fault]
        names += list(again)
    return Again(names, faults)


def is_there(plan: RulePlan, step: Step, folder: Path) -> bool:
    """Return whether everything that a step rests on is in a crate or in this checkout."""
    return all(placed(folder, path).is_file() for path in flat(inputs(plan, step)))


def placed(folder: Path, path: str) -> Path:
    """Return where a rule's file lies for a received run."""
    return where(folder, own_name(path) or path)


def run_step(plan: RulePlan, step: Step, folder: Path, again: Mapping[str, Path]) -> None:
    """Do one step again, from the files of a received run. again: where to write, by the names of its outputs."""

    def files(named: Mapping[str, str | list[str]], place: Callable[[str], Path]) -> dict[str, Path | list[Path]]:
        return {
            name: place(value) if isinstance(value, str) else [place(path) for path in value]
            for name, value in named.items()
        }

    own = plan.job_of(step.rule)(Wildcards(step.names))
    items = folder / paths.ITEM_FOLDER.of(benchmark=step.names.get("benchmark", ""))
    given = files(inputs(plan, step), partial(placed, folder))
    step.run(own, given, items, files(step.outs, again.__getitem__))
