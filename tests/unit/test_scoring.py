"""From grades to what a metric is made of: parts of an item by several graders, silence of each kind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from maieutic.config.cards import JUDGE, Metric, read_card
from maieutic.core.records import Grade, Item, Scoring
from maieutic.core.stats import MEAN, BootstrapSettings, estimate_statistic
from maieutic.graders.registry import OBJECTIVE_GRADERS
from maieutic.graders.weighted_rubric import NEGATIVE_WEIGHT_READINGS, WeightedCriterion, clip_score, favours_reply
from maieutic.scores.metrics.common import (
    RELEASED,
    GradedItem,
    class_counts,
    detection_counts,
    detection_f1,
    metric_from_counts,
    weighted_f1,
)
from maieutic.scores.metrics.common import Metric as Function
from maieutic.scores.metrics.registry import METRICS
from maieutic.scores.score import (
    UNPARSED,
    GradeKey,
    GradesByKey,
    Measurement,
    MetricEvidence,
    ScoringJob,
    all_metrics,
    graded_items,
    items_with_parts,
    score_from_estimate,
    score_metric,
)
from sklearn.metrics import f1_score

PARSER = sorted(OBJECTIVE_GRADERS)[0]
METRIC = Metric(function="mean", parts=[{"grader": PARSER}, {"grader": JUDGE, "criterion": "c"}])
RIGHT: dict[str, Any] = {"value": 3, "correct": True, "gold": 3}
UNREAD: dict[str, Any] = {"value": None, "correct": None, "why_none": "no number"}
ITEMS = {  # by item: what the parser and what the judge says; None: nothing
    "both": (RIGHT, RIGHT),
    "unread": (UNREAD, RIGHT),
    "open": (RIGHT, UNREAD),
    "not judged": (RIGHT, None),
    "not parsed": (None, RIGHT),
    "nothing": (None, None),
    "open alone": (None, UNREAD),
    "unread alone": (UNREAD, None),
    "unread and open": (UNREAD, UNREAD),
}


def given(scoring: Scoring) -> tuple[list[Item], GradesByKey]:
    """The items with their grades under a scoring."""
    items = [Item(id=name, task="t", cluster=name, vars={}, reference={}) for name in ITEMS]
    grades: GradesByKey = {GradeKey(PARSER, scoring, None): {}, GradeKey(JUDGE, scoring, "c"): {}}
    for name, pair in ITEMS.items():
        for kind, criterion, said in zip((PARSER, JUDGE), (None, "c"), pair, strict=True):
            if said is not None:
                grades[GradeKey(kind, scoring, criterion)][name] = Grade(
                    id=name, task="t", kind=kind, scoring=scoring, criterion=criterion, raw="", **said
                )
    return items, grades


def test_robust_an_unread_part_is_wrong_and_an_open_verdict_is_missing() -> None:
    found = items_with_parts(METRIC, "robust", *given("robust"))
    assert found is not None
    parts = {item.id: one.parts for item, one in found.known}
    read, wrong = GradedItem(3, True, 3), GradedItem(0.0, False, None)
    assert parts == {
        "both": (read, read),
        "unread": (wrong, read),
        "open": (read, UNPARSED),
        "not judged": (read, None),
        "not parsed": (None, read),
        "unread alone": (wrong, None),
        "unread and open": (wrong, UNPARSED),
    }
    assert (found.counted, found.missing, found.unreadable) == (9, 4, 2)


def test_by_the_released_rules_what_a_parser_leaves_open_is_missing() -> None:
    found = items_with_parts(METRIC, "paper_compat", *given("paper_compat"))
    assert found is not None
    assert [item.id for item, _ in found.known] == ["both", "open", "not judged", "not parsed"]
    assert (found.counted, found.missing, found.unreadable) == (9, 6, 0)


def test_a_part_by_a_grader_that_said_nothing_at_all() -> None:
    items, grades = given("robust")
    del grades[GradeKey(JUDGE, "robust", "c")]
    found = items_with_parts(METRIC, "robust", items, grades)
    assert found is not None and [one.parts[1] for _, one in found.known] == [None] * 6
    assert (found.missing, found.unreadable) == (3, 3)
    assert items_with_parts(METRIC, "robust", items, {}) is None, "nobody said anything of this task"


def test_metrics_are_made_of_their_counts() -> None:
    items = [
        GradedItem(None, True, "a"),
        GradedItem(None, False, "a"),
        GradedItem(None, True, None),
        GradedItem(None, True, None),
    ]
    made = metric_from_counts(detection_counts, detection_f1)
    assert made.counts is detection_counts and made.from_sums is detection_f1
    assert made.value(items) == pytest.approx(2 * 0.5 * 1.0 / 1.5)
    labelled = [GradedItem(said, said == gold, gold) for said, gold in (("x", "x"), ("y", "x"), ("y", "y"), ("z", "x"))]
    f1 = metric_from_counts(class_counts, weighted_f1)
    expected = f1_score(["x", "x", "y", "x"], ["x", "y", "y", "z"], average="weighted", zero_division=0)
    assert f1.value(labelled) == pytest.approx(expected)
    assert float(f1.from_sums(f1.counts(labelled).sum(axis=0))) == pytest.approx(expected)
    np.testing.assert_array_equal(f1.counts(labelled).shape, (4, 9))


def test_a_rating_is_clipped_to_shares() -> None:
    assert [clip_score(value) for value in (-0.5, 0.0, 0.4, 1.0, 1.5)] == [0.0, 0.0, 0.4, 1.0, 1.0]


@pytest.mark.parametrize("passed", [True, False])
def test_what_speaks_for_a_reply_depends_on_the_reading_of_negative_weights(passed: bool) -> None:
    positive, prohibition, fault = (
        WeightedCriterion(1, False),
        WeightedCriterion(-1, True),
        WeightedCriterion(-1, False),
    )
    for reading in NEGATIVE_WEIGHT_READINGS:
        assert favours_reply(positive, passed, reading) == passed, "a positive weight is read one way"
    assert favours_reply(prohibition, passed, "by_phrasing") == passed, "what must not be is not"
    assert favours_reply(fault, passed, "by_phrasing") != passed, "a fault that is there speaks against the reply"
    assert favours_reply(prohibition, passed, "violated") == favours_reply(fault, passed, "violated") == passed
    assert favours_reply(prohibition, passed, "satisfied") == favours_reply(fault, passed, "satisfied") != passed


@pytest.mark.parametrize(("scoring", "value"), [("paper_compat", RELEASED), ("robust", METRICS)])
def test_a_score_says_what_it_is_of_and_by_whom(scoring: Scoring, value: dict[str, Function]) -> None:
    card = read_card(Path("resources/benchmarks/mrbench/mistake_remediation.yaml")).card
    gold = ["x", "y", "x", "y"]
    graded = [GradedItem(said, said == true, true) for said, true in zip(["x", "y", "z", "y"], gold, strict=True)]
    items = [Item(id=f"i{number}", task="t", cluster=f"i{number // 2}", vars={}, reference={}) for number in range(4)]
    metric = Metric(function="macro_f1", criterion="c", only={"source": "bridge", "turn": "2"}, headline=True)
    found = MetricEvidence(list(zip(items, graded, strict=True)), 3, 7, unreadable=1)
    score = score_metric(card, "me", Measurement("own", metric, scoring, "judge-1", found), BootstrapSettings(100, 1))
    told = score.model_dump(exclude={"low", "high"}, exclude_none=True)
    assert told == {
        "task": card.task, "metric": "own", "value": pytest.approx(value["macro_f1"].value(graded)), "n": 4,
        "missing": 3, "clusters": 2, "tutor": "me", "benchmark": "mrbench", "criterion": "c", "subset": "bridge, 2",
        "by": "judge-1", "scoring": scoring, "headline": True, "unreadable": 1, "version": card.version,
    }  # fmt: skip
    whole = Measurement("own", metric.model_copy(update={"only": {}}), scoring, None, found)
    assert score_metric(card, "me", whole, BootstrapSettings(100, 1)).subset is None


def test_a_task_that_no_judge_has_a_rubric_for_is_scored_without_one() -> None:
    task = "mistake_remediation"

    def missing(**columns: Any) -> str | None:
        job = ScoringJob(benchmark="mrbench", tasks=[task], resamples=100, seed=1, **columns)
        return job.card(task).missing_grader

    assert missing() is missing(unjudged=["another"]) is missing(absent=["reward"]) is None
    assert (
        missing(unjudged=[task]) == missing(absent=["judge"]) == missing(unjudged=[task], absent=["judge"]) == "judge"
    )


def test_metrics_by_parsers_have_a_twin_over_readable_answers() -> None:
    def twins(name: str) -> dict[str, Metric]:
        card = read_card(Path("resources/benchmarks") / f"{name}.yaml").card
        return {name: metric for name, metric in all_metrics(card).items() if name not in card.metrics}

    assert set(twins("mathtutorbench/problem_solving")) == {"accuracy_readable"}
    [twin] = twins("mathtutorbench/problem_solving").values()
    assert (twin.headline, twin.readable, twin.function) == (False, True, "accuracy")
    assert set(twins("tutorbench/text")) == {"match_readable"}, "a judge's numbers have none"


def test_items_of_a_metric_are_those_that_its_grader_was_asked_about() -> None:
    items = [Item(id=f"i{number}", task="t", cluster="c", vars={}, reference={}) for number in range(3)]
    grades = {
        f"i{number}": Grade(id=f"i{number}", task="t", kind=PARSER, scoring="robust", value=value, correct=None, raw="")
        for number, value in enumerate(("bad", "good"))
    }
    metric = Metric(function="accuracy", value="bad")
    found = graded_items(metric, PARSER, "robust", items, grades)
    assert found is not None and [graded.correct for _, graded in found.known] == [True, False]
    assert (found.counted, found.missing, found.unreadable) == (3, 1, 0)
    some = graded_items(metric.model_copy(update={"subset": True}), PARSER, "robust", items, grades)
    assert some is not None and (some.counted, some.missing) == (2, 0)
    assert graded_items(metric, PARSER, "robust", items, {}) is None


def test_a_score_is_no_headline_unless_its_columns_say_so() -> None:
    found = estimate_statistic(MEAN, [1.0, 0.0], ["a", "b"], BootstrapSettings(100, 1))
    plain, head = (
        score_from_estimate(found, "t", "m"),
        score_from_estimate(found, "t", "m", headline=True, scoring="paper_compat"),
    )
    assert (plain.scoring, plain.headline, plain.value) == ("robust", False, 0.5)
    assert (head.scoring, head.headline) == ("paper_compat", True)
