"""The shell line of a rule: its command, the job, the files by their flags, the log."""

from __future__ import annotations

import re
import shlex

DRIVER, SERVE, CHOSEN = '"$DRIVER"', '"$SERVE"', "{params.python}"  # CHOSEN: of a rule that others inherit
PLACEHOLDER = re.compile(r"\{([a-z_][a-z0-9_.]*)\}")


class Literal(str):
    """A word that is no placeholder, whatever it looks like."""

    __slots__ = ()


def escaped(line: str) -> str:
    """A line that Snakemake leaves as it is."""
    return line.replace("{", "{{").replace("}", "}}")


def quoted(line: str) -> str:
    """A literal as one word; of any other line every placeholder by Snakemake's `:q`, as one word too."""
    return escaped(shlex.quote(line)) if isinstance(line, Literal) else PLACEHOLDER.sub(r"{\1:q}", line)


def variables(**values: str) -> str:
    """Settings of environment variables before a command, for Snakemake to fill in: what they hold is literal."""
    settings = " ".join(f"{name}={shlex.quote(value)}" for name, value in values.items())
    return escaped(settings)


def command(name: str, python: str = DRIVER, job: bool = True, **files: str) -> str:
    """The line that runs a command, for Snakemake to fill in; a person can run it from the log.

    python: the interpreter; job: whether the command takes one; files: what stands behind each further flag.
    """
    flags = {"job": "{params.job}"} if job else {}
    flags |= {flag.replace("_", "-"): value for flag, value in files.items()} | {"log": "{log}"}
    return " ".join([f"{python} -m maieutic {name}", *(f"--{flag} {quoted(value)}" for flag, value in flags.items())])
