"""Tests of runs on TutorBench's demo: tutors with and without pictures, a scripted judge, taggers, human ratings."""

from __future__ import annotations

import csv
import json
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from columns import spelt
from grids import uneven
from httpserver import chat, scripted, serving
from running import maieutic, overlay, planned, run

PEOPLE = "people.csv"

HEAD = "task,item,tutor,criterion,label,annotator\n"


def text_of(message: dict[str, Any]) -> str:
    """Return the text of a message, with or without pictures."""
    content = message["content"]
    return content if isinstance(content, str) else " ".join(part.get("text", "[picture]") for part in content)


def answer(body: dict[str, Any]) -> str:
    """Pass criteria that the reply names as judge, answer Apply as tagger, and name the first two criteria as tutor."""
    prompt = "\n".join(map(text_of, body["messages"]))
    if "Bloom" in prompt:
        return json.dumps({"bloom": "Apply" if body["model"] != "other" else "Create"})
    if "Tag a criterion" in prompt:
        return json.dumps({"skill": "examples", "dimension": "truthfulness", "explicitness": "explicit"})
    if "Grade an AI tutor's reply" in prompt or "You grade what an AI tutor says" in prompt:
        names = re.findall(r"^(c\d\d): ", prompt, re.MULTILINE)
        reply = prompt.split("<<<DATA-")[-1].split(">>>")[0]
        verdicts = {
            name: {"reason": f"looked for {name}", "verdict": "pass" if name in reply else "fail"} for name in names
        }
        if len(verdicts) > 1 and "c03" in verdicts:
            del verdicts["c03"]  # a missing verdict, so that the judge receives a second question
        return json.dumps(verdicts)
    return "c01 <b>and</b> c02"


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[str, Any]]:
    with serving(handler := scripted(lambda n, body: (200, chat({"content": answer(body)}), {}))) as address:
        yield address, handler


def configure(folder: Path, address: str, name: str = "overlay.yaml", **run_keys: Any) -> Path:
    hosted = {"engine": "hosted", "base_url": f"{address}/v1"}
    models = {
        "seer": {**hosted, "model": "seer", "images": True},
        "blind": {**hosted, "model": "blind"},
        "answers": {**hosted, "model": "judge"},
        "other": {**hosted, "model": "other"},
        "ruler": {"engine": "judge", "model": "answers", "rubrics": ["tutorbench"]},
        "one": {"engine": "judge", "model": "answers", "tags": ["tutorbench_bloom", "tutorbench_criterion"]},
        "two": {"engine": "judge", "model": "seer", "tags": ["tutorbench_bloom"]},
        "three": {"engine": "judge", "model": "other", "tags": ["tutorbench_bloom"]},
    }
    keys = {
        "tutors": ["seer", "blind"], "tasks": ["tutorbench/text", "tutorbench/multimodal"], "judges": ["ruler"],
        "labels": [], "taggers": ["one", "two", "three"],
        "difficulty": {"tutors": ["seer", "blind"], "at_least": 1},
        "max_unreadable": 0.3,  # the tagger always omits the tag `objectivity`
        **run_keys,
    }  # fmt: skip
    return overlay(folder, {"models": models, "run": keys, "report": {"resamples": 100}}, name)


@pytest.fixture(scope="module")
def finished(checkouts: Callable[[], Path], server: tuple[str, Any]) -> Path:
    folder = checkouts()
    done = run(folder, configure(folder, server[0]))
    assert done.returncode == 0, done.stdout
    return folder


def subset_suffix(subset: object) -> str:
    """Return the suffix of a metric for a breakdown's subset."""
    return f"/{subset}" if isinstance(subset, str) else ""


def scores(folder: Path) -> pd.DataFrame:
    table = pd.read_csv(folder / "results/report/scores.csv")
    table = table[table.scoring == "robust"].assign(of=lambda rows: rows.metric.str.cat(rows.subset.map(subset_suffix)))
    return table.set_index(["task", "tutor", "of"])


def items(folder: Path) -> dict[tuple[str, str], dict[str, Any]]:
    items_by_key = {}
    for task in ("text", "multimodal"):
        for line in (folder / f"results/items/tutorbench/{task}.jsonl").read_text(encoding="utf-8").splitlines():
            items_by_key[task, json.loads(line)["id"]] = json.loads(line)
    return items_by_key


def expected_score(item: dict[str, Any]) -> float:
    """Return the ARR_w of a reply that passes only c01 and c02."""
    criteria, tags = item["reference"]["criteria"], item["reference"]["criterion_tags"]
    total = 0.0
    for name, criterion in criteria.items():
        passed = name in {"c01", "c02"}
        counted = passed if criterion["weight"] > 0 or not tags[name]["prohibits"] else not passed
        total += criterion["weight"] * counted
    return total / sum(criterion["weight"] for criterion in criteria.values() if criterion["weight"] > 0)


