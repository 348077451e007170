"""`maieutic export`: a finished run in the formats of other tools."""

from __future__ import annotations

import logging
import time
from pathlib import Path
from typing import Literal

from maieutic.core.files import write_text
from maieutic.report.record.opened import REPORT, OpenRun, open_run
from maieutic.report.record.staging import staged

log = logging.getLogger(__name__)
Format = Literal["tidy", "inspect", "every-eval-ever", "lm-eval", "leaderboard", "markdown"]


def export(format: Format, *, run: Path = REPORT, out: Path) -> None:
    """Write a finished run for another tool.

    format: tidy (Parquet of scores and grades, and a DuckDB file), inspect (logs of Inspect, for `inspect view`),
    every-eval-ever (its schema, with samples), lm-eval (results of lm-evaluation-harness), leaderboard (a CSV row a
    tutor in the columns of each paper), markdown (a summary for a pull request); run: the run's own folder; out: a
    folder, for markdown a file.
    """
    opened = open_run(run)
    with staged(out) as place:
        written = [out if path == place else out / path.relative_to(place) for path in write(format, opened, place)]
    for path in written[:3]:
        log.info("%s", path)
    log.info("%d file%s of %s", len(written), "" if len(written) == 1 else "s", format)


def write(format: Format, opened: OpenRun, out: Path) -> list[Path]:
    """Write a run in a format; return the files."""
    from maieutic.report.record import every_eval_ever, inspect_log, lm_eval, summary, tidy

    now = int(time.time())
    match format:
        case "tidy":
            written = tidy.write_tidy(opened, out)
        case "inspect":
            written = inspect_log.write_logs(opened, out)
        case "every-eval-ever":
            line = "snakemake --cores all --configfile config.yaml"
            written = every_eval_ever.write_records(opened, out, now, line)
        case "lm-eval":
            written = lm_eval.write_results(opened, out, now)
        case "leaderboard":
            written = summary.write_rows(opened, out)
        case "markdown":
            write_text(out, summary.markdown(opened))
            written = [out]
    return written
