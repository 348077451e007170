"""Read transcripts of tutoring conversations from a user's file: a row per message, per exchange or per conversation.

Nothing is merged, reordered or left out in silence: what was understood is a note, what has two readings is a doubt.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import date, time, timedelta
from itertools import count, groupby, pairwise
from pathlib import Path
from typing import Any, NamedTuple

from maieutic.core.encodings import DECODED_ENTITIES, without_entities
from maieutic.core.errors import UserError
from maieutic.core.speakers import ROLE_WORDS, STUDENT, SYSTEM, TOOL_WORDS, TUTOR, proposed_role
from maieutic.core.thinking import split_thinking
from maieutic.core.user_tables import (
    FileSettings,
    Row,
    UserTable,
    check_exact,
    is_written_object,
    read_user_table,
    unused_columns,
)
from maieutic.core.workbooks import cell_text
from maieutic.transcripts.columns import (
    exchange_columns,
    find_columns,
    fits,
    holds_dialogue,
    is_prose,
    is_time_column,
)
from maieutic.transcripts.order import doubt_of_unnamed_order, ordered_rows
from maieutic.transcripts.shapes import SEVERAL, Placed, cell, with_inner_fields, with_inner_turns
from maieutic.transcripts.times import (
    direction,
    read_times,
)
from maieutic.transcripts.turns import (
    PARENT,
    WrittenTurn,
    is_turn_list,
    last_versions,
    named_export,
    parts_left_out,
    plain,
    reply_in,
    times_of,
    turns_in,
)
from maieutic.transcripts.understanding import Conversation, Message, Reading, Understanding

MOVE = re.compile(r"^\s*\(([a-z][a-z _-]{1,30})\)\s*", re.IGNORECASE)
TAG = re.compile(r"</?(?:p|br|div|span|strong|em|ul|ol|li|a|b|i)\b[^<>]{0,200}>", re.IGNORECASE)
ESCAPE = re.compile(r"\\r\\n|\\[nt](?![A-Za-z])")  # but not \neq or \times
SNAKE = re.compile(r"(?<=[a-z])(?=[A-Z])")
STATE = re.compile(  # in the name or a value of a column: messages that may not have been seen
    r"(?<![a-z])(?:deleted|removed|hidden|drafts?|archived|private|internal|public|visible|visibility|published|retracted"
    r"|superseded|failed|undelivered|rejected|spam|status|state|edit_of|edits|replaces|attempt|retry)(?![a-z])",
    re.IGNORECASE,
)
# A text that stands in several conversations is shown: number of its words, of the conversations, and of texts shown
LEAST_WORDS, LEAST_REPEATED, MOST_REPEATED = 3, 3, 3
LEAST_OF_CALL = 2  # turns from which a row that begins another one is no chance
INNER_COLUMNS = {"role": "role", "text": "text", "name": "name"}  # of messages within a cell
MOST_STATES = 6  # number of values up to which a column may tell states
NULL_WORDS = {"NULL", "null", "None", "nan", "NaN", "<NA>", "undefined"}  # as programs write an empty cell
OF_PROGRAMS = {*TOOL_WORDS, *(word for word, role in ROLE_WORDS.items() if role == SYSTEM)}
REPLY_NAME = re.compile(r"^(?:response|reply|output|completion|answer)", re.IGNORECASE)
MOJIBAKE = re.compile("[\u00c2-\u00f4][\u0080-\u00bf]")  # UTF-8 that was read as Latin-1
PERSON_OR_DAY = re.compile(r"^(?:user|student|learner|pupil|customer|account)_?id$|^(?:date|day)$", re.IGNORECASE)
MESSAGE_ID = re.compile(r"^(?:message|msg|utterance|post)_?id$|^id$", re.IGNORECASE)


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


def read_transcripts(path: Path, reading: Reading) -> Transcripts:
    """Return the content of a file of transcripts (table, workbook, JSON or Parquet).

    Raises UserError that names everything in doubt and every faulty row.
    """
    settings = FileSettings(reading.encoding, reading.sheet, reading.max_mb)
    table = with_inner_turns(with_inner_fields(read_user_table(path, settings)))
    if export := next((export for _, row in table.rows if (export := named_export(row))), None):
        raise UserError(str(path), f"is {export}", "convert it to a table with the columns conversation, role and text")
    known = Understanding(path, reading)
    table = chosen_rows(table, known)
    named = find_columns(path, table, reading)
    table = with_joined_columns(table, named)
    check_exact(table, [named["conversation"]] if "conversation" in named else [], str(path))
    check_texts(table, named, known)
    doubt_of_columns(table, named, known)
    if "turns" in named:
        conversations = conversations_of_rows(table, named, known)
    else:
        conversations = conversations_of_messages(table, named, known)
    if garbled := known.garbled:
        proposal = f"UTF-8, as {repaired(garbled[0])[:40]!r}"
        problem = f"{len(garbled):,} texts are UTF-8 that was read as Latin-1, such as {garbled[0][:40]!r}"
        known.doubt(problem, "export the file again, or save it in the right encoding", proposal)
    if known.null_texts:
        problem = f"{len(known.null_texts):,} texts are words for an empty cell (first: {known.null_texts[0]})"
        known.doubt(problem, "leave these cells empty, and pass --skip-empty", "what a speaker wrote")
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
    taken = {name for column in named.values() for name in column.split(SEVERAL)}
    taken |= {*reading.tags, *reading.names, *reading.only}
    notes = [f"file: {table.form}, {len(table.rows):,} rows", *table.notes, *known.notes]
    notes += [f"{what}: {number:,}" for what, number in known.counts.items() if number]
    notes += repetition_notes(merged)
    others = [column for column in table.columns if column not in taken]
    unused = unused_columns(others, [row for _, row in table.rows])
    return Transcripts(merged, named, unused, notes, len(table.rows), assumed)


def repaired(text: str) -> str:
    """Return a text whose bytes in UTF-8 were read as Latin-1; unchanged if they were not."""
    try:
        return text.encode("cp1252" if any(sign in text for sign in "\u20ac\u2122\u0153\u201e") else "latin-1").decode(
            "utf-8"
        )
    except UnicodeError:
        return text


def repetition_notes(conversations: Sequence[Conversation]) -> list[str]:
    """Return notes on what stands in several conversations: notices in place of a message, and repeated calls."""
    holders = Counter(
        text
        for conversation in conversations
        for text in {message.text for message in conversation.messages if len(message.text.split()) >= LEAST_WORDS}
    )
    notes = [
        f"the same text in {number:,} conversations: {text[:60]!r}"
        for text, number in holders.most_common(MOST_REPEATED)
        if number >= LEAST_REPEATED
    ]
    begins = Counter(
        tuple((message.role, message.text) for message in conversation.messages[:-1])
        for conversation in conversations
        if len(conversation.messages) > 1
    )
    if alike := sum(number for number in begins.values() if number > 1):
        notes.append(f"conversations that differ from another one in their last message alone: {alike:,}")
    return notes


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


def chosen_rows(table: UserTable, known: Understanding) -> UserTable:
    """Return a table with only the rows that the user wants."""
    only = known.reading.only
    inner = {name for _, row in table.rows for value in row.values() for part in messages_in(value) for name in part}
    if absent := [column for column in only if column not in {*table.columns, *inner}]:
        raise UserError(
            "--only", f"{known.path} has no column {absent[0]}, only {', '.join(table.columns)}", "correct the name"
        )
    outer = {column: values for column, values in only.items() if column in table.columns}
    rows = [placed for placed in table.rows if is_chosen(placed[1], outer)]
    known.counts["rows left out by --only"] += len(table.rows) - len(rows)
    if within := {column: values for column, values in only.items() if column not in outer}:
        for _, row in rows:
            for value in row.values():
                if parts := messages_in(value):
                    kept = [part for part in parts if is_chosen(part, within)]
                    known.counts["messages left out by --only"] += len(parts) - len(kept)
                    parts[:] = kept
    return table._replace(rows=rows)


def is_chosen(row: Row, only: Mapping[str, frozenset[str]]) -> bool:
    """Return True if a row, or a message, has one of the values that the user wants in each column."""
    return all(cell({column: plain(row.get(column))}, column) in values for column, values in only.items())


def messages_in(value: Any) -> list[dict[str, Any]]:
    """Return the messages in a cell, which may be changed; an empty list for another value."""
    return value if is_turn_list(value) and all(isinstance(part, dict) for part in value) else []


# columns --------------------------------------------------------------------------------------------------------------


def check_texts(table: UserTable, named: Mapping[str, str], known: Understanding) -> None:
    """Add a doubt for texts that a spreadsheet turned into dates, times or truth values, such as 3/4."""
    columns = named["turns"].split(SEVERAL) if "turns" in named else [named["text"]]
    rows = [row for _, row in table.rows if cell(row, named.get("role")).casefold() not in OF_PROGRAMS]  # no texts
    cells = [row.get(column) for column in columns for row in rows]
    changed = [value for value in cells if isinstance(value, date | time | timedelta | bool)]
    if changed:
        problem = f"{len(changed):,} texts are dates, times or truth values, such as {cell_text(changed[0])}"
        known.doubt(problem, "write these cells as text: a spreadsheet makes a date of 3/4")
    written = [value for value in cells if is_written_object(value)]
    if written and (len(columns) > 1 or "text" in named):
        problem = f"{len(written):,} texts are objects that a program has written, such as {str(written[0])[:40]!r}"
        known.doubt(problem, "write the message alone in this column, or all turns as a list in one column")


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
    check_restarts(rows, table, named, known)
    rows = without_doubles(rows, table.columns, named, known)
    if not {"turn", "time"} & named.keys() and known.reading.sort != "file":
        doubt_of_unnamed_order(rows, table, named, known)
    order = ordered_rows(rows, named, known)
    if not known.is_ordered and {"turn", "time"} & named.keys() and known.reading.sort is None:
        doubt_of_unnamed_order(rows, table, named, known)  # the named column leaves the order of some rows open
    check_counted(order, table, named, known)
    return [
        conversation
        for name, members in order.items()
        if (conversation := conversation_of(name, members, named, known)).messages
    ]


def check_restarts(
    rows: dict[str, list[Placed]], table: UserTable, named: Mapping[str, str], known: Understanding
) -> None:
    """Add a doubt for ids that start again for each person or day, so that one id has several conversations."""
    for column in (name for name in table.columns if name not in named.values() and PERSON_OR_DAY.search(name)):
        several = 0
        for members in rows.values():
            blocks = rows_by_value(members, column).values()
            roles = [{cell(row, named["role"]) for row in block} for block in blocks]
            several += len(blocks) > 1 and all(len(words) > 1 for words in roles)
        if several:
            used = named["conversation"]
            problem = f"{several:,} conversations have several values of {column}, as if {used} started again for each"
            joined = shlex.quote(f"conversation={used}{SEVERAL}{column}")
            known.doubt(problem, f"pass --columns {joined}, which joins them to ids of their own")
            known.restarts_by = column
            return
    if "time" in named:
        places = {id(row): number for number, (_, row) in enumerate(table.rows)}
        resumed = [name for name, members in rows.items() if is_resumed(members, places, named)]
        if resumed:
            problem = (
                f"{len(resumed):,} conversations go on on another day, behind rows of others, such as {resumed[0]}, as "
                f"if {named['conversation']} started again each day"
            )
            fix = f"join {named['conversation']} and the day to ids of their own"
            known.doubt(problem, fix, "one conversation for each id")


def is_resumed(members: Sequence[Placed], places: Mapping[int, int], named: Mapping[str, str]) -> bool:
    """Return True if a conversation has a beginning of its own on a later day, behind rows of other conversations.

    places: number of each row in the file, by its identity.
    """
    days = [
        [row for _, row in block]
        for _, block in groupby(members, key=lambda placed: re.split(r"[ T]", cell(placed[1], named["time"]))[0])
    ]
    apart = any(places[id(second[0])] > places[id(first[-1])] + 1 for first, second in pairwise(days))
    return apart and all(len({cell(row, named["role"]) for row in day}) > 1 for day in days)


def check_counted(
    rows: Mapping[str, Sequence[Placed]], table: UserTable, named: Mapping[str, str], known: Understanding
) -> None:
    """Add a doubt for a column that is not used, and by which some messages of a conversation may not have counted.

    It has the name or the values of a state, or messages of one role that follow each other, and would be joined,
    differ in it.
    """
    used = {part for column in named.values() for part in column.split(SEVERAL)}
    used |= {*known.reading.tags, *known.reading.names, *known.reading.only, known.restarts_by}
    refused = [field for field, name in known.reading.columns.items() if not name]  # by --columns FIELD=
    used |= {column for column in table.columns if any(fits(column, field) for field in refused)}
    for column in (name for name in table.columns if name not in used):
        values = Counter(cell(row, column) for members in rows.values() for _, row in members)
        is_state = STATE.search(SNAKE.sub("_", column)) or any(map(STATE.search, values))
        is_few = len(values) <= MOST_STATES or STATE.search(SNAKE.sub("_", column))
        varies = any(len({cell(row, column) for _, row in members}) > 1 for members in rows.values())
        joined = differing_neighbours(rows, column, named["role"], known) if "role" in named else 0
        if not varies or not (joined or (is_state and is_few)):
            continue
        (usual, number), *others = values.most_common(MOST_STATES)
        listed = ", ".join(f"{value or 'empty'} ({count:,})" for value, count in [(usual, number), *others])
        problem = f"column {column} may tell messages that do not count: {listed}"
        if joined and not is_state:
            problem = (
                f"{joined:,} messages follow one of the same role, and differ from it in column {column}: {listed}"
            )
        several = [shlex.quote(f"{column}={value}") for value, _ in values.most_common()]
        every = f"--only {' '.join(several)}" if rows is known.inner else f"--tags {shlex.quote(column)}"
        chosen = f"pass --only {several[0]}, or another value, to use these alone"
        if names_others(values.keys() - {""}, column, rows):
            chosen = "delete the messages that another one replaces"
        are_people = joined and not is_state and all(value[:1].isupper() for value in values if value)
        person = f", or --columns {shlex.quote(f'name={column}')} if it names people" if are_people else ""
        known.doubt(problem, f"{chosen}, or pass {every} to use all{person}")


def names_others(values: Collection[str], column: str, rows: Mapping[str, Sequence[Placed]]) -> bool:
    """Return True if a column's values are in another column, as those of a link to another message are."""
    others = {cell(row, name) for members in rows.values() for _, row in members for name in row if name != column}
    return bool(values) and {*values} <= others


