"""Messages within objects of a user's table, as databases and logs write them, as columns of their own."""

from __future__ import annotations

import contextlib
from collections import Counter
from pathlib import Path
from typing import Any

from maieutic.core.json_text import json_value
from maieutic.core.user_tables import Faults, Row, UserTable
from maieutic.core.workbooks import cell_text
from maieutic.transcripts.turns import is_turn_list, listed_turn, plain, text_of

# Names under which a column is found if it is not named.
COLUMN_NAMES = {
    "conversation": ("conversation", "conversation_id", "dialogue", "dialogue_id", "chat", "chat_id", "session",
                     "session_id", "thread_id", "thread", "thread_ts", "id", "uuid"),
    "role": ("role", "speaker", "author", "sender", "from"),
    "text": ("text", "content", "message", "utterance", "body"),
    "turns": ("turns", "messages", "chat_messages", "conversations", "conversation", "contents", "dialogue", "dialog",
              "history"),
    "name": ("name", "user_name", "username", "display_name", "author_name", "sender_name", "student_name", "nickname"),
    "turn": ("turn", "turn_id", "turn_number", "position", "index", "seq", "sequence", "message_number"),
    "tutor": ("tutor", "model", "version", "tutor_name", "tutor_version", "bot_version"),
    "problem": ("problem", "question", "task", "exercise"),
    "solution": ("solution", "reference_solution", "answer", "ground_truth"),
    "time": ("time", "timestamp", "created_at", "date"),
}  # fmt: skip
SEVERAL = "+"  # joins the names of several columns whose turns follow each other
Placed = tuple[str, Row]  # a row with its place


def with_inner_fields(table: UserTable) -> UserTable:
    """Return a table in which a message within one object of each row has columns of its own.

    The object may be written as JSON. Its fields get columns if it has a text, and the table has none.
    """
    folded = {column.casefold() for column in table.columns}
    rows: list[Placed] = table.rows
    if table.form.startswith("JSON"):
        rows = [(place, {name: plain(value) for name, value in row.items()}) for place, row in rows]
    if {*COLUMN_NAMES["role"]} & folded and {*COLUMN_NAMES["text"]} & folded:
        return table._replace(rows=rows)
    for column in table.columns:
        objects = [object_in(row.get(column)) for _, row in rows]
        filled = [fields for fields in objects if fields is not None]
        if not filled or len(filled) < sum(bool(cell(row, column)) or row.get(column) is not None for _, row in rows):
            continue
        if not all(any(name in fields for name in (*COLUMN_NAMES["text"], "data")) for fields in filled):
            continue
        added: list[dict[str, Any]] = []
        for fields in objects:
            plain_fields = {str(name): plain(value) for name, value in (fields or {}).items()}
            turns = listed_turn("", 1, plain_fields, Faults(Path()))
            added.append({**plain_fields, **({"role": turns[0].word, "text": turns[0].text} if turns else {})})
        names = dict.fromkeys(name for fields in added for name in fields if name not in table.columns)
        joined: list[Placed] = [
            (
                place,
                {
                    **{name: value for name, value in row.items() if name != column},
                    **{name: fields.get(name) for name in names},
                },
            )
            for (place, row), fields in zip(rows, added, strict=True)
        ]
        columns = [*(name for name in table.columns if name != column), *names]
        return table._replace(
            columns=columns, rows=joined, notes=[*table.notes, f"messages: the fields within {column}"]
        )
    return table._replace(rows=rows)


def object_in(value: Any) -> dict[str, Any] | None:
    """Return an object, or the one that a text writes as JSON; None for another value."""
    if isinstance(value, str) and value.lstrip().startswith("{"):
        with contextlib.suppress(ValueError):
            value = json_value(value)
    return value if isinstance(value, dict) else None


def with_inner_turns(table: UserTable) -> UserTable:
    """Return a table in which turns within an object of a column have a column of their own.

    It has the name of their field, or `column.field` if several columns would have the same name.
    """
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
    keys = Counter([*table.columns, *(key for _, key in inner)])
    names = {(column, key): key if keys[key] == 1 else f"{column}.{key}" for column, key in inner}
    rows: list[Placed] = [
        (place, {**row, **{name: fields_of(row.get(column)).get(key) for (column, key), name in names.items()}})
        for place, row in table.rows
    ]
    return table._replace(columns=[*table.columns, *names.values()], rows=rows)


def fields_of(value: Any) -> dict[str, Any]:
    """Return an object; an empty one for another value."""
    return value if isinstance(value, dict) else {}


def cell(row: Row, column: str | None) -> str:
    """Return a row's cell as text; an empty string for a missing cell."""
    value = row.get(column) if column else None
    if value is None or value != value:  # NaN marks an empty cell of a number column
        return ""
    if isinstance(value, list | dict):  # an object is never a text, a role or an id
        return (text_of(value) or "").strip()
    return cell_text(value).strip()
