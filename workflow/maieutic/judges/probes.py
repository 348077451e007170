"""Probes of a judge: repeated questions about labelled replies, with changes that should not affect its verdicts."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from maieutic.config.models import JudgeModel
from maieutic.config.rubrics import LoadedRubric, alternative_wording, read_rubric
from maieutic.core.records import Judgement
from maieutic.judges.assignments import work_on_labels
from maieutic.judges.judging import JudgeWork
from maieutic.judges.questions import Case

REPETITION_PREFIX = "To say it once more: "
ProbeCase = tuple[LoadedRubric, Case]
Probe = Callable[[LoadedRubric, Case, int], ProbeCase | None]


def repeat_case(loaded: LoadedRubric, case: Case, seed: int) -> ProbeCase | None:
    """Return the same case with `repeat` set, so that the judge is asked the same question again."""
    return loaded, case._replace(repeat=1)


def reword_case(loaded: LoadedRubric, case: Case, seed: int) -> ProbeCase | None:
    """Return the case with the reworded rubric (same criteria and labels), or None if the rubric has no such card."""
    for name in alternative_wording(loaded.name):
        other = read_rubric(name)
        return other, case._replace(criteria={key: other.rubric.criteria[key] for key in case.criteria})
    return None


def shuffle_criteria(loaded: LoadedRubric, case: Case, seed: int) -> ProbeCase | None:
    """Return the case with its criteria in another order, or None if each question has only one criterion."""
    names = list(case.criteria or loaded.rubric.criteria)
    if loaded.rubric.separate or len(names) < 2:
        return None
    order = names[:]
    draw = random.Random(f"{seed}/{case.id}/{case.tutor}")
    while order == names:
        draw.shuffle(order)
    criteria = case.criteria or loaded.rubric.criteria
    return loaded, case._replace(criteria={name: criteria[name] for name in order})


def pad_replies(loaded: LoadedRubric, case: Case, seed: int) -> ProbeCase | None:
    """Return the case with the text of each reply repeated, which doubles its length, or None if a reply is empty."""
    if not all(text.strip() for text in case.replies.values()):
        return None
    return loaded, case._replace(
        replies={name: f"{text}\n\n{REPETITION_PREFIX}{text}" for name, text in case.replies.items()}
    )


PROBES: dict[str, Probe] = {
    "repeated": repeat_case,
    "reworded": reword_case,
    "shuffled": shuffle_criteria,
    "padded": pad_replies,
}


def probe_task(probe: str, release: str) -> str:
    """Return the task name for a probe's questions, by which they differ from unchanged questions of the same job."""
    return f"{release}/{probe}"


def work_on_probes(judge: JudgeModel, folders: Sequence[Path], number: int, limit: int | None, seed: int) -> JudgeWork:
    """Return the questions of all probes about a random sample of each labelled set.

    The job also asks the unchanged questions about these replies. folders: folders of sets with labels,
    results/labels/SET; number: number of probed replies per set; limit: maximum number of judged replies per set.
    """
    work: JudgeWork = []
    plain = work_on_labels(judge, folders, min(number, limit or number), seed) if number else []
    for name, probe in PROBES.items():
        for loaded, case in plain:
            if (changed := probe(loaded, case, seed)) is not None:
                work.append((changed[0], changed[1]._replace(task=probe_task(name, case.task))))
    return work


def separate_probes(
    judgements: Iterable[Judgement], releases: Iterable[str]
) -> tuple[list[Judgement], dict[str, list[Judgement]]]:
    """Return the judgements of unchanged questions, and the judgements of each probe, with the set's name as task."""
    probed = {probe_task(probe, release): (probe, release) for probe in PROBES for release in releases}
    plain: list[Judgement] = []
    by_probe: dict[str, list[Judgement]] = {name: [] for name in PROBES}
    for record in judgements:
        if record.task in probed:
            probe, release = probed[record.task]
            by_probe[probe].append(record.model_copy(update={"task": release}))
        else:
            plain.append(record)
    return plain, by_probe
