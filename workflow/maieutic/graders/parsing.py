"""What parsers read in a tutor's replies: every grade that needs no model."""

from __future__ import annotations

from pathlib import Path

from maieutic.config.cards import cards_of
from maieutic.core.errors import UserError
from maieutic.core.jobs import Job
from maieutic.core.records import SCORINGS, Grade, Item, Reply, Scoring, read_items, records_about, write_records
from maieutic.graders.reading import Reading
from maieutic.graders.registry import GRADERS


class ParseReplies(Job):
    """The tasks of one benchmark that a tutor was asked."""

    tutor: str
    benchmark: str
    tasks: list[str]


def parse_replies(*, job: ParseReplies, items: Path, replies: Path, out: Path) -> None:
    """Read every reply of one tutor by its cards' graders, under both scorings. items: the benchmark's folder."""
    cases = read_items(items, job.tasks)
    by_item = {(reply.task, reply.id): reply for reply in records_about(replies, Reply, cases, tutor=job.tutor)}
    grades: list[Grade] = []
    for loaded in cards_of(job.benchmark, job.tasks, "released"):
        for item in (item for item in cases if item.task == loaded.card.task):
            reply = by_item.get((item.task, item.id))
            if reply is None:
                raise UserError(str(replies), f"no reply to {item.task}/{item.id}", "delete this file and run again")
            for grader in loaded.card.graders:
                if grader in GRADERS and not reply.absent:  # reward models and judges have jobs of their own
                    grades += grades_of(grader, item, reply)
    write_records(out, grades)


def grades_of(grader: str, item: Item, reply: Reply) -> list[Grade]:
    """One grader's reading of one reply, under both scorings. What hangs on a turn that was refused has no reading."""
    field = GRADERS[grader].gold
    gold = item.reference[field] if field else None
    return [
        Grade(id=item.id, task=item.task, kind=grader, scoring=scoring, gold=gold, **reading._asdict())
        for scoring in SCORINGS
        for reading in readings_of(grader, item, reply, scoring)
    ]


def readings_of(grader: str, item: Item, reply: Reply, scoring: Scoring) -> list[Reading]:
    """What one grader reads in a reply: in its last turn, or in all of them."""
    read, read_all = GRADERS[grader].read, GRADERS[grader].read_all
    refused = f"refused: {reply.error}"
    if read is not None:
        if reply.error:
            return [Reading(None, None, "", refused, refused=True)]
        if scoring == "paper_compat" and reply.turns[-1].no_text:
            return [Reading(None, None, "", "the released code fails: the server sent no text")]
        return read(item, reply.released if scoring == "paper_compat" else reply.text, scoring)
    assert read_all is not None  # a grader reads the last turn or all of them
    texts = [turn.text for turn in reply.turns]
    if not reply.error:
        return read_all(item, texts, scoring)
    texts += [""] * (len(item.reference["replies"]) - len(texts))
    left = {reading.criterion for reading in read_all(item, texts, "robust") if reading.why_none}
    readings = read_all(item, texts, scoring)
    return [
        Reading(None, None, "", refused, reading.criterion, refused=True) if reading.criterion in left else reading
        for reading in readings
    ]
