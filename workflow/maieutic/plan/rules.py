"""Parts of a rule that depend on the plan: its input files, the job for its command, and the digest of its code."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from inspect import signature
from pathlib import Path
from typing import Any, Protocol, TypeVar

from maieutic.config.models import Needs
from maieutic.core.paths import ROOT
from maieutic.core.plugins import plugin_folders
from maieutic.core.rule_functions import with_parameters
from maieutic.plan import digest, former_digests
from maieutic.plan.plan import Plan
from maieutic.plan.slice_plan import code_with_replacements

TEMPLATES = {
    "write-model-card": ("validation/card.*.jinja",),
    "build-report": ("report/*.css", "report/*.js", "report/vendor/*.js", "report/*.jinja"),
}
Selected = TypeVar("Selected", str, list[str])


class JobWildcards(Protocol):
    """Wildcards of a job, as Snakemake passes them."""

    def items(self) -> Iterable[tuple[str, str]]: ...


class RulePlan(Plan):
    """A plan that provides the inputs, jobs, code digests and resources of rules."""

    def select(self, function: Callable[..., Selected], **fixed: str) -> Callable[[JobWildcards], Selected]:
        """Return an input function for a rule, which calls `function` with the plan and a job's wildcards.

        function: takes the plan, the wildcards that it needs, and the arguments `fixed`; returns paths.
        """
        needed = signature(function).parameters.keys() - fixed.keys()

        def selected(wildcards: JobWildcards) -> Selected:
            files = function(self, **{name: value for name, value in wildcards.items() if name in needed}, **fixed)
            if not IS_FINISHED.get():
                return files
            return known_file(files) if isinstance(files, str) else [known_file(file) for file in files]

        return with_parameters(selected)

    def job_of(self, rule: str) -> Callable[[JobWildcards], str]:
        """Return the function that maps a rule's wildcards to the JSON job of its command.

        Raises StopIteration if no module of jobs has a function of this name.
        """
        stages = (vars(sys.modules[part.module]) for part in self.slices)
        make = next(stage[f"{rule}_job"] for stage in stages if f"{rule}_job" in stage)
        return with_parameters(lambda wildcards: make(self, **dict(wildcards.items())).to_json())

    def job_parameters(self, command: str, rule: str | None = None) -> dict[str, Any]:
        """Return the parameters of a rule that runs a command: the digest of its code, and its job as JSON.

        rule: name of the function that makes the job, if it differs from the command's name.
        """
        return {"code": self.code_of(command), "job": self.job_of(rule or command)}

    def code_of(self, rule: str) -> str | Callable[[JobWildcards], str]:
        """Return the digest of the code behind a rule's results, or a function that maps wildcards to the digest."""
        command = rule.replace("_", "-")
        files = template_files(command)
        instead = next((part.used_code[rule] for part in self.slices if rule in part.used_code), None)
        if instead is None:
            return former_digests.code_of(command, None, files)
        return with_parameters(
            lambda wildcards: code_with_replacements(command, tuple(instead(self, **dict(wildcards.items())).items()))
        )

    # machines ---------------------------------------------------------------------------------------------------------

    def models_of(self, wildcards: JobWildcards) -> list[str]:
        """Return the registry entries that a job calls or trains. For a judge, this is the entry of its model."""
        names = dict(wildcards.items())
        for part in self.slices:
            if (models := part.models_of(self, names)) is not None:
                return models
        return [self.answering_entry(names[kind]) for kind in MODEL_WILDCARDS if kind in names]

    @with_parameters
    def threads(self, wildcards: JobWildcards) -> int:
        """Return the number of CPU cores of a job that calls a model."""
        return self.needs(wildcards).cpus

    @with_parameters
    def memory(self, wildcards: JobWildcards) -> int:
        """Return the memory in MB of a job that calls a hosted model."""
        return self.needs(wildcards).mem_mb

    def needs(self, wildcards: JobWildcards) -> Needs:
        """Return the machine resources of a job that calls a model."""
        names = dict(wildcards.items())
        for part in self.slices:
            if (needs := part.needs_of(self, names)) is not None:
                return needs
        [model] = self.models_of(wildcards)
        return self.models[model].needs


def template_files(command: str) -> list[Path]:
    """Return the templates and style sheets that a command uses."""
    files = [file for pattern in TEMPLATES.get(command, ()) for file in digest.HERE.glob(pattern)]
    more = plugin_folders() if command == "build-report" else []
    return [*files, *(file for folder in more for file in folder.glob("*.jinja"))]


MODEL_WILDCARDS = ("encoder", "judge", "tagger", "reward_model", "classifier", "tutor", "model")


ABSENT = f"{ROOT}/.absent"  # stands for a user's own file that is not on this machine
IS_FINISHED: ContextVar[bool] = ContextVar("IS_FINISHED", default=False)


def known_file(file: str) -> str:
    """Return the path of an input of a finished run; ABSENT for a file outside the results that does not exist."""
    return file if file.startswith(f"{ROOT}/") or Path(file).exists() else ABSENT


@contextmanager
def planning_finished_run() -> Iterator[None]:
    """Leave out what only a run needs: the checks of `plan_of`, since data and keys may be absent, and its messages."""
    before = IS_FINISHED.set(True)
    try:
        yield
    finally:
        IS_FINISHED.reset(before)
