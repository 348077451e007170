"""`maieutic verify`: whether a received run is whole, and whether its numbers follow from its replies."""

from __future__ import annotations

import json
import logging
import math
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from maieutic.core import paths
from maieutic.core.errors import UserError
from maieutic.core.files import sha256_of
from maieutic.plan.rules import RulePlan
from maieutic.report.contrasts import contrasts, difference_table
from maieutic.report.record.contents import Step, Wildcards, inputs, own_name, steps, where
from maieutic.report.record.opened import ASK, open_run, plan_of_run, run_folder, unpacked, words
from maieutic.report.record.share import MANIFEST

log = logging.getLogger(__name__)
SAME = 1e-9  # numbers of another machine's library may differ in their last digits
MOST = 10  # faults of one kind that are named
UNREADABLE = (OSError, ValueError, KeyError, AttributeError, TypeError, UserError)  # of a file that is no such file


def verify(received: Path, /) -> None:
    """Check a run that somebody shared: checksums, its scores from its grades, its grades from its replies.

    Its tables are held against these scores. What was measured of graders, breakdowns by tag and the page are not
    computed again: of them the checksums alone speak. received: the folder or the .zip that `maieutic share` wrote. No
    server and no key is needed. Raises UserError naming everything that does not hold.
    """
    with unpacked(received) as folder:
        check_files(folder)
        told = other_cards(folder)
        try:
            run = run_folder(folder)
            done, faults = recomputed(plan_of_run(run), folder)
            faults += [] if faults else other_tables(run)
        except UNREADABLE as error:
            raise UserError(str(received), f"it cannot be computed again: {words(error)}", ASK) from None
    for line in told:
        log.warning("%s", line)
    if faults:
        cards = " (cards of this checkout differ from the run's: check with the commit that it names)" if told else ""
        more = [f"and {len(faults) - MOST} more like these"] if len(faults) > MOST else []
        raise UserError.of([UserError(str(received), fault + cards, ASK) for fault in [*faults[:MOST], *more]])
    log.info(
        "%s: every checksum holds; %d files of grades, scores and differences were computed again, and are the same",
        received, done,
    )  # fmt: skip


def other_tables(run: Path) -> list[str]:
    """How the tables of a run's own folder differ from its scores and differences, once these hold."""
    faults = []
    try:
        opened = open_run(run)
    except UserError as error:
        return [error.problem]
    kept = pd.read_parquet(opened.own(paths.SCORE_PARQUET))
    if not np.allclose(kept.value, pd.read_csv(opened.own(paths.SCORE_TABLE)).value, equal_nan=True):
        faults.append("scores.parquet and scores.csv hold other values")
    now = difference_table(contrasts(opened.plan, opened.results))
    path = opened.own(paths.DIFFERENCE_TABLE)
    table = pd.read_csv(path, float_precision="round_trip")
    if len(table) != len(now) or not np.allclose(table.value.astype(float), now.value.astype(float), equal_nan=True):
        faults.append(f"{path.name} does not follow from the differences")
    return faults


def check_files(folder: Path) -> None:
    """Raises UserError naming the files that were altered, are gone, or were added."""
    manifest = folder / MANIFEST
    if not manifest.is_file():
        raise UserError(str(folder), f"it has no {MANIFEST}", "name what maieutic share wrote")
    listed = {}
    for line in manifest.read_text(encoding="utf-8", errors="replace").split("\n")[:-1]:
        digest, _, name = line.partition("  ")
        listed[name] = digest
    everything = list(folder.rglob("*"))
    there = {str(path.relative_to(folder)) for path in everything if path.is_file() and not path.is_symlink()}
    there -= {MANIFEST}
    links = [f"{path.relative_to(folder)} is a link" for path in everything if path.is_symlink()]
    faults = links + [f"{name} is gone" for name in sorted(listed.keys() - there)]
    faults += [f"{name} was added" for name in sorted(there - listed.keys())]
    faults += [
        f"{name} was altered" for name in sorted(there & listed.keys()) if sha256_of(folder / name) != listed[name]
    ]
    if faults:
        more = len(faults) - MOST
        lines = [*faults[:MOST], *([f"and {more} more"] if more > 0 else [])]
        raise UserError(str(folder), "; ".join(lines), ASK)


def other_cards(folder: Path) -> list[str]:
    """The run's cards, prompts and rubrics that this checkout has otherwise."""
    faults = []
    for path in sorted((folder / "resources").rglob("*")):
        name = path.relative_to(folder)
        if path.is_file():
            own = paths.HOME / name
            if not own.is_file() or own.read_bytes() != path.read_bytes():
                faults.append(f"{name} is another one here: numbers are computed by this checkout's")
    return faults


def recomputed(plan: RulePlan, folder: Path) -> tuple[int, list[str]]:
    """How many files of grades and scores were computed again, and which of them come out otherwise."""
    faults, done = [], 0
    with tempfile.TemporaryDirectory() as place:
        for step in steps(plan):
            again = Path(place) / Path(step.out).name
            try:
                run_step(plan, step, folder, again)
                fault = difference_of(folder / step.out, again)
            except UNREADABLE as error:
                fault = words(error)
            if fault:
                faults.append(f"{step.out} does not follow from what it rests on: {fault}")
            done += 1
    return done, faults


def run_step(plan: RulePlan, step: Step, folder: Path, out: Path) -> None:
    """Do one step again, from the files of a received run."""

    def placed(value: str | list[str]) -> Path | list[Path]:
        if isinstance(value, str):
            return where(folder, own_name(value) or value)
        return [where(folder, own_name(path) or path) for path in value]

    files = {name: placed(value) for name, value in inputs(plan, step).items()}
    items = folder / paths.ITEM_FOLDER.of(benchmark=step.names["benchmark"])
    job = plan.job_of(step.rule)(Wildcards(step.names))
    step.run(job, files, items, out)


def records_in(path: Path) -> list[Any]:
    """The records of a JSON list (.json) or of JSON lines."""
    if path.suffix == ".json":
        found: list[Any] = json.loads(path.read_text(encoding="utf-8"))
        return found
    with open(path, encoding="utf-8") as handle:
        return [json.loads(line) for line in handle]


def difference_of(kept: Path, again: Path) -> str | None:
    """How two files of records differ first; None where they are the same but for the last digits of numbers."""
    first, second = records_in(kept), records_in(again)
    if len(first) != len(second):
        return f"{len(first)} records, computed again {len(second)}"
    for number, (one, other) in enumerate(zip(first, second, strict=True), 1):
        for name in one.keys() | other.keys():
            if not same(one.get(name), other.get(name)):
                return f"record {number}, {name}: {one.get(name)!r}, computed again {other.get(name)!r}"
    return None


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal, numbers within SAME."""
    if isinstance(one, float) and isinstance(other, float | int):
        return math.isclose(one, other, rel_tol=SAME, abs_tol=SAME)
    return bool(one == other)
