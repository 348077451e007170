"""Dialogues in one cell of a user's table: lines that begin with a speaker, or a list of messages.

Nothing that may be a speaker is read as a part of a message without a word of the user's.
"""

from __future__ import annotations

import json
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from maieutic.core.errors import UserError
from maieutic.core.speakers import ROLE_WORDS, STUDENT, SYSTEM, TUTOR, proposed_role
from maieutic.core.user_tables import is_written_object
from maieutic.serving.conversations import Message, merge_turns

TEXT = "text"  # role of a word before a colon that is no speaker
CHAT_ROLES = {TUTOR: "assistant", STUDENT: "user"}
SPEAKERS = "|".join(sorted(map(re.escape, ROLE_WORDS), key=len, reverse=True))
OPENED, CLOSED = r"[*_#>\"'\[-]{0,3}", r"[*_\"'\]]{0,3}"  # marks of Markdown, quotation and brackets around a speaker
# A word or a name before a colon at the start of a line. An unknown word in an indented line is a part of the message.
LABEL = re.compile(
    rf"^(?P<indent>[^\S\n]*){OPENED}[^\S\n]?(?P<label>[^\W\d_][^\n:\uff1a*_\"'\]]{{0,30}}?){CLOSED}[^\S\n]?[:\uff1a][*_]{{0,2}}"
    r"(?P<space>\s|$)?",
    re.MULTILINE,
)
# The word of a speaker in another form, such as "[10:32] Tutor: ", "[Student] yo", "Student - yo" or within a line
OTHER_MARKS = (
    re.compile(rf"^[^\w\n]*(?:{SPEAKERS})\b[^\w\n]{{0,3}}[>|\])\u2013\u2014-]", re.MULTILINE | re.IGNORECASE),
    re.compile(rf"^[^a-z\n]*(?:{SPEAKERS})\b[^\w\n]{{0,3}}\d[^\n]{{0,12}}[:>|\]]", re.MULTILINE | re.IGNORECASE),
    re.compile(rf"(?<!\w)(?:{SPEAKERS})(?:[^\S\n]?\d+)?[^\S\n]?[:\uff1a]", re.IGNORECASE),
)
WRITTEN_BREAK = re.compile(r"\\n|<br\s*/?>", re.IGNORECASE)
INDENT = "  "  # before a line of a message that would begin with a speaker
MOST_WORDS = 3  # maximum number of words of a speaker's name
ROLE_KEYS, TEXT_KEYS = ("role", "from", "speaker", "author"), ("content", "value", "text", "message")
MOST_LISTED = 8


class UnknownSpeakersError(Exception):
    """A dialogue with words that may be speakers. words: these words, as they are written."""

    def __init__(self, words: Iterable[str]) -> None:
        super().__init__()
        self.words = list(words)


class UndividedError(Exception):
    """A dialogue that cannot be divided into turns, with the problem."""


def roles_of_words(named: Mapping[str, str]) -> dict[str, str]:
    """Return the role of each word in lower case. named: roles that the user names."""
    return {**ROLE_WORDS, **{word.casefold(): role for word, role in named.items()}}


