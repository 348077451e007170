"""A judge's rating of curated dialogues: a sample of the tutor's turns by the dimensions that people have labelled."""

from __future__ import annotations

import logging
from pathlib import Path

from maieutic.core.records import read_records
from maieutic.curation.records import Dialogue
from maieutic.datasets.sampling import ranked
from maieutic.judges.commands import AskJudge
from maieutic.judges.judging import Work
from maieutic.judges.questions import Case
from maieutic.judges.rubrics import LoadedRubric, read_rubric
from maieutic.serving.backends import JobFiles

log = logging.getLogger(__name__)
TASK, TUTOR = "curation", "curated"


class RateDialogues(AskJudge):
    """A judge, the labelled release whose labels its rubric has, and how many dialogues it rates."""

    curation: str
    rubric: str
    sample: int


def rate_dialogues(
    *, job: RateDialogues, dialogues: Path, weights: list[Path], journal: Path, server_log: Path, out: Path
) -> None:
    """Ask a judge about one tutor's turn of each dialogue of a sample.

    weights: the manifest of a judge that we serve.
    """
    loaded = read_rubric(job.rubric)
    records = read_records(dialogues, Dialogue)
    chosen = set(ranked((dialogue.id for dialogue in records), job.seed)[: job.sample])
    work: Work = [(loaded, case_of(loaded, dialogue, job.seed)) for dialogue in records if dialogue.id in chosen]
    job.ask(work, JobFiles(next(iter(weights), None), journal, server_log), out)
    log.info("%d of %d dialogues rated", len(work), len(records))


def case_of(loaded: LoadedRubric, dialogue: Dialogue, seed: int) -> Case:
    """One of the tutor's turns, drawn at random, with what stands before it, in the variables of MRBench's items."""
    places = [place for place, turn in enumerate(dialogue.turns) if turn.speaker == "tutor"]
    by_name = {f"{dialogue.id} {place}": place for place in places}
    place = by_name[ranked(by_name, seed)[0]]
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
