"""Tests of files as people's programs write them: read as meant, or refused with the flag that settles the doubt."""

from __future__ import annotations

import csv
import json
import shlex
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from maieutic.core.decimals import decimal_sign, plain_number, usual_notation
from maieutic.core.encodings import decode_file
from maieutic.core.errors import UserError
from maieutic.core.user_tables import FileSettings, UserTable, read_user_table
from maieutic.preparation.own_files import check_own_file
from maieutic.preparation.own_readings import check_headers
from maieutic.tools.table import NumberOptions, table
from maieutic.transcripts.reading import Transcripts, check_texts, read_transcripts
from maieutic.transcripts.times import read_times
from maieutic.transcripts.understanding import Reading, Understanding
from workbooks import write_ods, write_xlsx

HEAD = ["conversation", "role", "text", "time"]


def written(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
    return path


def turns_of(path: Path, reading: Reading = Reading()) -> dict[str, list[str]]:  # noqa: B008 - a constant
    """Return the turns of each conversation of a file, as "student: ..." or "tutor: ..."."""
    return {
        conversation.id: [f"{message.role}: {message.text}" for message in conversation.messages]
        for conversation in read_transcripts(path, reading).conversations
    }


def refusal_of(path: Path, reading: Reading = Reading()) -> str:  # noqa: B008 - a constant
    """Return the lines with which a file is refused."""
    with pytest.raises(UserError) as fault:
        read_transcripts(path, reading)
    return fault.value.lines


# encodings ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [
    "Gr\u00f6\u00dfe der F\u00fc\u00dfe, m\u00fc\u00dfig", "L'\u00e9l\u00e8ve a cr\u00e9\u00e9 un c\u0153ur o\u00f9 \u00e7a reste", "solu\u00e7\u00f5es, cora\u00e7\u00e3o",
    "\u00bfCu\u00e1ntos a\u00f1os?", "x\u00b2 + y\u00b3 = 5 cm\u00b3 \u2013 3\u00b0", "it\u2019s 5 \u20ac", "Bl\u00e5b\u00e6r p\u00e5 \u00f8y", "\u00dcBUNG GR\u00d6SSE",
])  # fmt: skip
def test_western_texts_of_windows_are_read(text: str) -> None:
    decoded = decode_file(text.encode("cp1252"), "f")
    assert decoded.text == text and decoded.is_guessed


@pytest.mark.parametrize(("encoding", "text"), [
    ("cp1250", "Odpowied\u017a to cztery? Wyja\u015bnij."), ("cp1250", "Kolik je p\u0159\u00edklad \u010d\u00edslo"), ("cp1250", "\u0151r\u00fclt f\u0171t\u0151"),
    ("cp1251", "\u0421\u043a\u043e\u043b\u044c\u043a\u043e \u0431\u0443\u0434\u0435\u0442 \u043f\u044f\u0442\u044c"), ("cp1253", "\u03a0\u03cc\u03c3\u03bf \u03ba\u03ac\u03bd\u03b5\u03b9"), ("cp1254", "Ka\u00e7 tane \u015feker, a\u011fa\u00e7"),
    ("shift_jis", "\u3053\u308c\u306f\u3044\u304f\u3064\u3067\u3059\u304b"), ("gb18030", "\u8fd9\u662f\u591a\u5c11"), ("big5", "\u9019\u662f\u591a\u5c11"), ("euc_kr", "\uba87 \uac1c\uc785\ub2c8\uae4c"),
])  # fmt: skip
def test_other_code_pages_are_refused_and_read_by_their_name(encoding: str, text: str) -> None:
    data = text.encode(encoding)
    with pytest.raises(UserError, match=rf"not those of a Western text; possible encodings: .*\b{encoding}\b"):
        decode_file(data, "f")
    assert decode_file(data, "f", encoding).text == text


def test_utf16_without_its_mark_is_named(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", "conversation,role,text\na,student,vier?\na,tutor,Warum?\n".encode("utf-16-le"))
    assert "UTF-16 without its mark. Fix: save it as UTF-8, or pass --encoding utf-16-le" in refusal_of(path)
    assert turns_of(path, Reading(encoding="utf-16-le")) == {"a": ["student: vier?", "tutor: Warum?"]}


# workbooks ------------------------------------------------------------------------------------------------------------

CHAT = [["conversation", "role", "text"], [7, "student", "Is it 4/8?"], [7, "tutor", "Why?"]]


@pytest.mark.parametrize("write", [write_xlsx, write_ods])
def test_workbooks_are_read_whatever_their_name_is(tmp_path: Path, write: Any) -> None:
    for name in ("chats.xlsx", "chats.csv"):
        expected = {"7": ["student: Is it 4/8?", "tutor: Why?"]}
        assert turns_of(write(tmp_path / name, {"Chats": CHAT, "Empty": []})) == expected


WORKBOOKS: dict[str, tuple[dict[str, Any], str]] = {
    "two sheets": ({"May": CHAT, "June": CHAT}, "2 sheets have rows: May, June. Fix: pass --sheet"),
    "a title": ({"May": [["Chats of May"], *CHAT]}, "row 1 is a title ('Chats of May')"),
    "an error": ({"May": [*CHAT, [7, "student", "#REF!"]]}, "1 cells contain an error such as #REF!"),
    "a formula": ({"May": [*CHAT, [7, "student", "=A1+B1"]]}, "1 cells have a formula without a stored value"),
    "a rounded id": ({"May": [CHAT[0], [2**60, "student", "x"], [2**60, "tutor", "y"]]}, "2 ids in column conversation were rounded"),
    "no table": ({"May": [["conversation"]]}, "no sheet has a header and rows"),
}  # fmt: skip


@pytest.mark.parametrize("case", WORKBOOKS)
def test_a_workbook_in_doubt_is_refused(tmp_path: Path, case: str) -> None:
    sheets, message = WORKBOOKS[case]
    assert message in refusal_of(write_xlsx(tmp_path / "chats.xlsx", sheets))


def test_a_named_sheet_is_read(tmp_path: Path) -> None:
    path = write_xlsx(tmp_path / "chats.xlsx", {"May": CHAT, "June": [*CHAT, [8, "tutor", "Hi"]]})
    assert list(turns_of(path, Reading(sheet="June"))) == ["7", "8"]
    assert "has no sheet 'July', only May, June" in refusal_of(path, Reading(sheet="July"))


# shapes of JSON -------------------------------------------------------------------------------------------------------

ASKED, ANSWERED = "What is 3/4 + 1/4?", "What do you think?"
OPENAI = [{"role": "user", "content": ASKED}, {"role": "assistant", "content": ANSWERED}]
PRODUCTS: dict[str, Any] = {
    "OpenAI": [{"id": "c", "messages": OPENAI}],
    "ShareGPT": [{"id": "c", "conversations": [{"from": "human", "value": ASKED}, {"from": "gpt", "value": ANSWERED}]}],
    "LangChain": [{"id": "c", "messages": [{"type": "human", "content": ASKED}, {"type": "ai", "content": ANSWERED}]}],
    "LangChain, with data": [{"id": "c", "messages": [{"type": "human", "data": {"content": ASKED}}, {"type": "ai", "data": {"content": ANSWERED}}]}],
    "LangChain, dumped": [{"id": "c", "messages": [{"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", name], "kwargs": {"content": text}} for name, text in (("HumanMessage", ASKED), ("AIMessage", ANSWERED))]}],
    "Gemini": [{"id": "c", "contents": [{"role": "user", "parts": [{"text": ASKED}]}, {"role": "model", "parts": [{"text": ANSWERED}]}]}],
    "Claude": [
        {
            "uuid": "c",
            "chat_messages": [
                {"text": ASKED, "sender": "human"},
                {"text": "", "content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": ANSWERED}], "sender": "assistant"},
            ],
        }
    ],
    "an object with one list": {"version": 1, "conversations": [{"id": "c", "messages": OPENAI}]},
    "an object by id": {"c": OPENAI},
    "a row per exchange": [{"session_id": "c", "user_message": ASKED, "bot_response": ANSWERED}],
    "a row per message": [{"conversation_id": "c", "id": str(n), **message} for n, message in enumerate(OPENAI)],
}  # fmt: skip


@pytest.mark.parametrize("product", PRODUCTS)
@pytest.mark.parametrize("indent", [None, 1])
def test_conversations_of_products_are_read(tmp_path: Path, product: str, indent: int | None) -> None:
    path = written(tmp_path / "chats.json", json.dumps(PRODUCTS[product], indent=indent))
    assert turns_of(path) == {"c": [f"student: {ASKED}", f"tutor: {ANSWERED}"]}


def test_one_conversation_is_read(tmp_path: Path) -> None:
    path = written(tmp_path / "chats.jsonl", json.dumps({"messages": OPENAI}, indent=2))
    assert turns_of(path) == {"1": [f"student: {ASKED}", f"tutor: {ANSWERED}"]}


