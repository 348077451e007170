"""Tests of the training of annotators: its file, a real page with scripted annotators, and the corrected rates."""

from __future__ import annotations

import asyncio
import csv
import json
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser import Browser, missing_requirement
from conftest import absent
from maieutic.config.rubrics import read_rubric
from maieutic.core.errors import UserError
from maieutic.core.records import Item, Label, Scale
from maieutic.core.stats import BootstrapSettings
from maieutic.people.annotation_files import SampleBrief
from maieutic.people.labels import COLUMNS, resolved_labels
from maieutic.people.read_labels_command import read_labels
from maieutic.people.reliability import (
    CorrectedLabels,
    Reliability,
    corrected_labels,
    read_reliability,
    share_variance,
)
from maieutic.people.sample import Candidate, Key, assign_units, draw_sample, guideline_version
from maieutic.people.school import PASS_MARK, School, desired_by_criterion, read_school, school_of, sheets_with_school
from maieutic.report.trust import why_uncorrected
from maieutic.tools.labelling import with_school, write_sample
from maieutic.validation.corrected_rates import corrected_rates, survey_rate
from maieutic.validation.survey_estimators import CorrectedRate, corrected_interval

RUBRIC = read_rubric("mrbench_taxonomy")
CRITERION = "Actionability"
WORDS = ("Yes", "To some extent", "No")


def school_line(part: str, number: int, label: str = "Yes", **changes: Any) -> dict[str, Any]:
    line = {
        "part": part, "vars": {"question": f"What is {number} plus 7?"}, "response": f"{part}-{number}",
        "labels": {CRITERION: label}, **({"reasons": {CRITERION: "It names a step."}} if part == "training" else {}),
    }  # fmt: skip
    return {**line, **changes}


SCHOOL = [
    *(school_line("training", number, WORDS[number]) for number in range(2)),
    *(school_line("quiz", number, WORDS[number % 3]) for number in range(5)),
    *(school_line("gold", number, WORDS[2 * (number % 2)]) for number in range(4)),
]


def school_file(folder: Path, lines: list[Any]) -> Path:
    path = folder / "school.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    return path


# The file -----------------------------------------------------------------------------------------------------------

FAULTS: dict[str, tuple[list[Any], str]] = {
    "an unknown part": ([*SCHOOL, school_line("exam", 1)], r"school.jsonl:12: part"),
    "an unknown criterion": ([school_line("quiz", 1, labels={"Tone": "Yes"})], r":1: the rubric has no criterion 'Tone'"),
    "an unknown label": ([school_line("quiz", 1, "Maybe")], r":1: Actionability has no label 'Maybe'.*Yes, To some extent, No"),
    "no labels": ([school_line("gold", 1, labels={})], r":1: the unit has no labels"),
    "no quiz": ([line for line in SCHOOL if line["part"] != "quiz"], r"found none of quiz"),
    "not a mapping": ([*SCHOOL, ["x"]], r":12: the line"),
    "a reason without a label": ([school_line("quiz", 1, reasons={"Tone": "So."})], r":1: Tone has a reason, but no label"),
    "two faults": ([school_line("exam", 1), school_line("quiz", 2, "Maybe")], r"(?s):1: part.*:2: Actionability has no label"),
}  # fmt: skip


