"""Preferences in a user's table (docs/people.md): a dialogue, two replies, and the reply that an annotator prefers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from maieutic.config.datasets import SourceRecord
from maieutic.config.people import PAIR_COLUMNS
from maieutic.core.errors import UserError
from maieutic.core.records import Label, Pair, known_solution
from maieutic.datasets.annotators import aggregate_votes, cell_is_yes
from maieutic.datasets.text import cluster_of
from maieutic.serving.conversations import UNKNOWN_SOLUTION, merge_turns, messages_before_reply, parse_turns

REQUIRED_PAIR_COLUMNS, OPTIONAL_PAIR_COLUMNS = PAIR_COLUMNS[:4], PAIR_COLUMNS[4:]
FIRST, SECOND, TIE = "first", "second", "tie"
CHOICE_WORDS = {
    **dict.fromkeys(("first", "1", "a"), FIRST),
    **dict.fromkeys(("second", "2", "b"), SECOND),
    **dict.fromkeys(("tie", "0", "equal", "both"), TIE),
}
CRITERION = "preference"


class PreferenceLine(NamedTuple):
    """One line of a preference table: a pair, and an annotator's choice between its replies.

    place: place of the line in messages; resolves: True if the annotator decides where others disagree.
    """

    place: str
    pair: Pair
    choice: str
    annotator: str | None
    resolves: bool


def preferences_of_table(
    name: str,
    columns: Mapping[str, str],
    *sources: Sequence[SourceRecord],
    values: Mapping[str, str] = MappingProxyType({}),
) -> list[Pair]:
    """Return the pairs of a table, with the preferred replies as chosen ones. Raises UserError for all invalid lines.

    If a pair's annotators disagree, a resolver decides, or else the majority. A pair without a majority is a tie.

    name: name of the set; columns: maps each column of docs/people.md to a column in the file; sources: records of the
    table's files; values: maps each preference in the file to `first`, `second` or `tie` (empty: the usual words).
    """
    faults: list[UserError] = []
    lines: list[PreferenceLine] = []
    words = {word.casefold(): meaning for word, meaning in values.items()} or CHOICE_WORDS
    for number, record in enumerate((record for source in sources for record in source), 1):
        try:
            lines.append(preference_line(name, f"record {number}", record, columns, words))
        except UserError as error:
            faults += error.all
    faults += duplicate_errors(lines)
    if faults:
        raise UserError.of(faults)
    by_pair: dict[str, list[PreferenceLine]] = defaultdict(list)
    for line in lines:
        by_pair[line.pair.id].append(line)
    return [aggregate_choice(group) for group in by_pair.values()]


def cell_text(record: Mapping[str, Any], column: str, columns: Mapping[str, str]) -> str:
    """Return the text of a cell, empty if the cell is missing.

    column: name of the column in docs/people.md; columns: maps such names to columns in the file.
    """
    value = record.get(columns.get(column, column))
    return "" if value is None else str(value).strip()


def preference_line(
    name: str, place: str, record: SourceRecord, columns: Mapping[str, str], words: Mapping[str, str]
) -> PreferenceLine:
    """Read one record as a preference. Raises UserError for a missing cell or an unknown preference.

    words: maps each preference in lower case to `first`, `second` or `tie`.
    """
    texts = {column: cell_text(record, column, columns) for column in (*REQUIRED_PAIR_COLUMNS, *OPTIONAL_PAIR_COLUMNS)}
    if missing := [columns.get(column, column) for column in REQUIRED_PAIR_COLUMNS if not texts[column]]:
        raise UserError(
            place,
            f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing",
            f"fill in the columns {', '.join(REQUIRED_PAIR_COLUMNS)} in every line",
        )
    choice = words.get(texts["preference"].casefold())
    if choice is None:
        known = "first, second, tie (also: 1, 2, 0, a, b)" if words is CHOICE_WORDS else ", ".join(words)
        raise UserError(place, f"unknown preference: {texts['preference'][:20]!r}", f"use one of {known}")
    turns = merge_turns(parse_turns(texts["history"])) or [{"role": "user", "content": texts["history"]}]
    prompt = messages_before_reply(texts["question"], known_solution(texts["solution"]) or UNKNOWN_SOLUTION, turns)
    content = cluster_of(" ".join([texts["question"], texts["history"], texts["first"], texts["second"]]))
    pair = Pair(
        id=f"{name}-{texts['id'] or content}",
        source=name,
        problem=texts["problem"] or cluster_of(texts["question"] or texts["history"]),
        prompt=prompt,
        chosen=texts["first"],
        rejected=texts["second"],
        margin=1.0,
    )
    return PreferenceLine(place, pair, choice, texts["annotator"] or None, cell_is_yes(texts["resolves"]))


def duplicate_errors(lines: Sequence[PreferenceLine]) -> Iterator[UserError]:
    """Yield an error for each line that reuses the id of another pair or repeats an annotator's judgement of a pair."""
    pairs: dict[str, PreferenceLine] = {}
    seen: dict[tuple[str, str | None], str] = {}
    for line in lines:
        before = pairs.setdefault(line.pair.id, line)
        if before.pair != line.pair:
            yield UserError(
                line.place, f"another pair in {before.place} has the same id", "assign a unique id to each pair"
            )
        key = line.pair.id, line.annotator
        if key in seen:
            who = line.annotator or "an unnamed annotator"
            problem = f"{who} already judged this pair in {seen[key]}"
            yield UserError(
                line.place, problem, "remove one of the lines, or name the annotators in the column annotator"
            )
        seen.setdefault(key, line.place)


def aggregate_choice(group: Sequence[PreferenceLine]) -> Pair:
    """Aggregate the lines about one pair. Returns the pair with the preferred reply as the chosen one, or as a tie."""
    pair = group[0].pair
    votes = [
        Label(
            id=pair.id, task="", tutor="", criterion=CRITERION, label=line.choice, problem=pair.problem,
            annotator=line.annotator, resolves=line.resolves,
        )
        for line in group
    ]  # fmt: skip
    choice = aggregate_votes(votes)
    if choice == FIRST:
        return pair
    if choice == SECOND:
        return pair.model_copy(update={"chosen": pair.rejected, "rejected": pair.chosen})
    return pair.model_copy(update={"margin": 0.0, "tie": True})
