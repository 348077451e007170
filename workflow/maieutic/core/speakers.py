"""Roles of speakers by the words that files use for them, in several languages."""

from __future__ import annotations

import re

TUTOR, STUDENT, SYSTEM = "tutor", "student", "system"
# Role of each word, in lower case. Messages of the role SYSTEM are left out.
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
