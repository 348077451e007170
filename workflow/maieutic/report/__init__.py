"""The report of a run: one page, with the items of a large run beside it, and the same numbers as CSV and Parquet."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from maieutic.core.documents import read_yaml
from maieutic.core.errors import UserError
from maieutic.core.files import whole_file, write_json

if TYPE_CHECKING:
    from maieutic.plan.plan import Plan
    from maieutic.plan.provenance import Provenance

PARTIAL = "partial"


def build_report(
    config: Path, results: Path, out: Path, missing_ok: bool = False, provenance: Path | None = None
) -> None:
    """Write the page, its tables and problems.json into the folder `out`.

    The tables: scores.csv and scores.parquet, differences.csv, trust.csv, runtime.csv; tables/ holds those of the page,
    figures/ its pictures, items/ the items that are too many to be in it.

    With missing_ok a tutor whose job failed is marked as absent; without it, that is an error. A part of the page that
    cannot be made is a box with its error there, and a line of problems.json. A complete report removes the partial one
    that an earlier failure left in `out`/partial.
    """
    from maieutic.plan.checks import check_config
    from maieutic.plan.plan import Plan
    from maieutic.plan.provenance import read_provenance

    made_of = read_provenance(provenance) if provenance else None
    write_report(Plan(check_config(read_yaml(config))), made_of, results, out, missing_ok)


def write_report(plan: Plan, made_of: Provenance | None, results: Path, out: Path, missing_ok: bool = False) -> None:
    """Write the report of a plan, as `build_report` does. made_of: the record of the run's code, cards and data."""
    from maieutic.core.paths import ITEM_DATA
    from maieutic.report.contrasts import contrasts, difference_table
    from maieutic.report.exports import FIGURE_FOLDER, FOLDER, write_figures, write_tables
    from maieutic.report.page import render_page
    from maieutic.report.sections import Run
    from maieutic.report.tables import (
        breakdown_scores,
        complete_scores,
        runtime_table,
        score_table,
        trust_table,
    )

    scores = complete_scores(plan, results, made_of)
    tutors = {score.tutor for own_scores in scores.values() for score in own_scores}
    if not missing_ok and (absent := [name for name in plan.tutors if name not in tutors]):
        raise UserError(str(results), f"no scores of {', '.join(absent)}", "run again, or give --missing-ok")
    by_tag = breakdown_scores(plan, results)
    found = contrasts(plan, results)
    table = score_table(plan, {name: [*own_scores, *by_tag.get(name, [])] for name, own_scores in scores.items()})
    runtime = runtime_table(plan, results)
    with whole_file(out / "scores.csv") as handle:
        table.to_csv(handle, index=False)
    with whole_file(out / "scores.parquet", "wb") as handle:
        table.to_parquet(handle, index=False)
    with whole_file(out / "runtime.csv") as handle:
        runtime.to_csv(handle, index=False)
    with whole_file(out / "differences.csv") as handle:
        difference_table(found).to_csv(handle, index=False)
    with whole_file(out / "trust.csv") as handle:
        trust_table(plan, results).to_csv(handle, index=False)
    made = render_page(Run(plan, results, scores, made_of), runtime, found, by_tag, out / Path(ITEM_DATA).name)
    with whole_file(out / "index.html") as handle:
        handle.write(made.html)
    write_tables(made.tables, out / FOLDER)
    write_figures(made.figures, out / FIGURE_FOLDER)
    write_json(out / "problems.json", [problem._asdict() for problem in made.problems])
    if not missing_ok:
        shutil.rmtree(out / PARTIAL, ignore_errors=True)


def check_report(problems: Path, out: Path) -> None:
    """Write `out` for a whole page. Raises UserError naming the parts that could not be made."""
    failures = json.loads(problems.read_text(encoding="utf-8"))
    if failures:
        summary = "; ".join(f"{failure['part']} ({failure['error']})" for failure in failures)
        raise UserError(
            str(problems.parent / "index.html"),
            f"{len(failures)} part{'' if len(failures) == 1 else 's'} could not be made: {summary}",
            "the other parts and the tables are whole; see results/logs/build_report.log, and report it",
        )
    write_json(out, {"parts": "all made"})
