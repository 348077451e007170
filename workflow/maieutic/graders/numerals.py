"""Find every number in a text, with its value and its role (part of the answer, or a circumstance of it).

Recognised notations: thousands separated by commas (1,000; Indian 1,00,000), spaces (1 000), apostrophes (1'000) or
several points (1.000.000); decimal commas (12,5); fractions and mixed numbers (3/4, 1 1/2, 3½); powers (10^2, 3e8,
3 × 10^8); scale words ($5 million, 5k); currencies, signs and digits of other scripts. The exponent of a unit (25 cm²,
25 m^2, 25 cm2) is not a number. The functions expect texts in the notation of `reading.plain_notation`.
"""

from __future__ import annotations

import math
import re
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

CONTEXT = 40  # number of characters before and after a numeral that decide its role
MOST_DIGITS = 300  # maximum number of characters of a numeral, since a float cannot exceed about 1e308
CURRENCY = "$€£¥₹₩"
SCALES = {"hundred": 1e2, "thousand": 1e3, "million": 1e6, "billion": 1e9, "trillion": 1e12}
SCALES |= {"k": 1e3, "m": 1e6, "b": 1e9}
# Pattern, thousands separators and decimal separators of each notation. A single point is a decimal point: 1.000 is 1.
# The number of digit groups is limited, because a list of numbers would otherwise be scanned again from each position.
NOTATIONS = {
    "comma": (r"\d{1,3}(?:,\d{3}){1,100}(?![\d,])(?:\.\d+)?", ",", "."),
    "indian": (r"\d{1,2}(?:,\d{2}){1,100},\d{3}(?![\d,])(?:\.\d+)?", ",", "."),
    "apostrophe": (r"\d{1,3}(?:['\u2019\u066c]\d{3}){1,100}(?!\d)(?:[.,\u066b]\d+)?", "'\u2019\u066c", ",\u066b"),
    "points": (r"\d{1,3}(?:\.\d{3}){2,100}(?!\d)(?:,\d+)?|\d{1,3}(?:\.\d{3}){1,100},\d+(?!\d)", ".", ","),
    "blanks": (r"(?<![\d,.])(?<!\d )\d{1,3}(?: \d{3}){1,100}(?!\d| \d|-[A-Za-z])(?:[.,]\d+)?", " ", ","),
    "decimal_comma": (r"(?<![\d,])\d+,\d{1,2}(?!\d|,\d)", "", ","),
    "plain": (r"\d+(?:[.\u066b]\d+)?|[.\u066b]\d+", "", "\u066b"),
}
# A minus sign belongs to the number except between two operands, as in 16-3. A minus sign before a space belongs to the
# number only at the beginning of the text or after an operator. Elsewhere it is a dash.
SIGN = r"(?:(?<![\w.)\]%])[-\u2212\u2013](?!\s)|(?:\A|(?<=[=≈×*/(])|(?<=[=≈×*/(]\s))[-\u2212\u2013]\s)"
MINUS = str.maketrans("\u2212\u2013", "--")
SCALE = r"[ -]?\b(?:hundred|thousand|million|billion|trillion)s?\b"
NUMERAL = re.compile(
    rf"(?=[-\d.\u066b\u2212\u2013{CURRENCY}mn])"  # fast check: a numeral begins with one of these characters
    rf"(?P<word>(?<!\d )\b(?:minus|negative)\s+)?(?P<sign>{SIGN})?(?P<currency>[{CURRENCY}]\s?(?P<minus>-)?)?"
    r"(?:(?:(?P<whole>\d{1,9})(?:\s+and\s+|\s+|-(?=\d{1,4}/\d)))?(?P<over>\d{1,15})\s?/\s?(?P<under>\d{1,15})(?![\d/])"
    r"|(?:" + "|".join(f"(?P<{name}>{pattern})" for name, (pattern, _, _) in NOTATIONS.items()) + ")"
    r"(?P<exponent>[eE][+-]?\d{1,3}\b)?(?:\s?\^\s?\{?\s?(?P<power>[-\u2212]?\d{1,3})\s?\}?)?"
    r"(?:\s?[x×*]\s?10\s?\^\s?\{?\s?(?P<tens>[-\u2212]?\d{1,3})\s?\}?)?)"
    rf"(?P<scale>(?:{SCALE})+|(?<=\d)[kK]\b|(?<=\d) ?[MB]n?\b)?",
    re.IGNORECASE,
)

