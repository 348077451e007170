"""Access to a finished run through its own folder: plan, provenance and scores."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from maieutic.core import paths
from maieutic.core.errors import UserError
from maieutic.core.extensions import MANIFEST, require_active
from maieutic.core.records import ReportedScore
from maieutic.core.yaml_files import read_yaml
from maieutic.plan.provenance import Provenance, read_provenance
from maieutic.plan.rules import RulePlan
from maieutic.record.received import unpack_run
from maieutic.report.tables import breakdown_scores, complete_scores, score_table
from maieutic.run_plan import unchecked_plan
from maieutic.serving.batches import NO_NAME

DEFAULT_RUN = Path(paths.PAGE.of(run="report")).parent  # own folder of a run without a name
# ROW_COLUMNS identify a row of a score table. Numbers that differ by at most ROUNDING_TOLERANCE count as equal.
ROW_COLUMNS = ["benchmark", "task", "tutor", "metric", "criterion", "subset", "release", "by", "scoring"]
ROUNDING_TOLERANCE = 1e-6
NUMBER_COLUMNS = ["value", "low", "high", "n"]


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
    with unpack_run(place) as folder:
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
    kept = pd.read_csv(
        path,
        dtype=dict.fromkeys(ROW_COLUMNS, str),
        keep_default_na=False,
        na_values={name: [""] for name in NUMBER_COLUMNS},
    )
    by_tag = breakdown_scores(run.plan, run.results)
    current = score_table(run.plan, {name: [*scores, *by_tag.get(name, [])] for name, scores in run.scores.items()})
    before, after = numbers_by_row(kept), numbers_by_row(current.fillna(dict.fromkeys(ROW_COLUMNS, "")))
    if before.keys() != after.keys():
        return f"{len(before.keys() ^ after.keys())} rows are in only one of the two tables"
    changed = [key for key in before if differing_columns(before[key], after[key])]
    if not changed:
        return None
    first = changed[0]
    name = "/".join(part for part in first if part)
    [column, *_] = differing_columns(before[first], after[first])
    was, now_is = before[first][column], after[first][column]
    return f"{len(changed)} of {len(before)} rows differ; in {name}, {column} was {was:g} and is now {now_is:g}"


def differing_columns(first: Mapping[str, float], second: Mapping[str, float]) -> list[str]:
    """Return the names of the columns in which two rows differ by more than ROUNDING_TOLERANCE."""
    return [name for name in NUMBER_COLUMNS if abs(first[name] - second[name]) > ROUNDING_TOLERANCE]


def numbers_by_row(table: pd.DataFrame) -> dict[tuple[str, ...], dict[str, float]]:
    """Return the numbers in each row of a score table, by the row's ROW_COLUMNS. An empty cell becomes -1."""
    keys = table[ROW_COLUMNS].fillna("").astype(str).itertuples(index=False, name=None)
    numbers = table[NUMBER_COLUMNS].astype(float).fillna(-1.0).itertuples(index=False, name=None)
    return {key: dict(zip(NUMBER_COLUMNS, row, strict=True)) for key, row in zip(keys, numbers, strict=True)}
