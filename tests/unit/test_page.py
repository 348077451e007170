"""Tests of the report page: charts, failing parts, bold and readable shares, and files that differ from the shipped."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
import pytest
import yaml
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from maieutic.benchmarks import BENCHMARKS
from maieutic.config import rubrics
from maieutic.config.datasets import Dataset
from maieutic.config.rubrics import read_rubric, rubric_path
from maieutic.config.settings import Config
from maieutic.core.records import SCORINGS, ReportedScore, Scale, Score
from maieutic.launch import provenance
from maieutic.launch.provenance import provenance_of_plan
from maieutic.plan import provenance as run_provenance
from maieutic.plan.plan import Plan
from maieutic.plan.provenance import CodeState, Provenance, changed_files_of_task
from maieutic.report import figures, page
from maieutic.report.browser import cells_of, flags_of
from maieutic.report.overview import board_rows_of, overview_section
from maieutic.report.page import HERE
from maieutic.report.ranking import rank_tutors
from maieutic.report.sections import PartRenderer, ReportInput
from maieutic.report.tables import format_share, selected_cards
from maieutic.report.trust import confusion_matrix
from run_configs import check_config
from running import NO_GRADERS
from shipped import shipped

ITEMS = 20_000
MOST_ROWS = 1000  # maximum number of rows of data in a chart


def configuration(**run: object) -> Config:
    config = shipped()
    for name in ("a", "b"):
        config["models"][name] = {"engine": "hosted", "model": "m", "base_url": "http://x/v1"}
    config["run"] |= {"tutors": ["a", "b"], "tasks": ["mathtutorbench/problem_solving"], **NO_GRADERS, **run}
    return check_config(config)


# charts ---------------------------------------------------------------------------------------------------------------


@pytest.fixture
def chart_specs(monkeypatch: pytest.MonkeyPatch) -> list[dict]:
    """Return the specifications of the charts that a test makes; each chart is still rendered."""
    specs: list[dict] = []
    render = figures.vl_convert.vegalite_to_svg

    def record_spec(spec: str) -> str:
        specs.append(json.loads(spec))
        return render(spec)

    monkeypatch.setattr(figures.vl_convert, "vegalite_to_svg", record_spec)
    monkeypatch.setattr(figures, "cached_text", lambda kind, key, make, most: make())
    return specs


def count_rows(spec: dict) -> int:
    """Return the number of rows of data in a chart."""
    return sum(len(rows) for rows in spec.get("datasets", {}).values())


random = np.random.default_rng(1)
CHARTS = {
    "values": lambda: figures.value_chart({f"t{n}": random.normal(size=ITEMS) for n in range(12)}, "BLEU"),
    "one value": lambda: figures.value_chart({"t": [0.5]}, "BLEU"),
    "constant values": lambda: figures.value_chart({"t": [0.0] * ITEMS}, "BLEU"),
    "densities": lambda: figures.density_chart({(f"m{n}", teacher): random.normal(size=ITEMS) for n in range(10) for teacher in ("expert", "novice")}),
    "a density of one score": lambda: figures.density_chart({("m", "expert"): [1.0], ("m", "novice"): []}),
    "a training curve": lambda: figures.line_chart({key: [(float(step), 1 / (1 + step)) for step in range(ITEMS)] for key in ("loss", "accuracy")}),
    "a short training curve": lambda: figures.line_chart({"loss": [(1.0, 0.5), (2.0, 0.4), (3.0, 0.3)], "accuracy": []}),
}  # fmt: skip


@pytest.mark.parametrize("name", CHARTS)
def test_a_chart_holds_some_hundred_rows_whatever_the_number_of_items(name: str, chart_specs: list[dict]) -> None:
    svg = CHARTS[name]()
    assert svg.startswith("<svg") and "NaN" not in svg
    assert 0 < count_rows(chart_specs[-1]) <= MOST_ROWS
    assert alt.data_transformers.options.get("max_rows", 5000) == 5000, "Altair's default limit is in force"


def test_quantiles_and_means_are_those_of_all_items(chart_specs: list[dict]) -> None:
    values = list(np.arange(101) / 100)
    figures.value_chart({"t": values}, "x")
    [[row]] = chart_specs[-1]["datasets"].values()
    assert [row[key] for key in ("p05", "p25", "p50", "p75", "p95")] == pytest.approx([0.05, 0.25, 0.5, 0.75, 0.95])
    figures.line_chart({"loss": [(float(n), float(n)) for n in range(1, 2001)], "accuracy": []})
    [rows] = chart_specs[-1]["datasets"].values()
    assert len(rows) == 200 and rows[0] == {"curve": "loss", "step": 5.5, "value": 5.5}
    figures.density_chart({("m", "expert"): [0.0, 1.0, 1.0], ("m", "novice"): [0.0]})
    [rows] = chart_specs[-1]["datasets"].values()
    shares = [row["share"] for row in rows if row["teacher"] == "expert"]
    assert sum(shares) == pytest.approx(1.0) and max(shares) == pytest.approx(2 / 3)


# parts ----------------------------------------------------------------------------------------------------------------


def test_a_part_that_raises_becomes_a_box_and_the_others_come_out() -> None:
    renderer = PartRenderer(Environment(loader=FileSystemLoader(HERE), autoescape=True, undefined=StrictUndefined), {})

    def broken() -> dict:
        raise ValueError("5,001 rows of <b>data</b>\nand more")

    box = renderer.part("the page on trust", "items", broken)
    assert "the page on trust: this part could not be made" in box
    assert "ValueError: 5,001 rows of &lt;b&gt;data&lt;/b&gt; and more" in box
    assert renderer.part("the items", "items", dict).lstrip().startswith("<section")
    assert renderer.part("nothing", "items", lambda: None) == ""
    assert renderer.part("a template without its variables", "paper", dict) != ""
    assert [problem.part for problem in renderer.problems] == ["the page on trust", "a template without its variables"]
    assert renderer.data("the browser", broken, {"tasks": {}}) == {"tasks": {}}
    assert [page.address for page in renderer.page("#/x", "X", "x", "items", dict)] == ["#/x"]
    assert renderer.page("#/x", "X", "x", "items", lambda: None) == []


# readable share in the ranked table ------------------------------------------------------------------------------------------


def reported_score(model: str, value: float | None, **more: Any) -> ReportedScore:
    fields = {
        "low": None if value is None else value - 0.02, "high": 1.0, "n": 100, "missing": 0, "clusters": 90, **more,
    }  # fmt: skip
    return ReportedScore(task="problem_solving", tutor=model, metric="accuracy", scoring=fields.pop("scoring", "robust"),
                 headline=True, value=value, **fields)  # fmt: skip


def board(config: Config, scores: list[ReportedScore]) -> str:
    """Return the overview's ranked table for scores of one task."""
    plan = Plan(config)
    run = ReportInput(plan, Path("nowhere"), {"mathtutorbench": scores}, None)
    rankings = rank_tutors(plan, Path("nowhere"), run.scores, lambda *args: None)
    environment = page.environment_of(run, lambda *args: None)
    runtime = pd.DataFrame(columns=["benchmark", "tutor", "usd", "requests", "prompt_tokens", "completion_tokens"])
    section = overview_section(run, runtime, selected_cards(plan), rankings, [])
    return environment.get_template("overview.html.jinja").render(
        config=config, scorings=SCORINGS, run_title="x", note="", shown=True, **section
    )


