"""`maieutic runs`: the runs of this folder, each with its page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from maieutic.core import paths
from maieutic.core.documents import read_yaml
from maieutic.core.errors import UserError

NO_NAME = "(no name)"  # of a run that its run file does not name


class RunFolder(NamedTuple):
    """A run as its own folder tells it. page: where it is, None where it was never finished; written: its time."""

    name: str
    tutors: list[str]
    tasks: list[str]
    limit: int | None
    page: Path | None
    written: datetime


def runs() -> None:
    """Print the runs of this folder: name, when it was written, tutors, tasks, items a task, page."""
    found = list(run_folders(Path(paths.ROOT)))
    if not found:
        raise UserError(paths.ROOT, "no run has written its folder yet", "snakemake --cores all --configfile my.yaml")
    for run in sorted(found, key=lambda run: run.written):
        page = run.page or "no page: it did not get so far"
        items = "all items" if run.limit is None else f"{run.limit} items a task"
        print(f"{run.name}, {run.written:%Y-%m-%d %H:%M}: {page}")
        print(f"  {shortened(run.tutors)} on {shortened(run.tasks)}, {items}")


def run_folders(results: Path) -> Iterable[RunFolder]:
    """Every run's own folder below a folder of results."""
    for path in saved_configs(results):
        run = saved_run(path)
        page = path.parent / "index.html"
        yield RunFolder(
            run.get("name") or NO_NAME,
            list(run.get("tutors") or ()),
            list(run.get("tasks") or ()),
            run.get("limit"),
            page if page.is_file() else None,
            datetime.fromtimestamp((page if page.is_file() else path).stat().st_mtime),
        )


def saved_configs(results: Path) -> Iterator[Path]:
    """Yield the configuration that each run has saved below a folder of results."""
    return (path for folder in paths.PAGES for path in results.glob(f"{folder}/config.yaml"))


def saved_config(config: Path) -> dict[str, Any]:
    """Return the configuration that a run has saved. Raises UserError where it cannot be read."""
    return read_yaml(config, "delete it: a run writes it anew") or {}


def saved_run(config: Path) -> dict[str, Any]:
    """Return the selection of the run that has saved this configuration. Raises UserError where it cannot be read."""
    return saved_config(config).get("run", {})


def shortened(names: list[str], most: int = 3) -> str:
    """The first of some names, and how many more there are."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")
