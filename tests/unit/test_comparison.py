"""Tests of the comparison with papers: only values measured alike are compared, and each `paper` key names a row."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from maieutic.benchmarks.mathtutorbench.printed import PAPER_REWARD_MODEL
from maieutic.config.cards import Card
from maieutic.config.models import BaselineModel, HostedModel
from maieutic.config.settings import Config
from maieutic.core import paths
from maieutic.core.errors import UserError
from maieutic.core.records import ReportedScore, Score
from maieutic.core.stats import BootstrapSettings
from maieutic.datasets.labelled_sets import LABEL_LOADERS, read_labelled_data
from maieutic.datasets.sources import read_source
from maieutic.plan import checks
from maieutic.plan.plan import Plan
from maieutic.preparation.labels import write_labels
from maieutic.report.comparison import Cell, Tally, against_paper, rounding_of, tally_of, verdict_on
from maieutic.report.tables import paper_value, prompting_difference
from maieutic.scores.papers import PEOPLE, PrintedResult
from maieutic.scores.printed import (
    PAPERS,
    MeasurementConditions,
    difference_note,
    paper_name,
    printed_names_for,
    printed_tutors,
    printed_values,
)
from maieutic.validation.trust import desired_match_rates
from run_configs import check_config
from running import NO_GRADERS
from shipped import shipped

COMMIT = "0" * 40


def configuration(tasks: list[str], models: dict[str, Any], edition: str = "published", **run: Any) -> Config:
    config = shipped()
    for name, entry in models.items():
        hosted_entry = {} if "engine" in entry else {"engine": "hosted", "model": "m", "base_url": "http://x/v1"}
        config["models"][name] = {**hosted_entry, **entry}
    tutors = [name for name, entry in models.items() if "engine" not in entry]
    config["run"] |= {"tutors": tutors, "tasks": tasks, "limit": None, **NO_GRADERS, **run}
    return check_config({**config, "edition": edition, "data_dir": "resources"})


def test_every_benchmark_prints_its_tutors_in_one_form() -> None:
    counts = {name: (len(printed_values(name)), len(printed_tutors()[name])) for name in PAPERS}
    printed = {"mathtutorbench": (72, 8), "kmpbench": (306, 21), "mrbench": (208, 9), "tutorbench": (42, 16)}
    assert counts == counts | printed
    values = [result.value for name in PAPERS for result in printed_values(name)]
    assert all(-0.2 <= value <= 1 for value in values), "shares, not per cent"
    expected = {PAPER_REWARD_MODEL}
    assert {result.by for result in printed_values("mathtutorbench") if result.metric == "win_rate"} == expected
    assert {result.by for result in printed_values("mrbench")} == {PEOPLE}
    assert (
        next(
            result.value
            for result in printed_values("tutorbench")
            if result.model == "GPT-5" and result.metric == "overall"
        )
        == 0.5533
    )


def test_every_key_of_the_shipped_registry_has_its_row() -> None:
    config = configuration(["mathtutorbench/problem_solving"], {"m": {}})
    printed_models = {name: model for name, model in config.models.items() if model.paper}
    assert len(printed_models) >= 45
    tutors = [name for name, model in printed_models.items() if model.engine in {"vllm", "hosted"}]
    rows = {
        (benchmark, paper_name(config.models[name].paper, benchmark))
        for name in tutors
        for benchmark in PAPERS
        if paper_name(config.models[name].paper, benchmark) in printed_tutors()[benchmark]
    }
    assert {benchmark for benchmark, _ in rows} >= {"mathtutorbench", "mrbench", "kmpbench", "tutorbench"}
    assert len([row for row in rows if row[0] == "tutorbench"]) >= 14


REFUSED = [
    ({"paper": "GPT-4oo"}, r"models\.m\.paper: 'GPT-4oo' is not in any paper's table. Fix: did you mean 'GPT-4o"),
    ({"paper": "GPT-4o"}, r"models\.m\.paper: 'GPT-4o' is in the tables of .*set paper: \{mathtutorbench: GPT-4o\}"),
    ({"paper": {"tutorbench": "GPT-5 (study)"}}, r"models\.m\.paper\.tutorbench: .*did you mean 'GPT-5 study mode'"),
    ({"paper": {"tutorbnch": "GPT-5"}}, r"models\.m\.paper\.tutorbnch: .*did you mean 'tutorbench'"),
    ({"paper": {"mrbench": "GPT-5"}}, r"models\.m\.paper\.mrbench: 'GPT-5' is not in the tables of mrbench"),
]  # fmt: skip


@pytest.mark.parametrize(("entry", "message"), REFUSED)
def test_a_name_that_no_table_has_is_refused_with_the_nearest(entry: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        configuration(["mathtutorbench/problem_solving"], {"m": entry})


def test_all_wrong_names_are_reported_at_once() -> None:
    with pytest.raises(UserError, match=r"models\.a\.paper: .*\(same fault at models\.b\.paper\)"):
        configuration(["mathtutorbench/problem_solving"], {"a": {"paper": "X"}, "b": {"paper": "Y"}})
    judge = {"engine": "judge", "model": "gpt-4o", "rubrics": ["mrbench_taxonomy"], "paper": "GPT-5"}
    with pytest.raises(UserError, match=r"models\.j\.paper: 'GPT-5' is not in any paper's table"):
        config = shipped()
        config["models"]["j"] = judge
        check_config(config)
    assert all(model.paper is None for model in shipped_models() if isinstance(model, BaselineModel))


def shipped_models() -> list[Any]:
    return list(check_config(shipped()).models.values())


SAME_CONDITIONS = MeasurementConditions(published=True, whole=True, protocol="released", changed=False, by=None)
ROW = PrintedResult("general", "m", "problem_solving", "accuracy", 0.9)
NOTES = [
    (ROW, "mathtutorbench", SAME_CONDITIONS, None),
    (ROW, "mathtutorbench", SAME_CONDITIONS._replace(protocol="paper"), None),
    (ROW, "mathtutorbench", SAME_CONDITIONS._replace(published=False), "demo data"),
    (ROW, "mathtutorbench", SAME_CONDITIONS._replace(whole=False), "not all items"),
    (ROW, "mathtutorbench", SAME_CONDITIONS._replace(protocol="corrected"), "protocol corrected"),
    (ROW, "mathtutorbench", SAME_CONDITIONS._replace(changed=True), "a card or prompt differs from the shipped one"),
    (ROW._replace(by=PAPER_REWARD_MODEL), "mathtutorbench", SAME_CONDITIONS._replace(by=PAPER_REWARD_MODEL), None),
    (ROW, "mathtutorbench", SAME_CONDITIONS._replace(by=PAPER_REWARD_MODEL), "graded by a parser in the paper"),
    (ROW, "mathtutorbench", SAME_CONDITIONS._replace(deviation="another model"), "another model"),
    (ROW._replace(protocol="study"), "tutorbench", SAME_CONDITIONS._replace(protocol="study"), None),
    (ROW._replace(protocol="study"), "mathtutorbench", SAME_CONDITIONS, "protocol released"),
    (ROW._replace(by=PAPER_REWARD_MODEL), "mathtutorbench", SAME_CONDITIONS._replace(by="rm-mine"), f"graded by {PAPER_REWARD_MODEL} in the paper"),
    (ROW._replace(by=PEOPLE), "mrbench", SAME_CONDITIONS._replace(by="gpt-4o-judge"), "graded by people in the paper"),
    (ROW, "kmpbench", SAME_CONDITIONS, "the paper's data are not released"),
]  # fmt: skip


@pytest.mark.parametrize(("printed", "benchmark", "conditions", "note"), NOTES)
def test_the_first_difference_in_measurement_is_reported(
    printed: PrintedResult, benchmark: str, conditions: MeasurementConditions, note: str | None
) -> None:
    assert difference_note(printed, benchmark, conditions) == note


@pytest.mark.parametrize(("benchmark", "entry", "difference"), [
    ("mathtutorbench", {"paper": {"mathtutorbench": "GPT-4o"}, "model": "gpt-4o-2024-08-06"}, "another model: the paper used gpt-4o-mini-2024-07-18"),
    ("mathtutorbench", {"paper": {"mathtutorbench": "GPT-4o"}, "model": "gpt-4o-mini-2024-07-18"}, None),
    ("mathtutorbench", {"paper": "LLaMA3.1-8B-Instruct", "model": "anything"}, None),
    ("mathtutorbench", {"paper": "LLaMA3.1-8B-Instruct", "user_last": True}, None),  # no effect on these requests
    ("mrbench", {"paper": "GPT-4"}, "a prompt of this project: the paper publishes none"),
    ("mrbench", {"engine": "recorded", "file": "r.jsonl", "paper": "GPT-4"}, None),
    ("tutorbench", {"paper": {"tutorbench": "GPT-5 study mode"}, "protocol": "study_mode"}, "preambles for the product's study mode"),
    ("tutorbench", {"paper": {"tutorbench": "GPT-5"}, "user_last": True}, "the student's work sent as a user message"),
    ("tutorbench", {"paper": {"tutorbench": "GPT-5"}}, None),
])  # fmt: skip
def test_a_tutor_with_other_prompts_is_not_compared(
    benchmark: str, entry: dict[str, Any], difference: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "file" in entry:
        (tmp_path / "r.jsonl").touch()
        entry = {**entry, "file": str(tmp_path / "r.jsonl")}
    monkeypatch.setattr(checks, "local_copy", lambda *args: tmp_path)  # this test does not read the data files
    plan = Plan(configuration([benchmark], {"m": entry}, tutors=["m"]))
    assert prompting_difference(plan, benchmark, "m") == difference


def reported_score(task: str, metric: str, **more: Any) -> ReportedScore:
    fields = {"n": 1150, "missing": 0, "value": 0.5, "low": 0.4, "high": 0.6, "clusters": 700, **more}
    return ReportedScore(task=task, tutor="m", metric=metric, scoring="paper_compat", headline=True, **fields)


def cards_of(config: Config) -> list[Card]:
    return [loaded.card for loaded in Plan(config).cards.values()]


JOINED = set(ReportedScore.model_fields) - set(Score.model_fields)
LLAMA = {"m": {"paper": "LLaMA3.1-70B-Instruct"}}


def test_a_win_rate_is_compared_under_the_papers_reward_model_alone(tmp_path: Path) -> None:
    own_model = {"engine": "reward", "weights": {"repo": "me/mine", "revision": COMMIT}}
    paper_model = {"engine": "reward", "weights": {"repo": PAPER_REWARD_MODEL, "revision": COMMIT}}
    for entry, note in (
        (own_model, f"graded by {PAPER_REWARD_MODEL} in the paper"),
        (paper_model, None),
        ({**paper_model, "prompt": "none"}, f"graded by {PAPER_REWARD_MODEL} in the paper"),
        ({**paper_model, "max_length": 64}, f"graded by {PAPER_REWARD_MODEL} in the paper"),
    ):
        config = configuration(["mathtutorbench/scaffolding_generation"], {**LLAMA, "rm": entry}, reward_models=["rm"])
        score = reported_score("scaffolding_generation", "win_rate", by="rm")
        [card] = cards_of(config)
        table = against_paper(Plan(config), tmp_path, "mathtutorbench", [card], [score])
        assert table is not None
        [our_row] = [our_row for row in table["rows"] for our_row in row["ours"]]
        [cell] = our_row["cells"]
        assert (cell.value, cell.note) == (0.5, note)
        assert (paper_value(Plan(config), card, score, False) is None) == (note is not None), "scores.csv agrees"


def test_a_sample_is_not_compared_with_a_full_set(tmp_path: Path) -> None:
    for limit, n, missing, whole in (
        (None, 1319, 9, True),
        (50, 50, 9, False),
        (None, 1000, 9, False),
        (None, 1319, 1300, False),
    ):
        config = configuration(["mathtutorbench/problem_solving"], LLAMA, limit=limit)
        [card] = cards_of(config)
        score = reported_score("problem_solving", "accuracy", n=n - missing, missing=missing)
        assert (paper_value(Plan(config), card, score, False) is not None) == whole
        assert paper_value(Plan(config), card, score, True) is None, "a changed prompt"
        assert paper_value(Plan(config), card, score.model_copy(update={"scoring": "robust"}), False) is None
        assert paper_value(Plan(config), card, score.model_copy(update={"tutor": "echo"}), False) is None


def test_tutorbench_stands_beside_its_table_task_by_task_and_overall(tmp_path: Path) -> None:
    models = {"m": {"paper": "GPT-5", "images": True}}
    tasks = ["tutorbench/text", "tutorbench/multimodal"]
    config = configuration(tasks, models, judges=["claude-sonnet-4-judge"])
    cards = cards_of(config)
    by_task = {card.task: card for card in cards}
    scores = [
        reported_score(task, "arr_w", by="claude-sonnet-4-judge", n=by_task[task].items, value=value)
        for task, value in (("text", 0.57), ("multimodal", 0.54))
    ]
    whole = sum(card.items for card in cards)
    pool = reported_score("release", "overall", by="claude-sonnet-4-judge", n=whole, value=0.55)
    folder = tmp_path / "scores/breakdowns/tutorbench"
    folder.mkdir(parents=True)
    (folder / "m.json").write_text(json.dumps([pool.model_dump(exclude=JOINED)]))
    table = against_paper(Plan(config), tmp_path, "tutorbench", cards, scores)
    assert table is not None and [(column.task, column.metric) for column in table["columns"]] == [
        ("text", "arr_w"), ("multimodal", "arr_w"), ("release", "overall"),
    ]  # fmt: skip
    [row] = [row for row in table["rows"] if row["ours"]]
    assert row["model"] == "GPT-5"
    differences = [round(cell.difference, 4) for cell in row["ours"][0]["cells"]]
    assert differences == [-0.0003, 0.0003, -0.0033]
    note = "judged with a prompt of this project, tutorbench: the paper publishes none"
    assert {(cell.note, cell.verdict) for cell in row["ours"][0]["cells"]} == {(note, "not comparable")}
    rejudged = [score.model_copy(update={"by": "gemini-2.0-flash-judge"}) for score in scores]
    entry = shipped()["models"]["gemini-2.0-flash-judge"]
    other = configuration(
        tasks,
        {**models, "gemini-2.0-flash-judge": {**entry, "rubrics": ["tutorbench"]}},
        judges=["gemini-2.0-flash-judge"],
    )
    table = against_paper(Plan(other), tmp_path / "none", "tutorbench", cards_of(other), rejudged)
    assert table is not None
    notes = {cell.note for row in table["rows"] for our_row in row["ours"] for cell in our_row["cells"] if cell}
    assert notes == {"graded by Claude Sonnet 4 in the paper"}


def test_mrbench_is_compared_where_people_have_labelled(tmp_path: Path) -> None:
    people = tmp_path / "people.csv"
    people.write_text("task,item,tutor,criterion,label\n")
    (tmp_path / "mrbench.json").touch()
    released = {
        "engine": "recorded", "file": str(tmp_path / "mrbench.json"), "form": "mrbench", "speaker": "GPT4",
        "paper": "GPT-4",
    }  # fmt: skip
    config = configuration(
        ["mrbench"], {"m": released}, judges=["gpt-4o-mini-judge"], human_labels=str(people), tutors=["m"]
    )
    cards = cards_of(config)
    judged = reported_score("mistake_remediation", "actionability", by="gpt-4o-mini-judge", n=192)
    table = against_paper(Plan(config), tmp_path, "mrbench", cards, [judged])
    assert table is not None
    [our_row] = [our_row for row in table["rows"] for our_row in row["ours"]]
    assert [cell.note for cell in our_row["cells"] if cell] == ["graded by people in the paper"]
    corrected = reported_score("trust", "ppi", criterion="Actionability", n=192, value=0.46)
    paths.CORRECTED.within(tmp_path, judge="gpt-4o-mini-judge").parent.mkdir(parents=True)
    (paths.CORRECTED.within(tmp_path, judge="gpt-4o-mini-judge")).write_text(
        json.dumps([corrected.model_dump(exclude=JOINED)])
    )
    table = against_paper(Plan(config), tmp_path, "mrbench", cards, [judged])
    assert table is not None
    [cell] = [cell for row in table["rows"] for our_row in row["ours"] for cell in our_row["cells"] if cell]
    assert (cell.value, cell.note) == (0.46, None)


def test_the_rates_of_the_released_labels_count_as_measured(data: Path, tmp_path: Path) -> None:
    """MRBench, Tables 3, 8 and 9, have 208 cells."""
    records = read_source(data / "mrbench/MRBench_V1.json", "json")
    write_labels("mrbench", LABEL_LOADERS["mrbench"], [records], tmp_path / "labels")
    rates = desired_match_rates("people", read_labelled_data(tmp_path / "labels"), None, BootstrapSettings(100, 1))
    path = paths.LABEL_SCORES.within(tmp_path, release="mrbench")
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps([score.model_dump(mode="json") for score in rates]))
    config = configuration(["mrbench"], {"m": {}})
    table = against_paper(Plan(config), tmp_path, "mrbench", cards_of(config), [])
    assert table is not None
    tally = table["tally"]
    assert (tally.cells, tally.measured, tally.values) == (208, 208, 208)
    assert (tally.reproduced, tally.differs, tally.other_release) == (6, 0, 202), (
        "the tables were not computed from the released labels"
    )
    demo = configuration(["mrbench"], {"m": {}}, edition="demo")
    table = against_paper(Plan(demo), tmp_path, "mrbench", cards_of(demo), [])
    assert table is not None and table["tally"].measured == 0


def test_kmpbench_rows_are_shown_and_never_compared(tmp_path: Path) -> None:
    config = configuration(["kmpbench/fqa"], {"m": {"paper": {"kmpbench": "GPT-4o"}}}, edition="demo")
    table = against_paper(
        Plan(config), tmp_path, "kmpbench", cards_of(config), [reported_score("fqa", "final_round", n=3)]
    )
    assert table is not None and table["not_released"] and len(table["rows"]) == 21 and len(table["columns"]) == 18
    [cell] = [cell for row in table["rows"] for our_row in row["ours"] for cell in our_row["cells"] if cell]
    assert cell.note == "the paper's data are not released"


@pytest.mark.parametrize(("printed", "low", "high", "note", "verdict"), [
    (0.57, 0.50, 0.60, None, "reproduced"),
    (0.60, 0.50, 0.597, None, "reproduced"),  # printed with two digits
    (0.61, 0.50, 0.60, None, "differs"),
    (0.49, 0.50, 0.60, None, "differs"),
    (0.57, None, None, None, "differs"),
    (0.55, None, None, None, "reproduced"),
    (0.57, 0.50, 0.60, "another judge", "not comparable"),
])  # fmt: skip
def test_a_cell_is_reproduced_where_the_printed_value_lies_in_the_interval(
    printed: float, low: float | None, high: float | None, note: str | None, verdict: str
) -> None:
    score = reported_score("text", "arr_w", value=0.55).model_copy(update={"low": low, "high": high})
    rounding = rounding_of([0.57, 0.6])
    assert rounding == 0.005 and verdict_on(printed, score, note, rounding, released=False) == verdict
    cell = Cell(0.55, 0.55 - printed, note, verdict_on(printed, score, note, rounding, released=False))
    our_rows = [{"cells": [cell, None]}, {"cells": [cell, None]}]
    rows = [{"cells": [object(), None], "ours": our_rows}, {"cells": [object(), object()], "ours": []}]
    assert tally_of(rows) == Tally(3, 1, 2, 2 * (verdict == "reproduced"), 2 * (verdict == "differs"))


@pytest.mark.parametrize(
    ("value", "verdict"), [(0.57, "reproduced"), (0.5749, "reproduced"), (0.565, "reproduced"), (0.5751, "differs"), (0.55, "differs")]
)  # fmt: skip
def test_a_value_from_released_labels_or_replies_must_equal_the_printed_one(value: float, verdict: str) -> None:
    """An interval is about other items; the same computation on the same data gives the same number."""
    score = reported_score("text", "arr_w", value=value).model_copy(update={"low": 0.1, "high": 0.9})
    assert verdict_on(0.57, score, None, rounding_of([0.57]), released=True) == verdict
    assert verdict_on(0.57, score, None, rounding_of([0.57]), released=False) == "reproduced"


def test_a_printed_value_is_as_exact_as_its_column() -> None:
    """MRBench prints 73.96 % and 54 %: the rounding error is half a unit of a column's last printed digit."""
    assert rounding_of([0.7396, 0.54]) == pytest.approx(0.00005)
    assert [round(rounding_of(values), 6) for values in ([0.429, 0.5], [1.0], [])] == [0.0005, 0.5, 0.5]


def hosted(**keys: Any) -> HostedModel:
    return HostedModel.model_validate({"engine": "hosted", "model": "m", "base_url": "http://x/v1", **keys})


def test_a_trivial_tutor_is_in_no_paper() -> None:
    trivial = BaselineModel.model_validate({"engine": "baseline", "tutor": "echo"})
    assert printed_names_for(trivial) == {} and printed_names_for(hosted()) == printed_tutors()
