"""Jobs, which rules pass to commands as JSON, and the parser of a rule's command line."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, get_type_hints

from pydantic import BaseModel, ConfigDict, ValidationError

JOB, LOG = "job", "log"  # names of the flags for a command's job and for the log file of its output


class Job(BaseModel):
    """Base class of jobs. A job contains everything that a command needs from the configuration.

    A rule passes the job to its command as JSON. Each class of jobs is defined next to its command's function, so that
    a change to one class does not re-run expensive commands that use other classes.
    """

    model_config = ConfigDict(defer_build=True, extra="forbid", frozen=True, protected_namespaces=())

    def to_json(self) -> str:
        """Return the job as JSON. Defaults are left out, so that a new field does not change existing jobs."""
        return self.model_dump_json(exclude_defaults=True)


class SampledJob(Job):
    """Base class of jobs that compute intervals. resamples: number of bootstrap resamples; seed: random seed."""

    resamples: int
    seed: int


def split_flags(words: Sequence[str]) -> dict[str, list[str]] | None:
    """Map each `--flag` of a command line to the words after it.

    Returns None if a flag is repeated, if a word comes before the first flag, or if a flag has a single hyphen.
    """
    values_by_flag: dict[str, list[str]] = {}
    for word in words:
        if word.startswith("--") and (flag := word[2:].replace("-", "_")) not in values_by_flag:
            values = values_by_flag.setdefault(flag, [])
        elif values_by_flag and not word.startswith("-"):
            values.append(word)
        else:
            return None
    return values_by_flag


def parse_flag_value(kind: Any, words: list[str]) -> Any:
    """Return the words after a flag as a value of the type `kind`.

    Raises ValueError for words that cannot be converted, TypeError for an unsupported type.
    """
    if kind in (list[Path], list[Path] | None):
        return [Path(word) for word in words]
    if len(words) != 1:
        raise ValueError
    if isinstance(kind, type) and issubclass(kind, Job):
        return kind.model_validate_json(words[0])
    if kind in (Path, int):
        return kind(words[0])
    raise TypeError


def parse_rule_arguments(function: Callable[..., None], words: Sequence[str]) -> dict[str, Any] | None:
    """Return the arguments of a command that a rule runs (a job, paths and whole numbers) and its log path.

    Returns None for any other command line, including a faulty one; the caller then parses it like a command line typed
    by a person.
    """
    words_of_flag = split_flags(words)
    if not words_of_flag or JOB not in words_of_flag:
        return None
    kinds = {**get_type_hints(function), LOG: Path}
    parameters = inspect.signature(function).parameters
    required = {name for name, parameter in parameters.items() if parameter.default is parameter.empty}
    if not required <= words_of_flag.keys() <= {*parameters, LOG}:
        return None
    try:
        return {LOG: None, **{flag: parse_flag_value(kinds[flag], values) for flag, values in words_of_flag.items()}}
    except (ValueError, TypeError):  # pydantic's ValidationError is a ValueError
        return None


def parse_job(kind: type[Job], tokens: Sequence[Any]) -> Job:
    """Return the job parsed from a command-line token with JSON. Raises ValueError that names the invalid fields."""
    try:
        return kind.model_validate_json(tokens[0].value)
    except ValidationError as error:
        faults = [f"{'.'.join(map(str, detail['loc']))}: {detail['msg']}" for detail in error.errors()]
        raise ValueError("; ".join(faults)) from None
