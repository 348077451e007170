"""Reader of Parquet files of unknown origin, in bounded memory: a file of a kilobyte may hold gigabytes of values.

Bounds are checked on the file's own metadata first, and then while it is read in batches, since metadata may be wrong
and a dictionary stores a long text once for all of its rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from maieutic.core.errors import UserError
from maieutic.core.files import MB
from maieutic.core.tables import LONGEST_CELL

MOST_VALUES = 20_000_000  # maximum number of values in a file, those of lists included
MOST_TEXT_MB = 1024.0  # maximum size of all texts of a file in MB, as they are once they are unpacked
ROWS_IN_BATCH = 1024


def open_parquet(path: Path, name: str, fix: str, most_mb: float) -> Any:
    """Return an opened Parquet file (pyarrow.parquet.ParquetFile) whose metadata are within bounds.

    name: name of the file in messages; fix: fix in messages; most_mb: maximum size of its values in MB. Raises
    UserError for a damaged file, and for one that is too large.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        schema = pq.read_schema(path)
        texts = [
            field.name for field in schema if pa.types.is_string(field.type) or pa.types.is_large_string(field.type)
        ]
        file = pq.ParquetFile(path, read_dictionary=texts)
    except (pa.ArrowException, OSError) as error:
        raise UserError(name, f"cannot be read as Parquet: {first_line(error)}", fix) from None
    groups = [file.metadata.row_group(number) for number in range(file.metadata.num_row_groups)]
    columns = [group.column(number) for group in groups for number in range(group.num_columns)]
    values = max(sum(column.num_values for column in columns), file.metadata.num_rows)
    if values > MOST_VALUES:
        raise UserError(name, f"the file has {values:,} values, more than {MOST_VALUES:,}", "split the file")
    if (size := sum(column.total_uncompressed_size for column in columns)) > most_mb * MB:
        raise UserError(
            name, f"the file has {size / MB:,.0f} MB of values, more than {most_mb:,.0f} MB", "split the file"
        )
    return file


def parquet_batches(
    path: Path, name: str, fix: str, most_mb: float, columns: Sequence[str] | None = None
) -> Iterator[list[dict[str, Any]]]:
    """Yield the rows of a Parquet file in batches. columns: columns to read (default: all).

    Other arguments and errors: as for `open_parquet`.
    """
    import pyarrow as pa

    file, size, most_mb = open_parquet(path, name, fix, most_mb), 0, min(most_mb, MOST_TEXT_MB)
    try:
        for batch in file.iter_batches(ROWS_IN_BATCH, columns=columns):
            longest, added = text_sizes(batch.columns)
            size += added
            if longest > LONGEST_CELL or size > most_mb * MB:
                amount = (
                    f"a cell of {longest / MB:,.0f} MB" if longest > LONGEST_CELL else f"more than {most_mb:,.0f} MB"
                )
                raise UserError(name, f"the file has {amount} of text", "shorten the texts, or split the file")
            yield batch.to_pylist()
    except (pa.ArrowException, OSError, UnicodeDecodeError, MemoryError) as error:
        raise UserError(name, f"cannot be read as Parquet: {first_line(error)}", fix) from None


def text_sizes(columns: Sequence[Any]) -> tuple[int, int]:
    """Return the bytes of the longest text in arrow columns, and of all of them, as they are once they are unpacked."""
    import pyarrow as pa
    import pyarrow.compute as pc

    longest = total = 0
    for column in columns:
        if pa.types.is_dictionary(column.type):
            lengths = pc.take(pc.binary_length(column.dictionary), column.indices)
        elif pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            lengths = pc.binary_length(column)
        else:
            continue
        longest, total = max(longest, pc.max(lengths).as_py() or 0), total + (pc.sum(lengths).as_py() or 0)
    return longest, total


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, or the name of its type."""
    return (str(error).splitlines() or [type(error).__name__])[0][:200]
