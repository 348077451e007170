"""`maieutic items`: write the items of a run to files, to be answered outside of the run."""

from __future__ import annotations

import logging
import shutil
import subprocess
from pathlib import Path

from maieutic.core import paths
from maieutic.core.errors import UserError
from maieutic.launch.run import snakemake_environment, snakemake_line

log = logging.getLogger(__name__)


def items(*, configfile: list[Path], out: Path | None = None) -> None:
    """Write the items of a run with their prompts to JSON-lines files, one per task.

    Each line has an empty reply to fill in. The completed files can serve as replies of a recorded tutor (`engine:
    recorded`, see docs/models.md).

    Args:
        configfile: run files, as for snakemake
        out: folder for the files; if omitted, they stay in results/questions

    Raises:
        UserError: if Snakemake fails
    """
    make_questions(configfile)
    for made in questions_of_run(configfile):
        path = made
        if out is not None:
            path = out / made.relative_to(Path(paths.QUESTIONS).parents[1])
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(made, path)
        log.info("%s: %d items", path, len(path.read_text(encoding="utf-8").splitlines()))


def questions_of_run(configfile: list[Path]) -> list[Path]:
    """Return the question files of a run, one per task, sorted. Those of other runs may be beside them."""
    from maieutic.launch.config_files import merged_configuration
    from maieutic.replies.stage import question_files
    from maieutic.run_plan import plan_before_pins

    plan, _ = plan_before_pins(merged_configuration(configfile))
    return sorted(map(Path, question_files(plan)))


def make_questions(configfile: list[Path]) -> None:
    """Run Snakemake to download a run's data and write its items. Raises UserError if Snakemake fails."""
    line = [*snakemake_line(), "questions", "--cores", "1"]
    ended = subprocess.run([*line, "--configfile", *map(str, configfile)], env=snakemake_environment()).returncode
    if ended != 0:
        fix = "fix the cause printed above, then run the command again"
        raise UserError(", ".join(map(str, configfile)), f"snakemake ended with exit status {ended}", fix)
