"""Rules for names that become file names: each is safe on every system, and no two share a file."""

from __future__ import annotations

import re
from collections.abc import Iterable

from maieutic.core.errors import UserError

SAFE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}")
NAME_RULE = "1 to 64 of the characters A-Z a-z 0-9 . _ + -, beginning with a letter or digit"


RENAME_FIX = "rename the entry; for a model, set 'repo' to its name on the Hugging Face hub"


def check_file_names(place: str, names: Iterable[str], fix: str = RENAME_FIX) -> None:
    """Refuse names that could escape the results folder, reach a shell, or share a file on any file system.

    Names are used as file names unchanged. Names that differ only in case are refused, since some file systems ignore
    case. fix: fix shown for a name that breaks NAME_RULE. Raises UserError for the first bad name.
    """
    seen: dict[str, str] = {}
    for name in names:
        if not isinstance(name, str) or not SAFE_NAME.fullmatch(name):
            raise UserError(f"{place}.{name!r}", f"expected a name of {NAME_RULE}", fix)
        if other := seen.get(name.casefold()):
            problem = f"the files of this name would collide with those of {other!r} on a file system that ignores case"
            raise UserError(f"{place}.{name}", problem, "choose another name for one of the two")
        seen[name.casefold()] = name
