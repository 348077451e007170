"""Probes of a judge: the same labelled replies once more, changed in a way that should leave its verdicts alone."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from maieutic.config.models import JudgeModel
from maieutic.core.records import Judgement
from maieutic.judges.assignments import work_on_labels
from maieutic.judges.judging import Work
from maieutic.judges.questions import Case
from maieutic.judges.rubrics import LoadedRubric, read_rubric, reworded_of

AGAIN = "To say it once more: "
Probed = tuple[LoadedRubric, Case]
Probe = Callable[[LoadedRubric, Case, int], Probed | None]


def repeated(loaded: LoadedRubric, case: Case, seed: int) -> Probed | None:
    """The same question a second time."""
    return loaded, case._replace(repeat=1)


def reworded(loaded: LoadedRubric, case: Case, seed: int) -> Probed | None:
    """By the rubric's other wording, where it has one; its criteria and labels are the same."""
    for name in reworded_of(loaded.name):
        other = read_rubric(name)
        return other, case._replace(criteria={key: other.rubric.criteria[key] for key in case.criteria})
    return None


def shuffled(loaded: LoadedRubric, case: Case, seed: int) -> Probed | None:
    """The criteria in another order, where one question asks about several."""
    names = list(case.criteria or loaded.rubric.criteria)
    if loaded.rubric.separate or len(names) < 2:
        return None
    order = names[:]
    draw = random.Random(f"{seed}/{case.id}/{case.tutor}")
    while order == names:
        draw.shuffle(order)
    criteria = case.criteria or loaded.rubric.criteria
    return loaded, case._replace(criteria={name: criteria[name] for name in order})


def padded(loaded: LoadedRubric, case: Case, seed: int) -> Probed | None:
    """A reply twice as long that says nothing more: it says itself again. An empty one cannot."""
    if not all(text.strip() for text in case.replies.values()):
        return None
    return loaded, case._replace(replies={name: f"{text}\n\n{AGAIN}{text}" for name, text in case.replies.items()})


PROBES: dict[str, Probe] = {"repeated": repeated, "reworded": reworded, "shuffled": shuffled, "padded": padded}


def task_of(probe: str, release: str) -> str:
    """The task of a probe's questions in the job that also asks the plain ones."""
    return f"{release}/{probe}"


def work_on_probes(judge: JudgeModel, folders: Sequence[Path], number: int, limit: int | None, seed: int) -> Work:
    """The questions of all probes on a random sample of each labelled set, part of what the judge is asked anyway.

    folders: of sets with labels, results/labels/SET; number: replies of each; limit: how many it is asked about.
    """
    work: Work = []
    plain = work_on_labels(judge, folders, min(number, limit or number), seed) if number else []
    for name, probe in PROBES.items():
        for loaded, case in plain:
            if (changed := probe(loaded, case, seed)) is not None:
                work.append((changed[0], changed[1]._replace(task=task_of(name, case.task))))
    return work


def apart(
    judgements: Iterable[Judgement], releases: Iterable[str]
) -> tuple[list[Judgement], dict[str, list[Judgement]]]:
    """What a judge said when it was asked plainly, and by probe what it said then, under the names of the sets."""
    probed = {task_of(probe, release): (probe, release) for probe in PROBES for release in releases}
    plain: list[Judgement] = []
    by_probe: dict[str, list[Judgement]] = {name: [] for name in PROBES}
    for record in judgements:
        if record.task in probed:
            probe, release = probed[record.task]
            by_probe[probe].append(record.model_copy(update={"task": release}))
        else:
            plain.append(record)
    return plain, by_probe
