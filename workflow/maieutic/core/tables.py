"""Read tables as spreadsheets save them: byte order marks, UTF-16, Windows-1252, semicolons and tabs, empty rows.

One reader for replies, labels, preferences, sheets and data sets of one's own, so that all tolerate the same.
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
LONGEST_CELL = 1 << 24  # characters
SHOWN = 12  # columns that a message names
DELIMITERS = ",;\t|"
SEPARATOR_LINE = "sep="  # the first line by which a spreadsheet states its delimiter
BOMS = {b"\xef\xbb\xbf": "utf-8-sig", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
OLD = "cp1252"  # what Windows writes as "CSV" without a further word
# What others call a column, for the fix of a message.
CALLED = {
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
    """The columns of a table, and its rows with the line of each in the file."""

    columns: list[str]
    rows: list[tuple[int, dict[str, str]]]


def decoded(data: bytes, shown: str, strict: bool = False, mend: str = "save it as UTF-8") -> str:
    """Return a file's text: UTF-8, UTF-16 with its mark, or Windows-1252, which is noted in the log.

    Raises UserError for bytes that are none of them. shown: the file's name in messages; strict: a published file,
    which is UTF-8; mend: the fix for bytes that cannot be read.
    """
    for mark, encoding in BOMS.items():
        if data.startswith(mark):
            try:
                return data.decode(encoding)
            except UnicodeDecodeError as error:
                raise UserError(shown, f"not {encoding} at byte {error.start}", mend) from None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        try:
            text = "" if strict else data.decode(OLD)
        except UnicodeDecodeError:
            text = ""
        if not text or "\x00" in text:
            raise UserError(shown, f"not UTF-8 at byte {error.start}", mend) from None
        log.warning("%s is not UTF-8: it is read as Windows-1252; save it as UTF-8 if letters look wrong", shown)
        return text


def delimiter_of(head: str) -> str:
    """Return what separates the cells of a head line: the delimiter that stands in it most often outside of quotes."""
    bare = "".join(head.split('"')[::2])
    return max(DELIMITERS, key=bare.count)


def table_of(text: str, shown: str, mend: str, known: Iterable[str] = (), padded: bool = False) -> Table:
    """Return the table in a text of CSV. Raises UserError for a row with other cells than the head line has.

    Blanks around names go, rows and columns without any content too. known: column names that are recognised in any
    case; shown: the file's name in messages; mend: the fix for a damaged file; padded: rows may lack their last cells.
    """
    first, _, rest = text.partition("\n")
    skipped = 0
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
        head = [name.strip() for name in next(reader, [])]
        head = [known_word(name, known) or name for name in head]
        while head and not head[-1]:
            head.pop()
        for cells in reader:
            if not any(cell.strip() for cell in cells):
                continue
            if padded:
                cells += [""] * (len(head) - len(cells))
            if len(cells) < len(head) or any(cell.strip() for cell in cells[len(head) :]):
                place = f"{shown}:{reader.line_num + skipped}"
                raise UserError(place, f"expected {len(head)} cells, found more or fewer", mend)
            named = {name: cell for name, cell in zip(head, cells, strict=False) if name}
            rows.append((reader.line_num + skipped, named))
    except csv.Error as error:
        raise UserError(f"{shown}:{reader.line_num + skipped}", f"not CSV: {error}", mend) from None
    finally:
        csv.field_size_limit(before)
    return Table([name for name in head if name], rows)


def read_table(path: Path, needed: Sequence[str], known: Iterable[str] = (), mend: str = "") -> Table:
    """Read a CSV file of one's own. Raises UserError for a file that cannot be read, or that lacks a needed column.

    needed: the columns that it must have; known: further ones that are recognised in any case; mend: what else to say
    of the file's form.
    """
    fix = mend or f"its columns are {', '.join(needed)}"
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UserError(str(path), f"cannot be read: {error.strerror or error}", fix) from None
    table = table_of(decoded(data, str(path)), str(path), fix, (*needed, *known), padded=True)
    check_columns(str(path), table.columns, needed, fix)
    return table


def check_columns(shown: str, columns: Sequence[str], needed: Sequence[str], mend: str) -> None:
    """Raise UserError that names the columns which are lacking, those that are there, and the likely ones."""
    if missing := [name for name in needed if name not in columns]:
        likely = [f"rename {found} to {name}" for name in missing if (found := likely_column(name, columns, needed))]
        there = ", ".join(columns[:SHOWN]) + (", ..." if len(columns) > SHOWN else "") or "none"
        raise UserError(shown, f"no column {', '.join(missing)}; found {there}", "; ".join(likely) or mend)


def likely_column(name: str, columns: Sequence[str], needed: Sequence[str] = ()) -> str | None:
    """Return the column that is likely meant by a name, or None."""
    free = {column.casefold().replace(" ", "_"): column for column in columns if column not in needed}
    for other in CALLED.get(name, []):
        if other in free:
            return free[other]
    near = difflib.get_close_matches(name, list(free), 1, cutoff=0.75)
    return free[near[0]] if near else None


def known_word(text: str, known: Sequence[str]) -> str | None:
    """Return the known word that a text means, whatever its case and its blanks; None for none or several."""
    if text in known:
        return text
    folded = " ".join(text.split()).casefold()
    near = [word for word in known if word.casefold() == folded]
    return near[0] if len(near) == 1 else None


def with_known_names(record: Mapping[str, object], known: Iterable[str]) -> dict[str, object]:
    """Return a record with its fields under the known names, whatever their case and the blanks around them."""
    known = tuple(known)
    return {known_word(str(key), known) or key: value for key, value in record.items()}