@pytest.mark.parametrize(("lines", "message"), FAULTS.values(), ids=FAULTS)
def test_every_fault_of_a_school_is_named(lines: list[Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=message):
        read_school(school_file(tmp_path, lines), RUBRIC.rubric)


def test_a_school_may_have_a_mark_of_its_encoding_and_any_line_ends_within_texts(tmp_path: Path) -> None:
    path = school_file(tmp_path, [*SCHOOL, school_line("gold", 9, response="One\u2028two")])
    path.write_text("\ufeff" + path.read_text(encoding="utf-8").replace("\\u2028", "\u2028"), encoding="utf-8")
    assert read_school(path, RUBRIC.rubric)[-1].response == "One\u2028two"


def test_a_checklist_has_desired_labels_too() -> None:
    rubric = read_rubric("kmp_followup_problems").rubric
    assert desired_by_criterion(rubric) == dict.fromkeys(rubric.criteria, "pass")


# A sample with a school ---------------------------------------------------------------------------------------------


def sample_with_school(folder: Path, names: tuple[str, ...] = ("ann", "ben"), repeats: int = 2) -> Key:
    """Write a sample of six replies, labelled by each annotator, with a school. Return its key."""
    criteria = {CRITERION: RUBRIC.rubric.criteria[CRITERION]}
    candidates = [
        Candidate("t", Item(id=f"i{number}", task="t", cluster=f"i{number}", vars={}, reference={}), "bob", (f"Reply {number}.",), criteria)
        for number in range(6)
    ]  # fmt: skip
    units = draw_sample(candidates, 6, 1)
    sheets = assign_units(units, list(names), len(names))
    version = guideline_version(RUBRIC.rubric, units, "Read.")
    rubric = RUBRIC.rubric.model_copy(update={"criteria": criteria})
    brief = SampleBrief("s1", version, rubric, "Read.", folder)
    key = Key(
        sample="s1", seed=1, scheme="random", rubric="mrbench_taxonomy", compared=False, version=version,
        annotators=list(names), overlap=len(names), strata={"t, bob": (6, 6)},
        units={unit.name: {**unit.key_columns, "criteria": [CRITERION]} for unit in units},
        criteria={CRITERION: list(WORDS)}, assigned=sheets,
    )  # fmt: skip
    school, known = school_of(read_school(school_file(folder.parent, SCHOOL), rubric), rubric, PASS_MARK, 1, "salt")
    whole, repeated = sheets_with_school(sheets, school, units, repeats, 1, "salt")
    added = [*known, *repeated]
    write_sample(folder, with_school(key, school, whole, added, rubric), [*units, *added], brief)
    return Key.read(folder)


def test_a_page_shows_no_label_of_hidden_units_and_of_the_quiz(tmp_path: Path) -> None:
    key = sample_with_school(tmp_path / "sample")
    page = (tmp_path / "sample/page-ann.html").read_text(encoding="utf-8")
    script = re.search(r"const data = (\{.*?\});?\n", page) or re.search(r">\s*(\{\"school\".*?)</script>", page, re.S)
    assert script is not None
    content = json.loads(script[1])
    assert key.school is not None
    assert set(content["school"]) == {"training", "quiz", "mark", "right", "reasons", "digests"}
    assert list(content["school"]["right"]) == key.school["units"]["training"]
    hidden = [*key.school["units"]["gold"], *key.school["repeats"]]
    units = {unit["name"]: unit for unit in content["units"]}
    assert {frozenset(unit) for unit in units.values()} == {frozenset(next(iter(units.values())))}
    places = [list(units).index(name) for name in hidden if name in units]
    assert min(places) >= 7, "training and quiz come first"
    assert all(set(units[name]) == set(content["units"][0]) for name in hidden if name in units)
    assert [unit["name"] for unit in content["units"][:7]] == [
        *key.school["units"]["training"], *key.school["units"]["quiz"],
    ]  # fmt: skip
    originals = [name for name in key.assigned["ann"] if name in key.school["repeats"]]
    assert len(originals) == 2 and len(key.assigned["ann"]) == 2 + 5 + 4 + 6 + 2
    assert not (tmp_path / "sample/sheet-ann.csv").exists(), "a sheet could not show the training"


# Scripted annotators in Chromium ------------------------------------------------------------------------------------


async def label_as(page: Path, folder: Path, choose: Callable[[str], str], picture: Path | None = None) -> Path:
    """Label a page by a rule from the response's text, as far as the page allows. Return the saved file."""
    async with Browser(folder) as browser:
        await browser.open(page)
        units = await browser.wait("ready && data.units.length")
        for number in range(units):
            response = await browser.run("document.querySelector('.reply .text').textContent")
            await asyncio.sleep(0.32)  # a faster answer would be counted as not read
            await browser.click(f'input[value="{choose(response)}"] + span')
            if number == 1 and picture:
                await browser.picture(picture)
            if number == 1:
                assert await browser.run("document.querySelectorAll('.lesson').length") == 1
            if 2 <= number < 7:
                assert await browser.run("document.querySelectorAll('.lesson').length") == 0
            if await browser.run("document.getElementById('next').disabled"):
                break
            await browser.click("#next")
        await browser.run("go(data.units.length - 1)")
        locked = await browser.run("at < data.units.length - 1")
        notice = await browser.run("document.getElementById('told').textContent")
        assert ("The sample stays closed" in notice) == locked
        assert browser.faults == []
        await browser.click("#export")
        name = await browser.run("data.annotator")
        saved_file = await browser.downloaded(f"labels-{name}.json")
        if locked:  # neither loading a file nor Undo reopens a quiz
            await browser.choose("#import", saved_file)
            await browser.wait("document.getElementById('told').textContent.includes('Quiz')")
            for _ in range(12):
                await browser.press("Control+z")
            assert await browser.run("quizDone() && lockedFrom() === gate")
        return saved_file


def right_label(response: str) -> str:
    """Return the label of a unit of the school by its text; the other replies are labelled Yes."""
    known = {line["response"]: line["labels"][CRITERION] for line in SCHOOL}
    return known.get(response.strip(), "Yes")


def test_scripted_annotators_are_trained_tested_and_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A careful annotator's errors are measured; one who answers at random stays locked and is kept out."""
    if missing := missing_requirement():
        absent(*missing)
    folder = tmp_path / "sample"
    sample_with_school(folder)
    chance = random.Random(3)

    def with_one_error(response: str) -> str:
        return "No" if response.strip() == "gold-0" else right_label(response)

    async def both() -> list[Path]:
        careful = label_as(folder / "page-ann.html", tmp_path / "a", with_one_error, tmp_path / "training.png")
        guessing = label_as(folder / "page-ben.html", tmp_path / "b", lambda _: chance.choice(WORDS))
        return [await careful, await guessing]

    files = asyncio.run(both())
    assert sum(bool(entry["labels"]) for entry in json.loads(files[1].read_text())["answers"].values()) == 7
    out = tmp_path / "people.csv"
    read_labels(sample=folder, files=files, out=out)
    output = capsys.readouterr().out
    assert "ann: quiz 5 of 5, passed" in output
    assert "ann: Actionability, known units: 1 of 2 desired and 2 of 2 other labels right" in output
    assert "ann: the same answer to 2 of 2 repeated questions" in output
    assert re.search(r"ben: quiz [0-3] of 5, kept out \(pass mark 80%\)", output)
    with out.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["annotator"] for row in rows} == {"ann"} and len(rows) == 6 and {row["task"] for row in rows} == {"t"}
    assert read_reliability(out) == {("ann", CRITERION): Reliability(1, 2, 2, 2)}


