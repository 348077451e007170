"""Decimal sign of a file's numbers: decided once from all numbers of a column, and a doubt where both are possible."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Literal, NamedTuple

Sign = Literal[".", ","]
# A number with its currency and unit. Group: the digits with their separators; blanks stand only between thousands.
NUMBER = re.compile(
    r"\s*(?:[^\W\d_]{1,4}\.?\s?|[$\u20a0-\u20bf\u00a3\u00a5]\s?)?"
    r"([-+\u2212]?(?:[0-9]{1,3}(?:[ '\u2019\u00a0\u202f][0-9]{3})+(?:[.,][0-9]+)?|[.,]?[0-9][0-9.,]*))"
    r"\s*(?:%|[$\u20a0-\u20bf\u00a3\u00a5\u00b0]|[^\W\d_][^0-9]{0,30})?\s*"
)
BLANKS = re.compile(r"[ '\u2019\u00a0\u202f]")  # separators of thousands that are no decimal signs
# Whole parts with separators of thousands, by the decimal sign; with a decimal point also those of India
GROUPED = {
    ".": re.compile(r"[1-9]\d{0,2}(?:,\d{3})+|[1-9]\d?(?:,\d{2})+,\d{3}"),
    ",": re.compile(r"[1-9]\d{0,2}(?:\.\d{3})+"),
}
SUPERSCRIPTS = str.maketrans("\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079\u207b\u2212", "0123456789--")
POWER_OF_TEN = re.compile(
    r"(?P<digits>[-\u2212]?\d+(?:\.\d+)?)\s*(?:[eE](?P<plain>[-+]?\d{1,3})|[x\u00d7\u00b7*]\s*10\s*\^?\s*"
    r"\(?(?P<power>[-\u2212\u207b]?[\d\u2070\u00b9\u00b2\u00b3\u2074-\u2079]{1,3})\)?)(?P<unit>\s*[^\W\d_].{0,30})?"
)
LARGEST_EXPONENT = 40
CODES = (
    "USD|EUR|GBP|CHF|JPY|CNY|INR|CAD|AUD|NZD|SEK|NOK|DKK|PLN|CZK|HUF|RON|BRL|MXN|ZAR|SGD|HKD|KRW|TRY|ILS|UAH|THB|IDR"
    "|PHP|KES|NGN"
)
CURRENCY_CODE = re.compile(  # of ISO 4217, or its usual abbreviation
    rf"^(?:(?:{CODES})(?=[\s\d-])|(?:Frs?|Rs|kr)\.?(?=\s*\d)|(?:R|US|A|C|NZ|S|HK)?\$(?=\s*\d))"
    rf"|(?<=[\d\s\u2013-])(?:{CODES})$"
)
FORMULA = re.compile(r"^\$([^$]+)\$$")  # a number in the marks of a formula
# A fraction of LaTeX, after the whole number of a mixed one if it has one
LATEX_FRACTION = re.compile(r"(?:(?<=\d)((?:\\[,;:! ]|~|\s)*))?\\[dt]?frac\s*\{\s*(\d+)\s*\}\s*\{\s*(\d+)\s*\}")
LATEX = {"\\$": "$", "\\%": "%", "{,}": "", "\\,": "", "\\!": "", "^\\circ": "", "^{\\circ}": ""}  # of numbers
# A price without cents, as in Switzerland, Germany and India
WHOLE_PRICE = re.compile(r"(\d)(?:[.,](?:\u2013|\u2014|-{1,2})|/-)$")
FRACTIONS = (
    "\u00bc\u00bd\u00be\u2150\u2151\u2152\u2153\u2154\u2155\u2156\u2157\u2158\u2159\u215a\u215b\u215c\u215d\u215e"
)
ONE_CHARACTER = re.compile(rf"((?<=\d)\s*)?([{FRACTIONS}])")
OTHER: dict[Sign, Sign] = {".": ",", ",": "."}


class DecimalSign(NamedTuple):
    """Decimal sign of a column. sign: None in doubt; proof: cells that have only this reading; open: cells with two."""

    column: str
    sign: Sign | None
    proof: list[str]
    open: list[str]


def digits_of(text: str) -> str | None:
    """Return the digits of a number with their decimal sign and separators, or None for a text that is no number."""
    match = NUMBER.fullmatch(text)
    return BLANKS.sub("", match[1]) if match else None


def reads_as(digits: str, sign: Sign) -> bool:
    """Return True if digits with separators are a number with this decimal sign."""
    whole, point, part = digits.lstrip("+-\u2212").partition(sign)
    if OTHER[sign] in part or sign in part or (point and not part):
        return False
    return whole.isdigit() or (not whole and bool(part)) or bool(GROUPED[sign].fullmatch(whole))


def decimal_sign(column: str, texts: Iterable[str]) -> DecimalSign | None:
    """Return the decimal sign of the numbers in a column, or None if none of them has a separator."""
    numbers = [digits for text in texts if (digits := digits_of(text)) is not None]
    proofs: dict[Sign, list[str]] = {".": [], ",": []}
    is_open: list[str] = []
    for digits in numbers:
        if "." not in digits and "," not in digits:
            continue
        signs: list[Sign] = [sign for sign in OTHER if reads_as(digits, sign)]
        if len(signs) == 1:
            proofs[signs[0]].append(digits)
        elif signs:
            is_open.append(digits)
    if not is_open and not any(proofs.values()):
        return None
    if proofs["."] and proofs[","]:
        return DecimalSign(column, None, [proofs["."][0], proofs[","][0]], is_open)
    for sign, proof in proofs.items():
        if proof:
            return DecimalSign(column, sign, proof, is_open)
    return DecimalSign(column, None, [], is_open)


def plain_number(text: str, sign: Sign) -> str | None:
    """Return a text whose number has a decimal point and no separators of thousands; None if it is no such number."""
    digits = digits_of(text)
    if digits is None or not reads_as(digits, sign):
        return None
    plain = digits.replace(OTHER[sign], "").replace(sign, ".").replace("\u2212", "-")
    plain = re.sub(r"^([-+]?)\.", r"\g<1>0.", plain)
    match = NUMBER.fullmatch(text)
    assert match is not None
    return f"{text[: match.start(1)]}{plain}{text[match.end(1) :]}"


def plain_fractions(text: str) -> str:
    """Return a text with LaTeX's fractions as 3/4, and mixed numbers as 2 3/4."""
    return LATEX_FRACTION.sub(lambda match: f"{' ' * (match[1] is not None)}{match[2]}/{match[3]}", text)