def test_a_missing_verdict_is_not_a_wrong_reply() -> None:
    scores = [
        reported_score("a", 1.0, n=2, missing=14, by="demo-judge"),
        reported_score("b", 0.9, n=16, by="demo-judge"),
    ]
    html = board(configuration(), scores)
    assert re.search(r'data-value="1.0" [^>]*data-last>.*12\.5\u00a0% graded', html), "it does not lead the table"
    assert "graded; the other items are left out" in html and "the other replies count as wrong" not in html
    assert "not ranked: too few answers, or none, on Problem solving" in html
    assert "b is the only one of 2 tutors that can be ranked" in html


def test_the_readable_share_stands_in_the_cells_of_both_scorings() -> None:
    config = configuration()
    scores = [
        reported_score("a", 0.1, unreadable=90),
        reported_score("a", 1.0, scoring="paper_compat"),
        reported_score("b", 0.9),
    ]
    plan = Plan(config)
    by_benchmark = {"mathtutorbench": scores}
    rankings = rank_tutors(plan, Path("nowhere"), by_benchmark, lambda *args: None)
    cards = [loaded.card for loaded in plan.cards.values()]
    for scoring in SCORINGS:
        rows = board_rows_of(plan, cards, by_benchmark, rankings.by_scoring[scoring])
        [cell] = next(row.cells for row in rows if row.label == "a")
        assert (cell.readable, cell.silent, cell.best) == (0.1, True, False), scoring
    html = board(config, scores)
    assert re.search(r'data-value="0.1" [^>]*data-last>.*10\u00a0% readable', html), "sorted last, with its share"
    assert "Orange: less than 80\u00a0% of the answers can be read" in html
    assert [format_share(value) for value in (1.0, 0.9999, 0.5, 0.0)] == [
        "100\u00a0%", "99.9\u00a0%", "50\u00a0%", "0\u00a0%",
    ]  # fmt: skip


