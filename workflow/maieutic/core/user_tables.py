"""Reader of a user's own file of records, in every usual format, with what was understood and what is in doubt.

The content decides the format, not the suffix. Nothing is converted, merged or dropped in silence.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice, pairwise, zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from maieutic.core.encodings import decode_file
from maieutic.core.errors import UserError, raise_all
from maieutic.core.files import MB
from maieutic.core.json_text import count_json_values, json_value, object_of_unique_keys, storable
from maieutic.core.parquet import open_parquet, parquet_batches
from maieutic.core.tables import DELIMITERS, LONGEST_CELL, Table, delimiter_of, parse_table
from maieutic.core.workbooks import Sheet, cell_text, is_rounded, is_workbook, read_workbook

WRITTEN_OBJECT = re.compile(r"\s*(?:\[\s*)?\{\s*['\"][\w.$@-]+['\"]\s*:")  # an object, or a list of objects
MOST_JSON_VALUES = 5_000_000  # maximum number of values of a JSON document, which is read at once
MOST_PARQUET_MB = 400.0  # maximum size of the values of a Parquet file, which is compressed
MOST_FAULTS = 20  # maximum number of faulty rows that are listed one by one
FORMATS = "CSV (UTF-8), .xlsx, .ods, JSON lines, JSON or Parquet"
LONGEST_OF_SPREADSHEET = 32_767  # characters of a cell in Excel and LibreOffice
REPEATED_HEADERS = "rows that repeat the header"
IMPORT_ID = '"ImportId"'  # in a row of the header of a survey's export
DUMP_NULL = "\\N"  # an empty cell in the dumps of PostgreSQL and MySQL
ROUNDED = re.compile(r"[+-]?\d(?:[.,]\d+)?[eE]\+\d{2,3}")  # as spreadsheets write a large number
COMMON_NAMES = {  # of columns
    "id", "role", "speaker", "text", "message", "content", "question", "answer", "reply", "label", "tutor", "item",
    "task", "criterion", "annotator", "conversation", "turn", "time", "date", "name",
}  # fmt: skip
PLAIN_NUMBER = re.compile(r"[+-]?\d+(?:[.,]\d+)?")
MOST_STATES, LONGEST_STATE = 3, 20  # number and length of a column's values that are shown if it is not used
SHOWN_RECORDS, LONGEST_VALUE = 2, 100  # in a preview: number of records, and maximum length of each value
Row = Mapping[str, Any]

# Exports that are no tables, by their first lines, with what to do
TABLE_FIX = "convert it to a table with the columns conversation, role and text, or question and answer for problems"
EXPORTS = {
    "an export of WhatsApp": re.compile(
        r"\A[\u200e\u200f\s]*\[?\d{1,4}[./-]\d{1,2}[./-]\d{1,4},?\s+\d{1,2}[:.]\d{2}(?:[:.]\d{2})?\s?"
        r"(?:[AaPp]\.?[Mm]\.?)?(?:\] | - )"
    ),
    "a transcript of Zoom (WebVTT)": re.compile(r"\A\s*WEBVTT\b"),
    "a chat of Zoom": re.compile(r"\A\s*\d{2}:\d{2}:\d{2}\s+From\s"),
    "subtitles (SRT)": re.compile(r"\A\s*1\s*\n\d{2}:\d{2}:\d{2},\d{3} --> "),
    "a web page": re.compile(r"\A\s*<(?:!doctype|html)\b", re.IGNORECASE),
    "an XML file": re.compile(r"\A\s*<\?xml\b"),
    "a dump of a database (SQL)": re.compile(
        r"\A\s*(?:(?:--[^\n]*\n|/\*[^\n]*\n)\s*)*"
        r"(?:(?:CREATE|DROP|LOCK|ALTER) (?:TABLES?|DATABASE)\b"
        r"|INSERT INTO\b|SET \S+ ?=|COPY \S+ \(|BEGIN(?: TRANSACTION)?;)",
        re.IGNORECASE,
    ),
    "a PDF": re.compile(r"\A%PDF-"),
}


class Doubt(NamedTuple):
    """Something in a file that has more than one reading.

    place: file, column or key; problem: what is in doubt, with its count; fix: the flag or key that settles it;
    proposal: the reading that `--yes` takes, "" without one.
    """

    place: str
    problem: str
    fix: str
    proposal: str = ""

    @property
    def error(self) -> UserError:
        """The doubt as an error."""
        more = f"; --yes takes: {self.proposal}" if self.proposal else ""
        return UserError(self.place, self.problem, f"{self.fix}{more}")


class FileSettings(NamedTuple):
    """Settings for reading a user's file.

    encoding: of a text file; sheet: of a workbook; max_mb: maximum size of the file.
    """

    encoding: str | None = None
    sheet: str | None = None
    max_mb: float = 100.0


AS_FOUND = FileSettings()


class UserTable(NamedTuple):
    """Records of a user's file.

    columns: their names; rows: each with its place; form: format and encoding as understood; notes: lines on what was
    understood; percentages: number of a workbook's cells that are shown as percentages, None if its format does not
    tell.
    """

    columns: list[str]
    rows: list[tuple[str, Row]]
    form: str
    notes: list[str]
    percentages: int | None = 0


def is_written_object(value: Any) -> bool:
    """Return True for a text that is a list or an object as a program prints it, such as "[{'role': 'user', ...}]"."""
    return isinstance(value, str) and WRITTEN_OBJECT.match(value) is not None


class Faults:
    """Faulty rows of a file. The first MOST_FAULTS are listed, and the others are counted."""

    def __init__(self, path: Path) -> None:
        self.path, self.listed, self.more = path, list[UserError](), 0

    def add(self, place: str, problem: str, fix: str) -> None:
        """Add a fault of one row."""
        if len(self.listed) < MOST_FAULTS:
            self.listed.append(UserError(place, problem, fix))
        else:
            self.more += 1

    def check(self) -> None:
        """Raise UserError with all faults, if there are any."""
        if self.more:
            fix = "correct the listed rows, then run the command again"
            self.listed.append(UserError(str(self.path), f"{self.more} more rows are faulty", fix))
        if self.listed:
            raise UserError.of(self.listed)


def read_user_table(path: Path, settings: FileSettings = AS_FOUND) -> UserTable:
    """Return the records of a user's file. Raises UserError for a file that cannot be read in one way alone."""
    table = table_of(path, settings)
    check_whole(table, str(path))
    return table


