"""Read transcripts of tutoring conversations from a user's file: a row per message, per exchange or per conversation.

Nothing is merged, reordered or left out in silence: what was understood is a note, what has two readings is a doubt.
"""

from __future__ import annotations

import html
import re
import shlex
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import count, groupby
from pathlib import Path
from typing import Any, NamedTuple

from maieutic.core.errors import UserError
from maieutic.core.thinking import split_thinking
from maieutic.core.user_tables import (
    Doubt,
    Faults,
    FileSettings,
    Row,
    UserTable,
    check_exact,
    read_user_table,
    unused_columns,
)
from maieutic.core.workbooks import cell_text
from maieutic.transcripts.roles import (
    ROLE_WORDS,
    STUDENT,
    SYSTEM,
    TUTOR,
    doubt_of_roles,
    proposed_role,
    roles_by_word,
)
from maieutic.transcripts.times import (
    OF_DAY,
    are_unix_times,
    direction,
    has_sections,
    longest_gap,
    read_numbers,
    read_times,
)
from maieutic.transcripts.turns import (
    PARENT,
    TURN_SEPARATOR,
    WrittenTurn,
    is_turn_list,
    last_versions,
    named_export,
    text_of,
    turns_in,
)

# Names under which a column is found if it is not named.
COLUMN_NAMES = {
    "conversation": ("conversation", "conversation_id", "dialogue", "dialogue_id", "chat", "chat_id", "session",
                     "session_id", "thread_id", "thread", "thread_ts", "id", "uuid"),
    "role": ("role", "speaker", "author", "sender", "from"),
    "text": ("text", "content", "message", "utterance", "body"),
    "turns": ("turns", "messages", "chat_messages", "conversations", "conversation", "contents", "dialogue", "dialog",
              "history"),
    "turn": ("turn", "turn_id", "turn_number", "position", "index", "seq", "sequence", "message_number"),
    "tutor": ("tutor", "model", "version", "tutor_name", "tutor_version", "bot_version"),
    "problem": ("problem", "question", "task", "exercise"),
    "solution": ("solution", "reference_solution", "answer", "ground_truth"),
    "time": ("time", "timestamp", "created_at", "date"),
}  # fmt: skip
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
SEVERAL = "+"  # joins the names of several columns whose turns follow each other
DAY = 86_400.0  # seconds
MOVE = re.compile(r"^\s*\(([a-z][a-z _-]{1,30})\)\s*", re.IGNORECASE)
ENTITY = re.compile(r"&(?:[a-zA-Z][a-zA-Z0-9]{1,30}|#\d{1,6}|#x[0-9a-fA-F]{1,5});")
TAG = re.compile(r"</?(?:p|br|div|span|strong|em|ul|ol|li|a|b|i)\b[^<>]{0,200}>", re.IGNORECASE)
MESSAGE_ID = re.compile(r"^(?:message|msg|utterance|post)_?id$|^id$", re.IGNORECASE)


class Message(NamedTuple):
    """One message of a conversation.

    place: file and row; tutor: name of the tutor, None if unknown; tags: by name; speaker: the person's name, where a
    conversation has several people in one role.
    """

    place: str
    role: str
    text: str
    tutor: str | None = None
    tags: Mapping[str, str] = {}
    speaker: str | None = None


class Conversation(NamedTuple):
    """A conversation in the order of its messages. names: names of people in the columns that the user gives."""

    id: str
    messages: list[Message]
    problem: str = ""
    solution: str = ""
    names: frozenset[str] = frozenset()


class Reading(NamedTuple):
    """Settings for reading a file of transcripts.

    columns: column of each field in COLUMN_NAMES, found by its name where missing; tags: columns whose values become
    tags of tutors' messages; roles: role of each word in the role column, besides ROLE_WORDS; moves: True if tutors'
    messages begin with a move in brackets, such as "(probing)"; max_mb: maximum size of the file in megabytes; names:
    columns with names of people; skip_empty: leave turns without a text out, instead of refusing the file; encoding,
    sheet: as in FileSettings; sort: field by which the rows of each conversation are sorted, `time` or `turn`, `file`
    for their order in the file, or `reversed` for the opposite one; day_first: order of day and month in times, None if
    they tell it; anonymous: name students of one conversation by number; takes_proposals: take the proposed reading of
    each doubt.
    """

    columns: Mapping[str, str] = {}
    tags: Sequence[str] = ()
    roles: Mapping[str, str] = {}
    moves: bool = False
    max_mb: float = 100
    names: Sequence[str] = ()
    skip_empty: bool = False
    encoding: str | None = None
    sheet: str | None = None
    sort: str | None = None
    day_first: bool | None = None
    anonymous: bool = False
    takes_proposals: bool = False