def saved(key: Key, name: str, choose: Callable[[str], str], folder: Path) -> Path:
    """Write the file that an annotator's page would save, with a label for each unit by its name in the key."""
    texts = {name: SCHOOL[int(unit["item"].removeprefix("school-"))]["response"] if unit["task"] == "school" else "" for name, unit in key.units.items()}  # fmt: skip
    answers = {
        unit: {"labels": {CRITERION: choose(texts[unit])}, "seconds": 9.5, "comment": ""} for unit in key.assigned[name]
    }
    file = {
        "format": "maieutic labels 1", "sample": key.sample, "annotator": name, "version": key.version,
        "finished": True, "exported": "", "answers": answers,
    }  # fmt: skip
    path = folder / f"labels-{name}.json"
    path.write_text(json.dumps(file), encoding="utf-8")
    return path


def test_nothing_is_written_if_everybody_fails_the_quiz(tmp_path: Path) -> None:
    key = sample_with_school(tmp_path / "sample")
    files = [saved(key, name, lambda _: "To some extent", tmp_path) for name in ("ann", "ben")]
    with pytest.raises(UserError, match="no annotator passed the quiz"):
        read_labels(sample=tmp_path / "sample", files=files, out=tmp_path / "people.csv")
    assert not (tmp_path / "people.csv").exists()


def test_files_with_and_without_error_rates_are_read(tmp_path: Path) -> None:
    key = sample_with_school(tmp_path / "sample", ("ann",))
    out = tmp_path / "people.csv"
    read_labels(sample=tmp_path / "sample", files=[saved(key, "ann", right_label, tmp_path)], out=out)
    assert read_reliability(out) == {("ann", CRITERION): Reliability(2, 2, 2, 2)}
    plain = tmp_path / "plain.csv"
    plain.write_text(",".join(COLUMNS) + "\n" + "t,i,bob,Actionability,Yes\n", encoding="utf-8")
    assert read_reliability(plain) == {}


