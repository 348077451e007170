"""Tests of tables as spreadsheets save them, read by each reader of user files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from maieutic.core.errors import UserError
from maieutic.core.tables import read_table
from maieutic.datasets.sources import read_source
from maieutic.replies.recorded import read_reply_lines

ROWS = [
    ("gsm8k-0000", "That\u2019s right \u2013 Final answer: 0"),
    ("gsm8k-0001", "Final answer: 1"),
    ("gsm8k-0002", "So; 2"),
]
HEAD = ("id", "reply")


def saved_table(
    delimiter: str = ",", encoding: str = "utf-8", head: tuple[str, str] = HEAD, before: str = "", after: str = "",
    end: str = "\r\n",
) -> bytes:  # fmt: skip
    """Return the rows as a spreadsheet may save them. before, after: text before the header and after the last row."""
    cells = [head, *ROWS]
    lines = [delimiter.join(f'"{cell}"' if delimiter in cell else cell for cell in row) for row in cells]
    return (before + end.join(lines) + end + after).encode(encoding)


FORMS: dict[str, bytes] = {
    "plain": saved_table(), "line feeds": saved_table(end="\n"), "a byte order mark": saved_table(encoding="utf-8-sig"),
    "semicolons": saved_table(";"), "tabs": saved_table("\t"), "UTF-16, tabs": saved_table("\t", "utf-16"),
    "Windows-1252": saved_table(encoding="cp1252"), "semicolons in Windows-1252": saved_table(";", "cp1252"),
    "empty last rows": saved_table(after=",\r\n,\r\n\r\n"), "empty first row": saved_table(before="\r\n"),
    "empty columns": b"id,reply,,\r\n" + b"\r\n".join(f'{a},"{b}",,'.encode() for a, b in ROWS),
    "a padded header": saved_table(head=(" id", "reply ")),
    "a header in another case": saved_table(head=("ID", "Reply")),
    "a line that names the separator": saved_table(";", before="sep=;\r\n"),
    "a quoted header": saved_table(head=('"id"', '"reply"')),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_replies_are_read_however_a_spreadsheet_saves_them(form: str, tmp_path: Path) -> None:
    path = tmp_path / "replies.csv"
    path.write_bytes(FORMS[form])
    assert [(line.id, *line.texts) for line in read_reply_lines(path, "models.m.file")] == ROWS
    assert [tuple(row[name].strip() for name in HEAD) for _, row in read_table(path, HEAD).rows] == ROWS


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_json_lines_in_other_encodings_are_read(encoding: str, tmp_path: Path) -> None:
    path = tmp_path / "replies.jsonl"
    path.write_text("".join(json.dumps({"Id": a, " reply": b}) + "\n" for a, b in ROWS), encoding=encoding)
    assert [(line.id, *line.texts) for line in read_reply_lines(path, "models.m.file")] == ROWS


@pytest.mark.parametrize(("text", "message"), [
    ("id,output\na,b\n", r"expected column reply, found id, output\. Fix: rename output to reply"),
    ("item_id,reply\na,b\n", r"expected column id, found item_id, reply\. Fix: rename item_id to id"),
    ("id,replly\na,b\n", r"Fix: rename replly to reply"),
    ("id,reply\na\n", r"replies\.csv:2: expected 2 cells, found 1\. Fix: correct this line"),
    ("id,reply\na,b,c\n", r"replies\.csv:2: expected 2 cells"),
    ("sep=;\nid;reply\na\n", r"replies\.csv:3: expected 2 cells"),
])  # fmt: skip
def test_a_file_that_does_not_fit_names_the_column_or_the_line(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "replies.csv"
    path.write_text(text)
    with pytest.raises(UserError, match=message):
        read_reply_lines(path, "models.m.file")


def test_a_file_in_two_encodings_is_refused_with_its_lines(tmp_path: Path) -> None:
    path = tmp_path / "replies.csv"
    path.write_bytes("id,reply\na,caf\u00e9\n".encode() + "b,caf\u00e9\n".encode("cp1252") * 7)
    message = r"replies\.csv:3: lines 3, 4, 5, 6, 7, \.\.\. are not UTF-8, but 1 other line is\. Fix: save the whole"
    with pytest.raises(UserError, match=message):
        read_reply_lines(path, "models.m.file")


def test_bytes_that_are_not_text_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "replies.csv"
    for data in (b"\x81\x8d\x8f", b"id,reply\n\xff\x00\x00", b"\xff\xfe\x00"):
        path.write_bytes(data)
        with pytest.raises(UserError, match=r"replies\.csv: found invalid (?:UTF-8|utf-16) at byte"):
            read_reply_lines(path, "models.m.file")
        with pytest.raises(UserError, match="download the file again"):
            read_source(path, "csv")
