"""Numerals in prose: every number of a text with its value and what its neighbours say about it.

Notations: thousands by commas (1,000; Indian 1,00,000), blanks (1 000), apostrophes (1'000) or several points
(1.000.000); decimal commas (12,5); fractions and mixed numbers (3/4, 1 1/2, 3½); powers (10^2, 3e8, 3 × 10^8); scale
words ($5 million, 5k); currencies, signs, digits of other scripts. The exponent of a unit (25 cm², 25 m^2, 25 cm2) is
no number. Texts come from `reading.plain`.
"""

from __future__ import annotations

import math
import re
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

CONTEXT = 40  # characters before and after a numeral that say what it is
MOST_DIGITS = 300  # of one numeral: a float ends at 1e308
CURRENCY = "$€£¥₹₩"
SCALES = {"hundred": 1e2, "thousand": 1e3, "million": 1e6, "billion": 1e9, "trillion": 1e12}
SCALES |= {"k": 1e3, "m": 1e6, "b": 1e9}
# Each notation with what separates its thousands and its decimals. A single point is a decimal point: 1.000 is 1. As
# many groups as MOST_DIGITS allows: without an end, a list of numbers is read anew from each of its places.
NOTATIONS = {
    "comma": (r"\d{1,3}(?:,\d{3}){1,100}(?![\d,])(?:\.\d+)?", ",", "."),
    "indian": (r"\d{1,2}(?:,\d{2}){1,100},\d{3}(?![\d,])(?:\.\d+)?", ",", "."),
    "apostrophe": (r"\d{1,3}(?:['\u2019\u066c]\d{3}){1,100}(?!\d)(?:[.,\u066b]\d+)?", "'\u2019\u066c", ",\u066b"),
    "points": (r"\d{1,3}(?:\.\d{3}){2,100}(?!\d)(?:,\d+)?|\d{1,3}(?:\.\d{3}){1,100},\d+(?!\d)", ".", ","),
    "blanks": (r"(?<![\d,.])(?<!\d )\d{1,3}(?: \d{3}){1,100}(?!\d| \d)(?:[.,]\d+)?", " ", ","),
    "decimal_comma": (r"(?<![\d,])\d+,\d{1,2}(?!\d|,\d)", "", ","),
    "plain": (r"\d+(?:[.\u066b]\d+)?|[.\u066b]\d+", "", "\u066b"),
}
# A minus belongs to the number unless it stands between two operands, as in 16-3.
# One with a blank after it belongs to it only at the beginning or behind an operator: elsewhere it is a pause.
SIGN = (
    r"(?:(?<![\w.)\]%])[-\u2212\u2013](?!\s)|(?:\A|(?<=[=\u2248\u00d7*/(])|(?<=[=\u2248\u00d7*/(]\s))[-\u2212\u2013]\s)"
)
MINUS = str.maketrans("\u2212\u2013", "--")
SCALE = r"[ -]?\b(?:hundred|thousand|million|billion|trillion)s?\b"
NUMERAL = re.compile(
    rf"(?=[-\d.\u066b\u2212\u2013{CURRENCY}mn])"  # whatever a numeral begins with: most places are no start of one
    rf"(?P<word>(?<!\d )\b(?:minus|negative)\s+)?(?P<sign>{SIGN})?(?P<currency>[{CURRENCY}]\s?(?P<minus>-)?)?"
    r"(?:(?:(?P<whole>\d{1,9})(?:\s+and\s+|\s+|-(?=\d{1,4}/\d)))?(?P<over>\d{1,15})\s?/\s?(?P<under>\d{1,15})(?![\d/])"
    r"|(?:" + "|".join(f"(?P<{name}>{pattern})" for name, (pattern, _, _) in NOTATIONS.items()) + ")"
    r"(?P<exponent>[eE][+-]?\d{1,3}\b)?(?:\s?\^\s?\{?\s?(?P<power>[-\u2212]?\d{1,3})\s?\}?)?"
    r"(?:\s?[x\u00d7*]\s?10\s?\^\s?\{?\s?(?P<tens>[-\u2212]?\d{1,3})\s?\}?)?)"
    rf"(?P<scale>(?:{SCALE})+|(?<=\d)[kK]\b|(?<=\d) ?[MB]n?\b)?",
    re.IGNORECASE,
)

# A digit that ends a unit (cm2) or a name (H2O, x2) is no number; words that stand right before one are.
NAME = re.compile(r"(?:^|[^A-Za-z])[A-Za-z]{1,3}$")
ACRONYM = re.compile(r"\b[A-Z]{3,}[-\u2011]$")
PLACES = re.compile(r"\s*(?:decimal\s+)?(?:places?|decimals?|digits?|significant)\b", re.IGNORECASE)
PER_UNIT = re.compile(r"[A-Za-z]\s?/\s?$")
WORD = re.compile(r"\b(?:USD|EUR|GBP|INR|AUD|CAD|CNY|JPY|Rs|is|was|are|be|or|and|to|of)$", re.IGNORECASE)