def usual_notation(text: str) -> str:
    """Return a number in a notation that only some programs write, in the usual one; other texts unchanged.

    These are powers of ten (1.2E+03, 3×10^8), fractions in one character (2½), a leading plus, the Swiss 45.– and codes
    of currencies (CHF 45), and a formula ($\\frac{3}{4}$). Commas are decimal signs in no power of ten.
    """
    text = plain_fractions(FORMULA.sub(r"\1", text.strip()))
    for sign, usual in LATEX.items():
        text = text.replace(sign, usual)
    text = ONE_CHARACTER.sub(
        lambda match: f"{' ' * (match[1] is not None)}{unicodedata.normalize('NFKC', match[2])}", text
    )
    text = text.replace("\u2044", "/").strip().removeprefix("+")
    text = WHOLE_PRICE.sub(r"\1", CURRENCY_CODE.sub("", text).strip())
    power = POWER_OF_TEN.fullmatch(text)
    if power is None:
        return text
    exponent = (power["plain"] or power["power"] or "").translate(SUPERSCRIPTS)
    if abs(int(exponent)) > LARGEST_EXPONENT:
        return text
    return f"{Decimal(power['digits'].replace(chr(0x2212), '-')).scaleb(int(exponent)):f}{power['unit'] or ''}"


def doubt_of(columns: Sequence[DecimalSign]) -> tuple[str, str] | None:
    """Return what is in doubt about the decimal signs of a file's columns, with its fix, or None."""
    mixed = [
        f"column {column.column} has numbers in both notations ({' and '.join(column.proof)})"
        for column in columns
        if column.sign is None and column.proof
    ]
    if mixed:
        return "; ".join(
            mixed
        ), "write all of its numbers in one notation, and lists of numbers with a blank after the comma"
    if len({column.sign for column in columns if column.sign}) > 1:
        names = ", ".join(column.column for column in columns)
        return f"columns {names} differ in their decimal sign", "convert them one by one, with --numbers"
    is_open = [
        f"column {column.column} has {len(column.open):,} numbers with two readings, such as "
        + ", ".join(dict.fromkeys(column.open[:3]))
        for column in columns
        if column.sign is None
    ]
    return ("; ".join(is_open), "pass --decimal with the decimal sign, . or ,") if is_open else None
