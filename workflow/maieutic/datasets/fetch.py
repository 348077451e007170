"""Bring a dataset's file into the results folder: from its pinned address, or from files that are already there."""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

import requests
import urllib3

from maieutic.config.datasets import Copy, Hub
from maieutic.core.errors import UserError
from maieutic.datasets.sources import FetchJob, check_source, demo_folder

log = logging.getLogger(__name__)
BLOCK = 1 << 16
TRIES = 5
CONNECT_SECONDS = 20.0
READ_SECONDS = 60.0
REPORT_BYTES = 32 << 20


class FetchDataset(FetchJob):
    """The file of one edition of a dataset."""


def fetch_dataset(*, job: FetchDataset, demo_dir: Path, out: Path, read_seconds: float = READ_SECONDS) -> None:
    """Write the verified bytes of one dataset to `out`.

    `out` appears only after checksum, count and fields were found right. An interrupted download leaves a hidden
    `.part` file that the next try continues.

    demo_dir: the folder of the demo's files; read_seconds: how long a download may stand still.
    """
    name, dataset, edition, data_dir = job.name, job.dataset, job.edition, job.data_dir
    copy = dataset.copy_of(name, edition)
    out.parent.mkdir(parents=True, exist_ok=True)
    pin = copy.sha256 or str(copy.hub.revision if copy.hub else None)
    part = out.with_name(f".{out.name}.{pin[:12]}.part")
    if copy.hub and edition == "published":
        shown = from_hub(copy, copy.hub, data_dir, part)
    elif edition == "demo" or data_dir is not None:
        folder = demo_folder(demo_dir, copy.path) if edition == "demo" else Path(str(data_dir))
        source = folder / copy.path
        if not source.is_file():
            raise UserError(str(source), "the file is not there", "mend data_dir, or set it to null to download")
        shutil.copyfile(source, part)
        shown = str(source)
    else:
        if copy.url is None:
            raise UserError(
                f"datasets.{name}.published.url", "no address is known", "set data_dir to a folder that has it"
            )
        download(copy.url, part, read_seconds)
        shown = copy.url
    try:
        check_source(part, dataset, copy, shown, dataset.form_of(edition))
    except UserError:
        part.unlink()  # whole but wrong: a later try must not continue it
        raise
    part.replace(out)
    log.info("%s: %d records, as the registry says", shown, copy.records)


def from_hub(copy: Copy, hub: Hub, data_dir: Path | None, part: Path) -> str:
    """Write the Parquet files of a commit, or those that lie in data_dir, as one; return what to call them."""
    if data_dir is not None:
        files = sorted(data_dir.glob(copy.path))
        if not files:
            raise UserError(f"{data_dir}/{copy.path}", "no such file", "mend data_dir, or set it to null to download")
        log.warning("%s: checked for fields and number of records only, not against %s", data_dir, hub.revision)
        join_parquet(files, part)
        return f"{data_dir}/{copy.path}"
    from maieutic.serving.weights import download_snapshot

    folder = part.with_suffix(".hub")
    download_snapshot(hub.repo, str(hub.revision), folder, [hub.files], kind="dataset")
    join_parquet(sorted(folder.glob(hub.files)), part)
    shutil.rmtree(folder)
    return f"{hub.repo}@{hub.revision}"


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


def download(url: str, part: Path, read_seconds: float) -> None:
    """Download to `part`, going on where an earlier try stopped. Raises UserError when it cannot be finished."""
    problem, failures = "", 0
    while failures < TRIES:
        if failures:
            time.sleep(min(2.0**failures / 4, 10.0))
        before = size_of(part)
        try:
            if transfer(url, part, read_seconds):
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
    raise UserError(
        url,
        f"no progress in {TRIES} tries ({problem}); {size_of(part)} bytes are kept",
        "run again where there is a network (snakemake --cores 1 fetch) to go on from there, or set data_dir",
    )


def size_of(part: Path) -> int:
    """Bytes on file, 0 where there is no file."""
    return part.stat().st_size if part.exists() else 0


def transfer(url: str, part: Path, read_seconds: float) -> bool:
    """One try. Returns whether the file is whole by the server's own length."""
    have = size_of(part)
    # Identity: a byte range of a compressed body could not be joined to what is there.
    headers = {"Accept-Encoding": "identity", **({"Range": f"bytes={have}-"} if have else {})}
    with requests.get(url, headers=headers, stream=True, timeout=(CONNECT_SECONDS, read_seconds)) as answer:
        if answer.status_code == requests.codes.requested_range_not_satisfiable:
            part.unlink(missing_ok=True)
            return transfer(url, part, read_seconds) if have else False
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
