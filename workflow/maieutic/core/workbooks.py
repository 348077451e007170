"""Tables in workbooks of Excel (.xlsx, .xls, .xlsb) and OpenDocument (.ods), by python-calamine.

Calamine has no limits, so the sizes inside the archive are checked before it opens a workbook.
"""

from __future__ import annotations

import datetime
import io
import math
import re
import zipfile
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, NamedTuple

from maieutic.core.errors import UserError
from maieutic.core.files import MB

MOST_UNPACKED_MB = 400.0
LARGEST_EXACT = 2**53  # spreadsheets store numbers as floats, so larger whole numbers were rounded
# Cells with an error such as #REF!, which calamine returns as empty ones
ERROR_CELL = re.compile(rb'<c [^>]*\bt="e"|calcext:value-type="error"')
# A cell with a formula whose value was never stored, as programs write it
NO_VALUE = re.compile(rb"<c [^>]*>\s*<f[^>]*>[^<]*</f>\s*(?:<v\s*/>|<v></v>)?\s*</c>|<c [^>]*>\s*<f[^>]*/>\s*</c>")
SHEET_FILE = re.compile(r"xl/worksheets/[^/]+\.xml|content\.xml")


PERCENT_FORMATS = {"9", "10"}  # built-in number formats of percentages
STYLE = re.compile(rb'<xf [^>]*numFmtId="(\d+)"')
CUSTOM_FORMAT = re.compile(rb'<numFmt [^>]*numFmtId="(\d+)"[^>]*formatCode="([^"]*)"')
HIDDEN_ROW = re.compile(
    rb'<row [^>]*\bhidden="(?:1|true)"|<table:table-row [^>]*table:visibility="(?:collapse|filter)"'
)
STYLED_CELL = re.compile(rb'<c [^>]*\bs="(\d+)"[^>]*>\s*<v>')


class Sheet(NamedTuple):
    """One sheet of a workbook. rows: number of each row in the sheet, from 1, and its cells as Python values."""

    name: str
    rows: list[tuple[int, list[Any]]]


def is_workbook(data: bytes) -> bool:
    """Return True if the bytes begin like a workbook: an archive, or Microsoft's older container."""
    return data.startswith((b"PK\x03\x04", b"\xd0\xcf\x11\xe0"))


class Workbook(NamedTuple):
    """Sheets of a workbook that have cells, and counts of what a spreadsheet program shows in another way.

    percentages: number of cells shown as percentages, which are stored as fractions, None if the format does not tell;
    hidden: number of hidden rows.
    """

    sheets: list[Sheet]
    percentages: int | None
    hidden: int


def read_workbook(data: bytes, name: str) -> Workbook:
    """Return the content of a workbook. name: the file's name in messages.

    Raises UserError for a file that is no workbook, is protected or too large, or has cells without a stored value.
    """
    percentages, hidden = check_archive(data, name) if data.startswith(b"PK") else (None, 0)
    import python_calamine

    try:
        book = python_calamine.load_workbook(io.BytesIO(data))
        sheets = [sheet_of(book, sheet) for sheet in book.sheet_names]
    except python_calamine.PasswordError:
        raise UserError(name, "the workbook is protected by a password", "save it without the password") from None
    except (python_calamine.CalamineError, OSError, ValueError) as error:
        raise UserError(name, f"cannot be read as a workbook: {error}", "save it as .xlsx or as CSV (UTF-8)") from None
    return Workbook([sheet for sheet in sheets if sheet.rows], percentages, hidden)


def sheet_of(book: Any, name: str) -> Sheet:
    """Return a sheet of an open workbook without its empty rows."""
    sheet = book.get_sheet_by_name(name)
    first = (sheet.start or (0, 0))[0] + 1
    rows = [
        (number, cells)
        for number, cells in enumerate(sheet.to_python(skip_empty_area=True), first)
        if any(cell != "" for cell in cells)
    ]
    return Sheet(name, rows)


def check_archive(data: bytes, name: str) -> tuple[int | None, int]:
    """Return the numbers of cells shown as percentages, None if the format does not tell, and of hidden rows.

    Raises UserError if an archive is no workbook, is too large, or has cells with an error or no value.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            infos = archive.infolist()
            names = {info.filename for info in infos}
            if "xl/workbook.xml" not in names and "xl/workbook.bin" not in names and "content.xml" not in names:
                kind = "a text document" if "word/document.xml" in names else "an archive"
                raise UserError(name, f"is {kind}, not a table", "pass the table itself, as .xlsx, .ods or CSV")
            if (size := sum(info.file_size for info in infos)) > MOST_UNPACKED_MB * MB:
                problem = f"the workbook has {size / MB:,.0f} MB unpacked, more than {MOST_UNPACKED_MB:,.0f} MB"
                raise UserError(name, problem, "split it, or save it as CSV (UTF-8)")
            sheets = [archive.read(info) for info in infos if SHEET_FILE.fullmatch(info.filename)]
            styles = archive.read("xl/styles.xml") if "xl/styles.xml" in names else None
            unstored = sum(len(NO_VALUE.findall(sheet)) for sheet in sheets)
            broken = sum(len(ERROR_CELL.findall(sheet)) for sheet in sheets)
    except (zipfile.BadZipFile, OSError, RuntimeError) as error:
        raise UserError(name, f"cannot be read as a workbook: {error}", "save it again") from None
    if unstored:
        problem = f"{unstored:,} cells have a formula without a stored value"
        raise UserError(name, problem, "open the workbook in a spreadsheet program, and save it there")
    if broken:
        raise UserError(name, f"{broken:,} cells contain an error such as #REF!", "correct these formulas")
    hidden = sum(len(HIDDEN_ROW.findall(sheet)) for sheet in sheets)
    if "content.xml" in names:
        return sum(sheet.count(b'office:value-type="percentage"') for sheet in sheets), hidden
    return percentage_cells(sheets, styles if "xl/workbook.bin" not in names else None), hidden


def percentage_cells(sheets: Sequence[bytes], styles: bytes | None) -> int | None:
    """Return the number of cells that are shown as percentages; None without styles, as in .xlsb."""
    if styles is None:
        return None
    custom = {number.decode() for number, code in CUSTOM_FORMAT.findall(styles) if b"%" in code}
    _, _, formats = styles.partition(b"<cellXfs")
    used = [number.decode() for number in STYLE.findall(formats.partition(b"</cellXfs>")[0])]
    places = {str(place).encode() for place, number in enumerate(used) if number in PERCENT_FORMATS | custom}
    return sum(style in places for sheet in sheets for style in STYLED_CELL.findall(sheet))


def cell_text(value: Any) -> str:
    """Return a cell as text: whole numbers without a decimal point, dates in ISO form, "" for an empty cell."""
    if value is None or value == "":
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < LARGEST_EXACT else decimal_text(value)
    if isinstance(value, datetime.datetime):
        return value.isoformat(" ") if value.time() != datetime.time() else value.date().isoformat()
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    return str(value)


def decimal_text(value: float) -> str:
    """Return a number in decimal notation with the digits that identify it, without an exponent."""
    return f"{Decimal(repr(value)):f}" if math.isfinite(value) else repr(value)


def is_rounded(value: Any) -> bool:
    """Return True for a whole number of a workbook that is larger than a spreadsheet stores exactly."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) >= LARGEST_EXACT