def check_whole(table: UserTable, name: str) -> None:
    """Raise UserError for texts that a program has cut or written with signs of its own."""
    texts = [text for _, row in table.rows for text in row.values() if isinstance(text, str)]
    if cut := sum(len(text) == LONGEST_OF_SPREADSHEET for text in texts):
        problem = f"{cut:,} texts have {LONGEST_OF_SPREADSHEET:,} characters, where a spreadsheet cuts them"
        raise UserError(name, problem, "export the records again as CSV or JSON, without a spreadsheet")
    if nulls := sum(text == DUMP_NULL for text in texts):
        problem = (
            f"{nulls:,} cells are {DUMP_NULL}, as in a database's dump, whose texts have other signs for line breaks"
        )
        raise UserError(name, problem, "export the table as CSV with a header, or as JSON")


def table_of(path: Path, settings: FileSettings) -> UserTable:
    """Return the records of a user's file in its format."""
    data = read_bytes(path, settings.max_mb)
    name = str(path)
    if data.startswith(b"PAR1"):
        return parquet_table(path)
    if is_workbook(data):
        book = read_workbook(data, name)
        table = workbook_table(book.sheets, name, settings)
        notes = []
        if book.percentages:
            notes.append(f"cells shown as percentages, read as fractions (25 % as 0.25): {book.percentages:,}")
        if book.hidden:
            notes.append(f"hidden rows, which are read like others: {book.hidden:,}")
        return table._replace(notes=[*table.notes, *notes], percentages=book.percentages)
    decoded = decode_file(data, name, settings.encoding)
    text, notes = decoded.text, []
    if decoded.is_guessed:
        notes.append("encoding: Windows-1252, as the file is not UTF-8 (otherwise pass --encoding)")
    if kind := next((kind for kind, begin in EXPORTS.items() if begin.match(text[:500])), None):
        raise UserError(name, f"is {kind}", TABLE_FIX)
    start = text.lstrip("\ufeff \t\r\n")[:1]
    if path.suffix.casefold() in (".jsonl", ".ndjson", ".json") or (start in ("{", "[") and is_json(text)):
        columns, rows, more = json_table(path, text)
        return UserTable(columns, rows, f"JSON ({decoded.encoding})", [*notes, *more])
    return csv_table(path, text, decoded.encoding, notes)