class Transcripts(NamedTuple):
    """Conversations of a file, in the order of their first rows.

    columns: used column of each field; unused: columns that were not used, with the values of those that have few;
    notes: lines on what was understood; rows: number of rows; assumed: proposals of doubts that were taken.
    """

    conversations: list[Conversation]
    columns: dict[str, str]
    unused: str
    notes: list[str]
    rows: int
    assumed: list[str]


class Understanding:
    """Understanding of a file while it is read: notes with counts, doubts, and faulty rows."""

    def __init__(self, path: Path, reading: Reading) -> None:
        self.path, self.reading = path, reading
        self.faults, self.doubts, self.notes = Faults(path), list[Doubt](), list[str]()
        self.unknown_words, self.counts = Counter[str](), Counter[str]()
        self.is_ordered = reading.sort is not None  # True if times or turn numbers show the order of all messages
        self.versions = list[str]()  # places of conversations with several versions of a message
        self.out_of_order = list[str]()  # places of conversations in one cell, by the times of their messages
        self.roles = roles_by_word(reading.roles)

    def role_of(self, place: str, word: str) -> str | None:
        """Return the role of a word; None for an unknown or an empty one."""
        role = self.roles.get(word.casefold())
        if role is not None:
            return role
        if not word:
            self.faults.add(place, "the role is empty", "write tutor or student in each row")
            return None
        self.unknown_words[word] += 1
        return proposed_role(word) if self.reading.takes_proposals else None

    def doubt(self, problem: str, fix: str, proposal: str = "") -> bool:
        """Add a doubt about the file. Returns True if its proposal is taken."""
        self.doubts.append(Doubt(str(self.path), problem, fix, proposal))
        return bool(proposal) and self.reading.takes_proposals

    def settle(self) -> list[str]:
        """Raise UserError with all faulty rows and open doubts. Returns the proposals that were taken."""
        if (doubt := doubt_of_roles(str(self.path), self.unknown_words)) is not None:
            self.doubts.insert(0, doubt)
        is_open = [doubt for doubt in self.doubts if not (doubt.proposal and self.reading.takes_proposals)]
        faults: list[UserError] = [doubt.error for doubt in is_open]
        if not self.unknown_words or not is_open:  # messages of unknown speakers make other rows look faulty
            try:
                self.faults.check()
            except UserError as error:
                faults += error.all
        if faults:
            raise UserError.of(faults)
        return [doubt.proposal for doubt in self.doubts]


def read_transcripts(path: Path, reading: Reading) -> Transcripts:
    """Return the content of a file of transcripts (table, workbook, JSON or Parquet).

    Raises UserError that names everything in doubt and every faulty row.
    """
    settings = FileSettings(reading.encoding, reading.sheet, reading.max_mb)
    table = with_inner_turns(read_user_table(path, settings))
    if export := next((export for _, row in table.rows if (export := named_export(row))), None):
        raise UserError(str(path), f"is {export}", "convert it to a table with the columns conversation, role and text")
    known = Understanding(path, reading)
    named = find_columns(path, table, reading)
    check_exact(table, [named["conversation"]] if "conversation" in named else [], str(path))
    doubt_of_columns(table, named, known)
    if "turns" in named:
        conversations = conversations_of_rows(table, named, known)
    else:
        conversations = conversations_of_messages(table, named, known)
    merged = [merged_messages(conversation, named, known) for conversation in conversations]
    if "turns" not in named and not known.is_ordered:
        doubt_of_ends(merged, known)
    assumed = known.settle()
    if not merged:
        raise UserError(str(path), "the table has no rows", "pass a file with one row per message or conversation")
    if not any(message.role == TUTOR for conversation in merged for message in conversation.messages):
        words = ", ".join(word for word, role in ROLE_WORDS.items() if role == TUTOR)
        problem = f"no message has the role of a tutor ({words})"
        raise UserError(str(path), problem, "name the role of your tutor with --roles WORD=tutor")
    taken = {name for column in named.values() for name in column.split(SEVERAL)} | {*reading.tags, *reading.names}
    notes = [f"file: {table.form}, {len(table.rows):,} rows", *table.notes, *known.notes]
    notes += [f"{what}: {number:,}" for what, number in known.counts.items() if number]
    others = [column for column in table.columns if column not in taken]
    unused = unused_columns(others, [row for _, row in table.rows])
    return Transcripts(merged, named, unused, notes, len(table.rows), assumed)