def without(path: Path, units: list[str]) -> None:
    """Remove the answers to some units from a saved file."""
    file = json.loads(path.read_text(encoding="utf-8"))
    file["answers"] = {name: entry for name, entry in file["answers"].items() if name not in units}
    path.write_text(json.dumps(file), encoding="utf-8")


@pytest.mark.parametrize("part", ["gold", "quiz", "repeats"])
def test_open_units_of_a_school_are_a_fault(part: str, tmp_path: Path) -> None:
    """An annotator who has not finished the quiz is not one who failed it."""
    key = sample_with_school(tmp_path / "sample")
    ben_differs = {"ann": "Yes", "ben": "No"}
    files = [
        saved(key, name, lambda text, other=other: right_label(text) if text else other, tmp_path)
        for name, other in ben_differs.items()
    ]
    assert key.school is not None
    units = list(key.school["repeats"]) if part == "repeats" else key.school["units"][part][:2]
    without(files[1], units)
    with pytest.raises(UserError, match="ben: units with open questions: 2"):
        read_labels(sample=tmp_path / "sample", files=files, out=tmp_path / "people.csv")
    assert not (tmp_path / "people.csv").exists()
    read_labels(sample=tmp_path / "sample", files=files, out=tmp_path / "people.csv", partial=True)
    with (tmp_path / "people.csv").open(encoding="utf-8", newline="") as file:
        annotators = {row["annotator"] for row in csv.DictReader(file)}
    assert annotators == ({"ann"} if part == "quiz" else {"ann", "ben"})


def test_a_resolver_alone_makes_no_labels(tmp_path: Path) -> None:
    key = sample_with_school(tmp_path / "sample")
    files = [saved(key, name, lambda _: "To some extent", tmp_path) for name in ("ann", "ben")]
    files.append(saved(key.model_copy(update={"assigned": {"eva": list(key.units)}}), "eva", right_label, tmp_path))
    with pytest.raises(UserError, match="no annotator passed the quiz"):
        read_labels(sample=tmp_path / "sample", files=files, out=tmp_path / "people.csv", resolver="eva")


def test_a_pass_mark_is_reached_by_its_share() -> None:
    questions = {f"u{number}": {"c": "Yes"} for number in range(25)}
    school = School(pass_mark=0.28, units={"quiz": list(questions)}, labels=questions, reasons={})
    assert school.passed({(f"u{number}", "c"): "Yes" for number in range(7)})
    assert not school.passed({(f"u{number}", "c"): "Yes" for number in range(6)})


