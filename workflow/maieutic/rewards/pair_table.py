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
from maieutic.datasets.text import cluster_of
from maieutic.judges.annotators import aggregate_votes, cell_is_yes
from maieutic.serving.conversations import UNKNOWN_SOLUTION, merge_turns, messages_before_reply, parse_turns

REQUIRED_PAIR_COLUMNS, OPTIONAL_PAIR_COLUMNS = PAIR_COLUMNS[:4], PAIR_COLUMNS[4:]  # required and optional columns
FIRST, SECOND, TIE = "first", "second", "tie"
CHOICE_WORDS = {
    **dict.fromkeys(("first", "1", "a"), FIRST),
    **dict.fromkeys(("second", "2", "b"), SECOND),
    **dict.fromkeys(("tie", "0", "equal", "both"), TIE),
}
CRITERION = "preference"


class PreferenceLine(NamedTuple):
    """One preference: a pair and an annotator's choice between its replies."""

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
    """Return the pairs of a table, the preferred reply first. Raises a UserError that lists all invalid lines.

    columns: column of docs/people.md -> column in the file; values: preference in the file -> its meaning (`first`,
    `second` or `tie`), empty for the usual words. Where a pair's annotators disagree, a resolver decides, else the
    majority. A pair without a majority is a tie.
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
    """Return a cell's text, empty for a missing cell."""
    value = record.get(columns.get(column, column))
    return "" if value is None else str(value).strip()


def preference_line(
    name: str, place: str, record: SourceRecord, columns: Mapping[str, str], words: Mapping[str, str]
) -> PreferenceLine:
    """Read one record as a preference. Raises UserError for a missing cell or an unknown preference.

    words: the meaning of each preference, with lower-case keys.
    """
    texts = {column: cell_text(record, column, columns) for column in (*REQUIRED_PAIR_COLUMNS, *OPTIONAL_PAIR_COLUMNS)}
    if missing := [columns.get(column, column) for column in REQUIRED_PAIR_COLUMNS if not texts[column]]:
        raise UserError(
            place,
            f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing",
            f"fill in {', '.join(REQUIRED_PAIR_COLUMNS)} in every line",
        )
    choice = words.get(texts["preference"].casefold())
    if choice is None:
        known = "first, second, tie (or 1, 2, 0; a, b)" if words is CHOICE_WORDS else ", ".join(words)
        raise UserError(place, f"no such preference: {texts['preference'][:20]!r}", f"use one of {known}")
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
    """Yield an error for each line whose id belongs to another pair, or whose annotator has already judged its pair."""
    pairs: dict[str, PreferenceLine] = {}
    seen: dict[tuple[str, str | None], str] = {}
    for line in lines:
        before = pairs.setdefault(line.pair.id, line)
        if before.pair != line.pair:
            yield UserError(
                line.place, f"another pair has the same id, in {before.place}", "give each pair a unique id"
            )
        key = line.pair.id, line.annotator
        if key in seen:
            who = line.annotator or "an unnamed annotator"
            problem = f"{who} already judged this pair in {seen[key]}"
            yield UserError(
                line.place, problem, "remove one of the lines, or name the annotators in a column annotator"
            )
        seen.setdefault(key, line.place)


def aggregate_choice(group: Sequence[PreferenceLine]) -> Pair:
    """Return a pair with the aggregated choice of its annotators: the preferred reply first, or a tie."""
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
