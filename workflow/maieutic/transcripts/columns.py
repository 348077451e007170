"""Columns of a table of transcripts: found by their names, or proposed by their content."""

from __future__ import annotations

import re
import shlex
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from maieutic.core.errors import UserError
from maieutic.core.speakers import ROLE_WORDS, STUDENT, TUTOR, is_role, proposed_role
from maieutic.core.user_tables import UserTable
from maieutic.transcripts.shapes import COLUMN_NAMES, SEVERAL, cell
from maieutic.transcripts.times import OF_DAY, are_unix_times, read_numbers, read_times
from maieutic.transcripts.turns import LONGEST_SPEAKER, TURN_SEPARATOR, is_turn_list
from maieutic.transcripts.understanding import Reading

# Ids of conversations in a table with one row per conversation, and of messages in a table with one row per message
ID_OF_RECORD = ("id", "uuid")
SIDES = {  # words in the names of two columns, of which each row is one exchange
    STUDENT: re.compile(
        r"^(?:user|student|human|learner|pupil)(?:_?(?:message|text|input|query|turn|utterance|prompt|question))?$"
        r"|^(?:prompt|question|input|query)$"
    ),
    TUTOR: re.compile(
        r"^(?:bot|assistant|tutor|teacher|ai|model)(?:_?(?:message|text|output|response|reply|answer|turn|utterance))?$"
        r"|^(?:response|answer|output|completion|reply)$"
    ),
}
SHORTEST_TEXT = 4  # mean number of characters from which a column may hold the messages of one side
DAY_ALONE = re.compile(r"[^:\sT]+(?:\s[^:\sT]+)*")  # a day without a time of day
NUMBERED = re.compile(r"(\D+?)[ _-]?(\d{1,3})")  # name of a column of one turn
SPEAKER_LINE = re.compile(r"\s*([^\W\d_][\w.' -]{0,20}):\s")
MOST_OF_LINES = 3  # maximum number of different speakers in a dialogue written as lines
MOST_SPEAKERS = 12  # maximum number of different values in a column of roles or names of speakers


def find_columns(path: Path, table: UserTable, reading: Reading) -> dict[str, str]:
    """Return the column of each field: as named by the user, or found by its name.

    Raises UserError for an unknown field or column, and if there is neither a column of turns nor role and text.
    """
    columns = table.columns
    by_folded = {column.casefold().replace(" ", "_"): column for column in reversed(columns)}
    named: dict[str, str] = {}
    for field, names in COLUMN_NAMES.items():
        matching = [by_folded[name] for name in names if name in by_folded]
        if field == "turns":
            matching = [column for column in matching if holds_turns(table, column)]
        elif field in ("conversation", "role", "text"):
            matching = [column for column in matching if not holds_turns(table, column)]
        if field == "conversation":
            matching = [
                column
                for column in matching
                if not any(isinstance(row.get(column), dict | list) for _, row in table.rows)
            ]
        if matching:
            named[field] = matching[0]
    if "turns" not in named and not {"role", "text"} <= named.keys():
        lists = [name for name in columns if any(is_turn_list(row.get(name)) for _, row in table.rows[:5])]
        if len(lists) == 1:
            named["turns"] = lists[0]
        elif len(lists) > 1 and not {"turns", "role", "text"} & reading.columns.keys():
            longest = max(lists, key=lambda name: number_of_turns(table, name))
            raise UserError(
                str(path),
                f"{len(lists)} columns hold lists of turns: {', '.join(lists)}",
                f"pass --columns {shlex.quote(f'turns={longest}')}, which has the most turns, or with another's name",
            )
    for field, column in reading.columns.items():
        if field not in COLUMN_NAMES:
            raise UserError("--columns", f"the field {field} is unknown", f"use {', '.join(COLUMN_NAMES)}")
        if not column:
            named.pop(field, None)
            continue
        if missing := [name for name in column.split(SEVERAL) if name not in columns]:
            present = ", ".join(columns)
            raise UserError("--columns", f"{path} has no column {missing[0]}, only {present}", "correct the name")
        named[field] = column
    for flag, chosen in (("--tags", reading.tags), ("--names", reading.names)):
        if absent := [column for column in chosen if column not in columns]:
            raise UserError(flag, f"{path} has no column {absent[0]}, only {', '.join(columns)}", "correct the name")
    fields = {field for field, column in reading.columns.items() if column}
    sides = exchange_columns(columns) if not {"role", "text", "turns"} & fields and "turns" not in named else None
    if sides is not None and not {"role", "text"} <= set(named):
        named["turns"] = SEVERAL.join(sides)
    if "turns" in fields or ("turns" in named and not {"role", "text"} & fields):
        taken = {*named["turns"].split(SEVERAL)}
        return {  # a list of turns has its own roles and texts
            field: column
            for field, column in named.items()
            if field == "turns" or (column not in taken and field not in ("role", "text"))
        }
    named.pop("turns", None)
    if named.get("conversation") in ID_OF_RECORD and "conversation" not in fields:
        del named["conversation"]  # the id of a message, not of its conversation
    if "role" in named and "role" not in fields and (better := column_of_roles(table, named["role"])):
        named["role"] = better
    if missing := [field for field in ("conversation", "role", "text") if field not in named]:
        problem = f"found no column for {', '.join(missing)} among {', '.join(columns) or 'none'}"
        proposals = proposed_columns(table, named, missing)
        flags = (
            f"pass --columns {shlex.join(f'{field}={column}' for field, column in proposals.items())}"
            if proposals
            else ""
        )
        if unknown := [field for field in missing if field not in proposals and "turns" not in proposals]:
            flags += f"{'; ' if flags else ''}add a column that names the {' and the '.join(unknown)} of each row"
        raise UserError(str(path), problem, flags)
    return named


