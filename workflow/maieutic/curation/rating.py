"""Judges' ratings of curated dialogues on dimensions with human labels, for one tutor turn of each sampled dialogue."""

from __future__ import annotations

import logging
from pathlib import Path

from maieutic.config.rubrics import LoadedRubric, read_rubric
from maieutic.core.records import read_records
from maieutic.curation.records import Dialogue
from maieutic.datasets.sampling import ranked_by_seed
from maieutic.judges.judging import JudgeWork
from maieutic.judges.questions import Case
from maieutic.judges.verdicts import AskJudge
from maieutic.serving.backends import JobFiles

log = logging.getLogger(__name__)
TASK, TUTOR = "curation", "curated"


class RateDialogues(AskJudge):
    """Job of a judge that rates dialogues.

    rubric: name of a rubric for which human labels validate the judge; sample: number of dialogues to rate.
    """

    curation: str
    rubric: str
    sample: int


def rate_dialogues(
    *, job: RateDialogues, dialogues: Path, weights: list[Path], journal: Path, server_log: Path, out: Path
) -> None:
    """Ask a judge to rate one tutor turn of each dialogue in a random sample.

    weights: the manifest of the judge's weights if this run serves the judge, else empty.
    """
    loaded = read_rubric(job.rubric)
    records = read_records(dialogues, Dialogue)
    chosen = set(ranked_by_seed((dialogue.id for dialogue in records), job.seed)[: job.sample])
    work: JudgeWork = [
        (loaded, rating_case(loaded, dialogue, job.seed)) for dialogue in records if dialogue.id in chosen
    ]
    job.ask(work, JobFiles(next(iter(weights), None), journal, server_log), out)
    log.info("%d of %d dialogues rated", len(work), len(records))


def rating_case(loaded: LoadedRubric, dialogue: Dialogue, seed: int) -> Case:
    """Return the judge's case for a random tutor turn of a dialogue.

    The history contains the turns before that turn. The prompt variables are the same as for MRBench's items.
    """
    places = [place for place, turn in enumerate(dialogue.turns) if turn.speaker == "tutor"]
    by_name = {f"{dialogue.id} {place}": place for place in places}
    place = by_name[ranked_by_seed(by_name, seed)[0]]
    lines = [f"{turn.speaker.capitalize()}: {turn.text}" for turn in dialogue.turns[:place]]
    variables = {
        "question": dialogue.problem,
        "history": "\n".join(lines),
        "dialog_history": "\n".join(lines),
        "topic": "",
        "level": "elementary or middle",
        "reference_solution": dialogue.solution,
    }
    replies = {"response": dialogue.turns[place].text}
    return Case(f"{dialogue.id}-{place}", TASK, TUTOR, variables, replies, loaded.rubric.criteria)
