"""Files of a finished run that its exports need, kept in the run's own folder, since another run may replace them."""

from __future__ import annotations

import logging
import os
import shutil
from pathlib import Path

from maieutic.core import paths
from maieutic.core.errors import UserError
from maieutic.core.files import remove
from maieutic.record.contents import crate_files
from maieutic.record.finished_run import plan_of_run

log = logging.getLogger(__name__)
APPENDED = {"journal", "logs"}  # folders with files to which later runs append


def keep_run(*, config: Path, results: Path, out: Path) -> None:
    """Keep the results files of a run in the folder `out`, which has the layout of a results folder.

    Files are hard links where possible, since no job changes a finished file. Those to which later runs append are
    copies.

    config: configuration in the run's own folder; results: results folder.
    """
    remove(out)
    out.mkdir(parents=True)
    own_folder = config.parent
    try:
        files = crate_files(plan_of_run(own_folder), results, journals=False)
    except UserError as error:  # a run without scores has nothing to export
        log.warning("nothing is kept: %s", error.line)
        return
    for name, place in files.items():
        if not name.startswith(f"{paths.ROOT}/") or place.is_relative_to(own_folder):
            continue
        target = out / name.removeprefix(f"{paths.ROOT}/")
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.relative_to(out).parts[0] in APPENDED or not is_linked(place, target):
            shutil.copy2(place, target)


def is_linked(place: Path, target: Path) -> bool:
    """Link `target` to the file `place`. Returns False if the file system does not allow it."""
    try:
        os.link(place.resolve(), target)
    except OSError:
        return False
    return True
