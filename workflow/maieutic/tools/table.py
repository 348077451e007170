"""`maieutic table`: show how a user's file is read, and write it as JSON lines that every step reads alike."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from maieutic.core.decimals import DecimalSign, Sign, decimal_sign, doubt_of, plain_number
from maieutic.core.errors import UserError
from maieutic.core.files import atomic_file, sha256_of
from maieutic.core.terminal import say
from maieutic.core.user_tables import FileSettings, UserTable, check_exact, read_user_table
from maieutic.core.workbooks import cell_text

ID_COLUMNS = ("id", "item_id", "problem_id", "question_id", "conversation", "conversation_id", "annotator")
SHOWN_RECORDS, LONGEST_VALUE = 2, 100


def table(
    file: Annotated[Path, Parameter(help="table, workbook, JSON or Parquet file with one record a row")],
    *,
    out: Annotated[Path | None, Parameter(help="file to write, as JSON lines (default: only print)")] = None,
    encoding: Annotated[str | None, Parameter(help="encoding of a text file that is not UTF-8")] = None,
    sheet: Annotated[str | None, Parameter(help="sheet of a workbook")] = None,
    decimal: Annotated[Literal[".", ","] | None, Parameter(help="decimal sign of the file's numbers")] = None,
    columns: Annotated[list[str] | None, Parameter(help="columns to rename, as NEW=OLD")] = None,
    force: Annotated[bool, Parameter(help="replace the file that is written")] = False,
) -> None:
    """Print how a file of problems, replies, labels or preferences is read, and write it as JSON lines (UTF-8).

    Cells of a text table stay texts, but numbers get a decimal point. Raises UserError for everything in doubt, with
    the flag that settles it; nothing is written then.
    """
    content = renamed(read_user_table(file, FileSettings(encoding, sheet)), columns or [])
    check_exact(content, [name for name in content.columns if name.casefold() in ID_COLUMNS], str(file))
    signs = signs_of(content)
    if decimal is None and (doubt := doubt_of(signs)):
        raise UserError(str(file), doubt, "pass --decimal with the decimal sign, . or ,")
    known = next((column.sign for column in signs if column.sign), None)
    sign = decimal or known
    numeric = {column.column for column in signs} if sign is not None else set[str]()
    records = [plain_record(row, sign or ".", numeric) for _, row in content.rows]
    say(f"file: {content.form}, {len(records):,} rows")
    for line in content.notes:
        say(line)
    say(f"columns: {', '.join(content.columns)}")
    if sign is not None:
        say(f"decimal sign: {sign} (columns {', '.join(sorted(numeric)) or 'none'})")
    for number, record in enumerate(records[:SHOWN_RECORDS], 1):
        say(f"record {number}:")
        for name, value in record.items():
            say(f"  {name}: {json.dumps(value, ensure_ascii=False)[:LONGEST_VALUE]}")
    if out is None:
        return
    if out.exists() and (not force or out.samefile(file)):
        raise UserError("--out", f"{out} already exists", "pass another --out, or --force")
    with atomic_file(out) as handle:
        handle.writelines(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
    say(f"Wrote {out}. As the file of a data set (`format: jsonl`):")
    say(f"  path: {out}\n  sha256: {sha256_of(out)}\n  records: {len(records)}")


def renamed(content: UserTable, columns: list[str]) -> UserTable:
    """Return a table with renamed columns. Raises UserError for a column that it lacks."""
    names = dict[str, str]()
    for word in columns:
        new, _, old = word.partition("=")
        if old not in content.columns:
            raise UserError(
                "--columns", f"expected NEW=OLD with a column, found {word}", f"use {', '.join(content.columns)}"
            )
        names[old] = new
    if not names:
        return content
    rows = [(place, {names.get(name, name): value for name, value in row.items()}) for place, row in content.rows]
    return content._replace(columns=[names.get(name, name) for name in content.columns], rows=list(rows))


def signs_of(content: UserTable) -> list[DecimalSign]:
    """Return the decimal signs of a table's columns of numbers that are written as texts."""
    signs = []
    for name in (name for name in content.columns if name.casefold() not in ID_COLUMNS):
        texts = [value for _, row in content.rows if isinstance(value := row.get(name), str)]
        if (sign := decimal_sign(name, texts)) is not None:
            signs.append(sign)
    return signs


def plain_record(row: Mapping[str, Any], sign: Sign, numeric: Collection[str]) -> dict[str, Any]:
    """Return a record for JSON. numeric: columns whose texts are numbers with the decimal sign `sign`."""
    record: dict[str, Any] = {}
    for name, value in row.items():
        if isinstance(value, str):
            record[name] = plain_number(value, sign) if name in numeric else value
        elif isinstance(value, bool | int | list | dict) or value is None:
            record[name] = value
        elif isinstance(value, float):
            record[name] = int(value) if value.is_integer() else value
        else:
            record[name] = cell_text(value)
    return record
