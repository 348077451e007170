"""Job that fetches a dataset's file into the results folder, from its pinned address or a local copy."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path

from maieutic.config.datasets import DatasetFile, Hub
from maieutic.core.errors import UserError
from maieutic.datasets.downloads import READ_SECONDS, download_file, join_parquet
from maieutic.datasets.hub import fetch_parquet
from maieutic.datasets.sources import FetchJob, local_copy, read_checked_source

log = logging.getLogger(__name__)


class FetchDataset(FetchJob):
    """Job that fetches the file of one edition of a dataset."""


def fetch_dataset(*, job: FetchDataset, demo_dir: Path, out: Path, read_seconds: float = READ_SECONDS) -> None:
    """Fetch the file of one dataset, verify it, and write it to `out`.

    `out` appears only after its checksum, number of records and fields are verified. An interrupted download leaves a
    hidden `.part` file, which the next attempt continues.

    demo_dir: folder of the demo's files; read_seconds: time without data after which a download attempt fails.
    """
    name, dataset, edition, data_dir = job.name, job.dataset, job.edition, job.data_dir
    copy = dataset.file_of(name, edition)
    out.parent.mkdir(parents=True, exist_ok=True)
    pin = copy.sha256 or str(copy.hub.revision if copy.hub else None)
    part = out.with_name(f".{out.name}.{pin[:12]}.part")
    if copy.hub and edition == "published":
        origin = copy_from_hub(name, copy, copy.hub, data_dir, part, read_seconds)
    elif (source := local_copy(copy, edition, data_dir, demo_dir)) is not None:
        shutil.copyfile(source, part)
        origin = str(source)
    elif copy.url is not None and edition == "published":
        if data_dir is not None:
            log.info("%s is not in data_dir (%s): downloading it from %s", copy.path, data_dir, copy.url)
        download_file(copy.url, part, read_seconds)
        origin = copy.url
    else:
        place = f"datasets.{name}.{edition}"
        where = demo_dir if edition == "demo" else data_dir
        problem = f"found no {copy.path} in {where or 'data_dir, which is null,'} or below {Path.cwd()}"
        fix = "correct the dataset's path, or set data_dir to a folder that contains the file"
        raise UserError(place, f"{problem}, and the registry has no address", fix)
    try:
        read_checked_source(part, dataset, copy, origin, dataset.format_of(edition), job.limits)
    except UserError:
        part.unlink()  # the file is complete but wrong, so a later attempt must not resume it
        raise
    part.replace(out)
    log.info("%s: found %d records, the number in the registry", origin, copy.records)


def copy_from_hub(
    name: str, copy: DatasetFile, hub: Hub, data_dir: Path | None, part: Path, read_seconds: float
) -> str:
    """Join the dataset's Parquet files in `data_dir`, or else those of the hub's commit, into the file `part`.

    Returns the origin of the files, for messages.
    """
    files = sorted(data_dir.glob(copy.path)) if data_dir is not None else []
    if data_dir is not None and not files:
        log.info("%s is not in data_dir (%s): downloading it from %s", copy.path, data_dir, hub.repo)
    if files:
        log.warning(
            "%s: only the fields and the number of records are checked, not that the files are from commit %s",
            data_dir,
            hub.revision,
        )
        join_parquet(files, part)
        return f"{data_dir}/{copy.path}"
    folder = part.with_suffix(".hub")
    place = f"datasets.{name}.published"
    fetch_parquet(hub.repo, str(hub.revision), hub.files, folder, part, place, read_seconds)
    shutil.rmtree(folder)
    return f"{hub.repo}@{hub.revision}"
