"""`maieutic items`: what there is to answer in a run, for whoever answers it."""

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
    """Write the items of a run with their prompts, a JSON-lines file a task, each with an empty reply to fill in.

    configfile: run files, as of snakemake; out: a folder; without one they stay in results/questions. The filled-in
    files are a tutor's: `engine: recorded` (docs/models.md). Raises UserError where Snakemake cannot make them.
    """
    make_questions(configfile)
    made = Path(paths.QUESTIONS).parents[1]
    if out is not None:
        shutil.copytree(made, out, dirs_exist_ok=True)
    for path in sorted((out or made).glob("*/*.jsonl")):
        log.info("%s: %d items", path, len(path.read_text(encoding="utf-8").splitlines()))


def make_questions(configfile: list[Path]) -> None:
    """Download a run's data and make its items with Snakemake. Raises UserError if Snakemake fails."""
    line = [sys.executable, "-m", "snakemake", "questions", "--cores", "1"]
    ended = subprocess.run([*line, "--configfile", *map(str, configfile)]).returncode
    if ended != 0:
        raise UserError(", ".join(map(str, configfile)), f"snakemake ended with {ended}", "its cause stands above")
