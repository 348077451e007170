"""Tests of charts with more than 5,000 values, as in full runs. `make test-scale` has the papers' sizes."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
from running import overlay, run
from scripted import at_endpoint, endpoint, served

TUTORS = ("tutor-1", "tutor-2", "tutor-3", "tutor-4")


def test_a_chart_of_more_than_5000_values_is_drawn(checkout: Path, data: Path, tmp_path: Path) -> None:
    with endpoint() as address:
        config = at_endpoint(address, data, TUTORS, tasks=["mathtutorbench/socratic_questioning"])
        done = run(checkout, overlay(tmp_path, config))
        requests = served(address)
    assert done.returncode == 0, done.stdout[-4000:]
    report = checkout / "results/report"
    assert json.loads((report / "problems.json").read_text()) == [], "every part of the page was made"
    assert json.loads((report / "whole.json").read_text())
    scores = pd.read_csv(report / "scores.csv")
    values = scores[(scores.metric == "bleu") & (scores.scoring == "robust") & scores.headline]
    assert values.n.sum() + values.missing.sum() > 5000 and requests == 1319 * len(TUTORS)
    page = (report / "index.html").read_text(encoding="utf-8")
    assert "the stroke is the median" in page and len(page) < 20 * 2**20
    check_failing_part(checkout, overlay(tmp_path, config))


def check_failing_part(folder: Path, config: Path) -> None:
    """Check that a failing part becomes a box and fails the run. A finished run avoids repeated requests."""
    report, template = folder / "results/report", folder / "workflow/maieutic/report/about.html.jinja"
    original = template.read_text(encoding="utf-8")
    template.write_text(original + "{{ nothing.of_this_name }}", encoding="utf-8")
    done = run(folder, config)
    assert done.returncode != 0
    assert (
        "1 part could not be made: the page about the numbers (UndefinedError: 'nothing' is undefined)" in done.stdout
    )
    assert "the report was written: results/report/index.html" in done.stdout
    page = (report / "index.html").read_text(encoding="utf-8")
    assert "the page about the numbers: this part could not be made." in page and "the stroke is the median" in page
    assert (report / "scores.csv").exists() and not (report / "partial").exists()
    template.write_text(original, encoding="utf-8")
    done = run(folder, config)
    assert done.returncode == 0, done.stdout[-4000:]
    assert "could not be made" not in (report / "index.html").read_text(encoding="utf-8")