def with_inner_turns(table: UserTable) -> UserTable:
    """Return a table in which turns within an object of a column have a column of their own, named `column.field`."""
    inner = dict.fromkeys(
        (column, key)
        for _, row in table.rows
        for column, value in row.items()
        if isinstance(value, dict)
        for key in COLUMN_NAMES["turns"]
        if is_turn_list(value.get(key))
    )
    if not inner or any(is_turn_list(row.get(key)) for _, row in table.rows for key in COLUMN_NAMES["turns"]):
        return table
    rows: list[Placed] = [
        (place, {**row, **{key: cell[key] for column, key in inner if isinstance(cell := row.get(column), dict)}})
        for place, row in table.rows
    ]
    return table._replace(columns=[*table.columns, *dict.fromkeys(key for _, key in inner)], rows=rows)


def doubt_of_ends(conversations: Sequence[Conversation], known: Understanding) -> None:
    """Add a doubt if most conversations begin with the tutor and end with the student, as if read backwards."""
    ends = Counter(
        (first.role, last.role) for first, *_, last in (c.messages for c in conversations if len(c.messages) > 1)
    )
    backwards, forwards = ends[TUTOR, STUDENT], ends[STUDENT, TUTOR]
    if backwards > forwards:
        problem = (
            f"{backwards:,} of {len(conversations):,} conversations begin with the tutor and end with the student, as "
            "if the newest message came first, and nothing in the file shows the order of all messages"
        )
        known.doubt(problem, "pass --sort file if the order is right, or --sort reversed")


# columns --------------------------------------------------------------------------------------------------------------


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
    fields = set(reading.columns)
    sides = exchange_columns(columns) if not {"role", "text", "turns"} & fields and "turns" not in named else None
    if sides is not None and not {"role", "text"} <= set(named):
        named["turns"] = SEVERAL.join(sides)
    if "turns" in fields or ("turns" in named and not {"role", "text"} & fields):
        taken = {*named["turns"].split(SEVERAL)}
        return {field: column for field, column in named.items() if column not in taken or field == "turns"}
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


def column_of_roles(table: UserTable, named: str) -> str | None:
    """Return another column whose words are roles, if no word of the column that is named so is one; else None."""

    def share(column: str) -> float:
        words = [word for _, row in table.rows[:200] if (word := cell(row, column))]
        return sum(word.casefold() in ROLE_WORDS or bool(proposed_role(word)) for word in words) / max(len(words), 1)

    if share(named) > 0:
        return None
    return next((column for column in table.columns if share(column) >= 0.8), None)


def doubt_of_columns(table: UserTable, named: Mapping[str, str], known: Understanding) -> None:
    """Add a doubt for two columns that may hold the texts, or the ids of conversations, and note other rivals.

    Ids are in doubt only if they group the rows otherwise.
    """
    for field, used in named.items():
        if field in known.reading.columns or field in ("role", "turns"):
            continue
        rivals = [column for column in table.columns if column not in named.values() and fits(column, field)]
        for rival in rivals if fits(used, field) else []:
            pairs = [(cell(row, used), cell(row, rival)) for _, row in table.rows]
            if field == "conversation":
                is_other = len({*pairs}) > min(len({value for value, _ in pairs}), len({other for _, other in pairs}))
            else:
                is_other = 2 * sum(bool(other) and value != other for value, other in pairs) > len(pairs)
            if not is_other:
                continue
            chosen = f"--columns {field}={shlex.quote(rival)}"
            if field in ("conversation", "text"):
                problem = f"columns {used} and {rival} may both be the {field}, and differ"
                known.doubt(problem, f"pass --columns {field}={shlex.quote(used)}, or {chosen}", f"column {used}")
            else:
                known.notes.append(f"{field}: column {used}, not {rival} ({chosen})")


def fits(column: str, field: str) -> bool:
    """Return True if a field is found under a column's name."""
    name = column.casefold().replace(" ", "_")
    return name in COLUMN_NAMES[field] and not (field == "conversation" and name in ID_OF_RECORD)