def number_of_turns(table: UserTable, column: str) -> int:
    """Return the number of turns in all lists of a column."""
    lists = [row.get(column) for _, row in table.rows]
    return sum(len(turns) for turns in lists if isinstance(turns, list))


def column_of_roles(table: UserTable, named: str) -> str | None:
    """Return another column whose words are roles, if no word of the column that is named so is one.

    None without such a column, and if several differ.
    """

    def share(column: str) -> float:
        words = [word for _, row in table.rows[:200] if (word := cell(row, column))]
        return sum(map(is_role, words)) / max(len(words), 1)

    if share(named) > 0:
        return None
    fitting = [column for column in table.columns if share(column) >= 0.8]
    contents = {tuple(cell(row, column).casefold() for _, row in table.rows) for column in fitting}
    return fitting[0] if len(contents) == 1 else None


def fits(column: str, field: str) -> bool:
    """Return True if a field is found under a column's name."""
    name = column.casefold().replace(" ", "_")
    return name in COLUMN_NAMES[field] and not (field == "conversation" and name in ID_OF_RECORD)


def proposed_columns(table: UserTable, named: Mapping[str, str], missing: Sequence[str]) -> dict[str, str]:
    """Return the columns of fields for --columns that the content of the columns suggests."""
    dialogues = [
        name
        for name in table.columns
        if any(holds_dialogue(row.get(name)) or has_speaker_lines(row.get(name)) for _, row in table.rows[:5])
    ]
    if dialogues:
        return {"turns": dialogues[0]}
    rows = [row for _, row in table.rows[:200]]
    free = [name for name in table.columns if name not in named.values()]
    cells = {name: [text for row in rows if (text := cell(row, name))] for name in free}
    chosen = dict[str, str]()

    def choose(field: str, fitting: Iterable[str]) -> None:
        if field not in {*named, *chosen} and (
            name := next((name for name in fitting if name not in chosen.values()), None)
        ):
            chosen[field] = name

    filled = [name for name in free if cells[name]]
    varied = [name for name in filled if len(set(cells[name])) > 1 or len(rows) == 1]
    choose("role", (name for name in filled if 2 * sum(map(is_role, cells[name])) >= len(cells[name])))
    choose("role", (name for name in filled if names_both_sides(cells[name])))
    choose("role", (name for name in filled if is_few_words(cells[name])))
    if "turn" not in named:
        times = [name for name in filled if is_time_column(cells[name])]
        clocks = [name for name in times if read_times(cells[name])[0].form == OF_DAY]
        days = [name for name in times if name not in clocks and any(DAY_ALONE.fullmatch(text) for text in cells[name])]
        choose("time", [SEVERAL.join((days[0], clocks[0]))] if days and clocks else times)
    if "role" not in {*named, *chosen}:
        if turns := columns_of_turns(filled):
            return {"turns": SEVERAL.join(turns)}
        long = [name for name in varied if sum(map(len, cells[name])) >= SHORTEST_TEXT * len(cells[name])]
        texts = [name for name in long if is_prose(cells[name])]
        series = Counter(match[1] for name in filled if (match := NUMBERED.fullmatch(name)))
        if len(texts) == 2 and not any(
            series[match[1]] > len(texts) for name in texts if (match := NUMBERED.fullmatch(name))
        ):
            others = [name for name in free if name not in texts and name not in chosen.get("time", "").split(SEVERAL)]
            blocks = [name for name in others if are_blocks(rows, name)]
            ids = {"conversation": blocks[0]} if "conversation" not in named and len(blocks) == 1 else {}
            return {"turns": SEVERAL.join(texts), **ids, **chosen}
    choose(
        "text", sorted(filter(lambda name: is_prose(cells[name]), varied), key=lambda name: -sum(map(len, cells[name])))
    )
    role = named.get("role") or chosen.get("role")

    def names_conversations(name: str) -> bool:
        """Return True if most of a column's values stand in rows of more than one role."""
        roles: dict[str, set[str]] = defaultdict(set)
        for row in rows:
            roles[cell(row, name)].add(cell(row, role))
        return len(roles) > 1 and 2 * sum(len(words) > 1 for words in roles.values()) > len(roles)

    choose("conversation", (name for name in filled if role and names_conversations(name)))
    return {field: chosen[field] for field in dict.fromkeys([*missing, *chosen]) if field in chosen}