EXPORTS = {
    "an export of WhatsApp": "14/03/2024, 14:00 - Mia: What is 3/4?\n14/03/2024, 14:01 - Ben: Look.\n",
    "an export of WhatsApp (iOS)": "\u200e[14.03.24, 2:00:01 PM] Mia: What is 3/4?\n",
    "a transcript of Zoom": "WEBVTT\n\n1\n00:00:03.000 --> 00:00:05.000\nMia: x\n",
    "a chat of Zoom": "10:00:01\t From Mia : What?\n10:00:09\t From Ben to Everyone: Look\n",
    "an export of ChatGPT": json.dumps([{"title": "x", "mapping": {"r": {"message": None, "parent": None}}}]),
    "an export of Discord": json.dumps({"guild": {}, "channel": {}, "messages": [{"author": {"name": "x"}, "content": "y"}]}),
    "an export of Intercom": json.dumps([{"id": "1", "conversation_parts": {"conversation_parts": []}}]),
}  # fmt: skip


@pytest.mark.parametrize("product", EXPORTS)
def test_other_exports_are_refused_by_name(tmp_path: Path, product: str) -> None:
    name = product.partition(" (")[0]
    assert f"is {name}" in refusal_of(written(tmp_path / "export.txt", EXPORTS[product]))


# order ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("times", [
    ["14.03.2024 14:03", "14.03.2024 14:02", "14.03.2024 14:01"], ["3/14/2024 2:03:00 PM", "3/14/2024 2:02:00 PM", "3/14/2024 11:59:00 AM"],
    ["2024-03-14T14:03", "2024-03-14T14:02", "2024-03-14T14:01"], ["3/14/24, 2:03 PM", "3/14/24, 2:02 PM", "3/14/24, 1:02 PM"],
    ["00:12:33", "00:12:32", "00:12:31"], ["Thu, 14 Mar 2024 10:00:03 GMT", "Thu, 14 Mar 2024 10:00:02 GMT", "Thu, 14 Mar 2024 10:00:01 GMT"],
    ["2024/03/14 14:00:03", "2024/03/14 14:00:02", "2024/03/14 14:00:01"], ["2025-01-01 10:00:03 UTC", "2025-01-01 10:00:02 UTC", "2025-01-01 10:00:01 UTC"],
    ["14-Mar-2024 14:03", "14-Mar-2024 14:02", "13-Mar-2024 14:01"], ["1710424983", "1710424982", "1710424981"], ["3", "2", "1"],
])  # fmt: skip
def test_the_newest_message_first_is_read_from_the_end(tmp_path: Path, times: list[str]) -> None:
    rows = zip(("tutor", "student", "student"), ("Why?", "4/8", "Hello"), times, strict=True)
    lines = "".join(f'a,{role},{text},"{time}"\n' for role, text, time in rows)
    path = written(tmp_path / "chats.csv", ",".join(HEAD) + "\n" + lines)
    content = read_transcripts(path, Reading())
    assert [message.text for message in content.conversations[0].messages] == ["Hello\n\n4/8", "Why?"]
    assert any("the newest message comes first" in note for note in content.notes)


def chats(tmp_path: Path, *rows: tuple[str, str, str, str]) -> Path:
    lines = "".join(",".join(f'"{value}"' for value in row) + "\n" for row in rows)
    return written(tmp_path / "chats.csv", ",".join(HEAD) + "\n" + lines)


def test_an_order_that_is_in_doubt_is_settled_by_a_flag(tmp_path: Path) -> None:
    path = chats(
        tmp_path, ("a", "student", "1", "03/04/2024 10:00"), ("a", "tutor", "2", "04/03/2024 10:00"), ("a", "student", "3", "05/05/2024 10:00"),
    )  # fmt: skip
    assert (
        "may name the day or the month first, with different orders. Fix: pass --dates day-first or --dates month-first"
        in refusal_of(path)
    )
    assert "not in the order of time" in refusal_of(path, Reading(day_first=True))
    assert turns_of(path, Reading(day_first=False)) == {"a": ["student: 1", "tutor: 2", "student: 3"]}
    assert turns_of(path, Reading(sort="file"))["a"][0] == "student: 1"
    assert turns_of(path, Reading(day_first=True, sort="time"))["a"] == ["tutor: 2", "student: 1\n\n3"]
    taken = read_transcripts(path, Reading(day_first=True, takes_proposals=True))
    assert taken.assumed == ["each conversation sorted by time"]


def test_times_of_day_over_midnight_have_no_proposal(tmp_path: Path) -> None:
    path = chats(tmp_path, ("a", "student", "1", "23:59"), ("a", "tutor", "2", "00:01"), ("a", "student", "3", "00:02"))
    assert "--yes" not in refusal_of(path) and "--sort file" in refusal_of(path, Reading(takes_proposals=True))


def test_times_that_cannot_be_read_are_not_listed_as_used(tmp_path: Path) -> None:
    path = chats(tmp_path, ("a", "student", "1", "yesterday"), ("a", "tutor", "2", "today"))
    content = read_transcripts(path, Reading())
    assert "time" not in content.columns and any("cannot be read as times" in note for note in content.notes)
    assert read_times(["14. M\u00e4rz 2024"]) == read_times(["Mar 14 14:03"]) == []


# identity -------------------------------------------------------------------------------------------------------------


def test_ids_in_scientific_notation_are_refused(tmp_path: Path) -> None:
    path = chats(tmp_path, ("1.23457E+17", "student", "x", ""), ("1.23457E+17", "tutor", "y", ""))
    for reading in (Reading(), Reading(takes_proposals=True)):
        line = refusal_of(path, reading)
        assert "2 ids in column conversation were rounded by a spreadsheet (as 1.23457E+17)" in line
        assert "as text" in line


def test_doubled_rows_are_left_out_and_counted_and_others_are_kept(tmp_path: Path) -> None:
    rows = [
        ("a", "student", "7", "10:00"), ("a", "student", "7", "10:00"), ("a", "student", "7", "10:01"),
        ("a", "tutor", "So?", "10:02"),
    ]  # fmt: skip
    content = read_transcripts(chats(tmp_path, *rows), Reading())
    assert content.conversations[0].messages[0].text == "7\n\n7"
    notes = " ".join(content.notes)
    assert "rows equal to an earlier one, with turn or time, left out: 1" in notes
    assert "messages joined with the one before, by the same role: 1" in notes
    assert "of these, equal to the one before: 1" in notes


def test_students_keep_their_names(tmp_path: Path) -> None:
    path = chats(
        tmp_path, ("a", "Mia", "4/8", ""), ("a", "Ben", "No, 1", ""), ("a", "Tutor", "Ben: why?", ""),
        ("b", "Mia", "x", ""), ("b", "Tutor", "y", ""),
    )  # fmt: skip
    line = refusal_of(path)
    assert "unknown words for a role: 'Mia' (2), 'Ben' (1). Fix: pass --roles Mia=ROLE Ben=ROLE with student" in line
    roles = {"Mia": "student", "Ben": "student"}
    assert turns_of(path, Reading(roles=roles)) == {
        "a": ["student: Mia: 4/8\n\nBen: No, 1", "tutor: Ben: why?"], "b": ["student: x", "tutor: y"],
    }  # fmt: skip
    assert turns_of(path, Reading(roles=roles, anonymous=True))["a"][0] == "student: Student 1: 4/8\n\nStudent 2: No, 1"


def test_roles_that_contain_a_known_word_are_proposed(tmp_path: Path) -> None:
    path = chats(
        tmp_path, ("a", "student_12", "x", ""), ("a", "AI Tutor", "y", ""), ("a", "function", "391", ""),
        ("a", "AI Tutor", "z", ""),
    )  # fmt: skip
    line = refusal_of(path)
    assert "pass --roles 'AI Tutor=tutor' student_12=student function=system; --yes takes: " in line
    assert turns_of(path, Reading(takes_proposals=True)) == {"a": ["student: x", "tutor: y\n\nz"]}
    path = chats(tmp_path, ("a", "K\u00e4the", "x", ""), ("a", "Onkel f\u00fcr \u00dcbung", "y", ""))
    assert "--roles 'K\u00e4the=ROLE' 'Onkel f\u00fcr \u00dcbung=ROLE'" in refusal_of(
        path, Reading(takes_proposals=True)
    )


def test_html_entities_are_decoded_and_counted(tmp_path: Path) -> None:
    path = chats(tmp_path, ("a", "student", "3 &lt; 4 &amp; 5", ""), ("a", "tutor", "x & y", ""))
    content: Transcripts = read_transcripts(path, Reading())
    assert [message.text for message in content.conversations[0].messages] == ["3 < 4 & 5", "x & y"]
    assert any("HTML entities" in note and note.endswith(": 1") for note in content.notes)


