"""Shell lines of rules: each is a command with its flags for the job, the files and the log."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable

from maieutic.datasets.pairs import PAIR_SOURCES
from maieutic.plan.plan import Plan

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


def one_of(names: Iterable[str]) -> str:
    """Return a pattern that matches exactly the given names; without names, a pattern that matches nothing."""
    return "|".join(map(re.escape, names)) or "(?!)"


def constraints_of(plan: Plan) -> dict[str, str]:
    """Return the constraint of every wildcard, by name of the wildcard."""
    return {
        "benchmark": one_of(plan.benchmarks),
        "task": "[a-z][a-z0-9_]*",
        "dataset": one_of(plan.datasets),
        "source": one_of({**PAIR_SOURCES, **plan.config.preferences}),
        "release": one_of(plan.label_sets),
        "model": one_of(plan.models),
        "tutor": one_of(plan.with_engine("vllm", "hosted", "baseline", "recorded")),
        "reward_model": one_of(plan.reward_models),
        "classifier": one_of(plan.classifiers),
        "encoder": one_of(plan.run.encoders),
        "judge": one_of(plan.run.judges),
        "reader": one_of([plan.run.reader] if plan.run.reader else []),
        "tagger": one_of(plan.run.taggers),
        "shard": "[1-9][0-9]*-of-[1-9][0-9]*",
        "batch": "[A-Za-z0-9_][A-Za-z0-9._+-]*",
    }


def datasets_with_pictures(plan: Plan) -> list[str]:
    """Return the datasets whose records have pictures."""
    return [name for name, dataset in plan.datasets.items() if dataset.pictures]


def judges_with_engine(plan: Plan, judges: Iterable[str], *engines: str) -> list[str]:
    """Return the given judges whose model is run by any of the given engines."""
    models = plan.with_engine(*engines)
    return [name for name in judges if plan.answering_entry(name) in models]