def differing_neighbours(rows: Mapping[str, Sequence[Placed]], column: str, role: str, known: Understanding) -> int:
    """Return the number of messages that follow one of the same role, but differ from it in a column.

    The column has few values, or names other messages in some rows. One with another value in each message counts
    messages, and is left aside.
    """
    cells = {name: [cell(row, column) for _, row in members] for name, members in rows.items()}
    values = {value for cells_of in cells.values() for value in cells_of}
    if all(len({*cells_of}) == len(cells_of) for cells_of in cells.values()):
        return 0
    if len(values) > MOST_STATES and ("" not in values or not names_others(values - {""}, column, rows)):
        return 0
    number = 0
    for name, members in rows.items():
        roles = [known.roles.get(cell(row, role).casefold()) for _, row in members]
        for (before, after), (first, second) in zip(pairwise(cells[name]), pairwise(roles), strict=True):
            number += first == second and first not in (None, SYSTEM) and before != after
    return number


def check_threads(
    rows: dict[str, list[Placed]], table: UserTable, named: Mapping[str, str], known: Understanding
) -> None:
    """Add a doubt for messages of one id, or which answer the same message as another, within a conversation."""
    free = [name for name in table.columns if name not in {*named.values(), *known.reading.tags, *known.reading.names}]
    for column in free:
        if MESSAGE_ID.search(column):
            groups = [group for members in rows.values() for group in rows_by_value(members, column).values()]
            repeated = sum(len({message_in(row, named) for row in group}) - 1 for group in groups)
            if len(groups) > len(rows) and repeated:
                problem = f"{repeated:,} rows have the {column} of another row of their conversation, as its versions"
                known.doubt(problem, f"keep one row for each {column}")
        elif PARENT.search(column):
            parents = {value for _, row in table.rows if (value := cell(row, column))}
            ids = [{cell(row, name) for _, row in table.rows} for name in table.columns if name != column]
            is_id = any(2 * len(parents & values) > len(parents) for values in ids)  # the first have none, or 0
            siblings = sum(
                len(group) - 1 for members in rows.values() for group in rows_by_value(members, column).values()
            )
            if parents and is_id and siblings:
                problem = f"{siblings:,} messages answer the same message as another (column {column})"
                fix = "give each thread a conversation of its own, and keep one version of each message"
                known.doubt(problem, fix)


