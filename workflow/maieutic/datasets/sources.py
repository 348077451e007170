"""Reading a source file into checked records."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

from maieutic.config.cards import CARDS
from maieutic.config.datasets import Copy, Dataset, Edition, Form, Source
from maieutic.config.limits import USUAL, Limits
from maieutic.core.errors import UserError
from maieutic.core.files import MB, sha256_of
from maieutic.core.jobs import Job
from maieutic.core.tables import decoded, table_of

LONGEST_NUMBER = 40  # characters of one that is shown
FETCH_ANEW = "fetch the file anew: it is truncated or damaged"
MEND_OWN = "mend this line, or export the file anew"
SURROGATE = re.compile(r"\\u[dD][89abAB]")


class FetchJob(Job):
    """One edition of one dataset of the registry. data_dir: a folder with the published files, None: download them."""

    name: str
    dataset: Dataset
    edition: Edition
    data_dir: Path | None = None
    limits: Limits = USUAL


def read_source(
    path: Path, form: str, shown: str | None = None, limits: Limits = USUAL, own: bool = False
) -> list[Source]:
    """Read a source file. Raises UserError with the line or offset of the first thing that is not a record.

    own: the file is no published one: it may be Windows-1252, and cannot be fetched anew.
    """
    shown, mend = shown or str(path), MEND_OWN if own else FETCH_ANEW
    if (size := path.stat().st_size) > limits.source_mb * MB:
        problem = f"{size / MB:,.0f} MB, more than limits.source_mb, {limits.source_mb:g}"
        raise UserError(shown, problem, "raise it, if this is the file that you mean")
    if form == "parquet":
        return read_parquet(path, shown, mend)
    text = decoded(path.read_bytes(), shown, strict=not own, mend=mend)  # line ends inside a cell stay as they are
    if form == "csv":
        return [dict(row) for _, row in table_of(text, shown, mend).rows]
    if form == "jsonl":
        return [
            record_of(line, f"{shown}:{number}", mend, limits.source_depth)
            for number, line in enumerate(text.split("\n"), 1)
            if line.strip()
        ]
    try:
        records = parsed(text, limits.source_depth + 1)
    except ValueError as error:
        raise UserError(shown, f"expected a JSON list, found {error}", mend) from None
    if not isinstance(records, list):
        raise UserError(shown, f"expected a JSON list, found {type(records).__name__}", mend)
    return records


def read_parquet(path: Path, shown: str, mend: str) -> list[Source]:
    """The rows, without columns of bytes: pictures are read apart."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        schema = pq.read_schema(path)
        plain = [field.name for field in schema if not (pa.types.is_struct(field.type) or is_binary(field.type))]
        return pq.read_table(path, columns=plain).to_pylist()
    except (pa.ArrowException, OSError) as error:
        raise UserError(shown, f"not Parquet: {str(error).splitlines()[0][:200]}", mend) from None


def is_binary(kind: Any) -> bool:
    """Whether a column of this type holds bytes."""
    import pyarrow as pa

    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def finite(text: str) -> float:
    """A number of JSON. Raises ValueError for one that no float holds."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"the number {text[:LONGEST_NUMBER]}, which is beyond any float")
    return number


def parsed(text: str, depth: int) -> Any:
    """What a text of JSON says; lone surrogates, which no file can hold, are replacement characters.

    Raises ValueError for what is no JSON, is nested more than `depth` deep, or holds a number that no float holds.
    """
    try:
        content = json.loads(text, parse_float=finite, parse_constant=finite)
    except RecursionError:
        raise ValueError(f"what is nested more than {depth} deep (limits.source_depth)") from None
    brackets = text.count("[") + text.count("{")
    return sound(content, depth) if brackets > depth or SURROGATE.search(text) else content


def sound(content: Any, depth: int) -> Any:
    """The content with replacement characters for lone surrogates. Raises ValueError where it is nested too deeply."""
    if isinstance(content, str):
        return content.encode("utf-8", "replace").decode("utf-8")
    if not isinstance(content, dict | list):
        return content
    if depth == 0:
        raise ValueError("what is nested too deeply (limits.source_depth)")
    if isinstance(content, list):
        return [sound(value, depth - 1) for value in content]
    return {sound(key, 1): sound(value, depth - 1) for key, value in content.items()}


def record_of(line: str, place: str, mend: str, depth: int) -> Source:
    """One line's record."""
    try:
        return parsed(line, depth)
    except ValueError as error:
        raise UserError(place, f"expected a JSON record, found {error}", mend) from None


def check_source(
    path: Path, dataset: Dataset, copy: Copy, shown: str, form: Form | None = None, limits: Limits = USUAL
) -> list[Source]:
    """Check a file against its registry entry: SHA-256, number of records, fields of every record."""
    digest = sha256_of(path)
    own = copy.url is None and copy.hub is None
    fetch = MEND_OWN if own else "fetch the pinned file anew"
    # A damaged file says more about itself than its checksum does: read it first.
    records = read_source(path, form or dataset.format, shown, limits, own)
    if len(records) != copy.records:
        mend = f"set records: {len(records)}, if this is the file that you mean" if own else "fetch the file anew"
        raise UserError(shown, f"expected {copy.records} records, found {len(records)}", mend)
    for number, record in enumerate(records):
        if not isinstance(record, dict):
            raise UserError(f"{shown}, record {number}", f"expected a mapping, found {type(record).__name__}", fetch)
        if missing := [field for field in dataset.fields if field not in record]:
            raise UserError(f"{shown}, record {number}", f"field {', '.join(missing)} is missing", fetch)
    if copy.sha256 is not None and digest != copy.sha256:
        mend = f"set sha256: {digest}, if this is the file that you mean" if own else f"{fetch}; it was altered"
        raise UserError(shown, f"expected sha256 {copy.sha256}, found {digest}", mend)
    return records


def local_copy(copy: Copy, edition: Edition, data_dir: Path | None, demo_dir: Path) -> Path | None:
    """Return where the file of an edition lies on this machine, or None where it has to be fetched.

    The demo's lie in `demo_dir`, published ones in `data_dir`. A file of one's own, without an address, may also lie at
    its path from the folder that the run works in.
    """
    folder = demo_folder(demo_dir, copy.path) if edition == "demo" else data_dir
    own = copy.url is None and copy.hub is None
    places = [*([folder / copy.path] if folder is not None else []), *([Path(copy.path)] if own else [])]
    return next((place for place in places if place.is_file()), None)


def demo_folder(shared: Path, path: str) -> Path:
    """The folder below which a file of the demo lies: the shared one, or that of a benchmark which brings its own."""
    own = [folder for folder in sorted(CARDS.glob("*/demo")) if (folder / path).exists()]
    return own[0] if own and not (shared / path).exists() else shared
