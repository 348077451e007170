"""Access to a finished run through its own folder: plan, provenance and scores."""

from __future__ import annotations

import io
import logging
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from maieutic.core import paths
from maieutic.core.errors import UserError
from maieutic.core.extensions import MANIFEST, require_active
from maieutic.core.files import remove
from maieutic.core.records import ReportedScore
from maieutic.core.yaml_files import read_yaml
from maieutic.plan.provenance import Provenance, read_provenance
from maieutic.plan.rules import RulePlan
from maieutic.record.contents import crate_files
from maieutic.record.file_comparison import table_difference
from maieutic.record.received import unpack_run
from maieutic.report.tables import breakdown_scores, complete_scores, score_table
from maieutic.run_plan import unchecked_plan
from maieutic.serving.batches import NO_NAME

log = logging.getLogger(__name__)
APPENDED = {"journal", "logs"}  # folders with files to which later runs append
DEFAULT_RUN = Path(paths.PAGE.of(run="report")).parent  # own folder of a run without a name
# Columns in which a run's own table of scores is compared with the scores in its results folder
COMPARED_COLUMNS = [
    "benchmark", "task", "tutor", "metric", "criterion", "subset", "release", "by", "scoring", "value", "low",
    "high", "n",
]  # fmt: skip


class FinishedRun(NamedTuple):
    """A finished run.

    folder: the run's own folder, which contains config.yaml; results: folder with the files that the run keeps, or else
    the results folder, which several runs may share; scores: all scores by benchmark.
    """

    plan: RulePlan
    folder: Path
    results: Path
    provenance: Provenance | None
    scores: dict[str, list[ReportedScore]]

    def path_of(self, pattern: paths.Pattern) -> Path:
        """Return the path of a file in the run's own folder."""
        return own_file(self.folder, pattern)

    def headlines(self, tutor: str) -> list[ReportedScore]:
        """Return a tutor's headline scores under the `robust` scoring, in the order of benchmarks and tasks."""
        return [
            score
            for benchmark_scores in self.scores.values()
            for score in benchmark_scores
            if score.tutor == tutor and score.headline and score.scoring == "robust"
        ]


def single_run_folder(folder: Path) -> Path:
    """Return the own folder of the only run in a crate. Raises UserError if the crate does not have exactly one run."""
    folders = [
        path.parent for page in paths.REPORT_FOLDERS for path in (folder / paths.ROOT).glob(f"{page}/config.yaml")
    ]
    if len(folders) != 1:
        raise UserError(
            str(folder),
            f"expected the folder of one run, found {len(folders)} runs",
            "pass a run's own folder (maieutic runs lists them), or share the run again",
        )
    return folders[0]


def named_run_folder(place: Path) -> Path:
    """Return the own folder of a run of the working folder. place: this folder, or the run's name."""
    if str(place) == NO_NAME:
        return DEFAULT_RUN
    named = Path(paths.PAGE.of(run=f"runs/{place}")).parent
    by_name = len(place.parts) == 1 and (own_file(named, paths.CONFIG).is_file() or not place.exists())
    return named if by_name else place


@contextmanager
def run_folder_at(place: Path) -> Iterator[Path]:
    """Yield the own folder of a run. place: this folder, the run's name, or an output of `maieutic share`."""
    own_folder = named_run_folder(place)
    if (own_folder / Path(paths.CONFIG).name).is_file():
        yield own_folder
        return
    if place.is_dir():  # a shared folder, or a checkout with one run in its results folder
        yield single_run_folder(place)
        return
    with unpack_run(place) as (folder, _):
        yield single_run_folder(folder)


def own_file(folder: Path, pattern: paths.Pattern) -> Path:
    """Return the path of a file in a run's own folder."""
    return folder / Path(pattern).name


def results_folder_of(folder: Path) -> Path:
    """Return the results folder that contains a run's own folder (results/report or results/runs/NAME)."""
    return folder.parent.parent if folder.parent.name == "runs" else folder.parent


def kept_files(folder: Path) -> Path | None:
    """Return the folder with the files that a run keeps from the shared results; None for one of an earlier version.

    A received folder is never trusted to have one, because its manifest lists the files in their usual places.
    """
    kept = own_file(folder, paths.KEPT)
    is_received = any((parent / MANIFEST).is_file() for parent in folder.absolute().parents)
    return kept if not is_received and kept.is_dir() and any(kept.iterdir()) else None


def plan_of_run(folder: Path) -> RulePlan:
    """Return the plan of a run from its own folder. Files that are needed only to execute the run may be absent.

    Raises UserError if the folder contains no configuration.
    """
    config = own_file(folder, paths.CONFIG)
    if not config.is_file():
        raise UserError(
            str(config),
            "expected a run's configuration, found no file",
            "pass a run's own folder (maieutic runs lists them)",
        )
    raw = read_yaml(config, "run the workflow again, which rewrites the file")
    require_active(raw.get("extensions") or [])
    raw.get("report", {}).pop("margin", None)  # a key that earlier versions wrote, of a check that left
    return unchecked_plan(raw)


def load_finished_run(folder: Path) -> FinishedRun:
    """Return the finished run whose own folder is `folder`.

    Raises UserError if `folder` is not a run's own folder, if the run has no scores, or if a later run in the same
    results folder has replaced scores of this run.
    """
    plan = plan_of_run(folder)
    results = kept_files(folder) or results_folder_of(folder)
    provenance = read_provenance(own_file(folder, paths.PROVENANCE))
    scores = complete_scores(plan, results, provenance)
    if not scores:
        raise UserError(str(results), "expected scores of this run, found none", "run the workflow to its end first")
    run = FinishedRun(plan, folder, results, provenance, scores)
    if changed := changed_scores(run):
        raise UserError(
            str(folder),
            f"the run's tables no longer match the scores in {results}, which a later run replaced: {changed}",
            "run the workflow of this run again, which repeats no finished request; to keep it beside other runs of "
            "this folder, share it first: maieutic share --out run.zip",
        )
    return run


def changed_scores(run: FinishedRun) -> str | None:
    """Describe how the scores in the run's own folder differ from those in the results folder; None if they agree."""
    path = run.path_of(paths.SCORE_TABLE)
    if not path.is_file():
        return f"{path.name} not found"
    by_tag = breakdown_scores(run.plan, run.results)
    current = score_table(run.plan, {name: [*scores, *by_tag.get(name, [])] for name, scores in run.scores.items()})
    tables = (path, io.StringIO(current.to_csv(index=False)))
    kept, now = (pd.read_csv(table, dtype=str, keep_default_na=False)[COMPARED_COLUMNS] for table in tables)
    return table_difference(*([COMPARED_COLUMNS, *sorted(table.values.tolist())] for table in (kept, now)))


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