def test_a_title_above_the_header_is_named(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", "Chats of May;;\nconversation;role;text\na;student;x\na;tutor;y\n")
    assert "a.csv:1: line 1 is a title ('Chats of May')" in refusal_of(path)
    ok = written(tmp_path / "b.csv", "conversation;role;text\na;student;1,5 und 2,5\na;tutor;2,5 und 1,5\n")
    assert list(turns_of(ok)) == ["a"]


# numbers --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("texts", "sign"), [
    (["2,125", "3,5"], ","), (["2.125", "3.5"], "."), (["1.234,5"], ","), (["1,234.5", "7"], "."), (["1,200", "2,125"], None),
    (["1.200"], None), (["2,5", "2.5"], None), (["1,23,456"], "."), (["\u20b91,500.50"], "."), (["0,125"], ","), (["0.125"], "."), ([".5"], "."), (["1 234,5"], ","), (["3,5 km", "4,25 km"], ","), (["12,5 %"], ","), (["1'234.50"], "."),
])  # fmt: skip
def test_the_decimal_sign_is_decided_from_the_column(texts: list[str], sign: str | None) -> None:
    decided = decimal_sign("answer", texts)
    assert decided is not None and decided.sign == sign


def test_columns_of_words_have_no_decimal_sign() -> None:
    assert decimal_sign("x", ["yes", "no, 2,5", "(A)", "3.1.4"]) is None and decimal_sign("x", ["1", "2"]) is None
    few = decimal_sign("x", ["1,500", "1/2", "3:4", "yes"])
    assert few is not None and few.sign is None, "one number of many cells is in doubt all the same"


@pytest.mark.parametrize(("text", "sign", "plain"), [
    ("2,125", ",", "2.125"), ("1.234,5 km", ",", "1234.5 km"), ("1,200", ".", "1200"), ("3/4", ",", None), ("2.5", ",", None), (",5", ",", "0.5"), ("12,34,567", ".", "1234567"), ("1\u2019234.5", ".", "1234.5"),
])  # fmt: skip
def test_numbers_get_a_decimal_point(text: str, sign: Any, plain: str | None) -> None:
    assert plain_number(text, sign) == plain


def test_a_table_of_problems_is_shown_and_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    german = written(tmp_path / "g.csv", "id;question;answer\n1;Wie viel?;2,125\n2;Mehr?;1.234,5\n3;Tausend?;1.000\n")
    table(german, out=tmp_path / "g.jsonl")
    records = [json.loads(line) for line in (tmp_path / "g.jsonl").read_text().splitlines()]
    assert [record["answer"] for record in records] == ["2.125", "1234.5", "1000"] and records[0]["id"] == "1"
    output = capsys.readouterr().out
    assert "decimal sign: , (column answer)" in output and 'answer: "2.125"' in output and "records: 3" in output
    book = write_xlsx(
        tmp_path / "g.xlsx", {"Aufgaben": [["id", "question", "answer"], [1, "Wie viel?", 2.125], [2, "Mehr?", 12]]}
    )
    table(book, out=tmp_path / "b.jsonl", columns=["solution=answer"])
    assert [json.loads(line)["solution"] for line in (tmp_path / "b.jsonl").read_text().splitlines()] == [2.125, 12]
    open_file = written(tmp_path / "o.csv", 'id,question,answer\n1,a,"1,200"\n')
    with pytest.raises(UserError, match=r"1 numbers with two readings, such as 1,200\. Fix: pass --decimal"):
        table(open_file, out=tmp_path / "o.jsonl")
    assert not (tmp_path / "o.jsonl").exists()
    table(open_file, out=tmp_path / "o.jsonl", options=NumberOptions("."))
    assert json.loads((tmp_path / "o.jsonl").read_text())["answer"] == "1200"


OWN: dict[str, tuple[str, bytes, str | None]] = {
    "a workbook": ("p.csv", b"PK\x03\x04", r"is a workbook\. Fix: run `maieutic table .*p.csv --out .*p.jsonl`"),
    "decimal commas": ("p.csv", b"question;answer\na;2,5\n", r"has decimal commas, such as 2,5\. Fix: run `maieutic table"),
    "two readings": ("p.csv", b'question,answer\na,"2,125"\n', r"two readings, such as 2,125"),
    "another code page": ("p.csv", "question,answer\n\u0421\u043a\u043e\u043b\u044c\u043a\u043e,4\n".encode("cp1251"), r"possible encodings: cp1251.*maieutic table"),
    "decimal points": ("p.csv", b'question,answer\na,"1,200"\nb,2.5\n', None),
    "letters of Windows": ("p.csv", "question,answer\nGr\u00f6\u00dfe,4\n".encode("cp1252"), None),
    "an absent file": ("none.csv", b"", None),
}  # fmt: skip


@pytest.mark.parametrize("case", OWN)
def test_a_run_reads_its_own_files_before_it_starts(tmp_path: Path, case: str) -> None:
    name, content, message = OWN[case]
    if content:
        written(tmp_path / "p.csv", content)
    if message is None:
        check_own_file("datasets.mine", tmp_path / name, has_answers=True)
        return
    with pytest.raises(UserError, match=message):
        check_own_file("datasets.mine", tmp_path / name, has_answers=True)


