"""Tests of the redaction of personal details: what is found, whole or not at all, and what stays in mathematics."""

from __future__ import annotations

import unicodedata

import pytest
from maieutic.transcripts.redaction import NAMES, Redactor

PHONES = """
+44 20 7946 0958|+1 (212) 555-0142|+33 1 23 45 67 89|00 33 123 456 789|0033123456789|(0)30 9876543|(040) 555-123
030/5551234|0171-555 12 34|06 98 76 54 32|0698765432|0160/55512345|1 800 555 0199|555.010.1234|555/010/1234|555 010-1234
(555) 0101234|98765 01234|138 0013 8001|612 34 56 79|8 (912) 345-67-89|555-010-1234 ext. 12|555 010 1234 x5
\u0665\u0665\u0665-\u0660\u0661\u0660-\u0661\u0662\u0663\u0664|\uff10\uff13\uff10 \uff11\uff12\uff13\uff14\uff15\uff16\uff17
555\u2011010\u20111234|030\u00a01234567|**555-010-1234**|#555-010-1234|tel. 22 55 01 43|call me at 9555 0142|tel:5550142
""".strip().replace("\n", "|").split("|")  # fmt: skip


@pytest.mark.parametrize("number", PHONES)
def test_a_telephone_number_is_replaced_as_a_whole(number: str) -> None:
    redacted = Redactor([]).text(f"I am at {number} ok")
    assert not any(letter.isdigit() for letter in redacted) and redacted.startswith("I am at")
    assert redacted.endswith("ok")


MATHEMATICS = """
555 - 123 = 432|120-45-30|100-200-300|2019-2020-2021|12 x 34 = 408|0.333333333|3.14159265358979|0,125 0,25 0,5|1 234 567|1.234.567
1,234,567|1'234'567|2024-05-17|17.05.2024|05/17/2024|05-17-2024 10:30|9:30-10:45|10-20|pages 123-145|1914-1918|2, 4, 6, 8, 10, 12
1 2 3 4 5 6 7 8 9|3 6 9 12 15|01 02 03 04 05|05 10 15 20 25|0101 1100 1010|0000 1111 0000 1111|192.168.0.1|v1.2.3|7732-18-5
978-3-16-148410-0|13! = 6227020800|2^64 = 18446744073709551616|F(50) = 12586269025|(3, 4) and (12, 5)|f(12) 345|8 / 4 = 2
450-150-36-50-20-10 = 184|the ratio 3:4:5|x^2 - 5x + 6|Der Weg 12 km ist lang|Via the formula 12|7 Way to go
10,000-6000 = 4000; 1,000,000,000|1 000 000 000 x 2|7 Way to go, 3 x 4 = 12
"""


@pytest.mark.parametrize("text", MATHEMATICS.strip().replace("\n", "|").split("|"))
def test_mathematics_dates_and_sequences_keep_every_digit(text: str) -> None:
    assert Redactor([]).text(f"so {text} then") == f"so {text} then"


NFD = unicodedata.normalize("NFD", "Ren\u00e9e")
# names of the column, text, redacted
NAMED = {
    "surname first": (["M\u00fcller, Lena"], "Lena M\u00fcller, Frau M\u00fcller und lena", "[NAME] [NAME], Frau [NAME] und [NAME]"),
    "Chinese": (["\u674e\u660e"], "\u6211\u95ee\u674e\u660e\u4e3a\u4ec0\u4e48", "\u6211\u95ee[NAME]\u4e3a\u4ec0\u4e48"),
    "a Chinese given name": (["\u9673\u5c0f\u7f8e"], "\u5c0f\u7f8e\u8aaa", "[NAME]\u8aaa"),
    "Japanese": (["\u5c71\u7530 \u592a\u90ce"], "\u5c71\u7530\u592a\u90ce\u3055\u3093", "[NAME]\u3055\u3093"),
    "Korean with a particle": (["\ubbfc\uc9c0"], "\ubbfc\uc9c0\uac00 4", "[NAME]\uac00 4"),
    "Korean letters apart": (["\ubbfc\uc9c0"], unicodedata.normalize("NFD", "\ubbfc\uc9c0\uac00"), unicodedata.normalize("NFD", "[NAME]\uac00")),
    "Thai": (["\u0e2a\u0e21\u0e0a\u0e32\u0e22"], "\u0e04\u0e38\u0e13\u0e2a\u0e21\u0e0a\u0e32\u0e22\u0e04\u0e34\u0e14", "\u0e04\u0e38\u0e13[NAME]\u0e04\u0e34\u0e14"),
    "an Arabic prefix": (["\u0623\u062d\u0645\u062f"], "\u062e\u0627\u0644\u062f \u0648\u0623\u062d\u0645\u062f \u0642\u0627\u0644", "\u062e\u0627\u0644\u062f \u0648[NAME] \u0642\u0627\u0644"),
    "composed name, decomposed text": (["Ren\u00e9e"], f"{NFD} says", "[NAME] says"),
    "decomposed name, composed text": ([NFD], "Ren\u00e9e says", "[NAME] says"),
    "full-width": (["Lena"], "\uff2c\uff45\uff4e\uff41 says", "[NAME] says"),
    "apostrophes": (["O'Neil"], "O\u2019Neil, O\u02bcNeil and ONeil", "[NAME], [NAME] and [NAME]"),
    "sharp s": (["Strau\u00df"], "STRAUSS", "[NAME]"),
    "Turkish": (["\u0130brahim"], "ibrahim, IBRAHIM", "[NAME], [NAME]"),
    "genitives": (["Mia", "Lena"], "Mias Antwort, Lena's, LENAS", "[NAME] Antwort, [NAME]'s, [NAME]"),
    "handles": (["Lena"], "@lena lena_m lena2010 lena.m", "@[NAME] [NAME]_m [NAME]2010 [NAME].m"),
    "hyphens": (["Anna-Lena"], "Anna Lena, Anna\u2011Lena, Lena", "[NAME], [NAME], [NAME]"),
    "one letter of a script without blanks": (["\u674e"], "\u674e, \u674e\u5b50", "[NAME], \u674e\u5b50"),
    "single Latin letters": (["Lena M."], "Lena, M is the midpoint of A", "[NAME], M is the midpoint of A"),
    "within words": (["Mia", "Al", "Jo"], "Miami, also, Al2O3, job", "Miami, also, Al2O3, job"),
    "another word with an s": (["Pierre"], "trois pierres", "trois pierres"),
    "common words": (["May", "Max", "Will"], "the max value; you may; will. May and Will's", "the max value; you may; will. [NAME] and [NAME]'s"),
}  # fmt: skip


