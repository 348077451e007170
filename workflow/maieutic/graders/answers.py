"""Read the final answer of a worked solution (MathTutorBench problem solving and mistake correction)."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Callable
from itertools import islice
from typing import NamedTuple

from maieutic.core.options import is_option_letter
from maieutic.core.records import Item, Scoring
from maieutic.graders.choices import grade_choice
from maieutic.graders.evidence import Reason
from maieutic.graders.lexicon import is_english
from maieutic.graders.number_words import fractions_as_digits, words_as_digits
from maieutic.graders.numerals import CONTEXT, SCALES, Numeral, numerals
from maieutic.graders.passages import (
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
from maieutic.graders.solution_numbers import (
    MARKER_TAIL,
    NO_ANSWER,
    NO_NUMBER,
    OPEN_FUNCTION,
    PLUS_MINUS,
    REFUSED,
    TOLERANCE_MARK,
    FinalAnswer,
    calculation_result,
    choose_number,
    contains_number,
    last_box,
    parse_box,
    text_after_result,
    without_latex,
)
from maieutic.graders.turns import own_turn
from maieutic.graders.words import words

TOLERANCE = 1e-6
SAME_ROUNDED = 1e-3  # relative difference up to which two marks state one number, exact and rounded (35/3 and 11.67)

RELEASED_NUMBER = re.compile(r"-?\d*\.?\d+")
RELEASED_FINAL = re.compile(r"Final Answer:\s*\$?([-,\d]*\.?\d+)")
# The released code's pattern, `\$?([-,\d]*\.?\d+)`, is slow on long runs of commas and hyphens. This one skips them.
RELEASED_AMOUNT = re.compile(r"\$?([-,\d]*\.?\d+)|[-,]+")

MARKERS = (
    re.compile(r"####"),
    re.compile(
        r"final\s+(?:answer\b(?!\s+(?:will|would|can|must|should|comes?|of|to|in|for|and)\b)(?:\s+is)?\s*[:=]?|(?:result|value)(?:\s+is)?\s*[:=]?)",
        re.IGNORECASE,
    ),
    re.compile(r"^[ \t]*A:", re.MULTILINE),
    re.compile(
        (
            r"\banswer(?:\s+to\s+(?:the\s+)?\w+(?:\s+\w+){0,2}?)?(?:\s+is\b(?!\s+(?:wrong|incorrect|not|right"
            r"|correct|off|too|close))|\s*[:=])\s*[:=]?"
        ),
        re.IGNORECASE,
    ),
)


# The equals sign after an answer marker may also follow a unit or a word: "5 cm × 5 cm = 25 cm", "20 plus 5 equals".
MARKED_RESULT = re.compile(
    r"[\d)\]%](?:\s*[/*]?\s*(?!(?:where|when|with|if|let|for|since|because|given|so)\b)[A-Za-z]{1,15}){0,3}\s*"
    r"(?:[=≈]|\bequals\b)|\bhalf\s+of\s+\S+\s+is\b",
    re.IGNORECASE,
)
SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=[。？！])")
BRACKETED = re.compile(r"(?<!\^)\([^()]*\)")
LIST_MARK = re.compile(r"^\s*\(?\d{1,2}[.)]\s+")
MAX_DENIAL_WORDS = 8  # a line below the marker can mean "no answer" only if it has at most this many words
COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
ESCAPE = re.compile(r"\x1b\[[0-9;]*[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f\xad]")
KEYCAP = re.compile(r"([0-9])\u20e3(?=(?:([0-9]\u20e3|\W*(?:$|\n))|))")
HTML_POWER = re.compile(r"<sup>\s*(-?\d{1,3})\s*</sup>", re.IGNORECASE)
PYTHON_POWER = re.compile(r"(?<=\d)\*\*(?=-?\d)")
NOTATION = (
    (re.compile(r"\bRs\.?\s*(?=\d)", re.IGNORECASE), "₹"),
    (re.compile(r":-(?=\s)"), ":"),
    (re.compile(r"(?<![\d:.])(\d{1,2})\s?(?=[ap]\.m\.|o'clock)", re.IGNORECASE), r"\1:00 "),  # a time, no quantity
    (re.compile(r"\bso\s+its\s+(?=[$€£]?\d)", re.IGNORECASE), "so it is "),
    (re.compile(r"(?<=[.!?])[¹²³](?=\s|$)|^[¹²³]\s.*$", re.MULTILINE), ""),
    (re.compile(r"</?(?:b|i|span|p|sub)\b[^>]*>", re.IGNORECASE), ""),
    (re.compile(r"\\[hv]space\*?\{[^{}]*\}"), ""),
    (re.compile(r"\\pi\b"), "π"),
    (re.compile(r"\\pm\b"), "±"),
    (re.compile(r"\\(?:log)(?![A-Za-z])"), "√"),
    (
        re.compile(
            r"((?<![\d.,/])[$€£]?\d[\d.,/]*+)\s+is\s+(?:the)\s+(?:final\s+|correct\s+)?answer\b",
            re.IGNORECASE,
        ),
        r"Final answer: \1. ",
    ),
)
# Begin of an aside: "4 boxes with 3 left over", "$20, which is $5 less", "48 clips: 24 in April and 24 in May".
ASIDE = re.compile(
    (
        r"(?P<words>\s*\(|,?\s+i\.e\.|,?\s+(?:"
        + words("with|than|because|compared|while|which (is|was|are)|not counting|instead of|rather than|in order to")
        + r")\b|,\s+or\s+(?=[$€£]?\d)"
        r"|,\s+(?=[$€£]?\d[\d.,]*\s+(?:\w+\s+(?:in\s+)?)?(?:(?:each|every|per)\b|(?:more|less|fewer)\s+than|más|più)\b))"
        r"|[:,;]\s"
    ),
    re.IGNORECASE,
)
MOST_ASIDES = 16  # number of asides of a sentence, from its begin, that may end its main clause
# Two clauses with a number each ("Jeff gets 80 and Brad gets 20"): the sentence alone does not decide between them.
TWO_CLAUSES = re.compile(
    r"\d[^.;]*?,?\s+and\s+(?:[A-Z]\w+|he|she|they)(?:'s)?\s+(?:\w+\s+){0,3}?(?:is|are|was|has|have|gets?|got|pays?)\b[^.;=]*\d"
)
LEADING_REASON = re.compile(
    r"\W*(?:so\s+|therefore,?\s+)?(?:since|because|as|if|when|with|given|after|for|of|out\s+of)\b[^,]{0,200},\s",
    re.IGNORECASE,
)
IN_BRACKETS = re.compile(r"\d\s*[-+*/×]\s*\d+\s*=\s*[$\d]")  # a calculation that stands in brackets
ASKS = re.compile(
    (r"\W*(?:" + words("what|how|can|could|do|does|did|is|are|would|should|which|where|when") + r")\b"), re.IGNORECASE
)
SO = re.compile(r"(?:[,;]\s*|\s+)\b(?:so|therefore|thus|hence)\b\s+", re.IGNORECASE)
VARIABLE_LAST = re.compile(r"([$€£]?-?[\d.,]*\d)\s*=\s*[A-Za-z]\W*$")
# What follows the number of a reply that opens with its answer: "72.", "$15, because", "31 pens:"
OPENING = re.compile(
    r"(?:%|(?:\s+[A-Za-z]+){0,3}?)\s*(?:(?P<stop>$|[.:](?=\s|$))|(?P<reason>,?\s*\b(?:because|since)\b|\s[\u2013\u2014-]\s(?!\s*[$\d]))|[,;]\s)"
)
LINE_WITH_NUMBER = re.compile(r"\W*\d")
MOST_LIST_NUMBER = 20  # "31. He starts" opens with an answer, "2. Add them" with the number of a list
CONCLUSIVE = re.compile(
    r"\b(?:so|thus|therefore|hence|total|answer|result|overall)\b",
    re.IGNORECASE,
)
BOLD_TAG = re.compile(r"</?(?:b)>", re.IGNORECASE)
BOLD = re.compile(r"\*\*([^*\n]{1,80})\*\*")
HYPOTHETICAL = re.compile(r"\bwithout\b.*\bwould\b|\bif\b.*\b(?:had)\b", re.IGNORECASE)
BOUND = re.compile(r"\b(?:more|less|fewer)\s+than\s+[$€£]?\d[\d.,]*\W*$", re.IGNORECASE)
# One quantity in two forms, of which the question asks for one: "120 seconds, i.e. 2 minutes", "0.12, or 12%".
TWO_FORMS = re.compile(
    r"\d\s*[A-Za-z]*,?\s+(?:i\.e\.|or|which\s+is)\s+[$€£]?\d[\d.,]*\s*(?:%|\s(?:seconds?|minutes?|hours?|days?|weeks?|years?|percent|cents))\W*$",
    re.IGNORECASE,
)
CENTS_ASKED = re.compile(r"\bhow\s+many\s+cents\b|\bin\s+cents\b", re.IGNORECASE)
ASKED_NOUN = re.compile(r"\bhow\s+many\s+([A-Za-z]+)", re.IGNORECASE)
SCALE_ASKED = re.compile(r"\b(?:in|how\s+many)\s+(thousand|million|billion)s?\b", re.IGNORECASE)
SCALE_WRITTEN = re.compile(r"\d\s*[A-Za-z]")
POINT_BEFORE_THREE = re.compile(r"(?<![\d.,])\d{1,3}\.\d{3}(?!\d)")
CJK_NUMBER = re.compile(r"[一二三四五六七八九十百千万]")
CJK_SCALE = re.compile(r"\d\s*[万億亿]")
OPEN_CONCLUSION = re.compile(r"[,.]\s+(?:so|then|therefore|thus)\b[^.!?:\d]*[a-z]$", re.IGNORECASE)
LAST_SIGN = re.compile(r"[^A-Za-z]\Z|\b(?:sq)\.?\s+in\Z", re.IGNORECASE)
EITHER_OR = re.compile(r"\b(?:can(?:no|')t\s+(?:say|tell|decide)|not\s+sure)\s+which\b[^.]*\.?\s*\Z", re.IGNORECASE)
WORD_CONCLUSION = re.compile(r"\W*(?:so|thus|therefore|hence)\b[^.]{1,120}\.?\W*$", re.IGNORECASE)
EQUALS = re.compile(r"[=≈]\s*(?:in\s+)?(?:[$€£%]\s?)?-?(?P<number>\.?\d)")
OPERAND = re.compile(r"[\d.,]+%?\s*(?:[A-Za-z]+\s+){0,2}(?:[-+*/×÷\u2013x]\s*[($\d]|\s\s\d|\()")
# A clause after a calculation that states another number ("= 21 apples, and after giving away 3, he has 18").
LATER_CLAUSE = re.compile(
    r"[,;]?\s+(?:so|then|meaning|leaving|which\s+(?:makes|gives|leaves|rounds))\b|,\s+and\b.*?\b(?:has|have|is|are)\b",
    re.IGNORECASE,
)
REMARK = re.compile(
    r"[ \t]*(?:[-\u2013\u2014;(]\s*)(?:my |with )?(?:confidence|certainty)\b.*$", re.IGNORECASE | re.MULTILINE
)
CORRECTS = re.compile(
    (r"\b(?:" + words("no|wait|hmm|oops|sorry|actually|correct(ion|ed)?|re-?check|mistake|not what") + r")\b"),
    re.IGNORECASE,
)
STEP_HEADING = re.compile(r"\W*step\s+1\b", re.IGNORECASE)
STRONG_MARK = re.compile(r"####|final", re.IGNORECASE)
PART_NAME = re.compile(
    r"\b(?:first|second|part|step|per|in\s+[A-Z]\w+|your|student'?s|wrong|draft)\b|\([a-d]\)",
    re.IGNORECASE,
)
# A line end between a number and a heading such as "Explanation:".
EXPLANATION = re.compile(
    r"(?<=\d)[^\w\n]*\n\s*(?=\W*(?:explanation|reasoning)\b\s*[:\n])",
    re.IGNORECASE,
)
BARE_MARKER = re.compile(r"\W*(?:the\s+)?(?:final\s+)?answer(?:\s+is)?\W*$", re.IGNORECASE)
ASKS_FIRST = re.compile(r"\bbefore i (?:finish|answer|give)\b[^?]*\?\W*\Z", re.IGNORECASE)
ERROR_REPORT = re.compile(r"\A\W*error\W*:", re.IGNORECASE)
ANSWER_LINE = re.compile(
    r"^[^\w\n]{0,10}(?:final[ _]?)?(?:answer|result|final|solution)[\"']?\s*[:=][ \t]*(.*)$",
    re.IGNORECASE | re.MULTILINE,
)
BLOCK_QUOTE = re.compile(r"^[ \t]*>[ \t].*$", re.MULTILINE)
NAME_OF_PART = re.compile(
    (r"\b(?:" + words("steps?|exercises?|questions?|problems?|examples?|pages?|chapters?") + r")\s*$"),
    re.IGNORECASE,
)
NO_MARKER = re.compile(r"\bno\s+(?:\w+\s+)?(?:final\s+)?answer\W*(?:is)?\W*$", re.IGNORECASE)
WITHDRAWN = re.compile(
    (
        r"\b(?:wait(?=\s*[,.!:;\u2013\u2014-])|hold on|oops"
        r"|actually"
        r"|corrections?|corrected|edit(?:ed)?(?=\s*:)|update(?=\s*:)"
        r"|(?P<void>(?:scratch|strike) that)|(?P<wrong>(?<=[.!\n] )(?:that|this|it)(?:'s"
        r"| is) (?:wrong|incorrect))|i (?:meant|mean|correct (?:that|it)"
        r")|sorry(?! for| about)|apologies(?! for)|my (?:mistake)|no!"
        r"|no, (?:that|it)(?:'s| is) not right)(?!\w)[\s,:.!;\u2013\u2014-]*"
    ),
    re.IGNORECASE,
)
ANSWERLESS = re.compile(
    r"^\W*(?:this|that|it)(?:'s| is) (?:wrong|incorrect)\b|\bstart again\b",
    re.IGNORECASE,
)
WORDS_ONLY = re.compile(r"[^\w-]*+-?[$€£]?\d(?:[\d.,/ ]*\d)?(?: (?:percent|cents?))?\W*")
BROKEN_OFF = re.compile(r"\d\s*(?:[+*/×÷=]|\s-)\s*$")
CUT_OFF = re.compile(r"\d\s*(?:[+*/×÷=]|\s-)\s*$")
REASON = re.compile(
    (
        r"\bbecause\b(?!.*\b(?:so|thus|therefore|hence)\b)|(?<!and )\bsince\b(?!.*(?:,|\bso\b))"
        r"|\bafter an? (?:\w+ )?(?:discount|tip)\b|,\s*as\b"
    ),
    re.IGNORECASE,
)
APPROXIMATE_GLOSS = re.compile(
    r"((?<![\d.,])\d[\d.,]*\s*(?:[A-Za-z%$]+)?)\s*,?\s*\(?(?:or|i\.e\.,?)\s+(?:about"
    r"|approximately|nearly|some)\s+[$€£]?\d[\d.,]*\)?"
)
DENIED = re.compile(
    (
        r"(?:[,(\u2013\u2014-]\s?)?\(?(?:\b(?:and|but)\s+)?(?:\b(?:certainly|definitely"
        r")\s+)?(?:\bnot|\brather than|\binstead of|\bisn'?t|\bcan(?:no"
        r"|'?)t be)\s+(?:just\s+|about\s+|equal to\s+"
        r"|be\s+)?[$€£₹]?\d(?:[\d.,]*\d)?%?!?\)?(?:\s*(?:,|,?\s*or"
        r"|nor)\s*\d[\d.]*)*(?!\s*(?:\d|only))"
    ),
    re.IGNORECASE,
)
CALLED_WRONG_NUMBER = re.compile(
    (
        r"(?:\band\s+|[;,]\s*)?(?<![\d.,])[$€£]?\d[\d.,]*+\s+(?:is|was|would be)\s+(?:wrong"
        r"|incorrect)\b"
    ),
    re.IGNORECASE,
)
IMMEDIATE = re.compile(
    r"^[\s\"'(*:=$€£₹≈~-]*(?:(?:about|approximately|exactly|only"
    r")\s+)?[$€£₹]?\d[\d.,/]*(?:\s+\d/\d)?"
)
PART_OF_END = re.compile(r"\d[\d.,/]*\W{0,3}of\s+\S+\s*$")
PART_OF = re.compile(r"[\s$]*(?:of\b|[-+*/×÷=^]|[A-Za-z]\s*[-+=])")
CONCLUSION = re.compile(
    (
        r"(?:,|;|:|\band\b)?\s*\b(?:so|thus|therefore|hence|which (?:is|makes|gives)|making|giving"
        r"|for a total of|in total,?|altogether,?|that is|i\.e\.,?)\s+"
    ),
    re.IGNORECASE,
)
OR_NUMBER = re.compile(
    r"(?<![\d.,])\d[\d.,]*+\s+or\s+(?:[a-z]\s*=\s*)?-?[$€£]?\d(?!\w*\s+(?:more|less|fewer))", re.IGNORECASE
)
POSSIBLY = re.compile(r"\b(possibly|maybe)\s+\S*\d.*\b\1\s+\S*\d", re.IGNORECASE)
POWER_TOWER = re.compile(r"\^\s*\(|\d\s?\^\s*\d++\s*\^|\^\s*-?\d{4,}|\\[dt]?frac")
FEET = re.compile(r"\d'\s?\d{1,2}\"")
FROM_TO = re.compile(r"\W*from\s+\S*\d\S*\s+to\s+\S*\d\S*\W*", re.IGNORECASE)
AFTERWORD = re.compile(
    (
        r"((?:^|(?<=[.!?\]]\s)|(?<=[.!?]\s\s))[ \t#*_>-]*(?:tips?(?: for [\w ]+)?|hints?"
        r"|common (?:mistakes)|(?:an? )?(?:follow-?up|similar"
        r"|next)(?: \w+)? (?:exercises?|problems?|questions?)"
        r"|your turn|try (?:it|this) yourself|rate this(?: \w+)?)[ \t*_]*[:!\n]|(?:^"
        r"|(?<=[.!?]\s))p\.\s?s\.|^[ \t]*(?:(?:kind) (?:regards))[,!]?[ \t]*$)"
    ),
    re.IGNORECASE | re.MULTILINE,
)
MONTHS = r"(?:jan|may|nov)[a-z]*\.?"
DATE = re.compile(
    (
        rf"\b\d{{4}}-\d\d-\d\d\b|\b\d\d/\d\d/\d{{4}}\b|\b{MONTHS}\s+\d{{1,2}}(?:st|nd|rd|th)?,\s+\d{{4}}\b"
        rf"|\b\d{{1,2}}(?:st|nd|rd|th)?\s+{MONTHS},?\s+\d{{4}}\b"
    ),
    re.IGNORECASE,
)
CLOCK = re.compile(
    r"\b(?:by|at|until|before|after|from)\s+\d{1,2}(?::\d\d)?\s?(?:[ap]m\b|[ap]\.m\.|o'clock)", re.IGNORECASE
)
DIRECT_ANSWER = re.compile(r"(?:####|\banswer(?:\s+is\b|(?:\s+is)?\s*[:=])|^\W*A:)\s*\W{0,6}\d", re.IGNORECASE)
MAX_SENTENCE_CHARACTERS = 2000  # only this many characters at the end of a sentence are read


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


SEVERAL = "several numbers"
# Kind of each reason why a reply has no number, if it is not "ambiguous number".
REASONS: dict[str, Reason] = {
    "no number": "no statement",
    "a calculation without its result": "no statement",
    "a range": "no statement",
    "a bound": "no statement",
    "asks a question before it answers": "no statement",
    "numbers only in remarks and questions": "no statement",
    "numbers only of steps or exercises": "no statement",
    "only states what the answer is not": "no statement",
    "no answer after its marker": "declined",
    "states that there is no answer": "declined",
    "breaks off": "cut",
    "breaks off within a calculation": "cut",
    "no number in the box": "unknown kind",
    "contradictory": "contradictory",
    "withdrawn": "withdrawn",
}


def why_unread(why_none: str) -> str:
    """Return the kind of a reason why a reply has no number, with the reason itself ("ambiguous number: a range")."""
    kind = REASONS.get(why_none, "ambiguous number")
    return kind if kind == why_none else f"{kind}: {why_none}"


def may_contain_number(text: str) -> bool:
    """Return True if a text contains a digit or a number word."""
    return contains_number(text) or words_as_digits(text) != text


def prepare_solution(text: str) -> str:
    """Return a reply without struck-out text, sources and quotations, and in simpler notation.

    JSON objects, tags and tables become lines.
    """
    text = ESCAPE.sub("", shorten_reply(text).replace("\ufe0f\u20e3", "\u20e3"))
    text = KEYCAP.sub(lambda match: match[1] if match[2] is not None else " ", text).replace("\u20e3", "")
    text = COMMENT.sub("", text)
    text = without_struck_text(html.unescape(text) if "&" in text else text)
    text = HTML_POWER.sub(r"^\1", text) if "<sup>" in text else text
    text = PYTHON_POWER.sub("^", text) if text.count("**") % 2 else text
    for pattern, replacement in NOTATION:
        text = pattern.sub(replacement, text)
    text = answer_fields(REMARK.sub("", without_sources(text)))
    explanation = EXPLANATION.search(text)
    text = text[: explanation.start()] if explanation and not ANSWER_LINE.search(text, explanation.end()) else text
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


class Mark(NamedTuple):
    """Answer marker with the line that follows it. line: empty if the reply denies an answer or breaks off there."""

    start: int
    end: int
    line: str


def marks_in(text: str) -> list[Mark]:
    """Return the answer markers of a text in order, each with the line that holds its number.

    A marker without such a line is left out, and so is one that is part of another.
    """
    matches = sorted(
        (match.start(), match.end())
        for marker in MARKERS
        for match in marker.finditer(text)
        if not NO_MARKER.search(text[max(0, match.start() - CONTEXT) : match.end()])
    )
    outer: list[tuple[int, int]] = []
    for start, end in matches:  # "answer:" is a part of "Final answer:"
        if outer and start < outer[-1][1]:
            outer[-1] = (outer[-1][0], max(outer[-1][1], end))
        else:
            outer.append((start, end))
    marks = []
    for place, (start, end) in enumerate(outer):
        following = outer[place + 1][0] if place + 1 < len(outer) else len(text)
        if (line := line_after(text, end, following)) is not None:
            marks.append(Mark(start, end, line))
    return marks


def line_after(text: str, end: int, stop: int) -> str | None:
    """Return the first line with a number after a marker that ends at `end`, without its list number.

    stop: start of the next marker. Returns an empty text if the reply breaks off there or denies that an answer exists,
    and None if there is no number.
    """
    last = stop == len(text)
    if last and BREAKS_OFF.search(text) and text[end:].strip(" *_") and not contains_number(text[end:]):
        return ""
    end = len(text[:end].rstrip())
    marked_line, *further = text[end : min(stop, end + MARKER_TAIL)].split("\n")
    if not contains_number(marked_line) and any(STEP_HEADING.match(line) for line in further if line.strip()):
        return None  # the working follows the heading, and the answer stands at its end
    for place, line in enumerate([marked_line, *(LIST_MARK.sub("", line) for line in further)]):
        if (place == 0 or len(line.split()) <= MAX_DENIAL_WORDS) and NO_ANSWER.match(line.strip(" .:*_")):
            return ""
        line = line if contains_number(line) else words_as_digits(line)
        if contains_number(line):
            return line
    return None


def read_marks(text: str, marks: list[Mark]) -> FinalAnswer:
    """Return the answer that markers state: the last one, unless an earlier one states another number.

    An earlier number does not count if its marker is weaker ("the answer is" before "Final answer:"), if it is named a
    part, or if it is an operand of the calculation that leads to the last number.
    """
    *earlier, last = [
        (mark, read_marked_line(mark.line) if mark.line else FinalAnswer(None, "", "no answer after its marker"))
        for mark in marks
    ]
    mark, answer = last
    for other, stated in earlier:
        if (
            stated.value is None
            or answer.value is None
            or math.isclose(stated.value, answer.value, rel_tol=SAME_ROUNDED)
        ):
            continue
        between = text[other.end : mark.start]
        operands = {number.value for number in numerals(between[len(other.line) :] + text[mark.end :])}
        weaker = STRONG_MARK.search(text[mark.start : mark.end]) and not STRONG_MARK.search(
            text[other.start : other.end]
        )
        if CORRECTS.search(between) or "?" in other.line:
            continue
        if not (
            weaker
            or stated.value in operands
            or PART_NAME.search(text[max(0, other.start - CONTEXT) : other.start] + other.line)
        ):
            return FinalAnswer(None, f"{stated.text} ... {answer.text}", "contradictory")
    return answer


def without_brackets(text: str) -> str:
    """Remove parts in brackets, which often repeat the answer in another unit, if a number remains outside them.

    A calculation in brackets keeps its text."""
    bare = BRACKETED.sub(lambda match: match[0][1:-1] if IN_BRACKETS.search(match[0]) else " ", text)
    return bare if contains_number(bare) else text


def outer_text(text: str) -> str:
    """Remove all parts in brackets if a number remains outside them."""
    bare = BRACKETED.sub(" ", text)
    return bare if contains_number(bare) else text


def first_sentence(text: str) -> str:
    """Return the first sentence that contains a number."""
    return next(sentence for sentence in SENTENCE_END.split(text) if contains_number(sentence))


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
    final = read_reply(text)
    if final.value is not None and POINT_BEFORE_THREE.search(final.text) and not is_english(text):
        return FinalAnswer(None, final.text, "a point that may separate thousands")
    return final


def read_reply(text: str) -> FinalAnswer:
    """Return the final answer of a worked solution, with numbers in English notation."""
    text = own_turn(text, states_number)
    bold = bold_numbers(text)
    text = without_latex(prepare_solution(text))
    if (content := last_box(text)) is not None:
        return parse_box(plain_notation(content))
    text = fractions_as_digits(plain_notation(text))
    for match in list(WITHDRAWN.finditer(text))[: -MOST_WITHDRAWN - 1 : -1]:
        rest = text[match.end() :]
        if (final := read_passage(rest)).value is not None and (marks_in(rest) or contains_answer_number(rest)):
            return final
        if match["void"] or match["wrong"] or ANSWERLESS.search(rest):
            return FinalAnswer(None, match[0].strip(), "withdrawn")
    return read_passage(text, bold)


def states_number(text: str) -> bool:
    """Return True if a text states a final number by a mark, a line of its own or its last sentence."""
    return read_passage(plain_notation(prepare_solution(text))).value is not None


def bold_numbers(text: str) -> frozenset[float]:
    """Return the numbers of a Markdown text that stand alone in bold, possibly with words ("**72 clips**")."""
    spans = [numerals(span) for span in BOLD.findall(BOLD_TAG.sub("**", text))]
    return frozenset(numbers[0].value for numbers in spans if len(numbers) == 1 and not numbers[0].circumstance)


def contains_answer_number(text: str) -> bool:
    """Return True if a text contains a number that is not a circumstance of an answer (a step, a given quantity)."""
    return any(not number.circumstance for number in numerals(text))


def read_passage(text: str, bold: frozenset[float] = frozenset()) -> FinalAnswer:
    """Return the final answer of a text in plain notation. Remarks around the answer are ignored.

    bold: numbers that the reply prints in bold.
    """
    kept = without_remarks(text)
    if EITHER_OR.search(text):
        return FinalAnswer(None, "", "states that there is no answer")
    if marks := marks_in(kept):
        return read_marks(kept, marks)
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
    if lines and breaks_off(lines[-1]):
        return FinalAnswer(None, lines[-1][-MARKER_TAIL:], "breaks off")
    if lines and not contains_number(lines[-1]) and WORD_CONCLUSION.match(lines[-1]):
        stated = [number for number in numerals(words_as_digits(lines[-1])) if not number.circumstance]
        if len(stated) == 1:
            return choose_number(stated, last=True)
    if lines and not contains_number(lines[-1]) and CJK_NUMBER.search(lines[-1]):
        return FinalAnswer(None, lines[-1][-MARKER_TAIL:], "a number in words of another language")
    lines = [line for line in lines if contains_number(DATE.sub(" ", line))] or [
        line for line in lines if contains_number(line)
    ]
    if not lines:
        return FinalAnswer(None, "", "numbers only in remarks and questions") if contains_number(text) else NO_NUMBER
    parts = [part for part in sentences(lines[-1]) if contains_number(part)]
    while len(parts) > 1 and HYPOTHETICAL.search(parts[-1]) and not CONCLUSIVE.search(parts[-1]):
        parts.pop()
    while (
        len(parts) > 1
        and (reason := LEADING_REASON.match(parts[-1]))
        and not contains_number(parts[-1][reason.end() :])
    ):
        parts.pop()
    concluded = read_sentence(parts[-1][-MAX_SENTENCE_CHARACTERS:], kept, bold)
    label = read_opening(kept) or only_bold(bold)
    if (
        label is not None
        and concluded.value is None
        and concluded.why_none == SEVERAL
        and not CONCLUSIVE.search(parts[-1])
    ):
        return label
    if label is None or concluded.value is None or math.isclose(label.value or 0, concluded.value, rel_tol=1e-9):
        return concluded
    results = [number.value for number in calculation_numbers(parts[-1])]
    if CONCLUSIVE.search(parts[-1]) or concluded.value in results:
        return FinalAnswer(None, f"{label.text} ... {concluded.text}", "contradictory")
    return label


def only_bold(bold: frozenset[float]) -> FinalAnswer | None:
    """Return the only number that a reply prints in bold, or None without a single one."""
    return FinalAnswer(min(bold), f"{min(bold):g}") if len(bold) == 1 else None


def read_opening(text: str) -> FinalAnswer | None:
    """Return the answer with which a reply opens ("72, because ..."), or None if it opens with something else.

    A list does not open with an answer: its first line has a number, and so has the second.
    """
    first, _, further = text.strip().partition("\n")
    numbers = numerals(first)
    if not numbers or re.search(r"\w", first[: numbers[0].start]) or LINE_WITH_NUMBER.match(further.lstrip()):
        return None
    opening = OPENING.match(first[numbers[0].end :])
    rest = first[numbers[0].end :][opening.end() :] if opening else ""
    is_list_mark = numbers[0].circumstance and numbers[0].value <= MOST_LIST_NUMBER
    explained = opening is not None and (
        opening["reason"]
        or opening["stop"] is not None
        or not any(not number.circumstance for number in numerals(first_part(rest)))
    )
    if (
        opening is None
        or (opening["reason"] and REASON.search(further))
        or is_list_mark
        or not explained
        or not re.search(r"[A-Za-z]", rest + further)
    ):
        return None
    return choose_number(numbers[:1], last=False)


def first_part(text: str) -> str:
    """Return a text up to the end of its first sentence."""
    return SENTENCE_END.split(text, maxsplit=1)[0] if text[:1] not in "\n" else ""


def read_sentence(sentence: str, text: str, bold: frozenset[float] = frozenset()) -> FinalAnswer:
    """Return the answer in a sentence that has no answer marker.

    text: passage that ends with the sentence; bold: numbers that the reply prints in bold.
    """
    if BROKEN_OFF.search(text):
        return FinalAnswer(None, sentence[-MARKER_TAIL:], "breaks off within a calculation")
    if not contains_number(DATE.sub(" ", sentence)):
        return FinalAnswer(None, sentence[-MARKER_TAIL:], "a date")
    sentence = without_denied_numbers(sentence)
    if not contains_number(sentence):
        return FinalAnswer(None, "", "only states what the answer is not")
    *_, concluded = CONCLUSION.split(sentence)
    sentence = concluded if OR_NUMBER.search(sentence) and contains_answer_number(concluded) else sentence
    if why := ambiguity_of(sentence if TWO_FORMS.search(sentence) else main_clause(sentence)) or (
        POWER_TOWER.search(sentence) and "a number beyond the usual size"
    ):
        return FinalAnswer(None, sentence[-MARKER_TAIL:], why)
    if re.search(r"\d\s*[-+*/×÷\u2013][^=]*\d[^=]*=\W*$", sentence):
        return FinalAnswer(None, sentence[-MARKER_TAIL:], "a calculation without its result")
    if (stated_alone := without_reason(sentence)) is None:
        return FinalAnswer(None, sentence[-MARKER_TAIL:], "contradictory")
    sentence = stated_alone
    if stated := main_clause_number(sentence, text, bold):
        return stated
    if final := calculation_result(sentence):
        return final
    numbers = numerals(sentence)
    if numbers and all(number.circumstance for number in numbers) and len({number.value for number in numbers}) > 1:
        return FinalAnswer(None, sentence[-MARKER_TAIL:], SEVERAL)
    if numbers and all(
        NAME_OF_PART.search(sentence[: number.start]) or is_list_mark(number, sentence, text) for number in numbers
    ):
        return FinalAnswer(None, sentence[-MARKER_TAIL:], "numbers only of steps or exercises")
    return choose_number(numbers or numerals(text[-MAX_SENTENCE_CHARACTERS:]), last=True)


def is_list_mark(number: Numeral, sentence: str, text: str) -> bool:
    """Return True if a number is the mark of a list item ("2. Divide by ..."), with the item before it in the text."""
    if sentence[: number.start].strip("( ") or not re.match(r"[.)]\s+[A-Za-z]", sentence[number.end :]):
        return False
    return number.value == 1 or re.search(rf"^\W*{number.value - 1:g}[.)]\s", text, re.MULTILINE) is not None


def main_clause_number(sentence: str, text: str, bold: frozenset[float]) -> FinalAnswer | None:
    """Return the number of a sentence's main clause if the sentence has several, or None if it does not single one out.

    Numbers in brackets or behind "with", "which is", "than" are asides, and so are the parts of a sum behind a colon or
    a comma. Among the numbers that are no asides, the result of the last calculation counts. text: passage that ends
    with the sentence; bold: numbers that the reply prints in bold.
    """
    if (leading := LEADING_REASON.match(sentence)) and contains_number(sentence[leading.end() :]):
        sentence = sentence[leading.end() :]
    *_, concluded = SO.split(sentence)
    sentence = concluded if contains_answer_number(concluded) else sentence
    main = main_clause(sentence)
    if named := VARIABLE_LAST.search(main):
        return choose_number(numerals(named[1]), last=True)
    if (
        len(emphasised := [number for number in numerals(sentence) if number.value in bold and not number.circumstance])
        == 1
    ):
        return choose_number(emphasised, last=True)
    if results := calculation_numbers(main):
        after = main[results[-1].end :]
        later = LATER_CLAUSE.search(after)
        further = [number for number in numerals(after[later.end() :]) if not number.circumstance] if later else []
        return choose_number(further[:1] or results, last=True)
    numbers = numerals(main)
    if TWO_CLAUSES.search(main):
        return FinalAnswer(None, main[-MARKER_TAIL:], SEVERAL)
    if len({number.value for number in numerals(sentence)}) < 2:
        return None
    strong = [number for number in numbers if not number.circumstance]
    computed = [number.value for number in calculation_numbers(text)]
    seen = {number.value for number in numerals(text.rsplit(sentence, 1)[0])}
    fresh = [number for number in strong if number.value not in seen]
    if len(strong) > 1 and len(fresh) == 1 and strong[-1].value not in {*computed[-1:], fresh[0].value}:
        return choose_number(fresh, last=True)
    stated = [number for number in strong or numbers if computed and number.value == computed[-1]]
    if stated and not (strong and strong[-1].value in computed):
        if fresh:
            return FinalAnswer(None, main[-MARKER_TAIL:], SEVERAL)
        return choose_number(stated[-1:], last=True)
    return (
        choose_number(strong, last=True) if main != sentence and strong and "=" not in sentence[len(main) :] else None
    )


def calculation_numbers(text: str) -> list[Numeral]:
    """Return the results of the calculations in a text, in order ("9*2 = 18")."""
    starts = [
        match.start("number") for match in EQUALS.finditer(text) if not OPERAND.match(text, match.start("number"))
    ]
    return [number for number in numerals(text) if any(number.start <= start < number.end for start in starts)]


def main_clause(sentence: str) -> str:
    """Return a sentence without its asides, if a number that can be the answer stands before them."""
    for aside in islice(ASIDE.finditer(sentence), MOST_ASIDES):  # each is read with the whole sentence
        head, tail = sentence[: aside.start()], sentence[aside.end() :]
        if contains_answer_number(head) and not EQUALS.search(tail) and (aside["words"] or is_sum(head, tail)):
            return head
    return sentence


def is_sum(head: str, tail: str) -> bool:
    """Return True if the last number of a clause is the sum of the numbers behind it ("48 clips: 24 in April ...")."""
    if re.search(r"\b(?:has|have|had|is|are|was|left|gives?)\b", tail):
        return False
    parts = [number.value for number in numerals(tail)]
    whole = [number.value for number in numerals(head)]
    return len(parts) > 1 and math.isclose(sum(parts), whole[-1], rel_tol=1e-9)


def without_reason(sentence: str) -> str | None:
    """Remove the reason that a sentence adds to its number ("8, because 8 + 8 + 8 = 24").

    Returns None if the reason computes another number ("50 feet because 40 + 30 = 70").
    """
    stated, *reason = REASON.split(sentence, maxsplit=1)
    if not reason or not contains_answer_number(stated):
        return sentence
    used = {number.value for number in numerals(reason[0])}
    return None if text_after_result(reason[0]) and numerals(stated)[-1].value not in used else stated


def read_marked_line(line: str) -> FinalAnswer:
    """Return the answer in a line that follows an answer marker."""
    sentence = without_denied_numbers(outer_text(first_sentence(APPROXIMATE_GLOSS.sub(r"\1", line))).strip())
    if not contains_number(sentence):
        return FinalAnswer(None, "", "only states what the answer is not")
    if CUT_OFF.search(sentence):
        return FinalAnswer(None, sentence, "breaks off within a calculation")
    if (refusal := REFUSED.search(sentence)) and not contains_number(sentence[: refusal.start()]):
        return FinalAnswer(None, "", "states that there is no answer")
    sentence = TOLERANCE_MARK.sub(r"\1", sentence)
    if (leading := LEADING_REASON.match(sentence)) and contains_answer_number(sentence[leading.end() :]):
        sentence = sentence[leading.end() :]
    main = main_clause(sentence)
    if main != sentence and not PART_OF_END.search(main):
        sentence = main
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
    if (forms := TWO_FORMS.search(sentence)) and len(
        {number.value for number in numerals(sentence[forms.start() - 1 :])}
    ) > 1:
        return "one quantity in two units"
    if BOUND.search(sentence):
        return "a bound"
    if CJK_SCALE.search(sentence):
        return "a number with a scale of another language"
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
    ):
        sentence = pattern.sub(kept, sentence)
    undated = DATE.sub(" ", sentence)
    return undated if contains_answer_number(CLOCK.sub(" ", undated)) is False else CLOCK.sub(" ", undated)


def without_remarks(text: str) -> str:
    """Remove questions, offers, checks and sources around the answer, and exercises after it.

    If no number would remain, only questions are removed.
    """
    before, heading, _ = (*AFTERWORD.split(text, maxsplit=1), "", "")[:3]
    text = before if heading and not DIRECT_ANSWER.search(text[len(before) :]) and may_contain_number(before) else text
    remarks: tuple[Callable[[str], object], ...] = (is_closing, QUESTION.search)
    for remark in remarks:
        kept = "\n".join(
            " ".join(part for part in sentences(line) if is_answer(part) or not remark(part))
            for line in text.split("\n")
        )
        if may_contain_number(kept):
            return kept
    return kept


def breaks_off(line: str) -> bool:
    """Return True if a last line is incomplete: it ends with a word such as "the", or its conclusion has no number."""
    if BARE_MARKER.match(line):
        return False
    incomplete = BREAKS_OFF.search(line) and not (contains_number(line) and LAST_SIGN.search(line))
    return bool(incomplete) or OPEN_CONCLUSION.search(line) is not None


def is_answer(sentence: str) -> bool:
    """Return True if a sentence that may look like a remark states the answer: by a mark, or as a calculation."""
    states = QUESTION.search(sentence) is not None and EQUALS.search(sentence) is not None and not ASKS.match(sentence)
    return states or DIRECT_ANSWER.search(sentence) is not None


def refusal_end(text: str) -> int | None:
    """Return the position after the last sentence that declines to answer ("cannot be determined"), or None."""
    ends = [match.end() for match in REFUSED.finditer(text)]
    if not ends:
        return None
    rest = text[ends[-1] :]
    stop = re.search(r"[.!?](?=\s)|\n", rest)
    return len(text) if stop is None else ends[-1] + stop.end()


def read_answer(text: str, question: str) -> FinalAnswer:
    """Return the final answer of a reply in the unit that its question asks for.

    $0.25 is 25 if the question asks for cents, and 26 billion is 26 if it asks for billions. 4,000,000 is in doubt if
    the question asks for millions.
    """
    final = read_final(text)
    if final.value is None:
        return final
    if "$" in final.text and CENTS_ASKED.search(question):
        return final._replace(value=round(final.value * 100, 6))
    if scale := SCALE_ASKED.search(question):
        unit = SCALES[scale[1].lower()]
        if SCALE_WRITTEN.search(final.text):
            return final._replace(value=final.value / unit)
        if abs(final.value) >= unit:
            return FinalAnswer(None, final.text, "a number in another unit than the question asks for")
    if other := other_amount_asked(text, question, final):
        return FinalAnswer(None, f"{final.text} ... {other}", "ambiguous number")
    return final


def other_amount_asked(text: str, question: str, final: FinalAnswer) -> str | None:
    """Return an amount in a reply's last sentence that fits the question's "how many" but is not the answer, or None.

    The answer to "how many weeks" in "He will have 40 cards in 4 weeks." is in doubt if it was read as 40.
    """
    sentence = sentences(text.strip().rsplit("\n", 1)[-1])[-1:]
    nouns = ASKED_NOUN.findall(question)
    if not sentence or not nouns or EQUALS.search(sentence[0]):
        return None
    numbers = numerals(sentence[0])
    noun = re.compile(rf"\s*{re.escape(nouns[-1].lower().removesuffix('s'))}s?\b", re.IGNORECASE)
    named = [number for number in numbers if noun.match(sentence[0], number.end)]
    if len({number.value for number in named}) != 1 or final.value not in {number.value for number in numbers}:
        return None
    return None if final.value == named[0].value else named[0].text


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
    final = read_answer(text, item.vars.get("question", ""))
    if final.value is None:
        return unread_reply(text, why_unread(str(final.why_none)), passage=final.text)
    return Reading(final.value, math.isclose(final.value, gold, rel_tol=1e-9, abs_tol=TOLERANCE), final.text)


def grade_answer(item: Item, text: str, scoring: Scoring) -> list[Reading]:
    """Grade problem solving (MathTutorBench task 1)."""
    return [grade_number(item, text, scoring, corrected=False)]


def grade_corrected_answer(item: Item, text: str, scoring: Scoring) -> list[Reading]:
    """Grade mistake correction (MathTutorBench task 5)."""
    return [grade_number(item, text, scoring, corrected=True)]
