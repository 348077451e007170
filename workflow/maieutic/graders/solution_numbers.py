"""Read the number at the end of a worked solution: from its box, its marker, or its last calculation.

These rules know notation but no prose. They serve sources and curated solutions, whose answers stand at their end, and
the parser of replies (`graders.answers`), which adds the rules for prose.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from maieutic.graders.number_words import words_as_digits
from maieutic.graders.numerals import Numeral, numerals
from maieutic.graders.passages import BOXED, shorten_reply
from maieutic.graders.reading import plain_notation
from maieutic.graders.words import words

Replacement = str | Callable[[re.Match[str]], str]


def quotient(over: str, under: str) -> str:
    """Return a space and the quotient `over` / `under` as text, or only the space if it cannot be computed."""
    try:
        return f" {float(over.replace(',', '')) / float(under.replace(',', '')):.10g}"
    except (ValueError, ZeroDivisionError):
        return " "


LATEX: tuple[tuple[re.Pattern[str], Replacement], ...] = (
    (re.compile(r"\\(?:text|mathrm|mathbf)\s*\{\s*(-?[\d.,]+)\s*\}"), r"\1"),
    (re.compile(r"(?<![\w.)\]%}])(?<![\w)\]%}]\s)[-\u2212] ?\\[dt]?frac\s*\{(\d+)\}\s*\{(\d+)\}"), r" -\1/\2"),
    (re.compile(r"\\[dt]?frac\s*\{(\d+)\}\s*\{(\d+)\}"), r" \1/\2"),
    (re.compile(r"\\[dt]?frac\s*\{(-?[\d.,]+)\}\s*\{(-?[\d.,]+)\}"), lambda match: quotient(match[1], match[2])),
    (re.compile(r"\\[dt]?frac\s*(\d)\s*(\d)(?!\d)"), r" \1/\2"),
    (re.compile(r"\\(?:text|mathrm|mathbf)\s*\{([^{}]*)\}(?:\^\{?\d\}?)?"), r" \1 "),
    (re.compile(r"\\(?:times|cdot)\b"), "×"),
    (re.compile(r"\\approx\b"), "≈"),
    (re.compile(r"\{,\}"), ","),
    (re.compile(r"\\[,;!: ]"), ""),
    (re.compile(r"\\([$%])"), r"\1"),
)
# Signs in a LaTeX box that its content is an unfinished calculation or a time of day.
UNFINISHED = re.compile(r"\\sqrt|[*×]\s*(?!10\s*\^)[\d.(]|\d\s*\+\s*\d|\d:\d")
DIGIT = re.compile(r"\d|[¼-¾⅐-⅞]")
# The equals sign before a calculation's result or a variable's value: "9*2 = 18", "x = 5"; not "with n = 4 friends".
RESULT = re.compile(r"(?:[\d)\]}%>π]\s*|^\W*[A-Za-z]\w?\s*|\b(?:so|and|then|thus|hence|therefore)\s+[A-Za-z]\s*)[=≈]")
NEXT_CLAUSE = re.compile(r"[,;]\s|\b(?:and|so|then)\b")
CALCULATION = re.compile(r"(?!\d+ ?/ ?\d+\W*$)[$€£]?\d[\d.,]*\s*[-+*/×÷]\s*[$€£]?\d[^=]*$")
EQUALS_CALCULATION = re.compile(r"([^=]*\d[^=]*)=\s*(?!\d+ ?/ ?\d+\W*$)[$€£]?\d[\d.,]*\s*[-+*/×÷]\s*[$€£]?\d[^=]*$")
NO_ANSWER = re.compile(
    (
        r"(?:none|n/?a|unknown|not (?:determined|enough|given"
        r")|cannot|impossible"
        r")\b"
    ),
    re.IGNORECASE,
)
REFUSED = re.compile(
    (
        r"\b(?:can(?:not|'t|\u2019t)|could(?:n'?t)|(?:(?:is|are|was|'m|be) (?:un)|wasn'?t )able to|(?:is "
        r")?impossible to|no way to"
        r"|won'?t|(?:would|'d) rather not|not allowed to)\s+(?:\w+\s+){0,2}?"
        r"(?:be (?:determined|solved|answered|found|given)|"
        + words("determine|solve|answer|know|say|tell|find|work|help|give|do|finish|show|commit")
        + r")\b"
        r"|\b(?:not enough|too few) (?:information|data)\b"
        r"|\bundetermined\b|\bnot determined\b|\b(?:is|are|stays?) (?:unknown"
        r"|incomplete)\b|(?<!\bno )\b(?:information|data|numbers?"
        r")(?: (?:of|for|on) [\w ]{1,30})? (?:is|are) missing\b"
        r"|\bno (?:unique |single )?(?:answer|solution)(?: can be| found| exists?|:|\."
        r"|$)?|\binfinitely many\b|\b(?:do(?:es)? not|don'?t) (?:know|have access|say)\b"
        r"|\bi can only answer\b|\berror (?:code )?\d{3}\b"
        r"|\bdid not come through\b|\b(?:is|are) not given\b|\bwould need (?:at least|more|the|to know)\b"
        r"|\byou have used\b"
    ),
    re.IGNORECASE,
)
CALLED_WRONG = re.compile(r"\W{0,4}(?:is|was|would be)\s+(?:wrong|incorrect)\b", re.IGNORECASE)
OPEN_FUNCTION = re.compile(r"(?:√|\bsqrt)\s*[({_]?\s*\d|\d\s*π|π\s*\d")
PLUS_MINUS = re.compile(r"(?:^|[^\d)\s])\s*±\s*\d")
TOLERANCE_MARK = re.compile(r"(\d)\s*±\s*\d[\d.,]*")
MARKER_TAIL = 400  # only this many characters after an answer marker are searched for the answer's number


class FinalAnswer(NamedTuple):
    """Final answer of a text, with the characters from which it was read. why_none: reason if `value` is None."""

    value: float | None
    text: str
    why_none: str | None = None


NO_NUMBER = FinalAnswer(None, "", "no number")


def without_latex(text: str) -> str:
    """Return a text with the LaTeX of its numbers in plain notation. Boxes stay."""
    for pattern, replacement in LATEX:
        text = pattern.sub(replacement, text)
    return text


def contains_number(text: str) -> bool:
    """Return True if a text contains a digit. This check is cheaper than a call of `numerals`."""
    return DIGIT.search(text) is not None


def text_after_result(text: str, sign: re.Pattern[str] | None = None) -> str | None:
    """Return the text after the last sign that introduces a result ("="). sign: pattern of the sign, by default RESULT.

    Returns None if there is no such sign, or if another calculation follows it.
    """
    signs = list((sign or RESULT).finditer(text))
    rest = text[signs[-1].end() :].lstrip() if signs else None
    return None if rest is None or CALCULATION.match(rest) else rest


def choose_number(numbers: list[Numeral], last: bool) -> FinalAnswer:
    """Return the first number, or the last one if `last` is True.

    Numbers that are circumstances of the answer (see Numeral) are skipped, unless all numbers are circumstances.
    """
    strong = [number for number in numbers if not number.circumstance] or numbers
    if not strong:
        return NO_NUMBER
    choice = strong[-1] if last else strong[0]
    return (
        FinalAnswer(None, choice.text, choice.unsettled) if choice.unsettled else FinalAnswer(choice.value, choice.text)
    )


def parse_box(content: str) -> FinalAnswer:
    """Parse the content of a LaTeX box: one number, or the result of an equation. Other content is not an answer."""
    if not contains_number(content) or REFUSED.search(content) or NO_ANSWER.match(content):
        return FinalAnswer(None, content, "no number in the box")
    content = TOLERANCE_MARK.sub(r"\1", content)
    result = text_after_result(content) or content.rsplit("=", 1)[-1]
    if PLUS_MINUS.search(content) or UNFINISHED.search(result) or OPEN_FUNCTION.search(result):
        return FinalAnswer(None, content, "a calculation without its result")
    numbers = numerals(result)
    strong = [number for number in numbers if not number.circumstance] or numbers
    if len({number.value for number in strong}) > 1:
        return FinalAnswer(None, content, "several numbers in one box")
    return choose_number(numbers, last=False)


def calculation_result(sentence: str) -> FinalAnswer | None:
    """Return the result of a sentence's calculation, such as 26 for "2 * 13 = 26 inches in 13 years".

    Returns None if there is no calculation, or if a later clause contains another number.
    """
    rest = text_after_result(sentence)
    if rest is None:
        split = EQUALS_CALCULATION.match(sentence)
        return choose_number(numerals(split[1]), last=True) if split else None
    clauses = NEXT_CLAUSE.split(rest, maxsplit=1)
    if (len(clauses) > 1 and contains_number(clauses[1])) or not numerals(rest):
        return None
    return choose_number(numerals(rest)[:1], last=False)


def last_box(text: str) -> str | None:
    """Return the content of the last LaTeX box, with number words as digits. Empty and withdrawn boxes are skipped."""
    boxes = [
        words_as_digits(match[1])
        for match in BOXED.finditer(text)
        if match[1].strip() and not CALLED_WRONG.match(text[match.end() : match.end() + MARKER_TAIL])
    ]
    return boxes[-1] if boxes else None


MARKER = re.compile(r"####|^[ \t]*A:|\banswer(?:\s+is)?\s*[:=]?\s*(?=[^\w\n]{0,4}\d)", re.IGNORECASE | re.MULTILINE)


def solution_number(text: str) -> FinalAnswer:
    """Return the number at the end of a worked solution.

    It is in the last box, or else after the last marker ("####", "A:", "the answer is"), or else in the last line with
    a number: the result of its calculation, or its last number.
    """
    text = without_latex(shorten_reply(text))
    if (content := last_box(text)) is not None:
        return parse_box(plain_notation(content))
    text = plain_notation(text)
    marks = [match.end() for match in MARKER.finditer(text)]
    if marks and contains_number(text[marks[-1] :]):
        line = next(line for line in text[marks[-1] :].split("\n") if contains_number(line))
        return choose_number(numerals(text_after_result(line) or line), last=False)
    lines = [line for line in text.split("\n") if contains_number(line)]
    if not lines:
        return NO_NUMBER
    return calculation_result(lines[-1]) or choose_number(numerals(lines[-1]), last=True)
