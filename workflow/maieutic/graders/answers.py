"""The final number of a worked solution (MathTutorBench problem solving and mistake correction)."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from fractions import Fraction

from maieutic.graders.reading import Reading, plain, unread
from maieutic.records import Item, Scoring

TOLERANCE = 1e-6

RELEASED_NUMBER = re.compile(r"-?\d*\.?\d+")
RELEASED_FINAL = re.compile(r"Final Answer:\s*\$?([-,\d]*\.?\d+)")
RELEASED_AMOUNT = re.compile(r"\$?([-,\d]*\.?\d+)")

# A minus belongs to the number unless it stands between two operands, as in 16-3.
SIGN = r"(?<![\w.)\]%])[-\u2212\u2013]\s?"
DIGITS = r"(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?|\.\d+"
NUMBER = re.compile(
    rf"(?P<sign>{SIGN})?(?:\$\s?(?P<minus>-)?)?(?:(?P<whole>\d+)\s+)?"
    rf"(?:(?P<over>\d+)\s?/\s?(?P<under>\d+)(?![\d/])|(?P<number>{DIGITS})(?P<power>[eE][+-]?\d{{1,2}}\b)?)"
)
MARKERS = (
    re.compile(r"####"),
    re.compile(r"final\s+answer(?:\s+is)?\s*[:=]?", re.IGNORECASE),
    re.compile(r"^[ \t]*A:", re.MULTILINE),
    re.compile(
        r"\banswer(?:\s+is\b(?!\s+(?:wrong|incorrect|not|right|correct|off|too|close))|\s*[:=])\s*[:=]?", re.IGNORECASE
    ),
)
Replacement = str | Callable[[re.Match[str]], str]


def quotient(over: str, under: str) -> str:
    """The value of a fraction that is none of whole numbers; nothing for one that has no value."""
    try:
        return f" {float(over.replace(',', '')) / float(under.replace(',', '')):.10g}"
    except (ValueError, ZeroDivisionError):
        return " "


LATEX: tuple[tuple[re.Pattern[str], Replacement], ...] = (
    (re.compile(r"\\[dt]?frac\s*\{(\d+)\}\s*\{(\d+)\}"), r" \1/\2"),
    (re.compile(r"\\[dt]?frac\s*\{(-?[\d.,]+)\}\s*\{(-?[\d.,]+)\}"), lambda found: quotient(found[1], found[2])),
    (re.compile(r"\\[dt]?frac\s*(\d)\s*(\d)(?!\d)"), r" \1/\2"),
    (re.compile(r"\\(?:text|mathrm|mathbf)\s*\{([^{}]*)\}(?:\^\{?\d\}?)?"), r" \1 "),
    (re.compile(r"\{,\}"), ","),
    (re.compile(r"\\[,;!: ]"), ""),
    (re.compile(r"\\([$%])"), r"\1"),
)
BOXED = re.compile(r"\\boxed\s*\{((?:[^{}]|\{[^{}]*\})*)\}")
# A box with work left to do, or with a time.
UNFINISHED = re.compile(r"\\sqrt|\d\s*\^\s*\{?\s*\d|\\(?:times|cdot)\s*[\d.]|\d:\d")
# The sign after a calculation or a lone variable: a result follows ("9*2 = 18", "x = 5"; not "with n = 4 friends").
RESULT = re.compile(r"(?:[\d)\]%>]\s*|^\W*[A-Za-z]\w?\s*)=")
SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
NEXT_CLAUSE = re.compile(r"[,;]\s|\b(?:and|so|then|leaving)\b")
BRACKETED = re.compile(r"\([^()]*\)")
TAIL = 400  # characters after a marker in which its number must stand


def released_last_number(text: str) -> float | None:
    """Q1: the last match of the released pattern, which reads 1,000 as 000 and 3 hours (180 minutes) as 180."""
    numbers = RELEASED_NUMBER.findall(text)
    return float(numbers[-1]) if numbers else None


def released_corrected_number(text: str) -> float | None:
    """The number after a case-sensitive `Final Answer:`, else the last number, commas allowed."""
    found = RELEASED_FINAL.search(text)
    numbers = [found.group(1)] if found else RELEASED_AMOUNT.findall(text)
    if not numbers:
        return None
    try:
        return float(numbers[-1].replace(",", ""))
    except ValueError:
        return None


def number_of(found: re.Match[str]) -> float | None:
    """The value of one match: thousands commas, mixed numbers and fractions understood."""
    if found["over"]:
        if int(found["under"]) == 0:
            return None
        value = float(Fraction(int(found["whole"] or 0)) + Fraction(int(found["over"]), int(found["under"])))
    else:
        value = float(found["number"].replace(",", "") + (found["power"] or ""))
    return -value if found["sign"] or found["minus"] else value


def numbers_in(text: str) -> list[tuple[float, str]]:
    """Every finite number of a text in order, with the characters it was read from."""
    numbers = []
    for found in NUMBER.finditer(text):
        if found["number"] and found["whole"]:  # two numbers side by side are two numbers
            numbers.append((float(found["whole"]), found["whole"]))
        value = number_of(found)
        if value is not None and math.isfinite(value):
            numbers.append((value, found[0].strip()))
    return numbers


def after_marker(text: str) -> str | None:
    """The first line with a number after the last marker of a final answer, or None."""
    ends = [found.end() for marker in MARKERS for found in marker.finditer(text)]
    if not ends:
        return None
    for line in text[max(ends) : max(ends) + TAIL].split("\n"):
        if NUMBER.search(line):
            return line
    return None


def after_result(text: str) -> str | None:
    """What follows the last sign of a result, or None where there is none."""
    signs = list(RESULT.finditer(text))
    return text[signs[-1].end() :] if signs else None


def result_of(text: str) -> tuple[float, str] | None:
    """The first number of what follows a calculation, unless a further clause goes on to another one."""
    clauses = NEXT_CLAUSE.split(text, maxsplit=1)
    if len(clauses) > 1 and numbers_in(clauses[1]):
        return None
    return next(iter(numbers_in(text)), None)


def final_number(text: str) -> tuple[float, str] | None:
    """The final answer and what it was read from: after a marker where there is one, else the text's last number."""
    for pattern, replacement in LATEX:
        text = pattern.sub(replacement, text)
    if boxed := [one for one in BOXED.findall(text) if NUMBER.search(one)]:
        result = after_result(boxed[-1]) or boxed[-1].rsplit("=", 1)[-1]
        return None if UNFINISHED.search(result) else next(iter(numbers_in(result)), None)
    text = plain(text)
    marked = after_marker(text)
    if marked is not None:
        marked = next(sentence for sentence in SENTENCE_END.split(marked) if NUMBER.search(sentence))
        marked = BRACKETED.sub(" ", marked) if NUMBER.search(BRACKETED.sub(" ", marked)) else marked
        numbers = numbers_in(after_result(marked) or marked) or numbers_in(marked)
        return numbers[0] if numbers else None
    # A conversion in brackets repeats the answer in another unit.
    unbracketed = BRACKETED.sub(" ", text)
    lines = [line for line in unbracketed.split("\n") if NUMBER.search(line)]
    sentences = [one for one in SENTENCE_END.split(lines[-1]) if NUMBER.search(one)] if lines else []
    # "2 * 13 = 26 inches in 13 years": the result of the last sentence's calculation, not its last number.
    if sentences and (result := result_of(after_result(sentences[-1]) or "")):
        return result
    numbers = numbers_in(unbracketed) or numbers_in(text)
    return numbers[-1] if numbers else None


def grade_number(item: Item, text: str, scoring: Scoring, corrected: bool) -> Reading:
    """Compare the reply's final number with the reference. paper_compat counts an unreadable reply as wrong."""
    gold = float(item.reference["answer"])
    if scoring == "paper_compat":
        value = (released_corrected_number if corrected else released_last_number)(text.strip())
        if value is None or not math.isfinite(value):
            return Reading(None, False, "", "no number")
        return Reading(value, abs(value - gold) < TOLERANCE, str(value))
    read = final_number(text)
    if read is None:
        return unread(text, "no number")
    return Reading(read[0], math.isclose(read[0], gold, rel_tol=1e-9, abs_tol=TOLERANCE), read[1])


def answer(item: Item, text: str, scoring: Scoring) -> list[Reading]:
    """Problem solving (MathTutorBench task 1)."""
    return [grade_number(item, text, scoring, corrected=False)]


def corrected_answer(item: Item, text: str, scoring: Scoring) -> list[Reading]:
    """Mistake correction (MathTutorBench task 5)."""
    return [grade_number(item, text, scoring, corrected=True)]
