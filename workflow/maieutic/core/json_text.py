"""Parsers of untrusted JSON, in linear time: whole documents, and objects embedded in other text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

TOKEN = re.compile(r'"(?:[^"\\]|\\.)*+"|[{}"]', re.DOTALL)
SURROGATE = re.compile("[\\ud800-\\udfff]")
JSON_SEPARATORS = (b",", b"[", b"{", b":")
SKIPPED_BRACES = 500  # number of opening braces skipped after an object nested too deeply for Python's parser


def json_value(text: str | bytes, **options: Any) -> Any:
    """Return the content of a JSON document. Raises ValueError for invalid JSON and for excessive nesting.

    options: keyword arguments of `json.loads`.
    """
    try:
        return json.loads(text, **options)
    except RecursionError:
        raise ValueError("values are nested too deeply to be parsed") from None


def storable(value: Any) -> Any:
    """Return a parsed JSON value unchanged. Raises ValueError if one of its texts has a lone surrogate.

    Such a text cannot be written as UTF-8.
    """
    ahead = [value]
    while ahead:
        part = ahead.pop()
        if isinstance(part, str):
            if not part.isascii() and SURROGATE.search(part):
                raise ValueError("a text contains half of a surrogate pair")
        elif isinstance(part, dict):
            ahead += [*part, *part.values()]
        elif isinstance(part, list):
            ahead += part
    return value


def object_of_unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object as a dict. Raises ValueError for a repeated key, whose value would be ambiguous."""
    named = dict(pairs)
    if len(named) < len(pairs):
        seen = set[str]()
        for name, _ in pairs:
            if name in seen:
                raise ValueError(f"the key {name!r} occurs twice")
            seen.add(name)
    return named


def count_json_values(text: bytes) -> int:
    """Return an upper bound on the number of values in a JSON text."""
    return sum(text.count(separator) for separator in JSON_SEPARATORS)


def json_objects(text: str, decoder: json.JSONDecoder) -> Iterator[tuple[int, int, dict[str, Any] | None]]:
    """Yield start, end and content of each JSON object in a text.

    For a brace at which no valid object starts, (start, start, None) is yielded.
    Objects nested in a valid object are part of its content; those nested in a truncated or invalid object are yielded.
    Braces that a failed attempt found to be unclosed are not tried again, which keeps the time linear.
    """
    place = text.find("{")
    failed: set[int] = set()  # braces known to be unclosed
    while place >= 0:
        start, place = place, place + 1
        if start not in failed:
            try:
                content, place = decoder.raw_decode(text, start)
                yield start, place, content
                place = text.find("{", place)
                continue
            except json.JSONDecodeError as error:
                failed.update(open_braces(text, start, error.pos))
            except RecursionError:
                for _ in range(SKIPPED_BRACES):
                    place = max(place, text.find("{", place) + 1)
            except ValueError:  # a custom decoder refused the object because of an invalid number or a duplicate key
                pass
        yield start, start, None
        place = text.find("{", place)


def open_braces(text: str, start: int, end: int) -> list[int]:
    """Return the positions of the braces opened since `start` and still open at `end`, where the JSON parser failed."""
    open_at: list[int] = []
    for token in TOKEN.finditer(text, start, end):
        if token[0] == '"':  # the string that starts here is not closed, so later braces may be part of it
            break
        if token[0] == "{":
            open_at.append(token.start())
        elif token[0] == "}" and open_at:
            open_at.pop()
    return open_at
