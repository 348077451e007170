"""Rules for names that are used as file names: each is safe on every system, and no two share a file."""

from __future__ import annotations

import re
from collections.abc import Iterable

from maieutic.core.errors import UserError

SAFE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}")
NAME_RULE = "1 to 64 characters (A-Z a-z 0-9 . _ + -), beginning with a letter or digit"


RENAME_FIX = "rename the entry; for a model, set 'repo' to its name on the Hugging Face hub"


def check_file_names(place: str, names: Iterable[str], fix: str = RENAME_FIX) -> None:
    """Raise UserError for a name that is unsafe as a file name, or that differs from another name only in case.

    Names are used as file names unchanged: an unsafe one could lead out of the results folder or be interpreted by a
    shell. Some file systems ignore case. place: place of the names in messages; fix: fix shown for a name that breaks
    NAME_RULE.
    """
    seen: dict[str, str] = {}
    for name in names:
        if not isinstance(name, str) or not SAFE_NAME.fullmatch(name):
            raise UserError(f"{place}.{name!r}", f"expected a name of {NAME_RULE}", fix)
        if other := seen.get(name.casefold()):
            problem = f"the files of this name would collide with those of {other!r} on a file system that ignores case"
            raise UserError(f"{place}.{name}", problem, "choose another name for one of the two")
        seen[name.casefold()] = name
