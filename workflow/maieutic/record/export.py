"""`maieutic export`: a finished run in the formats of other tools."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from maieutic.core.errors import DISK_ERRORS, UserError
from maieutic.core.files import write_text
from maieutic.record.finished_run import DEFAULT_RUN, FinishedRun, load_finished_run, named_run_folder

log = logging.getLogger(__name__)
ExportFormat = Literal["tidy", "inspect", "leaderboard", "markdown"]


def export(format: ExportFormat, *, run: Path = DEFAULT_RUN, out: Path) -> None:
    """Write a finished run for another tool.

    Args:
        format: tidy (scores and grades as Parquet, and a DuckDB file), inspect (logs for `inspect view`),
            leaderboard (CSV with a row per tutor and the columns of each paper) or markdown (a summary for a pull
            request)
        run: name or folder of the run
        out: folder to create, or a file for markdown
    """
    loaded_run = load_finished_run(named_run_folder(run))
    with staged_output(out) as place:
        written = [
            out if path == place else out / path.relative_to(place) for path in write_format(format, loaded_run, place)
        ]
    for path in written[:3]:
        log.info("%s", path)
    log.info("%d file%s in the format %s", len(written), "" if len(written) == 1 else "s", format)


def write_format(format: ExportFormat, loaded_run: FinishedRun, out: Path) -> list[Path]:
    """Write a run to `out` in one of the export formats, and return the paths of the files."""
    from maieutic.record import inspect_log, summary, tidy

    match format:
        case "tidy":
            written = tidy.write_tidy(loaded_run, out)
        case "inspect":
            written = inspect_log.write_inspect_logs(loaded_run, out)
        case "leaderboard":
            written = summary.write_leaderboards(loaded_run, out)
        case "markdown":
            write_text(out, summary.run_markdown(loaded_run))
            written = [out]
    return written


DISK_FULL_TEXT = "No space left on device"  # the operating system's message, which libraries copy into their errors


@contextmanager
def staged_output(out: Path) -> Iterator[Path]:
    """Yield a temporary path beside `out`. On success, its files move to `out`, replacing files of the same name.

    Raises UserError naming the folder if the disk is full or the folder is not writable. No file is then left behind.
    """
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{out.name}.", dir=out.parent) as folder:
        place = Path(folder) / out.name
        try:
            yield place
        except Exception as error:
            if getattr(error, "errno", None) not in DISK_ERRORS and DISK_FULL_TEXT not in str(error):
                raise
            raise UserError(
                str(out.parent),
                f"cannot be written to: {first_error_line(error)}",
                "free disk space or allow writing there, or pass another --out",
            ) from None
        if place.is_dir():
            out.mkdir(parents=True, exist_ok=True)
            for path in sorted(place.rglob("*")):
                target = out / path.relative_to(place)
                target.mkdir(parents=True, exist_ok=True) if path.is_dir() else path.replace(target)
        else:
            place.replace(out)


def first_error_line(error: Exception) -> str:
    """Return the first line of an error message, cut to 200 characters."""
    return str(error).strip().split("\n")[0][:200]
