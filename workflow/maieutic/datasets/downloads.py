"""Downloads over HTTP that go on where an earlier try stopped, and Parquet files joined into one."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import requests
import urllib3

from maieutic.core.errors import UserError
from maieutic.core.run_files import of_run

log = logging.getLogger(__name__)
BLOCK = 1 << 16
TRIES = 5
CONNECT_SECONDS = 20.0
READ_SECONDS = 60.0
REPORT_BYTES = 32 << 20


def join_parquet(files: Sequence[Path], out: Path) -> None:
    """Several Parquet files of one schema as one, a row group at a time. Raises UserError for one that is none."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not files:
        raise UserError(str(out), "the commit holds no such file", "mend hub.files in the registry")
    try:
        with out.open("wb") as handle:
            schema = pq.read_schema(files[0])
            with pq.ParquetWriter(handle, schema) as writer:
                for path in files:
                    parquet = pq.ParquetFile(path)
                    for group in range(parquet.num_row_groups):
                        writer.write_table(parquet.read_row_group(group).cast(schema))
    except (pa.ArrowException, ValueError, OSError) as error:
        out.unlink(missing_ok=True)
        place = ", ".join(path.name for path in files)
        raise UserError(place, f"not Parquet: {str(error).splitlines()[0][:200]}", "fetch the files anew") from None


def download(url: str, part: Path, read_seconds: float, headers: Mapping[str, str] | None = None) -> None:
    """Download to `part`, going on where an earlier try stopped. Raises UserError when it cannot be finished.

    headers: of every request beside its own; a redirect to another host leaves a key behind.
    """
    problem, failures = "", 0
    while failures < TRIES:
        if failures:
            time.sleep(min(2.0**failures / 4, 10.0))
        before = size_of(part)
        try:
            if transfer(url, part, read_seconds, headers or {}):
                return
            problem = "the connection ended early"
        except requests.HTTPError as error:
            status = error.response.status_code
            if status < 500 and status != 429:
                raise UserError(url, f"the server answers {status}", "check the address, or set data_dir") from None
            problem = f"the server answers {status}"
        except (requests.ConnectionError, requests.Timeout) as error:
            problem = f"{type(error).__name__}"
        # A line that breaks again and again still gets there, as long as every try brings something.
        failures = failures + 1 if size_of(part) <= before else 1
        log.warning("%s: %s at %d bytes", url, problem, size_of(part))
    again = of_run("snakemake --cores 1 fetch")
    raise UserError(
        url,
        f"no progress in {TRIES} tries ({problem}); {size_of(part)} bytes are kept",
        f"run again where there is a network ({again}) to go on from there, or set data_dir",
    )


def size_of(part: Path) -> int:
    """Bytes on file, 0 where there is no file."""
    return part.stat().st_size if part.exists() else 0


def transfer(url: str, part: Path, read_seconds: float, more: Mapping[str, str]) -> bool:
    """One try. Returns whether the file is whole by the server's own length."""
    have = size_of(part)
    # Identity: a byte range of a compressed body could not be joined to what is there.
    headers = {**more, "Accept-Encoding": "identity", **({"Range": f"bytes={have}-"} if have else {})}
    with requests.get(url, headers=headers, stream=True, timeout=(CONNECT_SECONDS, read_seconds)) as answer:
        if answer.status_code == requests.codes.requested_range_not_satisfiable:
            part.unlink(missing_ok=True)
            return transfer(url, part, read_seconds, more) if have else False
        answer.raise_for_status()
        resumed = answer.status_code == requests.codes.partial_content and starts_at(answer, have)
        length = answer.headers.get("Content-Length")
        total = int(length) + (have if resumed else 0) if length else None
        written, reported = (have if resumed else 0), 0
        with open(part, "ab" if resumed else "wb") as handle:
            try:
                # What has arrived, not full blocks: a block that the connection cuts short would be lost.
                while block := answer.raw.read1(BLOCK, decode_content=False):
                    handle.write(block)
                    written += len(block)
                    if written - reported >= REPORT_BYTES:
                        log.info("%s: %.0f MB%s", url, written / 1e6, f" of {total / 1e6:.0f}" if total else "")
                        reported = written
            except urllib3.exceptions.HTTPError:
                return False
    return total is None or written == total


def starts_at(answer: requests.Response, have: int) -> bool:
    """Whether a partial answer begins where the part file ends."""
    return answer.headers.get("Content-Range", "").startswith(f"bytes {have}-")
