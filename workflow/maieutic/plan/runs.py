"""`maieutic runs`: the runs of this folder, each with its page."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from maieutic.core import paths
from maieutic.core.documents import read_yaml
from maieutic.core.errors import UserError


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
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    found = list(run_folders(Path(paths.ROOT)))
    if not found:
        raise UserError(paths.ROOT, "no run has written its folder yet", "snakemake --cores all --configfile my.yaml")
    table = Table("run", "written", "tutors", "tasks", "items", box=SIMPLE_HEAD)
    table.add_column("page", no_wrap=True, overflow="ignore")
    for run in sorted(found, key=lambda run: run.written):
        table.add_row(
            run.name,
            f"{run.written:%Y-%m-%d %H:%M}",
            shortened(run.tutors),
            shortened(run.tasks),
            "all" if run.limit is None else str(run.limit),
            str(run.page) if run.page else "none: it did not get so far",
        )
    Console().print(table)


def run_folders(results: Path) -> Iterable[RunFolder]:
    """Every run's own folder below a folder of results."""
    for path in (path for folder in paths.PAGES for path in results.glob(f"{folder}/config.yaml")):
        run = (read_yaml(path, "delete it: a run writes it anew") or {}).get("run", {})
        page = path.parent / "index.html"
        yield RunFolder(
            run.get("name") or "(no name)",
            list(run.get("tutors") or ()),
            list(run.get("tasks") or ()),
            run.get("limit"),
            page if page.is_file() else None,
            datetime.fromtimestamp((page if page.is_file() else path).stat().st_mtime),
        )


def shortened(names: list[str], most: int = 3) -> str:
    """The first of some names, and how many more there are."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")
