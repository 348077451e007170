"""Read transcripts of tutoring conversations from tables: one row per message, or one row per conversation."""

from __future__ import annotations

import json
import logging
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from maieutic.core.errors import UserError
from maieutic.core.files import MB
from maieutic.core.json_text import count_json_values, json_value, storable
from maieutic.core.parquet import open_parquet, parquet_batches
from maieutic.core.tables import check_columns, decode_table, parse_table

log = logging.getLogger(__name__)
TUTOR, STUDENT, SYSTEM = "tutor", "student", "system"
# Role of each word in a role column, in lower case. Messages of the role SYSTEM are left out.
ROLE_WORDS = {
    **dict.fromkeys(("tutor", "teacher", "assistant", "ai", "bot", "model", "coach", "instructor"), TUTOR),
    **dict.fromkeys(("student", "user", "human", "learner", "pupil", "child"), STUDENT),
    **dict.fromkeys(("system", "developer", "tool"), SYSTEM),
}
# Names under which a column is found if it is not named.
COLUMN_NAMES = {
    "conversation": ("conversation", "conversation_id", "dialogue", "dialogue_id", "chat", "chat_id", "session",
                     "session_id", "thread_id"),
    "role": ("role", "speaker", "author", "sender", "from"),
    "text": ("text", "content", "message", "utterance", "body"),
    "turns": ("turns", "messages"),
    "turn": ("turn", "turn_id", "turn_number", "position", "index", "seq", "sequence", "message_number"),
    "tutor": ("tutor", "model", "version", "tutor_name", "tutor_version", "bot_version"),
    "problem": ("problem", "question", "task", "exercise"),
    "solution": ("solution", "reference_solution", "answer", "ground_truth"),
    "time": ("time", "timestamp", "created_at", "date"),
}  # fmt: skip
SEVERAL = "+"  # joins the names of several columns whose turns follow each other
MOST_JSON_VALUES = 5_000_000  # maximum number of values of a JSON list, which is read at once
MOST_PARQUET_MB = 400.0  # maximum size of the values of a Parquet file, which is compressed
MOST_FAULTS = 20  # maximum number of faulty rows that are listed one by one
TURN_SEPARATOR = "|EOM|"  # separates turns in MathDial's conversations
LONGEST_SPEAKER = 40
MOVE = re.compile(r"^\s*\(([a-z][a-z _-]{1,30})\)\s*", re.IGNORECASE)


