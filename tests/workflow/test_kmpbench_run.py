"""Tests of runs on KMP-Bench's demo: trivial tutors, two scripted judges with different rubrics, human labels."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from grids import uneven
from httpserver import serving
from obedient_judge import answering
from running import maieutic, overlay, planned, run

PEOPLE = "people.csv"

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
                 "Evasion by Vague Questioning", "maieutic label"):  # fmt: skip
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


def saved_answers(folder: Path, annotator: str, answer: Callable[[str, dict[str, Any]], str]) -> Path:
    """Save an annotator's answers to all questions of a sample. answer: returns the answer to one criterion of a unit."""
    key = json.loads((folder / "key.json").read_text(encoding="utf-8"))
    answers = {
        unit: {
            "labels": {name: answer(name, key["units"][unit]) for name in key["units"][unit]["criteria"]},
            "seconds": 60,
            "comment": "",
        }
        for unit in key["assigned"][annotator]
    }
    file = folder / f"labels-{annotator}.json"
    content = {
        "format": "maieutic labels 1", "sample": key["sample"], "annotator": annotator, "version": key["version"],
        "finished": True, "exported": "", "answers": answers,
    }  # fmt: skip
    file.write_text(json.dumps(content), encoding="utf-8")
    return file


def test_a_comparison_study_is_drawn_read_and_shown_beside_the_judge(
    finished: Path, judge_server: tuple[str, Any], copied: Callable[[Path], Path]
) -> None:
    """KMP-Bench, appendix I: people find every criterion a tie, and agree with the judge about the whole response."""
    folder = copied(finished)
    configured = configure(folder, judge_server[0])
    arguments = [
        "--configfile",
        "config/config.yaml",
        str(configured),
        "--rubric",
        "kmp_dialogue",
        "--tutors",
        "reveal",
    ]
    sample = maieutic(folder, "label", *arguments, "--n", "4", "--annotators", "a", "--out", STUDY)
    assert sample.returncode == 0, sample.stderr

    def answer(criterion: str, unit: dict[str, Any]) -> str:
        return "tie" if criterion != "overall" else "2" if unit["first"] else "1"

    saved = saved_answers(folder / STUDY, "a", answer)
    read = maieutic(folder, "read-labels", "--sample", STUDY, "--files", str(saved), "--out", PEOPLE)
    assert read.returncode == 0, read.stderr
    done = run(folder, configure(folder, judge_server[0], "people.yaml", human_labels=PEOPLE))
    assert done.returncode == 0, done.stdout
    n_labels = len(pd.read_csv(folder / PEOPLE))
    scores = json.loads((folder / "results/validation/comparer/alignment.json").read_text(encoding="utf-8"))
    by_metric = {row["metric"]: row["value"] for row in scores if row["by"] == "comparer"}
    by_people = {row["metric"]: row["value"] for row in scores if row["by"] == "people"}
    sizes = {row["metric"]: row["n"] for row in scores}
    assert (by_metric["overall_alignment"], sizes["overall_alignment"]) == (1, 4)
    assert (by_metric["alignment_rate"], sizes["alignment_rate"]) == (0, n_labels - 4), "only overall verdicts agree"
    assert by_people["general_level"] == 0 and by_people["overall_judgement"] == 0
    page = (folder / "results/report/index.html").read_text(encoding="utf-8")
    assert "verdicts by" in page and '<td class="text">people</td>' in page.split('data-page="#/kmpbench"')[1]


def test_people_label_the_error_types_of_lost_replies_only(
    finished: Path, judge_server: tuple[str, Any], tmp_path: Path
) -> None:
    """KMP-Bench, appendix J: the page offers the replies that lost, with the reference to which they lost."""
    arguments = ["--configfile", "config/config.yaml", str(configure(finished, judge_server[0]))]
    rubric = [
        "--rubric", "kmp_error_types", "--tutors", "reveal", "always-ask", "--annotators", "a", "--out",
        str(tmp_path / "errors"),
    ]  # fmt: skip
    sample = maieutic(finished, "label", *arguments, *rubric, "--n", "6")
    assert sample.returncode == 0, sample.stderr
    key = json.loads((tmp_path / "errors/key.json").read_text(encoding="utf-8"))
    assert {unit["tutor"] for unit in key["units"].values()} == {"reveal"}, (
        "replies that ask win, by the scripted judge"
    )
    assert list(key["criteria"]) == ["error_type"] and len(key["criteria"]["error_type"]) == 6
    page = (tmp_path / "errors/page-a.html").read_text(encoding="utf-8")
    assert page.count("Reference response") == 6
    refused = maieutic(finished, "label", *arguments, *rubric[:-1], str(tmp_path / "more"), "--n", "7")
    assert refused.returncode != 0 and "there are only 6" in refused.stderr
