"""Tests of prefix twins: items from StepVerify, effects of known tutors and of form, samples, coverage, the light."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from maieutic.benchmarks.prefix_twins.loaders import LOADERS, twins_of
from maieutic.benchmarks.prefix_twins.section import effect_of_form
from maieutic.config.cards import Metric
from maieutic.core import paths
from maieutic.core.records import Grade, Item, Label, write_records
from maieutic.core.stats import BootstrapSettings, estimate_statistic
from maieutic.report import traffic_light
from maieutic.scores.metrics import GradedItem
from maieutic.scores.registry import METRICS
from maieutic.scores.score import GradeKey, graded_items, value_if

SAMPLING = BootstrapSettings(100, 1)
EFFECT = Metric(function="diagnosis_effect")


def twin(number: int, kind: str, task: str = "prefix_twins") -> Item:
    """Return an item with a prefix of a problem, without texts."""
    return Item(
        id=f"{number}-{kind}", task=task, cluster=str(number), vars={}, reference={"text": ""}, tags={"prefix": kind}
    )


def record(problem: str, steps: list[str], wrong: int) -> dict[str, Any]:
    return {"problem": problem, "student_incorrect_solution": steps, "incorrect_index": wrong}


@pytest.fixture(scope="module")
def verdict_items(data: Path) -> list[Item]:
    records = json.loads((data / "stepverify/dataset.json").read_text(encoding="utf-8"))
    return LOADERS["prefix_verdicts"].load(records, "prefix_verdicts")


def test_the_twins_are_the_same_students_steps() -> None:
    twins = twins_of(
        [
            record("first", ["a", "b ", "c", " 1"], 2),
            record("first", ["a", "b ", "c", " 1"], 1),  # another annotator marks an earlier step
            record("second", ["x", " 2"], 0),  # nothing is right before the first step
        ]
    )
    assert twins == [("first", "a", False), ("first", "a\nb", True)]


def test_stepverify_has_451_pairs(verdict_items: list[Item]) -> None:
    assert len(verdict_items) == 902 and len({item.cluster for item in verdict_items}) == 451
    right, wrong = verdict_items[::2], verdict_items[1::2]
    for first, second in zip(right, wrong, strict=True):
        assert (first.tags["prefix"], second.tags["prefix"]) == ("right", "wrong")
        shorter, longer = first.vars["student_steps"], second.vars["student_steps"]
        assert longer.startswith(f"{shorter}\n") and longer.count("\n") == shorter.count("\n") + 1


@pytest.mark.parametrize(("form", "low", "high"), [("by_length", 0.2, 0.35), ("by_style", 0.2, 0.35)])
def test_form_alone_reaches_an_effect(verdict_items: list[Item], form: str, low: float, high: float) -> None:
    estimate = effect_of_form(verdict_items, form, SAMPLING)
    assert estimate.value is not None and low < estimate.value < high and estimate.clusters == 451


def test_guesses_do_not_read_numbers(verdict_items: list[Item]) -> None:
    from maieutic.benchmarks.prefix_twins.loaders import guesses_by_form

    twins = [
        (item.vars["question"], item.vars["student_steps"], bool(item.reference["incorrect"]))
        for item in verdict_items[:200]
    ]
    others = [
        (problem, text.translate(str.maketrans("0123456789", "9753102468")), wrong) for problem, text, wrong in twins
    ]
    assert guesses_by_form(twins) == guesses_by_form(others)


KNOWN: dict[str, tuple[Callable[[Item], str | None], float]] = {
    "asks": (lambda item: "no", 0),
    "finds": (lambda item: "yes", 0),
    "knows": (lambda item: "yes" if item.tags["prefix"] == "wrong" else "no", 1),
    "says nothing that can be read": (lambda item: None, 0),
}


@pytest.mark.parametrize("name", KNOWN)
def test_known_tutors_have_the_known_effect(name: str) -> None:
    verdict, effect = KNOWN[name]
    items = [twin(number, kind) for number in range(10) for kind in ("right", "wrong")]
    grades = {}
    for each in items:
        value = verdict(each)
        why = None if value else "no statement"
        grades[each.id] = Grade(
            id=each.id,
            task=each.task,
            kind="yes_no",
            scoring="robust",
            value=value,
            correct=None,
            gold="yes" if each.tags["prefix"] == "wrong" else "no",
            raw="",
            why_none=why,
        )
    evidence = graded_items(EFFECT, "yes_no", "robust", items, grades, {})
    assert evidence is not None and evidence.counted == 20
    assert METRICS["diagnosis_effect"].value([graded for _, graded in evidence.known]) == effect
    assert evidence.unreadable == (20 if effect == 0 and verdict(items[0]) is None else 0)


def test_an_item_without_an_answer_has_the_bounds_of_its_kind() -> None:
    """A tutor's request that was refused has no verdict of a judge; the item itself names the right one."""
    metric = Metric(function="diagnosis_effect", criterion="treats_as_wrong")
    right = {"right": "no", "wrong": "yes"}
    items = [
        twin(number, kind).model_copy(update={"reference": {"verdicts": {"treats_as_wrong": right[kind]}}})
        for number in range(20)
        for kind in ("right", "wrong")
    ]
    missing = {"0-wrong", "1-wrong", "2-right"}
    grades = {
        each.id: Grade(
            id=each.id, task=each.task, kind="judge", by="j", scoring="robust", criterion="treats_as_wrong", raw="",
            value=right[each.tags["prefix"]], correct=True, gold=right[each.tags["prefix"]],
        )
        for each in items
        if each.id not in missing
    }  # fmt: skip
    key = GradeKey("judge", "robust", "treats_as_wrong")
    evidence = graded_items(metric, "judge", "robust", items, grades, {key: grades})
    assert evidence is not None and len(evidence.unanswered) == 3
    function = METRICS["diagnosis_effect"]
    assert value_if(function, evidence, right=True) == pytest.approx(1.0)
    assert value_if(function, evidence, right=False) == pytest.approx(18 / 20 - 1 / 20)