class Message(NamedTuple):
    """One message of a conversation. place: file and row; tutor: name of the tutor, None if unknown; tags: by name."""

    place: str
    role: str
    text: str
    tutor: str | None = None
    tags: Mapping[str, str] = {}


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
    columns with names of people; skip_empty: leave turns without a text out, instead of refusing the file.
    """

    columns: Mapping[str, str] = {}
    tags: Sequence[str] = ()
    roles: Mapping[str, str] = {}
    moves: bool = False
    max_mb: float = 100
    names: Sequence[str] = ()
    skip_empty: bool = False


class Transcripts(NamedTuple):
    """Conversations of a file, in the order of their first rows.

    columns: used column of each field; unused: columns that were not used; repeated: number of rows whose conversation
    has an id that an earlier row also has, in a table with one row per conversation.
    """

    conversations: list[Conversation]
    columns: dict[str, str]
    unused: list[str]
    repeated: int = 0


class Faults:
    """Faulty rows of a file. The first MOST_FAULTS are listed one by one."""

    def __init__(self, path: Path) -> None:
        self.path, self.listed, self.more = path, list[UserError](), 0

    def add(self, place: str, problem: str, fix: str) -> None:
        """Add a fault of one row."""
        if len(self.listed) < MOST_FAULTS:
            self.listed.append(UserError(place, problem, fix))
        else:
            self.more += 1

    def check(self) -> None:
        """Raise UserError with all faults, if there are any."""
        if self.more:
            fix = "correct the listed rows, then run the command again"
            self.listed.append(UserError(str(self.path), f"{self.more} more rows are faulty", fix))
        if self.listed:
            raise UserError.of(self.listed)


def read_transcripts(path: Path, reading: Reading) -> Transcripts:
    """Return the content of a file of transcripts (CSV, JSON lines, JSON or Parquet).

    Raises UserError that names every faulty row: without a role or text, with two tutors in one turn, or out of order.
    """
    reading = reading._replace(roles=roles_of(reading))
    columns, rows = table_of(path, reading.max_mb)
    named = find_columns(path, columns, reading)
    faults = Faults(path)
    repeated = 0
    if "turns" in named:
        conversations = [of_row(place, row, named, reading, faults) for place, row in rows]
        repeated = len(conversations) - len({conversation.id for conversation in conversations})
        conversations = with_distinct_ids(conversations)
    else:
        conversations = of_messages(rows, named, reading, faults)
    merged = [merge_messages(conversation, faults) for conversation in conversations]
    faults.check()
    if not merged:
        raise UserError(str(path), "the table has no rows", "pass a file with one row per message or conversation")
    if not any(message.role == TUTOR for conversation in merged for message in conversation.messages):
        words = ", ".join(word for word, role in ROLE_WORDS.items() if role == TUTOR)
        raise UserError(
            str(path),
            f"no message has the role of a tutor ({words})",
            "name the role of your tutor with --roles WORD=tutor",
        )
    taken = {name for column in named.values() for name in column.split(SEVERAL)} | {*reading.tags, *reading.names}
    return Transcripts(merged, named, [column for column in columns if column not in taken], repeated)


# tables ---------------------------------------------------------------------------------------------------------------

Row = Mapping[str, Any]


def table_of(path: Path, max_mb: float) -> tuple[list[str], Iterable[tuple[str, Row]]]:
    """Return the column names of a file and its rows, each with its place. Raises UserError for an unreadable file."""
    fix = "save it as CSV (UTF-8), JSON lines, JSON or Parquet"
    try:
        size = path.stat().st_size
        if not path.is_file():
            raise UserError(str(path), "is not a file", "pass a file, not a folder")
    except OSError as error:
        raise UserError(str(path), f"cannot be read: {error.strerror or error}", fix) from None
    if size > max_mb * MB:
        problem = f"expected at most {max_mb:g} MB, found {size / MB:.3g} MB"
        raise UserError(str(path), problem, f"split the file, or pass --max-mb {-(-size // int(MB))}")
    if not size:
        raise UserError(str(path), "the file is empty", "pass a file with a row per message or per conversation")
    form = path.suffix.casefold()
    if form in (".parquet", ".pq"):
        return parquet_rows(path)
    data = path.read_bytes()
    text = decode_table(data, str(path))
    if form in (".jsonl", ".ndjson", ".json"):
        return json_rows(path, text)
    if form not in (".csv", ".tsv", ".txt"):
        raise UserError(str(path), f"the file format {form or '(no suffix)'} is unknown", fix)
    table = parse_table(
        text, str(path), "quote cells with line breaks, and write as many cells as columns", padded=True
    )
    if twice := [column for place, column in enumerate(table.columns) if column in table.columns[:place]]:
        raise UserError(f"{path}:1", f"two columns are named {twice[0]}", "rename one of them")
    return table.columns, ((f"{path}:{number}", row) for number, row in table.rows)


def json_rows(path: Path, text: str) -> tuple[list[str], list[tuple[str, Row]]]:
    """Return the columns and rows of a JSON list or of JSON lines."""
    faults, rows = Faults(path), list[tuple[str, Row]]()
    if text.lstrip().startswith("["):
        if (values := count_json_values(text.encode("utf-8", "replace"))) > MOST_JSON_VALUES:
            problem = f"the file has about {values:,} values, more than {MOST_JSON_VALUES:,}"
            raise UserError(str(path), problem, "split the file, or write one JSON object per line")
        try:
            content = json_value(text)
        except ValueError as error:
            raise UserError(str(path), f"the JSON cannot be parsed: {error}", "correct the file") from None
        records = [(f"{path}, record {number}", record) for number, record in enumerate(content, 1)]
        for place, record in records:
            try:
                storable(record)
            except ValueError as error:
                faults.add(place, f"the record cannot be used: {error}", "correct this text")
    else:
        records = []
        for number, line in enumerate(text.split("\n"), 1):
            if not line.strip():
                continue
            place = f"{path}:{number}"
            try:
                records.append((place, storable(json_value(line))))
            except ValueError as error:
                faults.add(place, f"the JSON cannot be parsed: {error}", "write one JSON object per line")
    columns: dict[str, None] = {}
    for place, record in records:
        if isinstance(record, dict):
            rows.append((place, record))
            columns |= dict.fromkeys(map(str, record))
        else:
            faults.add(place, f"expected an object, found {type(record).__name__}", "write one JSON object per row")
    faults.check()
    return list(columns), rows


def parquet_rows(path: Path) -> tuple[list[str], Iterator[tuple[str, Row]]]:
    """Return the columns and rows of a Parquet file. Raises UserError for a damaged file."""
    name, fix = str(path), "export the file again"
    file = open_parquet(path, name, fix, MOST_PARQUET_MB)

    def rows() -> Iterator[tuple[str, Row]]:
        number = 0
        for batch in parquet_batches(path, name, fix, MOST_PARQUET_MB):
            for record in batch:
                number += 1
                yield f"{path}, row {number}", record

    return list(file.schema_arrow.names), rows()


def find_columns(path: Path, columns: Sequence[str], reading: Reading) -> dict[str, str]:
    """Return the column of each field: as named by the user, or found by its name.

    Raises UserError for an unknown field or column, and if there is neither a column of turns nor role and text.
    """
    by_folded = {column.casefold().replace(" ", "_"): column for column in reversed(columns)}
    named: dict[str, str] = {}
    for field, names in COLUMN_NAMES.items():
        matching = [by_folded[name] for name in names if name in by_folded]
        if matching:
            named[field] = matching[0]
    for field, column in reading.columns.items():
        if field not in COLUMN_NAMES:
            raise UserError("--columns", f"the field {field} is unknown", f"use {', '.join(COLUMN_NAMES)}")
        if missing := [name for name in column.split(SEVERAL) if name not in columns]:
            present = ", ".join(columns)
            raise UserError("--columns", f"{path} has no column {missing[0]}, only {present}", "correct the name")
        named[field] = column
    for flag, chosen in (("--tags", reading.tags), ("--names", reading.names)):
        if absent := [column for column in chosen if column not in columns]:
            raise UserError(flag, f"{path} has no column {absent[0]}, only {', '.join(columns)}", "correct the name")
    fields = set(reading.columns)
    if "turns" in fields or ("turns" in named and not {"role", "text"} & fields):
        taken = {*named["turns"].split(SEVERAL)}
        return {field: column for field, column in named.items() if column not in taken or field == "turns"}
    named.pop("turns", None)
    fix = "name the columns, for example --columns conversation=chat role=speaker text=message"
    needed = {field: named.get(field, field) for field in ("conversation", "role", "text")}
    check_columns(str(path), [*columns], list(needed.values()), fix)
    return named


def cell(row: Row, column: str | None) -> str:
    """Return a row's cell as text; an empty string for a missing cell."""
    value = row.get(column) if column else None
    if value is None or value != value:  # NaN marks an empty cell of a number column
        return ""
    value = joined_parts(value)
    return value.strip() if isinstance(value, str) else str(value)