def test_a_rate_that_labels_correct_is_the_value_of_its_dimension(monkeypatch: pytest.MonkeyPatch) -> None:
    config = shipped()
    config["run"] |= {"tutors": ["echo"], "tasks": ["mrbench"], "judges": ["demo-judge"]}
    plan = Plan(check_config(config))
    [loaded] = plan.benchmarks["mrbench"]
    name, metric = next(
        (name, metric) for name, metric in loaded.card.metrics.items() if metric.criterion == "Actionability"
    )
    known = {
        "task": loaded.card.task,
        "tutor": "echo",
        "scoring": "robust",
        "clusters": 60,
        "missing": 0,
        "headline": False,
    }
    judged = ReportedScore(**known, metric=name, by="demo-judge", value=0.9, low=0.8, high=1.0, n=60)
    rate = Score(**known, metric="ppi", criterion=metric.criterion, by="demo-judge", value=0.6, low=0.5, high=0.7, n=60)
    for rates, value in (([], 0.9), ([rate], 0.6), ([rate.model_copy(update={"value": None})], 0.9)):
        monkeypatch.setattr(page, "people_scores_of", lambda plan, results, judge, rates=rates: rates)
        matrix = page.judged_matrix(ReportInput(plan, Path("nowhere"), {}, None), loaded.card, [judged])
        [row] = matrix["rows"]
        place = list(matrix["metrics"]).index(page.metric_title(name))
        assert (row["cells"][place].value, row["corrected"][place]) == (value, value == 0.6)


def test_labels_and_verdicts_are_counted_by_cell() -> None:
    def verdict(value: object, by: str = "j", scoring: str = "robust") -> dict[str, Any]:
        return {"kind": "judge", "by": by, "criterion": "Clear", "scoring": scoring, "value": value, "outcome": "value"}

    labels = [("Clear", "No", None), ("Other", "Yes", None)]
    entries = [
        {"grades": [verdict("Yes"), verdict("no", by="k"), verdict("Yes", scoring="paper_compat")], "labels": labels},
        {"grades": [verdict(True), verdict(None)], "labels": labels}, {"grades": [verdict("Yes")]},
    ]  # fmt: skip
    cells = [cell for entry in entries for cell in cells_of(entry)]
    assert cells == [("j", "Clear", "Yes", "No"), ("k", "Clear", "no", "No"), ("j", "Clear", "pass", "No")]
    assert [sorted(flags_of(entry, False, ["j", "k"])) for entry in entries] == [["j", "l", "p"], ["l", "p"], []]
    matrix = confusion_matrix("b/t", "j", "Clear", Counter(cells), Scale(labels=("Yes", "No")))
    assert matrix["verdicts"] == ["Yes", "No", "pass"] and [row["label"] for row in matrix["rows"]] == ["Yes", "No"]
    assert [[cell["n"] for cell in row["cells"]] for row in matrix["rows"]] == [[0, 0, 0], [1, 0, 1]]
    assert matrix["rows"][1]["cells"][0]["address"] == "#/items?task=b%2Ft&cell=j%7CClear%7CYes%7CNo"


# provenance -----------------------------------------------------------------------------------------------------------


def test_the_checksums_of_shipped_files_are_current() -> None:
    raw = yaml.safe_load(Path("resources/registries/datasets.yaml").read_text(encoding="utf-8"))["datasets"]
    current = provenance.current_checksums({name: Dataset.model_validate(entry) for name, entry in raw.items()})
    for path, listed in current.items():
        assert json.loads(path.read_text(encoding="utf-8")) == listed, "run make schemas"
    files = [digest for listed in current.values() for digest in listed["files"].values()]
    assert len(files) > 80 and all(len(digest) == 64 for digest in files)
    assert len(current) == len(BENCHMARKS) + 1 and all(listed["data"] for listed in current.values())


