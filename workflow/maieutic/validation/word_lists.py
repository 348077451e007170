"""Judges without a model, which grade replies by the word lists and rules of `validation.grader_baselines`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from maieutic.config.cards import load_cards
from maieutic.config.models import JudgeModel
from maieutic.config.rubrics import annotation_scales
from maieutic.core.jobs import Job
from maieutic.core.records import NO_REQUEST, Item, Judgement, Verdict, read_items, write_records
from maieutic.datasets.labelled_sets import read_labelled_data
from maieutic.judges.assignments import work_on_labels, work_on_replies
from maieutic.judges.judging import JudgeWork
from maieutic.validation.grader_baselines import HEURISTICS, label_by_keywords

Items = Mapping[tuple[str, str], Item]  # by task (or labelled set) and item id


class JudgeByWords(Job):
    """Job for the verdicts of a word-list judge. benchmark, tasks: empty for labelled sets."""

    judge: str
    entry: JudgeModel
    benchmark: str = ""
    tasks: list[str] = []


def judge_by_words(*, job: JudgeByWords, items: Path, replies: list[Path], out: Path) -> None:
    """Write a word-list judge's verdicts on tutors' replies. items: folder of the benchmark's items."""
    cards = [loaded.card for loaded in load_cards(job.benchmark, job.tasks, "released")]
    work = work_on_replies(job.entry, cards, items, replies)
    known = {(item.task, item.id): item for item in read_items(items, job.tasks)}
    write_records(out, word_list_judgements(work, known))


def judge_labelled_by_words(*, job: JudgeByWords, labels: list[Path], out: Path) -> None:
    """Write a word-list judge's verdicts on every labelled reply.

    labels: files of labelled sets, each in the folder of its set.
    """
    folders = list(dict.fromkeys(path.parent for path in labels))
    known = {(folder.name, name): item for folder in folders for name, item in read_labelled_data(folder).items.items()}
    write_records(out, word_list_judgements(work_on_labels(job.entry, folders, None, 0), known))


def word_list_judgements(work: JudgeWork, items: Items) -> list[Judgement]:
    """Return the verdicts of the word lists on each reply, under the criteria that have a list."""
    judgements = []
    for loaded, case in work:
        scales = annotation_scales(loaded.rubric)
        text = " ".join(case.replies.values())
        criteria: Sequence[str] = [name for name in case.criteria or loaded.rubric.criteria if name in HEURISTICS]
        item = items[case.task, case.id]
        words = {name: label_by_keywords(name, item, text, scales[name]) for name in criteria}
        judgements.append(
            Judgement(
                id=case.id,
                task=case.task,
                tutor=case.tutor,
                rubric=loaded.name,
                key=NO_REQUEST,
                verdicts=[
                    Verdict(criterion=name, value=loaded.rubric.rules.verdict(word)) for name, word in words.items()
                ],
                raw="by lists of words",
            )
        )
    return judgements
