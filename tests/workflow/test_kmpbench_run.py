"""Tests of runs on KMP-Bench's demo: trivial tutors, two scripted judges with different rubrics, human labels."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from grids import uneven
from httpserver import serving
from labelling_clicks import PEOPLE, labelled_by_clicks
from maieutic.config.rubrics import read_rubric
from obedient_judge import answering
from running import environment, overlay, planned, run

TASKS = [f"kmpbench/{task}" for task in ("fqa", "ec", "gen_followup", "gen_similar", "dialogue")]
STUDY = "study"


def answer_as_judge(prompt: str) -> str:
    """Let replies that ask something win and others lose by vague questioning; pass every other criterion."""
    if "error types" in prompt:
        return json.dumps({"error_type": "Evasion by Vague Questioning"})
    if "first wrong step" in prompt:
        return json.dumps({"error_reason": "incorrect" if "This step is wrong." in prompt else "correct"})
    names = re.findall(r"^(?:- )?((?:[A-Z][a-z]+_\d|overall|(?:first|second)_\w+)): ", prompt, re.MULTILINE)
    if "Tutor Response" in prompt:
        reply = prompt.split("Tutor Response:\n")[1].split(">>>")[0]
        return json.dumps(dict.fromkeys(names, "Win" if "?" in reply else "Lose"))
    return json.dumps(dict.fromkeys(names, "pass"))


@pytest.fixture(scope="module")
def judge_server() -> Iterator[tuple[str, Any]]:
    handler = answering(answer_as_judge)
    with serving(handler) as address:
        yield address, handler


def configure(folder: Path, address: str, name: str = "overlay.yaml", **run_keys: Any) -> Path:
    models = {
        "scripted": {"engine": "hosted", "model": "m", "base_url": f"{address}/v1"},
        "comparer": {"engine": "judge", "model": "scripted", "rubrics": ["kmp_dialogue_short"]},
        "checker": {
            "engine": "judge",
            "model": "scripted",
            "rubrics": ["kmp_similar_short", "kmp_followup_short", "kmp_error_reason"],
        },
    }
    keys = {"tutors": ["reference"], "tasks": TASKS, "judges": ["checker", "comparer"], "labels": [], **run_keys}
    return overlay(folder, {"models": models, "run": keys, "report": {"resamples": 100}}, name)


def verb(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command of the package in the folder of a run."""
    command = [sys.executable, "-m", "maieutic", *words]
    env = {**environment(), "PYTHONPATH": "workflow"}
    return subprocess.run(command, cwd=folder, env=env, text=True, capture_output=True, check=False)


@pytest.fixture(scope="module")
def finished(checkouts: Callable[[], Path], judge_server: tuple[str, Any]) -> Path:
    folder = checkouts()
    done = run(folder, configure(folder, judge_server[0]))
    assert done.returncode == 0, done.stdout
    return folder


def test_every_task_has_its_headline_floor_and_ceiling(finished: Path) -> None:
    table = pd.read_csv(finished / "results/report/scores.csv")
    heads = table[table.headline & (table.scoring == "robust")].set_index(["task", "tutor"])
    assert set(heads.metric) == {"final_round", "mr_score", "last_round", "overall"}
    assert heads.loc[("ec", "reference"), "value"] == 1 and heads.loc[("ec", "reference"), "by"] == "checker"
    assert heads.loc[("ec", "blames-step-1"), "value"] == heads.loc[("ec", "reference"), "floor"] == pytest.approx(0.1)
    assert heads.loc[("fqa", "reference"), "value"] == 1 and heads.loc[("fqa", "always-0"), "value"] == 0
    dialogue = heads.loc["dialogue"]
    assert set(dialogue.by) == {"comparer"} and dialogue.loc["always-ask", "value"] == 1
    assert dialogue.loc["reveal", "value"] == 0 and set(dialogue.index) == {"always-ask", "reveal", "reference"}
    errors = table[(table.metric == "error_evasion_by_vague_questioning") & (table.scoring == "robust")].set_index(
        "tutor"
    )
    assert errors.loc["reveal", "value"] == 1 and errors.loc["reveal", "n"] == 6
    levels = table[(table.tutor == "always-ask") & (table.scoring == "robust")].set_index("metric")
    assert levels.loc["explanation", "n"] == 2 and levels.loc["challenge", "n"] == 1