@pytest.fixture
def editable_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Copy the cards, rubrics and configuration to a folder where a test may edit them, and work there."""
    for folder in ("resources", "config"):
        shutil.copytree(folder, tmp_path / folder)
    monkeypatch.chdir(tmp_path)
    provenance.shipped_checksums.cache_clear()
    return tmp_path


def test_one_changed_word_of_a_prompt_marks_its_task_and_no_other(editable_copy: Path) -> None:
    tasks = ["mathtutorbench/problem_solving", "mathtutorbench/socratic_questioning"]
    before = provenance_of_plan(Plan(configuration(tasks=tasks)), CodeState(commit=None))
    assert before.versions["resources/benchmarks/mathtutorbench/problem_solving.yaml"] >= 1
    assert set(before.versions) < set(before.files)
    assert before.differs == {} and before.files["resources/benchmarks/mathtutorbench/problem_solving.yaml"]
    config = configuration(tasks=tasks)
    card = next(loaded for path, loaded in Plan(config).cards.items() if path.stem == "problem_solving")
    prompt = editable_copy / "resources/benchmarks/mathtutorbench" / card.card.turns[0]
    prompt.write_text(prompt.read_text(encoding="utf-8").replace("the", "a", 1), encoding="utf-8")
    record = provenance_of_plan(Plan(configuration(tasks=tasks)), CodeState(commit=None))
    name = f"resources/benchmarks/mathtutorbench/{card.card.turns[0]}"
    assert record.differs == {name: "edited"}
    changed_files = {
        loaded.card.task: changed_files_of_task(record, Plan(config), loaded.card)
        for loaded in Plan(config).cards.values()
    }
    assert changed_files == {"problem_solving": [f"{name}, edited"], "socratic_questioning": []}


def test_a_grader_depends_on_its_rubric_or_instruction() -> None:
    config = shipped()
    config["models"]["elsewhere"] = {"engine": "judge", "model": "smollm2-135m", "rubrics": ["kmp_error_reason"]}
    run_settings = {"tutors": ["echo"], "tasks": ["mrbench", "kmpbench/ec"], "judges": ["demo-judge", "elsewhere"]}
    config["run"] |= {**NO_GRADERS, **run_settings, "reward_comparisons": ["rm-prompted"]}
    plan = Plan(check_config(config))
    [card] = [loaded.card for loaded in plan.cards.values() if loaded.card.benchmark == "mrbench"]
    assert run_provenance.grader_paths(plan, card, "demo-judge") == rubrics.files_of_rubric("mrbench_taxonomy")
    assert run_provenance.grader_paths(plan, card, "elsewhere") == [], "a judge of other tasks"
    instruction = run_provenance.instruction_of(plan.models["rm-prompted"])
    assert run_provenance.grader_paths(plan, card, "rm-prompted") == instruction and len(instruction) == 1
    assert run_provenance.grader_paths(plan, card, None) == []
    versions = provenance.card_versions(plan)
    assert versions[str(rubric_path("kmp_error_reason"))] == read_rubric("kmp_error_reason").rubric.version


def test_a_users_data_and_card_are_reported(editable_copy: Path) -> None:
    card_path = editable_copy / "resources/benchmarks/mathtutorbench/my_task.yaml"
    card_path.write_text("like: problem_solving\ntask: my_task\n", encoding="utf-8")
    config = configuration(tasks=["mathtutorbench/my_task"])
    config.datasets["gsm8k"].demo.__dict__["sha256"] = "0" * 64
    record = provenance_of_plan(Plan(config), CodeState(commit=None))
    assert record.differs == {str(card_path.relative_to(editable_copy)): "not shipped", "gsm8k (demo)": "another file"}
    [card] = [loaded.card for loaded in Plan(config).cards.values()]
    assert len(changed_files_of_task(record, Plan(config), card)) == 2


def test_the_commit_and_what_was_edited_are_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert provenance.code_state().commit is None and "not a git checkout" in provenance.code_state().as_line
    for command in (["init", "-q"], ["config", "user.email", "a@b"], ["config", "user.name", "a"]):
        assert provenance.git_output(*command) is not None
    (tmp_path / "Snakefile").write_text("1")
    (tmp_path / "README.md").write_text("1")
    provenance.git_output("add", "-A")
    provenance.git_output("commit", "-qm", "one")
    clean = provenance.code_state()
    assert re.fullmatch(r"[0-9a-f]{40}", clean.commit) and clean.edited == [] and "nothing edited" in clean.as_line
    (tmp_path / "README.md").write_text("2")
    assert provenance.code_state().edited == [], "the documentation does not affect any number"
    (tmp_path / "Snakefile").write_text("2")
    (tmp_path / "workflow").mkdir()
    (tmp_path / "workflow/new.py").write_text("x")
    dirty = provenance.code_state()
    assert set(dirty.edited) == {"Snakefile", "workflow/"} and "with 2 edited files" in dirty.as_line
    subfolder = tmp_path / "workflow"
    monkeypatch.chdir(subfolder)
    assert provenance.code_state().commit is None, "a subfolder of another checkout"


def test_about_does_not_claim_the_published_configuration_where_it_was_edited() -> None:
    config = configuration()
    shipped_provenance = Provenance(code=CodeState(commit="c" * 40), files={"f": "0"}, data={}, differs={})
    for differs, claims in (({}, True), ({"resources/x.jinja": "edited"}, False)):
        run = ReportInput(Plan(config), Path("nowhere"), {}, shipped_provenance.model_copy(update={"differs": differs}))
        environment = page.environment_of(run, lambda name, kind: None)
        text = environment.get_template("about.html.jinja").render(
            config=config, scorings=(), all_differs=differs, **page.about_section(run)
        )
        assert ("every card, prompt, rubric and source file is as shipped" in text) == claims
        assert ("Not the published configuration: 1 file" in text) != claims
        assert "character for character" not in text


def test_about_says_what_else_keeps_a_run_from_the_published_configuration() -> None:
    config = configuration()
    code = CodeState(commit="c" * 40, edited=["workflow/a.py"], n_edited=300)
    run = ReportInput(Plan(config), Path("nowhere"), {}, Provenance(code=code, files={}, data={}, differs={}))
    departures = page.published_departures(run)
    assert "the items are those of the demo, written for this project" in departures
    assert "300 files of the code edited" in departures
    assert "with 300 edited files" in code.as_line
    published = config.model_copy(update={"edition": "published", "data_dir": "somewhere"})
    published_only = page.published_departures(run._replace(plan=Plan(published), provenance=None))
    assert not any("demo" in departure for departure in published_only)


def test_a_changed_rubric_marks_the_judges_numbers_and_not_the_parsers(editable_copy: Path) -> None:
    """Pages of graders and benchmarks list their changed files."""
    config = configuration(tasks=["mrbench", "mathtutorbench/problem_solving"], judges=["demo-judge"])
    for name in ("rubrics/mrbench_taxonomy.jinja", "mistake_remediation.jinja"):
        path = editable_copy / "resources/benchmarks/mrbench" / name
        path.write_text(path.read_text(encoding="utf-8") + "\nBe kind.", encoding="utf-8")
        if name.startswith("rubrics"):
            record = provenance_of_plan(Plan(config), CodeState(commit=None))
            [card] = [
                loaded.card for loaded in Plan(config).cards.values() if loaded.card.task == "mistake_remediation"
            ]
            assert changed_files_of_task(record, Plan(config), card) == []
            rubric = "resources/benchmarks/mrbench/rubrics/mrbench_taxonomy.jinja, edited"
            assert changed_files_of_task(record, Plan(config), card, "demo-judge") == [rubric]
    run = ReportInput(Plan(config), Path("nowhere"), {}, provenance_of_plan(Plan(config), CodeState(commit=None)))
    assert page.not_as_shipped(run) == [rubric], "graders depend on rubrics, not on tutors' prompts"
    assert rubric in page.not_as_shipped(run, "mrbench") and len(page.not_as_shipped(run, "mrbench")) == 2
    assert page.not_as_shipped(run, "mathtutorbench") == []


def test_an_authors_title_and_note_are_shown_as_text() -> None:
    config = configuration()
    note = "**Why:** see [the plan](https://example.org).\n\n<script>alert(1)</script> [x](javascript:alert(1)) ![p](https://e.org/p.png)"
    settings = config.report.model_copy(update={"title": "Ours & <b>theirs</b>", "note": note})
    plan = Plan(config.model_copy(update={"report": settings}))
    html = str(page.note_of(plan))
    assert "<strong>Why:</strong>" in html and '<a href="https://example.org">' in html
    assert "&lt;script&gt;" in html and "<img" not in html and 'href="javascript' not in html
    assert page.note_of(Plan(config)) == ""
    environment = page.environment_of(ReportInput(plan, Path("nowhere"), {}, None), lambda *args: None)
    run_title = page.run_title(plan)
    text = environment.from_string("<h2>{{ run_title }}</h2>").render(run_title=run_title)
    assert "<h2>Ours &amp; &lt;b&gt;theirs&lt;/b&gt;</h2>" in text
