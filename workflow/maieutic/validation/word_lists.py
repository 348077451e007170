"""Judges that need no model: the word lists and rules of `validation.floors`, as graders of any reply."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from maieutic.config.cards import cards_of
from maieutic.config.models import JudgeModel
from maieutic.core.jobs import Job
from maieutic.core.records import NOBODY_ASKED, Item, Judgement, Verdict, read_items, write_records
from maieutic.judges.assignments import work_on_labels, work_on_replies
from maieutic.judges.judging import Work
from maieutic.judges.labels import read_labels
from maieutic.judges.rubrics import scales_of
from maieutic.validation.floors import HEURISTICS, by_keywords

Items = Mapping[tuple[str, str], Item]  # by task, or labelled set, and item


class JudgeByWords(Job):
    """A judge that needs no model. benchmark, tasks: of the replies that it judges, none where people labelled them."""

    judge: str
    entry: JudgeModel
    benchmark: str = ""
    tasks: list[str] = []


def judge_by_words(*, job: JudgeByWords, items: Path, replies: list[Path], out: Path) -> None:
    """Write the verdicts on every reply of some tutors. items: the folder of the benchmark's items."""
    cards = [loaded.card for loaded in cards_of(job.benchmark, job.tasks, "released")]
    work = work_on_replies(job.entry, cards, items, replies)
    known = {(item.task, item.id): item for item in read_items(items, job.tasks)}
    write_records(out, judged(work, known))


def judge_labelled_by_words(*, job: JudgeByWords, labels: list[Path], out: Path) -> None:
    """Write the verdicts on every labelled reply. labels: files of labelled sets, each in the folder of its set."""
    folders = list(dict.fromkeys(path.parent for path in labels))
    known = {(folder.name, name): item for folder in folders for name, item in read_labels(folder).items.items()}
    write_records(out, judged(work_on_labels(job.entry, folders, None, 0), known))


def judged(work: Work, items: Items) -> list[Judgement]:
    """What the lists say of each reply, under the criteria that have one."""
    judgements = []
    for loaded, case in work:
        scales = scales_of(loaded.rubric)
        text = " ".join(case.replies.values())
        asked: Sequence[str] = [name for name in case.criteria or loaded.rubric.criteria if name in HEURISTICS]
        item = items[case.task, case.id]
        words = {name: by_keywords(name, item, text, scales[name]) for name in asked}
        judgements.append(
            Judgement(
                id=case.id,
                task=case.task,
                tutor=case.tutor,
                rubric=loaded.name,
                key=NOBODY_ASKED,
                verdicts=[
                    Verdict(criterion=name, value=loaded.rubric.rules.verdict(word)) for name, word in words.items()
                ],
                raw="by lists of words",
            )
        )
    return judgements
