"""Reading of source files, whose records are checked against the registry."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

from maieutic.config.cards import card_folders
from maieutic.config.datasets import Dataset, DatasetFile, Edition, FileFormat, SourceRecord
from maieutic.config.limits import DEFAULT_LIMITS, Limits
from maieutic.core.errors import UserError
from maieutic.core.files import MB, sha256_of
from maieutic.core.jobs import Job
from maieutic.core.parquet import open_parquet, parquet_batches
from maieutic.core.tables import decode_table, parse_table

LONGEST_NUMBER = 40  # maximum number of characters of a number in a message
DOWNLOAD_FIX = "download the file again: it is truncated or damaged"
USER_FILE_FIX = "correct this line, or export the file again"
RAISE_DEPTH = "raise limits.source_depth (at most 500) if this nesting is intended; otherwise correct the file"
SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


class TooDeep(ValueError):
    """Error for a value that is nested more deeply than the limit."""


def fix_of(error: ValueError, fix: str) -> str:
    """Return the fix for a parsing error: `fix`, or how to allow more nesting if values are nested too deeply."""
    return RAISE_DEPTH if isinstance(error, TooDeep) else fix


class FetchJob(Job):
    """Base class of jobs that fetch one edition of a dataset.

    data_dir: folder with published files, or None to download them.
    """

    name: str
    dataset: Dataset
    edition: Edition
    data_dir: Path | None = None
    limits: Limits = DEFAULT_LIMITS


def read_source(
    path: Path, form: str, name: str | None = None, limits: Limits = DEFAULT_LIMITS, user_file: bool = False
) -> list[SourceRecord]:
    """Read a source file. Raises UserError with the line or offset of the first part that is not a record.

    form: format of the file; name: name of the file in messages (default: its path); user_file: True for a user's own
    file, which may be encoded in Windows-1252 and cannot be downloaded again.
    """
    name, fix = name or str(path), USER_FILE_FIX if user_file else DOWNLOAD_FIX
    if (size := path.stat().st_size) > limits.source_mb * MB:
        problem = f"the file has {size / MB:,.0f} MB, more than limits.source_mb ({limits.source_mb:g})"
        raise UserError(name, problem, "raise limits.source_mb if this is the right file")
    if form == "parquet":
        return read_parquet(path, name, fix, limits)
    # Unlike `read_text`, `decode_table` keeps \r\n in cells.
    text = decode_table(path.read_bytes(), name, strict=not user_file, fix=fix)
    if form == "csv":
        return [dict(row) for _, row in parse_table(text, name, fix).rows]
    if form == "jsonl":
        return [
            parse_record(line, f"{name}:{number}", fix, limits.source_depth)
            for number, line in enumerate(text.split("\n"), 1)
            if line.strip()
        ]
    try:
        records = parse_source_json(text, limits.source_depth + 1)
    except ValueError as error:
        raise UserError(name, f"expected a JSON list, but parsing failed: {error}", fix_of(error, fix)) from None
    if not isinstance(records, list):
        raise UserError(name, f"expected a JSON list, found {type(records).__name__}", fix)
    return records


def read_parquet(path: Path, name: str, fix: str, limits: Limits) -> list[SourceRecord]:
    """Return the rows of a Parquet file without its binary and struct columns, which contain pictures.

    name: name of the file in messages; fix: fix in messages; limits: its `source_mb` limits the size of the values.
    """
    import pyarrow as pa

    schema = open_parquet(path, name, fix, limits.source_mb).schema_arrow
    plain = [field.name for field in schema if not (pa.types.is_struct(field.type) or is_binary(field.type))]
    return [row for rows in parquet_batches(path, name, fix, limits.source_mb, plain) for row in rows]


def is_binary(kind: Any) -> bool:
    """Return True if a column of this type contains bytes."""
    import pyarrow as pa

    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def finite_number(text: str) -> float:
    """Parse a number in JSON. Raises ValueError if it is not a finite float."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"the number {text[:LONGEST_NUMBER]} is beyond the range of a float")
    return number