def message_in(row: Row, named: Mapping[str, str]) -> tuple[str, str]:
    """Return the role and the text of a row."""
    return cell(row, named["role"]), cell(row, named["text"])


def rows_by_value(members: Sequence[Placed], column: str) -> dict[str, list[Row]]:
    """Return the rows by the value of a column, without those where it is empty."""
    groups: dict[str, list[Row]] = defaultdict(list)
    for _, row in members:
        if value := cell(row, column):
            groups[value].append(row)
    return groups


def without_doubles(
    rows: dict[str, list[Placed]], columns: Sequence[str], named: Mapping[str, str], known: Understanding
) -> dict[str, list[Placed]]:
    """Return the rows of each conversation without those that a doubled export has twice.

    A row with turn or time that equals the one before, or with a turn number any earlier one, is left out and counted.
    A conversation that stands twice in other ways is in doubt.
    """
    field = named.get("turn") or named.get("time") or unused_time(rows, columns, named)
    ids = next((column for column in columns if MESSAGE_ID.search(column) and column not in named.values()), None)
    distinct = sum(len(rows_by_value(members, ids)) for members in rows.values()) if ids else 0
    ids = ids if distinct > len(rows) else None  # an id that a conversation has once is not that of a message
    doubled = []
    for name, members in rows.items():
        kept: list[Placed] = []
        seen: set[str] = set()
        messages: set[tuple[str, ...]] = set()
        for place, row in members:
            if ids and cell(row, ids):
                message = (cell(row, ids), *message_in(row, named))
                if message in messages:
                    known.counts[f"rows of a message that an earlier row has (by {ids}), left out"] += 1
                    continue
                messages.add(message)
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


