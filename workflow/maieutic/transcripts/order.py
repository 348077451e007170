"""Order of the rows of each conversation, by turn numbers or times, and doubts about it."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from maieutic.core.errors import UserError
from maieutic.core.user_tables import UserTable
from maieutic.transcripts.shapes import SEVERAL, Placed, cell
from maieutic.transcripts.times import (
    OF_DAY,
    are_unix_times,
    direction,
    has_sections,
    longest_gap,
    read_numbers,
    read_times,
)
from maieutic.transcripts.understanding import Understanding

SUMMER_TIME = "by at most an hour, as when summer time ends"
DAY = 86_400.0  # seconds
ORDER_NAME = re.compile(
    r"time|start|begin|offset|sec|stamp|seq|order|index|position|turn|^n$|^no$|number", re.IGNORECASE
)
Valued = dict[str, list[tuple[float | None, Placed]]]  # rows of each conversation with their turn numbers or times


def ordered_rows(
    rows: dict[str, list[Placed]], named: dict[str, str], known: Understanding
) -> Mapping[str, Sequence[Placed]]:
    """Return the rows of each conversation in the order of their messages, by turn numbers or times."""
    sort = known.reading.sort
    field = sort or ("turn" if "turn" in named else "time" if "time" in named else None)
    if field == "reversed":
        known.notes.append("order: the opposite of the file's")
        return {name: members[::-1] for name, members in rows.items()}
    if field is None or field == "file":
        known.notes += ["order: as in the file, unchecked"] if field else []
        return rows
    if field not in named:
        raise UserError("--sort", f"no column is the {field}", f"name it with --columns {field}=COLUMN")
    column = named[field]
    values = order_values([cell(row, column) for members in rows.values() for _, row in members], field, named, known)
    if values is None:
        return rows
    if sort is not None and (unplaced := sum(value is None for value in values)):
        problem = f"{unplaced:,} rows have no {field} in column {column}, so they have no place in its order"
        known.doubt(problem, f"write the {field} in each row, or pass --sort file to keep the order of the rows")
        return rows
    numbers = iter(values)
    valued = {name: [(next(numbers), placed) for placed in members] for name, members in rows.items()}
    if sort is not None:
        known.notes.append(f"order: each conversation sorted by {field}")
        return sorted_rows(valued)
    if field == "time" and known.notes[-1:] != [f"times: {OF_DAY}"]:
        gaps = [longest_gap([value for value, _ in members if value is not None]) for members in valued.values()]
        known.counts["conversations with a pause of more than a day"] += sum(gap > DAY for gap in gaps)
    ways = {name: direction([value for value, _ in members if value is not None]) for name, members in valued.items()}
    falling = [name for name, way in ways.items() if way < 0]
    mixed = [name for name, way in ways.items() if way == 0]
    several = sum(len({value for value, _ in members}) > 1 for members in valued.values())
    known.is_ordered = all(len({value for value, _ in members}) == len(members) for members in valued.values())
    if falling and not mixed and len(falling) == several:
        known.notes.append(f"order: the newest message comes first (by {column}), so each is read from its end")
        return {name: members[::-1] for name, members in rows.items()}
    if not falling and not mixed:
        return rows
    problem = f"{len(falling):,} of {len(rows):,} conversations run backwards by {column}"
    of_day = known.notes[-1:] == [f"times: {OF_DAY}"]
    problem = mixed_order(mixed, valued, column, "" if of_day else field) if mixed else problem
    if of_day:  # sorted, a morning may stand before the evening before it
        numbered = numbering_column(rows, named)
        fix = f"pass --columns {shlex.quote(f'turn={numbered}')} --sort turn, or " if numbered else "pass "
        known.doubt(problem, f"{fix}--sort file if the rows are in order: times of day do not show the day")
        return rows
    if field == "turn" and (name := restarted(rows, named)):
        problem = f"turn numbers start again in conversation {name}, as if it stood twice in the file or shared its id"
        known.doubt(problem, "remove the second copy, or give each conversation an id of its own")
        return rows
    fix = f"pass --sort {field} to sort the rows, or --sort file to keep their order"
    is_certain = SUMMER_TIME not in problem and None not in values
    proposal = f"each conversation sorted by {field}" if is_certain else ""
    return sorted_rows(valued) if known.doubt(problem, fix, proposal) else rows


def restarted(rows: Mapping[str, Sequence[Placed]], named: Mapping[str, str]) -> str | None:
    """Return the first conversation in which one role has a turn number twice, or None."""
    if "role" not in named:
        return None
    for name, members in rows.items():
        numbers = Counter((cell(row, named["turn"]), cell(row, named["role"])) for _, row in members)
        if max(numbers.values()) > 1:
            return name
    return None


def sorted_rows(valued: Valued) -> dict[str, list[Placed]]:
    """Return the rows of each conversation sorted by their turn numbers or times."""
    return {name: [placed for _, placed in sorted(members, key=sort_value)] for name, members in valued.items()}


def sort_value(pair: tuple[float | None, Any]) -> float:
    """Return the value by which a row is sorted. Rows without one stay in front."""
    return float("-inf") if pair[0] is None else pair[0]


def doubt_of_unnamed_order(
    rows: Mapping[str, Sequence[Placed]], table: UserTable, named: Mapping[str, str], known: Understanding
) -> None:
    """Add a doubt if a column that is not used has times, or numbers all turns, in another order than the rows."""
    used = {part for column in named.values() for part in column.split(SEVERAL)}
    used |= {*known.reading.tags, *known.reading.names}
    for column in (name for name in table.columns if name not in used):
        texts = [[cell(row, column) for _, row in members] for members in rows.values()]
        flat = [text for members in texts for text in members]
        numbers = read_numbers(flat)
        readings = [numbers] if numbers is not None else read_times(flat)
        if not readings or not all(flat):
            continue
        is_time = numbers is None or are_unix_times(numbers.values)
        if numbers is not None and not is_time:
            parts = split_values(numbers.values, texts)
            is_order = ORDER_NAME.search(column) and all(len({*part}) == len(part) > 1 for part in parts)
            if not is_order and not all(map(is_numbering, parts)):
                continue
        ways = [[direction(values) for values in split_values(reading.values, texts)] for reading in readings]
        # A text such as 0:45 may be a duration. Durations have no order, so only a fall in every conversation counts.
        falls = all(way == -1 for order in ways for way in order)
        in_order = any(all(way == 1 for way in order) for order in ways)
        if falls or not (in_order or readings[0].form == OF_DAY):
            field = "time" if is_time else "turn"
            field = "turn" if numbers is not None and not is_time else field
            if field == "time" and "time" in named and readings[0].form == OF_DAY:
                column = SEVERAL.join((named["time"], column))  # the named column has days
            problem = f"column {column} is not used, and by its values the rows are not in the order of the messages"
            fix = f"pass --columns {shlex.quote(f'{field}={column}')}, or --sort file to keep the order of the rows"
            known.doubt(problem, fix)
            return


def numbering_column(rows: Mapping[str, Sequence[Placed]], named: Mapping[str, str]) -> str | None:
    """Return the first unused column that numbers the rows of each conversation, or None."""
    members = list(rows.values())
    for column in members[0][0][1] if members else ():
        texts = [[cell(row, column) for _, row in placed] for placed in members]
        numbers = read_numbers([text for cells in texts for text in cells])
        if column not in named.values() and numbers is not None:
            parts = [part for part in split_values(numbers.values, texts) if len(part) > 1]
            if parts and all(map(is_numbering, parts)):
                return column
    return None


def split_values(values: Sequence[float | None], texts: Sequence[Sequence[str]]) -> list[list[float]]:
    """Return the numbers of each conversation. texts: the cells of each conversation, whose numbers `values` are."""
    numbers = iter(values)
    return [[value for _ in members if (value := next(numbers)) is not None] for members in texts]


def is_numbering(values: Sequence[float]) -> bool:
    """Return True for whole numbers of which each occurs once, without a gap, up or down."""
    return len(values) > 1 and max(values) - min(values) == len(values) - 1 and len(set(values)) == len(values)


def mixed_order(mixed: Sequence[str], valued: Valued, column: str, field: str) -> str:
    """Return what is in doubt about conversations whose turn numbers or times go up and down, with a likely cause."""
    name = mixed[0]
    values = [value for value, _ in valued[name] if value is not None]
    step = next(number for number in range(1, len(values)) if values[number] < values[number - 1])
    cause = ""
    falls = sum(later < earlier for earlier, later in pairwise(values))
    if field == "time" and falls == 1 and values[step - 1] - values[step] <= 3600.0:
        cause = f" ({SUMMER_TIME})"
    return f"{len(mixed):,} conversations are not in the order of {column}, such as {name}{cause}"


def order_values(
    texts: Sequence[str], field: str, named: dict[str, str], known: Understanding
) -> list[float | None] | None:
    """Return the numbers by which rows are ordered; None, with a note or a doubt, if the column has no order."""
    column = named[field]
    if field == "turn":
        numbers = read_numbers(texts)
        if numbers is None:
            strange = next(text for text in texts if text and read_numbers([text]) is None)
            known.doubt(
                f"column {column} has {strange!r}, which is not a number", "number the turns of each conversation"
            )
            return None
        if has_sections(texts):
            problem = (
                f"column {column} has numbers such as 1.9 and 1.10, with different orders as numbers and as sections"
            )
            known.doubt(problem, "pass --sort file to keep the order of the rows")
            return None
        return numbers.values
    readings = read_times(texts)
    if len(readings) == 2 and known.reading.day_first is not None:
        readings = readings[:1] if known.reading.day_first else readings[1:]
    if not readings:
        problem = f"column {column} cannot be read as times"
        if known.reading.sort is not None:
            known.doubt(
                problem, "write times such as 2026-03-01 14:05, or pass --sort file to keep the order of the rows"
            )
            return None
        del named[field]
        known.notes.append(f"order: as in the file; {problem}, so it was not checked")
        return None
    if len(readings) == 2:
        if sorted_like(readings[0].values) != sorted_like(readings[1].values):
            fix = "pass --dates day-first or --dates month-first"
            known.doubt(f"times in column {column} may name the day or the month first, with different orders", fix)
            return None
        # Both orders of day and month sort the rows alike. The one with the shorter pauses counts pauses.
        gaps = [longest_gap([value for value in reading.values if value is not None]) for reading in readings]
        shortest = readings[gaps.index(min(gaps))]
        readings = [shortest._replace(form="local times, with the day or the month first, which sort the rows alike")]
    known.notes.append(f"times: {readings[0].form}")
    return readings[0].values


def sorted_like(values: Sequence[float | None]) -> list[int]:
    """Return the ranks of values, to compare the orders of two columns."""
    order = sorted({value for value in values if value is not None})
    places = {value: place for place, value in enumerate(order)}
    return [places[value] if value is not None else -1 for value in values]
