"""The jobs in which a judge is asked: about replies, and about what people have labelled."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field

from maieutic.config.cards import Card, cards_of
from maieutic.config.models import HostedModel, JudgeModel, VllmModel
from maieutic.core.jobs import Job
from maieutic.judges.assignments import work_on_labels, work_on_pairs, work_on_replies
from maieutic.judges.judging import STOP_ABOVE, Panel, Work, run_judge
from maieutic.serving.backends import JobFiles


class AskJudge(Job):
    """The base of every job that asks a judge.

    entry: the judge's, with the rubrics that this job uses; answering: the entry of the model that answers; seed: of
    answers that are drawn; stop_above: the share of unreadable verdicts by one rubric above which the job stops.
    """

    judge: str
    entry: JudgeModel
    answering: Annotated[VllmModel | HostedModel, Field(discriminator="engine")]
    seed: int
    stop_above: float = STOP_ABOVE

    def ask(self, work: Work, files: JobFiles, out: Path) -> None:
        """Ask all of some work, and write a record for each question."""
        run_judge(Panel(self.judge, self.entry, self.answering, self.seed, self.stop_above), work, files, out)


class JudgeReplies(AskJudge):
    """A judge and the tasks of one benchmark whose replies it judges."""

    benchmark: str
    tasks: list[str]

    def cards(self) -> list[Card]:
        """The tasks' cards."""
        return [loaded.card for loaded in cards_of(self.benchmark, self.tasks, "released")]


class JudgeLabelled(AskJudge):
    """A judge and how many labelled replies of each release, and pairs, it is asked about (None: all)."""

    limit: int | None = None


def judge_replies(
    *,
    job: JudgeReplies,
    items: Path,
    replies: list[Path],
    weights: list[Path],
    pictures: Path,
    journal: Path,
    server_log: Path,
    out: Path,
) -> None:
    """Ask a judge about every reply of some tutors.

    items: the folder of the benchmark's items; weights: the manifest of a judge that we serve; pictures: the store of
    the items' pictures.
    """
    work = work_on_replies(job.entry, job.cards(), items, replies)
    job.ask(work, JobFiles(next(iter(weights), None), journal, server_log, pictures), out)


def judge_labelled(
    *,
    job: JudgeLabelled,
    labels: list[Path],
    pairs: list[Path],
    weights: list[Path],
    journal: Path,
    server_log: Path,
    out: Path,
) -> None:
    """Ask a judge about replies that people have labelled, and about pairs in both orders.

    labels: files of labelled releases, each in the folder of its release; pairs: the test pairs, or none; weights: the
    manifest of a judge that we serve.
    """
    releases = list(dict.fromkeys(path.parent for path in labels))
    work = work_on_labels(job.entry, releases, job.limit, job.seed)
    for path in pairs:
        work += work_on_pairs(job.entry, path, job.limit, job.seed)
    job.ask(work, JobFiles(next(iter(weights), None), journal, server_log), out)
