"""Read the final answer of a worked solution (MathTutorBench problem solving and mistake correction)."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Callable
from typing import NamedTuple

from maieutic.core.options import is_option_letter
from maieutic.core.records import Item, Scoring
from maieutic.graders.choices import grade_choice
from maieutic.graders.number_words import fractions_as_digits, words_as_digits
from maieutic.graders.numerals import CONTEXT, Numeral, numerals
from maieutic.graders.passages import (
    BOXED,
    BREAKS_OFF,
    MOST_WITHDRAWN,
    QUESTION,
    QUOTED_ANSWER,
    fields_as_lines,
    is_closing,
    sentences,
    shorten_reply,
    without_sources,
    without_struck_text,
)
from maieutic.graders.reading import Reading, plain_notation, unread_reply

TOLERANCE = 1e-6

RELEASED_NUMBER = re.compile(r"-?\d*\.?\d+")
RELEASED_FINAL = re.compile(r"Final Answer:\s*\$?([-,\d]*\.?\d+)")
# The released code's pattern, `\$?([-,\d]*\.?\d+)`, is slow on long runs of commas and hyphens. This one skips them.
RELEASED_AMOUNT = re.compile(r"\$?([-,\d]*\.?\d+)|[-,]+")

MARKERS = (
    re.compile(r"####"),
    re.compile(r"final\s+answer(?:\s+is)?\s*[:=]?", re.IGNORECASE),
    re.compile(r"^[ \t]*A:", re.MULTILINE),
    re.compile(
        (
            r"\banswer(?:\s+to\s+(?:the\s+)?\w+(?:\s+\w+){0,2}?)?(?:\s+is\b(?!\s+(?:wrong|incorrect|not|right"
            r"|correct|off|too|close))|\s*[:=])\s*[:=]?"
        ),
        re.IGNORECASE,
    ),
)
Replacement = str | Callable[[re.Match[str]], str]


def quotient(over: str, under: str) -> str:
    """Return a space and the quotient `over` / `under` as text, or only the space if it cannot be computed."""
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
# Signs in a LaTeX box that its content is an unfinished calculation or a time of day.
UNFINISHED = re.compile(r"\\sqrt|[*\u00d7]\s*(?!10\s*\^)[\d.(]|\d\s*\+\s*\d|\d:\d")
DIGIT = re.compile(r"\d|[\u00bc-\u00be\u2150-\u215e]")
# The equals sign before a calculation's result or a variable's value: "9*2 = 18", "x = 5"; not "with n = 4 friends".
RESULT = re.compile(
    r"(?:[\d)\]}%>\u03c0]\s*|^\W*[A-Za-z]\w?\s*|\b(?:so|and|then|thus|hence|therefore)\s+[A-Za-z]\s*)[=\u2248]"
)
# The equals sign after an answer marker may also follow a unit or a word: "5 cm × 5 cm = 25 cm", "20 plus 5 equals".
MARKED_RESULT = re.compile(
    r"[\d)\]%](?:\s*[/*]?\s*(?!(?:where|when|with|if|let|for|since|because|given|so)\b)[A-Za-z]{1,15}){0,3}\s*"
    r"(?:[=\u2248]|\bequals\b|\bis\s+equal\s+to\b)|\bhalf\s+of\s+\S+\s+is\b",
    re.IGNORECASE,
)
SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
NEXT_CLAUSE = re.compile(r"[,;]\s|\b(?:and|so|then|leaving)\b")
BRACKETED = re.compile(r"(?<!\^)\([^()]*\)")
LIST_MARK = re.compile(r"^\s*\(?\d{1,2}[.)]\s+")
MAX_DENIAL_WORDS = 8  # a line below the marker can mean "no answer" only if it has at most this many words
ESCAPE = re.compile(r"\x1b\[[0-9;]*[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f\xad]")
KEYCAP = re.compile(r"([0-9])\u20e3(?=(?:([0-9]\u20e3|\W*(?:$|\n))|))")
HTML_POWER = re.compile(r"<sup>\s*(-?\d{1,3})\s*</sup>", re.IGNORECASE)
PYTHON_POWER = re.compile(r"(?<=\d)\*\*(?=-?\d)")
NOTATION = (
    (re.compile(r"\bRs\.?\s*(?=\d)", re.IGNORECASE), "\u20b9"),
    (re.compile(r":-(?=\s)"), ":"),
    (re.compile(r"(?<=[.!?])[\u00b9\u00b2\u00b3](?=\s|$)|^[\u00b9\u00b2\u00b3]\s.*$", re.MULTILINE), ""),
    (re.compile(r"</?(?:b|i|u|em|strong|span|p|div|sub)\b[^>]*>", re.IGNORECASE), ""),
    (re.compile(r"\\[hv]space\*?\{[^{}]*\}"), ""),
    (re.compile(r"\\pi\b"), "\u03c0"),
    (re.compile(r"\\pm\b"), "\u00b1"),
    (re.compile(r"\\sqrt\b"), "\u221a"),
    (re.compile(r"\\(?:log|ln|sin|cos|tan)(?![A-Za-z])"), "\u221a"),
    (
        re.compile(
            r"((?<![\d.,/])[$\u20ac\u00a3]?\d[\d.,/]*+)\s+is\s+(?:the|my|our)\s+(?:final\s+|correct\s+)?answer\b",
            re.IGNORECASE,
        ),
        r"Final answer: \1. ",
    ),
)
REMARK = re.compile(
    r"[ \t]*(?:[-\u2013\u2014;(]\s*|,\s+)(?:my |with )?(?:confidence|certainty)\b.*$", re.IGNORECASE | re.MULTILINE
)
# A line end between a number and a heading such as "Explanation:".
EXPLANATION = re.compile(
    r"(?<=\d)[^\w\n]*\n\s*(?=\W*(?:explanation|reasoning|justification|rationale|here(?:'s| is) why)\b\s*[:\n])",
    re.IGNORECASE,
)
BARE_MARKER = re.compile(r"\W*(?:the\s+)?(?:final\s+)?answer(?:\s+is)?\W*$", re.IGNORECASE)
ASKS_FIRST = re.compile(r"\bbefore i (?:finish|answer|give|go on|continue)\b[^?]*\?\W*\Z", re.IGNORECASE)
ERROR_REPORT = re.compile(r"\A\W*error\W*:", re.IGNORECASE)
ANSWER_LINE = re.compile(
    r"^[^\w\n]{0,10}(?:final[ _]?)?(?:answer|result|final|solution)[\"']?\s*[:=][ \t]*(.*)$",
    re.IGNORECASE | re.MULTILINE,
)
BLOCK_QUOTE = re.compile(r"^[ \t]*>[ \t].*$", re.MULTILINE)
NAME_OF_PART = re.compile(
    r"\b(?:steps?|exercises?|questions?|problems?|examples?|pages?|chapters?|figures?|tables?|equations?)\s*$",
    re.IGNORECASE,
)
NO_MARKER = re.compile(r"\bno\s+(?:\w+\s+)?(?:final\s+)?answer\W*(?:is)?\W*$", re.IGNORECASE)
REFERS_ELSEWHERE = re.compile(r"\W*see\b", re.IGNORECASE)
WITHDRAWN = re.compile(
    (
        r"\b(?:wait(?=\s*[,.!:;\u2013\u2014-]|\s+(?:no|actually|that|let|i)\b)|hold on|oops|whoops"
        r"|on (?:second|closer|reflection|further)\b(?: (?:thought|look|inspection))?s?|actually"
        r"|corrections?|corrected|edit(?:ed)?(?=\s*:)|update(?=\s*:)"
        r"|(?P<void>(?:scratch|strike|ignore|forget) that)|(?P<wrong>(?<=[.!\n] )(?:that|this|it)(?:'s"
        r"| is) (?:wrong|incorrect|not right))|i (?:was wrong|meant|mean|correct (?:that|myself|it)"
        r"|take (?:that|it) back|misspoke)|sorry(?! for| about)|apologies(?! for)|my (?:mistake|bad)|no!"
        r"|no, (?:that|it)(?:'s| is) not right)(?!\w)[\s,:.!;\u2013\u2014-]*"
    ),
    re.IGNORECASE,
)
ANSWERLESS = re.compile(
    r"^\W*(?:this|that|it)(?:'s| is) (?:wrong|incorrect|not right)\b|\bstart again\b|\bcan'?t find the right one\b",
    re.IGNORECASE,
)
CALCULATION = re.compile(
    r"(?!\d+ ?/ ?\d+\W*$)[$\u20ac\u00a3]?\d[\d.,]*\s*[-+*/\u00d7\u00f7]\s*[$\u20ac\u00a3]?\d[^=]*$"
)
EQUALS_CALCULATION = re.compile(
    r"([^=]*\d[^=]*)=\s*(?!\d+ ?/ ?\d+\W*$)[$\u20ac\u00a3]?\d[\d.,]*\s*[-+*/\u00d7\u00f7]\s*[$\u20ac\u00a3]?\d[^=]*$"
)
NO_ANSWER = re.compile(
    (
        r"(?:none|n/?a|null|unknown|undetermined|undefined|not (?:determined|known|enough|given|available"
        r"|possible)|no (?:answer|solution|unique)|cannot|can'?t|could not|impossible|insufficient"
        r"|infinitely many)\b"
    ),
    re.IGNORECASE,
)
REFUSED = re.compile(
    (
        r"\b(?:can(?:not|'t|\u2019t)|could(?: not|n'?t)|(?:(?:am|is|are|was|'m|be) (?:not |un)|wasn'?t )able to|(?:is "
        r"|it'?s )?impossible to|no way to|not possible to|(?:do|does|did)(?: not|n'?t) (?:allow (?:us"
        r"|me) to|let (?:us|me))|won'?t|will not|(?:would|'d) rather not|not allowed to)\s+(?:\w+\s+){0,2}?"
        r"(?:be (?:determined|solved|answered|calculated|computed|known|found|given)|determine|solve"
        r"|answer|calculate|compute|know|say|tell|find|figure|work|help|give|provide|assist|do|finish"
        r"|complete|show|share|commit)\b"
        r"|\b(?:not enough|insufficient|too few|too little) (?:information|data|details|facts|context)\b"
        r"|\bundetermined\b|\bnot determined\b|\b(?:is|are|stays?|remains?) (?:unknown|undefined"
        r"|incomplete)\b|(?<!\bno )\b(?:information|prices?|data|values?|numbers?|speed|weight|length|cost"
        r"|details?|facts?)(?: (?:of|for|on) [\w ]{1,30})? (?:is|are) missing\b"
        r"|\bno (?:unique |single |clear )?(?:answer|solution)(?: can be| found| exists?| is possible|:|\."
        r"|$)?|\binfinitely many\b|\b(?:do(?:es)? not|don'?t|doesn'?t) (?:know|have access|say)\b"
        r"|\bno idea\b|\bi can only answer\b|\berror (?:code )?\d{3}\b"
        r"|\bdid not come through\b|\b(?:is|are) not given\b|\bwould need (?:at least|more|the|to know)\b"
        r"|\byou have used\b|\bwhat is the question\b"
    ),
    re.IGNORECASE,
)
WORDS_ONLY = re.compile(
    r"[^\w-]*+-?[$\u20ac\u00a3]?\d(?:[\d.,/ ]*\d)?(?: (?:dozen|percent|dollars?|euros?|pounds?|cents?))?\W*"
)
BROKEN_OFF = re.compile(r"\d\s*(?:[+*/\u00d7\u00f7=]|=\s*\?|\s-)\s*$")
CUT_OFF = re.compile(r"\d\s*(?:[+*/\u00d7\u00f7=]|\s-)\s*$")
REASON = re.compile(
    (
        r"\bbecause\b(?!.*\b(?:so|thus|therefore|hence)\b)|(?<!and )\bsince\b(?!.*(?:,|\bso\b))"
        r"|\bafter an? (?:\w+ )?(?:discount|increase|decrease|tax|tip)\b|,\s*as\b"
    ),
    re.IGNORECASE,
)
APPROXIMATE_GLOSS = re.compile(
    r"((?<![\d.,])\d[\d.,]*\s*(?:[A-Za-z%$]+)?)\s*,?\s*\(?(?:or|i\.e\.,?)\s+(?:about|roughly"
    r"|approximately|around|nearly|some)\s+[$\u20ac\u00a3]?\d[\d.,]*\)?"
)
DENIED = re.compile(
    (
        r"(?:[,(\u2013\u2014-]\s?)?\(?(?:\b(?:and|but)\s+)?(?:\b(?:certainly|definitely|surely"
        r"|clearly)\s+)?(?:\bnot|\brather than|\binstead of|\bisn'?t|\bnever|n't|\bcan(?:no"
        r"|'?)t be)\s+(?:just\s+|about\s+|equal to\s+"
        r"|be\s+)?[$\u20ac\u00a3\u20b9]?\d(?:[\d.,]*\d)?%?!?\)?(?:\s*(?:,|,?\s*or"
        r"|nor)\s*\d[\d.]*)*(?!\s*(?:\d|only))"
    ),
    re.IGNORECASE,
)
CALLED_WRONG_NUMBER = re.compile(
    (
        r"(?:\band\s+|[;,]\s*)?(?<![\d.,])[$\u20ac\u00a3]?\d[\d.,]*+\s+(?:is|was|would be)\s+(?:wrong"
        r"|incorrect|not right)\b"
    ),
    re.IGNORECASE,
)
CALLED_WRONG = re.compile(r"\W{0,4}(?:is|was|would be)\s+(?:wrong|incorrect|not right)\b", re.IGNORECASE)
IMMEDIATE = re.compile(
    r"^[\s\"'(*:=$\u20ac\u00a3\u20b9\u2248~-]*(?:(?:about|approximately|roughly|exactly|only"
    r"|a total of)\s+)?[$\u20ac\u00a3\u20b9]?\d[\d.,/]*(?:\s+\d/\d)?"
)
PART_OF = re.compile(r"[\s$]*(?:of\b|[-+*/\u00d7\u00f7=^]|[A-Za-z]\s*[-+=])|\s*%\s*of\b")
CONCLUSION = re.compile(
    (
        r"(?:,|;|:|\band\b)?\s*\b(?:so|thus|therefore|hence|which (?:is|makes|gives|equals)|making|giving"
        r"|for a total of|in total,?|altogether,?|that is|i\.e\.,?)\s+"
    ),
    re.IGNORECASE,
)
OPEN_FUNCTION = re.compile(r"(?:\u221a|\bsqrt)\s*[({_]?\s*\d|\d\s*\u03c0|\u03c0\s*\d")
OR_NUMBER = re.compile(
    r"(?<![\d.,])\d[\d.,]*+\s+or\s+(?:[a-z]\s*=\s*)?-?[$\u20ac\u00a3]?\d(?!\w*\s+(?:more|less|fewer))", re.IGNORECASE
)
POSSIBLY = re.compile(r"\b(possibly|maybe|perhaps)\s+\S*\d.*\b\1\s+\S*\d", re.IGNORECASE)
PLUS_MINUS = re.compile(r"(?:^|[^\d)\s])\s*\u00b1\s*\d")
TOLERANCE_MARK = re.compile(r"(\d)\s*\u00b1\s*\d[\d.,]*")
POWER_TOWER = re.compile(r"\^\s*\(|\d\s?\^\s*\d++\s*\^|\^\s*-?\d{4,}|\\[dt]?frac")
FEET = re.compile(r"\d'\s?\d{1,2}\"")
FROM_TO = re.compile(r"\W*from\s+\S*\d\S*\s+to\s+\S*\d\S*\W*", re.IGNORECASE)
AFTERWORD = re.compile(
    (
        r"((?:^|(?<=[.!?\]]\s)|(?<=[.!?]\s\s))[ \t#*_>-]*(?:tips?(?: for [\w ]+)?|hints?"
        r"|common (?:mistakes|errors|pitfalls)|(?:an? |one |another |your )?(?:follow-?up|practice|similar"
        r"|extra|bonus|new|next)(?: \w+)? (?:exercises?|problems?|questions?|tasks?)"
        r"|your turn|try (?:it|this|these) yourself|rate this(?: \w+)?|more practice)[ \t*_]*[:!\n]|(?:^"
        r"|(?<=[.!?]\s))p\.\s?s\.)"
    ),
    re.IGNORECASE | re.MULTILINE,
)
MONTHS = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
DATE = re.compile(
    (
        rf"\b\d{{4}}-\d\d-\d\d\b|\b\d\d/\d\d/\d{{4}}\b|\b{MONTHS}\s+\d{{1,2}}(?:st|nd|rd|th)?,\s+\d{{4}}\b"
        rf"|\b\d{{1,2}}(?:st|nd|rd|th)?\s+{MONTHS},?\s+\d{{4}}\b|\b\d{{1,2}}\s*(?:a\.m\.|p\.m\.|o'clock)"
        rf"|\b1?-?\d{{3}}-\d{{3}}-\d{{4}}\b"
    ),
    re.IGNORECASE,
)
DIRECT_ANSWER = re.compile(r"(?:####|\banswer(?:\s+is\b|(?:\s+is)?\s*[:=])|^\W*A:)\s*\W{0,6}\d", re.IGNORECASE)
MAX_SENTENCE_CHARACTERS = 2000  # only this many characters at the end of a sentence are read
MARKER_TAIL = 400  # only this many characters after an answer marker are searched for the answer's number


def released_last_number(text: str) -> float | None:
    """Return the last number of a text as the released code does. Commas split numbers, so that 1,000 is read as 0."""
    numbers = RELEASED_NUMBER.findall(text)
    return float(numbers[-1]) if numbers else None


def released_corrected_number(text: str) -> float | None:
    """Return the number after `Final Answer:` (case-sensitive), or else the last number, as the released code does."""
    match = RELEASED_FINAL.search(text)
    numbers = [match.group(1)] if match else [number for number in RELEASED_AMOUNT.findall(text) if number]
    if not numbers:
        return None
    try:
        return float(numbers[-1].replace(",", ""))
    except ValueError:
        return None


class FinalAnswer(NamedTuple):
    """Final answer of a text, with the characters from which it was read. why_none: reason if `value` is None."""

    value: float | None
    text: str
    why_none: str | None = None


NO_NUMBER = FinalAnswer(None, "", "no number")


def contains_number(text: str) -> bool:
    """Return True if a text contains a digit. This check is cheaper than a call of `numerals`."""
    return DIGIT.search(text) is not None


def may_contain_number(text: str) -> bool:
    """Return True if a text contains a digit or a number word."""
    return contains_number(text) or words_as_digits(text) != text


def prepare_solution(text: str) -> str:
    """Return a reply without struck-out text, sources and quotations, and in simpler notation.

    JSON objects, tags and tables become lines.
    """
    text = ESCAPE.sub("", shorten_reply(text).replace("\ufe0f\u20e3", "\u20e3"))
    text = KEYCAP.sub(lambda match: match[1] if match[2] is not None else " ", text).replace("\u20e3", "")
    text = without_struck_text(html.unescape(text) if "&" in text else text)
    text = HTML_POWER.sub(r"^\1", text) if "<sup>" in text else text
    text = PYTHON_POWER.sub("^", text) if text.count("**") % 2 else text
    for pattern, replacement in NOTATION:
        text = pattern.sub(replacement, text)
    text = answer_fields(REMARK.sub("", without_sources(text)))
    text = text[: match.start()] if (match := EXPLANATION.search(text)) else text
    last = max((match.end() for match in BLOCK_QUOTE.finditer(text)), default=len(text))
    outside = QUOTED_ANSWER.sub(" ", BLOCK_QUOTE.sub("", text) if contains_number(text[last:]) else text)
    return outside if contains_number(outside) else text


def answer_fields(text: str) -> str:
    """Rewrite JSON objects, tags and tables of a text as plain lines; repeat the last answer field as the last line.

    A text that begins with "Error:" and has no answer field becomes "Final answer: none".
    """
    lines = fields_as_lines(text)
    if ERROR_REPORT.search(lines) and not ANSWER_LINE.search(lines):
        return "Final answer: none"
    if lines == text or not (answers := ANSWER_LINE.findall(lines)):
        return lines
    return lines if ANSWER_LINE.search(text) else f"{lines}\nFinal answer: {answers[-1].strip() or 'none'}"


def line_after_marker(text: str) -> str | None:
    """Return the first line with a number after the last answer marker, without its list number.

    Returns an empty text if the reply breaks off after the marker, or denies there that an answer exists. Returns None
    if the text has no marker, or no number after it.
    """
    ends = [
        match.end()
        for marker in MARKERS
        for match in marker.finditer(text)
        if not NO_MARKER.search(text[max(0, match.start() - CONTEXT) : match.end()])
        and not REFERS_ELSEWHERE.match(text[match.end() :])
    ]
    if not ends:
        return None
    if BREAKS_OFF.search(text) and text[max(ends) :].strip(" *_") and not contains_number(text[max(ends) :]):
        return ""
    end = len(text[: max(ends)].rstrip())
    marked_line, *further = text[end : end + MARKER_TAIL].split("\n")
    for place, line in enumerate([marked_line, *(LIST_MARK.sub("", line) for line in further)]):
        if (place == 0 or len(line.split()) <= MAX_DENIAL_WORDS) and NO_ANSWER.match(line.strip(" .:*_")):
            return ""
        line = line if contains_number(line) else words_as_digits(line)
        if contains_number(line):
            return line
    return None


def text_after_result(text: str, sign: re.Pattern[str] = RESULT) -> str | None:
    """Return the text after the last sign that introduces a result ("=").

    Returns None if there is no such sign, or if another calculation follows it.
    """
    signs = list(sign.finditer(text))
    rest = text[signs[-1].end() :].lstrip() if signs else None
    return None if rest is None or CALCULATION.match(rest) else rest


def without_brackets(text: str) -> str:
    """Remove parts in brackets, which often repeat the answer in another unit, if a number remains outside them."""
    bare = BRACKETED.sub(" ", text)
    return bare if contains_number(bare) else text


def first_sentence(text: str) -> str:
    """Return the first sentence that contains a number."""
    return next(sentence for sentence in SENTENCE_END.split(text) if contains_number(sentence))


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


def read_final(text: str) -> FinalAnswer:
    """Return the final answer of a worked solution, as a person would read it.

    Withdrawn text and remarks around the answer (offers, questions, checks, sources) are ignored. The answer is in the
    first of these places that exists:

    1. The last LaTeX box.
    2. The line after the last marker ("Final answer:", "####", "A:", "the answer is"). Its first sentence yields its
       conclusion, the result of its calculation, or its first number that is not a circumstance.
    3. The last sentence with a number, which yields the result of its calculation or its last number that is not a
       circumstance.

    A circumstance is a number that belongs to the context of the answer, such as "in 3 years" (see Numeral). Number
    words are read only after a marker, in a box, or as the whole last line.
    """
    text = prepare_solution(text)
    for pattern, replacement in LATEX:
        text = pattern.sub(replacement, text)
    if (content := last_box(text)) is not None:
        return parse_box(plain_notation(content))
    text = fractions_as_digits(plain_notation(text))
    for match in list(WITHDRAWN.finditer(text))[: -MOST_WITHDRAWN - 1 : -1]:
        rest = text[match.end() :]
        if (final := read_passage(rest)).value is not None and (
            line_after_marker(rest) or contains_answer_number(rest)
        ):
            return final
        if match["void"] or match["wrong"] or ANSWERLESS.search(rest):
            return FinalAnswer(None, match[0].strip(), "withdrawn")
    return read_passage(text)


def last_box(text: str) -> str | None:
    """Return the content of the last LaTeX box, with number words as digits. Empty and withdrawn boxes are skipped."""
    boxes = [
        words_as_digits(match[1])
        for match in BOXED.finditer(text)
        if match[1].strip() and not CALLED_WRONG.match(text[match.end() : match.end() + MARKER_TAIL])
    ]
    return boxes[-1] if boxes else None


def contains_answer_number(text: str) -> bool:
    """Return True if a text contains a number that is not a circumstance of an answer (a step, a given quantity)."""
    return any(not number.circumstance for number in numerals(text))


def read_passage(text: str) -> FinalAnswer:
    """Return the final answer of a text in plain notation. Remarks around the answer are ignored."""
    kept = without_remarks(text)
    marked = line_after_marker(kept)
    if marked is not None:
        return read_marked_line(marked) if marked else FinalAnswer(None, "", "no answer after its marker")
    if ASKS_FIRST.search(text):
        return FinalAnswer(None, "", "asks a question before it answers")
    if (end := refusal_end(kept)) is not None:
        kept = kept[end:]
        if not contains_number(kept):
            return FinalAnswer(None, "", "states that there is no answer")
    lines = [line for line in without_brackets(kept).split("\n") if line.strip()]
    if (
        lines
        and len(lines[-1]) < MARKER_TAIL
        and not contains_number(lines[-1])
        and WORDS_ONLY.fullmatch(whole := words_as_digits(lines[-1]).strip())
    ):
        return choose_number(numerals(whole), last=True)
    if lines and not contains_number(lines[-1]) and BREAKS_OFF.search(lines[-1]) and not BARE_MARKER.match(lines[-1]):
        return FinalAnswer(None, lines[-1][-MARKER_TAIL:], "breaks off")
    lines = [line for line in lines if contains_number(line)]
    if not lines:
        return FinalAnswer(None, "", "numbers only in remarks and questions") if contains_number(text) else NO_NUMBER
    sentence = [part for part in SENTENCE_END.split(lines[-1]) if contains_number(part)][-1][-MAX_SENTENCE_CHARACTERS:]
    return read_sentence(sentence, kept)


def read_sentence(sentence: str, text: str) -> FinalAnswer:
    """Return the answer in a sentence that has no answer marker. text: passage that ends with the sentence."""
    if BROKEN_OFF.search(text):
        return FinalAnswer(None, sentence[-MARKER_TAIL:], "breaks off within a calculation")
    sentence = without_denied_numbers(sentence)
    if not contains_number(sentence):
        return FinalAnswer(None, "", "only states what the answer is not")
    *_, concluded = CONCLUSION.split(sentence)
    sentence = concluded if OR_NUMBER.search(sentence) and contains_answer_number(concluded) else sentence
    if why := ambiguity_of(sentence):
        return FinalAnswer(None, sentence[-MARKER_TAIL:], why)
    sentence = without_reason(sentence)
    if final := calculation_result(sentence):
        return final
    numbers = numerals(sentence)
    if numbers and all(NAME_OF_PART.search(sentence[: number.start]) for number in numbers):
        return FinalAnswer(None, sentence[-MARKER_TAIL:], "numbers only of steps or exercises")
    return choose_number(numbers or numerals(text[-MAX_SENTENCE_CHARACTERS:]), last=True)


def without_reason(sentence: str) -> str:
    """Remove the reason that a sentence adds to its number ("8, because 8 + 8 + 8 = 24").

    A reason that computes another number is kept, because its result is the answer ("50 feet because 40 + 30 = 70").
    """
    stated, *reason = REASON.split(sentence, maxsplit=1)
    if not reason or not contains_answer_number(stated):
        return sentence
    used = {number.value for number in numerals(reason[0])}
    return sentence if text_after_result(reason[0]) and numerals(stated)[-1].value not in used else stated


def read_marked_line(line: str) -> FinalAnswer:
    """Return the answer in a line that follows an answer marker."""
    sentence = without_denied_numbers(without_brackets(first_sentence(APPROXIMATE_GLOSS.sub(r"\1", line))).strip())
    if not contains_number(sentence):
        return FinalAnswer(None, "", "only states what the answer is not")
    if CUT_OFF.search(sentence):
        return FinalAnswer(None, sentence, "breaks off within a calculation")
    if (refusal := REFUSED.search(sentence)) and not contains_number(sentence[: refusal.start()]):
        return FinalAnswer(None, "", "states that there is no answer")
    sentence = TOLERANCE_MARK.sub(r"\1", sentence)
    result = conclusion_of(sentence) or text_after_result(sentence) or text_after_result(sentence, MARKED_RESULT)
    if result is None and (why := ambiguity_of(sentence)):
        return FinalAnswer(None, sentence, why)
    return choose_number(numerals(result or sentence) or numerals(sentence), last=False)


def conclusion_of(sentence: str) -> str | None:
    """Return the concluding clause of a sentence after an answer marker ("5 red and 12 green, so 17 in all").

    Returns None if the sentence begins with its number or has no concluding clause.
    """
    first = IMMEDIATE.match(sentence)
    if first and not PART_OF.match(sentence[first.end() :]):
        return None
    clauses = CONCLUSION.split(sentence)
    if len(clauses) < 2 or not contains_answer_number(clauses[-1]):
        return None
    return text_after_result(clauses[-1]) or text_after_result(clauses[-1], MARKED_RESULT) or clauses[-1]


def ambiguity_of(sentence: str) -> str | None:
    """Return the reason why a sentence does not state a single number (alternatives, a root, a range), or None."""
    if OPEN_FUNCTION.search(sentence) and text_after_result(sentence) is None:
        return "a calculation without its result"
    if POWER_TOWER.search(sentence):
        return "a number beyond the usual size"
    if POSSIBLY.search(sentence) or OR_NUMBER.search(sentence) or PLUS_MINUS.search(sentence):
        return "several numbers"
    if FEET.search(sentence):
        return "a quantity in two units"
    return "a range" if FROM_TO.fullmatch(sentence) else None


def without_denied_numbers(sentence: str) -> str:
    """Remove dates, denied numbers ("not 12") and tolerances from a sentence."""
    for pattern, kept in (
        (APPROXIMATE_GLOSS, r"\1"),
        (TOLERANCE_MARK, r"\1"),
        (DENIED, " "),
        (CALLED_WRONG_NUMBER, " "),
        (DATE, " "),
    ):
        sentence = pattern.sub(kept, sentence)
    return sentence


def without_remarks(text: str) -> str:
    """Remove questions, offers, checks and sources around the answer, and exercises after it.

    If no number would remain, only questions are removed.
    """
    before, heading, _ = (*AFTERWORD.split(text, maxsplit=1), "", "")[:3]
    text = before if heading and not DIRECT_ANSWER.search(text[len(before) :]) and may_contain_number(before) else text
    remarks: tuple[Callable[[str], object], ...] = (is_closing, QUESTION.search)
    for remark in remarks:
        kept = "\n".join(
            " ".join(part for part in sentences(line) if DIRECT_ANSWER.search(part) or not remark(part))
            for line in text.split("\n")
        )
        if may_contain_number(kept):
            return kept
    return kept


def refusal_end(text: str) -> int | None:
    """Return the position after the last sentence that declines to answer ("cannot be determined"), or None."""
    ends = [match.end() for match in REFUSED.finditer(text)]
    if not ends:
        return None
    rest = text[ends[-1] :]
    stop = re.search(r"[.!?](?=\s)|\n", rest)
    return len(text) if stop is None else ends[-1] + stop.end()


def final_number(text: str) -> tuple[float, str] | None:
    """Return the final answer of a text and the characters from which it was read, or None if there is no answer."""
    final = read_final(text)
    return None if final.value is None else (final.value, final.text)


def grade_number(item: Item, text: str, scoring: Scoring, corrected: bool) -> Reading:
    """Grade a reply by its final number, or by the option that it chooses if the problem is multiple-choice.

    Under paper_compat a reply without a number is wrong. corrected: True for mistake correction, whose replies the
    released code parses differently.
    """
    if is_option_letter(str(item.reference["answer"])):
        return grade_choice(item.reference["answer"], item.vars["question"], text, scoring)
    gold = float(item.reference["answer"])
    if scoring == "paper_compat":
        value = (released_corrected_number if corrected else released_last_number)(text)
        if value is None or not math.isfinite(value):
            return Reading(None, False, "", "no number")
        return Reading(value, abs(value - gold) < TOLERANCE, str(value))
    final = read_final(text)
    if final.value is None:
        return unread_reply(text, str(final.why_none))
    return Reading(final.value, math.isclose(final.value, gold, rel_tol=1e-9, abs_tol=TOLERANCE), final.text)


def grade_answer(item: Item, text: str, scoring: Scoring) -> list[Reading]:
    """Grade problem solving (MathTutorBench task 1)."""
    return [grade_number(item, text, scoring, corrected=False)]


def grade_corrected_answer(item: Item, text: str, scoring: Scoring) -> list[Reading]:
    """Grade mistake correction (MathTutorBench task 5)."""
    return [grade_number(item, text, scoring, corrected=True)]
