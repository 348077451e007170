"""Tests of human labels: samples, returned files, corrected rates, and plans of the number of labels."""

from __future__ import annotations

import csv
import importlib.util
import io
import json
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from maieutic.config.rubrics import read_rubric
from maieutic.core.errors import UserError
from maieutic.core.records import Item, Label, Scale
from maieutic.datasets.annotators import aggregate_votes
from maieutic.people.annotation_files import SampleBrief, write_annotation_files
from maieutic.people.answer_files import labelling_probabilities, read_files
from maieutic.people.labels import read_human_labels
from maieutic.people.read_labels_command import read_labels
from maieutic.people.sample import (
    Candidate,
    Key,
    Unit,
    assign_units,
    context_sections,
    draw_sample,
    guideline_version,
    replies_to_show,
)
from maieutic.people.sample_sizes import (
    Pilot,
    estimate_pilot,
    half_width,
    label_plan_lines,
    labels_for,
    labels_without_judge,
)
from maieutic.tools.labelling import GUIDELINE
from maieutic.validation.corrected_rates import LabelledVerdicts
from maieutic.validation.survey_estimators import SampledReply, corrected_interval, corrected_mean, rate_difference
from truescore import post_stratified_estimate, ppi_estimate, required_gold_labels
from workbooks import write_xlsx

RUBRIC = read_rubric("mrbench_taxonomy")
CRITERIA = {"Actionability": RUBRIC.rubric.criteria["Actionability"]}


