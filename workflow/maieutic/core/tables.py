"""Reader of CSV tables in the variants that spreadsheets save.

It accepts byte order marks, UTF-16, Windows-1252, semicolons, tabs and empty rows. Replies, labels, preferences,
labelling sheets and users' data sets are all read by it, so that all may use the same variants.
"""

from __future__ import annotations

import csv
import difflib
import io
import logging
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from maieutic.core.errors import UserError

log = logging.getLogger(__name__)
LONGEST_CELL = 1 << 24  # maximum length of a cell in characters
MOST_COLUMNS, MOST_CELLS = 2_000, 3_000_000  # a cell takes some 150 bytes of memory
MOST_LISTED_COLUMNS = 12  # maximum number of columns listed in a message
DELIMITERS = ",;\t|"
SEPARATOR_LINE = "sep="  # beginning of the line before the header in which a spreadsheet may declare the delimiter
BOMS = {b"\xef\xbb\xbf": "utf-8-sig", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
WINDOWS_ENCODING = "cp1252"  # encoding of files that Excel on Windows saves as "CSV" rather than "CSV UTF-8"
# Names that other tools use for a column. If the column is missing, a message suggests renaming one of them.
COLUMN_SYNONYMS = {
    "reply": [
        "output",
        "response",
        "answer",
        "generation",
        "completion",
        "prediction",
        "model_output",
        "text",
        "content",
    ],
    "id": ["item_id", "item", "idx", "index", "question_id", "example_id", "sample_id", "key"],
    "prompt": ["question", "input", "instruction", "query"],
    "tutor": ["model", "system", "speaker"],
    "criterion": ["dimension", "metric", "aspect", "category"],
    "label": ["rating", "score", "verdict", "annotation", "value"],
    "preference": ["preferred", "winner", "choice", "better"],
    "answer": ["final_answer", "gold", "target", "solution_answer"],
    "question": ["problem", "prompt"],
}


class Table(NamedTuple):
    """Column names and rows of a table; each row comes with its line number in the file."""

    columns: list[str]
    rows: list[tuple[int, dict[str, str]]]


def decode_table(data: bytes, name: str, strict: bool = False, fix: str = "save the file as UTF-8") -> str:
    """Return the text of a file in UTF-8, UTF-16 with a byte order mark, or (with a logged warning) Windows-1252.

    name: the file's name in messages; strict: refuse Windows-1252, as for published files; fix: fix shown with the
    error. Raises UserError if no encoding fits all lines.
    """
    for mark, encoding in BOMS.items():
        if data.startswith(mark):
            try:
                return data.decode(encoding)
            except UnicodeDecodeError as error:
                raise UserError(name, f"found invalid {encoding} at byte {error.start}", fix) from None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        check_one_encoding(data, name)
        try:
            text = "" if strict else data.decode(WINDOWS_ENCODING)
        except UnicodeDecodeError:
            text = ""
        if not text or "\x00" in text:
            raise UserError(name, f"found invalid UTF-8 at byte {error.start}", fix) from None
        log.warning("%s is not UTF-8, so it is read as Windows-1252; save it as UTF-8 if letters look wrong", name)
        return text


def check_one_encoding(data: bytes, name: str) -> None:
    """Raise UserError if some lines of a file are UTF-8 and others are in another encoding.

    No encoding fits such a file: read as Windows-1252, its lines in UTF-8 would contain wrong letters.
    """
    utf8, others = 0, []
    for number, line in enumerate(data.splitlines(), 1):
        if not line.isascii():
            try:
                line.decode("utf-8")
                utf8 += 1
            except UnicodeDecodeError:
                others.append(number)
    if utf8:
        first = ", ".join(map(str, others[:5])) + (", ..." if len(others) > 5 else "")
        lines = f"lines {first} are" if len(others) > 1 else f"line {first} is"
        problem = f"{lines} not UTF-8, but {utf8} other {'lines are' if utf8 > 1 else 'line is'}"
        raise UserError(f"{name}:{others[0]}", problem, "save the whole file as UTF-8")


def delimiter_of(head: str) -> str:
    """Return the delimiter of a header line: the one in DELIMITERS that occurs most often outside quotes."""
    unquoted = "".join(head.split('"')[::2])
    return max(DELIMITERS, key=unquoted.count)


def parse_table(text: str, name: str, fix: str, known: Iterable[str] = (), padded: bool = False) -> Table:
    """Return the table in a CSV text, with column names stripped and empty rows and unnamed columns removed.

    name: the file's name in messages; fix: fix shown for a damaged file; known: column names that are recognised in any
    case; padded: True to allow rows that are shorter than the header. Raises UserError for a row that does not match
    the header.
    """
    first, _, rest = text.partition("\n")
    skipped = 0  # number of lines before the header
    delimiter = None
    if first.strip().lower().startswith(SEPARATOR_LINE) and len(first.strip()) <= len(SEPARATOR_LINE) + 1:
        delimiter, text, skipped = (first.strip()[len(SEPARATOR_LINE) :] or ","), rest, 1
    before = csv.field_size_limit(LONGEST_CELL)
    start = text.lstrip("\r\n")
    skipped += text[: len(text) - len(start)].count("\n")
    delimiter = delimiter or delimiter_of(start.partition("\n")[0])
    reader = csv.reader(io.StringIO(start, newline=""), delimiter=delimiter, strict=True)
    known = tuple(known)
    rows: list[tuple[int, dict[str, str]]] = []
    try:
        head = [column.strip() for column in next(reader, [])]
        head = [match_known_word(column, known) or column for column in head]
        while head and not head[-1]:
            head.pop()
        if len(head) > MOST_COLUMNS:
            raise UserError(name, f"the table has {len(head):,} columns, more than {MOST_COLUMNS:,}", fix)
        for cells in reader:
            if not any(cell.strip() for cell in cells):
                continue
            if padded:
                cells += [""] * (len(head) - len(cells))
            if len(cells) < len(head) or any(cell.strip() for cell in cells[len(head) :]):
                place = f"{name}:{reader.line_num + skipped}"
                raise UserError(place, f"expected {len(head)} cells, found {len(cells)}", fix)
            if (len(rows) + 1) * len(head) > MOST_CELLS:
                raise UserError(name, f"the table has more than {MOST_CELLS:,} cells", "split the file")
            row = {column: cell for column, cell in zip(head, cells, strict=False) if column}
            rows.append((reader.line_num + skipped, row))
    except csv.Error as error:
        raise UserError(
            f"{name}:{reader.line_num + skipped}", f"the row cannot be parsed as CSV: {error}", fix
        ) from None
    finally:
        csv.field_size_limit(before)
    return Table([column for column in head if column], rows)


def read_table(path: Path, needed: Sequence[str], known: Iterable[str] = (), fix: str = "") -> Table:
    """Read a user's CSV file. Raises UserError for a file that cannot be read or lacks a needed column.

    needed: required columns, recognised in any case; known: further columns recognised in any case; fix: fix shown with
    an error, by default to use the required columns.
    """
    fix = fix or f"use the columns {', '.join(needed)}"
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UserError(str(path), f"cannot be read: {error.strerror or error}", fix) from None
    table = parse_table(decode_table(data, str(path)), str(path), fix, (*needed, *known), padded=True)
    check_columns(str(path), table.columns, needed, fix)
    return table


def check_columns(name: str, columns: Sequence[str], needed: Sequence[str], fix: str) -> None:
    """Raise UserError if a needed column is missing. The message lists the columns and suggests which to rename.

    name: the file's name in the message; fix: fix shown if no column resembles a missing one.
    """
    if missing := [column for column in needed if column not in columns]:
        renames = [
            f"rename {likely} to {column}" for column in missing if (likely := likely_column(column, columns, needed))
        ]
        present = (
            ", ".join(columns[:MOST_LISTED_COLUMNS]) + (", ..." if len(columns) > MOST_LISTED_COLUMNS else "") or "none"
        )
        columns_missing = f"column{'s' if len(missing) > 1 else ''} {', '.join(missing)}"
        raise UserError(name, f"expected {columns_missing}, found {present}", "; ".join(renames) or fix)


def likely_column(name: str, columns: Sequence[str], needed: Sequence[str] = ()) -> str | None:
    """Return the column that is probably meant as the missing column `name`, or None if no column resembles it.

    needed: columns that are not considered, since they are needed themselves.
    """
    free = {column.casefold().replace(" ", "_"): column for column in columns if column not in needed}
    for other in COLUMN_SYNONYMS.get(name, []):
        if other in free:
            return free[other]
    near = difflib.get_close_matches(name, list(free), 1, cutoff=0.75)
    return free[near[0]] if near else None


def match_known_word(text: str, known: Sequence[str]) -> str | None:
    """Return the known word that equals a text up to case and extra blanks; None if no word or several words do."""
    if text in known:
        return text
    folded = " ".join(text.split()).casefold()
    near = [word for word in known if word.casefold() == folded]
    return near[0] if len(near) == 1 else None


def rename_known_keys(record: Mapping[str, object], known: Iterable[str]) -> dict[str, object]:
    """Return a record in which keys that equal a known name up to case and extra blanks are replaced by that name."""
    known = tuple(known)
    return {match_known_word(str(key), known) or key: value for key, value in record.items()}
