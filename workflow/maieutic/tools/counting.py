"""New requests of a run that was not started: its jobs come from Snakemake's dry run."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from maieutic.config.models import RecordedModel
from maieutic.core import paths
from maieutic.core.errors import Unpinned, UserError
from maieutic.launch.requests import NewRequests, measured_sizes, new_requests
from maieutic.launch.snakemake_compat import Job, jobs_of_dry_run
from maieutic.plan import inputs
from maieutic.plan.rules import RulePlan, planning_finished_run
from maieutic.preparation.own_files import local_file
from maieutic.preparation.own_readings import logging_disabled
from maieutic.record.planned_jobs import CHECKOUT, command_words, run_words

MOST_MADE_ITEMS = 20_000  # items of larger tasks are not made for a count, since that takes minutes


class RunFiles(NamedTuple):
    """Files that are made for a count. jobs: planned jobs by output; folder: where to write; made: paths by name."""

    plan: RulePlan
    jobs: dict[str, Job]
    folder: Path
    made: dict[str, Path]

    def make(self, file: str) -> Path | None:
        """Return a file as the run will read it, made by the rules' own commands; None if that is not cheap."""
        if file in self.made:
            return self.made[file]
        job = self.jobs.get(file)
        if job is None:
            return Path(file) if Path(file).exists() else None
        if not self.is_cheap(job) or any(self.make(str(path)) is None for path in job.input):
            return None
        outputs = {str(path): self.folder / str(path) for path in job.output}
        for path in outputs.values():
            path.parent.mkdir(parents=True, exist_ok=True)
        run_words(command_words(job.shellcmd), {**self.made, **outputs})
        self.made.update(outputs)
        return self.made[file]

    def is_cheap(self, job: Job) -> bool:
        """Return True if a job takes seconds, without the network or a model."""
        rule, names, plan = job.rule.name, dict(job.wildcards.items()), self.plan
        if rule == "fetch_dataset":
            try:
                copy = plan.datasets[names["dataset"]].file_of(names["dataset"], plan.edition)
            except Unpinned:
                return False
            return copy.hub is None and local_file(plan, copy) is not None
        if rule == "make_items":
            return (plan.item_count(plan.card(**names)) or 0) <= MOST_MADE_ITEMS
        return rule == "read_replies"


def count_requests(raw: dict[str, Any], plan: RulePlan) -> list[NewRequests]:
    """Return the new requests of a run by job. raw: its merged configuration, of which `plan` is made.

    Items of tasks whose requests were never measured are made for the count, in a temporary folder. Raises UserError if
    the run cannot be planned, or if the items cannot be made.
    """
    from snakemake.exceptions import WorkflowError

    try:
        with planning_finished_run():
            jobs = jobs_of_dry_run(CHECKOUT / "Snakefile", raw)
    except WorkflowError as error:
        problem = " ".join(str(error).split())
        raise UserError("run file", f"Snakemake cannot plan this run: {problem}", "see snakemake -n") from None
    with tempfile.TemporaryDirectory(prefix="maieutic-") as folder, logging_disabled():
        return new_requests(plan, jobs, unmeasured_files(plan, jobs, Path(folder)))


def unmeasured_files(plan: RulePlan, jobs: Sequence[Job], folder: Path) -> dict[str, Path]:
    """Make the items, and the recorded replies, of benchmarks with tasks whose requests were never measured.

    Returns the paths by the names that the run uses. A benchmark's items lie together: those that the run keeps are
    linked. folder: where to write.
    """
    run = RunFiles(plan, {str(path): job for job in jobs for path in job.output}, folder, {})
    recorded = [name for name in plan.run.tutors if isinstance(plan.models[name], RecordedModel)]
    for benchmark, cards in plan.benchmarks.items():
        tasks = [loaded.card.task for loaded in cards]
        if all((benchmark, task, "") in measured_sizes() for task in tasks):
            continue
        for file in inputs.item_files(benchmark, tasks):
            kept = run.make(file)
            if kept == Path(file):
                run.made[file] = folder / file
                run.made[file].parent.mkdir(parents=True, exist_ok=True)
                run.made[file].symlink_to(kept.resolve())
        for tutor in recorded:
            run.make(paths.REPLIES.of(benchmark=benchmark, tutor=tutor))
    return run.made
