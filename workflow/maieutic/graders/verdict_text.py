"""Prepare replies for the parsers of steps and of yes-or-no verdicts, and drop withdrawn statements."""

from __future__ import annotations

import re
from collections.abc import Iterator

from maieutic.graders.passages import (
    MOST_WITHDRAWN,
    ONE_ROW_TABLE,
    boxes_as_lines,
    cells_as_lines,
    fields_as_lines,
    sentences,
    shorten_reply,
    without_sources,
    without_struck_text,
)
from maieutic.graders.reading import plain_notation

CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\xad\ufe0f\u20e3]")
PAUSE = re.compile(r"(?<=[A-Za-z)])[ \t]+[-\u2013\u2014]+[ \t]+(?=\S)")
OPTION = r"[\s*_]*(?:yes|no|(?:in)?correct|right|wrong|steps?\s+\d+|\d+)\b[^\n\u2610-\u2612\u25cb\u25cf\u25c9\[(]*"
TICKED = re.compile(r"(?:\[[xX\u2713\u2714]\]|\([xX\u2713\u2714]\)|[\u2611\u2612\u25cf\u25c9])(?=[\s*_]*\w)")
UNTICKED = re.compile(
    rf"(?:^[ \t]*[-*][ \t]+)?(?:\[\s?\]|\(\s\)|[\u2610\u25cb\u25ef\u25a1]){OPTION}", re.IGNORECASE | re.MULTILINE
)
SUSPECTED = re.compile(
    r"\b(?:i|we)\s+(?:first\s+|originally\s+|initially\s+|had\s+)?(?:was\s+about\s+to|thought|wanted|said|guessed|wrote"
    r"|answered|suspected|put|was\s+going)\b[^.\n]*?(?:[;,.]|\bbut\b)\s*(?=\S)"
    r"|\b(?:at\s+first(?:\s+(?:glance|sight|i))?|initially|my\s+first\s+(?:thought|guess|impression"
    r"|answer)|one\s+might|you\s+might|it\s+(?:might|may)\s+(?:look|seem))\b[^.\n]*?(?:\bbut\b|;"
    r"|,\s+(?=on\b|in\b))",
    re.IGNORECASE,
)
WITHDRAWN = re.compile(
    r"\b(?:wait|hold\s+on|scratch\s+that|oops|whoops|hmm,\s+no|on\s+(?:second|closer|reflection"
    r"|further)\b(?:\s+(?:thought|look|inspection))?s?|actually|correction|corrected"
    r"|edit(?:ed)?(?=\s*:)|update(?=\s*:)"
    r"|i\s+(?:was\s+wrong|meant|mean|correct\s+(?:that|myself|it)|take\s+(?:that|it)\s+back|misspoke"
    r"|made\s+a\s+mistake|have\s+to\s+correct)|sorry|apologies|my\s+(?:mistake|bad)|no,\s+(?:that"
    r"|it)(?:'s|\s+is)\s+not\s+(?:right|it|quite)(?=\s*[.:;])|no,\s+i\s+mean"
    r"|(?:have\s+to\s+|need\s+to\s+|must\s+|should\s+|will\s+|'ll\s+)?(?:revise|retract|withdraw)\s+(?:that|this|my\s+\w+)"
    r"|looking\s+again|re-?reading|second\s+look|let\s+me\s+(?:re-?do|re-?check|re-?consider"
    r"|correct))\b[\s,:.!;\u2013\u2014-]*",
    re.IGNORECASE,
)


def prepare_verdict_text(text: str) -> str:
    """Return a reply in plain notation, without struck-out text and sources, with boxes, fields and tables as lines."""
    text = without_sources(without_struck_text(CONTROL.sub("", shorten_reply(text))))
    text = ONE_ROW_TABLE.sub(cells_as_lines, text) if "|" in text else text
    text = boxes_as_lines(fields_as_lines(text))
    return plain_notation(PAUSE.sub(", ", keep_ticked_options(text)))


def keep_ticked_options(text: str) -> str:
    """Remove the marks of ticked boxes, and unticked boxes with their options. Without a ticked box, change nothing."""
    return TICKED.sub("", UNTICKED.sub(" ", text)) if TICKED.search(text) else text


def sentences_after_withdrawals(text: str) -> Iterator[list[str]]:
    """Yield the sentences after the last withdrawal ("wait, no"), then after each earlier one, then all sentences.

    Only the last MOST_WITHDRAWN withdrawals are considered. Statements that the writer abandons ("I first thought ...,
    but") are removed.
    """
    withdrawn = [match.end() for match in WITHDRAWN.finditer(text)]
    for start in [*withdrawn[: -MOST_WITHDRAWN - 1 : -1], 0]:
        yield sentences(SUSPECTED.sub(" ", text[start:]))
