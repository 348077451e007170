"""Functions that make texts of models and people safe to display, with visible signs for control characters."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any

CONTROL_PICTURES, DELETE_SIGN, REPLACEMENT_SIGN, LINE_END_SIGN = 0x2400, 0x2421, 0xFFFD, 0x21B5
# Visible signs for control characters. XML and HTML forbid most of these characters, and only some programs treat
# U+2028 and U+2029 as ends of lines.
SIGNS = {
    **{code: CONTROL_PICTURES + code for code in range(0x20) if chr(code) not in "\t\n\r"},
    0x7F: DELETE_SIGN,
    **dict.fromkeys(range(0x80, 0xA0), REPLACEMENT_SIGN),
    **dict.fromkeys((0x2028, 0x2029), LINE_END_SIGN),
    **dict.fromkeys(range(0xD800, 0xE000), REPLACEMENT_SIGN),
    **dict.fromkeys((0xFFFE, 0xFFFF), REPLACEMENT_SIGN),
}


def visible_text(text: str) -> str:
    """Return a text with a visible sign for each control character. A subclass of str (markup) keeps its type."""
    return text if text.isprintable() else type(text)(str(text).translate(SIGNS))


# Unicode's bidirectional controls make a terminal or pull request show characters in another order than in the file.
DIRECTIONS = dict.fromkeys((*range(0x202A, 0x202F), *range(0x2066, 0x206A)), REPLACEMENT_SIGN)


def without_direction_controls(text: str) -> str:
    """Return a text with visible signs for control and bidirectional characters. Right-to-left letters are kept."""
    return visible_text(text).translate(DIRECTIONS)


# Marks that change the direction of what follows, and the return that lets a line overwrite itself
TERMINAL_SIGNS = {**SIGNS, **DIRECTIONS, 0x061C: REPLACEMENT_SIGN, 0x0D: CONTROL_PICTURES + 0x0D}


def terminal_text(text: str) -> str:
    """Return a text that changes nothing but what a terminal shows: line feeds, tabs and all letters are kept."""
    return text if text.isprintable() else str(text).translate(TERMINAL_SIGNS)


def terminal_line(text: str) -> str:
    """Return a text for one line of a terminal or log, in which an end of line is a visible sign."""
    return terminal_text(text).replace("\n", chr(LINE_END_SIGN))


def script_safe_json(data: Any) -> str:
    """Return JSON that is safe inside an HTML script element: no text in it can close the element."""
    text = json.dumps(data, ensure_ascii=True, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def policy_hash(text: str) -> str:
    """Return the hash by which a content security policy allows an inline style or script."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