def joined_parts(content: Any) -> Any:
    """Return the text of a list of parts, as in OpenAI's API; any other content unchanged."""
    if not isinstance(content, list) or not all(isinstance(part, dict) and "type" in part for part in content):
        return content
    return "\n".join(part["text"] for part in content if isinstance(part.get("text"), str))


# conversations --------------------------------------------------------------------------------------------------------


def of_messages(
    rows: Iterable[tuple[str, Row]], named: Mapping[str, str], reading: Reading, faults: Faults
) -> list[Conversation]:
    """Return the conversations of a table with one row per message. Rows of different conversations may alternate."""
    texts: dict[str, dict[str, str]] = {}
    people: dict[str, set[str]] = {}
    messages: dict[str, list[Message]] = {}
    last: dict[str, Any] = {}
    tags: dict[str, dict[str, str]] = {}
    order = named.get("turn") or named.get("time")
    for place, row in rows:
        name = cell(row, named["conversation"])
        if not name:
            faults.add(place, f"the cell {named['conversation']} is empty", "write the conversation's id in each row")
            continue
        strict = order == named.get("turn")
        if order and (text := cell(row, order)):
            number = turn_number(text) if strict else time_as_number(text)
            if number is None and strict:
                faults.add(
                    place,
                    f"{order} {text!r} is not a number",
                    "number the turns of each conversation",
                )
            elif number is not None:
                if name in last and number <= last[name][0] and (number < last[name][0] or strict):
                    problem = f"conversation {name}: {order} {text} follows {last[name][1]}"
                    faults.add(place, problem, f"sort the rows of each conversation by {order}")
                last[name] = number, text
        # A tag holds until another value follows, because many tables state it only once per conversation.
        known = tags.setdefault(name, {})
        known.update({column: value for column in reading.tags if (value := cell(row, column))})
        people.setdefault(name, set()).update(filter(None, (cell(row, column) for column in reading.names)))
        about = texts.setdefault(name, dict.fromkeys(("problem", "solution"), ""))
        for field in about:
            about[field] = about[field] or cell(row, named.get(field))
        role = role_of_word(place, cell(row, named["role"]), reading, faults)
        if role == SYSTEM:
            messages.setdefault(name, [])
        elif role is not None:
            message = message_of(place, role, cell(row, named["text"]), row, named, reading, faults, known)
            messages.setdefault(name, []).extend(message)
    return [
        Conversation(name, parts, **texts[name], names=frozenset(people[name]))
        for name, parts in messages.items()
        if parts
    ]


