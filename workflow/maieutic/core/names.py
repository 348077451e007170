"""Names that become file names: safe everywhere, and never two for one file."""

from __future__ import annotations

import re
from collections.abc import Iterable

from maieutic.core.errors import UserError

SAFE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}")
NAME_RULE = "1 to 64 of the characters A-Z a-z 0-9 . _ + - and beginning with a letter or a digit"


RENAME = "rename the entry and put a hub name into its 'repo'"


def check_names(place: str, names: Iterable[str], fix: str = RENAME) -> None:
    """Refuse names that could leave the results folder, reach a shell, or share a file on any file system.

    A name is used as a file name unchanged, so the mapping is injective wherever case is kept; names that differ in
    case only are refused, since some file systems fold it. fix: of a name that breaks the rule.
    """
    seen: dict[str, str] = {}
    for name in names:
        if not isinstance(name, str) or not SAFE_NAME.fullmatch(name):
            raise UserError(f"{place}.{name!r}", f"a name has {NAME_RULE}", fix)
        if other := seen.get(name.casefold()):
            raise UserError(
                f"{place}.{name}", f"it would share its files with {other!r}", "give one of the two another name"
            )
        seen[name.casefold()] = name