def load_simulation() -> ModuleType:
    """Return the simulation of `make bench` as a module."""
    spec = importlib.util.spec_from_file_location("label_sampling", "bench/label_sampling.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# Samples ------------------------------------------------------------------------------------------------------------


def candidates(count: int = 60, tutors: tuple[str, ...] = ("ann", "bob"), disputed: int = 0) -> list[Candidate]:
    """Return the tutors' replies to `count` items. Judges disagree on the first `disputed` items."""
    return [
        Candidate(
            "t",
            Item(id=f"i{number}", task="t", cluster=str(number), vars={"history": f"Tutor: a?\nStudent: {number}"}, reference={}),
            tutor, (f"Well, {number}?",), CRITERIA, "desired" if number % 3 else "not desired", number < disputed,
        )
        for number in range(count)
        for tutor in tutors
    ]  # fmt: skip


@pytest.mark.parametrize("scheme", ["random", "verdict", "disagreement"])
def test_each_reply_is_drawn_with_its_recorded_probability(scheme: Any) -> None:
    """Over many seeds each reply is drawn as often as its recorded probability predicts."""
    pool, times = candidates(12, disputed=4), Counter[tuple[str, str]]()
    probabilities: dict[tuple[str, str], float] = {}
    for seed in range(600):
        units = draw_sample(pool, 10, seed, scheme)
        assert len({unit.name for unit in units}) == 10
        for unit in units:
            key = unit.candidate.item.id, unit.candidate.tutor
            times[key] += 1
            probabilities[key] = unit.probability
    for key, probability in probabilities.items():
        assert times[key] / 600 == pytest.approx(probability, abs=4 * (probability * (1 - probability) / 600) ** 0.5)
    if scheme == "disagreement":
        assert probabilities["i0", "ann"] > 1.5 * probabilities["i11", "ann"]
    expected = [unit.name for unit in draw_sample(pool, 10, 3, scheme)]
    assert [unit.name for unit in draw_sample(pool, 10, 3, scheme)] == expected


def test_the_replies_of_some_dialogues_have_two_annotators() -> None:
    """MRBench, section 4.2: 40 of 192 dialogues have two annotators, all others one."""
    units = draw_sample(candidates(192), 2 * 192, 1)
    sheets = assign_units(units, ["a", "b", "c", "d"], 2, doubled={"": 40})
    per_unit = Counter(name for sheet in sheets.values() for name in sheet)
    names = {unit.name: unit.candidate.item.id for unit in units}
    doubled = {names[unit] for unit, number in per_unit.items() if number == 2}
    assert len(doubled) == 40 and Counter(per_unit.values()) == {2: 80, 1: 2 * 152}
    assert all(len(set(sheet)) == len(sheet) for sheet in sheets.values()), "no annotator labels a reply twice"
    assert max(map(len, sheets.values())) - min(map(len, sheets.values())) <= 1
    assert assign_units(units, ["a", "b"], 1, doubled={"": 0}) == assign_units(units, ["a", "b"], 1)


def test_dialogues_are_doubled_by_source() -> None:
    """MRBench, section 5.2: 10 dialogues from Bridge and 30 from MathDial have two annotators."""
    pool = [
        candidate._replace(item=candidate.item.model_copy(update={"tags": {"source": source}}))
        for candidate in candidates(192)
        for source in ["bridge" if int(candidate.item.cluster) % 3 else "mathdial"]
    ]
    units = draw_sample(pool, len(pool), 1)
    sheets = assign_units(units, ["a", "b"], 2, doubled={"bridge": 10, "mathdial": 30})
    per_unit = Counter(name for sheet in sheets.values() for name in sheet)
    doubled = {
        (unit.candidate.item.tags["source"], unit.candidate.item.id) for unit in units if per_unit[unit.name] == 2
    }
    assert Counter(source for source, _ in doubled) == {"bridge": 10, "mathdial": 30}
    with pytest.raises(
        UserError, match=r"^--doubled: expected 5 dialogues from gsm8k, found 0 \(sources: bridge, mathdial\)"
    ):
        assign_units(units, ["a", "b"], 2, doubled={"gsm8k": 5})


def test_an_impossible_sample_is_refused() -> None:
    with pytest.raises(UserError, match=r"--n: 25 replies requested, but there are only 24"):
        draw_sample(candidates(12), 25, 1)
    with pytest.raises(UserError, match=r"--n: 3 replies are too few for 2 strata\. Fix: set --n to 4 or more"):
        draw_sample(candidates(12), 3, 1)


def test_the_context_of_a_reply_is_shown_once_and_turn_by_turn() -> None:
    dialogue = "Tutor: What is 2 + 2?\nStudent: 5"
    item = Item(
        id="i", task="t", cluster="c", reference={"solution": "4"},
        vars={"history": dialogue, "dialog_history": dialogue.replace("Tutor", "Teacher"), "topic": "", "question": "2 + 2"},
    )  # fmt: skip
    sections = context_sections(item)
    assert [section["title"] for section in sections] == ["Problem", "Reference solution", "Conversation"]
    assert sections[2]["turns"][1] == {"who": "Student", "text": " 5"}


LONG_TURN = "I think there are 15 tulips, because 6 and 9 is 15."


@pytest.mark.parametrize(("fields", "solution", "history", "titles"), [
    # a part of the dialogue in another field, and an empty field
    ({"dialog_history": "Student: 5 is it", "history": "Tutor: What?\nStudent: 5 is it", "topic": ""}, None, [], ["Conversation"]),
    # the student's last turn as a field of its own
    ({"history": f"Student: {LONG_TURN}", "question": LONG_TURN}, None, [], ["Conversation"]),
    # a short solution that a turn repeats by chance is kept
    ({"history": "Student: 4"}, "4", [], ["Reference solution", "Conversation"]),
    # fields that the data set marks as missing
    ({"question": "2 + 2", "topic": "N/A"}, "Not Available", [], ["Problem"]),
    # one solution in two layouts
    ({"student_solution": "Step 1\\nStep 2", "student_solution_lines": "Step 1\nStep 2"}, None, [], ["Student's solution"]),
    # chat messages that repeat a field
    ({"question": LONG_TURN}, None, [{"role": "user", "content": LONG_TURN}], ["Conversation"]),
    # signs count: these two are different problems
    ({"question": "What is 2 + 2 now?", "variant": "What is 2 - 2 now?"}, None, [], ["Problem", "Variant"]),
])  # fmt: skip
def test_a_text_of_an_item_is_shown_once(
    fields: dict[str, str], solution: str | None, history: list[dict[str, str]], titles: list[str]
) -> None:
    reference = {"solution": solution} if solution else {}
    item = Item(id="i", task="t", cluster="c", vars=fields, reference=reference, history=history)
    assert [section["title"] for section in context_sections(item)] == titles


# Returned files -----------------------------------------------------------------------------------------------------


@pytest.fixture
def sample(tmp_path: Path) -> tuple[Path, Key, list[Unit]]:
    """Write a sample of eight replies for two annotators. Return its folder, key and units."""
    folder = tmp_path / "sample"
    units = draw_sample(candidates(12), 8, 1)
    sheets = assign_units(units, ["ann", "ben"], 2)
    version = guideline_version(RUBRIC.rubric, units, GUIDELINE)
    brief = SampleBrief("s1", version, RUBRIC.rubric, GUIDELINE, tmp_path)
    by_name = {unit.name: unit for unit in units}
    folder.mkdir()
    write_annotation_files(
        folder, {name: [by_name[unit] for unit in names] for name, names in sheets.items()}, units, brief
    )
    key = Key(
        sample="s1", seed=1, scheme="random", rubric="mrbench_taxonomy", compared=False, version=version,
        annotators=["ann", "ben"], overlap=2, strata={"t, ann": (12, 4), "t, bob": (12, 4)},
        units={unit.name: {**unit.key_columns, "criteria": ["Actionability"]} for unit in units},
        criteria={"Actionability": ["Yes", "To some extent", "No"]}, assigned=sheets,
    )  # fmt: skip
    key.write(folder)
    return folder, key, units


def saved_file(key: Key, annotator: str = "ann", **changes: Any) -> dict[str, Any]:
    """Return the content of a file saved by an annotator's page."""
    answers = {
        unit: {"labels": {"Actionability": "Yes"}, "seconds": 9.5, "comment": ""} for unit in key.assigned[annotator]
    }
    file = {
        "format": "maieutic labels 1", "sample": key.sample, "annotator": annotator, "version": key.version,
        "finished": True, "exported": "", "answers": answers,
    }  # fmt: skip
    return {**file, **changes}


Change = Callable[[dict[str, Any]], Any]
BAD_FILES: dict[str, tuple[Change, str]] = {
    "another sample": (lambda file: file.update(sample="other"), "expected sample s1, found 'other'"),
    "another guideline": (lambda file: file.update(version="0"), r"expected guideline version \w{12}, found '0'"),
    "not an annotator": (lambda file: file.update(annotator="zoe"), r"zoe is not an annotator of this sample \(ann, ben\)"),
    "no answers": (lambda file: file.update(answers=[]), "expected 'answers' to be a mapping, found list"),
    "an unknown unit": (lambda file: file["answers"].update(u0={"labels": {"Actionability": "Yes"}, "seconds": 9}), "the sample has no unit 'u0'"),
    "an unknown criterion": (lambda file: first_answers(file)["labels"].update(Tone="Yes"), "the unit has no criterion 'Tone'.*choose one of Actionability"),
    "outside the scale": (lambda file: first_answers(file)["labels"].update(Actionability="Maybe"), "'Maybe' is not an allowed answer.*choose one of Yes, To some extent, No"),
    "no seconds": (lambda file: first_answers(file).update(seconds=0), "1 labels in 0 seconds"),
    "seconds as text": (lambda file: first_answers(file).update(seconds="9"), "1 labels in 9 seconds"),
    "no labels": (lambda file: first_answers(file).update(labels=None), "has no labels"),
    "an open question": (lambda file: first_answers(file)["labels"].clear(), "units with open questions: 1"),
}  # fmt: skip


def first_answers(file: dict[str, Any]) -> dict[str, Any]:
    """Return the answers to the first unit of a file."""
    return next(iter(file["answers"].values()))


@pytest.mark.parametrize(("change", "message"), BAD_FILES.values(), ids=BAD_FILES)
def test_an_invalid_file_is_named_and_nothing_written(
    change: Change, message: str, sample: tuple[Path, Key, list[Unit]], tmp_path: Path
) -> None:
    folder, key, _ = sample
    bad_file = saved_file(key)
    change(bad_file)
    files = {"ann.json": bad_file, "ben.json": saved_file(key, "ben")}
    for name, file in files.items():
        (tmp_path / name).write_text(json.dumps(file), encoding="utf-8")
    with pytest.raises(UserError) as error:
        read_labels(sample=folder, files=[tmp_path / name for name in files], out=tmp_path / "people.csv")
    assert re.search(message, error.value.line), error.value.line
    assert not (tmp_path / "people.csv").exists()


def test_one_annotator_where_two_are_needed_and_two_files_of_one(
    sample: tuple[Path, Key, list[Unit]], tmp_path: Path
) -> None:
    folder, key, _ = sample
    for name in ("one", "two"):
        (tmp_path / f"{name}.json").write_text(json.dumps(saved_file(key)), encoding="utf-8")
    with pytest.raises(UserError, match=r"ben: found no file of labels; 2 annotators per unit were planned"):
        read_labels(sample=folder, files=[tmp_path / "one.json"], out=tmp_path / "p.csv")
    with pytest.raises(UserError, match=r"found 2 files of annotator ann"):
        read_labels(sample=folder, files=[tmp_path / "one.json", tmp_path / "two.json"], out=tmp_path / "p.csv")
    read_labels(sample=folder, files=[tmp_path / "one.json"], out=tmp_path / "p.csv", partial=True)
    scales = {"t": {"Actionability": Scale(labels=("Yes", "To some extent", "No"))}}
    labels = read_human_labels(tmp_path / "p.csv", scales)
    assert {label.probability for label in labels} == {4 / 12} and {label.annotator for label in labels} == {"ann"}


def test_sheets_and_label_studio_exports_are_read(sample: tuple[Path, Key, list[Unit]], tmp_path: Path) -> None:
    folder, key, _ = sample
    sheet = (
        (folder / "sheet-ann.csv")
        .read_text(encoding="utf-8")
        .replace("To some extent | No,\n", "To some extent | No,yes\n")
    )
    (tmp_path / "sheet-ann.csv").write_text(sheet.replace(",yes\n", ",No\n"), encoding="utf-8")
    tasks = json.loads((folder / "label-studio/tasks-ben.json").read_text(encoding="utf-8"))
    for task in tasks:
        result = {
            "from_name": "Actionability", "to_name": "response_1", "type": "choices", "value": {"choices": ["Yes"]},
        }  # fmt: skip
        task["annotations"] = [{"completed_by": {"email": "ben@example.org"}, "lead_time": 8.0, "result": [result]}]
    (tmp_path / "export.json").write_text(json.dumps(tasks), encoding="utf-8")
    reads = read_files([tmp_path / "sheet-ann.csv", tmp_path / "export.json"], key, None, 1)
    assert [(read.annotator, len(read.answers), read.open) for read in reads] == [("ann", 8, []), ("ben", 8, [])]
    rows = list(csv.reader(sheet.replace(",yes\n", ",No\n").splitlines()))
    (tmp_path / "book").mkdir()
    book = write_xlsx(tmp_path / "book/sheet-ann.xlsx", {"A": rows})
    [in_workbook] = read_files([book], key, None, 1)
    assert [answer._replace(place="") for answer in in_workbook.answers] == [
        answer._replace(place="") for answer in reads[0].answers
    ]
    twice = write_xlsx(tmp_path / "book/twice.xlsx", {"A": [[*rows[0], "Answer"], *rows[1:]]})
    with pytest.raises(UserError, match="two columns differ only in capitals"):
        read_files([twice], key, None, 1)
    (tmp_path / "at-2.csv").write_text("id,Actionability,annotator,annotation_id\n1,Yes,2,17\n", encoding="utf-8")
    with pytest.raises(
        UserError, match=r"is a table of Label Studio.* Fix: export the labels from Label Studio as JSON"
    ):
        read_files([tmp_path / "at-2.csv"], key, None, 1)
    assert {answer.value for answer in reads[0].answers} == {"No"} and reads[1].answers[0].seconds == 8.0
    assert '<Choice value="To some extent" />' in (folder / "label-studio/interface.xml").read_text(encoding="utf-8")
    assert not any(name in (folder / "label-studio/tasks-ben.json").read_text() for name in ('"bob"', '"tutor"')), (
        "the tasks must not name the tutors"
    )


def test_units_that_were_left_open_lower_the_probability(sample: tuple[Path, Key, list[Unit]]) -> None:
    _, key, units = sample
    names = [unit.name for unit in units if unit.candidate.tutor == "ann"]
    assert set(labelling_probabilities(key, names[:3]).values()) == {3 / 12}


def test_a_reply_cannot_leave_its_page(tmp_path: Path) -> None:
    hostile = "</script><script>document.title='x'</script><img src=x onerror=alert(1)> & \u2028"
    [unit] = draw_sample([candidates(1)[0]._replace(texts=(hostile,))], 1, 1)
    write_annotation_files(tmp_path, {"ann": [unit]}, [unit], SampleBrief("s", "v", RUBRIC.rubric, GUIDELINE, tmp_path))
    page = (tmp_path / "page-ann.html").read_text(encoding="utf-8")
    assert page.count("</script>") == 2 and "<img" not in page.split('id="data">')[1].split("</script>")[0]


# Corrected rates ----------------------------------------------------------------------------------------------------


def simulated_replies(seed: int, count: int = 600) -> tuple[np.ndarray, np.ndarray]:
    """Return people's labels of simulated replies, and the verdicts of a judge that errs on a fifth of them."""
    rng = np.random.default_rng(seed)
    people = (rng.random(count) < 0.6).astype(float)
    return people, np.where(rng.random(count) < 0.8, people, 1 - people)


def test_a_corrected_rate_agrees_with_another_library() -> None:
    """truescore agrees on a random sample at the same judge's weight, and on a stratified sample with its interval."""
    people, judge = simulated_replies(2)
    rng = np.random.default_rng(3)
    labelled = rng.choice(len(people), 120, replace=False)
    sample = [SampledReply(people[index], judge[index], 120 / 600, "all") for index in labelled]
    corrected = corrected_mean(sample, list(judge))
    expected = ppi_estimate(judge, people[labelled], labelled, alpha=0.05, lambda_=corrected.judge_weight * 600 / 480)
    assert corrected.value == pytest.approx(expected.point, abs=0.02)
    assert corrected.variance**0.5 == pytest.approx(expected.standard_error, rel=0.15)
    strata = np.where(judge == 1, "yes", "no")
    by_verdict = {
        verdict: rng.choice(np.flatnonzero(strata == verdict), 60, replace=False) for verdict in ("yes", "no")
    }
    labelled_by_stratum = np.concatenate([*by_verdict.values()])
    shares = {verdict: float((strata == verdict).mean()) for verdict in by_verdict}
    sample = [
        SampledReply(people[index], judge[index], 60 / (600 * shares[strata[index]]), str(strata[index]))
        for index in labelled_by_stratum
    ]
    corrected = corrected_mean(sample, list(judge))
    expected = post_stratified_estimate(judge, people[labelled_by_stratum], labelled_by_stratum, strata, shares)
    assert corrected.value == pytest.approx(expected.point, abs=1e-9)
    low, high = corrected_interval(corrected)
    assert (low, high) == (pytest.approx(expected.low, abs=0.02), pytest.approx(expected.high, abs=0.02))


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["random", "verdict", "disagreement"])
@pytest.mark.parametrize("rate", [0.3])
def test_intervals_have_their_nominal_coverage(scheme: str, rate: float) -> None:
    assert 0.93 <= load_simulation().coverage(scheme, 1000, 600, 120, rate, 0.2) <= 0.97