RANGE = re.compile(r"\s?(?:-|\u2013|\u2014|to)\s?")
BETWEEN = re.compile(r"\bbetween\s+$", re.IGNORECASE)
FROM = re.compile(r"\bfrom\s+$", re.IGNORECASE)
CLOCK_BEFORE, CLOCK_AFTER = re.compile(r"\d(?::| : )$"), re.compile(r"(?::| : )\d")
UNIT = re.compile(r"\s*([a-z]+)", re.IGNORECASE)
JOINT = re.compile(r"\s*([a-z]+)\s*(?:,\s*)?(?:and\s+)?", re.IGNORECASE)
# Two units of one quantity whose parts make no decimal number: 2 hours 30 minutes, 5 feet 3 inches.
PARTS = {
    "hour": "minute", "hr": "min", "h": "min", "minute": "second", "min": "sec", "day": "hour", "week": "day",
    "year": "month", "month": "day", "feet": "inch", "foot": "inch", "ft": "in", "pound": "ounce", "lb": "oz",
    "meter": "centimeter", "metre": "centimetre", "m": "cm", "kilometer": "meter", "km": "m", "kg": "g",
}  # fmt: skip
CENTS = re.compile(r"\s*dollars?\s+(?:and\s+)?(\d{1,2})\s+cents?\b", re.IGNORECASE)

ORDINAL = re.compile(r"(?:st|nd|rd|th)\b", re.IGNORECASE)
LABEL = re.compile(
    r"(?:\b(?:option|step|day|week|month|year|part|question|problem|exercise|case|method|equation|eq\.?|line|no\.|nr\.?"
    r"|choice|figure|table|chapter|page|grade|version|round|level|item|attempt|solution)|#)\s*#?\s*$",
    re.IGNORECASE,
)
LIST_PLACE, LIST_MARK = re.compile(r"(?:^|\n)\s*\(?$"), re.compile(r"[.):]\s")
# What is given and not asked for: the 3 friends, all 4 boxes.
GIVEN = re.compile(
    r"\b(?:the|these|those|all|both|his|her|their|its|our|my|your)"
    r"(?:\s+(?:first|last|next|other|remaining|original|same|initial|whole|entire))?\s+$",
    re.IGNORECASE,
)
# The circumstances of an answer: "in 3 years he will be 40", "14 apples in 2 baskets", "5 of 6".
CIRCUMSTANCE = re.compile(
    r"\b(?:in|into|after|before|within|during|per|every|each|among|amongst|between|across|over|from|at|since|until|than"
    r"|times|out\s+of|divided\s+by|by\s+\w+ing)\s+(?:the\s+|about\s+|another\s+|only\s+)?$|\d\s+of\s+(?:the\s+)?$"
    r"|\b(?:when|if|because|although)\s+(?:[a-z']+\s+){0,4}$",
    re.IGNORECASE,
)
COUNTED = re.compile(r"\b(?:for|on)\s+(?:the\s+|another\s+|all\s+|only\s+)?$", re.IGNORECASE)
NOUN = re.compile(
    r"\s*(?!(?:dollar|cent|euro|pound|rupee|usd|buck|percent|in\b|and\b|each\b|per\b))[A-Za-z]{2,}", re.IGNORECASE
)
RATE = re.compile(r"\s*(?:[A-Za-z]+\s+)?(?:/\s*[A-Za-z]|(?:each|per|apiece)\b)", re.IGNORECASE)


class Numeral(NamedTuple):
    """One number of a text.

    text: the characters that it was read from; start, end: their place; weak: it tells the circumstances of an answer
    (a label, a given count, a duration beside another number); unsettled: why it is no single number, or None.
    """

    value: float
    text: str
    start: int
    end: int
    weak: bool = False
    unsettled: str | None = None