def unused_time(rows: Mapping[str, Sequence[Placed]], columns: Sequence[str], named: Mapping[str, str]) -> str | None:
    """Return the first column with the time of each message that is not used, or None."""
    for column in columns:
        texts = [cell(row, column) for members in rows.values() for _, row in members]
        if column not in named.values() and all(texts) and len({*texts}) > len(rows) and is_time_column(texts):
            return column
    return None


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
            content = row.get(named["text"])
            known.counts["parts of messages that are no text, left out"] += parts_left_out(content)
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
    if MOJIBAKE.search(text) and repaired(text) != text:
        known.garbled.append(text)
        text = repaired(text) if known.reading.takes_proposals else text
    if role == TUTOR and known.reading.moves and (move := MOVE.match(text)):
        text, own_tags = text[move.end() :].strip(), {**own_tags, "move": move[1].casefold()}
    if (decoded := without_entities(text)) != text:
        known.counts[DECODED_ENTITIES] += 1
        text = decoded
    known.counts["texts with HTML tags such as <p>, kept as they are"] += TAG.search(text) is not None
    known.counts["texts with \\n for a line break, kept as they are"] += ESCAPE.search(text) is not None
    if role == TUTOR:
        answer, thought = split_thinking(text)
        known.counts["tutor's turns with reasoning in marks such as <think>, which was left out"] += bool(thought)
        text = answer.strip() if thought else text
    if text in NULL_WORDS:
        known.null_texts.append(f"{place}: {text}")
    if not text:
        if known.reading.skip_empty:
            known.counts["turns without a text, left out"] += 1
        else:
            fix = "write its text, or pass --skip-empty to leave empty turns out"
            known.faults.add(place, f"the text of the {role}'s turn is empty", fix)
        return []
    tutor = cell(row, named.get("tutor")) or None if role == TUTOR else None
    speaker = cell(row, named.get("name")) or cell(turn.fields, "name") or turn.word
    return [Message(place, role, text, tutor, own_tags, speaker)]


