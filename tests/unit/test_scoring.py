"""Tests of scores from grades: composite metrics with parts by several graders, and missing values of each kind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from maieutic.config.cards import JUDGE, Metric, read_card
from maieutic.core.records import Grade, Item, Scoring
from maieutic.core.stats import BootstrapSettings
from maieutic.graders.registry import OBJECTIVE_GRADERS
from maieutic.graders.weighted_rubric import NEGATIVE_WEIGHT_READINGS, WeightedCriterion, favours_reply
from maieutic.scores.metrics import RELEASED, GradedItem
from maieutic.scores.metrics import Metric as Function
from maieutic.scores.registry import METRICS
from maieutic.scores.score import (
    UNPARSED,
    GradeKey,
    GradesByKey,
    Measurement,
    MetricEvidence,
    ScoringJob,
    all_metrics,
    graded_items,
    index_grades,
    items_with_parts,
    score_metric,
    score_task,
)

PARSER = sorted(OBJECTIVE_GRADERS)[0]
METRIC = Metric(function="mean", parts=[{"grader": PARSER}, {"grader": JUDGE, "criterion": "c"}])
CORRECT: dict[str, Any] = {"value": 3, "correct": True, "gold": 3}
EMPTY: dict[str, Any] = {"value": None, "correct": None, "why_none": "no number"}
GRADES_BY_ITEM = {  # by item: the parser's grade and the judge's; None without a grade
    "both": (CORRECT, CORRECT), "unread": (EMPTY, CORRECT), "open": (CORRECT, EMPTY), "not judged": (CORRECT, None),
    "not parsed": (None, CORRECT), "nothing": (None, None), "open alone": (None, EMPTY), "unread alone": (EMPTY, None),
    "unread and open": (EMPTY, EMPTY),
}  # fmt: skip


def items_and_grades(scoring: Scoring) -> tuple[list[Item], GradesByKey]:
    """Return the items with their grades under a scoring."""
    items = [Item(id=name, task="t", cluster=name, vars={}, reference={}) for name in GRADES_BY_ITEM]
    grades: GradesByKey = {GradeKey(PARSER, scoring, None): {}, GradeKey(JUDGE, scoring, "c"): {}}
    for name, pair in GRADES_BY_ITEM.items():
        for kind, criterion, fields in zip((PARSER, JUDGE), (None, "c"), pair, strict=True):
            if fields is not None:
                grades[GradeKey(kind, scoring, criterion)][name] = Grade(
                    id=name, task="t", kind=kind, scoring=scoring, criterion=criterion, raw="", **fields
                )
    return items, grades


def test_robust_an_unread_part_is_wrong_and_an_open_verdict_is_missing() -> None:
    evidence = items_with_parts(METRIC, "robust", *items_and_grades("robust"))
    assert evidence is not None
    parts = {item.id: graded.parts for item, graded in evidence.known}
    correct, wrong = GradedItem(3, True, 3), GradedItem(0.0, False, None, unread=True)
    assert parts == {
        "both": (correct, correct), "unread": (wrong, correct), "open": (correct, UNPARSED),
        "not judged": (correct, None), "not parsed": (None, correct), "unread alone": (wrong, None),
        "unread and open": (wrong, UNPARSED),
    }  # fmt: skip
    assert (evidence.counted, evidence.missing, evidence.unreadable) == (9, 4, 2)


def test_by_the_released_rules_an_unparsed_part_is_missing() -> None:
    evidence = items_with_parts(METRIC, "paper_compat", *items_and_grades("paper_compat"))
    assert evidence is not None
    assert [item.id for item, _ in evidence.known] == ["both", "open", "not judged", "not parsed"]
    assert (evidence.counted, evidence.missing, evidence.unreadable) == (9, 6, 0)


def test_a_part_by_a_grader_without_grades() -> None:
    items, grades = items_and_grades("robust")
    del grades[GradeKey(JUDGE, "robust", "c")]
    evidence = items_with_parts(METRIC, "robust", items, grades)
    assert evidence is not None and [graded.parts[1] for _, graded in evidence.known] == [None] * 6
    assert (evidence.missing, evidence.unreadable) == (3, 3)
    assert items_with_parts(METRIC, "robust", items, {}) is None, "no grader has grades of this task"


@pytest.mark.parametrize("passed", [True, False])
def test_verdicts_in_favour_depend_on_the_reading_of_negative_weights(passed: bool) -> None:
    positive = WeightedCriterion(1, False)
    prohibition = WeightedCriterion(-1, True)
    fault = WeightedCriterion(-1, False)
    for reading in NEGATIVE_WEIGHT_READINGS:
        assert favours_reply(positive, passed, reading) == passed, "readings differ only for negative weights"
    assert favours_reply(prohibition, passed, "by_phrasing") == passed, "a passed prohibition was obeyed"
    assert favours_reply(fault, passed, "by_phrasing") != passed, "a fault that is present counts against the reply"
    assert favours_reply(prohibition, passed, "violated") == favours_reply(fault, passed, "violated") == passed
    assert favours_reply(prohibition, passed, "satisfied") == favours_reply(fault, passed, "satisfied") != passed


@pytest.mark.parametrize(("scoring", "value"), [("paper_compat", RELEASED), ("robust", METRICS)])
def test_columns_of_a_score(scoring: Scoring, value: dict[str, Function]) -> None:
    card = read_card(Path("resources/benchmarks/mrbench/mistake_remediation.yaml")).card
    gold = ["x", "y", "x", "y"]
    graded = [
        GradedItem(answer, answer == gold_label, gold_label)
        for answer, gold_label in zip(["x", "y", "z", "y"], gold, strict=True)
    ]
    items = [Item(id=f"i{number}", task="t", cluster=f"i{number // 2}", vars={}, reference={}) for number in range(4)]
    metric = Metric(function="macro_f1", criterion="c", only={"source": "bridge", "turn": "2"}, headline=True)
    evidence = MetricEvidence(list(zip(items, graded, strict=True)), 3, 7, unreadable=1)
    score = score_metric(
        card, "me", Measurement("own", metric, scoring, "judge-1", evidence), BootstrapSettings(100, 1)
    )
    columns = score.model_dump(exclude={"low", "high"}, exclude_none=True)
    assert columns == {
        "task": card.task, "metric": "own", "value": pytest.approx(value["macro_f1"].value(graded)), "n": 4,
        "missing": 3, "clusters": 2, "tutor": "me", "benchmark": "mrbench", "criterion": "c", "subset": "bridge, 2",
        "by": "judge-1", "scoring": scoring, "headline": True, "unreadable": 1, "doubtful": 0, "withheld": False,
        "version": card.version,
    }  # fmt: skip
    unrestricted = Measurement("own", metric.model_copy(update={"only": {}}), scoring, None, evidence)
    assert score_metric(card, "me", unrestricted, BootstrapSettings(100, 1)).subset is None


def test_items_without_an_answer_bound_a_value_that_then_leads_nothing() -> None:
    card = read_card(Path("resources/benchmarks/mathtutorbench/problem_solving.yaml")).card
    items = [Item(id=f"i{n}", task=card.task, cluster=f"c{n}", vars={}, reference={}) for n in range(10)]
    kinds = dict.fromkeys(card.graders, None)
    grades = [
        Grade(id=item.id, task=card.task, kind=kind, scoring=scoring, value=None if n < 2 else 5.0, gold=5.0, raw="",
              correct=None if n < 2 else n < 6, refused=n < 2, why_none="failed: 500" if n < 2 else None)
        for kind in kinds for scoring in ("paper_compat", "robust") for n, item in enumerate(items)
    ]  # fmt: skip
    for limit, withheld in ((0.05, True), (0.2, False)):
        scores = score_task(card, "m", items, index_grades(grades), BootstrapSettings(100, 1), max_missing=limit)
        [score] = [score for score in scores if score.metric == card.headline and score.scoring == "robust"]
        assert (score.n, score.missing, score.value) == (8, 2, pytest.approx(0.5))
        assert (score.if_wrong, score.if_right) == (pytest.approx(0.4), pytest.approx(0.6))
        assert (score.withheld, score.headline) == (withheld, not withheld)


def test_a_task_that_no_judge_has_a_rubric_for_is_scored_without_one() -> None:
    task = "mistake_remediation"

    def missing_grader(**columns: Any) -> str | None:
        job = ScoringJob(benchmark="mrbench", tasks=[task], resamples=100, seed=1, **columns)
        return job.card(task).missing_grader

    assert missing_grader() is missing_grader(unjudged=["another"]) is missing_grader(absent=["reward"]) is None
    assert (
        missing_grader(unjudged=[task])
        == missing_grader(absent=["judge"])
        == missing_grader(unjudged=[task], absent=["judge"])
        == "judge"
    )


def test_metrics_by_parsers_have_a_twin_over_readable_answers() -> None:
    def variants(name: str) -> dict[str, Metric]:
        card = read_card(Path("resources/benchmarks") / f"{name}.yaml").card
        return {name: metric for name, metric in all_metrics(card).items() if name not in card.metrics}

    assert set(variants("mathtutorbench/problem_solving")) == {"accuracy_readable"}
    [variant] = variants("mathtutorbench/problem_solving").values()
    assert (variant.headline, variant.readable, variant.function) == (False, True, "accuracy")
    assert set(variants("tutorbench/text")) == {"match_readable"}, "a judge's metrics have no such variant"


def test_items_of_a_metric_are_those_that_its_grader_was_asked_about() -> None:
    items = [Item(id=f"i{number}", task="t", cluster="c", vars={}, reference={}) for number in range(3)]
    grades = {
        f"i{number}": Grade(id=f"i{number}", task="t", kind=PARSER, scoring="robust", value=value, correct=None, raw="")
        for number, value in enumerate(("bad", "good"))
    }
    metric = Metric(function="accuracy", value="bad")
    evidence = graded_items(metric, PARSER, "robust", items, grades, {})
    assert evidence is not None and [graded.correct for _, graded in evidence.known] == [True, False]
    assert (evidence.counted, evidence.missing, evidence.unreadable) == (3, 1, 0)
    subset = graded_items(metric.model_copy(update={"subset": True}), PARSER, "robust", items, grades, {})
    assert subset is not None and (subset.counted, subset.missing) == (2, 0)
    assert graded_items(metric, PARSER, "robust", items, {}, {}) is None
