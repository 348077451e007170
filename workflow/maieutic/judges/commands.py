"""The jobs in which a judge is asked: about replies, and about what people have labelled."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Annotated

from pydantic import Field

from maieutic.config.cards import Card, cards_of
from maieutic.config.models import HostedModel, JudgeModel, VllmModel
from maieutic.core.jobs import Job
from maieutic.core.records import Judgement, read_records, write_records
from maieutic.judges.assignments import work_on_labels, work_on_pairs, work_on_replies
from maieutic.judges.judging import STOP_ABOVE, Panel, Work, run_judge, run_judges
from maieutic.judges.probes import apart, work_on_probes
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
        run_judge(self.panel(), work, files, out)

    def panel(self) -> Panel:
        """The judge as its questions need it."""
        return Panel(self.judge, self.entry, self.answering, self.seed, self.stop_above)


class JudgeReplies(AskJudge):
    """A judge and the tasks of one benchmark whose replies it judges."""

    benchmark: str
    tasks: list[str]

    def cards(self) -> list[Card]:
        """The tasks' cards."""
        return [loaded.card for loaded in cards_of(self.benchmark, self.tasks, "released")]


class JudgeLabelled(AskJudge):
    """A judge and how many labelled replies of each release, and pairs, it is asked about (None: all).

    probes: on how many replies of each of the sets `probed` it is probed.
    """

    limit: int | None = None
    probes: int = 0
    probed: list[str] = []


class JudgeAllReplies(Job):
    """A judge, and what it is asked of a batch of tutors' replies to each benchmark that some judge judges.

    parts: None for a benchmark whose replies by these tutors it does not judge; tutors: how many of the batch answer.
    """

    judge: str
    parts: list[JudgeReplies | None]
    tutors: list[int]


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


def judge_all_replies(
    *,
    job: JudgeAllReplies,
    items: list[Path],
    replies: list[Path],
    weights: list[Path],
    pictures: Path,
    journal: list[Path],
    server_log: Path,
    out: list[Path],
) -> None:
    """Ask a judge about every reply of some tutors to all benchmarks at once, as a job for each would.

    items, journal, out: as of a benchmark's own job, one for each part of the job; replies: of all parts, in their
    order; weights: the manifest of the judge; pictures: the store of the items' pictures.
    """
    files, parts = iter(replies), []
    for part, number, folder, own_journal, own_out in zip(job.parts, job.tutors, items, journal, out, strict=True):
        if part is None:
            write_records(own_out, [])
            continue
        work = work_on_replies(part.entry, part.cards(), folder, list(islice(files, number)))
        parts.append((part.panel(), work, own_journal, own_out))
    run_judges(parts, JobFiles(weights[0], journal[0], server_log, pictures))


def judge_labelled(
    *,
    job: JudgeLabelled,
    labels: list[Path],
    pairs: list[Path],
    weights: list[Path],
    journal: Path,
    server_log: Path,
    out: Path,
    probes_out: list[Path],
) -> None:
    """Ask a judge about replies that people have labelled, and about pairs in both orders.

    labels: files of labelled releases, each in the folder of its release; pairs: the test pairs, or none; weights: the
    manifest of a judge that we serve; probes_out: a file of each probe, in their order, or none.
    """
    releases = list(dict.fromkeys(path.parent for path in labels))
    work = work_on_labels(job.entry, releases, job.limit, job.seed)
    for path in pairs:
        work += work_on_pairs(job.entry, path, job.limit, job.seed)
    probed = [folder for folder in releases if folder.name in job.probed]
    work += work_on_probes(job.entry, probed, job.probes, job.limit, job.seed)
    job.ask(work, JobFiles(next(iter(weights), None), journal, server_log), out)
    if probes_out:
        plain, by_probe = apart(read_records(out, Judgement), job.probed)
        for path, judgements in zip(probes_out, by_probe.values(), strict=True):
            write_records(path, judgements)
        write_records(out, plain)