# a row per conversation or exchange -----------------------------------------------------------------------------------


def conversations_of_rows(table: UserTable, named: dict[str, str], known: Understanding) -> list[Conversation]:
    """Return the conversations of a table with one row per conversation, or per exchange of one."""
    columns = named["turns"].split(SEVERAL)
    sides = exchange_roles(table, columns)
    if sides is not None:
        return conversations_of_exchanges(table, named, sides, known)
    conversations = [of_row(place, row, named, known) for place, row in table.rows]
    inner = [placed for placed_rows in known.inner.values() for placed in placed_rows]
    fields = list(dict.fromkeys(str(column) for _, row in inner for column in row))
    check_counted(known.inner, UserTable(fields, inner, table.form, []), INNER_COLUMNS, known)
    conversations = without_shorter(
        [conversation for conversation in conversations if conversation.messages or not known.reading.skip_empty],
        named,
        known,
    )
    doubt_of_replies(table, conversations, named, known)
    doubt_of_ids_of_calls(conversations, named, known)
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


def doubt_of_replies(
    table: UserTable, conversations: Sequence[Conversation], named: Mapping[str, str], known: Understanding
) -> None:
    """Add a doubt if conversations end with the student, and a column that is not used may have the tutor's replies.

    It has the name of a reply; or most conversations end with the student, and its texts are messages that no turn of
    their rows has.
    """
    used = [*named["turns"].split(SEVERAL), *known.reading.tags, *known.reading.names, *known.reading.only]
    unanswered = sum(bool(chat.messages) and chat.messages[-1].role == STUDENT for chat in conversations)
    columns = []
    for column in table.columns if unanswered else ():
        if column in {*named.values(), *used}:
            continue
        replies = [(row, text) for _, row in table.rows if (text := reply_in(row.get(column))) is not None]
        new = [text for row, text in replies if not any(text in str(row.get(name)) for name in used)]
        are_new = 2 * unanswered > len(conversations) and 2 * len(new) > len(replies) and is_prose(new)
        if 2 * len(replies) > len(table.rows) and (REPLY_NAME.search(column) or are_new):
            columns.append(column)
    if unanswered and columns and "turns" not in known.reading.columns:
        problem = (
            f"{unanswered:,} conversations end with the student, and column {columns[0]} may have the tutor's reply"
        )
        turns = named["turns"]
        more, as_is = (shlex.quote(f"turns={text}") for text in (f"{turns}{SEVERAL}{columns[0]}", turns))
        known.doubt(problem, f"pass --columns {more} if so, or --columns {as_is} without it")


