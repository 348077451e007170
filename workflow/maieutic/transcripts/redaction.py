"""Replace personal details in transcripts by a stated set of patterns, and the names of the columns with names.

Texts are searched in one form of Unicode: compatibility forms (full-width letters and digits), digits of other scripts,
dashes, blanks and apostrophes are compared as their plain counterparts. Only what is found is replaced in the text.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple

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


FEWEST_LETTERS = 2  # minimum length of a part of a name that is replaced by itself, in scripts with blanks
FEWEST_IN_WORDS = 3  # minimum length of a name that is also found in handles and with an ending
# First names that are also common words. They are replaced only where case matches.
NAMES_AND_WORDS = (
    "an art april august bill bob chance dean do drew faith frank grace hope jack joy june ken lee mark max may min "
    "pat rain ray rob rose sue summer tom will ye"
)
COMMON_WORDS = frozenset(NAMES_AND_WORDS.split())
# Letters of scripts that are written without blanks between words, or (Korean) with particles after a name
WITHOUT_BLANKS = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uf900-\ufaff"
    "\U00020000-\U0003ffff"
)
FAMILY_AND_GIVEN = re.compile("[\u4e00-\u9fff]{3}|[\uac00-\ud7a3]{3}")  # one letter of the family, two of the person
# Letters that Arabic and Hebrew write before a word: and, so, in, to, like, the, from, that
PREFIXES = "\u0648\u0641\u0628\u0644\u0643\u05d5\u05d4\u05d1\u05dc\u05db\u05de\u05e9"
SEPARATORS = re.compile(r"[\s,;()]+")
PLAIN = {
    **dict.fromkeys("\u2018\u2019\u02bc\u02b9\u2032\u0060\u00b4\uff07", "'"),
    **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2212\ufe63\uff0d", "-"),
    **dict.fromkeys("\u00a0\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000", " "),
    **dict.fromkeys("\u200b\u200c\u200d\u2060\ufeff\u00ad\u200e\u200f", ""),
    "\u0131": "i",
}
DOT_ABOVE = "\u0307"  # what is left of a Turkish capital I in lower case
# Letters that belong to the one before them without being marks: Korean vowels and finals, half-width voice marks
JOINED = re.compile("[\u1160-\u11ff\uff9e\uff9f]")


class Folded(NamedTuple):
    """A text in one form of Unicode. places: for each of its letters, begin and end of what it stands for."""

    text: str
    places: list[tuple[int, int]]

    def original(self, begin: int, end: int) -> tuple[int, int]:
        """Return the span of the original text for a span of this one."""
        return self.places[begin][0], self.places[end - 1][1]


def fold(text: str, ignore_case: bool) -> Folded:
    """Return a text in one form of Unicode. ignore_case: True to fold case as well."""
    if text.isascii():
        return Folded(text.lower() if ignore_case else text, [(place, place + 1) for place in range(len(text))])
    letters: list[str] = []
    places: list[tuple[int, int]] = []
    begin = 0
    while begin < len(text):
        end = begin + 1
        while end < len(text) and (unicodedata.combining(text[end]) or JOINED.match(text[end])):
            end += 1
        folded = "".join(map(plain_letter, unicodedata.normalize("NFKC", text[begin:end])))
        if ignore_case:
            folded = folded.casefold().replace(DOT_ABOVE, "").replace("\u0131", "i")
        letters += folded
        places += [(begin, end)] * len(folded)
        begin = end
    return Folded("".join(letters), places)


def plain_letter(letter: str) -> str:
    """Return the plain counterpart of a letter: an ASCII digit, blank, dash or apostrophe, or the letter itself."""
    if (plain := PLAIN.get(letter)) is not None:
        return plain
    digit = unicodedata.digit(letter, None) if not letter.isascii() else None
    return letter if digit is None else str(digit)


class Pattern(NamedTuple):
    """A pattern of personal details. sign: replacement; what: description for messages and the page; spans: finder."""

    sign: str
    what: str
    spans: Callable[[str], Iterator[tuple[int, int]]]


def matches_of(expression: str, flags: int = 0) -> Callable[[str], Iterator[tuple[int, int]]]:
    """Return a function that yields the spans of a regular expression's matches in a text."""
    pattern = re.compile(expression, flags)
    return lambda text: (match.span() for match in pattern.finditer(text))