def numerals(text: str) -> list[Numeral]:
    """Every finite number of a text in order."""
    numbers: list[Numeral] = []
    cents_end = 0
    for match in NUMERAL.finditer(text):
        if match.start() < cents_end:
            continue
        before = text[max(0, match.start() - CONTEXT) : match.start()]
        after = text[match.end() : match.end() + CONTEXT]
        # What stands right before decides which patterns can match at all: most numbers stand in formulas.
        touching, last = before[-1:], before.rstrip()[-1:]
        if not match["currency"] and touching.isalpha() and NAME.search(before) and not WORD.search(before):
            continue
        if touching in "-\u2011" and ACRONYM.search(before):  # COVID-19
            continue
        scale = scale_of(match)
        value = value_of(match)
        if value is None:
            continue
        if scale is None:  # a unit: 5 m is a length
            scale, after = 1.0, str(match["scale"]) + after
        if not math.isfinite(value * scale):
            continue
        if cents := CENTS.match(after):
            value, cents_end = value + math.copysign(int(cents[1]) / 100, value), match.end() + cents.end()
        clock = (last == ":" and CLOCK_BEFORE.search(before)) or CLOCK_AFTER.match(after)
        numbers.append(
            Numeral(
                value * scale,
                match[0].strip(),
                match.start(),
                match.end(),
                weak(match, before, after, last),
                "a time or a ratio" if clock else None,
            )
        )
    return settled(numbers, text)


@lru_cache(maxsize=4096)  # the same dialogue stands in several tasks
def values_in(text: str) -> frozenset[float]:
    """The numbers of a text."""
    return frozenset(number.value for number in numerals(text))


def value_of(match: re.Match[str]) -> float | None:
    """The value of a numeral without its scale; None for one without a finite value (1/0, 10^999)."""
    if match["over"]:
        if int(match["under"]) == 0:
            return None
        value = float(int(match["whole"] or 0) + Fraction(int(match["over"]), int(match["under"])))
    else:
        name = next(name for name in NOTATIONS if match[name])
        value = written(match[name], *NOTATIONS[name][1:])
        try:
            value = value * 10.0 ** int((match["exponent"] or "e0")[1:])
            value = value ** int(match["power"].translate(MINUS)) if match["power"] else value
            value = value * 10.0 ** int((match["tens"] or "0").translate(MINUS))
        except (OverflowError, ZeroDivisionError):
            return None
    if not math.isfinite(value):
        return None
    return -value if match["sign"] or match["minus"] or match["word"] else value


def written(digits: str, thousands: str, decimal: str) -> float:
    """A written number. thousands, decimal: the signs that separate its groups, and stand for its decimal point."""
    plain = digits.translate({ord(sign): None for sign in thousands} | {ord(sign): "." for sign in decimal})
    return float(plain) if len(plain) <= MOST_DIGITS else math.inf


def scale_of(match: re.Match[str]) -> float | None:
    """The factor of scale words ("hundred thousand" is 100,000); None where the letter is a unit.

    k is a thousand, M and B are millions and billions of money.
    """
    suffix = (match["scale"] or "").strip(" -")
    if len(suffix) <= 2:
        letter = suffix[:1].casefold()
        known = letter in {"", "k"} or bool(match["currency"])
        return SCALES.get(letter, 1.0) if known else None
    return math.prod(SCALES[word.casefold().removesuffix("s")] for word in re.findall(r"[A-Za-z]+", suffix))


def weak(match: re.Match[str], before: str, after: str, last: str) -> bool:
    """Whether a number tells the circumstances of an answer, as far as its neighbours say.

    last: the last character before it that is no blank.
    """
    spoken = last.isalpha() or last == "'"
    if (
        PLACES.match(after)
        or PER_UNIT.search(before)
        or ORDINAL.match(after)
        or (LIST_MARK.match(after) and LIST_PLACE.search(before))
    ):
        return True
    if (spoken or last in ".#") and LABEL.search(before):
        return True
    if spoken and (GIVEN.search(before) or CIRCUMSTANCE.search(before)):
        return True
    if match["currency"]:
        return bool(RATE.match(after))
    return bool(spoken and COUNTED.search(before) and NOUN.match(after))


def settled(numbers: list[Numeral], text: str) -> list[Numeral]:
    """The numerals with the parts of ranges (3 to 5) and of quantities in two units (2 hours 30 minutes) marked."""
    marked = dict(enumerate(numbers))
    for place, (number, other) in enumerate(pairwise(numbers)):
        between, before = text[number.end : other.start], text[max(0, number.start - CONTEXT) : number.start]
        rising = RANGE.fullmatch(between) and number.value < other.value and not FROM.search(before)
        why = "a range" if rising or (BETWEEN.search(before) and between == " and ") else None
        if (joint := JOINT.fullmatch(between)) and (unit := UNIT.match(text, other.end)):
            first, second = (name[1].casefold() for name in (joint, unit))
            part = PARTS.get(first.removesuffix("s"))
            why = "a quantity in two units" if part and second in {part, f"{part}s", f"{part}es"} else why
        if why:
            marked[place], marked[place + 1] = number._replace(unsettled=why), other._replace(unsettled=why)
    return list(marked.values())