def test_the_scores_are_those_by_hand_and_overall_is_weighted_by_samples(finished: Path) -> None:
    table, items_by_key = scores(finished), items(finished)
    means = {}
    for task in ("text", "multimodal"):
        values = [expected_score(item) for (item_task, _), item in items_by_key.items() if item_task == task]
        means[task] = sum(values) / len(values)
        row = table.loc[(task, "seer", "arr_w")]
        assert row.headline and row.value == pytest.approx(means[task], abs=1e-6) and row.by == "ruler"
    assert table.loc[("release", "seer", "overall")].value == pytest.approx(sum(means.values()) / 2, abs=1e-6)
    assert table.loc[("release", "seer", "modality/multimodal")].value == pytest.approx(means["multimodal"], abs=1e-6)
    assert table.loc[("release", "seer", "overall")].normal > 0
    readings = [
        table.loc[("text", "seer", f"arr_w_{reading}")].value for reading in ("by_phrasing", "violated", "satisfied")
    ]
    assert len(set(readings)) > 1, "the readings differ, as the demo has a fault and prohibitions"


def test_a_tutor_that_takes_no_pictures_is_not_asked_and_has_no_zero(finished: Path, server: tuple[str, Any]) -> None:
    blind_requests = [body for _, _, body in server[1].requests if body["model"] == "blind"]
    assert blind_requests
    assert not any("[picture]" in text_of(message) for body in blind_requests for message in body["messages"])
    seer_requests = [body for _, _, body in server[1].requests if body["model"] == "seer"]
    with_pictures = ["\n".join(map(text_of, body["messages"])) for body in seer_requests]
    with_pictures = [prompt for prompt in with_pictures if "[picture]" in prompt]
    assert sum("Bloom" not in prompt for prompt in with_pictures) == 3, "as a tutor"
    assert sum("Bloom" in prompt for prompt in with_pictures) == 3, "as a tagger"
    table = scores(finished)
    assert ("multimodal", "blind", "arr_w") not in table.index
    assert pd.isna(table.loc[("release", "blind", "overall")].value)
    assert table.loc[("release", "blind", "answered")].n == 3
    page = (finished / "results/report/index.html").read_text(encoding="utf-8")
    assert uneven(page) == []
    assert 'title="this tutor does not accept pictures">n/a' in page


def test_tutors_are_compared_on_what_both_have_answered(finished: Path) -> None:
    table = pd.read_csv(finished / "results/report/differences.csv")
    assert set(table.task) == {"text"}, "one of the two does not accept pictures"
    assert set(zip(table["first"], table["second"], strict=True)) == {("blind", "seer")}
    row = table[table.scoring == "robust"].iloc[0]
    values = scores(finished).value
    difference = values["text", "blind", row.metric] - values["text", "seer", row.metric]
    assert row.value == pytest.approx(difference, abs=1e-6) and (row.by, row.metric) == ("ruler", "arr_w")
    assert row.low <= row.value <= row.high and row.p <= row.p_holm <= 1 and pd.isna(row.mcnemar_p)


def test_what_the_judge_left_out_was_asked_again_and_its_reasons_are_kept(finished: Path) -> None:
    path = finished / "results/verdicts/ruler/tutorbench/seer.jsonl"
    judgements = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    items_by_key = items(finished)
    verdicts: dict[tuple[str, str], dict[str, Any]] = {}
    for judgement in judgements:
        for verdict in judgement["verdicts"]:
            verdicts.setdefault((judgement["task"], judgement["id"]), {})[verdict["criterion"]] = verdict
    assert set(verdicts) == set(items_by_key)
    for key, verdicts_of_item in verdicts.items():
        assert set(verdicts_of_item) == set(items_by_key[key]["reference"]["criteria"])
        assert all(verdict["reason"] == f"looked for {name}" for name, verdict in verdicts_of_item.items())
    assert any(len(judgement["verdicts"]) == 1 for judgement in judgements), "a separate question for c03"


