"""Commands that ask a judge about tutors' replies, labelled replies, and pairs of replies."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field

from maieutic.config.cards import Card, load_cards
from maieutic.config.models import HostedModel, JudgeModel, VllmModel
from maieutic.core.jobs import Job
from maieutic.core.records import Judgement, read_records, write_records
from maieutic.judges.assignments import work_on_labels, work_on_pairs, work_on_replies
from maieutic.judges.judging import STOP_ABOVE, JudgeSettings, JudgeWork, run_judge
from maieutic.judges.probes import separate_probes, work_on_probes
from maieutic.serving.backends import JobFiles


class AskJudge(Job):
    """Base class of jobs that ask a judge.

    judge: name of the judge; entry: the judge's configuration, with only the rubrics of this job; answering:
    configuration of the judge's model; seed: sampling seed of the answers; stop_above: the job stops if the share of
    missing verdicts by one rubric exceeds this value; asks_failed: True if requests that failed in an earlier run are
    on file, which this job asks once more.
    """

    judge: str
    entry: JudgeModel
    answering: Annotated[VllmModel | HostedModel, Field(discriminator="engine")]
    seed: int
    stop_above: float = STOP_ABOVE
    asks_failed: bool = False

    def ask(self, work: JudgeWork, files: JobFiles, out: Path) -> None:
        """Ask all questions about the cases in `work`, and write a record for each question."""
        run_judge(self.panel(), work, files, out)

    def panel(self) -> JudgeSettings:
        """Return the settings of the job: judge, model, seed, and limit on missing verdicts."""
        return JudgeSettings(self.judge, self.entry, self.answering, self.seed, self.stop_above, self.asks_failed)


class JudgeReplies(AskJudge):
    """Job in which a judge judges tutors' replies to tasks of one benchmark."""

    benchmark: str
    tasks: list[str]

    def cards(self) -> list[Card]:
        """Return the cards of the job's tasks."""
        return [loaded.card for loaded in load_cards(self.benchmark, self.tasks, "released")]


class JudgeLabelled(AskJudge):
    """Job in which a judge judges labelled replies and pairs.

    limit: maximum number of labelled replies per release, and of pairs per set (None if unlimited); probes: number of
    replies per release about which each probe asks again; probed: releases to whose replies the probes apply.
    """

    limit: int | None = None
    probes: int = 0
    probed: list[str] = []


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

    items: folder of the benchmark's items; weights: weights manifest of the judge's model, empty if this run does not
    serve the model; pictures: store of the items' pictures.
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
    probes_out: list[Path],
) -> None:
    """Ask a judge about replies that people have labelled, and about pairs in both orders.

    labels: files of labelled releases, each in the folder of its release; pairs: files of the sets of test pairs;
    weights: weights manifest of the judge's model, empty if this run does not serve the model; probes_out: one output
    file for each probe, in the order of `PROBES`, or empty if the judge is not probed.
    """
    releases = list(dict.fromkeys(path.parent for path in labels))
    work = work_on_labels(job.entry, releases, job.limit, job.seed)
    for path in pairs:
        work += work_on_pairs(job.entry, path, job.limit, job.seed)
    probed = [folder for folder in releases if folder.name in job.probed]
    work += work_on_probes(job.entry, probed, job.probes, job.limit, job.seed)
    job.ask(work, JobFiles(next(iter(weights), None), journal, server_log), out)
    if probes_out:
        plain, by_probe = separate_probes(read_records(out, Judgement), job.probed)
        for path, judgements in zip(probes_out, by_probe.values(), strict=True):
            write_records(path, judgements)
        write_records(out, plain)
