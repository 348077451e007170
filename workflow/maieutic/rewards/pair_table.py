"""Preferences in a table of one's own (docs/people.md): a dialogue, two replies, and which one somebody prefers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from maieutic.config.datasets import Source
from maieutic.config.people import PAIR_COLUMNS
from maieutic.core.errors import UserError
from maieutic.core.records import Label, Pair, known_solution
from maieutic.datasets.text import cluster_of
from maieutic.judges.annotators import joined, yes
from maieutic.serving.conversations import UNKNOWN_SOLUTION, dialogue, merged, parse_turns

COLUMNS, MORE = PAIR_COLUMNS[:4], PAIR_COLUMNS[4:]  # those that every line has, and those that it may have
FIRST, SECOND, TIE = "first", "second", "tie"
WORDS = {
    **dict.fromkeys(("first", "1", "a"), FIRST),
    **dict.fromkeys(("second", "2", "b"), SECOND),
    **dict.fromkeys(("tie", "0", "equal", "both"), TIE),
}
CRITERION = "preference"


class Line(NamedTuple):
    """One preference: the pair that it is about, and what its annotator says."""

    place: str
    pair: Pair
    said: str
    annotator: str | None
    resolves: bool


def preferences_of_table(
    name: str, columns: Mapping[str, str], *sources: Sequence[Source], values: Mapping[str, str] = MappingProxyType({})
) -> list[Pair]:
    """The pairs of a table, the preferred reply first. Raises UserError naming every line that cannot be one.

    columns: by our name that of the file; values: the meaning (`first`, `second`, `tie`) of each preference in the
    file, empty for the usual words. Several annotators of a pair are joined by majority, a resolver before it; a pair
    that divides them is a tie.
    """
    faults: list[UserError] = []
    lines: list[Line] = []
    words = {word.casefold(): meaning for word, meaning in values.items()} or WORDS
    for number, record in enumerate((record for source in sources for record in source), 1):
        try:
            lines.append(line_of(name, f"record {number}", record, columns, words))
        except UserError as error:
            faults += error.all
    faults += doubled(lines)
    if faults:
        raise UserError.of(faults)
    by_pair: dict[str, list[Line]] = defaultdict(list)
    for line in lines:
        by_pair[line.pair.id].append(line)
    return [decided(group) for group in by_pair.values()]


def cell(record: Mapping[str, Any], column: str, columns: Mapping[str, str]) -> str:
    """A cell's text, empty where there is none."""
    value = record.get(columns.get(column, column))
    return "" if value is None else str(value).strip()


def line_of(name: str, place: str, record: Source, columns: Mapping[str, str], words: Mapping[str, str]) -> Line:
    """Read one record as a preference. Raises UserError for a missing cell or an unknown preference.

    words: the meaning of each preference, in lower case.
    """
    texts = {column: cell(record, column, columns) for column in (*COLUMNS, *MORE)}
    if missing := [columns.get(column, column) for column in COLUMNS if not texts[column]]:
        raise UserError(place, f"{', '.join(missing)} is missing", f"a line has {', '.join(COLUMNS)}")
    said = words.get(texts["preference"].casefold())
    if said is None:
        known = "first, second, tie (or 1, 2, 0; a, b)" if words is WORDS else ", ".join(words)
        raise UserError(place, f"no such preference: {texts['preference'][:20]!r}", f"known: {known}")
    turns = merged(parse_turns(texts["history"])) or [{"role": "user", "content": texts["history"]}]
    prompt = dialogue(texts["question"], known_solution(texts["solution"]) or UNKNOWN_SOLUTION, turns)
    told = cluster_of(" ".join([texts["question"], texts["history"], texts["first"], texts["second"]]))
    pair = Pair(
        id=f"{name}-{texts['id'] or told}",
        source=name,
        problem=texts["problem"] or cluster_of(texts["question"] or texts["history"]),
        prompt=prompt,
        chosen=texts["first"],
        rejected=texts["second"],
        margin=1.0,
    )
    return Line(place, pair, said, texts["annotator"] or None, yes(texts["resolves"]))


def doubled(lines: Sequence[Line]) -> Iterator[UserError]:
    """Each line whose pair is another one of its id, or whose annotator has said it before."""
    pairs: dict[str, Line] = {}
    seen: dict[tuple[str, str | None], str] = {}
    for line in lines:
        before = pairs.setdefault(line.pair.id, line)
        if before.pair != line.pair:
            yield UserError(line.place, f"its id is that of another pair in {before.place}", "give each pair its own")
        key = line.pair.id, line.annotator
        if key in seen:
            who = line.annotator or "nobody by name"
            found = f"{who} has judged this pair in {seen[key]} already"
            yield UserError(line.place, found, "leave one, or name its annotators in a column")
        seen.setdefault(key, line.place)


def decided(group: Sequence[Line]) -> Pair:
    """A pair by what its annotators say together."""
    pair = group[0].pair
    votes = [
        Label(
            id=pair.id, task="", tutor="", criterion=CRITERION, label=line.said, problem=pair.problem,
            annotator=line.annotator, resolves=line.resolves,
        )
        for line in group
    ]  # fmt: skip
    said = joined(votes)
    if said == FIRST:
        return pair
    if said == SECOND:
        return pair.model_copy(update={"chosen": pair.rejected, "rejected": pair.chosen})
    return pair.model_copy(update={"margin": 0.0, "tie": True})
