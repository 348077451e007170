"""`maieutic table`: show how a user's file is read, and write it as JSON lines that every step reads alike."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from maieutic.core.decimals import OTHER, Sign, decimal_sign, doubt_of, plain_number
from maieutic.core.errors import UserError
from maieutic.core.files import atomic_file, sha256_of
from maieutic.core.terminal import say
from maieutic.core.user_tables import LONGEST_VALUE, FileSettings, UserTable, check_exact, preview, read_user_table
from maieutic.core.workbooks import cell_text

ID_COLUMNS = ("id", "item_id", "problem_id", "question_id", "conversation", "conversation_id", "annotator")
ANSWER = "answer"  # column of a problem's gold answer, whose numbers get a decimal point
MOST_EXAMPLES = 3


def table(
    file: Annotated[Path, Parameter(help="table, workbook, JSON or Parquet file with one record a row")],
    *,
    out: Annotated[Path | None, Parameter(help="file to write, as JSON lines (default: only print)")] = None,
    encoding: Annotated[str | None, Parameter(help="encoding of a text file that is not UTF-8")] = None,
    sheet: Annotated[str | None, Parameter(help="sheet of a workbook")] = None,
    decimal: Annotated[Literal[".", ","] | None, Parameter(help="decimal sign of the numbers")] = None,
    numbers: Annotated[
        list[str] | None, Parameter(help="columns whose numbers get a decimal point (default: answer)")
    ] = None,
    columns: Annotated[list[str] | None, Parameter(help="columns to rename, as NEW=OLD")] = None,
    force: Annotated[bool, Parameter(help="replace the file that is written")] = False,
) -> None:
    """Print how a file of problems, replies, labels or preferences is read, and write it as JSON lines (UTF-8).

    Texts stay as they are, but numbers in the column `answer` get a decimal point. Raises UserError for everything in
    doubt, with the flag that settles it; nothing is written then.
    """
    content = renamed(read_user_table(file, FileSettings(encoding, sheet)), columns or [])
    check_exact(content, [name for name in content.columns if name.casefold() in ID_COLUMNS], str(file))
    check_ids(content, str(file))
    if absent := [name for name in numbers or [] if name not in content.columns]:
        raise UserError("--numbers", f"{file} has no column {absent[0]}", f"use {', '.join(content.columns)}")
    records: list[dict[str, Any]] = [
        {name: plain_value(value) for name, value in row.items()} for _, row in content.rows
    ]
    chosen = numbers if numbers is not None else [name for name in content.columns if name.casefold() == ANSWER]
    check_no_dates(content, chosen, str(file))
    lines = with_decimal_points(records, chosen, decimal, str(file))
    if not chosen:
        lines.append("no column answer: numbers stay as they are (--columns answer=OLD, or --numbers)")
    for line in (f"file: {content.form}, {len(records):,} rows", *content.notes):
        say(line)
    for line in (f"columns: {', '.join(content.columns)}", *lines, *preview(records)):
        say(line)
    if out is None:
        return
    if out.exists() and (not force or out.samefile(file)):
        raise UserError("--out", f"{out} already exists", "pass another --out, or --force")
    with atomic_file(out) as handle:
        handle.writelines(json.dumps(record, ensure_ascii=False, allow_nan=False) + "\n" for record in records)
    say(f"Wrote {out}. As the file of a data set (`format: jsonl`):")
    say(f"  path: {out}\n  sha256: {sha256_of(out)}\n  records: {len(records)}")


def renamed(content: UserTable, columns: Sequence[str]) -> UserTable:
    """Return a table with renamed columns. Raises UserError for a column that it lacks."""
    names = dict[str, str]()
    for word in columns:
        new, _, old = word.partition("=")
        if old not in content.columns:
            known = ", ".join(content.columns)
            raise UserError("--columns", f"expected NEW=OLD with a column, found {word}", f"use {known}")
        names[old] = new
    if not names:
        return content
    rows = [(place, {names.get(name, name): value for name, value in row.items()}) for place, row in content.rows]
    return content._replace(columns=[names.get(name, name) for name in content.columns], rows=list(rows))


def check_ids(content: UserTable, name: str) -> None:
    """Raise UserError if some cells of a column of ids are empty, as merged cells of a spreadsheet are."""
    for column in (name for name in content.columns if name.casefold() in ID_COLUMNS):
        blank = [place for place, row in content.rows if not cell_text(row.get(column)).strip()]
        if 0 < len(blank) < len(content.rows):
            rows = f"{len(blank):,} rows have no {column} (first: {blank[0]})"
            problem = f"{rows}, and merged cells have it in their first row only"
            raise UserError(name, problem, "write it in each row")


def check_no_dates(content: UserTable, columns: Sequence[str], name: str) -> None:
    """Raise UserError for dates among numbers, which a spreadsheet makes of fractions such as 1/2."""
    for column in columns:
        dates = [value for _, row in content.rows if isinstance(value := row.get(column), date)]
        if dates:
            problem = f"{len(dates):,} cells of column {column} are dates, such as {cell_text(dates[0])}"
            raise UserError(name, problem, "write these cells as text, for example '1/2 for a fraction")


def plain_value(value: Any) -> Any:
    """Return a cell as a value of JSON."""
    if isinstance(value, float):
        if value != value:  # NaN: how Parquet marks an empty cell in a column of numbers
            return None
        return int(value) if value.is_integer() else value
    return value if value is None or isinstance(value, bool | int | str | list | dict) else cell_text(value)


def with_decimal_points(
    records: Sequence[dict[str, Any]], columns: Sequence[str], decimal: Sign | None, name: str
) -> list[str]:
    """Give the numbers in some columns a decimal point, and return lines on what was understood.

    decimal: the user's choice. Raises UserError for numbers in doubt. name: name of the file in messages.
    """
    texts = {
        column: [value for record in records if isinstance(value := record.get(column), str)] for column in columns
    }
    decided = [decimal_sign(column, texts[column]) for column in columns]
    signs = [entry for entry in decided if entry is not None]
    if decimal is None and (doubt := doubt_of(signs)):
        raise UserError(name, *doubt)
    lines = []
    for column in columns:
        known = next((entry.sign for entry in signs if entry.column == column), None)
        sign: Sign = decimal or known or "."
        wrong = [text for text in texts[column] if plain_number(text, sign) is None and plain_number(text, OTHER[sign])]
        if wrong:
            examples = " and ".join(dict.fromkeys(wrong[:MOST_EXAMPLES]))
            problem = f"{len(wrong):,} numbers in column {column} do not have the decimal sign {sign!r}: {examples}"
            raise UserError(name, problem, "write all of its numbers in one notation")
        for record in records:
            if isinstance(value := record.get(column), str):
                record[column] = plain_number(value, sign) or value
        others = [text for text in texts[column] if text.strip() and plain_number(text, sign) is None]
        lines += [f"decimal sign: {sign} (column {column})"] if known or decimal else []
        if others:
            examples = ", ".join(repr(text[:LONGEST_VALUE]) for text in dict.fromkeys(others[:MOST_EXAMPLES]))
            lines.append(f"cells of column {column} that are no number, kept as they are: {len(others):,} ({examples})")
    return lines