# A digit at the end of a unit (cm2) or a name (H2O, x2) is not a number, but a digit directly after a word in WORD is.
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
BETWEEN_UNITS = re.compile(r"\s*([a-z]+)\s*(?:,\s*)?(?:and\s+)?", re.IGNORECASE)
# Pairs of units that express one quantity by two numbers: 2 hours 30 minutes, 5 feet 3 inches.
UNIT_PAIRS = {
    "hour": "minute", "hr": "min", "h": "min", "minute": "second", "min": "sec", "day": "hour", "week": "day",
    "year": "month", "month": "day", "feet": "inch", "foot": "inch", "ft": "in", "pound": "ounce", "lb": "oz",
    "meter": "centimeter", "metre": "centimetre", "m": "cm", "kilometer": "meter", "km": "m", "kg": "g",
}  # fmt: skip
CENTS = re.compile(r"\s*dollars?\s+(?:and\s+)?(\d{1,2})\s+cents?\b", re.IGNORECASE)

ORDINAL = re.compile(r"(?:st|nd|rd|th)\b", re.IGNORECASE)
LABEL_WORD = re.compile(
    r"(?:\b(?:option|step|day|week|month|year|part|question|problem|exercise|case|method|equation|eq\.?|line|no\.|nr\.?"
    r"|choice|figure|table|chapter|page|grade|version|round|level|item|attempt|solution)|#)\s*#?\s*$",
    re.IGNORECASE,
)
LIST_PLACE, LIST_MARK = re.compile(r"(?:^|\n)\s*\(?$"), re.compile(r"[.):]\s")
# Words before a quantity that is already known and so is not the answer: the 3 friends, all 4 boxes.
BEFORE_KNOWN_QUANTITY = re.compile(
    r"\b(?:the|these|those|all|both|his|her|their|its|our|my|your)"
    r"(?:\s+(?:first|last|next|other|remaining|original|same|initial|whole|entire))?\s+$",
    re.IGNORECASE,
)
# Words before a circumstance of the answer: "in 3 years he will be 40", "14 apples in 2 baskets", "5 of 6".
BEFORE_CIRCUMSTANCE = re.compile(
    r"\b(?:in|into|after|before|within|during|per|every|each|among|amongst|between|across|over|from|at|since|until|than"
    r"|times|out\s+of|divided\s+by|by\s+\w+ing)\s+(?:the\s+|about\s+|another\s+|only\s+)?$|\d\s+of\s+(?:the\s+)?$"
    r"|\b(?:when|if|because|although)\s+(?:[a-z']+\s+){0,4}$",
    re.IGNORECASE,
)
BEFORE_COUNT = re.compile(r"\b(?:for|on)\s+(?:the\s+|another\s+|all\s+|only\s+)?$", re.IGNORECASE)
NOUN = re.compile(
    r"\s*(?!(?:dollar|cent|euro|pound|rupee|usd|buck|percent|in\b|and\b|each\b|per\b))[A-Za-z]{2,}", re.IGNORECASE
)
RATE = re.compile(r"\s*(?:[A-Za-z]+\s+)?(?:/\s*[A-Za-z]|(?:each|per|apiece)\b)", re.IGNORECASE)


class Numeral(NamedTuple):
    """One number in a text.

    text: characters of the numeral. start, end: position of the numeral. circumstance: True if the number belongs to
    the context of the answer (a label, a given count, a duration) and is not the answer itself. unsettled: reason why
    the numeral is not a single number, or None.
    """

    value: float
    text: str
    start: int
    end: int
    circumstance: bool = False
    unsettled: str | None = None


def numerals(text: str) -> list[Numeral]:
    """Return the numbers of a text in order. Numbers without a finite value (1/0, 10^999) are left out."""
    numbers: list[Numeral] = []
    cents_end = 0
    for match in NUMERAL.finditer(text):
        if match.start() < cents_end:
            continue
        before = text[max(0, match.start() - CONTEXT) : match.start()]
        after = text[match.end() : match.end() + CONTEXT]
        # Most numbers are in formulas. To save time, try a pattern only if the character before the number fits it.
        touching, last = before[-1:], before.rstrip()[-1:]
        if not match["currency"] and touching.isalpha() and NAME.search(before) and not WORD.search(before):
            continue
        if touching in "-\u2011" and ACRONYM.search(before):  # the number is part of a name: COVID-19
            continue
        scale = scale_factor(match)
        value = numeral_value(match)
        if value is None:
            continue
        if scale is None:  # the letter is a unit: 5 m is a length
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
                is_circumstance(match, before, after, last),
                "a time or a ratio" if clock else None,
            )
        )
    return mark_unsettled(numbers, text)


