"""Locate the passage of a reply from which a parser reads its value."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from maieutic.graders.passages import SENTENCE, shorten_overlong

LINE = re.compile(r"[^\n]+")
MAX_PIECES = 40  # maximum number of lines, and of sentences of a passage, that are tried


class Span(NamedTuple):
    """Passage of a conversation: number of the turn from 0, and the passage's start and end in the turn's text.

    Positions are in Unicode code points; `end` is exclusive.
    """

    turn: int
    start: int
    end: int


def shortest_passage(reads_value: Callable[[str], bool], text: str) -> tuple[int, int] | None:
    """Return the start and end of the passage from which a parser reads a value, or None if there is no such passage.

    The passage consists of whole lines, or of whole sentences within them. The parser, given this passage alone, reads
    the same value; of several such passages it is the last one. Overlong texts have no passage, since parsers shorten
    them. reads_value: function that returns True if the parser reads the value of the whole text from a part of it.
    """
    if shorten_overlong(text) != text:
        return None
    window = shortest_run(reads_value, text, list(line_spans(text)))
    if window is None:
        return None
    return shortest_run(reads_value, text, list(sentence_spans(text, *window))) or window


def shortest_run(
    reads_value: Callable[[str], bool], text: str, pieces: Sequence[tuple[int, int]]
) -> tuple[int, int] | None:
    """Return the start and end of the last piece that decides the value, or of a run of pieces up to the last one.

    A piece decides the value if the parser reads it from the piece alone, and reads another one if the piece changes.
    """
    pieces = pieces[-MAX_PIECES:]
    for start, end in reversed(pieces):
        if reads_value(text[start:end]) and decides(reads_value, text, start, end):
            return start, end
    for start, _ in reversed(pieces):
        end = pieces[-1][1]
        if reads_value(text[start:end]):
            return (start, end) if decides(reads_value, text, start, end) else None
    return None


OTHER_DIGITS = str.maketrans("0123456789", "7352819046")  # no digit is mapped to itself


def decides(reads_value: Callable[[str], bool], text: str, start: int, end: int) -> bool:
    """Return True if the value of the whole text rests on a passage.

    It does if the value changes with the digits of the passage, or, for a passage without digits, if the value changes
    without it. A last passage without digits always counts, because earlier sentences often support a conclusion.
    """
    passage = text[start:end]
    changed = passage.translate(OTHER_DIGITS)
    if changed == passage:
        return end == len(text.rstrip()) or not reads_value(text[:start] + text[end:])
    return not reads_value(text[:start] + changed + text[end:])


def line_spans(text: str) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each line that is not blank, without its outer whitespace."""
    for line in LINE.finditer(text):
        if stripped := line[0].strip():
            start = line.start() + line[0].index(stripped)
            yield start, start + len(stripped)


def sentence_spans(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each sentence of a passage."""
    for line_start, line_end in line_spans(text[start:end]):
        line, place = text[start + line_start : start + line_end], 0
        for gap in (*SENTENCE.finditer(line), None):
            stop = gap.start() if gap else len(line)
            if line[place:stop].strip():
                yield start + line_start + place, start + line_start + stop
            place = gap.end() if gap else stop