def columns_of_turns(columns: Sequence[str]) -> list[str]:
    """Return the columns of a table with one for each turn, such as Student_1, Tutor_1, Student_2; empty without."""
    numbered = [(column, match) for column in columns if (match := NUMBERED.fullmatch(column))]
    turns = [(int(match[2]), role, column) for column, match in numbered if (role := proposed_role(match[1]))]
    if len({number for number, _, _ in turns}) < 2 or {role for _, role, _ in turns} != {TUTOR, STUDENT}:
        return []
    return [column for _, _, column in sorted(turns, key=lambda turn: turn[0])]


def are_blocks(rows: Sequence[Mapping[str, Any]], column: str) -> bool:
    """Return True if a column has a value in every row, and rows with the same value stand together."""
    values = [cell(row, column) for row in rows]
    blocks = sum(value != before for value, before in zip(values, [None, *values], strict=False))
    return all(values) and 1 < blocks == len({*values}) < len(values)


def is_prose(texts: Sequence[str]) -> bool:
    """Return True for cells that may be messages: mostly different, no times, and some of more than one word."""
    return (
        2 * len(set(texts)) > len(texts)
        and 5 * sum(len(text.split()) > 1 for text in texts) >= len(texts)
        and not is_time_column(texts)
    )


def names_both_sides(texts: Sequence[str]) -> bool:
    """Return True for a column of few words with at least one for a tutor and one for a student."""
    words = {*texts}
    return len(words) <= MOST_SPEAKERS and {TUTOR, STUDENT} <= {ROLE_WORDS.get(word.casefold()) for word in words}


def is_few_words(texts: Sequence[str]) -> bool:
    """Return True for a column of few short words that are repeated, as those of roles and names are."""
    words = Counter(texts)
    return (
        1 < len(words) <= len(texts) / 2
        and len(words) <= MOST_SPEAKERS
        and max(map(len, words)) <= LONGEST_SPEAKER
        and not any(sign.isdigit() for word in words for sign in word)
    )


def holds_turns(table: UserTable, column: str) -> bool:
    """Return True if the first filled cell of a column is a list of turns, or a text under a name such as turns."""
    first = next((row[column] for _, row in table.rows if row.get(column) not in (None, "")), None)
    if first is None or isinstance(first, str):
        return holds_dialogue(first) or column.casefold() in ("turns", "messages")
    return is_turn_list(first)


def is_time_column(texts: Sequence[str]) -> bool:
    """Return True if all texts are times, and no other numbers."""
    numbers = read_numbers(texts)
    return bool(read_times(texts)) and (numbers is None or are_unix_times(numbers.values))


def holds_dialogue(value: Any) -> bool:
    """Return True for a text that is a JSON list of turns, or begins with the word of a role and a colon."""
    text = value if isinstance(value, str) else ""
    word, colon, rest = text.partition(":")
    starts = bool(colon) and word.strip().casefold() in ROLE_WORDS and not rest[:1].isalpha()
    return text.lstrip().startswith(("[{", '["')) or TURN_SEPARATOR in text or starts


def has_speaker_lines(value: Any) -> bool:
    """Return True for a text of several lines that begin with one of at most three words and a colon."""
    lines = [line for line in value.split("\n") if line.strip()] if isinstance(value, str) else []
    words = {match[1] for line in lines if (match := SPEAKER_LINE.match(line))}
    return len(lines) > 1 and all(map(SPEAKER_LINE.match, lines)) and 1 < len(words) <= MOST_OF_LINES


def exchange_columns(columns: Sequence[str]) -> tuple[str, str] | None:
    """Return the columns of the student's and the tutor's side of an exchange; None unless there is one of each."""
    sides = {
        role: [column for column in columns if pattern.match(column.casefold().replace(" ", "_"))]
        for role, pattern in SIDES.items()
    }
    return (sides[STUDENT][0], sides[TUTOR][0]) if all(len(side) == 1 for side in sides.values()) else None
