"""`maieutic run --stop-at`: raise `run.limit` in rounds until every headline is known with the wanted width.

Each round is an ordinary run, so a killed round is continued by the same command.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from maieutic.config.settings import read_config
from maieutic.core import paths
from maieutic.core.errors import UserError
from maieutic.core.files import atomic_file
from maieutic.core.terminal import say
from maieutic.launch.config_files import merged_configuration
from maieutic.launch.saved_runs import saved_run
from maieutic.scores.anytime import read_bounds, stop_lines

FIRST_LIMIT, GROWTH = 50, 1.5  # limit of the first round, and the factor from one round to the next
OVERLAY = Path("results/.stop-at.yaml")  # run file with the limit of the current round


def width_of(words: str) -> float:
    """Return the width in the value of `--stop-at`, such as `width=0.06`. Raises UserError for any other value."""
    match = re.fullmatch(r"width=(0?\.\d+)", words)
    if match is None or not float(match[1]):
        problem = f"expected width=NUMBER with a number between 0 and 1, found {words}"
        raise UserError("--stop-at", problem, "pass it as in --stop-at width=0.06")
    return float(match[1])


def run_in_rounds(configfile: Path, width: float, start: Callable[[Path], int]) -> None:
    """Run a run file with rising limits, until every headline that is a mean is known with an interval of that width.

    start: function that runs the run file with one more file, and returns the exit code.

    Raises SystemExit with Snakemake's exit code if a round fails or waits for batches: the same command continues it.
    """
    run = read_config(merged_configuration([configfile])).run.model_copy(update={"stop_width": width})
    limit = first_limit(run.model_dump(mode="json"))
    benchmarks = list(dict.fromkeys(task.partition("/")[0] for task in run.tasks))
    while True:
        OVERLAY.parent.mkdir(exist_ok=True)
        with atomic_file(OVERLAY) as handle:
            handle.write(json.dumps({"run": {"limit": limit, "stop_width": width}}) + "\n")
        code = start(OVERLAY)
        if code:
            raise SystemExit(code)
        rows = read_bounds(Path(paths.MEAN_BOUNDS.of(benchmark=name)) for name in benchmarks)
        if not rows or any(row.limit != limit for row in rows):  # the options let this call run no job, or only others
            return
        is_sample = any(row.n < row.population for row in rows)
        if limit is None or (is_sample and all(row.is_settled(width) for row in rows)):
            break
        limit = math.ceil(limit * GROWTH)
        # Without a limit, a run of all items is no sample, even if an earlier limit exceeded the number of items.
        limit = limit if is_sample and limit < max(row.population for row in rows) else None
    for line in stop_lines(rows, width):
        say(line, error=True)


def first_limit(run: Mapping[str, Any]) -> int | None:
    """Return the limit to begin with: that of the last round of the same run, else `run.limit`, else FIRST_LIMIT.

    run: settings of the run, with its width. Earlier rounds were not narrow enough, or the run would have stopped.
    """
    config = Path(paths.CONFIG.of(run=paths.run_folder(run["name"])))
    before = saved_run(config) if config.is_file() else {}
    is_same = {**before, "limit": None} == {**run, "limit": None}
    limit: int | None = before.get("limit") if is_same else run["limit"] or FIRST_LIMIT
    return limit