@pytest.mark.parametrize("rate", [0.02, 0.98])
def test_intervals_of_a_rare_label_have_coverage(rate: float) -> None:
    assert load_simulation().coverage("random", 200, 600, 120, rate, 0.2) >= 0.91


def test_labels_alone_and_a_judge_that_is_always_right() -> None:
    people, _ = simulated_replies(1)
    sample = [SampledReply(value, value, 0.2, "all") for value in people[:120]]
    always_right = corrected_mean(sample, list(people))
    assert always_right.judge_weight == pytest.approx(1.0) and always_right.value == pytest.approx(people.mean())
    alone = corrected_mean(sample, list(people), use_judge=False)
    assert alone.value == pytest.approx(people[:120].mean()) and alone.variance > 2 * always_right.variance
    assert always_right.labels_saved > 200 and -20 < alone.labels_saved < 40
    constant = corrected_mean([SampledReply(reply.people, 1.0, 0.2, "all") for reply in sample], [1.0] * 600)
    assert constant.value == pytest.approx(alone.value), "a judge with constant verdicts adds nothing"


@pytest.mark.slow
def test_a_difference_of_two_corrected_rates_has_its_nominal_coverage() -> None:
    covered = 0
    for seed in range(400):
        rng = np.random.default_rng(seed)
        difficulty = rng.random(500)
        rates = []
        for number, base_rate in enumerate((0.65, 0.5)):
            people = (rng.random(500) < base_rate + 0.3 * (difficulty - 0.5)).astype(float)
            judge = np.where(rng.random(500) < 0.85, people, 1 - people)
            labelled = np.random.default_rng(seed * 7 + number).choice(500, 100, replace=False)
            rates.append(
                (
                    corrected_mean(
                        [SampledReply(people[index], judge[index], 0.2, "all") for index in labelled], list(judge)
                    ),
                    judge,
                )
            )
        difference = rate_difference(rates[0][0], rates[1][0], 0.0)
        covered += difference.interval.low <= 0.15 <= difference.interval.high
    assert 0.93 <= covered / 400 <= 0.99, "the interval is slightly too wide, since it ignores the items' correlation"