def read_bytes(path: Path, max_mb: float) -> bytes:
    """Return the content of a file. Raises UserError for a folder, and for an empty or too large file."""
    try:
        size = path.stat().st_size
        if not path.is_file():
            raise UserError(str(path), "is not a file", "pass a file, not a folder")
        if size > max_mb * MB:
            problem = f"expected at most {max_mb:g} MB, found {size / MB:.3g} MB"
            raise UserError(str(path), problem, f"split the file, or pass --max-mb {-(-size // int(MB))}")
        if not size:
            raise UserError(str(path), "the file is empty", "pass a file with records")
        return path.read_bytes()
    except OSError as error:
        problem = f"cannot be read: {error.strerror or error}"
        raise UserError(str(path), problem, f"correct the path, or save the file as {FORMATS}") from None


def check_distinct(columns: Sequence[str], place: str) -> None:
    """Raise UserError if two columns have the same name."""
    if twice := [column for number, column in enumerate(columns) if column in columns[:number]]:
        raise UserError(place, f"two columns are named {twice[0]}", "rename one of them")


def unused_columns(columns: Iterable[str], rows: Iterable[Row]) -> str:
    """Return the names of columns that are not used, each with its values if it has few, since these may be states."""
    values: dict[str, Counter[str]] = {column: Counter() for column in columns}
    for row in rows:
        for column, counter in values.items():
            if len(counter) <= MOST_STATES and (text := cell_text(row.get(column)).strip()):
                counter[text] += 1
    return ", ".join(
        f"{column} ({', '.join(f'{text}: {number}' for text, number in counter.most_common())})"
        if 1 < len(counter) <= min(MOST_STATES, counter.total() / 2) and max(map(len, counter)) <= LONGEST_STATE
        else column
        for column, counter in values.items()
    )


def preview(records: Iterable[Row]) -> list[str]:
    """Return the first records as they will be used, a line a field."""
    lines = []
    for number, record in enumerate(islice(records, SHOWN_RECORDS), 1):
        lines.append(f"record {number}:")
        for name, value in record.items():
            text = json.dumps(value, ensure_ascii=False)
            lines.append(f"  {name}: {text if len(text) <= LONGEST_VALUE else text[: LONGEST_VALUE - 3] + '...'}")
    return lines


# text tables ----------------------------------------------------------------------------------------------------------


def csv_table(path: Path, text: str, encoding: str, notes: list[str]) -> UserTable:
    """Return the rows of a CSV text with any of the usual separators."""
    check_title(path, text)
    check_unnamed(path, text)
    fix = "quote cells with line breaks, double each quotation mark in a cell, and write as many cells as columns"
    plain = table_without_quoting(text)
    try:
        table = parse_table(text, str(path), fix)
    except UserError as short:
        if plain is not None:
            table = plain
        else:
            table = parse_table(text, str(path), fix, padded=True)
            notes = [*notes, f"rows with fewer cells than columns (first: {short.place}): their last cells are empty"]
    if plain is not None and len(plain.rows) != len(table.rows):
        table = plain
    if table is plain:
        notes = [*notes, "quotation marks: read as signs of the texts, since each line has all cells without them"]
    check_distinct(table.columns, f"{path}:1")
    check_header(table.columns, [row for _, row in table.rows], f"{path}:1")
    rows: list[tuple[str, Row]] = [(f"{path}:{number}", row) for number, row in table.rows]
    return without_headers(UserTable(table.columns, rows, f"CSV ({encoding})", notes))


