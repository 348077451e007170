"""JSON of others: a whole text of it, and the objects within a text that may hold anything else, in linear time."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

TOKEN = re.compile(r'"(?:[^"\\]|\\.)*+"|[{}"]', re.DOTALL)
DEEP = 500  # braces that are skipped where an object is nested deeper than Python reads


def json_value(text: str | bytes, **options: Any) -> Any:
    """Return what a text of JSON holds. Raises ValueError for what is no JSON, and for what is nested too deeply.

    options: of `json.loads`.
    """
    try:
        return json.loads(text, **options)
    except RecursionError:
        raise ValueError("nested more deeply than can be read") from None


def json_objects(text: str, decoder: json.JSONDecoder) -> Iterator[tuple[int, int, dict[str, Any] | None]]:
    """Yield start, end and content of each object, from the first to the last; None, and no end, where a brace opens
    none.

    An object within another one that was read is part of that one's content. Objects within one that breaks off are
    yielded. A brace that stands open where the text breaks off is tried once, and not again from each brace before it.
    """
    place = text.find("{")
    failed: set[int] = set()  # braces of which it is known that they do not close
    while place >= 0:
        start, place = place, place + 1
        if start not in failed:
            try:
                found, place = decoder.raw_decode(text, start)
                yield start, place, found
                place = text.find("{", place)
                continue
            except json.JSONDecodeError as error:
                failed.update(open_braces(text, start, error.pos))
            except RecursionError:
                for _ in range(DEEP):
                    place = max(place, text.find("{", place) + 1)
            except ValueError:  # what a decoder of ours refuses: a number that is none, a key that stands twice
                pass
        yield start, start, None
        place = text.find("{", place)


def open_braces(text: str, start: int, end: int) -> list[int]:
    """Return the places of the braces from `start` on that are open before `end`, up to which a text is JSON."""
    open_at: list[int] = []
    for token in TOKEN.finditer(text, start, end):
        if token[0] == '"':  # in a string that is none: its braces are not of this text of JSON
            break
        if token[0] == "{":
            open_at.append(token.start())
        elif token[0] == "}" and open_at:
            open_at.pop()
    return open_at