def labelled_verdicts(**changes: Any) -> LabelledVerdicts:
    """Return thirty labels of a random sample from a stratum of 300, and the judge's verdicts on all 300 replies."""
    people, judge = simulated_replies(4, 300)
    design = [(0.1, "s: t, m", 300)] * 30
    known = {"people": list(people[:30]), "judge": list(judge[:30]), "alone": list(judge[30:]), "lost": [],
             "labels": list(people[:30]), "designs": design, "divided": []}  # fmt: skip
    return LabelledVerdicts(**{**known, **changes})


UNUSABLE_SAMPLES: dict[str, dict[str, Any]] = {
    "a stratum without labels": {"designs": [(0.1, "s: t, m", 150)] * 30},
    "two samples in one file": {"designs": [(0.1, "s: t, m", 300)] * 15 + [(0.1, "r: t, m", 300)] * 15},
    "a label without a probability": {"designs": [None, *[(0.1, "s: t, m", 300)] * 29]},
    "divided annotators": {"divided": ["i"] * 9},
    "too many unparsed verdicts": {"lost": ["i"] * 60},
    "too few labels": {"people": [1.0] * 9, "judge": [1.0] * 9, "labels": [1.0] * 9, "designs": [(0.1, "s: t, m", 300)] * 9},
}  # fmt: skip


