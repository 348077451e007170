"""Tests of human labels, from a registry entry to the page: a user's criterion, labelled in a real browser."""

from __future__ import annotations

import asyncio
import csv
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from browser import Browser, missing_requirement
from columns import spelt
from conftest import absent
from httpserver import serving
from maieutic.core.errors import UserError
from maieutic.core.records import Scale
from maieutic.datasets.label_table import labelled_table
from maieutic.datasets.mrbench import LABELS
from obedient_judge import answering
from running import maieutic, overlay, run

PRAISE_LABELS = ("None", "Some", "Much", "Too much")  # an ordinal scale of four
PRAISE_CARD = """rubric: praise
version: 1
title: Praise
source: written for this test
like: mrbench_taxonomy
criteria:
  Praise:
    title: Praise
    definition: How much does the tutor praise the student?
    labels: ["None", "Some", "Much", "Too much"]
    desired: "Some"
""" + "".join(f"  {name}: null\n" for name in LABELS)


def praise_label(reply: str) -> str:
    """Return the label that people in this test give to a reply, by its words."""
    return PRAISE_LABELS[min(3, len(re.findall(r"[Gg]ood|[Gg]reat|[Nn]ice", reply)))] if reply else "None"


def answer_as_judge(prompt: str) -> str:
    """Answer as a judge that labels replies with a question mark Some, and agrees with people on the others."""
    if "[[A]]" in prompt:
        first, second = prompt.split("[The Start of Response A]")[1].split("[The Start of Response B]")
        return "[[A]]" if first.count("?") >= second.count("?") else "[[B]]"
    reply = prompt.split("<<<DATA-")[-1].split(">>>")[0]
    return json.dumps({"Praise": "Some" if "?" in reply else praise_label(reply)})


def answer_as_better_judge(prompt: str) -> str:
    """Answer as a judge that errs less often: only on the reply Hm. in every other dialogue."""
    if "[[A]]" in prompt:
        return "[[A]]"
    reply = prompt.split("<<<DATA-")[-1].split(">>>")[0]
    is_odd_dialogue = any(f"What is {number} plus" in prompt for number in range(1, 10, 2))
    return json.dumps({"Praise": "Much" if is_odd_dialogue and "Hm." in reply else praise_label(reply)})


@pytest.fixture(scope="module")
def judge_server() -> Iterator[str]:
    with serving(answering(answer_as_judge)) as address:
        yield address


@pytest.fixture(scope="module")
def better_server() -> Iterator[str]:
    with serving(answering(answer_as_better_judge)) as address:
        yield address


def labelled_lines(annotator: str | None = None) -> list[dict[str, Any]]:
    """Return forty replies to ten dialogues with labels, as in a user's file."""
    praises = ["Good.", "Good, great!", "Hm.", "Good, great, nice: very good work?"]
    return [
        {
            "id": f"d{number // 4}",
            "tutor": f"t{number % 4}",
            "history": f"Tutor: What is {number // 4} plus 5?\nStudent: {number // 4 + 6}.",
            "question": f"{number // 4} + 5", "reply": praises[number % 4], "criterion": "Praise",
            "label": praise_label(praises[number % 4]), "annotator": annotator or "",
        }
        for number in range(40)
    ]  # fmt: skip


def preferred(number: int) -> dict[str, Any]:
    """Return a pair of compared replies in MRBench's columns, with a winner."""
    return {
        "conversation_history": f"Tutor: What is {number} plus 5?\nStudent: {number + 6}.",
        "response_1": "Look again?" if number % 3 else "No.",
        "response_2": "Hm." if number % 3 else "How did you get there?",
        "winner": "tie" if number % 10 == 9 else "1" if number % 3 else "2",
    }