def check_header(columns: Sequence[str], rows: Sequence[Row], place: str) -> None:
    """Raise UserError if the names of columns look like a record: one of them is a number, as the cells below it are.

    Several numbers that rise or fall from column to column are names, as those of items or years. A table with a name
    of COMMON_NAMES has a header.
    """
    numbers = [column for column in columns if is_number(column)]
    values = [float(column.replace(",", ".")) for column in numbers]
    steps = {first < second for first, second in pairwise(values)}
    if not numbers or len(columns) < 2 or len(steps) == 1 or COMMON_NAMES & {column.casefold() for column in columns}:
        return

    def has_numbers(column: str) -> bool:
        cells = [text for row in rows if (text := cell_text(row.get(column)).strip())]
        return 2 * sum(map(is_number, cells)) > len(cells)

    if any(map(has_numbers, numbers)):
        names = ", ".join(column[:40] for column in columns[:3])
        problem = f"the first row may be a record, not the names of columns: {names}"
        raise UserError(place, problem, "write the names of the columns in a row above it, such as question and answer")


def is_number(text: str) -> bool:
    """Return True for a text that is a plain number, with a decimal point or comma."""
    return PLAIN_NUMBER.fullmatch(text.strip()) is not None


def table_without_quoting(text: str) -> Table | None:
    """Return the table of a text in which quotation marks have no meaning; None unless each line has all cells so."""
    if '"' not in text:
        return None
    lines = [line.removesuffix("\r") for line in text.lstrip("\ufeff\r\n").split("\n")]
    head, *others = [(number, line) for number, line in enumerate(lines, 1) if line.strip()] or [(1, "")]
    delimiter = delimiter_of(head[1])
    columns = [column.strip() for column in head[1].split(delimiter)]
    if '"' in head[1] or len(columns) < 2 or not all(columns):
        return None
    cells = [(number, line.split(delimiter)) for number, line in others]
    if not cells or any(len(row) != len(columns) for _, row in cells):
        return None
    if all(cell.count('"') % 2 == 0 for _, row in cells for cell in row):
        return None  # quoted cells within their lines, which both readings have
    return Table(columns, [(number, dict(zip(columns, row, strict=True))) for number, row in cells])


def without_headers(table: UserTable) -> UserTable:
    """Return a table without rows that repeat its header, as in joined exports, and without a survey's further ones."""
    headers = header_rows(table.columns, [row for _, row in table.rows])
    if not headers:
        return table
    rows = [placed for number, placed in enumerate(table.rows) if number not in headers]
    return table._replace(rows=rows, notes=[*table.notes, f"{REPEATED_HEADERS}, left out: {len(headers):,}"])


def header_rows(columns: Sequence[str], rows: Sequence[Row]) -> set[int]:
    """Return the numbers of the rows, from 0, that repeat a table's header, or that belong to a survey's header.

    In a survey's export, a row of import ids follows rows with the questions.
    """
    names = {name: folded(name) for name in columns}

    def is_header(row: Row) -> bool:
        cells = {name: value.strip() for name, value in row.items() if isinstance(value, str) and value.strip()}
        likely = [name for name, text in cells.items() if len(text) <= 2 * len(name) or IMPORT_ID in text]
        if 2 * len(likely) < max(len(cells), 3) and not any(IMPORT_ID in cells[name] for name in likely):
            return False
        same = sum(names.get(name) == folded(cells[name]) for name in likely)
        surveyed = sum(IMPORT_ID in cells[name] for name in likely)
        return len(cells) > 1 and (2 * same >= max(len(cells), 3) or 2 * surveyed >= len(cells))

    headers = {number for number, row in enumerate(rows) if is_header(row)}
    ids = [
        number for number in headers if number < 3 and any(IMPORT_ID in str(value) for value in rows[number].values())
    ]
    return headers | set(range(max(ids, default=0)))


