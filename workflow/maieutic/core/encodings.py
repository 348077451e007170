"""Encodings of users' text files: UTF-8, UTF-16, and the code pages that spreadsheets write.

The bytes alone do not show which code page a file has. A file without Unicode is read as Windows-1252 only if its
letters are those of a Western text; in doubt, the user names the encoding.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections import Counter
from itertools import pairwise
from typing import NamedTuple

from maieutic.core.errors import UserError
from maieutic.core.tables import check_one_encoding

BOMS = {
    b"\xef\xbb\xbf": "utf-8-sig", b"\xff\xfe\x00\x00": "utf-32", b"\x00\x00\xfe\xff": "utf-32", b"\xff\xfe": "utf-16",
    b"\xfe\xff": "utf-16",
}  # fmt: skip
WESTERN = "cp1252"  # encoding of files that Excel in Western Europe saves as "CSV" rather than "CSV UTF-8"
WESTERN_LETTERS = frozenset(
    "\u00e4\u00f6\u00fc\u00df\u00e0\u00e2\u00e7\u00e9\u00e8\u00ea\u00eb\u00ee\u00ef\u00f4\u00fb\u00f9\u0153\u00e6\u00e1\u00ed\u00f3\u00fa\u00f1\u00e3\u00f5"
    "\u00ec\u00f2\u00e5\u00f8\u00aa\u00ba\u0192\u00b5"
)
# Letters that follow an accented letter in German, Portuguese and French words
FOLLOWERS = frozenset("\u00df\u00e3\u00f5\u00e9")
WITHIN_WORDS = frozenset(
    "\u2018\u2019\u00b4\u00b7\u2010\u2011\u2013\u2014\u00ad\u2026"
)  # signs that stand between letters
WORD = re.compile(r"[^\W\d_]+(?:[^\x00-\x7f\s][^\W\d_]*)*|[^\x00-\x7f\s]+")
MANY_ACCENTS = re.compile(r"[^\x00-\x7f]{5}")  # more accented letters in a row than words of Latin scripts have
MOST_SUSPICIOUS = 0.2  # maximum share of words that are no Western words
WESTERN_PAGES = {"cp850", "mac_roman"}
ENTITY = re.compile(r"&(?:[a-zA-Z][a-zA-Z0-9]{1,30}|#\d{1,6}|#x[0-9a-fA-F]{1,5});")
DECODED_ENTITIES = "texts with HTML entities such as &amp;, which were decoded"
KEPT_ENTITIES = "texts with HTML entities such as &amp;, kept as they are"
SAMPLE = 1 << 20  # number of bytes at which an encoding is tried
# Code pages proposed to the user, with the writing that each is for. Strict ones, which fit few files in other code
# pages, come first.
CODE_PAGES = {
    "shift_jis": "Japanese", "gb18030": "Chinese", "big5": "traditional Chinese", "euc_kr": "Korean",
    "cp1251": "Cyrillic", "cp1253": "Greek", "cp1255": "Hebrew", "cp1256": "Arabic",
    "cp1250": "Central European", "cp1254": "Turkish", "cp850": "Western European, DOS",
    "mac_roman": "Western European, old Macs",
}  # fmt: skip
SCRIPTS_OF_PAGES = {
    "shift_jis": {"HIRAGANA", "KATAKANA", "CJK"}, "gb18030": {"CJK"}, "big5": {"CJK"}, "euc_kr": {"HANGUL"},
    "cp1251": {"CYRILLIC"}, "cp1253": {"GREEK"}, "cp1255": {"HEBREW"}, "cp1256": {"ARABIC"}, "cp1250": {"LATIN"},
    "cp1254": {"LATIN"}, "cp850": {"LATIN"}, "mac_roman": {"LATIN"},
}  # fmt: skip


def without_entities(text: str) -> str:
    """Return a text with each HTML entity, such as &lt;, replaced by its character."""
    return html.unescape(text) if ENTITY.search(text) else text


class DecodedText(NamedTuple):
    """Text of a file. encoding: as it was decoded; is_guessed: True if the bytes alone do not tell it."""

    text: str
    encoding: str
    is_guessed: bool = False


def decode_file(data: bytes, name: str, encoding: str | None = None, fix: str = "pass --encoding") -> DecodedText:
    """Return the text of a user's file.

    name: the file's name in messages; encoding: the user's choice; fix: how to name the encoding. Raises UserError for
    an unknown encoding, for bytes that do not fit it, and for a file whose code page is not known.
    """
    if encoding is not None:
        return DecodedText(decoded_as(data, name, encoding), encoding)
    for mark, marked in BOMS.items():
        if data.startswith(mark):
            return DecodedText(decoded_as(data, name, marked), marked)
    if (wide := unmarked_utf16(data)) is not None:
        raise UserError(name, "the file is UTF-16 without its mark", f"save it as UTF-8, or {fix} {wide}")
    try:
        return DecodedText(data.decode("utf-8"), "utf-8")
    except UnicodeDecodeError as error:
        check_one_encoding(data, name)
        text = western_text(data)
        if text is not None:
            return DecodedText(text, WESTERN, is_guessed=True)
        pages = possible_pages(data)
        if not pages and b"\x00" in data:
            raise UserError(name, f"found invalid UTF-8 at byte {error.start}", "save the file as UTF-8") from None
        proposals = ", ".join(f"{page} ({CODE_PAGES[page]})" for page in pages) or "unknown"
        problem = f"is not UTF-8, and its letters are not those of a Western text; possible encodings: {proposals}"
        choice = pages[0] if len(pages) == 1 else "with one of them" if pages else "with its code page"
        raise UserError(name, problem, f"save it as UTF-8, or {fix} {choice}") from None


def decoded_as(data: bytes, name: str, encoding: str) -> str:
    """Return a text in an encoding. Raises UserError if it is unknown or does not fit."""
    try:
        return data.decode(encoding)
    except LookupError:
        raise UserError(
            name, f"the encoding {encoding} is unknown", "use utf-8, cp1250, shift_jis or another"
        ) from None
    except UnicodeDecodeError as error:
        problem = f"found invalid {encoding} at byte {error.start}"
        raise UserError(name, problem, "save the file as UTF-8, or name another encoding") from None


def unmarked_utf16(data: bytes) -> str | None:
    """Return the form of UTF-16 of a file without its mark, or None. Every second byte of ASCII letters is zero."""
    head = data[:SAMPLE]
    for encoding, zeros in (("utf-16-le", head[1::2]), ("utf-16-be", head[::2])):
        if len(head) >= 4 and zeros.count(0) > 0.5 * len(zeros):
            return encoding
    return None


def western_text(data: bytes) -> str | None:
    """Return a file's text in Windows-1252, or None if that is no Western text."""
    try:
        text = data.decode(WESTERN)
    except UnicodeDecodeError:
        return None
    if "\x00" in text:
        return None
    words = [word for word in WORD.findall(text) if not word.isascii()]
    return text if sum(map(is_foreign, words)) < MOST_SUSPICIOUS * max(len(words), 1) else None


