"""The final number of a worked solution (MathTutorBench problem solving and mistake correction)."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import NamedTuple

from maieutic.core.records import Item, Scoring
from maieutic.graders.numerals import Numeral, numerals
from maieutic.graders.reading import Reading, plain, unread

TOLERANCE = 1e-6

RELEASED_NUMBER = re.compile(r"-?\d*\.?\d+")
RELEASED_FINAL = re.compile(r"Final Answer:\s*\$?([-,\d]*\.?\d+)")
RELEASED_AMOUNT = re.compile(r"\$?([-,\d]*\.?\d+)")

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
    (re.compile(r"(?<![\w.)\]%}])(?<![\w)\]%}]\s)[-\u2212] ?\\[dt]?frac\s*\{(\d+)\}\s*\{(\d+)\}"), r" -\1/\2"),
    (re.compile(r"\\[dt]?frac\s*\{(\d+)\}\s*\{(\d+)\}"), r" \1/\2"),
    (re.compile(r"\\[dt]?frac\s*\{(-?[\d.,]+)\}\s*\{(-?[\d.,]+)\}"), lambda match: quotient(match[1], match[2])),
    (re.compile(r"\\[dt]?frac\s*(\d)\s*(\d)(?!\d)"), r" \1/\2"),
    (re.compile(r"\\(?:text|mathrm|mathbf)\s*\{([^{}]*)\}(?:\^\{?\d\}?)?"), r" \1 "),
    (re.compile(r"\\(?:times|cdot|ast)\b"), "\u00d7"),
    (re.compile(r"\\approx\b"), "\u2248"),
    (re.compile(r"\\(?:left|right|displaystyle|circ)\b|\^\{?\\circ\}?"), ""),
    (re.compile(r"\{,\}"), ","),
    (re.compile(r"\\[,;!: ]"), ""),
    (re.compile(r"\\([$%])"), r"\1"),
)
BOXED = re.compile(r"\\boxed\s*\{((?:[^{}]|\{[^{}]*\})*)\}")
# A box with work left to do, or with a time.
UNFINISHED = re.compile(r"\\sqrt|[*\u00d7]\s*(?!10\s*\^)[\d.(]|\d\s*\+\s*\d|\d:\d")
DIGIT = re.compile(r"\d|[\u00bc-\u00be\u2150-\u215e]")
# The sign after a calculation or a lone variable: a result follows ("9*2 = 18", "x = 5"; not "with n = 4 friends").
RESULT = re.compile(r"(?:[\d)\]%>]\s*|^\W*[A-Za-z]\w?\s*)[=\u2248]")
# After a marker also one behind units or words: "5 cm × 5 cm = 25 cm", "20 plus 5 equals 25", "2 weeks = 14 days".
MARKED_RESULT = re.compile(
    r"[\d)\]%](?:\s*[/*]?\s*(?!(?:where|when|with|if|let|for|since|because|given|so)\b)[A-Za-z]{1,15}){0,3}\s*"
    r"(?:[=\u2248]|\bequals\b|\bis\s+equal\s+to\b)",
    re.IGNORECASE,
)
SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
NEXT_CLAUSE = re.compile(r"[,;]\s|\b(?:and|so|then|leaving)\b")
BRACKETED = re.compile(r"\([^()]*\)")
LIST_MARK = re.compile(r"^\s*\(?\d{1,2}[.)]\s+")
LONGEST = 2000  # characters at the end of a sentence that are read
TAIL = 400  # characters after a marker in which its number must stand


def released_last_number(text: str) -> float | None:
    """Q1: the last match of the released pattern, which reads 1,000 as 000 and 3 hours (180 minutes) as 180."""
    numbers = RELEASED_NUMBER.findall(text)
    return float(numbers[-1]) if numbers else None


def released_corrected_number(text: str) -> float | None:
    """The number after a case-sensitive `Final Answer:`, else the last number, commas allowed."""
    match = RELEASED_FINAL.search(text)
    numbers = [match.group(1)] if match else RELEASED_AMOUNT.findall(text)
    if not numbers:
        return None
    try:
        return float(numbers[-1].replace(",", ""))
    except ValueError:
        return None


class Final(NamedTuple):
    """The final answer of a text: its value and the characters that it was read from, or why there is none."""

    value: float | None
    text: str
    why_none: str | None = None


NOTHING = Final(None, "", "no number")


def holds_number(text: str) -> bool:
    """Whether a text holds a digit: the cheap question before `numerals`."""
    return DIGIT.search(text) is not None


def after_marker(text: str) -> str | None:
    """The first line with a number after the last marker of a final answer, without its list mark, or None."""
    ends = [match.end() for marker in MARKERS for match in marker.finditer(text)]
    if not ends:
        return None
    end = len(text[: max(ends)].rstrip())
    own, *further = text[end : end + TAIL].split("\n")
    lines = [own, *(LIST_MARK.sub("", line) for line in further)]
    return next((line for line in lines if holds_number(line)), None)


def after_result(text: str, sign: re.Pattern[str] = RESULT) -> str | None:
    """What follows the last sign of a result, or None where there is none."""
    signs = list(sign.finditer(text))
    return text[signs[-1].end() :].lstrip() if signs else None


def without_brackets(text: str) -> str:
    """The text without its bracketed parts where it holds a number then: they repeat the answer in another unit."""
    bare = BRACKETED.sub(" ", text)
    return bare if holds_number(bare) else text


def first_sentence(text: str) -> str:
    """The first sentence with a number."""
    return next(sentence for sentence in SENTENCE_END.split(text) if holds_number(sentence))


def chosen(numbers: list[Numeral], last: bool) -> Final:
    """The answer among the numbers of a sentence: the first of those that are not circumstances, or the last."""
    strong = [number for number in numbers if not number.weak] or numbers
    if not strong:
        return NOTHING
    choice = strong[-1] if last else strong[0]
    return Final(None, choice.text, choice.unsettled) if choice.unsettled else Final(choice.value, choice.text)


def in_box(content: str) -> Final:
    """The answer in a box: one number, or what an equation gives; none with work left to do, or with two values."""
    result = after_result(content) or content.rsplit("=", 1)[-1]
    if UNFINISHED.search(result):
        return Final(None, content, "a calculation without its result")
    numbers = numerals(result)
    strong = [number for number in numbers if not number.weak] or numbers
    if len({number.value for number in strong}) > 1:
        return Final(None, content, "several numbers in one box")
    return chosen(numbers, last=False)


def of_calculation(sentence: str) -> Final | None:
    """The first number after a sentence's calculation, unless a further clause goes on to another one.

    "2 * 13 = 26 inches in 13 years": the result, not the last number.
    """
    rest = after_result(sentence)
    if rest is None:
        return None
    clauses = NEXT_CLAUSE.split(rest, maxsplit=1)
    if (len(clauses) > 1 and holds_number(clauses[1])) or not numerals(rest):
        return None
    return chosen(numerals(rest)[:1], last=False)


def read_final(text: str) -> Final:
    """The final answer of a worked solution, as a person reads it.

    In order: the last box that holds a number; the line after the last marker ("Final answer:", "####", "A:", "the
    answer is"), of its first sentence the result of a calculation or the first number that is not a circumstance; else
    of the text's last sentence with a number the result of its calculation or the last such number.
    """
    for pattern, replacement in LATEX:
        text = pattern.sub(replacement, text)
    if boxed := [content for content in BOXED.findall(text) if holds_number(content)]:
        return in_box(plain(boxed[-1]))
    text = plain(text)
    marked = after_marker(text)
    if marked is not None:
        sentence = without_brackets(first_sentence(marked)).strip()
        result = after_result(sentence) or after_result(sentence, MARKED_RESULT)
        numbers = numerals(result or sentence) or numerals(sentence)
        return chosen(numbers, last=False)
    lines = [line for line in without_brackets(text).split("\n") if holds_number(line)]
    if not lines:
        return NOTHING
    sentence = [part for part in SENTENCE_END.split(lines[-1]) if holds_number(part)][-1][-LONGEST:]
    return of_calculation(sentence) or chosen(numerals(sentence) or numerals(text[-LONGEST:]), last=True)


def final_number(text: str) -> tuple[float, str] | None:
    """The final answer and what it was read from, or None."""
    read = read_final(text)
    return None if read.value is None else (read.value, read.text)


def grade_number(item: Item, text: str, scoring: Scoring, corrected: bool) -> Reading:
    """Compare the reply's final number with the reference. paper_compat counts an unreadable reply as wrong."""
    gold = float(item.reference["answer"])
    if scoring == "paper_compat":
        value = (released_corrected_number if corrected else released_last_number)(text)
        if value is None or not math.isfinite(value):
            return Reading(None, False, "", "no number")
        return Reading(value, abs(value - gold) < TOLERANCE, str(value))
    read = read_final(text)
    if read.value is None:
        return unread(text, str(read.why_none))
    return Reading(read.value, math.isclose(read.value, gold, rel_tol=1e-9, abs_tol=TOLERANCE), read.text)


def answer(item: Item, text: str, scoring: Scoring) -> list[Reading]:
    """Problem solving (MathTutorBench task 1)."""
    return [grade_number(item, text, scoring, corrected=False)]


def corrected_answer(item: Item, text: str, scoring: Scoring) -> list[Reading]:
    """Mistake correction (MathTutorBench task 5)."""
    return [grade_number(item, text, scoring, corrected=True)]