def doubt_of_ids_of_calls(
    conversations: Sequence[Conversation], named: Mapping[str, str], known: Understanding
) -> None:
    """Add a doubt if rows go on from the whole of a row with another id, as in a log of calls with ids of their own."""
    if "conversation" not in named or "conversation" in known.reading.columns:
        return
    texts = {chat.id: tuple((message.role, message.text) for message in chat.messages) for chat in conversations}
    lengths = {number for turns in texts.values() if (number := len(turns)) >= LEAST_OF_CALL}
    begins = {turns[:number] for turns in texts.values() for number in lengths if number < len(turns)}
    if repeated := sum(turns in begins for turns in texts.values()):
        column = named["conversation"]
        problem = f"{repeated:,} rows are the beginning of a row with another {column}, as if each call had its own"
        as_one, apart = "conversation=", shlex.quote(f"conversation={column}")
        known.doubt(problem, f"pass --columns {as_one} to keep the longest row of each, or {apart} to keep all")


def key_of(conversation: Conversation, named: Mapping[str, str]) -> str:
    """Return the id of a conversation, or its first two turns if the table has no ids."""
    if "conversation" in named:
        return conversation.id
    return repr([message.text for message in conversation.messages[:2]])


def without_shorter(
    conversations: Sequence[Conversation], named: Mapping[str, str], known: Understanding
) -> list[Conversation]:
    """Return the conversations without those whose turns a longer one of the same id repeats, as logs of calls do."""
    by_id: dict[str, list[Conversation]] = defaultdict(list)
    for conversation in conversations:
        by_id[key_of(conversation, named)].append(conversation)
    kept = []
    for conversation in conversations:
        turns = [(message.role, message.text) for message in conversation.messages]
        longer = (
            [(message.role, message.text) for message in other.messages[: len(turns)]]
            for other in by_id[key_of(conversation, named)]
            if len(other.messages) > len(turns)
        )
        is_repeated = any(begin == turns for begin in longer)
        known.counts["rows whose turns a longer row of the same conversation repeats, left out"] += is_repeated
        kept += [] if is_repeated else [conversation]
    return kept


