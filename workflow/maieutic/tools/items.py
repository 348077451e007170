"""`maieutic items`: write the items of a run to files, to be answered outside of the run."""

from __future__ import annotations

import logging
import shutil
import subprocess
import sys
from pathlib import Path

from maieutic.core import paths
from maieutic.core.errors import UserError

log = logging.getLogger(__name__)


def items(*, configfile: list[Path], out: Path | None = None) -> None:
    """Write the items of a run with their prompts to JSON-lines files, one per task.

    Each line has an empty reply to fill in.

    configfile: run files, as for snakemake. out: folder for the files; if omitted, they stay in results/questions. The
    completed files can serve as replies of a recorded tutor (`engine: recorded`, see docs/models.md). Raises UserError
    if Snakemake fails.
    """
    make_questions(configfile)
    made = Path(paths.QUESTIONS).parents[1]
    if out is not None:
        shutil.copytree(made, out, dirs_exist_ok=True)
    for path in sorted((out or made).glob("*/*.jsonl")):
        log.info("%s: %d items", path, len(path.read_text(encoding="utf-8").splitlines()))


def make_questions(configfile: list[Path]) -> None:
    """Run Snakemake to download a run's data and write its items. Raises UserError if Snakemake fails."""
    line = [sys.executable, "-m", "snakemake", "questions", "--cores", "1"]
    ended = subprocess.run([*line, "--configfile", *map(str, configfile)]).returncode
    if ended != 0:
        fix = "fix the cause printed above, then run the command again"
        raise UserError(", ".join(map(str, configfile)), f"snakemake ended with exit status {ended}", fix)
