"""`maieutic run`: start Snakemake on this copy of the workflow, from any folder."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import yaml
from cyclopts import Parameter

from maieutic.core.parent_process import die_with_parent
from maieutic.core.paths import HOME

DEFAULT_PROFILE = Path("profiles/default")  # in the working folder or in HOME: Snakemake takes the former first
PROFILES = ("--profile", "--workflow-profile")
PLACES = ("--cores", "--profile", "--workflow-profile", "--jobs", "-c", "-j")  # options that say where jobs run


def snakemake_line() -> list[str]:
    """Return the beginning of a command line that starts Snakemake on this copy of the workflow."""
    return [sys.executable, "-m", "snakemake", "--snakefile", str((HOME / "Snakefile").absolute())]


def snakemake_environment() -> dict[str, str]:
    """Return the environment in which Snakemake finds its logger plugin, whose profile names it."""
    return {**os.environ, "PYTHONPATH": str((HOME / "workflow/plugin").absolute())}


def run(
    configfile: Path,
    /,
    *options: Annotated[str, Parameter(allow_leading_hyphen=True, help="options of Snakemake")],
    stop_at: Annotated[
        str | None,
        Parameter(help="width=W: ask more items until the interval of each mean is narrow"),
    ] = None,
) -> None:
    """Start the run of a run file in this folder, which gets its results. Further options are passed to Snakemake.

    Without an option for cores, a profile or a number of jobs, all cores are used. `--profile slurm` uses the
    workflow's own profile.

    Args:
        configfile: run file
    """
    if stop_at is not None:
        from maieutic.launch.rounds import run_in_rounds, width_of

        run_in_rounds(configfile, width_of(stop_at), lambda more: started(command_line([configfile, more], options)))
        return
    line = command_line([configfile], options)
    sys.stdout.flush()
    os.execve(line[0], line, snakemake_environment())


def default_options() -> list[str]:
    """Return the flags of the workflow's default profile. Snakemake would print that it uses the profile.

    A flag without values is last, so that targets can follow.
    """
    profile = yaml.safe_load((HOME / DEFAULT_PROFILE / "config.yaml").read_text(encoding="utf-8"))
    lists = [[f"--{name}", *map(str, value)] for name, value in profile.items() if isinstance(value, list)]
    flags = [f"--{name}" for name, value in profile.items() if value is True]
    return ["--workflow-profile", "none", *(word for words in lists for word in words), *flags]


def command_line(configfiles: Sequence[Path], options: Sequence[str]) -> list[str]:
    """Return the command line that starts a run. options: further options and targets of Snakemake.

    configfiles: run files; a later one wins.
    """
    words = [part for word in options for part in (word.split("=", 1) if word.startswith("--profile=") else [word])]
    for at, word in enumerate(words[:-1]):
        shipped = HOME / "profiles" / words[at + 1]
        if word == "--profile" and not Path(words[at + 1]).exists() and shipped.is_dir():
            words[at + 1] = str(shipped.absolute())
    if not any(word.startswith(PLACES) for word in words):
        words = ["--cores", "all", *words]
    if not any(word.startswith(PROFILES) for word in words) and not DEFAULT_PROFILE.exists():
        words = [*default_options(), *words]
    interpreter, *line = snakemake_line()
    files = [str(file) for file in configfiles]
    return [interpreter, *line[:2], "--configfile", *files, *line[2:], *words]


def started(line: Sequence[str]) -> int:
    """Run a command to its end, and return its exit code. It gets this process's signals, and ends with it."""
    process = subprocess.Popen(line, env=snakemake_environment(), preexec_fn=die_with_parent)
    signal.signal(signal.SIGTERM, lambda *_: process.terminate())
    while True:
        try:
            return process.wait()
        except KeyboardInterrupt:  # the terminal sends it to Snakemake as well, which ends its jobs and then itself
            continue