@pytest.mark.parametrize("change", UNUSABLE_SAMPLES.values(), ids=UNUSABLE_SAMPLES)
def test_a_sample_that_does_not_fit_has_no_corrected_rate(change: dict[str, Any]) -> None:
    assert labelled_verdicts().corrected_rate() is not None and labelled_verdicts(**change).corrected_rate() is None


def test_strata_are_weighted_by_their_size_and_not_by_their_answers() -> None:
    """Two strata of 500 have rates of 0.1 and 0.9. One of them has only twenty answers under this criterion."""
    rng = np.random.default_rng(1)
    few = [SampledReply(float(rng.random() < 0.1), 0.0, 0.1, "x", 500) for _ in range(20)]
    many = [SampledReply(float(rng.random() < 0.9), 0.0, 0.1, "y", 500) for _ in range(50)]
    corrected = corrected_mean([*few, *many], [0.0] * 1000)
    expected = (np.mean([reply.people for reply in few]) + np.mean([reply.people for reply in many])) / 2
    assert corrected.value == pytest.approx(expected) and corrected.replies == 1000


def test_a_sheet_with_the_answers_of_another_person_is_refused(sample: tuple[Path, Key, list[Unit]]) -> None:
    folder, key, _ = sample
    sheet = folder / "sheet-ann.csv"
    text = sheet.read_text(encoding="utf-8-sig")
    rows = list(csv.DictReader(io.StringIO(text)))
    with open(sheet, "w", encoding="utf-8", newline="") as handle:
        writer = csv.DictWriter(handle, [*rows[0], "ben"])
        writer.writeheader()
        writer.writerows({**row, "answer": "No", "ben": "Yes"} for row in rows)
    with pytest.raises(UserError, match="column ben has answers as well as the column answer"):
        read_files([sheet], key, None, 1)
    sheet.write_text(text, encoding="utf-8")


