"""The report of a run: one self-contained page, and the same numbers as CSV and Parquet."""

from __future__ import annotations

import shutil
from pathlib import Path

import yaml

from maieutic.errors import UserError
from maieutic.files import whole_file
from maieutic.settings import check_config, tutors_of

PARTIAL = "partial"


def build_report(config_path: Path, results: Path, out: Path, missing_ok: bool) -> None:
    """Write index.html, scores.csv, scores.parquet, trust.csv and runtime.csv into the folder `out`.

    With missing_ok a tutor whose job failed is marked as absent; without it, that is an error. A complete report
    removes the partial one that an earlier failure left in `out`/partial.
    """
    from maieutic.report.page import render_page
    from maieutic.report.tables import breakdown_scores, complete_scores, runtime_table, score_table, trust_table

    config = check_config(yaml.safe_load(config_path.read_text(encoding="utf-8")))
    scores = complete_scores(config, results)
    there = {score.model for of in scores.values() for score in of}
    if not missing_ok and (absent := [name for name in tutors_of(config) if name not in there]):
        raise UserError(str(results / "scores"), f"no scores of {', '.join(absent)}", "run again, or give --missing-ok")
    by_tag = breakdown_scores(config, results)
    table = score_table(config, {name: [*of, *by_tag.get(name, [])] for name, of in scores.items()})
    runtime = runtime_table(config, results)
    with whole_file(out / "scores.csv") as handle:
        table.to_csv(handle, index=False)
    with whole_file(out / "scores.parquet", "wb") as handle:
        table.to_parquet(handle, index=False)
    with whole_file(out / "runtime.csv") as handle:
        runtime.to_csv(handle, index=False)
    with whole_file(out / "trust.csv") as handle:
        trust_table(config, results).to_csv(handle, index=False)
    with whole_file(out / "index.html") as handle:
        handle.write(render_page(config, results, scores, runtime))
    if not missing_ok:
        shutil.rmtree(out / PARTIAL, ignore_errors=True)