def configure(folder: Path, address: str, name: str = "own.yaml", **run_keys: Any) -> Path:
    with open(folder / "compared.csv", "w", encoding="utf-8", newline="") as handle:
        writer = csv.DictWriter(handle, list(preferred(0)))
        writer.writeheader()
        writer.writerows(preferred(number) for number in range(40))
    (folder / "resources/rubrics/praise.yaml").write_text(PRAISE_CARD, encoding="utf-8")
    lines = "\n".join(map(json.dumps, labelled_lines()))
    (folder / "praise.jsonl").write_text(lines + "\n", encoding="utf-8")
    models = {
        "scripted": {"engine": "hosted", "model": "m", "base_url": f"{address}/v1"},
        "praiser": {
            "engine": "judge", "model": "scripted", "rubrics": ["praise"], "pairs": ["pairs_simple"],
            "label": "A judge of praise",
        },
    }  # fmt: skip
    keys = {"tutors": ["reference", "always-ask"], "tasks": ["mrbench"], "judges": ["praiser"], **run_keys}
    labels = {"our_praise": {"title": "Our praise", "licence": "ours", "file": "praise.jsonl", "rubric": "praise"}}
    columns = {"history": "conversation_history", "first": "response_1", "second": "response_2", "preference": "winner"}
    preferences = {"ours": {"title": "Our pairs", "licence": "ours", "file": "compared.csv", "columns": columns}}
    registries = {"models": models, "labels": labels, "preferences": preferences}
    return overlay(folder, {**registries, "run": keys, "report": {"resamples": 100}}, name)


@pytest.fixture(scope="module")
def finished(checkouts: Callable[[], Path], judge_server: str) -> Path:
    folder = checkouts()
    done = run(folder, configure(folder, judge_server))
    assert done.returncode == 0, done.stdout
    return folder


def scores_in(path: Path) -> dict[str, dict[str, Any]]:
    return {spelt(row): row for row in json.loads(path.read_text(encoding="utf-8")) if row["scoring"] == "robust"}