def parse_source_json(text: str, depth: int) -> Any:
    """Parse JSON. Lone surrogates, which UTF-8 cannot encode, are replaced by question marks.

    Raises ValueError if the text is not JSON, is nested more than `depth` levels deep, or contains an infinite number.
    """
    try:
        content = json.loads(text, parse_float=finite_number, parse_constant=finite_number)
    except RecursionError:
        raise TooDeep(f"values are nested more than {depth} levels deep") from None
    brackets = text.count("[") + text.count("{")
    return without_surrogates(content, depth) if brackets > depth or SURROGATE.search(text) else content


def without_surrogates(content: Any, depth: int) -> Any:
    """Replace lone surrogates in a JSON value by question marks. Raises ValueError if it has over `depth` levels."""
    if isinstance(content, str):
        return content.encode("utf-8", "replace").decode("utf-8")
    if not isinstance(content, dict | list):
        return content
    if depth == 0:
        raise TooDeep("values are nested more deeply than limits.source_depth")
    if isinstance(content, list):
        return [without_surrogates(value, depth - 1) for value in content]
    return {without_surrogates(key, 1): without_surrogates(value, depth - 1) for key, value in content.items()}


def parse_record(line: str, place: str, fix: str, depth: int) -> SourceRecord:
    """Parse one line as a record. Raises UserError if the line is not JSON or is nested more than `depth` levels deep.

    place: place of the line in messages; fix: fix in messages.
    """
    try:
        return parse_source_json(line, depth)
    except ValueError as error:
        raise UserError(place, f"expected a JSON record, but parsing failed: {error}", fix_of(error, fix)) from None


def read_checked_source(
    path: Path,
    dataset: Dataset,
    copy: DatasetFile,
    name: str,
    form: FileFormat | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> list[SourceRecord]:
    """Read a file, and check it against the registry: SHA-256, number of records, and fields of every record.

    copy: registry entry of the file; name: name of the file in messages; form: format of the file, if it differs from
    the dataset's format. Raises UserError for the first difference.
    """
    digest = sha256_of(path)
    user_file = copy.url is None and copy.hub is None
    fetch = USER_FILE_FIX if user_file else "download the pinned file again"
    # Read the records before the checksum is checked: a parsing error describes a damaged file more precisely.
    records = read_source(path, form or dataset.format, name, limits, user_file)
    if len(records) != copy.records:
        fix = f"set records: {len(records)}, if this is the right file" if user_file else "download the file again"
        raise UserError(name, f"expected {copy.records} records, found {len(records)}", fix)
    for number, record in enumerate(records):
        if not isinstance(record, dict):
            raise UserError(f"{name}, record {number}", f"expected a mapping, found {type(record).__name__}", fetch)
        if missing := [field for field in dataset.fields if field not in record]:
            noun, verb = ("field", "is") if len(missing) == 1 else ("fields", "are")
            problem = f"{noun} {', '.join(missing)} {verb} missing"
            raise UserError(f"{name}, record {number}", problem, fetch)
    if copy.sha256 is not None and digest != copy.sha256:
        fix = (
            f"set sha256: {digest}, if this is the right file"
            if user_file
            else f"{fetch}, since its content has changed"
        )
        raise UserError(name, f"expected sha256 {copy.sha256}, found {digest}", fix)
    return records


def local_copy(copy: DatasetFile, edition: Edition, data_dir: Path | None, demo_dir: Path) -> Path | None:
    """Return the path of an edition's file on this machine, or None if the file has to be downloaded.

    Demo files are in `demo_dir`, published files in `data_dir`. A user's own file, which has no address, may also be at
    its path relative to the working directory.
    """
    folder = demo_folder(demo_dir, copy.path) if edition == "demo" else data_dir
    user_file = copy.url is None and copy.hub is None
    places = [*([folder / copy.path] if folder is not None else []), *([Path(copy.path)] if user_file else [])]
    return next((place for place in places if place.is_file()), None)


def demo_folder(shared: Path, path: str) -> Path:
    """Return the folder that contains a demo file: the shared demo folder, or the demo folder of a benchmark.

    path: path of the file in that folder.
    """
    folders = [
        folder for cards in card_folders() for folder in sorted(cards.glob("*/demo")) if (folder / path).exists()
    ]
    return folders[0] if folders and not (shared / path).exists() else shared
