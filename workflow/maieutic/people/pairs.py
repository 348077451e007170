"""Blind comparisons of two tutors' replies by people.

The answers become a table of preferences (docs/people.md) that validates judges, reward models and classifiers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from maieutic.config.people import PAIR_COLUMNS
from maieutic.config.rubrics import Criterion, LoadedRubric, Rubric
from maieutic.core.records import Item
from maieutic.people.annotation_files import context_text, read_sample_content
from maieutic.people.answer_files import AnnotatorAnswer
from maieutic.people.sample import Key, Unit

CRITERION = "preference"
PREFERENCE_RUBRIC = LoadedRubric(
    rubric=Rubric(
        rubric=CRITERION,
        version=1,
        title="Which response is better?",
        source="ours",
        kind="win_tie_lose",
        answer="json",
        prompt="",
        criteria={
            CRITERION: Criterion(
                title="Preference",
                definition="Which response would you rather have the tutor give to this student?",
            )
        },
    ),
    system="",
    prompt="",
)
PAIR_GUIDELINE = """Read the context first. Then choose the better response for this student at this point.

Choose "No difference" only if you see none. Neither length nor position on the page makes a response better.

The authors of the responses are not shown. A dialogue may appear again with other responses: judge each pair alone."""
PREFERENCE_VALUES = {"1": "first", "2": "second", "tie": "tie"}


def history_text(item: Item, unit: Unit) -> str:
    """Return the dialogue before the responses, for the column `history` of a table of preferences."""
    turns = "\n".join(
        f"{'Tutor' if turn['role'] == 'assistant' else 'Student'}: {turn['content']}" for turn in item.history
    )
    return item.vars.get("history") or turns or context_text(unit)


def pair_columns(units: Sequence[Unit]) -> dict[str, dict[str, str]]:
    """Return the columns of a table of preferences, by unit, except the responses and answers."""
    return {
        unit.name: {
            "history": history_text(unit.candidate.item, unit),
            "question": unit.candidate.item.vars.get("question", ""),
            "solution": str(unit.candidate.item.reference.get("solution") or ""),
            "problem": unit.candidate.item.cluster,
            "other": unit.candidate.against,
        }
        for unit in units
    }


def preference_rows(
    answers: Iterable[AnnotatorAnswer], key: Key, folder: Path, resolver: str | None
) -> Iterator[dict[str, object]]:
    """Yield the rows of the CSV for an entry of `preferences`. folder: the sample's folder."""
    responses = {unit["name"]: unit["replies"] for unit in read_sample_content(folder)["units"]}
    for answer in answers:
        about, (first, second) = key.units[answer.unit], responses[answer.unit]
        context = {name: str(about[name]) for name in ("history", "question", "solution", "problem")}
        resolves = "yes" if answer.annotator == resolver else ""
        vote = {"preference": PREFERENCE_VALUES[answer.value], "annotator": answer.annotator, "resolves": resolves}
        row = {**context, "first": first, "second": second, "id": answer.unit, "comment": answer.comment, **vote}
        yield {name: row[name] for name in (*PAIR_COLUMNS, "comment")}