def test_an_item_without_a_twin_of_the_other_kind_has_no_effect() -> None:
    assert np.isnan(METRICS["diagnosis_effect"].value([GradedItem(True, True, True)]))


@pytest.mark.slow
@pytest.mark.parametrize(("alarms", "effect"), [(0.1, 0.0), (0.3, 0.3), (0.02, 0.9), (0.5, 0.45)])
def test_intervals_cover_the_true_effect(alarms: float, effect: float) -> None:
    """Over 451 problems with one pair each, whose two outcomes depend on each other, at least .93 of intervals cover."""
    draw, covered, runs = np.random.default_rng(7), 0, 300
    clusters = [str(number) for number in range(451) for _ in range(2)]
    for _ in range(runs):
        base = draw.random(451)  # the same number decides both outcomes of a pair
        graded = [
            GradedItem(bool(value), None, gold)
            for number in base
            for value, gold in ((number < alarms, False), (number < alarms + effect, True))
        ]
        low, high = estimate_statistic(METRICS["diagnosis_effect"], graded, clusters, SAMPLING).interval
        assert low is not None and high is not None
        covered += low <= effect <= high
    assert covered / runs >= 0.93


def test_the_light_is_grey_until_fifty_replies_to_right_prefixes_are_labelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = "prefix_twins"
    items = [twin(number, kind) for number in range(60) for kind in ("right", "wrong")]
    write_records(Path(paths.ITEMS.within(tmp_path, benchmark=task, task=task)), items)
    card = SimpleNamespace(benchmark=task, task=task)
    plan: Any = SimpleNamespace(
        judged_benchmarks=lambda judge: [task],
        judge_cards=lambda benchmark, judge: [card],
        tasks_by_rubric=lambda judge: {"prefix_twins": [task]},
    )

    def labelled(right: int, criterion: str = "treats_as_wrong") -> int:
        names = [f"{number}-wrong" for number in range(60)] + [f"{number}-right" for number in range(right)]
        labels = [
            Label(id=name, task=task, tutor="t", criterion=criterion, label="no", annotator=who, problem=name)
            for name in names
            for who in ("ann", "ben")
        ]
        write_records(Path(paths.OWN_LABELS.within(tmp_path)), labels)
        return traffic_light.critical_labels(plan, tmp_path, "judge", "prefix_twins")

    assert (labelled(0), labelled(49), labelled(50)) == (0, 49, 50), "a reply counts once, whoever labels it"
    assert labelled(50, "Tutor_Tone") == 0, "labels by another rubric do not count"