def test_a_file_is_read_by_its_content(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", '[{"a": 1}]')
    assert read_user_table(path, FileSettings()).rows[0][1] == {"a": 1}
    with pytest.raises(UserError, match="the object has several lists of objects: a, b"):
        read_user_table(written(tmp_path / "b.json", '{"a": [{"x": 1}], "b": [{"x": 1}]}'))


# families that a person who had not seen the code tried ----------------------------------------------------------------


def test_years_first_have_one_reading_and_zones_that_nobody_knows_none() -> None:
    [times] = read_times(["2024/01/12 10:00", "2024/02/01 09:00"])
    assert times.values[0] < times.values[1]  # type: ignore[operator]
    for texts in (["3 May 2024 10:00 IST"], ["2024-01-01T10:00", "2024-01-01T08:00Z"], ["1710424980", "1710424980000"]):
        assert read_times(texts) == []
    [recording] = read_times(["59:58", "1:00:01"])
    assert recording.values == [3598.0, 3601.0]


TURNS: dict[str, tuple[list[tuple[str, str, str]], str]] = {
    "sections": ([("student", "a", "1.1"), ("tutor", "b", "1.2"), ("student", "c", "1.10")], "different orders as numbers and as sections"),
    "a second conversation under one id": ([("student", "a", "1"), ("tutor", "b", "2"), ("student", "c", "1"), ("tutor", "d", "2")], "turn numbers start again in conversation a"),
}  # fmt: skip


@pytest.mark.parametrize("case", TURNS)
def test_turn_numbers_in_doubt_are_never_sorted_by_a_proposal(tmp_path: Path, case: str) -> None:
    rows, message = TURNS[case]
    lines = "".join(f'a,{role},{text},"{turn}"\n' for role, text, turn in rows)
    path = written(tmp_path / "chats.csv", "conversation,role,text,turn\n" + lines)
    assert message in refusal_of(path, Reading(takes_proposals=True))


def test_an_export_that_stands_twice_in_a_file_is_in_doubt(tmp_path: Path) -> None:
    rows = "a,student,x\na,tutor,y\n"
    path = written(tmp_path / "chats.csv", "conversation,role,text\n" + 2 * rows)
    assert "1 conversations stand twice in the file, such as a" in refusal_of(path)
    assert turns_of(path, Reading(takes_proposals=True)) == {"a": ["student: x", "tutor: y"]}
    numbered = written(tmp_path / "turns.csv", "conversation,role,text,turn\n" + 2 * "a,student,x,1\na,tutor,y,2\n")
    assert turns_of(numbered) == {"a": ["student: x", "tutor: y"]}


def test_exchanges_are_read_under_the_names_of_logs(tmp_path: Path) -> None:
    for head in ("session_id,prompt,response", "session_id,input,output", "session_id,question,answer"):
        path = written(tmp_path / "log.csv", f"{head}\ns,{ASKED},{ANSWERED}\n")
        assert turns_of(path) == {"s": [f"student: {ASKED}", f"tutor: {ANSWERED}"]}
    path = written(tmp_path / "log.csv", f"session_id,asked,told\ns,{ASKED},{ANSWERED}\n")
    assert turns_of(path, Reading({"turns": "asked+told"})) == {"s": [f"student: {ASKED}", f"tutor: {ANSWERED}"]}


@pytest.mark.parametrize("content", [
    [{"role": "user", "content": ASKED}, {"role": "assistant", "content": ANSWERED}], {"data": {"items": [{"id": "1", "messages": OPENAI}]}},
    [{"id": "1", "turns": [f"Student: {ASKED}", f"Tutor: {ANSWERED}"]}], [{"id": "1", "dialogue": f"Student: {ASKED}\nTutor: {ANSWERED}"}],
    {"export_date": "x", "conversations": [{"id": "1", "messages": OPENAI}]},
])  # fmt: skip
def test_nested_and_plain_conversations_are_read(tmp_path: Path, content: Any) -> None:
    path = written(tmp_path / "chats.json", json.dumps(content))
    assert turns_of(path) == {"1": [f"student: {ASKED}", f"tutor: {ANSWERED}"]}


def test_messages_with_times_in_a_list_are_read_from_the_end(tmp_path: Path) -> None:
    messages = [{**message, "created_at": f"2025-01-01T10:0{n}:00Z"} for n, message in enumerate(OPENAI)]
    path = written(tmp_path / "chats.json", json.dumps([{"id": "c", "messages": messages[::-1]}]))
    assert turns_of(path) == {"c": [f"student: {ASKED}", f"tutor: {ANSWERED}"]}


def test_what_is_left_out_or_kept_within_a_turn_is_counted(tmp_path: Path) -> None:
    parts = [{"type": "text", "text": ASKED}, {"type": "image_url", "image_url": {"url": "x"}}]
    path = written(
        tmp_path / "chats.json", json.dumps([{"id": "c", "messages": [{"role": "user", "content": parts}, OPENAI[1]]}])
    )
    assert "parts of messages that are no text, left out: 1" in read_transcripts(path, Reading()).notes
    path = written(
        tmp_path / "lines.json", json.dumps([{"id": "c", "messages": "Student: x\nTeacher: How?\nMum: hello"}])
    )
    assert any("another word and a colon" in note for note in read_transcripts(path, Reading()).notes)


REFUSED: dict[str, tuple[str, str, str]] = {
    "a key twice": ("a.jsonl", '{"id": "a", "id": "b", "messages": []}\n{"id": "c"}\n', "the key 'id' occurs twice"),
    "no number": ("a.jsonl", '{"id": 1, "x": NaN}\n{"id": 2}\n', "found NaN, which is not JSON"),
    "a column without a name": ("a.csv", "id,,reply\n1,x,y\n", "column 2 has 1 values, but no name"),
    "no header": ("a.txt", "Half of 18?\t9\n7 times 6?\t42\n", "the first row may be a record, not the names of columns: Half of 18.?, 9"),
    "columns as lists": ("a.json", '{"id": [1, 2], "question": ["a", "b"]}', "found no list of records in the object"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_a_file_that_would_lose_something_is_refused(tmp_path: Path, case: str) -> None:
    name, content, message = REFUSED[case]
    with pytest.raises(UserError, match=message):
        read_user_table(written(tmp_path / name, content))


def test_exact_ids_of_json_are_kept(tmp_path: Path) -> None:
    path = written(tmp_path / "a.json", json.dumps([{"conversation": 12345678901234567890, "messages": OPENAI}]))
    assert list(turns_of(path)) == ["12345678901234567890"]


def test_numbers_that_the_chosen_sign_does_not_read_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mixed = written(tmp_path / "m.csv", 'id,answer,phone\n1,"3,5",030.123.456\n2,4.5,1\n')
    for sign in (".", ","):
        with pytest.raises(UserError, match=rf"1 numbers in column answer do not have the decimal sign .\{sign}"):
            table(mixed, options=NumberOptions(sign))  # type: ignore[arg-type]
    ok = written(tmp_path / "o.csv", 'id,answer,phone\n1,"3,5",030.123.456\n2,"4,5",1\n3,x = 2,1\n')
    table(ok, out=tmp_path / "o.jsonl")
    assert json.loads((tmp_path / "o.jsonl").read_text().splitlines()[0])["phone"] == "030.123.456"
    assert "cells of column answer that are no number, kept as they are: 1 ('x = 2')" in capsys.readouterr().out


def test_polish_of_windows_under_an_english_header_is_refused() -> None:
    with pytest.raises(UserError, match="possible encodings: cp1250"):
        decode_file("conversation,role,text\na,tutor,Dlaczego si\u0119 my\u015bl\u0119 \u0179le?".encode("cp1250"), "f")
    with pytest.raises(UserError, match=r"possible encodings: .*cp850"):
        decode_file("Gr\u00f6\u00dfe, s\u00fc\u00df, f\u00fcnf".encode("cp850"), "f")


ORDERS: dict[str, tuple[str, list[tuple[str, str, str]], str | None]] = {
    "newest first": ("sent_at", [("tutor", "b", "2025-01-01 10:01"), ("student", "a", "2025-01-01 10:00")], "time=sent_at"),
    "a numbering that falls": ("message_no", [("tutor", "b", "2"), ("student", "a", "1")], "turn=message_no"),
    "a numbering out of order": ("turno", [("student", "a", "1"), ("tutor", "b", "2"), ("student", "d", "4"), ("tutor", "c", "3")], "turn=turno"),
    "newest first in Unix time": ("ts", [("tutor", "b", "1740823320000"), ("student", "a", "1740823260000")], "time=ts"),
    "oldest first": ("sent_at", [("student", "a", "2025-01-01 10:00"), ("tutor", "b", "2025-01-01 10:01")], None),
    "a price": ("price", [("student", "a", "7"), ("tutor", "b", "3")], None),
    "durations": ("typing", [("student", "a", "00:10"), ("tutor", "b", "00:03"), ("student", "c", "00:09")], None),
}  # fmt: skip


@pytest.mark.parametrize("case", ORDERS)
def test_a_column_that_is_not_used_may_show_another_order(tmp_path: Path, case: str) -> None:
    column, rows, flag = ORDERS[case]
    lines = "".join(f"a,{role},{text},{value}\n" for role, text, value in rows)
    path = written(tmp_path / "chats.csv", f"conversation,role,text,{column}\n{lines}")
    if flag is None:
        assert len(turns_of(path)["a"]) == len(rows)
        return
    assert f"pass --columns {flag}, or --sort file" in refusal_of(path)
    field, _, name = flag.partition("=")
    assert turns_of(path, Reading({field: name}, takes_proposals=True))["a"][0] == "student: a"
    assert turns_of(path, Reading(sort="file"))["a"][0].endswith(rows[0][1])


def test_columns_are_proposed_by_their_content(tmp_path: Path) -> None:
    rows = "A,02/03/2025 10:02,Tutor,Subtract 3 from both sides of it.\nA,02/03/2025 10:01,Student,2x=8\n"
    rows += "B,02/03/2025 11:02,Tutor,Why is that so?\nB,02/03/2025 11:01,Student,x=4\n"
    path = written(tmp_path / "chats.csv", f"Fall,Sent,Wer,Was\n{rows}")
    line = refusal_of(path)
    flags = ["conversation=Fall", "role=Wer", "text=Was", "time=Sent"]
    assert all(flag in line for flag in flags) and "Fix: pass --columns " in line
    columns = dict(flag.split("=") for flag in flags)
    assert turns_of(path, Reading(columns))["A"] == ["student: 2x=8", "tutor: Subtract 3 from both sides of it."]
    whole = written(tmp_path / "whole.csv", 'id,protocol\n7,"Student: x\nTutor: y"\n')
    assert "Fix: pass --columns turns=protocol" in refusal_of(whole)


def test_dates_and_percentages_among_numbers_are_named(tmp_path: Path) -> None:
    path = write_xlsx(tmp_path / "p.xlsx", {"A": [["id", "question", "answer"], [1, "x", 0.25]]}, percent=True)
    assert "cells shown as percentages, read as fractions (25 % as 0.25): 1" in read_user_table(path).notes


def test_a_pause_of_days_within_a_conversation_is_counted(tmp_path: Path) -> None:
    path = chats(
        tmp_path, ("17", "student", "x", "2025-03-01 10:00"), ("17", "tutor", "y", "2025-03-01 10:01"),
        ("17", "student", "z", "2025-03-09 10:00"),
    )  # fmt: skip
    assert "conversations with a pause of more than a day: 1" in read_transcripts(path, Reading()).notes


def test_results_of_tools_are_no_empty_turns(tmp_path: Path) -> None:
    result = {"role": "user", "content": [{"type": "tool_result", "content": "391"}]}
    path = written(tmp_path / "chats.json", json.dumps([{"id": "c", "messages": [OPENAI[0], result, OPENAI[1]]}]))
    assert turns_of(path) == {"c": [f"student: {ASKED}", f"tutor: {ANSWERED}"]}


def test_rows_of_merged_cells_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_xlsx(tmp_path / "l.xlsx", {"A": [["id", "rater", "label"], ["m1", "A", "Yes"], ["", "B", "No"]]})
    with pytest.raises(
        UserError,
        match=r"1 rows have no id \(first: .*row 3\), and merged cells have it in their first row only\. Fix: write it in each row",
    ):
        table(path)
    table(written(tmp_path / "g.csv", "Nr;L\u00f6sung\n1;3,5\n"))
    assert "no column question or answer, so numbers stay as they are" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("record", "flag"),
    [
        ({"problem": "2 + 2?", "solution": "First add them, which gives 4.", "type": "Algebra"}, "question=problem answer=solution"),
        ({"No.": 3, "Problem": "2 + 2?", "answer": "4"}, "question=Problem"),
        ({"Aufgabe": "Zwei plus zwei?", "Ergebnis": "4", "Thema": "Zahlen und Rechnen im Alltag"}, "question=Aufgabe answer=Ergebnis"),
        ({"stem": "How much is 2 + 2?", "points": "3 of 4", "n": "4"}, "question=stem answer=n"),
        ({"stem": "How much is 2 + 2?", "topic": "sums"}, "question=stem answer=COLUMN"),
    ],
)  # fmt: skip
def test_columns_of_problems_are_proposed_by_name_first(
    record: dict[str, Any], flag: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table(written(tmp_path / "p.jsonl", json.dumps(record) + "\n"))
    assert f"for a set of problems pass --columns {flag}\n" in capsys.readouterr().out


def test_entities_of_problems_are_decoded_and_repeated_ids_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path / "p.csv", "id,question,answer\np1,Is x &lt; 5 &amp; y?,4&frac12;\np2,Why?,7\n")
    table(path, out=tmp_path / "p.jsonl")
    first = json.loads((tmp_path / "p.jsonl").read_text(encoding="utf-8").splitlines()[0])
    assert first == {"id": "p1", "question": "Is x < 5 & y?", "answer": "4 1/2"}
    assert "texts with HTML entities such as &amp;, which were decoded: 2" in capsys.readouterr().out
    replies = written(tmp_path / "r.csv", "id,reply\np1,Is x &lt; 5?\n")
    table(replies, out=tmp_path / "r.jsonl")
    assert json.loads((tmp_path / "r.jsonl").read_text(encoding="utf-8"))["reply"] == "Is x &lt; 5?"
    assert "texts with HTML entities such as &amp;, kept as they are: 1" in capsys.readouterr().out
    path.write_text("id,question,answer\np1,a,4\np2,b,7\np1,c,9\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"1 ids stand in several rows, such as p1 \(.*:2 and .*:4\)"):
        table(path)


def test_a_log_of_calls_with_ids_of_their_own_is_in_doubt(tmp_path: Path) -> None:
    turns = [{"role": "user" if n % 2 == 0 else "assistant", "content": f"turn {n}"} for n in range(6)]
    calls = [{"id": f"call-{n}", "messages": turns[: 2 * n]} for n in (1, 2, 3)]
    other = {"id": "call-4", "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yes?"}]}
    path = written(tmp_path / "log.jsonl", "".join(json.dumps(call) + "\n" for call in (*calls, other)))
    with pytest.raises(
        UserError,
        match=r"2 rows are the beginning of a row with another id, .* pass --columns conversation= .*, or conversation=id",
    ):
        read_transcripts(path, Reading())
    longest = read_transcripts(path, Reading(columns={"conversation": ""}))
    assert [len(chat.messages) for chat in longest.conversations] == [6, 2]
    assert len(read_transcripts(path, Reading(columns={"conversation": "id"})).conversations) == 4


# what a file may hold twice -------------------------------------------------------------------------------------------

TWICE: dict[str, tuple[str, list[str]]] = {
    "two columns of texts": (
        "conversation,role,text,body\na,student,4,four\na,tutor,Why?,Pourquoi ?\n",
        ["columns text and body may both be the text, and differ", "--columns text=text, or --columns text=body"],
    ),
    "two columns of ids": (
        "session_id,thread_id,role,text\na,1,student,4\na,1,tutor,Why?\na,2,student,5\na,2,tutor,Why?\n",
        ["columns session_id and thread_id may both be the conversation", "--yes takes: column session_id"],
    ),
    "versions of a message": (
        "conversation,message_id,role,text\na,1,student,4\na,2,tutor,Wh\na,2,tutor,Why?\na,3,student,5\na,4,tutor,How?\n",
        ["1 rows have the message_id of another row of their conversation, as its versions. Fix: keep one row"],
    ),
    "threads": (
        "conversation,n,reply_to,role,text\na,1,,student,4\na,2,1,tutor,Why?\na,3,1,student,5\na,4,3,tutor,How?\n",
        ["1 messages answer the same message as another (column reply_to)"],
    ),
    "replies beside the messages": (
        json.dumps([{"session": "a", "messages": OPENAI[:1], "response": "Why?"}, {"session": "b", "messages": OPENAI[:1], "response": {"choices": [{"message": {"content": "How?"}}]}}]),
        ["2 conversations end with the student, and column response may have the tutor's reply", "--columns turns=messages+response"],
    ),
    "seconds out of order": (
        "conversation,role,text,start\na,tutor,Why?,101.5\na,student,4,2.0\na,tutor,So?,9.8\n", ["column start is not used, and by its values the rows are not in the order"],
    ),
    "UTF-8 read as Latin-1": (
        "conversation,role,text\na,student,Quel c\u00c3\u00b4t\u00c3\u00a9 ?\na,tutor,Why?\n", ["1 texts are UTF-8 that was read as Latin-1", "--yes takes: UTF-8, as 'Quel c\u00f4t\u00e9 ?'"],
    ),
    "ids that start again": (
        "session_id,student_id,role,text\n1,u1,student,4\n1,u1,tutor,Why?\n1,u2,student,5\n1,u2,tutor,How?\n",
        ["1 conversations have several values of student_id, as if session_id started again for each", "pass --columns conversation=session_id+student_id"],
    ),
    "ids that start again, of two people in turn": (
        "session_id,student_id,role,text\n1,u1,student,4\n1,u2,student,5\n1,u1,tutor,Why?\n1,u2,tutor,How?\n",
        ["1 conversations have several values of student_id", "pass --columns conversation=session_id+student_id"],
    ),
    "words for an empty cell": (
        "conversation,role,text\na,student,4\na,tutor,NULL\n", ["1 texts are words for an empty cell", "--yes takes: what a speaker wrote"],
    ),
    "a tutor who speaks first": (
        "session_id,teacher,pupil\n1,What is 6 x 7?,36?\n1,Add one more 6.,42\n", ["column teacher (tutor) stands before pupil (student)", "pass --columns turns=teacher+pupil if so"],
    ),
    "a reply as a message beside the messages": (
        json.dumps([{"thread_id": "a", "inputs": {"messages": OPENAI[:1]}, "outputs": {"role": "assistant", "content": "Why is it?"}}, {"thread_id": "b", "inputs": {"messages": OPENAI[:1]}, "outputs": {"role": "assistant", "content": "How so?"}}]),
        ["2 conversations end with the student, and column content may have the tutor's reply", "--columns turns=messages+content"],
    ),
    "a reply within an object of another name": (
        json.dumps([{"id": "a", "messages": OPENAI[:1], "run": {"final": "Why is it?"}}, {"id": "b", "messages": OPENAI[:1], "run": {"final": "How so?"}}]),
        ["2 conversations end with the student, and column run may have the tutor's reply", "--columns turns=messages+run"],
    ),
    "two lists of turns": (
        json.dumps([{"thread_id": "a", "inputs": {"messages": OPENAI[:1]}, "outputs": {"messages": OPENAI}}]),
        ["2 columns hold lists of turns", "pass --columns turns=outputs.messages, which has the most turns"],
    ),
    "a tree of versions": (
        json.dumps([{"id": "c", "messages": [
            {"id": "1", "parent": None, "role": "user", "text": "x"}, {"id": "2", "parent": "1", "role": "assistant", "text": "y"},
            {"id": "3", "parent": "1", "role": "assistant", "text": "z"},
        ]}]),
        ["1 conversations have several versions of a message", "--yes takes: the last version of each message"],
    ),
    "an order that nothing shows": (
        "conversation,role,text,day\na,tutor,Why?,2026-05-01\na,student,4,2026-05-01\n",
        ["1 of 1 conversations begin with the tutor and end with the student", "pass --sort file if the order is right, or --sort reversed"],
    ),
    "two speakers in a line": (
        'id,turns\na,"Student: 2+2? Tutor: Count on from 2. Student: 4"\n', ["a turn has another speaker, such as `Tutor:`, within its line"],
    ),
    "a number that is no tutor": (
        "conversation,role,text,version\na,student,4,1\na,tutor,Why?,1\na,tutor,How?,2\n",
        ["pass --columns tutor= if column version does not name the tutor"],
    ),
    "messages in a cell out of order": (
        json.dumps(
            [
                {"id": name, "messages": [
                    {"role": role, "content": "x", "created_at": f"2026-05-01T10:0{minute}:00"}
                    for role, minute in (("user", 1), ("assistant", 3), ("user", 2), ("assistant", 4))
                ]}
                for name in ("a", "b")
            ]
        ),
        ["2 conversations are not in the order of their messages' times (first: "],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", TWICE)
def test_what_has_two_readings_is_one_doubt(tmp_path: Path, case: str) -> None:
    content, parts = TWICE[case]
    lines = refusal_of(written(tmp_path / "chats.csv", content))
    assert all(part in lines for part in parts) and len(lines.splitlines()) == 1


NOTED: dict[str, tuple[str, str]] = {
    "equal columns of ids": ("session_id,thread_id,role,text\na,1,student,4\na,1,tutor,Why?\n", ""),
    "two columns of versions": (
        "conversation,role,text,model,version\na,student,4,,\na,tutor,Why?,gpt,v2\na,tutor,How?,gpt,v2\n",
        "tutor: column model, not version (--columns tutor=version)",
    ),
    "two problems": ("conversation,role,text,problem\na,student,4,2+2\na,tutor,Why?,2+3\n", "conversations with more than one problem, of which the first is used: 1"),
    "an exchange with one side": ("conversation,user_message,bot_response\na,4,Why?\na,,How?\n", "exchanges without the student's message: 1"),
    "rows of a join": (
        "conversation,message_id,role,text,tag\na,1,student,4,x\na,1,student,4,y\na,2,tutor,Why?,x\na,2,tutor,Why?,y\n",
        "rows of a message that an earlier row has (by message_id), left out: 2",
    ),
    "two headers": (
        "session_id,user_message,bot_response\nSession ID,User message,What did it answer?\na,4,Why?\n", "rows that repeat the header, left out: 1",
    ),
    "quotation marks in a dump": (
        'conversation\trole\ttext\na\tstudent\t"13\na\ttutor\tWhy?\na\tstudent\tit is 13"\na\ttutor\tOkay.\n',
        "quotation marks: read as signs of the texts, since each line has all cells without them",
    ),
    "messages as JSON": (
        'session_id,message\na,"{""type"": ""human"", ""data"": {""content"": ""4""}}"\na,"{""type"": ""ai"", ""data"": {""content"": ""Why?""}}"\n',
        "messages: the fields within message",
    ),
    "an asked again question": (
        "conversation,user_message,bot_response\na,4,Why?\na,4,How?\n", "exchanges whose question repeats the one before: 1",
    ),
    "short rows": ("conversation,role,text,note\na,student,4\na,tutor,Why?,x\n", ":2): their last cells are empty"),
    "thoughts": (
        "conversation,role,text\na,student,4\na,tutor,<think>wrong</think>Why?\n",
        "tutor's turns with reasoning in marks such as <think>, which was left out: 1",
    ),
    "growing logs": (
        json.dumps([{"session": "a", "messages": OPENAI}, {"session": "a", "messages": [*OPENAI, *OPENAI]}]),
        "rows whose turns a longer row of the same conversation repeats, left out: 1",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", NOTED)
def test_what_is_left_out_is_noted(tmp_path: Path, case: str) -> None:
    content, note = NOTED[case]
    content_read = read_transcripts(written(tmp_path / "chats.csv", content), Reading())
    notes = content_read.notes
    assert any(line.endswith(note) for line in notes) if note else not any("thread_id" in line for line in notes)


UNSETTLED: dict[str, tuple[str, str, dict[str, Any], list[str]]] = {
    # content, part of the error, the flag that it prints, and the turns that are read then
    "states of messages": (
        "conversation,role,text,deleted\na,student,4,no\na,tutor,Why?,no\na,student,5,yes\na,student,6,no\n",
        "column deleted may tell messages that do not count: no (3), yes (1). Fix: pass --only deleted=no",
        {"only": {"deleted": frozenset({"no"})}}, ["student: 4", "tutor: Why?", "student: 6"],
    ),
    "edits of messages": (
        "conversation,role,text,edit_of\na,student,4,\na,tutor,Whyy?,\na,tutor,Why?,2\n", "--only edit_of=",
        {"tags": ["edit_of"]}, ["student: 4", "tutor: Whyy?\n\nWhy?"],
    ),
    "exchanges with the newest first": (
        "session_id,start_time,input,output\na,2025-03-04T10:05:00,8,And 5%?\na,2025-03-04T10:00:00,15%?,10%?\n",
        "pass --columns time=start_time", {"columns": {"time": "start_time"}},
        ["student: 15%?", "tutor: 10%?", "student: 8", "tutor: And 5%?"],
    ),
    "a branch behind a first message without a parent": (
        "conversation,role,text,id,parent\na,student,4,11,0\na,tutor,Why?,12,11\na,student,5,13,12\na,tutor,So?,14,12\n",
        "1 messages answer the same message as another (column parent)", {}, [],
    ),
    "a time that cannot be read": (
        "conversation,role,text,time\na,student,4,2025-01-01 10:00\na,tutor,Why?,soon\n",
        "column time cannot be read as times", {"sort": "time"}, [],
    ),
    "rows without a time": (
        "conversation,role,text,time\na,student,4,2025-01-01 10:00\na,tutor,Why?,\n",
        "1 rows have no time in column time", {"sort": "time"}, [],
    ),
    "a dump": ("conversation,role,text\na,student,4\na,tutor,\\N\n", "as in a database's dump", {}, []),
    "a text that a spreadsheet has cut": (f"conversation,role,text\na,student,4\na,tutor,{'x' * 32_767}\n", "where a spreadsheet cuts them", {}, []),
}  # fmt: skip


@pytest.mark.parametrize("case", UNSETTLED)
def test_what_is_not_settled_stops_the_command(tmp_path: Path, case: str) -> None:
    content, problem, settled, turns = UNSETTLED[case]
    file = written(tmp_path / "chats.csv", content)
    first = Reading(sort=settled["sort"]) if "sort" in settled else Reading()
    with pytest.raises(UserError) as error:
        read_transcripts(file, first)
    assert problem in error.value.lines
    if turns:
        assert turns_of(file, Reading(**settled)) == {"a": turns}


def test_pictures_within_messages_and_written_line_breaks_are_counted(tmp_path: Path) -> None:
    parts = [{"type": "input_text", "text": "Area?"}, {"type": "input_image", "image_url": "x"}]
    rows = [
        {"session": "a", "role": "user", "content": parts},
        {"session": "a", "role": "assistant", "content": "So\\nnow \\neq"},
    ]
    notes = read_transcripts(written(tmp_path / "chats.json", json.dumps(rows)), Reading()).notes
    assert "parts of messages that are no text, left out: 1" in notes
    rows[1]["content"] = "So\\n\\nnow"
    notes = read_transcripts(written(tmp_path / "chats.json", json.dumps(rows)), Reading()).notes
    assert "texts with \\n for a line break, kept as they are: 1" in notes


def test_numbers_of_databases_and_columns_without_sentences_are_what_they_are(tmp_path: Path) -> None:
    times = [{"$date": {"$numberLong": "1741082700000"}}, {"$date": {"$numberLong": "1741082400000"}}]
    rows = [
        {"conversation": "a", "role": role, "text": role, "time": time}
        for role, time in zip(("tutor", "student"), times, strict=True)
    ]
    assert turns_of(written(tmp_path / "a.json", json.dumps(rows)), Reading(sort="time")) == {
        "a": ["student: student", "tutor: tutor"]
    }
    slack = "subtype,user,ts\njoin,U01,1741082700.1\nleft,U02,1741082800.1\nkick,U03,1741082900.1\n"
    with pytest.raises(UserError) as error:
        read_transcripts(written(tmp_path / "slack.csv", slack), Reading())
    assert "turns=" not in error.value.fix and "text=" not in error.value.fix


def test_versions_and_orders_are_settled_by_the_printed_flags(tmp_path: Path) -> None:
    tree = written(tmp_path / "tree.json", TWICE["a tree of versions"][0])
    assert turns_of(tree, Reading(takes_proposals=True)) == {"c": ["student: x", "tutor: z"]}
    chat = written(tmp_path / "chat.csv", TWICE["an order that nothing shows"][0])
    assert turns_of(chat, Reading(sort="reversed")) == {"a": ["student: 4", "tutor: Why?"]}
    assert turns_of(chat, Reading(sort="file")) == {"a": ["tutor: Why?", "student: 4"]}
    numbered = written(tmp_path / "numbered.csv", TWICE["a number that is no tutor"][0])
    assert turns_of(numbered, Reading({"tutor": ""})) == {"a": ["student: 4", "tutor: Why?\n\nHow?"]}


def test_shapes_of_databases_and_logs_are_read_as_their_messages(tmp_path: Path) -> None:
    chat = {"a": ["student: 4", "tutor: Why?"]}
    rows = [
        {"Item": {"conversation": {"S": "a"}, "n": {"N": str(n)}, "role": {"S": role}, "body": {"S": text}}}
        for n, role, text in ((1, "learner", "4"), (2, "tutor", "Why?"))
    ]
    assert turns_of(written(tmp_path / "dynamo.json", json.dumps(rows))) == chat
    store = written(tmp_path / "store.csv", NOTED["messages as JSON"][0].replace("session_id", "conversation"))
    assert turns_of(store) == chat
    log = written(tmp_path / "log.json", TWICE["replies beside the messages"][0])
    assert [len(turns) for turns in turns_of(log, Reading({"turns": "messages+response"})).values()] == [2, 2]
    dump = written(tmp_path / "dump.tsv", NOTED["quotation marks in a dump"][0])
    assert turns_of(dump)["a"] == ['student: "13', "tutor: Why?", 'student: it is 13"', "tutor: Okay."]
    garbled = written(tmp_path / "garbled.csv", TWICE["UTF-8 read as Latin-1"][0])
    assert turns_of(garbled, Reading(takes_proposals=True))["a"][0] == "student: Quel c\u00f4t\u00e9 ?"


def test_names_of_students_beside_their_role_are_kept(tmp_path: Path) -> None:
    rows = "conversation,name,role,text\na,Ana,pupil,12\na,Ben,pupil,15\na,Ms Lee,teacher,Who is right?\n"
    assert turns_of(written(tmp_path / "a.csv", rows)) == {"a": ["student: Ana: 12\n\nBen: 15", "tutor: Who is right?"]}
    first = written(tmp_path / "b.csv", "session_id,tutor_prompt,student_answer\n1,What is 6 x 7?,36?\n1,More.,42\n")
    turns = turns_of(first, Reading({"turns": "tutor_prompt+student_answer"}))
    assert turns == {"1": ["tutor: What is 6 x 7?", "student: 36?", "tutor: More.", "student: 42"]}


def test_texts_that_a_spreadsheet_changed_are_a_doubt(tmp_path: Path) -> None:
    known = Understanding(tmp_path / "a.xlsx", Reading())
    check_texts(
        UserTable(["text"], [("", {"text": date(2025, 4, 3)}), ("", {"text": "Why?"})], "workbook", []),
        {"text": "text"},
        known,
    )
    assert [doubt.problem for doubt in known.doubts] == ["1 texts are dates, times or truth values, such as 2025-04-03"]


# numbers and solutions ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("$9$", "9"), ("$-8$", "-8"), ("$1{,}234$", "1234"), ("$\\frac{3}{4}$", "3/4"), ("3\\frac{1}{2}", "3 1/2"), ("-3\\dfrac{1}{2}", "-3 1/2"), ("1\\,\\frac{1}{2}", "1 1/2"), ("-\\frac{1}{2}", "-1/2"), ("\u2212\u00bd", "\u22121/2"), ("1.2E+03", "1200"), ("3\u00d710^8 m/s", "300000000 m/s"), ("-1.6\u00b710\u207b\u00b9", "-0.16"), ("2\u00bd", "2 1/2"),
        ("\u215b", "1/8"), ("+5", "5"), ("CHF 1\u2019334.50", "1\u2019334.50"), ("45,- EUR", "45"), ("Fr. 45.-", "45"), ("Rs. 450/-", "450"), ("R$ 31", "31"), ("1{,}200", "1200"), ("12\\%", "12%"), ("7 pens", "7 pens"), ("ABC 5", "ABC 5"),
        ("1e400", "1e400"), ("2 x 3", "2 x 3"), ("", ""),
    ],
)  # fmt: skip
def test_numbers_in_the_notation_of_programs(text: str, plain: str) -> None:
    assert usual_notation(text) == plain


SOLUTIONS: dict[str, tuple[str, str]] = {
    "GSM8K": ("2*3=<<2*3=6>>6 pens\n#### 72", "72"),
    "MATH": ("so $\\boxed{\\frac{3}{4}}$.", "3/4"),
    "MATH, a mixed number": ("so $\\boxed{2\\frac{1}{3}}$.", "2 1/3"),
}


@pytest.mark.parametrize("case", SOLUTIONS)
def test_solutions_with_a_marked_answer_need_a_flag(tmp_path: Path, case: str) -> None:
    solution, answer = SOLUTIONS[case]
    path = written(tmp_path / "p.jsonl", json.dumps({"question": "x", "answer": solution}) + "\n")
    with pytest.raises(UserError, match=r"1 cells of column answer are solutions .*Fix: pass --final"):
        table(path)
    table(path, options=NumberOptions(final=True), out=tmp_path / "out.jsonl")
    assert json.loads((tmp_path / "out.jsonl").read_text()) == {"question": "x", "answer": answer, "solution": solution}


def test_places_of_options_and_percentages_are_doubts(tmp_path: Path) -> None:
    path = written(tmp_path / "p.jsonl", json.dumps({"question": "x", "choices": ["5", "4"], "answer": 1}) + "\n")
    with pytest.raises(UserError, match="the answers in column answer may be places in the lists of column choices"):
        table(path)
    workbook = write_xlsx(tmp_path / "p.xlsx", {"A": [["id", "question", "answer"], [1, "x", 0.25]]}, percent=True)
    with pytest.raises(UserError, match=r"1 cells are shown as percentages, and 25 % is stored as 0\.25"):
        table(workbook)
    table(workbook, options=NumberOptions(percent="stored"), out=tmp_path / "out.jsonl")
    assert json.loads((tmp_path / "out.jsonl").read_text())["answer"] == "0.25"


def test_what_stands_in_several_conversations_is_noted(tmp_path: Path) -> None:
    """A notice in place of a message, and a call that was repeated, look like messages of their own."""
    rows = []
    for number in range(4):
        reply = "This message was deleted" if number else "Add the tens first."
        rows += [
            {"conversation": number, "role": "user", "text": f"What is {min(number, 2)}+8?"},
            {"conversation": number, "role": "assistant", "text": reply},
        ]
    rows += [
        {"conversation": 9, "role": "user", "text": "What is 0+8?"},
        {"conversation": 9, "role": "assistant", "text": "Try again."},
    ]
    path = written(tmp_path / "chats.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    notes = read_transcripts(path, Reading()).notes
    assert "the same text in 3 conversations: 'This message was deleted'" in notes
    assert "conversations that differ from another one in their last message alone: 4" in notes


JOINED = {  # a column by which messages of one role that follow each other differ -> the flag that is printed
    "a note of the staff": ("kind", ["message", "message", "note"], "--only kind=message"),
    "a draft of a speech": ("is_final", ["true", "true", "false"], "--only is_final=true"),
    "two languages": ("lang", ["en", "en", "de"], "--only lang=en"),
    "two students": ("author", ["Ana", "Ms Berg", "Zoé"], "--columns name=author"),
    "an edit": ("replaces", ["", "", "2"], "delete the messages that another one replaces"),
}


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("case", JOINED)
def test_messages_of_one_role_that_differ_are_a_doubt(case: str, nested: bool, tmp_path: Path) -> None:
    """Otherwise they would be joined to one message."""
    column, values, flag = JOINED[case]
    roles = ["student", "tutor", "student" if case == "two students" else "tutor"]
    messages = [
        {"number": str(number), "role": role, "text": f"text {number}", column: value}
        for number, (role, value) in enumerate(zip(roles, values, strict=True), 1)
    ]
    if case == "two students":
        messages = [messages[0], messages[2], messages[1], {**messages[0], "number": "4"}]
    rows = (
        [{"conversation": "a", "messages": messages}]
        if nested
        else [{"conversation": "a", **message} for message in messages]
    )
    path = written(tmp_path / "chats.json", json.dumps(rows))
    with pytest.raises(UserError) as error:
        read_transcripts(path, Reading(sort="file"))
    assert flag in error.value.line and column in error.value.line
    if flag.startswith("--only"):
        only = {column: frozenset({flag.partition("=")[2]})}
        assert turns_of(path, Reading(sort="file", only=only)) == {"a": ["student: text 1", "tutor: text 2"]}


def test_nested_messages_are_ordered_by_any_field_with_days(tmp_path: Path) -> None:
    times = [{"$date": "2025-02-01T09:02:00Z"}, {"$date": "2025-02-01T09:01:00Z"}]
    messages = [
        {"role": role, "content": role, "sentAt": time} for role, time in zip(("assistant", "user"), times, strict=True)
    ]
    path = written(tmp_path / "chats.json", json.dumps([{"conversation": "a", "messages": messages}]))
    assert turns_of(path) == {"a": ["student: user", "tutor: assistant"]}


def test_two_fields_with_days_that_differ_in_order_are_a_doubt(tmp_path: Path) -> None:
    """Whichever comes first, and also beside a field whose days are no times."""
    sent = {"user": "2025-02-01T09:01:00Z", "assistant": "2025-02-01T09:02:00Z"}
    read = {"user": "2025-02-03T09:00:00Z", "assistant": "2025-02-02T09:00:00Z"}
    for first, second in ((sent, read), (read, sent)):
        messages = [
            {"role": role, "content": role, "note": f"{role} since 2025-01-01", "a": first[role], "b": second[role]}
            for role in sent
        ]
        path = written(tmp_path / "chats.json", json.dumps([{"conversation": "a", "messages": messages}]))
        with pytest.raises(UserError, match="1 conversations are not in the order of their messages' times"):
            read_transcripts(path, Reading())
        assert turns_of(path, Reading(sort="file")) == {"a": ["student: user", "tutor: assistant"]}


def test_ids_that_start_again_each_day_are_a_doubt(tmp_path: Path) -> None:
    lines = ["conversation,date,role,text"]
    for day in ("2025-04-01", "2025-04-02"):
        for chat in ("1", "2"):
            lines += [f"{chat},{day},student,{chat}+{day}?", f"{chat},{day},tutor,Try {chat} on {day}."]
    path = written(tmp_path / "chats.csv", "\n".join(lines))
    with pytest.raises(UserError, match="2 conversations go on on another day, behind rows of others, such as 1"):
        read_transcripts(path, Reading(sort="file"))


# columns, order and headers that differ from their names ---------------------------------------------------------------

DUMP = "-- MySQL dump 10.13\nDROP TABLE IF EXISTS `m`;\nINSERT INTO `m` VALUES (1,10,'student','5!?');\n"
SUPPORT = (
    "conversation_id,part_type,author_type,created_at,body\n"
    "1,comment,user,1743660000,My 3.5 was wrong?\n1,comment,bot,1743660002,A tutor comes.\n"
    "1,assignment,admin,1743660030,\n1,note,admin,1743660040,she rounds\n1,comment,admin,1743660100,Which digits?\n"
)
SPANISH = (
    "Fecha;Sesi\u00f3n;Pregunta del alumno;Respuesta del tutor;Valoraci\u00f3n\n"
    "04/05/2025 18:30;B7;\u00bfY si es 3x = 12?;\u00bfQu\u00e9 har\u00edas con el 3?;5\n"
    "04/05/2025 18:20;B7;\u00bfC\u00f3mo despejo x?;\u00bfQu\u00e9 deshace sumar 4?;4\n"
    "03/05/2025 09:12;A2;\u00bf0,5 es menor?;Escribe 0,50 y compara.;\n"
)
WIDE = "id,Student_1,Tutor_1,Student_2,Tutor_2,Score\nR1,What is 9x6?,What is 10x6?,60,And 6 less?,5\nR2,8x7?,Double 4x7.,56,Yes.,4\n"
CLOCK = (
    "dialog,turn_no,time,speaker,utterance\nd1,1,12:57 PM,student,How do I add?\nd1,10,1:06 PM,tutor,Check.\n"
    "d1,2,12:58 PM,tutor,Start with ones.\nd1,3,12:59 PM,student,12\nd1,4,1:00 PM,tutor,Carry.\nd1,5,1:01 PM,student,3\n"
    "d1,6,1:02 PM,tutor,And?\nd1,7,1:03 PM,student,62\nd1,8,1:04 PM,tutor,Yes.\nd1,9,1:05 PM,student,ok\n"
)
SPLIT = (
    "Gespr\u00e4ch;Datum;Uhrzeit;Rolle;Text\ng2;12.03.2025;11:02;Sch\u00fcler;Danke!\ng2;12.03.2025;11:01;Tutor;Ein Zehntel.\n"
    "g2;12.03.2025;11:00;Sch\u00fcler;Was ist 10% von 50?\ng1;11.03.2025;10:04;Tutor;Genau.\ng1;11.03.2025;10:03;Sch\u00fcler;12?\n"
)


def flagged(path: Path) -> Reading:
    """Return the reading that the fix of a refused file sets with --columns and --sort."""
    words = shlex.split(refusal_of(path).partition("pass ")[2].partition("; add")[0])
    columns = dict(word.split("=", 1) for word in words if "=" in word)
    return Reading(columns=columns, sort="turn" if "--sort" in words else None)


def test_the_columns_that_a_fix_names_read_the_file_as_meant(tmp_path: Path) -> None:
    spanish = flagged(written(tmp_path / "s.csv", SPANISH))
    assert spanish.columns == {
        "turns": "Pregunta del alumno+Respuesta del tutor", "conversation": "Sesi\u00f3n", "time": "Fecha",
    }  # fmt: skip
    assert turns_of(tmp_path / "s.csv", spanish)["B7"][0] == "student: \u00bfC\u00f3mo despejo x?"
    wide = flagged(written(tmp_path / "w.csv", WIDE))
    assert next(iter(turns_of(tmp_path / "w.csv", wide).values())) == [
        "student: What is 9x6?", "tutor: What is 10x6?", "student: 60", "tutor: And 6 less?",
    ]  # fmt: skip
    assert flagged(written(tmp_path / "u.csv", SUPPORT)).columns == {"role": "author_type"}


def test_turns_in_the_order_of_texts_are_sorted_by_their_numbers(tmp_path: Path) -> None:
    path = written(tmp_path / "c.csv", CLOCK)
    named = {"conversation": "dialog"}
    message = refusal_of(path, Reading(columns=named))
    assert "pass --columns turn=turn_no --sort turn, or --sort file" in message and "summer time" not in message
    [turns] = turns_of(path, Reading(columns={**named, "turn": "turn_no"}, sort="turn")).values()
    assert turns[:2] == ["student: How do I add?", "tutor: Start with ones."] and turns[-1] == "tutor: Check."


def test_a_day_and_a_time_of_day_in_two_columns_show_the_order(tmp_path: Path) -> None:
    path = written(tmp_path / "d.csv", SPLIT)
    named = {"conversation": "Gespr\u00e4ch", "role": "Rolle"}
    assert "time=Datum+Uhrzeit" in refusal_of(path)
    assert "pass --columns time=Datum+Uhrzeit, or --sort file" in refusal_of(
        path, Reading(columns={**named, "time": "Datum"})
    )
    turns = turns_of(path, Reading(columns={**named, "time": "Datum+Uhrzeit"}))
    assert turns["g2"] == ["student: Was ist 10% von 50?", "tutor: Ein Zehntel.", "student: Danke!"]


def test_a_dump_of_a_database_and_a_quiz_are_named(tmp_path: Path) -> None:
    assert "is a dump of a database (SQL). Fix: convert it to a table" in refusal_of(written(tmp_path / "d.sql", DUMP))
    with pytest.raises(UserError, match=r"is an XML file.*question and answer for problems"):
        table(written(tmp_path / "q.xml", '<?xml version="1.0"?>\n<quiz></quiz>\n'))


def test_all_rows_of_a_surveys_header_are_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ids = ",".join(f'"{{""ImportId"":""Q{number}""}}"' for number in range(3))
    rows = f"id,Q_hist,Q_pref\nResponse ID,Conversation,Which reply is better?\n{ids}\nR_1,Student: 5,A is better\n"
    path, out = written(tmp_path / "q.csv", rows), tmp_path / "q.jsonl"
    table(path, out=out)
    assert "rows that repeat the header, left out: 2" in capsys.readouterr().out
    [record] = map(json.loads, out.read_text(encoding="utf-8").splitlines())
    assert record["id"] == "R_1"
    with pytest.raises(UserError, match=r"rows that repeat the header: 2\. Fix: run `maieutic table"):
        check_headers(path, list(csv.DictReader(path.open(encoding="utf-8"))))


@pytest.mark.parametrize("header", ["id,2,4,6", "pupil,2025,2024,2023", "question,answer", "id,9a", "role,text,5"])
def test_numbers_that_rise_or_fall_are_names_of_columns(tmp_path: Path, header: str) -> None:
    cells = ",".join("3" for _ in header.split(","))
    assert (
        len(read_user_table(written(tmp_path / "a.csv", f"{header}\n{cells}\n{cells}\n")).columns)
        == header.count(",") + 1
    )


def test_a_programs_objects_are_no_texts(tmp_path: Path) -> None:
    tool = """t,tool,"{""result"": 2}"\n"""
    path = written(
        tmp_path / "a.csv", f"conversation,role,text\nt,user,sqrt 4?\n{tool}t,assistant,What squared is 4?\n"
    )
    assert len(turns_of(path)["t"]) == 2


def test_dates_of_both_orders_name_neither(tmp_path: Path) -> None:
    rows = ["4/9/2025 11:58 PM,student,4", "4/10/2025 12:01 AM,tutor,Why?"]
    path = written(tmp_path / "a.csv", "conversation,time,role,text\n" + "".join(f"a,{row}\n" for row in rows))
    notes = read_transcripts(path, Reading()).notes
    assert "times: local times, with the day or the month first, which sort the rows alike" in notes
    assert not any("pause of more than a day" in note for note in notes)


def test_ids_of_two_columns_are_joined(tmp_path: Path) -> None:
    rows = "1,u1,student,4\n1,u2,student,5\n1,u1,tutor,Why?\n1,u2,tutor,How?\n"
    path = written(tmp_path / "a.csv", f"session,student,role,text\n{rows}")
    reading = Reading(columns={"conversation": "session+student"})
    conversations = read_transcripts(path, reading).conversations
    assert [(chat.id, [message.text for message in chat.messages]) for chat in conversations] == [
        ("1 u1", ["4", "Why?"]), ("1 u2", ["5", "How?"]),
    ]  # fmt: skip


def test_a_summary_is_no_reply(tmp_path: Path) -> None:
    """One of four conversations ends with the student, and each has a summary."""
    records = [
        {
            "id": str(number),
            "messages": OPENAI if number else OPENAI[:1],
            "summary": f"Pupil {number} adds two numbers.",
        }
        for number in range(4)
    ]
    path = written(tmp_path / "a.json", json.dumps(records))
    assert len(read_transcripts(path, Reading()).conversations) == 4