def is_foreign(word: str) -> bool:
    """Return True if a word of a text in Windows-1252 belongs to no Western language."""
    before = ""
    for place, sign in enumerate(word):
        follows = word[place + 1 : place + 2]
        if sign.isascii():
            before = sign
            continue
        if sign.isalpha():
            if sign.casefold() not in WESTERN_LETTERS and sign != "\u00df":
                return True
            if sign.isupper() and before.islower():
                return True
            is_pair = bool(before) and not before.isascii() and before.isalpha()
            if is_pair and sign.lower() not in FOLLOWERS and not word.isupper():
                return True
            if sign.lower() == "\u00f5" and follows.lower() != "e":  # Portuguese; alone, it stands for Hungarian
                return True
        elif before.isalpha() and follows.isalpha() and sign not in WITHIN_WORDS:
            return True
        before = sign
    return False


def possible_pages(data: bytes) -> list[str]:
    """Return the code pages in which most of a file's letters beyond ASCII belong to the scripts of the page."""
    pages = []
    for page, scripts in SCRIPTS_OF_PAGES.items():
        try:
            text = data.decode(page)
        except UnicodeDecodeError:
            continue
        kinds = Counter(unicodedata.name(sign, "").partition(" ")[0] for sign in text if not sign.isascii())
        words = [word for word in WORD.findall(text) if not word.isascii()]
        fits = sum(kinds[script] for script in scripts) >= 0.8 * sum(kinds.values())
        fits = fits and not (scripts == {"LATIN"} and any(MANY_ACCENTS.search(word) for word in words[:2000]))
        if page in WESTERN_PAGES and any(map(is_foreign, words[:2000])):
            continue
        if scripts & {"CJK", "HANGUL"} and 2 * sum(map(mixes_letters, words)) > len(words):
            continue
        if fits and not any(has_strange_case(word) or has_two_scripts(word) for word in words[:2000]):
            pages.append(page)
    return pages


def mixes_letters(word: str) -> bool:
    """Return True if a word has ASCII letters beside signs of an East Asian script."""
    return any(sign.isascii() and sign.isalpha() for sign in word) and not word.isascii()


def has_two_scripts(word: str) -> bool:
    """Return True if a word has Latin letters beside letters of another script that is written with capital letters."""
    kinds = {unicodedata.name(sign, "").partition(" ")[0] for sign in word if sign.isalpha()}
    return "LATIN" in kinds and bool(kinds & {"CYRILLIC", "GREEK"})


def has_strange_case(word: str) -> bool:
    """Return True if a word has a capital letter after a small one."""
    return any(first.islower() and second.isupper() for first, second in pairwise(word))