@pytest.mark.parametrize("name", NAMED)
def test_names_of_the_column_are_found_in_the_forms_in_which_people_write_them(name: str) -> None:
    names, text, redacted = NAMED[name]
    redactor = Redactor(names)
    assert redactor.text(text) == redacted
    assert redactor.counts[NAMES] == redacted.count("[NAME]")


OTHERS = {
    "o'brien+x@example.org": "[MAIL]",
    "write to ann.b+c@x-y.co.uk!": "write to [MAIL]!",
    "see https://x.org/z?id=3 or www.x.org": "see [LINK] or [LINK]",
    "+49 171 1234567, (030) 123 4567, 555-123-4567, 030 123 4567, 0171/1234567": ", ".join(["[PHONE]"] * 5),
    "I live at 12 Baker Street and Hauptstraße 5.": "I live at [ADDRESS] and [ADDRESS].",
    "card 4111 1111 1111 1111, id 1234567890": "card [NUMBER], id [NUMBER]",
    "lena\uff20example.org": "[MAIL]", "lena (at) example (dot) org": "[MAIL]", "at 12 rue de la Paix": "at [ADDRESS]",
    "Calle Mayor 5": "[ADDRESS]", "Via Roma, 12": "[ADDRESS]", "Keizersgracht 123": "[ADDRESS]",
    "ul. D\u0142uga 5": "[ADDRESS]", "Storgatan 5": "[ADDRESS]", "Mariahilfer Str. 45/2": "[ADDRESS]",
    "1600 N Maple Ave": "[ADDRESS]", "\u4e2d\u5c71\u8def12\u53f7": "[ADDRESS]",
    "GB82 WEST 1234 5698 7654 32": "[NUMBER]", "de89370400440532013000": "[NUMBER]",
    "GB83 WEST 1234 5698 7654 32": "GB83 WEST 1234 5698 7654 32",  # the check digits are wrong
    "4111 1111 1111 1111": "[NUMBER]",
    "4111 1111 1111 1112": "4111 1111 1111 1112",
    "123-45-6789": "[NUMBER]",
}  # fmt: skip


@pytest.mark.parametrize("text", OTHERS)
def test_mail_addresses_streets_and_accounts(text: str) -> None:
    assert Redactor([]).text(text) == OTHERS[text]


def test_names_that_are_in_no_text_of_their_conversation_are_noted() -> None:
    redactor = Redactor(["Lena", "Bo"])
    redactor.note_unfound(["Lena"], ["I am lena", "Why?"])
    redactor.note_unfound(["Bo"], ["I am Robert"])
    assert redactor.unfound == {"Bo"}


@pytest.mark.parametrize(
    "text", ["", "\u0301", "\ud800 x", "a" * 100_000, "1" * 10_000, "1 " * 5_000, "(" * 5_000, "+1" * 3_000]
)
def test_hostile_texts_are_read_in_time(text: str) -> None:
    assert Redactor(["Lena", "\u674e"]).text(text) == ("[NUMBER]" if set(text) == {"1"} else text)
