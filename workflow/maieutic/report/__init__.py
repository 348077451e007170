"""The report of a run: one HTML page, files for items too large to embed in it, and all numbers as CSV and Parquet."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from maieutic.core.errors import UserError, raise_all
from maieutic.core.files import atomic_file, write_json
from maieutic.core.yaml_files import read_yaml

if TYPE_CHECKING:
    from maieutic.plan.plan import Plan
    from maieutic.plan.provenance import Provenance

COMMANDS = {"Report": ("report:build_report", "report:check_report")}
PARTIAL_REPORT_FOLDER = "partial"


def build_report(
    config: Path, results: Path, out: Path, missing_ok: bool = False, provenance: Path | None = None
) -> None:
    """Write the page, its tables and problems.json (failed parts, too many failed requests) into the folder `out`.

    The tables are scores.csv, scores.parquet, differences.csv, trust.csv and runtime.csv. ranking.json holds the ranks
    of the tutors. The folder tables/ contains the tables that the page shows, figures/ its pictures, and items/ the
    items that are too large to embed in the page.

    missing_ok: mark a tutor whose job failed as absent, instead of raising UserError. If a part of the page cannot be
    made, a box with the error takes its place, and the error is recorded in problems.json. A complete report deletes
    `out`/partial, the partial report of an earlier failed run.
    """
    from maieutic.config.settings import read_config
    from maieutic.plan.plan import Plan
    from maieutic.plan.provenance import read_provenance

    record = read_provenance(provenance) if provenance else None
    write_report(Plan(read_config(read_yaml(config))), record, results, out, missing_ok)


def write_report(plan: Plan, record: Provenance | None, results: Path, out: Path, missing_ok: bool = False) -> None:
    """Write the report of a plan, like `build_report`. record: provenance of the run's code, cards and data."""
    from maieutic.core.paths import ITEM_DATA
    from maieutic.replies.reply_counts import too_many_failed
    from maieutic.report.contrasts import difference_table
    from maieutic.report.exports import FIGURE_FOLDER, TABLE_FOLDER, write_figures, write_tables
    from maieutic.report.page import render_page
    from maieutic.report.ranking import RANKING_FILE
    from maieutic.report.sections import ReportInput
    from maieutic.report.tables import (
        breakdown_scores,
        complete_scores,
        runtime_table,
        score_table,
        trust_table,
        tutors_without_scores,
        with_leading_graders,
    )

    plan = with_leading_graders(plan, results)
    scores = complete_scores(plan, results, record)
    if not missing_ok and (absent := tutors_without_scores(plan, scores)):
        raise UserError(
            str(results),
            f"expected scores of every tutor, found none of {', '.join(absent)}",
            "run the workflow again, or pass --missing-ok",
        )
    by_tag = breakdown_scores(plan, results)
    table = score_table(plan, {name: [*own_scores, *by_tag.get(name, [])] for name, own_scores in scores.items()})
    runtime = runtime_table(plan, results)
    with atomic_file(out / "scores.csv") as handle:
        table.to_csv(handle, index=False)
    with atomic_file(out / "scores.parquet", "wb") as handle:
        table.to_parquet(handle, index=False)
    with atomic_file(out / "runtime.csv") as handle:
        runtime.to_csv(handle, index=False)
    with atomic_file(out / "trust.csv") as handle:
        trust_table(plan, results).to_csv(handle, index=False)
    made = render_page(ReportInput(plan, results, scores, record), runtime, out / Path(ITEM_DATA).name)
    with atomic_file(out / "differences.csv") as handle:
        difference_table(made.rankings.contrasts).to_csv(handle, index=False)
    write_json(out / RANKING_FILE, [ranking.model_dump(mode="json") for ranking in made.rankings.by_scoring.values()])
    with atomic_file(out / "index.html") as handle:
        handle.write(made.html)
    write_tables(made.tables, out / TABLE_FOLDER)
    write_figures(made.figures, out / FIGURE_FOLDER)
    unanswered = [] if missing_ok else too_many_failed(plan, results)
    write_json(
        out / "problems.json",
        [problem._asdict() for problem in made.problems]
        + [{"place": error.place, "problem": error.problem, "fix": error.fix} for error in unanswered],
    )
    if not missing_ok:
        shutil.rmtree(out / PARTIAL_REPORT_FOLDER, ignore_errors=True)


def check_report(problems: Path, out: Path) -> None:
    """Raise UserError if parts of the page could not be made or too many requests failed; else write the file `out`.

    problems: problems.json, in which `build_report` records the failed parts and the tutors without enough answers.
    """
    recorded = json.loads(problems.read_text(encoding="utf-8"))
    errors = [UserError(**entry) for entry in recorded if "place" in entry]
    if failures := [entry for entry in recorded if "part" in entry]:
        summary = "; ".join(f"{failure['part']} ({failure['error']})" for failure in failures)
        errors.append(
            UserError(
                str(problems.parent / "index.html"),
                f"{len(failures)} part{'' if len(failures) == 1 else 's'} could not be made: {summary}",
                "read results/logs/build_report.log and report the error; the other parts and the tables are complete",
            )
        )
    raise_all(errors)
    write_json(out, {"parts": "all made"})