CAPITAL = "[A-Z\u00c0-\u00de\u0104-\u017d]"
PARTICLE = r"(?:de|del|della|dei|di|da|do|dos|das|du|des|la|las|le|les|los|den|der|van|e|y|san|santa) "
STREET_NAME = rf"(?:{PARTICLE}|[dl]'){{0,3}}{CAPITAL}[\w.'-]{{1,30}}(?: (?:{PARTICLE})?{CAPITAL}[\w.'-]{{1,30}}){{0,3}}"
STREET_ENDINGS = (
    "stra\u00dfe|strasse|str\\.|weg|platz|allee|gasse|damm|ufer|straat|laan|gracht|plein|gatan|v\u00e4gen|veien"
)
STREETS = (
    "Street|St|Avenue|Ave|Road|Rd|Lane|Ln|Drive|Dr|Boulevard|Blvd|Court|Ct|Square|Sq|Place|Pl|Way|Terrace|Grove"
    "|Crescent"
)
NOT_A_LENGTH = r"(?! ?(?:[kcd]?m|kg|g|l|h|min)\b)"  # "Der Weg 12 km"
ADDRESSES = "|".join(
    (
        r"\b\d{1,5}[a-z]?[ ,]+(?:[NSEW]{1,2}\.? )?(?:(?:[A-Z][\w.'-]{1,30}|\d{1,3}(?:st|nd|rd|th)) ){1,4}"
        rf"(?:{STREETS})\b\.?",
        rf"\b{CAPITAL}[\w-]{{1,40}}(?:{STREET_ENDINGS}) ?\d{{1,4}} ?[a-z]?\b{NOT_A_LENGTH}",
        rf"\b{CAPITAL}[\w-]{{1,40}} (?:Stra\u00dfe|Strasse|Str\.|Weg|Platz|Allee|Gasse)"
        rf" \d{{1,4}}[a-z]?(?:/\d{{1,3}}){{0,2}}\b{NOT_A_LENGTH}",
        r"\b\d{1,4}(?: ?(?:bis|ter))?,? (?:rue|avenue|boulevard|chemin|impasse|all\u00e9e|quai|place) " + STREET_NAME,
        r"(?:\b(?:Calle|Avenida|Avda\.|Plaza|Paseo|Carrer|Via|Viale|Piazza|Corso|Rua|Travessa|Pra\u00e7a|ul\.|al\.|Ulica)"
        rf"|(?<!\w)C/) {STREET_NAME},? (?:n\.? ?)?\d{{1,4}}[a-z]?\b",
        "[\u4e00-\u9fff]{2,6}[\u8def\u8857\u5df7]\\d{1,4}\u53f7",
        "[\u5e02\u533a\u753a\u6751][\u3040-\u30ff\u4e00-\u9fff]{1,8}\\d{1,3}-\\d{1,3}(?:-\\d{1,3})?",
    )
)
IBAN = re.compile(r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?\b", re.IGNORECASE)
CARD = re.compile(r"(?<![\w.,-])\d{4}(?:([ -])\d{4}(?:\1\d{4}){2}|([ -])\d{6}\2\d{5})(?![\w-])")


def iban_spans(text: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of international bank account numbers, whose check digits (ISO 7064, mod 97) are right."""
    for match in IBAN.finditer(text):
        plain = match[0].replace(" ", "")
        if int("".join(str(int(letter, 36)) for letter in plain[4:] + plain[:4])) % 97 == 1:
            yield match.span()


def card_spans(text: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of card numbers in groups, whose check digit (ISO 7812, Luhn) is right."""
    for match in CARD.finditer(text):
        digits = [int(digit) for digit in match[0] if digit.isdigit()]
        doubled = [sum(divmod(2 * digit, 10)) for digit in digits[-2::-2]]
        if not set(digits) <= {0, 1} and (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0:
            yield match.span()


def number_spans(text: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of long numbers, card numbers, US social security numbers and bank account numbers."""
    yield from iban_spans(text)
    yield from card_spans(text)
    yield from NUMBERS(text)


NUMBERS = matches_of(r"(?<![\w.,=^-])(?<![=^-] )(?:\d{10,}|\d{3}-\d{2}-\d{4})(?![\w-])(?![.,]\d)(?! ?[=+*^])")
# Applied in this order, so that a number in an address or a phone number is not replaced on its own.
PATTERNS = (
    Pattern(
        "[MAIL]",
        "mail addresses",
        matches_of(
            r"[\w.+'-]{1,64}(?:@| ?[\[(] ?at ?[\])] ?)[\w-]{1,63}(?:(?:\.| ?[\[(] ?dot ?[\])] ?)[\w-]{1,63}){1,8}"
        ),
    ),
    Pattern("[LINK]", "web addresses", matches_of(r"\b(?:https?://|www\.)\S+", re.IGNORECASE)),
    Pattern("[ADDRESS]", "street addresses", matches_of(ADDRESSES)),
    Pattern("[PHONE]", "phone numbers", phone_spans),
    Pattern("[NUMBER]", "account numbers and numbers of ten or more digits", number_spans),
)
NAME_SIGN, NAMES = "[NAME]", "names from the name columns"


class Redactor:
    """Redacts texts and counts the replacements. names: names of people, replaced as whole words.

    unfound: names that are in no text of their own conversation.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self.counts: Counter[str] = Counter()
        self.names = NamePattern(names)
        self.unfound: set[str] = set()

    def note_unfound(self, names: Iterable[str], texts: Iterable[str]) -> None:
        """Note which names of a conversation none of its texts contains. They may be written there in another form."""
        text = "\n".join(texts)
        self.unfound |= {name for name in names if next(NamePattern([name]).spans(text), None) is None}

    def text(self, text: str) -> str:
        """Return a text with signs in place of personal details."""
        for pattern in PATTERNS:
            text = self._replaced(text, pattern.sign, pattern.what, fold(text, ignore_case=False), pattern.spans)
        return self._replaced(text, NAME_SIGN, NAMES, fold(text, ignore_case=True), lambda _: self.names.spans(text))

    def _replaced(
        self,
        text: str,
        sign: str,
        what: str,
        folded: Folded,
        find: Callable[[str], Iterator[tuple[int, int]]],
    ) -> str:
        """Return a text with a sign for each span that `find` yields, and count them."""
        parts, end = [], 0
        for first, last in sorted(find(folded.text)):
            begin, stop = folded.original(first, last)
            if begin < end:  # within a span that was replaced already
                continue
            parts += [text[end:begin], sign]
            end = stop
            self.counts[what] += 1
        return "".join([*parts, text[end:]])


class NamePattern:
    """Pattern of names and of their parts. Case is ignored, because students often write names in lower case.

    Names that are also common words are found only where case matches.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self.words: dict[str, set[str]] = {}  # folded name or part -> its forms as written
        for name in names:
            for part in parts_of_name(name):
                self.words.setdefault(fold(part, ignore_case=True).text, set()).add(fold(part, ignore_case=False).text)
        ordered = sorted(filter(None, self.words), key=lambda word: (-len(word), word))
        # Each word is a group, so that a match has the number of its word.
        self.ordered = ordered
        self.regex = re.compile("|".join(f"({word_pattern(word)})" for word in ordered)) if ordered else None

    def spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield the spans of names in the folded form of a text."""
        if self.regex is None:
            return
        folded = fold(text, ignore_case=True)
        for match in self.regex.finditer(folded.text):
            word = self.ordered[(match.lastindex or 1) - 1]
            begin, end = folded.original(*match.span())
            written = fold(text[begin:end], ignore_case=False).text
            is_word = word in COMMON_WORDS and not any(written.startswith(form) for form in self.words[word])
            # A lower-case name with an s may be another word: Pierre, but pierres.
            has_ending = match[0].endswith("s") and not word.endswith("s") and written[:1].islower()
            if not is_word and not has_ending:
                yield match.span()


def parts_of_name(name: str) -> Iterator[str]:
    """Yield a name and its parts, as far as they are long enough to be replaced by themselves.

    "Surname, Given" has two parts; a hyphenated part has parts of its own, and a Chinese or Korean name of three
    letters a given name of two.
    """
    whole = " ".join(name.split())
    words = [word for word in SEPARATORS.split(whole) if word]
    halves = [half for word in words if "-" in word for half in word.split("-")]
    given_names = [word[1:] for word in words if FAMILY_AND_GIVEN.fullmatch(word)]
    for part in [whole, *words, *halves, *given_names]:
        letters = sum(map(str.isalpha, part))
        if letters >= FEWEST_LETTERS or (letters == 1 and re.search(f"[{WITHOUT_BLANKS}]", part)):
            yield part


def word_pattern(word: str) -> str:
    """Return the regular expression of a folded name, with its boundaries.

    Beside a letter of a script without blanks there is no boundary. Names of one letter, which are always of such a
    script, count only where no letter follows. In other scripts a name is a whole word; one that is long enough may
    be part of a handle (`lena_m`, `lena2010`) and have a genitive's s, or a prefix of Arabic and Hebrew.
    """
    is_long = sum(map(str.isalpha, word)) >= FEWEST_IN_WORDS and word not in COMMON_WORDS
    edge = r"[^\W\d_]" if is_long else r"\w"  # what must not stand beside the name
    before = "" if re.match(f"[{WITHOUT_BLANKS}]", word) else rf"(?:(?<!{edge})|(?<=[{PREFIXES}])(?<!\w\w))"
    if len(word) == 1:
        after = r"(?!\w)"
    elif re.match(f"[{WITHOUT_BLANKS}]", word[-1]):
        after = ""
    else:
        after = rf"(?:s(?!{edge})|(?!{edge}))" if is_long else rf"(?!{edge})"
    flexible = "".join(
        {"'": "'?", "-": "[- ]", " ": r"\s*" if before == "" else r"\s+"}.get(c, re.escape(c)) for c in word
    )
    return before + flexible + after
