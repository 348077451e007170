"""Texts of models and people as a page shows them: a control character is a sign, and no instruction to a reader."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any

PICTURES, DELETE, LOST, LINE = 0x2400, 0x2421, 0xFFFD, 0x21B5
# Neither XML nor a page may hold them; Unicode's own line ends are line ends to some readers and not to others.
SIGNS = {
    **{code: PICTURES + code for code in range(0x20) if chr(code) not in "\t\n\r"},
    0x7F: DELETE,
    **dict.fromkeys(range(0x80, 0xA0), LOST),
    **dict.fromkeys((0x2028, 0x2029), LINE),
    **dict.fromkeys(range(0xD800, 0xE000), LOST),
    **dict.fromkeys((0xFFFE, 0xFFFF), LOST),
}


def visible(text: str) -> str:
    """The text with a sign in the place of each character that cannot be shown. The type stays: markup is markup."""
    return text if text.isprintable() else type(text)(str(text).translate(SIGNS))


# Unicode's controls of direction: in a terminal or a pull request they show a text in another order than it has.
DIRECTIONS = dict.fromkeys((*range(0x202A, 0x202F), *range(0x2066, 0x206A)), LOST)


def in_one_direction(text: str) -> str:
    """Return the visible text with a sign in the place of each control of direction. Letters keep their own."""
    return visible(text).translate(DIRECTIONS)


def embedded(data: Any) -> str:
    """JSON that may stand inside a script element: no reply can close it."""
    text = json.dumps(data, ensure_ascii=True, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def policy_source(text: str) -> str:
    """A style or script as a page's content security policy names it: by its hash."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