def read_history(value: Any, roles: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the turns (role of a chat message, text) of a dialogue. roles: as of `roles_of_words`.

    A text without any speaker is one message of the student. Raises UnknownSpeakersError for words that may be
    speakers, and UndividedError with a problem for a dialogue that cannot be divided into turns.
    """
    if isinstance(value, str) and value.lstrip().startswith(("[", "{")):
        try:
            value = json.loads(value)
        except ValueError:
            if is_written_object(value):
                raise UndividedError("is a list that a program has written, not JSON") from None
    if isinstance(value, dict):
        value = next((value[key] for key in ("messages", "turns", "conversation") if key in value), [value])
    if isinstance(value, list):
        return turns_of_messages(value, roles)
    return turns_of_text(str(value).replace("\u00a0", " ").strip(), roles)


def turns_of_messages(messages: list[Any], roles: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the turns of a list of messages."""
    turns, unknown = [], []
    for message in messages:
        fields = message if isinstance(message, dict) else {}
        speaker = next((fields[key] for key in ROLE_KEYS if isinstance(fields.get(key), str)), None)
        text = next((fields[key] for key in TEXT_KEYS if isinstance(fields.get(key), str)), None)
        if speaker is None or text is None:
            raise UndividedError("has a message without a role and a text")
        role = roles.get(speaker.strip().casefold())
        if role == SYSTEM:
            raise UndividedError("has a message of the system, which is no turn of the dialogue")
        if role not in CHAT_ROLES:
            unknown.append(speaker.strip())
        else:
            turns.append((CHAT_ROLES[role], text))
    if unknown:
        raise UnknownSpeakersError(unknown)
    return turns


def turns_of_text(text: str, roles: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the turns of a text whose lines begin with a speaker."""
    if WRITTEN_BREAK.search(text):
        raise UndividedError("has line breaks that are written as \\\\n or <br>")
    marks, unknown = list[tuple[re.Match[str], str]](), list[str]()
    for match in LABEL.finditer(text):
        label = match["label"].strip()
        role = roles.get(label.casefold())
        if role in CHAT_ROLES:
            marks.append((match, CHAT_ROLES[role]))
        elif role == SYSTEM:
            raise UndividedError(f"has a message of the system ({label}), which is no turn of the dialogue")
        elif role is None and len(match["indent"]) < len(INDENT) and match["space"] is not None:
            unknown += [label] if len(label.split()) <= MOST_WORDS else []
    if unknown:
        raise UnknownSpeakersError(unknown)
    if marks and (before := text[: marks[0][0].start()].strip()):
        raise UndividedError(f"has text before the first speaker: {before[:30]!r}")
    ends = [*(match.start() for match, _ in marks[1:]), len(text)][: len(marks)]
    turns = [(role, text[match.end() : end].strip()) for (match, role), end in zip(marks, ends, strict=True)]
    for _, content in turns or [("user", text)]:
        if others := [other[0].strip() for mark in OTHER_MARKS if (other := mark.search(content))]:
            raise UndividedError(f"may have another speaker: {others[0]!r}")
    return turns or [("user", text)]


def turns_in(value: Any, roles: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the turns of a filled cell, like `read_history`. Raises UndividedError for a cell without a turn."""
    turns = read_history(value, roles)
    if not turns:
        raise UndividedError("has no turn")
    return turns


class Histories(NamedTuple):
    """Dialogues of a column, each divided into turns.

    unknown: words that may be speakers, with their numbers; faults: problem of each dialogue that cannot be divided, by
    the number of its row.
    """

    turns: list[list[Message]]
    unknown: Counter[str]
    faults: dict[int, str]


def read_histories(values: Sequence[Any], named: Mapping[str, str]) -> Histories:
    """Return the dialogues of a column. named: roles of words that the user names."""
    roles, unknown, faults = roles_of_words(named), Counter[str](), dict[int, str]()
    turns: list[list[Message]] = []
    for number, value in enumerate(values, 1):
        dialogue: list[Message] = []
        try:
            dialogue = merge_turns(turns_in(value, roles)) if value not in (None, "") else []
        except UnknownSpeakersError as error:
            unknown.update(error.words)
        except UndividedError as error:
            faults[number] = str(error)
        turns.append(dialogue)
    return Histories(turns, unknown, faults)


def history_lines(turns: Sequence[Message]) -> str:
    """Return a dialogue as lines that begin with `Tutor: ` or `Student: `.

    Further lines of a message that begin with another word and a colon are indented, so that they are no speakers.
    """

    def indented(content: str) -> str:
        first, *lines = content.split("\n")
        return "\n".join([first, *(INDENT + line if LABEL.match(line) else line for line in lines)])

    return "\n".join(
        f"{'Tutor' if turn['role'] == 'assistant' else 'Student'}: {indented(turn['content'])}" for turn in turns
    )


def check_divided(read: Histories, place: str, column: str, how: str) -> None:
    """Raise UserError for words that may be speakers, and for dialogues that cannot be divided into turns.

    column: name of the column that was read; how: how to pass the flag --roles, which stands at `{}`.
    """
    if read.unknown:
        listed = read.unknown.most_common(MOST_LISTED)
        counts = ", ".join(f"{word!r} ({number:,})" for word, number in listed)
        more = f" and {len(read.unknown) - len(listed)} more" if len(read.unknown) > len(listed) else ""
        words = " ".join(shlex.quote(f"{word}={proposed_role(word) or 'ROLE'}") for word, _ in listed)
        fix = f"{how.replace('{}', f'--roles {words}')}, with {TUTOR}, {STUDENT} or {TEXT} (no speaker) as each ROLE"
        raise UserError(place, f"column {column} has words before a colon that may be speakers: {counts}{more}", fix)
    if read.faults:
        number, problem = next(iter(read.faults.items()))
        doubt = f"{len(read.faults):,} dialogues in column {column} are in doubt; that of record {number} {problem}"
        raise UserError(place, doubt, "write each turn on a line of its own behind its speaker, or a list of messages")
