"""Tests of names with a meaning in programming languages: as tutors, labels, groups and tags, in all outputs."""

from __future__ import annotations

import asyncio
import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from browser import Browser, missing_requirement
from conftest import absent
from known_names import NAMES
from maieutic.config.settings import Config
from maieutic.record.export import export
from maieutic.record.finished_run import load_finished_run
from maieutic.report import figures
from run_configs import check_config
from test_report import configuration, finished


def config_of_known_names() -> Config:
    """Return the configuration of a run whose tutors, labels and groups have these names."""
    config = configuration(tutors=["hostile"])
    raw = config.model_dump(mode="json")
    entry = {**raw["models"]["hostile"], "notice": "", "paper": None}
    raw["models"] |= {name: {**entry, "model": name, "label": name, "group": name} for name in NAMES}
    raw["run"] |= {"tutors": NAMES, "tasks": ["mathtutorbench/problem_solving"], "limit": None}
    return check_config(raw)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    results = tmp_path_factory.mktemp("names") / "results"
    finished(results, config_of_known_names(), tags={name: name for name in NAMES})
    return results / "report"


@pytest.mark.slow
def test_a_run_of_names_that_languages_know_has_a_whole_page(run: Path) -> None:
    assert json.loads((run / "problems.json").read_text()) == []
    with open(run / "scores.csv", encoding="utf-8", newline="") as handle:
        assert {row["tutor"] for row in csv.DictReader(handle)} >= set(NAMES)
    assert set(pd.read_parquet(run / "scores.parquet").label) >= set(NAMES)
    svgs = "".join(path.read_text(encoding="utf-8") for path in (run / "figures").glob("*.svg"))
    assert all(f">{name}<" in svgs for name in NAMES) and figures.JOINER not in svgs
    finished_run = load_finished_run(run)
    assert {score.tutor for score in finished_run.headlines("constructor")} == {"constructor"}


async def texts_in_browser(page: Path, folder: Path) -> dict[str, Any]:
    """Return texts that a browser shows of tutors with these names. folder: for the browser's profile."""
    texts: dict[str, Any] = {}
    async with Browser(folder) as browser:
        await browser.open(page)
        texts["board"] = await browser.wait("document.querySelector('table.board')?.innerText")
        texts["groups"] = await browser.run("document.getElementById('board-filters')?.innerText ?? ''")
        for first, second in (("constructor", "*"), ("toString", "hasOwnProperty")):
            await browser.run(f"location.hash = '#/compare?first={first}&second={second}'")
            texts[first] = await browser.wait(
                f"[document.querySelector('#versus .told')?.textContent].find((text) => text?.startsWith({first!r}))"
            )
            texts[f"{first} drawn"] = await browser.run("document.querySelector('#versus table').textContent")
        texts["latex"] = await browser.run(LATEX)
    return texts


# Return the LaTeX of a table whose rows begin with [ or *, which LaTeX would read as arguments of the preceding \\.
LATEX = """(() => {
  const table = document.createElement("table");
  table.innerHTML = "<thead><tr><td></td><td></td></tr><tr><th>a</th><th>[b]</th></tr></thead><tbody><tr><td>[x] y</td><td>1</td></tr><tr><td>*b</td><td>2</td></tr></tbody>";
  document.body.append(table);
  return latexOf(table, "100 %");
})()"""


@pytest.mark.slow
def test_the_scripts_of_the_page_take_these_names(run: Path, tmp_path: Path) -> None:
    if missing := missing_requirement():
        absent(*missing)
    texts = asyncio.run(texts_in_browser(run / "index.html", tmp_path))
    assert texts["constructor"].startswith("constructor against all others: ")
    assert all(name in texts["constructor drawn"] for name in NAMES if name != "constructor")
    assert texts["toString"].startswith("toString against hasOwnProperty: ")
    assert "{[}x] y & 1" in texts["latex"] and "{*}b & 2" in texts["latex"] and "a & [b]" in texts["latex"]
    assert "\\caption{100 \\%}" in texts["latex"]
    assert "[native code]" not in str(texts) and all(name in texts["board"] for name in NAMES)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tidy", "markdown", "leaderboard", "inspect"])
def test_exports_keep_these_names(name: str, run: Path, tmp_path: Path) -> None:
    out = tmp_path / ("out.md" if name == "markdown" else "out")
    export(name, run=run, out=out)
    paths = [out] if out.is_file() else [path for path in out.rglob("*") if path.is_file()]
    text = b"".join(path.read_bytes() for path in paths) + " ".join(map(str, paths)).encode()
    assert b"constructor" in text and b"None" in text


EVERY_NAME = sorted({*figures.KNOWN_TO_SCRIPTS, *NAMES})
LEVEL = {"value": 0.5, "low": 0.4, "high": 0.6, "paper": float("nan")}
CHARTS: dict[str, Callable[[list[str]], str]] = {
    "value": lambda names: figures.value_chart({name: [0.1, 0.2] for name in names}, "t"),
    "levels": lambda names: figures.levels_chart(pd.DataFrame([{"level": name, "series": name, **LEVEL} for name in names]), "t", names),
    "radar": lambda names: figures.radar_chart({name: [0.1, 0.2, 0.3] for name in names}, ["a", "b", "c"]),
    "stacked": lambda names: figures.stacked_chart(pd.DataFrame([{"level": name, "part": name, "count": 3} for name in names]), "t"),
    "panels": lambda names: figures.stacked_chart(pd.DataFrame([{"level": "l", "part": "p", "count": 1.0, "panel": name} for name in names]), "t", shares=True, facet="panel"),
}  # fmt: skip


@pytest.mark.parametrize("kind", CHARTS)
def test_every_chart_draws_every_name(kind: str) -> None:
    chart = CHARTS[kind](EVERY_NAME)
    assert [name for name in EVERY_NAME if f">{name}<" not in chart] == []
