"""`maieutic export`: a finished run in the formats of other tools."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Literal

from maieutic.core.files import write_text
from maieutic.record.finished_run import DEFAULT_RUN, FinishedRun, load_finished_run
from maieutic.record.staging import staged_output

log = logging.getLogger(__name__)
ExportFormat = Literal["tidy", "inspect", "leaderboard", "markdown"]


def export(format: ExportFormat, *, run: Path = DEFAULT_RUN, out: Path) -> None:
    """Write a finished run for another tool.

    format: tidy (scores and grades as Parquet, and a DuckDB file), inspect (logs for `inspect view`), leaderboard (CSV
    with a row per tutor and the columns of each paper), markdown (a summary for a pull request); run: the run's own
    folder; out: a folder, or a file for markdown.
    """
    loaded_run = load_finished_run(run)
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
