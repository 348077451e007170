"""Pairs of replies for people to compare: which of two tutors says the better thing, without a word of who they are.

What comes back is a table of preferences (docs/people.md), on which judges, reward models and classifiers are checked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from maieutic.config.people import PAIR_COLUMNS
from maieutic.core.files import write_csv
from maieutic.core.records import Item
from maieutic.judges.rubrics import Criterion, LoadedRubric, Rubric
from maieutic.people.outputs import context_of, read_shown
from maieutic.people.reading import Answer
from maieutic.people.sample import Key, Unit

CRITERION = "preference"
PREFERENCE = LoadedRubric(
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
GUIDELINE = """Read what stands before the responses, then say which one is better for this student at this point.

Say that there is no difference only where you see none. Length is no merit, nor is the place on the page.

You are not told whose responses they are. A dialogue may come again with other responses: compare each on its own."""
WORDS = {"1": "first", "2": "second", "tie": "tie"}


def history_of(item: Item, unit: Unit) -> str:
    """The dialogue before the responses, as a table of preferences has it."""
    turns = "\n".join(
        f"{'Tutor' if turn['role'] == 'assistant' else 'Student'}: {turn['content']}" for turn in item.history
    )
    return item.vars.get("history") or turns or context_of(unit)


def told_of_pairs(units: Sequence[Unit]) -> dict[str, dict[str, str]]:
    """By unit what a table of preferences says of it besides the responses."""
    return {
        unit.name: {
            "history": history_of(unit.candidate.item, unit),
            "question": unit.candidate.item.vars.get("question", ""),
            "solution": str(unit.candidate.item.reference.get("solution") or ""),
            "problem": unit.candidate.item.cluster,
            "other": unit.candidate.against,
        }
        for unit in units
    }


def preference_rows(
    answers: Iterable[Answer], key: Key, folder: Path, resolver: str | None
) -> Iterator[dict[str, str]]:
    """The lines of a table of preferences."""
    responses = {unit["name"]: unit["replies"] for unit in read_shown(folder)["units"]}
    for one in answers:
        about, (first, second) = key.units[one.unit], responses[one.unit]
        told = {name: str(about[name]) for name in ("history", "question", "solution", "problem")}
        resolves = "yes" if one.annotator == resolver else ""
        said = {"preference": WORDS[one.value], "annotator": one.annotator, "resolves": resolves}
        yield {**told, "first": first, "second": second, "id": one.unit, "comment": one.comment, **said}


def write_preferences(path: Path, answers: Sequence[Answer], key: Key, folder: Path, resolver: str | None) -> None:
    """The CSV that an entry of `preferences` takes. folder: of the sample."""
    rows = preference_rows(answers, key, folder, resolver)
    columns = [*PAIR_COLUMNS, "comment"]
    write_csv(path, columns, ([row[name] for name in columns] for row in rows))