def turn_number(text: str) -> float | None:
    """Return the number of a turn; None for another text, and for one by which turns have no order (NaN, infinity)."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def time_as_number(text: str) -> float | None:
    """Return an ISO time or a Unix time as a number; None if the text is no time, so that rows keep their order."""
    if (number := turn_number(text)) is not None:
        return number
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def message_of(
    place: str,
    role: str,
    text: str,
    row: Row,
    named: Mapping[str, str],
    reading: Reading,
    faults: Faults,
    known: Mapping[str, str],
) -> list[Message]:
    """Return a list with the message of a row, or an empty list with a fault if its text is empty.

    known: values of the tags at this message.
    """
    tags = dict(known) if role == TUTOR else {}
    if role == TUTOR and reading.moves and (move := MOVE.match(text)):
        text, tags = text[move.end() :].strip(), {**tags, "move": move[1].casefold()}
    if not text:
        if not reading.skip_empty:
            fix = "write its text, or pass --skip-empty to leave empty turns out"
            faults.add(place, f"the text of the {role}'s turn is empty", fix)
        return []
    tutor = cell(row, named.get("tutor")) or None if role == TUTOR else None
    return [Message(place, role, text, tutor, tags)]


def roles_of(reading: Reading) -> dict[str, str]:
    """Return the role of each word in lower case."""
    return {**ROLE_WORDS, **{word.casefold(): role for word, role in reading.roles.items()}}


def role_of_word(place: str, word: str, reading: Reading, faults: Faults) -> str | None:
    """Return the role that a word in the role column names; None with a fault if it names no role."""
    role = reading.roles.get(word.casefold())
    if role is None and word:
        faults.add(
            place, f"the role {word!r} is unknown", f"name it with --roles {json.dumps(word)}=student, or =tutor"
        )
    elif role is None:
        faults.add(place, "the role is empty", "write tutor or student in each row")
    return role


def of_row(place: str, row: Row, named: Mapping[str, str], reading: Reading, faults: Faults) -> Conversation:
    """Return the conversation of a row that contains all turns: as a list of objects, or as a text with speakers."""
    name = cell(row, named.get("conversation")) or place.rpartition(" ")[2].rpartition(":")[2]
    messages: list[Message] = []
    known = {column: value for column in reading.tags if (value := cell(row, column))}
    for column in named["turns"].split(SEVERAL):
        for number, (word, text) in enumerate(turns_in(place, row.get(column), reading.roles, faults), 1):
            where = f"{place}, {column} {number}"
            role = role_of_word(where, word, reading, faults)
            if role is not None and role != SYSTEM:
                messages += message_of(where, role, text.strip(), row, named, reading, faults, known)
    if not messages:
        faults.add(
            place, "the conversation has no turns", "remove the row, or name the column with --columns turns=..."
        )
    about = {field: cell(row, named.get(field)) for field in ("problem", "solution")}
    people = frozenset(filter(None, (cell(row, column) for column in reading.names)))
    return Conversation(name, messages, **about, names=people)


def turns_in(place: str, content: Any, roles: Mapping[str, str], faults: Faults) -> list[tuple[str, str]]:
    """Return role word and text of each turn in a cell: a list of objects (or its JSON), or lines `Speaker: text`.

    In lines, only a known role begins a turn, so that a colon within a text does not. Turns that are separated by
    TURN_SEPARATOR may begin with a student's name.
    """
    if isinstance(content, str) and content.lstrip().startswith("["):
        try:
            content = json_value(content)
        except ValueError as error:
            faults.add(place, f"the turns are not a JSON list: {error}", "write a JSON list, or lines `Tutor: text`")
            return []
    if isinstance(content, list):
        return [turn for number, part in enumerate(content, 1) for turn in listed_turn(place, number, part, faults)]
    if content is None or not str(content).strip():
        return []
    text = str(content).replace("\u00a0", " ")
    turns = []
    if TURN_SEPARATOR in text:
        for number, part in enumerate(text.split(TURN_SEPARATOR), 1):
            speaker, colon, words = part.strip().partition(":")
            if colon and len(speaker) <= LONGEST_SPEAKER:
                known = speaker.strip() if speaker.strip().casefold() in roles else "student"
                turns.append((known, words))
            elif part.strip():
                problem = f"turn {number} has no speaker: {part.strip()[:LONGEST_SPEAKER]!r}"
                faults.add(place, problem, "write each turn as `Tutor: text`")
        return turns
    for line in text.split("\n"):
        speaker, colon, words = line.partition(":")
        if colon and speaker.strip().casefold() in roles:
            turns.append((speaker.strip(), words))
        elif turns:
            turns[-1] = turns[-1][0], f"{turns[-1][1]}\n{line}"
        elif line.strip():
            problem = f"the conversation does not begin with a speaker: {line.strip()[:LONGEST_SPEAKER]!r}"
            faults.add(place, problem, "write lines `Tutor: text`, or name a speaker with --roles NAME=student")
            return []
    return turns


def listed_turn(place: str, number: int, turn: Any, faults: Faults) -> list[tuple[str, str]]:
    """Return a list with role and text of a turn in a list, or an empty list for a call of a tool.

    The text may be a list of parts, as in OpenAI's API.
    """
    keys = {str(key).casefold(): key for key in turn} if isinstance(turn, dict) else {}
    word = next((turn[keys[name]] for name in (*COLUMN_NAMES["role"], "user") if name in keys), None)
    text = next((turn[keys[name]] for name in COLUMN_NAMES["text"] if name in keys), None)
    text = joined_parts(text)
    if text is None and "tool_calls" in keys:
        return []
    if isinstance(word, str) and isinstance(text, str):
        return [(word, text)]
    faults.add(place, f"turn {number} has no role or no text", "write each turn as an object with role and text")
    return []


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


def merge_messages(conversation: Conversation, faults: Faults) -> Conversation:
    """Return a conversation in which consecutive messages of one role are joined, separated by a blank line.

    Two tutors in one turn are a fault, since the turn could not be attributed.
    """
    merged: list[Message] = []
    for message in conversation.messages:
        if merged and merged[-1].role == message.role:
            last = merged[-1]
            if message.role == TUTOR and last.tutor != message.tutor:
                problem = f"conversation {conversation.id}: one turn has two tutors, {last.tutor} and {message.tutor}"
                faults.add(
                    message.place, problem, "give all messages of a turn the same tutor, or add the student's turn"
                )
            merged[-1] = last._replace(text=f"{last.text}\n\n{message.text}", tags={**message.tags, **last.tags})
        else:
            merged.append(message)
    return conversation._replace(messages=merged)