def test_labels_need_one_design_and_a_minus_survives_a_spreadsheet(tmp_path: Path) -> None:
    scales = {"t": {"c": Scale(labels=("-1", "1"))}}
    path = tmp_path / "p.csv"
    header = "task,item,tutor,criterion,label,annotator,probability,stratum,stratum_size\n"
    path.write_text(header + "t,'=1,m,c,'-1,a,0.5,s,9\nt,2,m,c,1.0,a,0.5,s,9\n", encoding="utf-8")
    labels = read_human_labels(path, scales)
    assert [(label.id, label.label, label.stratum_size) for label in labels] == [("=1", "-1", 9), ("2", "1", 9)]
    path.write_text(header + "t,1,m,c,1,a,0.5,,\nt,2,m,c,1,a,,,\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"p\.csv:3: the line has no probability, but other lines have one"):
        read_human_labels(path, scales)
    path.write_text(header + "t,1,m,c,1,a,,,\nt,2,m,c,1,,,,\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"p\.csv:3: 1 lines have no annotator, but others have one"):
        read_human_labels(path, scales)
    path.write_text(header + "t,1,m,c,1,ann,,,\nt,2,m,c,1,Ann ,,,\n", encoding="utf-8")
    with pytest.raises(UserError, match="column annotator has ann and Ann, which would be two people"):
        read_human_labels(path, scales)
    path.write_text(header, encoding="utf-8")
    with pytest.raises(UserError, match="expected at least one label, found none"):
        read_human_labels(path, scales)
    path.write_text(header + "t,1,m,c,1,a,0.5,s,many\n", encoding="utf-8")
    with pytest.raises(UserError, match="expected a positive whole number in stratum_size, found 'many'"):
        read_human_labels(path, scales)


def test_unanimous_annotators_overrule_a_resolver() -> None:
    def vote(label: str, annotator: str, resolves: bool = False) -> Label:
        return Label(
            id="i", task="t", tutor="m", criterion="c", label=label, problem="i", annotator=annotator, resolves=resolves
        )

    assert aggregate_votes([vote("Yes", "a"), vote("Yes", "b"), vote("No", "e", True)]) == "Yes"
    assert aggregate_votes([vote("Yes", "a"), vote("No", "b"), vote("No", "e", True)]) == "No"


# Plans of the number of labels --------------------------------------------------------------------------------------


def test_the_plan_is_the_formula_and_another_library_agrees() -> None:
    pilot = Pilot(0.5, 0.8, 100, (0.3, 0.3), "x")
    large = 1_000_000
    assert half_width(pilot, large, 100) == pytest.approx(1.96 * (0.25 * 0.36 / 100) ** 0.5, rel=0.01)
    n = labels_for(Pilot(0.5, 0.8, 100, (0.3, 0.3), "x"), 20_000, 0.05)
    expected = required_gold_labels(20_000, target_half_width=0.05, true_rate=0.5, sensitivity=0.9, specificity=0.9)
    assert n == pytest.approx(expected.required_gold, abs=4), "a judge that errs on 10 % of either label has rho = 0.8"
    assert labels_for(pilot, 40, 0.01) is None and labels_without_judge(36, 0.8) == pytest.approx(100)
    assert labels_without_judge(50, 1.0) == float("inf")
    assert half_width(pilot, 200, 200) == pytest.approx(1.96 * (0.25 / 200) ** 0.5, rel=0.01), "every reply is labelled"


def test_a_plan_names_its_pilot_and_where_labels_are_needed() -> None:
    without_labels = label_plan_lines(candidates(60), {"Actionability": estimate_pilot([], [1.0, 0.0], "")}, 40)
    assert "the judge's agreement with people is unknown" in without_labels[0]
    assert "--scheme random" in without_labels[-1]
    pairs = [(1.0, 1.0)] * 60 + [(0.0, 0.0)] * 30 + [(1.0, 0.0)] * 25
    with_labels = label_plan_lines(
        candidates(60), {"Actionability": estimate_pilot(pairs, [1.0] * 60 + [0.0] * 55, "ours")}, 40
    )
    assert "known from ours" in with_labels[0] and "replies that the judge calls not desired need" in with_labels[-1]
    assert "too few" in with_labels[3], "sixty replies are too few for such a narrow interval"


def test_a_pilot_weights_replies_by_inverse_probability() -> None:
    """The judge is right on twelve replies drawn with probability 0.1, and errs on twelve drawn with probability 1."""
    right, wrong = [(1.0, 1.0), (0.0, 0.0)] * 6, [(1.0, 0.0), (0.0, 1.0)] * 6
    unweighted = estimate_pilot([*right, *wrong], [], "here")
    weighted = estimate_pilot([*right, *wrong], [], "here", [10.0] * 12 + [1.0] * 12)
    assert unweighted.rho == pytest.approx(0.0)
    repeated = estimate_pilot([*right * 10, *wrong], [], "here")
    assert weighted.rho == pytest.approx(repeated.rho) == pytest.approx(1 - 2 / 11)
    assert estimate_pilot([*right, *wrong], [], "here", [2.0] * 24) == unweighted


def test_a_pair_shows_both_replies_and_never_the_reference() -> None:
    candidate = candidates(1)[0]
    item = candidate.item.model_copy(update={"reference": {"text": "THE EXPERT"}})
    pair = candidate._replace(item=item, others=("theirs",), against="bob")
    assert replies_to_show(Unit("u1", pair, "s", 1.0, True), True) == ["\n\n".join(candidate.texts), "theirs"]
    assert replies_to_show(Unit("u1", pair, "s", 1.0, False), True) == ["theirs", "\n\n".join(candidate.texts)]
    empty = pair._replace(others=("",))
    assert "THE EXPERT" not in replies_to_show(Unit("u1", empty, "s", 1.0, True), True)
    single = candidate._replace(item=item)
    assert replies_to_show(Unit("u1", single, "s", 1.0, True), True)[1] == "THE EXPERT"
