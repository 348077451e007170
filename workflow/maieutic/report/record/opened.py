"""A finished run as its own folder tells it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from maieutic.core import paths
from maieutic.core.documents import read_yaml
from maieutic.core.errors import UserError
from maieutic.core.records import ReportedScore
from maieutic.plan.provenance import Provenance, read_provenance
from maieutic.plan.rules import RulePlan, unchecked
from maieutic.report.record.received import unpacked
from maieutic.report.tables import breakdown_scores, complete_scores, score_table

REPORT = Path(paths.PAGE.of(run="report")).parent  # the own folder of a run without a name
# What a row of a table of scores is of; and how far its value may be from the one in the results, as it is rounded.
OF = ["benchmark", "task", "tutor", "metric", "criterion", "subset", "release", "by", "scoring"]
ROUNDED = 1e-6
MEASURED = ["value", "low", "high", "n"]


class OpenRun(NamedTuple):
    """folder: the run's own, with its config.yaml; results: the folder of everything that it shares with other runs."""

    plan: RulePlan
    folder: Path
    results: Path
    provenance: Provenance | None
    scores: dict[str, list[ReportedScore]]

    def own(self, pattern: paths.Pattern) -> Path:
        """A file of the run's own folder."""
        return own_file(self.folder, pattern)

    def headlines(self, tutor: str) -> list[ReportedScore]:
        """A tutor's headline scores, read by robust, in the order of benchmarks and tasks."""
        return [
            score
            for own in self.scores.values()
            for score in own
            if score.tutor == tutor and score.headline and score.scoring == "robust"
        ]


def run_folder(folder: Path) -> Path:
    """The own folder of the one run that a crate holds."""
    found = [path.parent for page in paths.PAGES for path in (folder / paths.ROOT).glob(f"{page}/config.yaml")]
    if len(found) != 1:
        raise UserError(str(folder), f"expected the folder of one run, found {len(found)}", "share it again")
    return found[0]


@contextmanager
def received_run(place: Path) -> Iterator[Path]:
    """Give the own folder of a run: by folder or name, of a folder that `maieutic share` wrote, or of its archive."""
    named = Path(paths.PAGE.of(run=f"runs/{place}")).parent if len(place.parts) == 1 and not place.exists() else place
    if (named / Path(paths.CONFIG).name).is_file():
        yield named
        return
    if place.is_dir():  # also a whole checkout, with whatever else lies there
        yield run_folder(place)
        return
    with unpacked(place) as folder:
        yield run_folder(folder)


def own_file(folder: Path, pattern: paths.Pattern) -> Path:
    """A file of a run's own folder, wherever that lies."""
    return folder / Path(pattern).name


def results_of(folder: Path) -> Path:
    """The results that a run's own folder (results/report, results/runs/NAME) belongs to."""
    return folder.parent.parent if folder.parent.name == "runs" else folder.parent


def plan_of_run(folder: Path) -> RulePlan:
    """The plan of a run's own folder. Files that only its making needed may be elsewhere by now."""
    config = own_file(folder, paths.CONFIG)
    if not config.is_file():
        raise UserError(str(config), "no run has written it", "name a run's own folder: maieutic runs lists them")
    return unchecked(read_yaml(config, "run it again: a run writes it anew"))


def open_run(folder: Path) -> OpenRun:
    """The run of a folder.

    Raises UserError where no run has written it, where nothing of it is scored, and where a later run has put other
    scores into the results that both share.
    """
    plan = plan_of_run(folder)
    results = results_of(folder)
    provenance = read_provenance(own_file(folder, paths.PROVENANCE))
    scores = complete_scores(plan, results, provenance)
    if not scores:
        raise UserError(str(results), "nothing of this run is scored there", "run it to its end first")
    run = OpenRun(plan, folder, results, provenance, scores)
    if changed := changed_scores(run):
        raise UserError(
            str(folder),
            f"its tables and the scores in {results} are no longer the same, since a later run wrote others: {changed}",
            "run it again: replies are on file, and nothing is asked twice",
        )
    return run


def changed_scores(run: OpenRun) -> str | None:
    """How the run's own table of scores differs from the results; None where both are the same."""
    path = run.own(paths.SCORE_TABLE)
    if not path.is_file():
        return f"{path.name} is not there"
    kept = pd.read_csv(
        path, dtype=dict.fromkeys(OF, str), keep_default_na=False, na_values={name: [""] for name in MEASURED}
    )
    by_tag = breakdown_scores(run.plan, run.results)
    now = score_table(run.plan, {name: [*own, *by_tag.get(name, [])] for name, own in run.scores.items()})
    before, after = values_of(kept), values_of(now.fillna(dict.fromkeys(OF, "")))
    if before.keys() != after.keys():
        return f"{len(before.keys() ^ after.keys())} of its numbers are only in one of both"
    other = [key for key in before if differing(before[key], after[key])]
    if not other:
        return None
    first = other[0]
    named = "/".join(part for part in first if part)
    [column, *_] = differing(before[first], after[first])
    was, now_is = before[first][column], after[first][column]
    return f"{len(other)} of {len(before)} differ, {named} has {column} {now_is:g} and had {was:g}"


def differing(one: Mapping[str, float], other: Mapping[str, float]) -> list[str]:
    """Return the columns in which two rows differ by more than they are rounded."""
    return [name for name in MEASURED if abs(one[name] - other[name]) > ROUNDED]


def values_of(table: pd.DataFrame) -> dict[tuple[str, ...], dict[str, float]]:
    """Return value, bounds and n of each row of a table of scores, by what it is of; -1 for what is missing."""
    keys = table[OF].fillna("").astype(str).itertuples(index=False, name=None)
    numbers = table[MEASURED].astype(float).fillna(-1.0).itertuples(index=False, name=None)
    return {key: dict(zip(MEASURED, row, strict=True)) for key, row in zip(keys, numbers, strict=True)}