def proposed_columns(table: UserTable, named: Mapping[str, str], missing: Sequence[str]) -> dict[str, str]:
    """Return the columns of fields for --columns that the content of the columns suggests."""
    if dialogues := [name for name in table.columns if any(holds_dialogue(row.get(name)) for _, row in table.rows[:5])]:
        return {"turns": dialogues[0]}
    rows = [row for _, row in table.rows[:200]]
    free = [name for name in table.columns if name not in named.values()]
    cells = {name: [text for row in rows if (text := cell(row, name))] for name in free}
    chosen = dict[str, str]()

    def choose(field: str, fitting: Iterable[str]) -> None:
        if field not in named and (name := next((name for name in fitting if name not in chosen.values()), None)):
            chosen[field] = name

    def is_role(word: str) -> bool:
        return word.casefold() in ROLE_WORDS or bool(proposed_role(word))

    filled = [name for name in free if cells[name]]
    varied = [name for name in filled if len(set(cells[name])) > 1 or len(rows) == 1]
    choose("role", (name for name in filled if 2 * sum(map(is_role, cells[name])) >= len(cells[name])))
    if "turn" not in named:
        choose("time", (name for name in filled if is_time_column(cells[name])))
    choose("text", sorted(varied, key=lambda name: -sum(map(len, cells[name]))))
    role = named.get("role") or chosen.get("role")

    def names_conversations(name: str) -> bool:
        """Return True if most of a column's values stand in rows of more than one role."""
        roles: dict[str, set[str]] = defaultdict(set)
        for row in rows:
            roles[cell(row, name)].add(cell(row, role))
        return len(roles) > 1 and 2 * sum(len(words) > 1 for words in roles.values()) > len(roles)

    choose("conversation", (name for name in filled if role and names_conversations(name)))
    return {field: chosen[field] for field in dict.fromkeys([*missing, *chosen]) if field in chosen}


def holds_turns(table: UserTable, column: str) -> bool:
    """Return True if the first filled cell of a column is a list of turns, or a text table names the column so."""
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


def exchange_columns(columns: Sequence[str]) -> tuple[str, str] | None:
    """Return the columns of the student's and the tutor's side of an exchange; None unless there is one of each."""
    sides = {
        role: [column for column in columns if pattern.match(column.casefold().replace(" ", "_"))]
        for role, pattern in SIDES.items()
    }
    return (sides[STUDENT][0], sides[TUTOR][0]) if all(len(side) == 1 for side in sides.values()) else None


def cell(row: Row, column: str | None) -> str:
    """Return a row's cell as text; an empty string for a missing cell."""
    value = row.get(column) if column else None
    if value is None or value != value:  # NaN marks an empty cell of a number column
        return ""
    text = text_of(value) if isinstance(value, list | dict) else None
    return (text if text is not None else cell_text(value)).strip()


# a row per message ----------------------------------------------------------------------------------------------------


def conversations_of_messages(table: UserTable, named: dict[str, str], known: Understanding) -> list[Conversation]:
    """Return the conversations of a table with one row per message. Rows of different conversations may alternate."""
    rows: dict[str, list[tuple[str, Row]]] = defaultdict(list)
    blank = [place for place, row in table.rows if not cell(row, named["conversation"])]
    if blank:
        problem = f"{len(blank):,} rows have no id in column {named['conversation']} (first: {blank[0]})"
        known.doubt(problem, "write the conversation's id in each row")
    for place, row in table.rows:
        if name := cell(row, named["conversation"]):
            rows[name].append((place, row))
    check_threads(rows, table, named, known)
    rows = without_doubles(rows, named, known)
    if not {"turn", "time"} & named.keys() and known.reading.sort != "file":
        doubt_of_unnamed_order(rows, table, named, known)
    order = ordered_rows(rows, named, known)
    return [
        conversation
        for name, members in order.items()
        if (conversation := conversation_of(name, members, named, known)).messages
    ]


def check_threads(
    rows: dict[str, list[Placed]], table: UserTable, named: Mapping[str, str], known: Understanding
) -> None:
    """Add a doubt for messages of one id, or which answer the same message as another, within a conversation."""
    free = [name for name in table.columns if name not in {*named.values(), *known.reading.tags, *known.reading.names}]
    for column in free:
        if MESSAGE_ID.search(column):
            repeated = sum(
                len({repr(row) for row in group}) - 1
                for members in rows.values()
                for group in rows_by_value(members, column).values()
            )
            if 0 < repeated < len(table.rows) / 2:
                problem = f"{repeated:,} rows have the {column} of another row of their conversation, as its versions"
                known.doubt(problem, f"keep one row for each {column}")
        elif PARENT.search(column):
            parents = {value for _, row in table.rows if (value := cell(row, column))}
            is_id = any(
                parents <= {cell(row, name) for _, row in table.rows} for name in table.columns if name != column
            )
            siblings = sum(
                len(group) - 1 for members in rows.values() for group in rows_by_value(members, column).values()
            )
            if parents and is_id and siblings:
                problem = f"{siblings:,} messages answer the same message as another (column {column})"
                fix = "give each thread a conversation of its own, and keep one version of each message"
                known.doubt(problem, fix)