def test_the_page_shows_the_papers_tables_and_why_replies_lose(finished: Path) -> None:
    page = (finished / "results/report/index.html").read_text(encoding="utf-8")
    assert uneven(page) == []
    section = page.split('data-page="#/kmpbench"')[1].split("<section")[0]
    for expected in ("Not the paper's data", "DeepSeek-V3", "KMP-LM-7B minus Qwen2.5-Math-7B-Inst", "+45.6", "86.3",
                 "Evasion by Vague Questioning", "draw-study"):  # fmt: skip
        assert expected in section, expected
    text = re.sub(r"<[^>]+>", " ", section)
    assert "None" not in text and "nan" not in text.split() and "built-in" not in text


def test_each_judge_has_jobs_for_its_own_tasks_only(finished: Path, judge_server: tuple[str, Any]) -> None:
    rubrics = {}
    for name in ("checker", "comparer"):
        path = finished / f"results/verdicts/{name}/kmpbench/_baselines.jsonl"
        rubrics[name] = {json.loads(line)["rubric"] for line in path.read_text(encoding="utf-8").splitlines()}
    assert rubrics["comparer"] == {"kmp_dialogue_short", "kmp_error_types"}
    assert rubrics["checker"] == {"kmp_similar_short", "kmp_followup_short", "kmp_error_reason"}
    assert planned(finished, configure(finished, judge_server[0])) == set()


def test_a_study_is_drawn_read_and_shown_beside_the_judge(finished: Path, judge_server: tuple[str, Any]) -> None:
    study = verb(finished, "draw-study", "--tutors", "reveal", "--n", "4", "--annotators", "a", "--out", STUDY)
    assert study.returncode == 0, study.stderr
    sheet = finished / STUDY / "sheet-a.csv"
    rows = pd.read_csv(sheet, dtype=str, keep_default_na=False)
    criteria = read_rubric("kmp_dialogue").rubric.criteria
    assert set(rows.criterion) <= set(criteria) and rows.instance.nunique() == 4
    rows["answer"] = "tie"
    rows.loc[rows.criterion == "overall", "answer"] = [
        {True: "2", False: "1"}[json.loads((finished / STUDY / "key.json").read_text())["instances"][name]["first"]]
        for name in rows.instance[rows.criterion == "overall"]
    ]
    rows.to_csv(sheet, index=False)
    read = verb(finished, "read-study", "--study", STUDY, "--out", PEOPLE)
    assert read.returncode == 0, read.stderr
    done = run(finished, configure(finished, judge_server[0], "people.yaml", human_labels=PEOPLE))
    assert done.returncode == 0, done.stdout
    scores = json.loads((finished / "results/validation/comparer/alignment.json").read_text(encoding="utf-8"))
    by_metric = {row["metric"]: row["value"] for row in scores if row["by"] == "comparer"}
    by_people = {row["metric"]: row["value"] for row in scores if row["by"] == "people"}
    n_labels = len(rows)
    sizes = {row["metric"]: row["n"] for row in scores}
    assert (by_metric["overall_alignment"], sizes["overall_alignment"]) == (1, 4)
    assert (by_metric["alignment_rate"], sizes["alignment_rate"]) == (0, n_labels - 4), "only overall verdicts agree"
    assert by_people["general_level"] == 0 and by_people["overall_judgement"] == 0
    page = (finished / "results/report/index.html").read_text(encoding="utf-8")
    assert "verdicts by" in page and '<td class="text">people</td>' in page.split('data-page="#/kmpbench"')[1]


def test_comparisons_are_clicked_on_a_page_and_shown_beside_the_judge(
    finished: Path, judge_server: tuple[str, Any], copied: Callable[[Path], Path], tmp_path: Path
) -> None:
    """A person compares two responses by the criteria of the judge's own rubric in a real browser."""
    folder = copied(finished)
    args = ["--rubric", "kmp_dialogue_short", "--tasks", "dialogue", "--n", "3"]
    rows, clicked = labelled_by_clicks(folder, tmp_path, *args)
    assert len(clicked) == 3 and all("overall" in answers and len(answers) > 4 for answers in clicked)
    assert len(rows) == sum(map(len, clicked)) and set(rows.task) == {"dialogue"} and set(rows.annotator) == {"ann"}
    assert set(rows.criterion) >= {"overall"} and (rows.probability.astype(float) <= 1).all()
    done = run(folder, configure(folder, judge_server[0], "people.yaml", human_labels=PEOPLE))
    assert done.returncode == 0, done.stdout
    assert PEOPLE in (folder / "results/report/config.yaml").read_text(encoding="utf-8")