def folded(text: str) -> str:
    """Return the letters and digits of a text in lower case."""
    return "".join(sign for sign in text.casefold() if sign.isalnum())


def check_title(path: Path, text: str) -> None:
    """Raise UserError for a title above the header, as spreadsheets have it: one cell above rows of several."""
    first, *others = [line for line in text.lstrip("\ufeff").split("\n", 4)[:4] if line.strip()] or [""]
    if len(others) < 2 or first.casefold().startswith("sep="):
        return
    title = first.strip().rstrip(DELIMITERS).strip('"')
    is_one_cell = bool(title) and not any(sign in title for sign in DELIMITERS)
    if is_one_cell and any(others[0].count(sign) == others[1].count(sign) > 0 for sign in DELIMITERS):
        problem = f"line 1 is a title ({title[:40]!r}), not the names of columns"
        raise UserError(f"{path}:1", problem, "delete the lines above the header")


def check_unnamed(path: Path, text: str) -> None:
    """Raise UserError for a column that has values, but no name."""
    first = text.lstrip("\ufeff\r\n").partition("\n")[0]
    delimiter = delimiter_of(first)
    if first.casefold().startswith("sep=") or all(cell.strip() for cell in first.strip().split(delimiter)):
        return
    limit = csv.field_size_limit(LONGEST_CELL)
    try:
        head, *rows = csv.reader(io.StringIO(text.lstrip("\ufeff\r\n"), newline=""), delimiter=delimiter)
    except csv.Error:
        return  # named by the reader of the rows
    finally:
        csv.field_size_limit(limit)
    for place, name in enumerate(head):
        number = sum(place < len(row) and bool(row[place].strip()) for row in rows)
        if not name.strip() and number:
            raise UserError(f"{path}:1", f"column {place + 1} has {number:,} values, but no name", "name or delete it")


# workbooks ------------------------------------------------------------------------------------------------------------


def workbook_table(sheets: Sequence[Sheet], name: str, settings: FileSettings) -> UserTable:
    """Return the rows of a workbook's sheet. Raises UserError if several sheets have a header, and none is named."""
    tables = [sheet for sheet in sheets if len(sheet.rows) > 1]
    names = ", ".join(sheet.name for sheet in sheets) or "none"
    if settings.sheet is not None:
        tables = [sheet for sheet in sheets if sheet.name == settings.sheet]
        if not tables:
            raise UserError(name, f"has no sheet {settings.sheet!r}, only {names}", "pass --sheet with one of them")
    if not tables:
        raise UserError(name, "no sheet has a header and rows", "pass a workbook with one record a row")
    if len(tables) > 1:
        listed = ", ".join(sheet.name for sheet in tables)
        raise UserError(name, f"{len(tables)} sheets have rows: {listed}", "pass --sheet with one of them")
    [sheet] = tables
    (first, head), *rows = sheet.rows
    columns = [cell_text(cell).strip() for cell in head]
    while columns and not columns[-1]:
        columns.pop()
    place = f"{name}, sheet {sheet.name}"
    if len(columns) == 1 and max(len([cell for cell in cells if cell != ""]) for _, cells in rows) > 1:
        problem = f"row {first} is a title ({columns[0][:40]!r}), not the names of columns"
        raise UserError(place, problem, "delete the rows above the header")
    check_distinct([column for column in columns if column], place)
    records: list[tuple[str, Row]] = []
    for number, cells in rows:
        if any(cell_text(cell) for column, cell in zip_longest(columns, cells, fillvalue="") if not column):
            raise UserError(f"{place}, row {number}", "has a cell without a column name", "name its column")
        record = {column: cell for column, cell in zip(columns, cells, strict=False) if column}
        records.append((f"{place}, row {number}", record))
    check_header(columns, [row for _, row in records], f"{place}, row {first}")
    notes = [f"sheet: {sheet.name}"] if len(sheets) > 1 else []
    return without_headers(UserTable([column for column in columns if column], records, "workbook", notes))