def with_joined_columns(table: UserTable, named: dict[str, str]) -> UserTable:
    """Return a table in which the time and the id of a conversation have one column each, if the user names several.

    Examples are a day and a time of day, and a session that is numbered for each student.
    """
    for field in ("time", "conversation"):
        column = named.get(field, "")
        parts = column.split(SEVERAL)
        if len(parts) > 1:
            joined: list[Placed] = [
                (place, {**row, column: " ".join(filter(None, (cell(row, part) for part in parts)))})
                for place, row in table.rows
            ]
            table = table._replace(rows=joined)
    return table


def exchange_roles(table: UserTable, columns: Sequence[str]) -> dict[str, str] | None:
    """Return the role of each column if each cell holds one message, and None if a cell holds a dialogue.

    The names of more than two columns must tell the roles.
    """
    cells = [row.get(column) for _, row in table.rows[:50] for column in columns]
    if len(columns) < 2 or any(isinstance(value, list) or holds_dialogue(value) for value in cells):
        return None
    if len(columns) > 2:
        roles = {column: proposed_role(column) for column in columns}
        if {*roles.values()} != {TUTOR, STUDENT}:
            return None
        return {column: role for column, role in roles.items() if role}
    sides = exchange_columns(columns) or (columns[0], columns[1])
    if proposed_role(sides[0]) == TUTOR and proposed_role(sides[1]) == STUDENT:
        sides = sides[1], sides[0]
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
    order = named["turns"].split(SEVERAL)
    known.notes.append("rows: one exchange each, " + ", then ".join(f"{column} ({sides[column]})" for column in order))
    if "turns" not in known.reading.columns and table.columns.index(order[0]) > table.columns.index(order[1]):
        problem = (
            f"column {order[1]} (tutor) stands before {order[0]} (student), so the tutor may speak first in each row"
        )
        flags = [shlex.quote(f"turns={SEVERAL.join(names)}") for names in (order[::-1], order)]
        known.doubt(problem, f"pass --columns {flags[0]} if so, or --columns {flags[1]}")
    if not {"turn", "time"} & named.keys() and known.reading.sort != "file":
        doubt_of_unnamed_order(rows, table, named, known)
    check_counted(rows, table, named, known)
    conversations = []
    for name, members in ordered_rows(rows, named, known).items():
        messages: list[Message] = []
        before: list[str] = []
        for place, row in members:
            tags = tags_in(row, known)
            questions = [cell(row, column) for column in named["turns"].split(SEVERAL) if sides[column] == STUDENT]
            is_repeated = bool(questions[0]) and questions == before
            known.counts["exchanges whose question repeats the one before"] += is_repeated
            before = questions
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
        content = row.get(column)
        if column != named["turns"] and column != named["turns"].split(SEVERAL)[0] and (reply := reply_in(content)):
            content = [{"role": "assistant", "content": reply}]
        for number, turn in enumerate(ordered_turns(place, content, column, known), 1):
            where = f"{place}, {column} {number}"
            known.inner[name].append((where, {**turn.fields, "role": turn.word, "text": turn.text}))
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
    if known.reading.sort == "file":
        return turns
    readings = [reading for times in times_of(turns) for reading in read_times(times)]
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
