"""Command `maieutic runs`, which lists the runs in this folder with their report pages."""

from __future__ import annotations

import fcntl
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from maieutic.core import paths
from maieutic.core.errors import UserError, raise_all
from maieutic.core.terminal import say
from maieutic.launch.saved_runs import saved_configs, saved_run
from maieutic.serving.batches import NO_NAME


class RunFolder(NamedTuple):
    """A run as saved in its folder.

    limit: maximum number of items per task, None for all; page: path of the report page, None if the run did not
    finish; partial: path of the page that a failed run has written, None without one; written: time at which the page
    was written, or the configuration if there is no page.
    """

    name: str
    tutors: list[str]
    tasks: list[str]
    limit: int | None
    page: Path | None
    partial: Path | None
    written: datetime


def runs() -> None:
    """List the runs in this folder (name, time, page, tutors, tasks, items per task) and their pending batches.

    Raises UserError at the end for batches whose records cannot be read.
    """
    from maieutic.launch.batches import pending_batches  # imports the client

    folders = list(run_folders(Path(paths.ROOT)))
    batches, faults = pending_batches()
    if not folders and not batches and not faults:
        fix = "run `snakemake --cores all --configfile my.yaml`"
        raise UserError(paths.ROOT, "expected the folder of a run, found none", fix)
    current = run_in_progress()
    for run in sorted(folders, key=lambda run: run.written):
        page = run.page or (f"partial page {run.partial}" if run.partial else "no page: the run did not finish")
        if run.name == current:
            page = f"in progress; earlier page {run.page}" if run.page else "in progress"
        items = "all items" if run.limit is None else f"{run.limit} items per task"
        say(f"{run.name}, {run.written:%Y-%m-%d %H:%M}: {page}")
        say(f"  {shorten_names(run.tutors)} on {shorten_names(run.tasks)}, {items}")
    for batch in batches:
        say(f"pending batch of {batch.run}: {batch.line}")
    if batches:
        say("The next run collects the answers of ended batches. To cancel pending ones: maieutic cancel RUN")
    raise_all(faults)


def run_folders(results: Path) -> Iterable[RunFolder]:
    """Yield each run in a results folder."""
    for path in saved_configs(results):
        run = saved_run(path)
        page, partial = path.parent / "index.html", path.parent / "partial/index.html"
        yield RunFolder(
            run.get("name") or NO_NAME,
            list(run.get("tutors") or ()),
            list(run.get("tasks") or ()),
            run.get("limit"),
            page if page.is_file() else None,
            partial if partial.is_file() and not page.is_file() else None,
            datetime.fromtimestamp((page if page.is_file() else path).stat().st_mtime),
        )


def run_in_progress() -> str | None:
    """Return the name of the run that has locked the results, or None."""
    try:
        with open(Path(paths.RUN_LOCK), encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        path = Path(paths.RUN_CONFIG)
        return (saved_run(path).get("name") or NO_NAME) if path.is_file() else None
    except OSError:  # no run yet, or no locks on this file system
        return None
    return None


def shorten_names(names: list[str], most: int = 3) -> str:
    """Return the first `most` names and the number of further names as text, such as `a, b, c and 2 more`."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")
