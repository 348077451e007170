"""Find telephone numbers: digit groups in the forms in which people write them, whole or not at all.

A run of digit groups is a number by its shape. Sums, products, sequences, dates, decimals and thousands have other
shapes, or none of the marks: an international or trunk prefix, an area code in brackets, the groups of a country, or a
word such as "tel" before it. Numbers without any mark (eight digits in pairs, for example) are not found.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

# Between two groups: a blank, dot, dash or slash, or the brackets around an area code
SEPARATOR = r"(?:[ ./-]|[ -]?\(|\)[ ./-]?|(?<=\)))"
RUN = re.compile(
    r"(?<!\w)(?<!\d[.,:/-])(?P<plus>\+ ?)?"
    rf"(?P<number>\(?\d{{1,15}}\)?(?:{SEPARATOR}\d{{1,15}}\)?){{0,8}})"
    r"(?:,? ?(?:ext\.?|extension|x|durchwahl|dw\.?) ?\d{1,6})?"
    # Nothing that continues a number, and no operator of arithmetic
    r"(?![\w%\u00b0])(?![.,:/]\d)(?! ?[=+\u00d7\u00f7^<>]| ?\*(?!\*))",
    re.IGNORECASE,
)
CUE = re.compile(
    r"(?:\b(?:tel|phone|mobile|cell|call|text|fax|whats ?app|handy|telefon|tel\u00e9fono|t\u00e9l\u00e9phone|m\u00f3vil"
    r"|portable|\u0442\u0435\u043b(?:\u0435\u0444\u043e\u043d)?)\w{0,4}\.?"
    r"|\u7535\u8bdd|\u96fb\u8a71|\u260e|\u260f|\U0001f4de|\U0001f4f1)"
    r"(?: (?:me|us|number|no\.?|nr\.?|is|at|on))*\s?[:#]? ?$",
    re.IGNORECASE,
)
DATE = re.compile(r"(?<!\d)(?:\d{1,2}[./-]\d{1,2}[./-](?:19|20)\d\d|(?:19|20)\d\d[./-]\d{1,2}[./-]\d{1,2})(?!\d)")
FEWEST, MOST = 7, 15  # digits of a telephone number; the most is that of ITU-T E.164
LONGEST_CUE = 40  # a word such as "tel" is searched among this many characters before a number
# Digits of the groups of numbers without a prefix
NORTH_AMERICA, CHINA, INDIA, SPAIN = ([3, 3, 4], [1, 3, 3, 4]), [3, 4, 4], [5, 5], [3, 2, 2, 2]


def phone_spans(text: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of telephone numbers in a text with plain digits, blanks and dashes."""
    for match in RUN.finditer(text):
        number, begin, end = match["number"], *match.span()
        if number.startswith("(") and number.endswith(")") and number.count("(") == 1:  # the whole number in brackets
            number, begin, end = number[1:-1], begin + 1, end - 1
        elif number.endswith(")") and "(" not in number:  # the bracket opens before the number
            number, end = number[:-1], end - 1
        cue = CUE.search(text[max(0, begin - LONGEST_CUE) : begin])
        if is_phone_number(number, bool(match["plus"]), cue is not None):
            yield begin, end


def is_phone_number(number: str, has_plus: bool, cue: bool) -> bool:
    """Return True if a run of digit groups has the shape of a telephone number.

    number: the groups with their separators; has_plus: True after a plus sign; cue: True after a word such as "tel".
    """
    groups = re.findall(r"\d+", number)
    digits, sizes = "".join(groups), [len(group) for group in groups]
    if not FEWEST <= len(digits) <= MOST or number.count("(") != number.count(")") or number.count("(") > 1:
        return False
    if set(digits) <= {"0", "1"} or is_progression(groups) or digits in "01234567890123456789" or DATE.search(number):
        return False
    if has_plus:
        return len(digits) >= FEWEST + 1
    if cue:
        return True
    if digits.startswith("00"):
        return digits[2] != "0" and len(digits) >= 10 and sizes[0] >= 2
    if "(" in number:
        area = re.search(r"\((\d+)\)", number)
        shortest = min(sizes[sizes.index(len(area[1])) + 1 :], default=0) if area else 0
        return shortest >= 2 and len(digits) >= (8 if "0" in (area[1][0], digits[0]) else 10) if area else False
    if digits[0] == "0":
        return digits[1] != "0" and sizes[0] >= 2 and 9 <= len(digits) <= 12 and not is_decimal(number)
    separators = set(re.sub(r"\d", "", number))
    if sizes in NORTH_AMERICA and (len(separators) == 1 or separators == {" ", "-"}):
        return len(sizes) == 3 or digits[0] == "1"
    if separators > {" ", "-"}:
        return False
    return (sizes == CHINA and digits[0] == "1") or (sizes in (INDIA, SPAIN) and digits[0] in "6789")


def is_progression(groups: list[str]) -> bool:
    """Return True if three or more groups are an arithmetic progression, as in a sequence or a times table."""
    numbers = [int(group) for group in groups]
    steps = {after - before for before, after in pairwise(numbers)}
    return len(numbers) > 2 and len(steps) == 1


def is_decimal(number: str) -> bool:
    """Return True if a number may be a decimal: its only separator is one dot."""
    return re.fullmatch(r"\d+\.\d+", number) is not None