def check_exact(table: UserTable, columns: Iterable[str], name: str) -> None:
    """Raise UserError if ids were rounded by a spreadsheet: in scientific notation, or above 2^53 in a workbook."""
    faults = []
    for column in columns:
        values = [row.get(column) for _, row in table.rows]
        is_exact = table.form != "workbook"  # other formats have every digit of a whole number
        rounded = [
            value
            for value in values
            if (is_rounded(value) and not (is_exact and isinstance(value, int)))
            or ROUNDED.fullmatch(cell_text(value).strip())
        ]
        if rounded:
            problem = (
                f"{len(rounded):,} ids in column {column} were rounded by a spreadsheet (as {cell_text(rounded[0])})"
            )
            fix = "export the table again with this column formatted as text"
            faults.append(UserError(name, problem, fix))
    raise_all(faults)


# JSON -----------------------------------------------------------------------------------------------------------------


def no_constant(name: str) -> float:
    """Raise ValueError for NaN and infinity, which are no JSON."""
    raise ValueError(f"found {name}, which is not JSON")


STRICT: dict[str, Any] = {"object_pairs_hook": object_of_unique_keys, "parse_constant": no_constant}


def is_json(text: str) -> bool:
    """Return True if a text without a JSON suffix is a JSON document, or begins with a JSON line."""
    first = text.lstrip("\ufeff \t\r\n").partition("\n")[0]
    return is_json_value(first) or is_json_value(text)


def is_json_value(text: str) -> bool:
    """Return True if a text is a whole JSON value, such as the first line of JSON lines."""
    try:
        json_value(text)
    except ValueError:
        return False
    return True


def json_table(path: Path, text: str) -> tuple[list[str], list[tuple[str, Row]], list[str]]:
    """Return columns and rows of JSON lines, or of a document with a list of records, and notes."""
    lines = [(number, line) for number, line in enumerate(text.lstrip("\ufeff").split("\n"), 1) if line.strip()]
    faults, notes = Faults(path), list[str]()
    document: Any = None
    if len(lines) < 2 or not is_json_value(lines[0][1]):
        if (values := count_json_values(text.encode("utf-8", "replace"))) > MOST_JSON_VALUES:
            problem = f"the file has about {values:,} values, more than {MOST_JSON_VALUES:,}"
            raise UserError(str(path), problem, "split the file, or write one JSON object per line")
        try:
            document = json_value(text.lstrip("\ufeff"), **STRICT)
        except ValueError as error:
            raise UserError(str(path), f"the JSON cannot be parsed: {error}", "correct the file") from None
    records: list[tuple[str, Any]] = []
    if document is not None:
        listed, notes = records_of(document, str(path))
        records = [(f"{path}, record {number}", record) for number, record in enumerate(listed, 1)]
        for place, record in records:
            try:
                storable(record)
            except ValueError as error:
                faults.add(place, f"the record cannot be used: {error}", "correct this text")
    else:
        for number, line in lines:
            try:
                records.append((f"{path}:{number}", storable(json_value(line, **STRICT))))
            except ValueError as error:
                faults.add(f"{path}:{number}", f"the JSON cannot be parsed: {error}", "write one JSON object per line")
    columns: dict[str, None] = {}
    rows: list[tuple[str, Row]] = []
    for place, record in records:
        if isinstance(record, dict):
            rows.append((place, record))
            columns |= dict.fromkeys(map(str, record))
        else:
            problem = f"expected an object, found {type(record).__name__}"
            faults.add(place, problem, "write one JSON object per row")
    faults.check()
    return list(columns), rows, notes


