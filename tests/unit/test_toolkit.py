"""Tests of the word lists of MRBench's toolkit, of surface measures and of the page's figures and tables of labels."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from conftest import DATA_FIX, absent
from maieutic.benchmarks.mrbench import section, toolkit
from maieutic.benchmarks.mrbench.releases import RELEASES
from maieutic.config.rubrics import read_rubric
from maieutic.core.errors import UserError
from maieutic.core.records import Item, Label, LabelSetDescription, Reply, Scale, Turn
from maieutic.core.stats import BootstrapSettings
from maieutic.datasets.labelled_sets import LabelledData, rubric_fits_labels
from maieutic.datasets.sources import read_source
from maieutic.judges.answers import parse_verdicts
from maieutic.judges.questions import Case
from maieutic.report.figures import (
    LETTER_WIDTH,
    LINE_HEIGHT,
    SCATTER_HEIGHT,
    SCATTER_WIDTH,
    label_places,
    overlap,
)
from maieutic.rewards.embeddings import closeness
from maieutic.run_plan import plan_of
from maieutic.scores.score import Score
from maieutic.validation.surface_measures import (
    CORRELATION,
    WORD_LIST_MEASURE,
    bin_by_measure,
    dialogue_overlap,
    label_code,
    mean_labels,
    measure_scores,
    uptake,
    word_count,
)
from maieutic.validation.word_lists import JudgeByWords, word_list_judgements
from rule_inputs import inputs_of
from shipped import registries

SCALE = Scale(labels=("Yes", "To some extent", "No"), desired="Yes")
SAMPLING = BootstrapSettings(100, 1)


def item(name: str = "d", history: str = "Tutor: What is 3 plus 4?\nStudent: It is eight apples") -> Item:
    return Item(id=name, task="t", cluster=name, vars={"history": history}, reference={})


@pytest.mark.parametrize(("criterion", "reply", "expected"), [
    ("Mistake_Identification", "Look again.", 1.0),
    ("Mistake_Identification", "That is wrong.", 0.0),
    ("Mistake_Identification", "I dislike it", 1.0),  # "like" within a word counts, as in the toolkit
    ("Mistake_Location", "A MISTAKE", 1.0),
    ("Mistake_Location", "Look again.", 0.0),
    ("Revealing_of_the_Answer", "It costs 3.", 1.0),  # the toolkit uses the list of mistake location here
    ("Actionability", "Can you?", 1.0),
    ("Actionability", "You can.", 0.0),
    ("Actionability", "", 0.0),
    ("humanlikeness", "Good job!", 0.5),
    ("humanlikeness", "Good, now go on from there.", 1.0),
    ("humanlikeness", " ".join(["word"] * 41), 0.5),
    ("humanlikeness", " ".join(["word"] * 40), 1.0),
    ("humanlikeness", "As your tutor I say so", 0.5),
])  # fmt: skip
def test_the_toolkits_lists(criterion: str, reply: str, expected: float) -> None:
    assert float(toolkit.MEASURES[criterion](item(), reply)) == expected


# Spearman correlations printed by the AutoEvaluator of aitutor-assessmentkit 0.1.8 on V1, with labels coded 1, 0.5, 0
TOOLKIT_CORRELATIONS = {
    "Mistake_Identification": 0.333, "Mistake_Location": 0.279, "Revealing_of_the_Answer": 0.173,
    "Actionability": 0.333, "humanlikeness": 0.109,
}  # fmt: skip


def test_on_the_published_labels_they_give_what_the_toolkit_gives(data: Path) -> None:
    path = data / "mrbench/MRBench_V1.json"
    if not path.is_file():
        path = next(iter(sorted((data / "mrbench").glob("*V1*.json"))), path)
    if not path.is_file():
        absent(str(path), DATA_FIX)
    source = RELEASES["mrbench"]
    data_set = source.load(read_source(path, "json"))
    labels = LabelledData({item.id: item for item in data_set.items}, data_set.replies, data_set.labels, source.about)
    scores = {(score.criterion, score.by): score for score in measure_scores(labels, SAMPLING)}
    for criterion, expected in TOOLKIT_CORRELATIONS.items():
        assert scores[criterion, WORD_LIST_MEASURE].value == pytest.approx(expected, abs=0.0015), criterion
    assert scores["Actionability", "words"].n == 1589


def test_surface_measures_of_a_reply() -> None:
    assert word_count(item(), "two words") == 2.0 and word_count(item(), "") == 0.0
    assert uptake(item(), "Eight apples, really?") == pytest.approx(2 / 2), "words of three letters or more"
    assert uptake(item(), "Apples?") == 0.5 and uptake(item(history=""), "Apples?") == 0.0
    # words of the dialogue: tutor, what, plus, student, eight, apples
    assert dialogue_overlap(item(), "eight apples now") == pytest.approx(2 * 2 / (6 + 3))
    assert dialogue_overlap(item(), "") == 0.0


def labelled_data(labels: dict[tuple[str, str], str], texts: dict[tuple[str, str], str]) -> LabelledData:
    items = {name: item(name) for name, _ in labels}
    replies = [
        Reply(id=name, task="t", tutor=tutor, key="k", turns=[Turn(text=texts[name, tutor], messages="m")])
        for name, tutor in labels
    ]
    label_records = [
        Label(id=name, task="t", tutor=tutor, criterion="Clear", label=label, problem=name)
        for (name, tutor), label in labels.items()
    ]
    return LabelledData(items, replies, label_records, LabelSetDescription(scales={"Clear": SCALE}))


def test_a_measure_that_orders_replies_as_people_do_correlates_with_one() -> None:
    scale = ["Yes", "To some extent", "No"]
    labels = {(f"d{n}", "t"): scale[n % 3] for n in range(30)}
    texts = {key: " ".join(["word"] * (9 - 3 * scale.index(label))) for key, label in labels.items()}
    scores = {score.by: score for score in measure_scores(labelled_data(labels, texts), SAMPLING)}
    assert scores["words"].value == pytest.approx(1.0) and scores["words"].metric == CORRELATION
    assert scores["uptake"].value is None, "a constant has no correlation"
    assert WORD_LIST_MEASURE not in scores


def test_closeness_is_a_cosine_with_what_stands_before() -> None:
    keys = [("d1", "a"), ("d1", "b"), ("d2", "a")]
    data = labelled_data(dict.fromkeys(keys, "Yes"), {keys[0]: "It is eight apples", keys[1]: "Else", keys[2]: " "})
    embedded: list[str] = []

    def embed(texts: Sequence[str]) -> list[list[float]]:
        embedded.extend(texts)
        return [[1.0, 0.0] if text == "It is eight apples" else [0.0, 1.0] for text in texts]

    closenesses = {(result.id, result.tutor): result for result in closeness(data, embed)}
    assert (closenesses[keys[0]].last_turn, closenesses[keys[0]].dialogue) == (1.0, 0.0)
    assert (closenesses[keys[1]].last_turn, closenesses[keys[1]].dialogue) == (0.0, 1.0)
    assert closenesses[keys[2]].last_turn is None, "the reply is blank"
    assert len(embedded) == len(set(embedded)) == 3, "each text is embedded once, a blank one not at all"
    scores = measure_scores(data, SAMPLING, {"m": {key: result.last_turn for key, result in closenesses.items()}})
    assert [(result.n, result.missing) for result in scores if result.by == "m"] == [(2, 1)]


def test_replies_fall_into_fifths_and_ties_stay_together() -> None:
    bins = bin_by_measure([float(n) for n in range(10)], [n >= 8 for n in range(10)])
    assert [(group.low, group.high, group.number, group.share) for group in bins] == [
        (0, 1, 2, 0), (2, 3, 2, 0), (4, 5, 2, 0), (6, 7, 2, 0), (8, 9, 2, 1)
    ]  # fmt: skip
    assert [group.number for group in bin_by_measure([0.0] * 9 + [1.0], [True] * 10)] == [9, 1]
    assert [group.share for group in bin_by_measure([2.0], [False])] == [0.0]


def test_labels_are_coded_from_one_to_zero() -> None:
    assert [label_code(place, 3) for place in range(3)] == [1.0, 0.5, 0.0]
    assert [label_code(place, 4) for place in range(4)] == pytest.approx([1, 2 / 3, 1 / 3, 0])
    data = labelled_data(
        {("d1", "t"): "Yes", ("d2", "t"): "No", ("d3", "t"): "To some extent", ("d1", "u"): "No"},
        dict.fromkeys([("d1", "t"), ("d2", "t"), ("d3", "t"), ("d1", "u")], "x"),
    )
    people = {mean.tutor: mean for mean in mean_labels(None, data, None, SAMPLING)}
    assert (people["t"].value, people["u"].value, people["t"].by) == (0.5, 0.0, None)
    judged = {
        mean.tutor: mean
        for mean in mean_labels("j", data, {("d1", "t", "Clear"): "Yes", ("d2", "t", "Clear"): None}, SAMPLING)
    }
    assert set(judged) == {"t"} and (judged["t"].value, judged["t"].n, judged["t"].by) == (1.0, 1, "j")


def test_shares_of_labels_are_those_of_parsed_verdicts() -> None:
    keys = [("d1", "b"), ("d1", "a"), ("d2", "a")]
    data = labelled_data(dict(zip(keys, ["Yes", "No", "No"], strict=True)), dict.fromkeys(keys, "<b>x</b>"))
    verdicts = {"Judge": {("d1", "a", "Clear"): "Yes", ("d1", "b", "Clear"): "Yes", ("d2", "a", "Clear"): None}}
    shares = section.label_shares(data, verdicts, ["Clear"])
    assert shares[shares.level == "people"]["count"].tolist() == pytest.approx([1 / 3, 0, 2 / 3])
    assert shares[shares.level == "Judge"]["count"].tolist() == [1, 0, 0], "shares of the parsed verdicts"
    assert shares.part.tolist()[:3] == ["first label", "second", "third"]


def test_means_and_measures_are_rows_of_the_paper_and_of_judges() -> None:
    def score_of(metric: str, value: float, **columns: str) -> Score:
        return Score.model_validate(
            {"task": "trust", "metric": metric, "value": value, "n": 3, "missing": 0, "clusters": 3, "criterion": "Clear",
             "release": "ours", "scoring": "robust", "headline": False, "low": None, "high": None, **columns}
        )  # fmt: skip

    people = [
        score_of("mean_label", 0.5, tutor="b"),
        score_of("mean_label", 0.7, tutor="a"),
        score_of(CORRELATION, 0.2, by="words"),
    ]
    judge = [score_of("mean_label", 0.1, tutor="a", by="j"), score_of("spearman", 0.4, grader="j")]
    rows = section.mean_label_rows({"people": people, "J": judge}, "ours", ["Clear"], lambda names: sorted(names))
    assert [(row["tutor"], row["by"], row["cells"][0].value) for row in rows] == [
        ("a", "people", 0.7), ("", "J", 0.1), ("b", "people", 0.5)
    ]  # fmt: skip
    measures = section.correlation_rows(people, {"J": judge}, "ours", ["Clear"])
    assert [(row["what"], row["cells"][0].value) for row in measures] == [("words", 0.2), ("J", 0.4)]
    chart = section.correlation_chart(measures, ["Clear"])
    assert chart.startswith("<svg ") and ">words<" in chart and ">J<" in chart
    assert section.correlation_chart([{"what": "words", "cells": [None]}], ["Clear"]) == ""
    assert section.mean_label_radar(people, "ours", ["Clear"], lambda names: sorted(names)) == "", (
        "a radar needs three axes"
    )


@pytest.mark.parametrize(("criterion", "score", "label"), [
    ("Mistake_Identification", 3, "Yes"),
    ("Mistake_Identification", 1, "No"),
    ("Tutor_Tone", 2, "Neutral"),
    ("Revealing_of_the_Answer", 3, "Yes (and the answer is correct)"),
    ("Revealing_of_the_Answer", 1, "No"),
    ("Revealing_of_the_Answer", 4, None),
])  # fmt: skip
def test_the_toolkits_critic_gives_three_for_the_first_label(criterion: str, score: int, label: str | None) -> None:
    rubric = read_rubric("mrbench_toolkit").rubric
    criteria = {criterion: rubric.criteria[criterion]}
    [verdict] = parse_verdicts(rubric, criteria, f"Feedback. [RESULT] {score}", "stop")
    assert verdict.value == label


def test_the_toolkits_critic_fits_mrbenchs_labels_and_its_task() -> None:
    for name in ("mrbench_toolkit", "mrbench_toolkit_reference"):
        assert rubric_fits_labels(RELEASES["mrbench"].about, read_rubric(name))
    assert "{{ topic }}" in read_rubric("mrbench_toolkit").prompt
    assert "{{ reference_response }}" in read_rubric("mrbench_toolkit_reference").prompt
    assert read_rubric("mrbench_toolkit_reference").system == read_rubric("mrbench_toolkit").system


def test_lists_of_words_judge_what_they_have_a_list_for() -> None:
    taxonomy = read_rubric("mrbench_taxonomy")
    cases = [
        (taxonomy, Case("d", "ours", "a", {}, {"response": "Great try, look again?"})),
        (taxonomy, Case("d", "ours", "b", {}, {"response": "No."})),
        (
            taxonomy,
            Case("d", "ours", "c", {}, {"response": ""})._replace(
                criteria={"Coherence": taxonomy.rubric.criteria["Coherence"]}
            ),
        ),
    ]
    first, second, third = word_list_judgements(cases, {("ours", "d"): item()})
    words = {verdict.criterion: verdict.value for verdict in first.verdicts}
    assert set(words) == set(taxonomy.rubric.criteria) and first.key == "none"
    assert (words["Mistake_Identification"], words["Actionability"], words["Tutor_Tone"]) == (
        "Yes",
        "Yes",
        "Encouraging",
    )
    assert {verdict.criterion: verdict.value for verdict in second.verdicts}["Mistake_Identification"] == "No"
    assert [verdict.criterion for verdict in third.verdicts] == ["Coherence"]


@pytest.mark.parametrize(("entry", "problem"), [
    ({"words": True}, "word lists require 'rubrics'"),
    ({"words": True, "model": "gpt-4", "rubrics": ["mrbench_taxonomy"]}, "expected exactly one of 'model', 'judges'"),
    ({"words": True, "rubrics": ["mrbench_taxonomy"], "max_tokens": 3}, "word lists send no requests: remove max_tokens"),
    ({"words": True, "rubrics": ["tutorbench"]}, "no criterion of tutorbench has a word list"),
])  # fmt: skip
def test_an_impossible_word_list_judge_is_refused(entry: dict[str, Any], problem: str) -> None:
    raw = registries()
    raw["models"] |= {"lists": {"engine": "judge", **entry}}
    run = {"tutors": ["echo"], "tasks": ["mrbench", "tutorbench/text"], "judges": ["lists"]}
    with pytest.raises(UserError) as error:
        plan_of({**raw, "edition": "demo", "run": run})
    assert problem in str(error.value)


def test_lists_of_words_ask_nobody_in_a_plan() -> None:
    run = {"tutors": ["echo"], "tasks": ["mrbench"], "judges": ["mrbench-word-lists"]}
    plan = plan_of({**registries(), "edition": "demo", "run": run})
    assert plan.word_list_judges == ["mrbench-word-lists"] and plan.judges_with_model == [] and plan.probed_judges == []
    place = {"judge": "mrbench-word-lists", "benchmark": "mrbench", "batch": "_baselines"}
    assert inputs_of(plan, "judge_by_words")(place)["replies"]
    assert JudgeByWords.model_validate_json(plan.job_of("judge_by_words")(place)).tasks == ["mistake_remediation"]


def test_labels_of_a_scatter_never_overlap() -> None:
    draw = random.Random(3)
    for points in (
        [(100.0, 100.0)] * 12,
        [(560.0 * draw.random(), 340.0 * draw.random()) for _ in range(30)],
        [(555.0, 10.0), (556.0, 11.0), (5.0, 330.0)],
    ):
        texts = [f"a tutor with number {number}" for number in range(len(points))]
        boxes = [
            (left, middle - LINE_HEIGHT / 2, left + LETTER_WIDTH * len(text), middle + LINE_HEIGHT / 2)
            for (left, middle), text in zip(
                label_places(points, texts, SCATTER_WIDTH, SCATTER_HEIGHT), texts, strict=True
            )
        ]
        assert not [pair for pair in combinations(boxes, 2) if overlap(*pair)]
