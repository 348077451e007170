"""All benchmarks of one tutor in one job: every item of each in flight at once, against one server."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from maieutic.config.models import VllmModel
from maieutic.core.ending import run_to_the_end
from maieutic.core.jobs import Job
from maieutic.core.journal import Entry, Journal
from maieutic.replies.generate import Asking, Conversed, GenerateReplies, Limits, run_job, together
from maieutic.serving.backends import JobFiles, backend_of


class GenerateAllReplies(Job):
    """A tutor that we serve, and what it is asked of each benchmark."""

    tutor: str
    parts: list[GenerateReplies]


def generate_all_replies(
    *,
    job: GenerateAllReplies,
    items: list[Path],
    weights: list[Path],
    pictures: Path,
    journal: list[Path],
    server_log: Path,
    out: list[Path],
    prompts: list[Path],
) -> None:
    """Write one Reply per item of each benchmark, and the prompts that were sent, as a job for each would.

    items, journal, out and prompts: as of a benchmark's own job, one for each part of the job; weights: the
    manifest of the model; pictures: the store of the items' pictures.
    """
    model = job.parts[0].entry
    assert isinstance(model, VllmModel), "only what we serve has such a job"
    works = [part.work(folder) for part, folder in zip(job.parts, items, strict=True)]
    kept = [Conversed.beside(path) for path in out]
    with ExitStack() as stack:
        files = JobFiles(weights[0], journal[0], server_log, pictures)
        backend, identity = backend_of(job.tutor, model, files)
        asking = []
        for part, own in zip(job.parts, journal, strict=True):
            opened = stack.enter_context(Journal(own, Entry, part.journals(own)))
            asking.append(Asking(job.tutor, model, identity, opened, backend, pictures))
        limits = [Limits(part.max_tokens, part.seed) for part in job.parts]
        parts = [run_job(*part) for part in zip(works, asking, limits, kept, strict=True)]
        run_to_the_end(together(parts, backend), model.grace)
    for conversed, *paths in zip(kept, out, prompts, strict=True):
        conversed.write(*paths)
