"""`maieutic export`: a finished run in the formats of other tools."""

from __future__ import annotations

import logging
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from maieutic.core.errors import CLOSED_DISK, UserError
from maieutic.core.files import write_text
from maieutic.report.record.opened import REPORT, OpenRun, open_run

NO_ROOM = "No space left on device"  # the system's words, which every library repeats
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


@contextmanager
def staged(out: Path) -> Iterator[Path]:
    """Give a place beside `out`; its files move to `out` once all of them are whole, and replace those of their names.

    Raises UserError naming the folder where a full or closed disk ends the export, of which nothing is left then.
    """
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{out.name}.", dir=out.parent) as folder:
        place = Path(folder) / out.name
        try:
            yield place
        except Exception as error:
            if getattr(error, "errno", None) not in CLOSED_DISK and NO_ROOM not in str(error):
                raise
            raise UserError(
                str(out.parent), f"cannot be written to: {first_line(error)}", "make room there, or name another --out"
            ) from None
        if place.is_dir():
            out.mkdir(parents=True, exist_ok=True)
            for path in sorted(place.rglob("*")):
                target = out / path.relative_to(place)
                target.mkdir(parents=True, exist_ok=True) if path.is_dir() else path.replace(target)
        else:
            place.replace(out)


def first_line(error: Exception) -> str:
    """Return the first line of an error, without what a library adds."""
    return str(error).strip().split("\n")[0][:200]


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
