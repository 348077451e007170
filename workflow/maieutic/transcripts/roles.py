"""Roles of the words in a role column: known words, those that the user names, and proposals for unknown ones."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Mapping

from maieutic.core.user_tables import Doubt

TUTOR, STUDENT, SYSTEM = "tutor", "student", "system"
# Role of each word in a role column, in lower case. Messages of the role SYSTEM are left out.
WORDS = {
    TUTOR: (
        "tutor teacher assistant ai bot chatbot model gpt coach instructor agent mentor professor outbound lehrer "
        "lehrerin lehrkraft tutorin profesor profesora docente maestro maestra professeur enseignant enseignante "
        "insegnante leraar"
    ),
    STUDENT: (
        "student user human learner pupil child customer visitor inbound sch\u00fcler sch\u00fclerin studentin "
        "estudiante alumno alumna aluno aluna \u00e9l\u00e8ve \u00e9tudiant \u00e9tudiante studente studentessa "
        "leerling"
    ),
    SYSTEM: "system developer tool",
}
ROLE_WORDS = {word: role for role, words in WORDS.items() for word in words.split()}
TOOL_WORDS = frozenset({"function", "tool_call", "tool_result", "function_call", "tool_calls", "observation", "event"})
SHORTEST_WITHIN = 5  # length from which a known word is also found within a longer word, as in "mathtutor"
MOST_LISTED_WORDS = 12


def roles_by_word(named: Mapping[str, str]) -> dict[str, str]:
    """Return the role of each word in lower case. named: roles that the user names."""
    return {**ROLE_WORDS, **{word.casefold(): role for word, role in named.items()}}


def proposed_role(word: str) -> str | None:
    """Return the role of an unknown word that contains a known one, or None if it contains none or several."""
    folded = word.casefold()
    if folded in TOOL_WORDS:
        return SYSTEM
    parts = [part for part in re.split(r"[\W\d_]+", folded) if part]
    roles = {ROLE_WORDS[part] for part in parts if part in ROLE_WORDS}
    if not roles:
        roles = {role for known, role in ROLE_WORDS.items() if len(known) >= SHORTEST_WITHIN and known in folded}
    return roles.pop() if len(roles) == 1 else None


def is_role(word: str) -> bool:
    """Return True for a word that is a role, or contains the word of one."""
    return word.casefold() in ROLE_WORDS or bool(proposed_role(word))


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
