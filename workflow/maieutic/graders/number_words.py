"""Replace English number words by digits: "one hundred and twenty-five" becomes 125, "two and a half" 2 1/2."""

from __future__ import annotations

import re
from fractions import Fraction

from text_to_num import text2num

ONES = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen"
    " eighteen nineteen"
)
TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
SCALES = "hundred thousand million billion trillion"
DENOMINATORS = {
    "half": 2,
    "halves": 2,
    "third": 3,
    "quarter": 4,
    "fourth": 4,
    "fifth": 5,
    "sixth": 6,
    "seventh": 7,
    "eighth": 8,
    "ninth": 9,
    "tenth": 10,
}
SMALL = "|".join(f"{ONES} {TENS}".split())
SCALE = "|".join(SCALES.split())
CARDINAL = rf"(?:(?:an?\s+(?={SCALE}))?(?:{SMALL}|{SCALE})(?:(?:\s+and\s+|[\s-]+)(?:{SMALL}|{SCALE})\b)*)"
FRACTION_IN_WORDS = (
    rf"(?:(?P<over>an?|{SMALL})[\s-]+)?(?P<under>{'|'.join(DENOMINATORS)})s?\b(?!\s+(?:step|time|day|week"
    rf"|month|year|one|grade|of\s+(?:the\s+)?(?:month|may|june|july)))"
)
NUMBER = re.compile(
    rf"\b(?:(?P<minus>minus|negative)\s+)?(?:(?:(?P<whole>{CARDINAL}|\d{{1,9}})\s+and\s+{FRACTION_IN_WORDS})"
    rf"|(?:{FRACTION_IN_WORDS.replace('over', 'over2').replace('under', 'under2')}"
    rf"(?:\s+an?)?(?P<scaled>\s+(?:{SCALE}))?)"
    rf"|(?P<cardinal>{CARDINAL})(?:\s+point(?P<decimals>(?:\s+(?:{SMALL}))+))?)\b",
    re.IGNORECASE,
)
# The pronoun "one" ("the one that", "one of them", "no one"), which is not a number.
PRONOUN = re.compile(
    (
        r"\b(?:the|this|that|which|each|every|no|any|some|other|another)\s+(?:\w+\s+)?one\b|\bone\s+(?:of"
        r"|that|who|which|could|can|might|may|must|should|would|has|is|needs?)\b"
    ),
    re.IGNORECASE,
)
SCALED_SUM = re.compile(rf"\b(\d{{1,3}}) ({SCALE})(?:,? and|,)? (\d{{1,3}})(?: ({SCALE}))?\b(?![.,]\d)", re.IGNORECASE)
WITH_FRACTION = re.compile(rf"\b\d{{1,9}}\s+and\s+{FRACTION_IN_WORDS}", re.IGNORECASE)


def words_as_digits(text: str) -> str:
    """Replace number words by digits, except ordinals and the pronoun "one"."""
    pronouns = {match.start() + match[0].casefold().rindex("one") for match in PRONOUN.finditer(text)}
    return NUMBER.sub(lambda match: match[0] if match.start() in pronouns else match_in_digits(match), text)


def fractions_as_digits(text: str) -> str:
    """Rewrite numbers that mix digits and words: "5 thousand, 2 hundred" as "5200", "5 and a half" as "5 1/2"."""
    text = scaled_sums_as_digits(text)
    return WITH_FRACTION.sub(lambda match: words_as_digits(match[0]), text)


def scaled_sums_as_digits(text: str) -> str:
    """Rewrite sums of digits and scale words as one number: "5 thousand, 2 hundred" becomes "5200"."""
    return SCALED_SUM.sub(
        lambda match: str(scaled_number(match[1], match[2]) + scaled_number(match[3], match[4])), text
    )


def scaled_number(digits: str, scale: str | None) -> int:
    """Return the value of digits and a scale word ("5 thousand"). scale: None if no scale word follows the digits."""
    return int(digits) * (cardinal_value(scale) if scale else 1)


def match_in_digits(match: re.Match[str]) -> str:
    """Return the digits for a match of NUMBER, or the match itself if its words form no number ("four and five")."""
    try:
        return parse_number_words(match)
    except ValueError:
        return match[0]


def parse_number_words(match: re.Match[str]) -> str:
    """Return the digits for a match of NUMBER. Raises ValueError if its words do not form a number."""
    sign = "-" if match["minus"] else ""
    if match["whole"]:
        return f"{sign}{cardinal_value(match['whole'])} {fraction_in_digits(match['over'], match['under'])}"
    if match["under2"]:
        part = fraction_in_digits(match["over2"], match["under2"])
        if not match["scaled"]:
            # A bare ordinal ("the third") is not a fraction, but a bare "half" or "quarter" is.
            return f"{sign}{part}" if match["over2"] or match["under2"].casefold() in ("half", "quarter") else match[0]
        return f"{sign}{float(Fraction(part) * cardinal_value(match['scaled'].strip())):.10g}"
    value = str(cardinal_value(match["cardinal"]))
    if match["decimals"]:
        value += "." + "".join(str(cardinal_value(word)) for word in match["decimals"].split())
    return sign + value


def cardinal_value(words: str) -> int:
    """Return the value of a cardinal number in words or digits."""
    if words.isdigit():
        return int(words)
    return int(text2num(re.sub(r"^an?\s+", "one ", words.strip().casefold()), "en"))


def fraction_in_digits(over: str | None, under: str) -> str:
    """Return a fraction in digits: "3/4" for `over` "three" and `under` "quarters". None means one."""
    top = 1 if over is None or over.casefold() in ("a", "an") else cardinal_value(over)
    return f"{top}/{DENOMINATORS[under.casefold()]}"