@lru_cache(maxsize=4096)  # cached, because the same dialogue occurs in several tasks
def number_values(text: str) -> frozenset[float]:
    """Return the set of numbers in a text."""
    return frozenset(number.value for number in numerals(text))


def numeral_value(match: re.Match[str]) -> float | None:
    """Return the value of a numeral without its scale word, or None if the value is not finite (1/0, 10^999)."""
    if match["over"]:
        if int(match["under"]) == 0:
            return None
        value = float(int(match["whole"] or 0) + Fraction(int(match["over"]), int(match["under"])))
    else:
        name = next(name for name in NOTATIONS if match[name])
        value = parse_digits(match[name], *NOTATIONS[name][1:])
        try:
            value = value * 10.0 ** int((match["exponent"] or "e0")[1:])
            value = value ** int(match["power"].translate(MINUS)) if match["power"] else value
            value = value * 10.0 ** int((match["tens"] or "0").translate(MINUS))
        except (OverflowError, ZeroDivisionError):
            return None
    if not math.isfinite(value):
        return None
    return -value if match["sign"] or match["minus"] or match["word"] else value


def parse_digits(digits: str, thousands: str, decimal: str) -> float:
    """Return the value of a number in digits. thousands, decimal: characters that separate thousands and decimals."""
    bare = digits.translate({ord(sign): None for sign in thousands} | {ord(sign): "." for sign in decimal})
    return float(bare) if len(bare) <= MOST_DIGITS else math.inf


def scale_factor(match: re.Match[str]) -> float | None:
    """Return the factor of scale words (100,000 for "hundred thousand"), or None if the letter is a unit ("5 m").

    k means thousand. M and B mean million and billion, but only after a currency sign.
    """
    suffix = (match["scale"] or "").strip(" -")
    if len(suffix) <= 2:
        letter = suffix[:1].casefold()
        known = letter in {"", "k"} or bool(match["currency"])
        return SCALES.get(letter, 1.0) if known else None
    return math.prod(SCALES[word.casefold().removesuffix("s")] for word in re.findall(r"[A-Za-z]+", suffix))


def is_circumstance(match: re.Match[str], before: str, after: str, last: str) -> bool:
    """Return True if the context of a number makes it a circumstance of the answer.

    before, after: text before and after the number; last: last character before the number that is not a space.
    """
    spoken = last.isalpha() or last == "'"
    if (
        PLACES.match(after)
        or PER_UNIT.search(before)
        or ORDINAL.match(after)
        or (LIST_MARK.match(after) and LIST_PLACE.search(before))
    ):
        return True
    if (spoken or last in ".#") and LABEL_WORD.search(before):
        return True
    if spoken and (BEFORE_KNOWN_QUANTITY.search(before) or BEFORE_CIRCUMSTANCE.search(before)):
        return True
    if match["currency"]:
        return bool(RATE.match(after))
    return bool(spoken and BEFORE_COUNT.search(before) and NOUN.match(after))


def mark_unsettled(numbers: list[Numeral], text: str) -> list[Numeral]:
    """Mark numerals in ranges (3 to 5) and two-unit quantities (2 hours 30 minutes) as unsettled, and return all."""
    marked = dict(enumerate(numbers))
    for place, (number, other) in enumerate(pairwise(numbers)):
        between, before = text[number.end : other.start], text[max(0, number.start - CONTEXT) : number.start]
        rising = RANGE.fullmatch(between) and number.value < other.value and not FROM.search(before)
        reason = "a range" if rising or (BETWEEN.search(before) and between == " and ") else None
        if (joint := BETWEEN_UNITS.fullmatch(between)) and (unit := UNIT.match(text, other.end)):
            first, second = (name[1].casefold() for name in (joint, unit))
            part = UNIT_PAIRS.get(first.removesuffix("s"))
            reason = "a quantity in two units" if part and second in {part, f"{part}s", f"{part}es"} else reason
        if reason:
            marked[place], marked[place + 1] = number._replace(unsettled=reason), other._replace(unsettled=reason)
    return list(marked.values())
