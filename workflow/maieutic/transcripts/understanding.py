"""Settings for reading transcripts, and what is understood of a file: roles, notes, doubts and faulty rows."""

from __future__ import annotations

import shlex
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from maieutic.core.errors import UserError, raise_all
from maieutic.core.speakers import ROLE_WORDS, proposed_role
from maieutic.core.user_tables import Doubt, Faults
from maieutic.transcripts.shapes import Placed

MOST_LISTED_WORDS = 12


def roles_by_word(named: Mapping[str, str]) -> dict[str, str]:
    """Return the role of each word in lower case. named: roles that the user names."""
    return {**ROLE_WORDS, **{word.casefold(): role for word, role in named.items()}}


def doubt_of_roles(place: str, unknown: Counter[str]) -> Doubt | None:
    """Return the doubt about all unknown words of a role column, or None without one."""
    if not unknown:
        return None
    proposals = {word: proposed_role(word) for word in unknown}
    listed = unknown.most_common(MOST_LISTED_WORDS)
    counts = ", ".join(f"{word!r} ({number:,})" for word, number in listed)
    more = f" and {len(unknown) - len(listed)} more" if len(unknown) > len(listed) else ""
    words = " ".join(shlex.quote(f"{word}={proposals[word] or 'ROLE'}") for word, _ in listed)
    settled = all(proposals.values())
    fix = f"pass --roles {words}" + ("" if settled else " with student, tutor or system as each ROLE")
    noun = "word" if len(unknown) == 1 else "words"
    return Doubt(
        place, f"unknown {noun} for a role: {counts}{more}", fix,
        ", ".join(f"{word} is {proposals[word]}" for word, _ in listed) if settled else "",
    )  # fmt: skip


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
    each doubt; only: values of columns, of which a row must have one to be used.
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
    only: Mapping[str, frozenset[str]] = {}


class Understanding:
    """Understanding of a file while it is read: notes with counts, doubts, and faulty rows."""

    def __init__(self, path: Path, reading: Reading) -> None:
        self.path, self.reading = path, reading
        self.faults, self.doubts, self.notes = Faults(path), list[Doubt](), list[str]()
        self.unknown_words, self.counts = Counter[str](), Counter[str]()
        self.is_ordered = reading.sort is not None  # True if times or turn numbers show the order of all messages
        self.garbled = list[str]()  # texts in UTF-8 that were read as Latin-1
        self.restarts_by = ""  # column of people or days in which ids of conversations start again
        self.null_texts = list[str]()  # places and texts that are words for an empty cell
        self.versions = list[str]()  # places of conversations with several versions of a message
        self.out_of_order = list[str]()  # places of conversations in one cell, by the times of their messages
        self.inner: dict[str, list[Placed]] = defaultdict(list)  # messages within cells, by conversation
        self.roles = roles_by_word(reading.roles)

    def role_of(self, place: str, word: str) -> str | None:
        """Return the role of a word; None for an unknown or an empty one."""
        role = self.roles.get(word.casefold())
        if role is not None:
            return role
        if not word:
            self.faults.add(place, "the role is empty", "write tutor or student in each row, or delete the row")
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
        raise_all(faults)
        return [doubt.proposal for doubt in self.doubts]
