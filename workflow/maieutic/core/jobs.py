"""What a rule hands to a command: one value, made by the configuration, checked when the command starts."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


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
