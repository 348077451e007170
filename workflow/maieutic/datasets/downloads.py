"""Downloads over HTTP that resume after an interruption, and joining of Parquet files into one file."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from maieutic.core.errors import UserError, with_run_files

if TYPE_CHECKING:  # each start of Snakemake imports this module, but only the rules that download need these libraries
    import requests

log = logging.getLogger(__name__)
BLOCK = 1 << 16
TRIES = 5
CONNECT_SECONDS = 20.0
READ_SECONDS = 60.0
REPORT_BYTES = 32 << 20


def join_parquet(files: Sequence[Path], out: Path) -> None:
    """Join Parquet files with the same schema, one row group at a time. Raises UserError if a file cannot be read."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not files:
        raise UserError(str(out), "found no Parquet files to join", "correct hub.files in the registry")
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
        fix = "download the files again"
        raise UserError(place, f"cannot be read as Parquet: {str(error).splitlines()[0][:200]}", fix) from None


def download_file(url: str, part: Path, read_seconds: float, headers: Mapping[str, str] | None = None) -> None:
    """Download a file to `part`, resuming an earlier attempt. Raises UserError if the download cannot be completed.

    read_seconds: time without data after which an attempt fails; headers: headers of every request. A redirect to
    another host drops the authorisation header.
    """
    import requests

    problem, failures = "", 0
    while failures < TRIES:
        if failures:
            time.sleep(min(2.0**failures / 4, 10.0))
        before = size_on_disk(part)
        try:
            if attempt_download(url, part, read_seconds, headers or {}):
                return
            problem = "the connection ended early"
        except requests.HTTPError as error:
            status = error.response.status_code
            if status < 500 and status != 429:
                fix = "correct the address, or set data_dir to a folder that contains the file"
                raise UserError(url, f"the server answers with status {status}", fix) from None
            problem = f"the server answers with status {status}"
        except (requests.ConnectionError, requests.Timeout) as error:
            problem = f"{type(error).__name__}"
        # An attempt that adds bytes restarts the count of failures, so that a poor connection can complete the file.
        failures = failures + 1 if size_on_disk(part) <= before else 1
        log.warning("%s: download interrupted after %d bytes: %s", url, size_on_disk(part), problem)
    command = with_run_files("snakemake --cores 1 fetch")
    raise UserError(
        url,
        f"the download made no progress in {TRIES} tries ({problem}); {size_on_disk(part)} bytes are kept",
        f"run `{command}` on a machine with network access to resume, or set data_dir to a folder with the file",
    )


def size_on_disk(part: Path) -> int:
    """Return the size of a file in bytes, 0 if it does not exist."""
    return part.stat().st_size if part.exists() else 0


def attempt_download(url: str, part: Path, read_seconds: float, more: Mapping[str, str]) -> bool:
    """Make one download attempt. Returns True if the file has the length that the server announced.

    more: additional headers of the request.
    """
    import requests
    import urllib3

    have = size_on_disk(part)
    # Request an uncompressed body: a byte range of a compressed one could not be appended to the part file.
    headers = {**more, "Accept-Encoding": "identity", **({"Range": f"bytes={have}-"} if have else {})}
    with requests.get(url, headers=headers, stream=True, timeout=(CONNECT_SECONDS, read_seconds)) as answer:
        if answer.status_code == requests.codes.requested_range_not_satisfiable:
            part.unlink(missing_ok=True)
            return attempt_download(url, part, read_seconds, more) if have else False
        answer.raise_for_status()
        resumed = answer.status_code == requests.codes.partial_content and resumes_at(answer, have)
        length = answer.headers.get("Content-Length")
        total = int(length) + (have if resumed else 0) if length else None
        written, reported = (have if resumed else 0), 0
        with open(part, "ab" if resumed else "wb") as handle:
            try:
                # Write bytes as they arrive: if only full blocks were written, a partly received one would be lost.
                while block := answer.raw.read1(BLOCK, decode_content=False):
                    handle.write(block)
                    written += len(block)
                    if written - reported >= REPORT_BYTES:
                        log.info("%s: %.0f MB%s", url, written / 1e6, f" of {total / 1e6:.0f}" if total else "")
                        reported = written
            except urllib3.exceptions.HTTPError:
                return False
    return total is None or written == total


def resumes_at(answer: requests.Response, have: int) -> bool:
    """Return True if a partial answer begins at byte `have`, where the part file ends."""
    return answer.headers.get("Content-Range", "").startswith(f"bytes {have}-")