def rows_by_value(members: Sequence[Placed], column: str) -> dict[str, list[Row]]:
    """Return the rows by the value of a column, without those where it is empty."""
    groups: dict[str, list[Row]] = defaultdict(list)
    for _, row in members:
        if value := cell(row, column):
            groups[value].append(row)
    return groups


def without_doubles(
    rows: dict[str, list[Placed]], named: Mapping[str, str], known: Understanding
) -> dict[str, list[Placed]]:
    """Return the rows of each conversation without those that a doubled export has twice.

    A row with turn or time that equals the one before, or with a turn number any earlier one, is left out and counted.
    A conversation that stands twice in other ways is in doubt.
    """
    field = named.get("turn") or named.get("time")
    doubled = []
    for name, members in rows.items():
        kept: list[Placed] = []
        seen: set[str] = set()
        for place, row in members:
            text = repr(sorted(row.items(), key=lambda pair: str(pair[0])))
            is_before = bool(kept) and dict(kept[-1][1]) == dict(row)
            if field and cell(row, field) and (is_before or ("turn" in named and text in seen)):
                known.counts["rows equal to an earlier one, with turn or time, left out"] += 1
                continue
            seen.add(text)
            kept.append((place, row))
        rows[name] = kept
        half = len(kept) // 2
        contents = [dict(row) for _, row in kept]
        if half > 1 and len(kept) == 2 * half and contents[:half] == contents[half:]:
            doubled.append(name)
    if doubled:
        problem = f"{len(doubled):,} conversations stand twice in the file, such as {doubled[0]}"
        if known.doubt(problem, "remove the second copy", "the first copy of each"):
            rows |= {name: rows[name][: len(rows[name]) // 2] for name in doubled}
    return rows


def conversation_of(
    name: str, rows: Sequence[tuple[str, Row]], named: Mapping[str, str], known: Understanding
) -> Conversation:
    """Return the conversation of its rows, each a message."""
    tags, messages = dict[str, str](), list[Message]()
    for place, row in rows:
        # A tag holds until another value follows, because many tables state it only once per conversation.
        tags |= tags_in(row, known)
        word = cell(row, named["role"])
        role = known.role_of(place, word)
        if role is not None and role != SYSTEM:
            messages += message_of(place, WrittenTurn(word, cell(row, named["text"])), role, row, named, known, tags)
        elif role == SYSTEM:
            known.counts["messages of the system or of tools, left out"] += 1
    return assembled(name, with_speakers(messages, known), rows, named, known)


def tags_in(row: Row, known: Understanding) -> dict[str, str]:
    """Return the tags that a row states."""
    return {column: value for column in known.reading.tags if (value := cell(row, column))}


def assembled(
    name: str, messages: list[Message], rows: Sequence[Placed], named: Mapping[str, str], known: Understanding
) -> Conversation:
    """Return a conversation of its messages, with the problem, the solution and the names of people in its rows.

    Rows with different problems or solutions are counted; the first one is used.
    """
    about = {}
    for field in ("problem", "solution"):
        values = dict.fromkeys(value for _, row in rows if (value := cell(row, named.get(field))))
        known.counts[f"conversations with more than one {field}, of which the first is used"] += len(values) > 1
        about[field] = next(iter(values), "")
    people = frozenset(value for _, row in rows for column in known.reading.names if (value := cell(row, column)))
    return Conversation(name, messages, **about, names=people)


Placed = tuple[str, Row]  # a row with its place
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
    problem = mixed_order(mixed, valued, column, field) if mixed else problem
    if known.notes[-1:] == [f"times: {OF_DAY}"]:  # sorted, a morning may stand before the evening before it
        known.doubt(problem, "pass --sort file if the rows are in order: times of day do not show the day")
        return rows
    if field == "turn" and (name := restarted(rows, named)):
        problem = f"turn numbers start again in conversation {name}, as if it stood twice in the file or shared its id"
        known.doubt(problem, "remove the second copy, or give each conversation an id of its own")
        return rows
    fix = f"pass --sort {field} to sort the rows, or --sort file to keep their order"
    return sorted_rows(valued) if known.doubt(problem, fix, f"each conversation sorted by {field}") else rows


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
    used = {*named.values(), *known.reading.tags, *known.reading.names}
    for column in (name for name in table.columns if name not in used):
        texts = [[cell(row, column) for _, row in members] for members in rows.values()]
        flat = [text for members in texts for text in members]
        numbers = read_numbers(flat)
        readings = [numbers] if numbers is not None else read_times(flat)
        if not readings or not all(flat):
            continue
        is_time = numbers is None or are_unix_times(numbers.values)
        if numbers is not None and not is_time and not all(map(is_numbering, split_values(numbers.values, texts))):
            continue
        ways = [[direction(values) for values in split_values(reading.values, texts)] for reading in readings]
        # A text such as 0:45 may be a duration. Durations have no order, so only a fall in every conversation counts.
        falls = all(way == -1 for order in ways for way in order)
        in_order = any(all(way == 1 for way in order) for order in ways)
        if falls or not (in_order or readings[0].form == OF_DAY):
            field = "time" if is_time else "turn"
            problem = f"column {column} is not used, and by its values the rows are not in the order of the messages"
            fix = f"pass --columns {shlex.quote(f'{field}={column}')}, or --sort file to keep the order of the rows"
            known.doubt(problem, fix)
            return


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
    if field == "time" and values[step - 1] - values[step] <= 3600.0:
        cause = " (by at most an hour, as when summer time ends)"
    return f"{len(mixed):,} conversations are not in the order of {column}, such as {name}{cause}"


def order_values(
    texts: Sequence[str], field: str, named: dict[str, str], known: Understanding
) -> list[float | None] | None:
    """Return the numbers by which rows are ordered; None with a note if the column does not tell an order."""
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
        del named[field]
        known.notes.append(f"order: as in the file; column {column} cannot be read as times, so it was not checked")
        return None
    if len(readings) == 2:
        if sorted_like(readings[0].values) != sorted_like(readings[1].values):
            fix = "pass --dates day-first or --dates month-first"
            known.doubt(f"times in column {column} may name the day or the month first, with different orders", fix)
            return None
        readings = readings[:1]
    known.notes.append(f"times: {readings[0].form}")
    return readings[0].values


def sorted_like(values: Sequence[float | None]) -> list[int]:
    """Return the ranks of values, to compare the orders of two columns."""
    order = sorted({value for value in values if value is not None})
    places = {value: place for place, value in enumerate(order)}
    return [places[value] if value is not None else -1 for value in values]


def message_of(
    place: str,
    turn: WrittenTurn,
    role: str,
    row: Row,
    named: Mapping[str, str],
    known: Understanding,
    tags: Mapping[str, str],
) -> list[Message]:
    """Return a list with a message, or an empty list with a fault if its text is empty.

    tags: values of the tags at this message.
    """
    text, own_tags = turn.text.strip(), dict(tags) if role == TUTOR else {}
    if role == TUTOR and known.reading.moves and (move := MOVE.match(text)):
        text, own_tags = text[move.end() :].strip(), {**own_tags, "move": move[1].casefold()}
    if ENTITY.search(text) and (decoded := html.unescape(text)) != text:
        known.counts["texts with HTML entities such as &amp;, which were decoded"] += 1
        text = decoded
    known.counts["texts with HTML tags such as <p>, kept as they are"] += TAG.search(text) is not None
    if role == TUTOR:
        answer, thought = split_thinking(text)
        known.counts["tutor's turns with reasoning in marks such as <think>, which was left out"] += bool(thought)
        text = answer.strip() if thought else text
    if not text:
        if known.reading.skip_empty:
            known.counts["turns without a text, left out"] += 1
        else:
            fix = "write its text, or pass --skip-empty to leave empty turns out"
            known.faults.add(place, f"the text of the {role}'s turn is empty", fix)
        return []
    tutor = cell(row, named.get("tutor")) or None if role == TUTOR else None
    return [Message(place, role, text, tutor, own_tags, turn.word)]


# a row per conversation or exchange -----------------------------------------------------------------------------------


def conversations_of_rows(table: UserTable, named: dict[str, str], known: Understanding) -> list[Conversation]:
    """Return the conversations of a table with one row per conversation, or per exchange of one."""
    columns = named["turns"].split(SEVERAL)
    sides = exchange_roles(table, columns)
    if sides is not None:
        return conversations_of_exchanges(table, named, sides, known)
    conversations = [of_row(place, row, named, known) for place, row in table.rows]
    conversations = without_shorter(
        [conversation for conversation in conversations if conversation.messages or not known.reading.skip_empty], known
    )
    if places := known.versions:
        problem = f"{len(places):,} conversations have several versions of a message (first: {places[0]})"
        known.doubt(problem, "export one version of each", "the last version of each message")
    if places := known.out_of_order:
        problem = f"{len(places):,} conversations are not in the order of their messages' times (first: {places[0]})"
        known.doubt(problem, "sort their messages, or pass --sort file to keep their order")
    used = Counter(conversation.id for conversation in conversations)
    repeated = {name: number for name, number in used.items() if number > 1}
    if repeated:
        rows = sum(repeated.values())
        problem = f"{rows:,} rows share {len(repeated):,} ids in column {named.get('conversation')}"
        known.doubt(problem, "give each conversation an id of its own", "each row is a conversation of its own")
        conversations = with_distinct_ids(conversations)
    return conversations


def without_shorter(conversations: Sequence[Conversation], known: Understanding) -> list[Conversation]:
    """Return the conversations without those whose turns a longer one of the same id repeats, as logs of calls do."""
    by_id: dict[str, list[Conversation]] = defaultdict(list)
    for conversation in conversations:
        by_id[conversation.id].append(conversation)
    kept = []
    for conversation in conversations:
        turns = [(message.role, message.text) for message in conversation.messages]
        longer = (
            [(message.role, message.text) for message in other.messages[: len(turns)]]
            for other in by_id[conversation.id]
            if len(other.messages) > len(turns)
        )
        is_repeated = any(begin == turns for begin in longer)
        known.counts["rows whose turns a longer row of the same conversation repeats, left out"] += is_repeated
        kept += [] if is_repeated else [conversation]
    return kept


def exchange_roles(table: UserTable, columns: Sequence[str]) -> dict[str, str] | None:
    """Return the role of each of two columns whose cells are plain texts; None if they hold turns."""
    if len(columns) != 2:
        return None
    sides = exchange_columns(columns) or (columns[0], columns[1])
    cells = [row.get(column) for _, row in table.rows[:50] for column in columns]
    if any(isinstance(value, list) or holds_dialogue(value) for value in cells):
        return None
    return {sides[0]: STUDENT, sides[1]: TUTOR}


def conversations_of_exchanges(
    table: UserTable, named: dict[str, str], sides: Mapping[str, str], known: Understanding
) -> list[Conversation]:
    """Return the conversations of a table whose rows have a message of each side, in the order of the named columns."""
    if "conversation" not in named:
        known.notes.append("conversations: each row is one, since no column has an id")
    rows: dict[str, list[tuple[str, Row]]] = defaultdict(list)
    for number, (place, row) in enumerate(table.rows, 1):
        rows[cell(row, named.get("conversation")) or str(number)].append((place, row))
    known.notes.append(
        "rows: one exchange each, " + ", then ".join(f"{column} ({role})" for column, role in sides.items())
    )
    conversations = []
    for name, members in ordered_rows(rows, named, known).items():
        messages: list[Message] = []
        for place, row in members:
            tags = tags_in(row, known)
            for column in named["turns"].split(SEVERAL):
                role, text = sides[column], cell(row, column)
                if text:
                    messages += message_of(place, WrittenTurn(role, text), role, row, named, known, tags)
                known.counts[f"exchanges without the {role}'s message"] += not text
        conversations.append(assembled(name, messages, members, named, known))
    return conversations


def of_row(place: str, row: Row, named: Mapping[str, str], known: Understanding) -> Conversation:
    """Return the conversation of a row that contains all turns: as a list of objects, or as a text with speakers."""
    name = cell(row, named.get("conversation")) or place.rpartition(" ")[2].rpartition(":")[2]
    messages: list[Message] = []
    tags = tags_in(row, known)
    for column in named["turns"].split(SEVERAL):
        for number, turn in enumerate(ordered_turns(place, row.get(column), column, known), 1):
            where = f"{place}, {column} {number}"
            role = known.role_of(where, turn.word.strip())
            if role is not None and role != SYSTEM:
                messages += message_of(where, turn, role, row, named, known, tags)
            elif role == SYSTEM:
                known.counts["messages of the system or of tools, left out"] += 1
    if not messages and not known.unknown_words and not known.faults.listed:
        if known.reading.skip_empty:
            known.counts["conversations without turns, left out"] += 1
        else:
            fix = "pass --skip-empty to leave it out, or name the column with --columns turns=..."
            known.faults.add(place, "the conversation has no turns", fix)
    return assembled(name, with_speakers(messages, known), [(place, row)], named, known)


def ordered_turns(place: str, content: Any, column: str, known: Understanding) -> list[WrittenTurn]:
    """Return the turns in a cell, in the order of their times if they have any."""
    turns = turns_in(place, content, known.roles, known.faults)
    for turn in turns:
        known.counts["parts of messages that are no text, left out"] += turn.parts_left_out
        known.counts["lines within a turn that begin with another word and a colon, kept in the turn"] += turn.colons
    if any(turn.inner for turn in turns):
        fix = "write each turn on a line of its own"
        known.faults.add(place, "a turn has another speaker, such as `Tutor:`, within its line", fix)
    chosen = last_versions(turns)
    if len(chosen) < len(turns):
        known.versions.append(place)
        turns = chosen if known.reading.takes_proposals else turns
    times = [turn.time for turn in turns]
    if known.reading.sort == "file" or not all(times):
        return turns
    readings = read_times(times)
    ways = {direction([value for value in reading.values if value is not None]) for reading in readings}
    if ways == {-1}:
        known.counts["conversations with the newest message first, read from the end"] += 1
        return turns[::-1]
    if ways and ways != {1}:
        known.out_of_order.append(place)
    return turns


def with_distinct_ids(conversations: Sequence[Conversation]) -> list[Conversation]:
    """Return the conversations with a number appended to each repeated id."""
    used = {conversation.id for conversation in conversations}
    seen: set[str] = set()
    distinct = []
    for conversation in conversations:
        if conversation.id in seen:
            numbered = (f"{conversation.id}-no-{number}" for number in count(2))
            name = next(other for other in numbered if other not in used)
            conversation = conversation._replace(id=name)
            used.add(name)
        seen.add(conversation.id)
        distinct.append(conversation)
    return distinct


# turns ----------------------------------------------------------------------------------------------------------------


def with_speakers(messages: Sequence[Message], known: Understanding) -> list[Message]:
    """Return messages in which students keep their names if a conversation has several: "Ana: ..." or "Student 1: ...".

    A name is a word of the role column that names no role.
    """
    people = [message.speaker for message in messages if message.role == STUDENT and message.speaker]
    names = list(dict.fromkeys(name for name in people if name.casefold() not in ROLE_WORDS))
    if len(names) < 2:
        return [message._replace(speaker=None) for message in messages]
    known.counts["conversations with several students, whose names are kept"] += 1
    labels = {name: f"Student {number}" if known.reading.anonymous else name for number, name in enumerate(names, 1)}
    return [
        message._replace(text=f"{labels[message.speaker]}: {message.text}")
        if message.role == STUDENT and message.speaker in labels
        else message._replace(speaker=None)
        for message in messages
    ]


def merged_messages(conversation: Conversation, named: Mapping[str, str], known: Understanding) -> Conversation:
    """Return a conversation in which consecutive messages of one role are joined, separated by a blank line.

    Two tutors in one turn are a fault, since the turn could not be attributed.
    """
    merged: list[Message] = []
    for _, group in groupby(conversation.messages, key=lambda message: message.role):
        first, *others = group
        for message in others:
            known.counts["messages joined with the one before, by the same role"] += 1
            if message.text == first.text:
                known.counts["of these, equal to the one before"] += 1
            if message.role == TUTOR and first.tutor != message.tutor:
                problem = f"conversation {conversation.id}: one turn has two tutors, {first.tutor} and {message.tutor}"
                fix = "give all messages of a turn the same tutor, or add the student's turn"
                if "tutor" not in known.reading.columns:
                    fix += f"; pass --columns tutor= if column {named.get('tutor')} does not name the tutor"
                known.faults.add(message.place, problem, fix)
            first = first._replace(text=f"{first.text}\n\n{message.text}", tags={**message.tags, **first.tags})
        merged.append(first)
    return conversation._replace(messages=merged)


def preview_lines(content: Transcripts, number: int = 2, longest: int = 90) -> Iterable[str]:
    """Yield the first conversations as they will be used, a line a turn."""
    for conversation in content.conversations[:number]:
        yield f"conversation {conversation.id}: {len(conversation.messages)} turns" + (
            f"; problem: {shortened(conversation.problem, longest)}" if conversation.problem else ""
        )
        for message in conversation.messages[:6]:
            yield f"  {message.role.capitalize()}: {shortened(message.text, longest)}"
        if len(conversation.messages) > 6:
            yield f"  ... {len(conversation.messages) - 6} more turns"


def shortened(text: str, longest: int) -> str:
    """Return a text in one line of limited length."""
    line = " ".join(text.split())
    return line if len(line) <= longest else f"{line[: longest - 3]}..."