def test_a_panel_of_two_judges_has_its_own_agreement_with_people(
    copied: Callable[[Path], Path], finished: Path, judge_server: str, better_server: str
) -> None:
    folder = copied(finished)
    config = json.loads(configure(folder, judge_server).read_text(encoding="utf-8"))
    price = {"input": 1.0, "output": 2.0}
    config["models"]["scripted"]["price"] = price
    config["models"]["further"] = {**config["models"]["scripted"], "base_url": f"{better_server}/v1"}
    config["models"]["second"] = {**config["models"]["praiser"], "model": "further", "label": "A better judge"}
    config["models"]["both"] = {"engine": "judge", "judges": ["praiser", "second"], "label": "Both"}
    config["run"] |= {
        "judges": ["both", "praiser", "second", "mrbench-word-lists"],
        "probes": 12,
        "encoders": ["minilm"],
    }
    config["models"]["praiser"]["family"] = ["t3"]
    (folder / "panel.yaml").write_text(json.dumps(config), encoding="utf-8")
    done = run(folder, folder / "panel.yaml")
    assert done.returncode == 0, done.stdout

    def accuracy(judge: str) -> float:
        rows = json.loads((folder / f"results/validation/{judge}/labels.json").read_text(encoding="utf-8"))
        [value] = [
            row["value"] for row in rows
            if row["grader"] == judge and row["metric"] == "accuracy" and row["scoring"] == "robust"
        ]  # fmt: skip
        return float(value)

    assert (accuracy("praiser"), accuracy("second"), accuracy("both")) == pytest.approx((0.75, 0.875, 0.75)), (
        "of two that differ, the judge named first decides"
    )
    rows = json.loads((folder / "results/validation/mrbench-word-lists/labels.json").read_text(encoding="utf-8"))
    kappas = {
        row["criterion"] for row in rows if row["metric"] == "weighted_kappa" and row["grader"] == "mrbench-word-lists"
    }
    assert {"Mistake_Identification", "Tutor_Tone"} <= kappas, "checked on MRBench's labels, without a request"
    assert (folder / "results/grades/mrbench/mrbench-word-lists/reference.jsonl").is_file()
    page = (folder / "results/report/index.html").read_text(encoding="utf-8")
    assert "<strong>Both</strong>, majority of A judge of praise, A better judge" in page
    data = json.loads(re.search(r'id="data">(.*?)</script>', page, re.DOTALL)[1])
    disputed = [
        row["id"] for row in data["shelves"]["mrbench/mistake_remediation"]["rows"] if "j" in row.get("flags", "")
    ]
    assert disputed, "judges differ on a reply"
    probes = {
        row["metric"]: row
        for row in json.loads((folder / "results/validation/praiser/probes.json").read_text(encoding="utf-8"))
    }
    lines = (folder / "results/verdicts/praiser/probes/padded.jsonl").read_text(encoding="utf-8").splitlines()
    steady = [json.loads(line)["tutor"] in {"t2", "t3"} for line in lines]
    assert probes["repeated_same"]["value"] == 1.0
    assert probes["padded_same"]["value"] == pytest.approx(sum(steady) / 12), "repeated praise raises the count"
    assert (probes["repeated_same"]["n"], probes["repeated_same"]["release"]) == (12, "our_praise")
    assert "reworded_same" not in probes
    assert "shuffled_same" not in probes, "the rubric has one criterion and one wording"
    assert probes["self_preference"]["value"] == 1.0, "it errs only on the tutor of its family, always in its favour"
    journal = (folder / "results/journal/grades/praiser/labelled.jsonl").read_text(encoding="utf-8").splitlines()
    before = (finished / "results/journal/grades/praiser/labelled.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(journal) - len(before) == 24, "two probes of twelve replies, and no repeated request"
    assert "What should not matter" in page
    lines = (folder / "results/rewards/closeness/minilm/our_praise.jsonl").read_text(encoding="utf-8").splitlines()
    close = {(row["id"], row["tutor"]): row for row in map(json.loads, lines)}
    assert len(close) == 40 and all(-1 <= row["last_turn"] <= 1 for row in close.values())
    assert len({row["dialogue"] for row in close.values()}) > 20, "values differ between replies and dialogues"
    rows = json.loads((folder / "results/scores/labels/our_praise.json").read_text(encoding="utf-8"))
    by = {row["by"]: row for row in rows if row["metric"] == "measure_correlation"}
    assert set(by) == {"words", "uptake", "overlap", "minilm, last turn", "minilm, dialogue"}
    assert all(row["n"] == 40 for row in by.values())
    costs = re.findall(r'<th class="name">Both.*?</tr>', page.split("Cost of judging")[1])
    assert costs and all(not row.endswith("<td>–</td></tr>") for row in costs), "its judges have prices"


def test_a_users_criterion_goes_from_its_entry_to_a_light_without_code(finished: Path) -> None:
    rows = json.loads((finished / "results/validation/praiser/labels.json").read_text(encoding="utf-8"))
    scores = {row["metric"]: row for row in rows if row["grader"] == "praiser" and row["scoring"] == "robust"}
    assert scores["weighted_kappa"]["release"] == "our_praise"
    assert scores["weighted_kappa"]["n"] == 40
    assert scores["accuracy"]["value"] == pytest.approx(0.75), "errs on questions"
    assert "lenient_accuracy" not in scores and "ac_paper" not in scores, "these measures need three labels"
    floors = {row["grader"] for row in rows if row["by"] == "praiser" and row["grader"]}
    assert floors == {"majority label", "constant", "word counts"}, "there is no word list for this criterion"
    page = (finished / "results/report/index.html").read_text(encoding="utf-8")
    assert "Our praise" in page and re.search(r'class="light (green|amber|red)">', page)
    by_people = json.loads((finished / "results/scores/labels/our_praise.json").read_text(encoding="utf-8"))
    assert {row["tutor"] for row in by_people if row["metric"] == "damr"} == {"t0", "t1", "t2", "t3"}


def test_a_users_preferences_are_judged_beside_the_shipped_ones(finished: Path) -> None:
    rows = json.loads((finished / "results/validation/praiser/preferences/ours.json").read_text(encoding="utf-8"))
    by_metric = {row["metric"]: row for row in rows}
    assert {row["task"] for row in rows} == {"ours_pairs"}
    assert by_metric["pair_accuracy"]["n"] == 72, "36 pairs, two orders"
    assert by_metric["pair_accuracy"]["value"] == 1.0, "the judge prefers the reply that asks"
    assert by_metric["accuracy_with_ties"]["n"] == 40 and by_metric["accuracy_with_ties"]["value"] == pytest.approx(0.9)
    bridge = json.loads((finished / "results/validation/praiser/pairs.json").read_text(encoding="utf-8"))
    assert {row["task"] for row in bridge} == {"bridge_pairs"}
    page = (finished / "results/report/index.html").read_text(encoding="utf-8")
    assert "Preferences: Our pairs" in page and "people are tied on 4" in page and "Preferences: Bridge" in page


INVALID_LINES = {
    "a label outside the scale": ({"label": "Lots"}, r"record 41: Praise has no label 'Lots'.*None, Some, Much"),
    "another criterion": ({"criterion": "Tone"}, r"record 41: the set has no criterion 'Tone'\. Fix: use one of Praise"),
    "the same label twice": ({"id": "d0"}, r"record 41: an unnamed annotator already labelled Praise for d0 and t0 in record 1"),
    "another reply": ({"id": "d0", "reply": "Well."}, r"record 41: d0 has a different reply in an earlier line"),
    "another context": ({"id": "d0", "question": "?"}, r"record 41: d0 has a different context \(question\) in an earlier line"),
    "no reply": ({"reply": ""}, r"record 41: reply is not text"),
    "no tutor": ({"tutor": " "}, r"record 41: tutor is missing"),
}  # fmt: skip


@pytest.mark.parametrize(("change", "expected"), INVALID_LINES.values(), ids=INVALID_LINES)
def test_an_invalid_line_of_labels_is_reported(change: dict[str, str], expected: str) -> None:
    lines = labelled_lines()
    lines.append({**lines[0], "id": "new", "label": "None", **change})
    with pytest.raises(UserError) as error:
        labelled_table({"Praise": Scale(labels=PRAISE_LABELS, desired="Some")}, lines)
    assert re.search(expected, error.value.line), error.value.line


def test_invalid_labels_are_reported_before_any_work(
    finished: Path, copied: Callable[[Path], Path], judge_server: str
) -> None:
    folder = copied(finished)
    config = configure(folder, judge_server)
    with open(folder / "praise.jsonl", "a", encoding="utf-8") as handle:
        handle.write(json.dumps({**labelled_lines()[0], "id": "new", "label": "Lots"}) + "\n")
    done = run(folder, config, "-n")
    assert done.returncode != 0 and "praise.jsonl, record 41: Praise has no label 'Lots'" in done.stdout
    (folder / "praise.jsonl").write_text("5\n", encoding="utf-8")
    done = run(folder, config, "-n")
    assert done.returncode != 0 and "praise.jsonl" in done.stdout and "Traceback (" not in done.stdout
    configure(folder, judge_server)
    people = "task,item,tutor,criterion,label\nmistake_remediation,x,nobody,Praise,Some\n"
    (folder / "people.csv").write_text(people, encoding="utf-8")
    done = run(folder, configure(folder, judge_server, human_labels="people.csv"), "-n")
    assert done.returncode != 0 and "people.csv:2: 'nobody' is not in the tutors of this run" in done.stdout


async def label_all(page: Path, folder: Path, label: Callable[[str], str], picture: Path | None = None) -> Path:
    """Label a whole page as a person does: click answers, go forward and back, undo, and save. Return the saved file.

    label: function that labels a reply. picture: file for a picture of the page.
    """
    async with Browser(folder) as browser:
        await browser.open(page)
        units = await browser.wait("ready && data.units.length")
        assert (
            await browser.run("document.querySelector('#progress').textContent")
            == f"0 of {units} labelled, showing unit 1"
        )
        for number in range(units):
            reply = await browser.run("document.querySelector('.reply .text').textContent")
            value = label(reply)
            if number == 0:  # a wrong click, undone by a key
                await browser.click('input[value="Too much"] + span')
                assert await browser.run("finished()") == 1
                await browser.press("Control+z")
                assert await browser.run("finished()") == 0
            if number == 1:  # answered by a key
                await browser.press(str(PRAISE_LABELS.index(value) + 1))
            else:
                await browser.click(f'input[value="{value}"] + span')
            await asyncio.sleep(0.32)  # a faster answer would be counted as not read
            if number == 2:  # reloading the page keeps answers and position
                await browser.open(page)
                assert await browser.wait("finished() === 3 && at === 2"), "three answers and the position are kept"
                await asyncio.sleep(0.32)  # the reload may have lost the time since the last answer
            if number == 3 and picture:
                await browser.picture(picture)
            if number < units - 1:
                await browser.click("#next")
        assert await browser.wait("finished() === data.units.length")
        assert "All units are labelled" in await browser.run("document.querySelector('#told').textContent")
        await browser.click("#export")
        annotator = await browser.run("data.annotator")
        saved = await browser.downloaded(f"labels-{annotator}.json")
        await browser.run("answers = {}, show(), meter()")
        assert await browser.run("finished()") == 0
        await browser.choose("#import", saved)
        assert await browser.wait("finished() === data.units.length"), "the saved file is loaded again"
        await browser.press("Control+z")
        assert await browser.run("finished()") == 0, "loading can be undone"
        # A second tab without answers does not overwrite those that the first one has stored.
        await browser.run("answer(data.units[0], data.units[0].criteria[0].name, 'None')")
        await browser.run("touched.clear(), answers = {}, keep(), restore()")
        assert await browser.run("finished()") == 1
        return saved


def test_a_sample_is_labelled_by_clicking_and_corrects_the_judge(
    finished: Path, judge_server: str, tmp_path: Path
) -> None:
    """Two people label a blind sample in Chromium, and a third one decides; the page shows the corrected rate."""
    if missing := missing_requirement():
        absent(*missing)
    config = configure(finished, judge_server)
    args = ["--configfile", str(config), "--n", "30", "--overlap", "2", "--out", "sample", "--annotators", "ann", "ben"]
    drawing = maieutic(finished, "label", *args)
    assert drawing.returncode == 0, drawing.stderr
    key = json.loads((finished / "sample/key.json").read_text(encoding="utf-8"))
    page = finished / "sample/page-ann.html"
    text = page.read_text(encoding="utf-8")
    assert not re.search(r'(?:src|href)\s*=\s*"(?!data:)', text), "the page loads nothing"
    for unit in key["units"].values():
        assert unit["item"] not in text and not re.search(rf'"{unit["tutor"]}"', text), "blind"
    again = maieutic(finished, "label", *args[:-5], "--out", "sample", "--annotators", "ann", "ben")
    assert again.returncode == 2 and "the folder exists already" in again.stderr

    saved_by_ann = asyncio.run(label_all(page, tmp_path / "ann", praise_label, tmp_path / "page.png"))
    reply_numbers = iter(range(100))
    saved_by_ben = asyncio.run(
        label_all(
            finished / "sample/page-ben.html",
            tmp_path / "ben",
            lambda reply: "Much" if next(reply_numbers) in (5, 9) else praise_label(reply),
        )
    )
    command = ["read-labels", "--sample", "sample", "--out", "people.csv", "--files"]
    read = maieutic(finished, *command, str(saved_by_ann))
    assert read.returncode == 2 and "ben: found no file of labels; 2 annotators per unit were planned" in read.stderr
    read = maieutic(finished, *command, str(saved_by_ann), str(saved_by_ben), "--resolver", "eva")
    assert read.returncode == 0, read.stderr
    assert "questions without agreement: 2" in read.stdout
    assert re.search(r"Praise +30 +30 +0\.\d\d +0\.\d\d +0\.\d\d", read.stdout)
    saved_by_eva = asyncio.run(label_on_phone(finished / "sample/page-eva.html", tmp_path / "eva", praise_label))
    read = maieutic(finished, *command, str(saved_by_ann), str(saved_by_ben), str(saved_by_eva), "--resolver", "eva")
    assert read.returncode == 0 and "questions without agreement: 0" in read.stdout, read.stdout + read.stderr
    with open(finished / "people.csv", encoding="utf-8") as handle:
        rows = list(csv.DictReader(handle))
    assert len(rows) == 62 and {row["resolves"] for row in rows} == {"", "yes"}
    sizes = {name: size for name, (size, _) in key["strata"].items()}
    for row in rows:
        stratum = row["stratum"].removeprefix(f"{key['sample']}: ")
        drawn_units = sum(unit["stratum"] == stratum for unit in key["units"].values())
        assert float(row["probability"]) == pytest.approx(drawn_units / sizes[stratum])
        assert int(row["stratum_size"]) == sizes[stratum]
    done = run(finished, configure(finished, judge_server, "labelled.yaml", human_labels="people.csv"))
    assert done.returncode == 0, done.stdout
    scores = scores_in(finished / "results/validation/praiser/people.json")
    rates = {name: row for name, row in scores.items() if name.endswith("/Praise")}
    assert {"ppi/Praise", "ppi_judge/Praise", "ppi_labels/Praise"} <= set(rates), list(scores)
    report = (finished / "results/report/index.html").read_text(encoding="utf-8")
    for text in ("Corrected by people", "labels saved", "Krippendorff"):
        assert text in report, text


async def label_on_phone(page: Path, folder: Path, label: Callable[[str], str], annotator: str = "eva") -> Path:
    """Label a page in a browser as narrow as a phone. Return the saved file."""
    async with Browser(folder, width=420, height=800) as browser:
        await browser.open(page)
        await browser.wait("ready")
        assert await browser.run("document.documentElement.scrollWidth <= innerWidth"), "it fits a phone"
        units = await browser.run("data.units.length")
        for number in range(units):
            reply = await browser.run("document.querySelector('.reply .text').textContent")
            await browser.click(f'input[value="{label(reply)}"] + span')
            await asyncio.sleep(0.32)
            if number < units - 1:
                await browser.click("#next")
        await browser.click("#export")
        return await browser.downloaded(f"labels-{annotator}.json")


def test_pairs_of_two_tutors_are_compared_by_clicking_and_check_a_judge(
    finished: Path, copied: Callable[[Path], Path], judge_server: str, tmp_path: Path
) -> None:
    if missing := missing_requirement():
        absent(*missing)
    folder = copied(finished)
    args = ["--configfile", "own.yaml", "--against", "always-ask", "--n", "8", "--annotators", "ann", "--out", "pairs"]
    drawing = maieutic(folder, "label", *args)
    assert drawing.returncode == 0, drawing.stderr
    assert "8 pairs from 1 strata" in drawing.stdout and "--out preferences.csv" in drawing.stdout
    page = folder / "pairs/page-ann.html"
    key = json.loads((folder / "pairs/key.json").read_text(encoding="utf-8"))
    for unit in key["units"].values():
        assert unit["other"] == "always-ask" and '"always-ask"' not in page.read_text(encoding="utf-8"), "blind"
    saved = asyncio.run(label_on_phone(page, tmp_path / "ann", lambda first: "1" if "?" in first else "2", "ann"))
    read = maieutic(folder, "read-labels", "--sample", "pairs", "--files", str(saved), "--out", "preferences.csv")
    assert read.returncode == 0, read.stderr
    with open(folder / "preferences.csv", encoding="utf-8") as handle:
        rows = list(csv.DictReader(handle))
    assert len(rows) == 8 and {row["annotator"] for row in rows} == {"ann"}
    for row in rows:
        assert "?" in row[row["preference"]] and row["history"] and row["problem"]
    config = json.loads(configure(folder, judge_server).read_text(encoding="utf-8"))
    entry = {"title": "Pairs of this run", "licence": "ours", "file": "preferences.csv"}
    config["preferences"]["own_pairs"] = entry
    config["run"]["preferences"] = ["ours", "own_pairs"]
    (folder / "pairs.yaml").write_text(json.dumps(config), encoding="utf-8")
    done = run(folder, folder / "pairs.yaml")
    assert done.returncode == 0, done.stdout
    scores = scores_in(folder / "results/validation/praiser/preferences/own_pairs.json")
    [accuracy] = [row for name, row in scores.items() if name.startswith("pair_accuracy")]
    assert accuracy["n"] == 16, "both orders of eight pairs"
    bad = maieutic(folder, "label", *args[:-1], "other", "--rubric", "praise")
    assert bad.returncode == 2 and "--against: cannot be combined with --rubric" in bad.stderr
    bad = maieutic(folder, "label", *args[:-1], "other", "--tutors", "nobody")
    assert bad.returncode == 2 and "'nobody' is not in the tutors of this run" in bad.stderr
    assert not (folder / "other").exists()


async def read_verdicts(page: Path, folder: Path) -> dict[str, Any]:
    """Follow a cell of a confusion matrix to its replies, and read who gave which verdict; count the clicks."""
    observed: dict[str, Any] = {}
    async with Browser(folder) as browser:
        await browser.open(page)
        await browser.click('nav a[href="#/trust"]')
        fold = browser.page.locator("section:not([hidden]) details.fold", has_text="label by label")
        await fold.locator("summary").first.click()
        cell = fold.locator(".confusions td:not(.agrees) a").first
        observed["n"] = int(await cell.inner_text())
        await cell.click()
        await browser.wait("document.querySelector('section:not([hidden]) .verdicts') !== null")
        observed["count"] = await browser.run("document.querySelector('section:not([hidden]) .count').textContent")
        await browser.click("section:not([hidden]) .verdicts button")
        observed["told"] = await browser.run("document.querySelector('section:not([hidden]) .told-verdict').innerText")
        await browser.open(page)
        await browser.click('nav a[href="#/items"]')
        await browser.page.select_option("section:not([hidden]) [data-filter=Question] select", "apart")
        observed["apart"] = await browser.wait("document.querySelectorAll('section:not([hidden]) .item').length")
        observed["faults"] = browser.faults
    return observed


def test_the_judge_that_agrees_with_people_leads(
    copied: Callable[[Path], Path], finished: Path, judge_server: str, better_server: str
) -> None:
    """The second judge agrees with people on every reply, so the scores and the page lead with it."""
    folder = copied(finished)
    config = json.loads(configure(folder, judge_server).read_text(encoding="utf-8"))
    config["models"]["further"] = {**config["models"]["scripted"], "base_url": f"{better_server}/v1"}
    config["models"]["second"] = {**config["models"]["praiser"], "model": "further", "label": "A better judge"}
    lines = ["task,item,tutor,criterion,label,annotator"]
    for tutor in ("reference", "always-ask", "reveal"):
        text = (folder / f"results/replies/mrbench/{tutor}.jsonl").read_text(encoding="utf-8")
        for reply in (reply for reply in map(json.loads, text.splitlines()) if reply["turns"]):
            label = praise_label(reply["turns"][0]["text"])
            lines.append(f"{reply['task']},{reply['id']},{tutor},Praise,{label},ann")
    (folder / "people.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    keys = {"tutors": ["reference", "always-ask", "reveal"], "judges": ["praiser", "second"]}
    config["run"] |= {**keys, "human_labels": "people.csv", "leading_judge": "best"}
    (folder / "led.yaml").write_text(json.dumps(config), encoding="utf-8")
    done = run(folder, folder / "led.yaml")
    assert done.returncode == 0, done.stdout
    choice = json.loads((folder / "results/validation/leading_judge.json").read_text(encoding="utf-8"))
    agreement = {row["judge"]: row for row in choice["rows"]}
    assert choice["leader"] == "second" and choice["enough"]
    assert agreement["praiser"]["chosen_on"]["value"] < agreement["second"]["chosen_on"]["value"]
    halves = [agreement["second"][half]["n"] for half in ("chosen_on", "shown_on")]
    assert sum(halves) == len(lines) - 1 and abs(halves[0] - halves[1]) < sum(halves) / 2
    table = pd.read_csv(folder / "results/report/scores.csv")
    assert set(table[table.headline & table.by.notna()].by) == {"second"}
    page = (folder / "results/report/index.html").read_text(encoding="utf-8")
    assert "A better judge leads: of the run's judges" in page.replace("&#39;", "'")
    config["run"].pop("human_labels")
    (folder / "led.yaml").write_text(json.dumps(config), encoding="utf-8")
    refused = run(folder, folder / "led.yaml", "-n")
    assert refused.returncode != 0 and "run.leading_judge: the best judge is the one that agrees" in refused.stdout


@pytest.mark.slow
def test_a_cell_of_a_confusion_matrix_opens_its_replies(
    copied: Callable[[Path], Path], finished: Path, judge_server: str, tmp_path: Path
) -> None:
    """The judge labels a reply that asks with Some, whatever people say of it."""
    if missing := missing_requirement():
        absent(*missing)
    observed = asyncio.run(read_verdicts(finished / "results/report/index.html", tmp_path))
    assert 0 < int(observed["count"].split()[0]) <= observed["n"], "several people may have labelled a reply"
    assert observed["told"].startswith("Praise, ") and "How much does the tutor praise" in observed["told"]
    assert "A judge of praise: " in observed["told"] and "People" in observed["told"]
    assert observed["apart"] > 0 and observed["faults"] == []