def test_tags_votes_and_the_hard_items(finished: Path) -> None:
    tags = json.loads((finished / "results/scores/tags/tutorbench.json").read_text(encoding="utf-8"))
    assert tags["covered"] == 1.0 and set(tags["bloom"].values()) == {"apply"}
    assert {row["tag"] for row in tags["with_release"]} == {"bloom", "skill", "dimension", "explicitness"}
    assert scores(finished).loc[("release", "seer", "bloom_vote/apply")].n == 6
    with open(finished / "results/scores/difficulty/tutorbench.csv", encoding="utf-8", newline="") as handle:
        rows = list(csv.DictReader(handle))
    items_by_key = items(finished)
    for row in rows:
        value = expected_score(items_by_key[row["task"], row["item"]])
        assert row["hard"] == ("yes" if value < 0.5 else "unknown" if row["task"] == "multimodal" else "no")
        assert float(row["seer"]) == pytest.approx(value, abs=1e-4)


def test_the_page_has_the_tables_the_pictures_and_no_foreign_markup(finished: Path) -> None:
    page = (finished / "results/report/index.html").read_text(encoding="utf-8")
    section = page.split('data-page="#/tutorbench"')[1].split('data-page="#/')[0]
    for text in (
        "Table 1",
        "Gemini 2.5 Pro",
        "GPT-5 study mode",
        "By use case (Figure 3)",
        "By tutoring skill (Figure 5)",
    ):
        assert text in section
    assert section.count("data:image/jpeg;base64,") == 3
    assert "c01 &lt;b&gt;and&lt;/b&gt; c02" in section and "<b>and</b> c02" not in page
    assert "looked for c01" in section


def test_a_partial_report_needs_no_pictures(finished: Path, tmp_path: Path) -> None:
    """The first run of the release stops until its pictures are pinned; a page of the other results exists then."""
    results = tmp_path / "results"
    shutil.copytree(finished / "results", results)
    (results / "items/tutorbench/multimodal.jsonl").unlink()
    shutil.rmtree(results / "scores/breakdowns")
    args = ["--config", str(results / "report/config.yaml"), "--results", str(results), "--out", str(tmp_path / "page")]
    done = maieutic(finished, "build-report", *args, "--missing-ok")
    assert done.returncode == 0, done.stderr
    assert "TutorBench's tables" in (tmp_path / "page/index.html").read_text(encoding="utf-8")


def test_ratings_of_people_make_summaries_only(finished: Path, server: tuple[str, Any]) -> None:
    rows = [
        f"{task},{item},seer,{name},{label},{annotator}"
        for task, item in items(finished)
        for name, labels in {"c01": ("pass", "pass", "fail"), "c02": ("pass", "fail", "fail")}.items()
        for annotator, label in zip(("ann", "ben", "cem"), labels, strict=True)
    ]
    (finished / PEOPLE).write_text(HEAD + "\n".join(rows) + "\n", encoding="utf-8")
    config = configure(finished, server[0], "people.yaml", human_labels=PEOPLE)
    jobs = {job.split()[0] for job in planned(finished, config)}
    assert jobs == {
        "rate_judge", "correct_by_people", "save_config", "save_labels", "build_report", "check_report", "keep_run",
        "check_judges",
    }  # fmt: skip
    before = len(server[1].requests)
    done = run(finished, config)
    assert done.returncode == 0, done.stdout
    assert len(server[1].requests) == before
    ratings = json.loads((finished / "results/validation/ruler/raters/tutorbench.json").read_text(encoding="utf-8"))
    value = {(row["grader"], spelt(row)): row["value"] for row in ratings}
    # The judge passes both criteria, the majority only c01: as many false positives as true ones, no false negatives.
    assert value["ruler", "f1/all"] == pytest.approx(2 / 3)
    assert value["ruler", "agreement/ann"] == 1.0 and value["ruler", "agreement/cem"] == 0.0
    assert value["all", "mean_agreement"] == pytest.approx((1 + 2 + 1) / 12)
    page = (finished / "results/report/index.html").read_text(encoding="utf-8")
    assert "Number of people by their agreement with the others" in page


def test_tags_of_a_judge_do_not_repeat_its_judging(finished: Path, server: tuple[str, Any]) -> None:
    path = configure(finished, server[0], "tags.yaml")
    content = json.loads(path.read_text(encoding="utf-8"))
    content["models"]["ruler"]["tags"] = ["tutorbench_bloom"]
    path.write_text(json.dumps(content), encoding="utf-8")
    assert not any("judge_replies" in job or "judge_labelled" in job for job in planned(finished, path))


def test_another_reading_of_weights_sends_no_requests(finished: Path, server: tuple[str, Any]) -> None:
    config = configure(finished, server[0], "reading.yaml", negative_weights="violated")
    jobs = {job.split()[0] for job in planned(finished, config)}
    assert jobs == {
        *("grade_verdicts", "score_replies", "compare_tutors", "break_down", "filter_by_difficulty"),
        *("save_config", "build_report", "check_report", "keep_run", "check_judges"),
    }
