"""Generate one tutor's replies to all benchmarks in one job, which sends all requests to one server concurrently."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from maieutic.config.models import VllmModel
from maieutic.core.jobs import Job
from maieutic.core.journal import FinishedRequest, Journal
from maieutic.core.shutdown import run_with_grace
from maieutic.replies.generate import (
    ConversationResults,
    GenerateReplies,
    ModelRequests,
    RequestLimits,
    run_concurrently,
    run_conversations,
)
from maieutic.serving.backends import JobFiles, backend_of


class GenerateAllReplies(Job):
    """Job that generates all replies of a tutor whose model the run serves. parts: one job for each benchmark."""

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
    """Write one Reply per item of each benchmark, and the prompts that were sent, just as separate jobs would do.

    items, journal, out, prompts: for each part, the path that a separate job would use; weights: manifest of the model;
    pictures: folder of the items' pictures.
    """
    model = job.parts[0].entry
    assert isinstance(model, VllmModel), "this job requires a model that the run serves"
    works = [part.work(folder) for part, folder in zip(job.parts, items, strict=True)]
    kept = [ConversationResults.beside(path) for path in out]
    with ExitStack() as stack:
        files = JobFiles(weights[0], journal[0], server_log, pictures)
        backend, identity = backend_of(job.tutor, model, files)
        asking = []
        for part, path in zip(job.parts, journal, strict=True):
            part_journal = stack.enter_context(Journal(path, FinishedRequest, part.journals(path)))
            asking.append(ModelRequests(job.tutor, model, identity, part_journal, backend, pictures))
        limits = [RequestLimits(part.max_tokens, part.seed) for part in job.parts]
        parts = [run_conversations(*part) for part in zip(works, asking, limits, kept, strict=True)]
        run_with_grace(run_concurrently(parts, backend), model.grace)
    for conversed, *paths in zip(kept, out, prompts, strict=True):
        conversed.write(*paths)
