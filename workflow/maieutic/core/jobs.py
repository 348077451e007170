"""What a rule hands to a command: one value, made by the configuration, checked when the command starts; its line."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, get_type_hints

from pydantic import BaseModel, ConfigDict, ValidationError

JOB, LOG = "job", "log"  # the flag of a job, and the one of the file for all that a command prints


class Job(BaseModel):
    """The base of every job: all that a command needs of the configuration, and nothing else.

    Each command's job stands beside its function, so that a command that is dear to repeat does not hang on the jobs
    of others. A job crosses from rule to command as JSON.
    """

    model_config = ConfigDict(defer_build=True, extra="forbid", frozen=True, protected_namespaces=())

    def to_json(self) -> str:
        """The job as its command gets it. What has its default is left out: a new field changes no other job."""
        return self.model_dump_json(exclude_defaults=True)


class Sampled(Job):
    """The base of every job that makes intervals: resamples of the bootstrap, and the seed of all that is drawn."""

    resamples: int
    seed: int


def words_by_flag(words: Sequence[str]) -> dict[str, list[str]] | None:
    """The words behind each `--flag`; None for a flag that comes twice, and for words of any other form."""
    found: dict[str, list[str]] = {}
    for word in words:
        if word.startswith("--") and (flag := word[2:].replace("-", "_")) not in found:
            values = found.setdefault(flag, [])
        elif found and not word.startswith("-"):
            values.append(word)
        else:
            return None
    return found


def value_of(kind: Any, words: list[str]) -> Any:
    """The value of a flag. Raises ValueError for words that are none of the kind, TypeError for any other kind."""
    if kind in (list[Path], list[Path] | None):
        return [Path(word) for word in words]
    if len(words) != 1:
        raise ValueError
    if isinstance(kind, type) and issubclass(kind, Job):
        return kind.model_validate_json(words[0])
    if kind in (Path, int):
        return kind(words[0])
    raise TypeError


def arguments(function: Callable[..., None], words: Sequence[str]) -> dict[str, Any] | None:
    """A command's arguments, its log's path among them, from the words that a rule writes: a job, files, whole numbers.

    None for whatever else there may be, faults too: the line is then read, or refused, as one that a person typed.
    """
    found = words_by_flag(words)
    if not found or JOB not in found:
        return None
    kinds = {**get_type_hints(function), LOG: Path}
    taken = inspect.signature(function).parameters
    needed = {name for name, one in taken.items() if one.default is one.empty}
    if not needed <= found.keys() <= {*taken, LOG}:
        return None
    try:
        return {LOG: None, **{flag: value_of(kinds[flag], given) for flag, given in found.items()}}
    except (ValueError, TypeError):  # pydantic's too
        return None


def job_of(kind: type[Job], tokens: Sequence[Any]) -> Job:
    """A job from the one JSON object that a rule hands over. Raises ValueError naming the fields that are wrong."""
    try:
        return kind.model_validate_json(tokens[0].value)
    except ValidationError as error:
        faults = [f"{'.'.join(map(str, detail['loc']))}: {detail['msg']}" for detail in error.errors()]
        raise ValueError("; ".join(faults)) from None
