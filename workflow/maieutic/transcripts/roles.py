"""Roles of the words in a role column: known words, those that the user names, and proposals for unknown ones."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping

from maieutic.core.speakers import ROLE_WORDS, proposed_role
from maieutic.core.user_tables import Doubt

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
