"""Bring a dataset's file into the results folder: from its pinned address, or from files that are already there."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path

from maieutic.config.datasets import Copy, Hub
from maieutic.core.errors import UserError
from maieutic.datasets.downloads import READ_SECONDS, download, join_parquet
from maieutic.datasets.hub import fetch_parquet
from maieutic.datasets.sources import FetchJob, check_source, local_copy

log = logging.getLogger(__name__)


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
        shown = from_hub(name, copy, copy.hub, data_dir, part, read_seconds)
    elif (source := local_copy(copy, edition, data_dir, demo_dir)) is not None:
        shutil.copyfile(source, part)
        shown = str(source)
    elif copy.url is not None and edition == "published":
        if data_dir is not None:
            log.info("%s is not in data_dir (%s): fetched from %s", copy.path, data_dir, copy.url)
        download(copy.url, part, read_seconds)
        shown = copy.url
    else:
        place = f"datasets.{name}.{edition}"
        where = demo_dir if edition == "demo" else data_dir
        found = f"no {copy.path} in {where or 'data_dir, which is null,'}, nor below {Path.cwd()}"
        raise UserError(
            place, f"{found}, and no address is known", "mend path, or set data_dir to a folder that has it"
        )
    try:
        check_source(part, dataset, copy, shown, dataset.form_of(edition), job.limits)
    except UserError:
        part.unlink()  # whole but wrong: a later try must not continue it
        raise
    part.replace(out)
    log.info("%s: %d records, as the registry says", shown, copy.records)


def from_hub(name: str, copy: Copy, hub: Hub, data_dir: Path | None, part: Path, read_seconds: float) -> str:
    """Write the Parquet files of a commit, or those that lie in data_dir, as one; return what to call them."""
    files = sorted(data_dir.glob(copy.path)) if data_dir is not None else []
    if data_dir is not None and not files:
        log.info("%s is not in data_dir (%s): fetched from %s", copy.path, data_dir, hub.repo)
    if files:
        log.warning("%s: checked for fields and number of records only, not against %s", data_dir, hub.revision)
        join_parquet(files, part)
        return f"{data_dir}/{copy.path}"
    folder = part.with_suffix(".hub")
    place = f"datasets.{name}.published"
    fetch_parquet(hub.repo, str(hub.revision), hub.files, folder, part, place, read_seconds)
    shutil.rmtree(folder)
    return f"{hub.repo}@{hub.revision}"