@pytest.mark.parametrize("cell", ["2", "2/x", "3/2", "-1/2", "1/2/3"])
def test_error_rates_that_are_no_counts_are_refused(cell: str, tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text(
        f"task,item,tutor,criterion,label,annotator,gold_desired,gold_other\nt,i,bob,{CRITERION},Yes,ann,{cell},2/2\n",
        encoding="utf-8",
    )
    with pytest.raises(UserError, match=r"people.csv:2: .*gold_desired.*such as 18/20"):
        read_reliability(path)


# Rates corrected for annotators' errors -----------------------------------------------------------------------------

SCALES = {CRITERION: Scale(labels=WORDS, desired="Yes")}


def labels_with_errors(
    chance: np.random.Generator, rate: float, sensitivity: float, specificity: float, n: int, known: int
) -> tuple[list[Label], dict[tuple[str, str], Reliability], dict[tuple[str, str, str], str]]:
    """Return labels of one annotator who errs at the given rates, the measured error rates, and a judge's verdicts."""

    def answers(truth: np.ndarray) -> np.ndarray:
        return np.asarray(chance.random(len(truth)) < np.where(truth, sensitivity, 1 - specificity))

    truth = chance.random(600) < rate
    judge = np.where(chance.random(600) < 0.15, ~truth, truth)
    sampled = chance.choice(600, n, replace=False)
    labelled = answers(truth[sampled])
    labels = [
        Label(
            task="t",
            problem="",
            id=str(place),
            tutor="bob",
            criterion=CRITERION,
            label="Yes" if yes else "No",
            annotator="ann",
        )
        for place, yes in zip(sampled, labelled, strict=True)
    ]
    desired, others = answers(np.ones(known, bool)), answers(np.zeros(known, bool))
    measured = Reliability(int(desired.sum()), known, int((~others).sum()), known)
    verdicts = {(str(place), "bob", CRITERION): "Yes" if yes else "No" for place, yes in enumerate(judge)}
    return labels, {("ann", CRITERION): measured}, verdicts


ANNOTATORS = ((0.3, 0.9, 0.8), (0.6, 0.85, 0.9), (0.75, 0.8, 0.95), (0.85, 0.9, 0.8))  # rate, sensitivity, specificity


def test_corrected_rates_cover_the_truth_although_annotators_err() -> None:
    """With measured error rates, at least 95 % of intervals hold the true rate, over all settings; without, few do."""
    runs, covered, plain_covered = 400, 0, 0
    for place, (rate, sensitivity, specificity) in enumerate(ANNOTATORS):
        values = []
        for seed in range(runs):
            chance = np.random.default_rng(10_000 * place + seed)
            labels, known, verdicts = labels_with_errors(chance, rate, sensitivity, specificity, 120, 60)
            majority = {(label.id, label.tutor, label.criterion): label.label for label in labels}
            errors = corrected_labels(labels, SCALES, known)
            sampling = BootstrapSettings(10, 1)
            corrected = corrected_rates("judge", majority, verdicts, "ppi", SCALES, sampling, errors=errors)[0]
            plain = corrected_rates("judge", majority, verdicts, "ppi", SCALES, sampling)[0]
            values.append(corrected.value)
            covered += corrected.low <= rate <= corrected.high  # type: ignore[operator]
            plain_covered += plain.low <= rate <= plain.high  # type: ignore[operator]
        assert np.mean(np.array(values, float)) == pytest.approx(rate, abs=0.02)
    assert covered / (runs * len(ANNOTATORS)) >= 0.95 and plain_covered / (runs * len(ANNOTATORS)) < 0.6


def test_labels_of_a_guessing_annotator_are_not_corrected() -> None:
    label = Label(task="t", problem="", id="i", tutor="bob", criterion=CRITERION, label="Yes", annotator="ann")
    unknown = [(11, 20, 11, 20), (18, 20, 0, 0), (0, 0, 18, 20), (0, 0, 0, 0), (4, 20, 4, 20)]
    for known in ({}, *({("ann", CRITERION): Reliability(*counts)} for counts in unknown)):
        assert corrected_labels([label], SCALES, known).values == {}
    good = {("ann", CRITERION): Reliability(18, 20, 16, 20)}
    assert corrected_labels([label], SCALES, good).values == {("i", "bob", CRITERION): pytest.approx(0.8 / 0.7)}


def two_annotators(
    chance: np.random.Generator, rate: float, resolver: bool
) -> tuple[list[Label], dict[tuple[str, str, str], str], dict[tuple[str, str], Reliability]]:
    """Return labels of 300 of 600 replies by two annotators who err on 4 %, a judge's verdicts, and the error rates."""
    truth = chance.random(600) < rate
    verdicts = np.where(chance.random(600) < 0.15, ~truth, truth)
    sampled = chance.choice(600, 300, replace=False)
    labels = []
    for name in ("ann", "ben"):
        right = chance.random(300) < 0.96
        labels += [
            label_of(place, truth[place] == is_right, name) for place, is_right in zip(sampled, right, strict=True)
        ]
    if resolver:
        labels += [label_of(place, bool(truth[place]), "eva", resolves=True) for place in sampled[:40]]
    known = {(name, CRITERION): Reliability(240, 250, 240, 250) for name in ("ann", "ben")}
    return labels, {(str(place), "bob", CRITERION): "Yes" if yes else "No" for place, yes in enumerate(verdicts)}, known


def label_of(place: int, desired: bool, annotator: str, **changes: Any) -> Label:
    label = "Yes" if desired else "No"
    return Label(
        task="t",
        problem="",
        id=str(place),
        tutor="bob",
        criterion=CRITERION,
        label=label,
        annotator=annotator,
        **changes,
    )


@pytest.mark.parametrize("resolver", [False, True])
def test_divided_replies_do_not_bias_the_correction(resolver: bool) -> None:
    """Replies on which two annotators differ are part of the sample, resolved or not."""
    covered, values = 0, []
    for seed in range(200):
        labels, verdicts, known = two_annotators(np.random.default_rng(seed), 0.9, resolver)
        majority = {(vote.id, vote.tutor, vote.criterion): word for vote, word in resolved_labels(labels)}
        errors = corrected_labels(labels, SCALES, known)
        rate = corrected_rates("judge", majority, verdicts, "ppi", SCALES, BootstrapSettings(10, 1), errors=errors)[0]
        assert rate.value is not None and rate.low is not None and rate.high is not None and rate.missing == 0
        values.append(rate.value)
        covered += rate.low <= 0.9 <= rate.high
    assert covered >= 188 and np.mean(values) == pytest.approx(0.9, abs=0.005)


def test_labels_that_contradict_the_error_rates_give_no_rate() -> None:
    """58 of 60 labels are No, although the annotator has labelled 8 of 20 undesired replies with Yes."""
    labels = [label_of(place, place < 2, "ann") for place in range(60)]
    verdicts = {(str(place), "bob", CRITERION): "Yes" if place % 7 == 0 else "No" for place in range(200)}
    majority = {(label.id, label.tutor, label.criterion): label.label for label in labels}
    errors = corrected_labels(labels, SCALES, {("ann", CRITERION): Reliability(20, 20, 12, 20)})
    scores = corrected_rates("judge", majority, verdicts, "ppi", SCALES, BootstrapSettings(10, 1), errors=errors)
    by_metric = {score.metric: score for score in scores}
    assert by_metric["ppi"].value is None and by_metric["ppi_labels"].value is None
    assert by_metric["ppi"].clusters == 60 and by_metric["ppi_judge"].value == pytest.approx(29 / 200)
    assert "contradict" in why_uncorrected(by_metric["ppi"], by_metric["ppi_labels"])


def test_only_rates_of_corrected_labels_may_contradict_error_rates() -> None:
    """Weighted samples can give rates above 1. They stay as they were where no annotator's errors are known."""
    parts = CorrectedRate(1.2, sampling=1e-4, spread=0.01, replies=100, n=40, degrees_used=1, judge_weight=0.5)
    plain = survey_rate(parts, None)
    assert plain is not None and plain.value == 1.2 and plain.interval == corrected_interval(parts)
    assert survey_rate(parts, 1e-4) is None
    near = survey_rate(parts._replace(value=1.01), 1e-4)
    assert near is not None and near.value == 1.0


def test_differences_are_widened_by_the_uncertainty_of_error_rates() -> None:
    """An annotator of both tutors adds less than one annotator for each tutor does."""
    cells = (("bob", CRITERION), ("eve", CRITERION))
    known = {(name, CRITERION): Reliability(9, 10, 9, 10) for name in ("ann", "ben")}
    shared = CorrectedLabels({}, {cell: {"ann": 1.0} for cell in cells}, known)
    apart = CorrectedLabels({}, {cells[0]: {"ann": 1.0}, cells[1]: {"ben": 1.0}}, known)
    both = (cells[0], 0.7), (cells[1], 0.3)
    variance = share_variance(9, 10)
    assert shared.variance_of_difference(*both) == pytest.approx(0.4**2 * 2 * variance / 0.8**2)
    assert apart.variance_of_difference(*both) == pytest.approx(2 * (0.7**2 + 0.3**2) * variance / 0.8**2)
    assert apart.variance_of_rate(*both[0]) == pytest.approx((0.7**2 + 0.3**2) * variance / 0.8**2)
    assert apart.variance_of_difference(*both) > shared.variance_of_difference(*both) > 0


def test_error_rates_need_no_annotator_column(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text(
        f"task,item,tutor,criterion,label,gold_desired,gold_other\nt,i,bob,{CRITERION},Yes,2/2,2/2\n", encoding="utf-8"
    )
    assert read_reliability(path) == {("", CRITERION): Reliability(2, 2, 2, 2)}