def records_of(document: Any, name: str) -> tuple[list[Any], list[str]]:
    """Return the records of a JSON document, and notes: a list, an object with one list, or one object by id.

    Raises UserError for another document.
    """
    if isinstance(document, list):
        if document and all(isinstance(entry, list) for entry in document):
            return [{"messages": entry} for entry in document], ["records: each list of the document's list"]
        if is_list_of_objects(document) and looks_like_messages(document) and not has_ids(document):
            return [{"messages": document}], ["records: the list is one conversation, since its messages have no ids"]
        return document, []
    if not isinstance(document, dict):
        raise UserError(name, f"expected a list of records, found {type(document).__name__}", "pass a list of objects")
    if (
        document
        and not TURN_KEYS & document.keys()
        and all(is_list_of_objects(value) and looks_like_messages(value) for value in document.values())
    ):
        records = [{"id": key, "messages": value} for key, value in document.items()]
        return records, ["records: the lists of the document's object, by id"]
    lists = [key for key, value in document.items() if is_list_of_objects(value)]
    if len(turns := [key for key in lists if key in KEYS_OF_ONE]) == 1:
        lists = turns
    if len(lists) > 1:
        listed = ", ".join(lists)
        raise UserError(
            name,
            f"the object has several lists of objects: {listed}",
            "keep one of them, as a table with one record a row",
        )
    if lists:
        [key] = lists
        if key in KEYS_OF_ONE or looks_like_messages(document[key]):
            return [document], ["records: the document is one record"]
        return document[key], [f"records: the list {key} of the document"]
    nested = [key for key, value in document.items() if isinstance(value, dict)]
    inner = [key for key in nested if any(is_list_of_objects(value) for value in document[key].values())]
    if len(inner) == 1:
        records, notes = records_of(document[inner[0]], name)
        return records, [f"records: within {inner[0]}", *notes]
    if document and len(nested) == len(document):
        return [{"id": key, **value} for key, value in document.items()], ["records: the document's objects, by id"]
    is_columns = all(isinstance(value, list) for value in document.values())
    if (nested or is_columns) and not TURN_KEYS & document.keys():
        keys = ", ".join(map(str, document))
        raise UserError(name, f"found no list of records in the object with the keys {keys}", "pass a list of objects")
    return [document], ["records: the document is one record"]


def is_list_of_objects(value: Any) -> bool:
    """Return True for a non-empty list of objects."""
    return isinstance(value, list) and bool(value) and all(isinstance(entry, dict) for entry in value)


TURN_KEYS = {"messages", "turns", "conversations", "conversation", "chat_messages", "contents", "history", "data"}
KEYS_OF_ONE = {"messages", "turns", "chat_messages", "contents", "history"}  # of the messages of one conversation
IDS = ("id", "conversation", "conversation_id", "session", "session_id", "dialogue_id", "chat_id", "thread_id", "uuid")
MESSAGE_KEYS = {"role", "speaker", "sender", "from", "author"}
TEXT_KEYS = {"content", "text", "value", "message", "parts", "body"}


def has_ids(records: Sequence[Mapping[str, Any]]) -> bool:
    """Return True if objects have an id, of themselves or of their conversation."""
    return any(str(key).casefold() in IDS for record in records for key in record)


def looks_like_messages(records: Sequence[Mapping[str, Any]]) -> bool:
    """Return True if objects are messages of one conversation: all have a speaker and a text, and none its id."""
    return all(
        (MESSAGE_KEYS & set(record) or record.get("type") in ("human", "ai", "system"))
        and TEXT_KEYS & set(record)
        and not any("conversation" in key or "session" in key for key in record)
        for record in records
    )


# Parquet --------------------------------------------------------------------------------------------------------------


def parquet_table(path: Path) -> UserTable:
    """Return the rows of a Parquet file. Raises UserError for a damaged file."""
    name, fix = str(path), "export the file again"
    file = open_parquet(path, name, fix, MOST_PARQUET_MB)
    records = (record for batch in parquet_batches(path, name, fix, MOST_PARQUET_MB) for record in batch)
    rows: list[tuple[str, Row]] = [(f"{path}, row {number}", record) for number, record in enumerate(records, 1)]
    return UserTable(list(file.schema_arrow.names), rows, "Parquet", [])
