"""Shell lines of rules: each is a command with its flags for the job, the files and the log."""

from __future__ import annotations

import re
import shlex

DRIVER, SERVE = '"$DRIVER"', '"$SERVE"'
PLACEHOLDER = re.compile(r"\{([a-z_][a-z0-9_.]*)\}")


class LiteralWord(str):
    """Text that is used unchanged: braces in it are not placeholders."""

    __slots__ = ()


def escape_braces(line: str) -> str:
    """Escape the braces in a line, so that Snakemake does not take them for placeholders."""
    return line.replace("{", "{{").replace("}", "}}")


def quote_placeholders(line: str) -> str:
    """Quote a LiteralWord as one shell word. In other text, let Snakemake quote each placeholder's value (`:q`)."""
    return escape_braces(shlex.quote(line)) if isinstance(line, LiteralWord) else PLACEHOLDER.sub(r"{\1:q}", line)


def environment_assignments(**values: str) -> str:
    """Return the assignments of environment variables that precede a command in a shell line of Snakemake.

    The values are literal, so braces in them are not placeholders.
    """
    settings = " ".join(f"{name}={shlex.quote(value)}" for name, value in values.items())
    return escape_braces(settings)


def command(name: str, python: str = DRIVER, job: bool = True, **files: str) -> str:
    """Return the shell line that runs a command, with placeholders that Snakemake fills in.

    name: name of the command; python: interpreter; job: True if the command has the flag `--job`; files: values of
    further flags, by flag. The filled-in line is written to the log and can be run by hand.
    """
    flags = {"job": "{params.job}"} if job else {}
    flags |= {flag.replace("_", "-"): value for flag, value in files.items()} | {"log": "{log}"}
    return " ".join(
        [f"{python} -m maieutic {name}", *(f"--{flag} {quote_placeholders(value)}" for flag, value in flags.items())]
    )
