"""A finished run as its own folder tells it."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from maieutic.core.documents import read_yaml
from maieutic.core.errors import UserError
from maieutic.core.records import ReportedScore
from maieutic.plan.checks import check_config
from maieutic.plan.plan import Plan
from maieutic.plan.provenance import Provenance, read_provenance
from maieutic.report.tables import complete_scores

REPORT = Path("results/report")  # of a run without a name


class OpenRun(NamedTuple):
    """folder: the run's own, with its config.yaml; results: the folder of everything that it shares with other runs."""

    plan: Plan
    folder: Path
    results: Path
    provenance: Provenance | None
    scores: dict[str, list[ReportedScore]]

    def headlines(self, tutor: str) -> list[ReportedScore]:
        """A tutor's headline scores, read by robust, in the order of benchmarks and tasks."""
        return [
            score
            for own in self.scores.values()
            for score in own
            if score.tutor == tutor and score.headline and score.scoring == "robust"
        ]


def results_of(folder: Path) -> Path:
    """The results that a run's own folder (results/report, results/runs/NAME) belongs to."""
    return folder.parent.parent if folder.parent.name == "runs" else folder.parent


def open_run(folder: Path) -> OpenRun:
    """The run of a folder. Raises UserError where no run has written it, or nothing of it is scored."""
    config = folder / "config.yaml"
    if not config.is_file():
        raise UserError(str(config), "no run has written it", "name a run's own folder: maieutic runs lists them")
    plan = Plan(check_config(read_yaml(config, "run it again: a run writes it anew")))
    results = results_of(folder)
    provenance = read_provenance(folder / "provenance.json")
    scores = complete_scores(plan, results, provenance)
    if not scores:
        raise UserError(str(results / "scores"), "nothing of this run is scored", "run it to its end first")
    return OpenRun(plan, folder, results, provenance, scores)
