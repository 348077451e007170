"""Tests of paired differences of tutors, which are computed on the same items with the same resampled problems."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from maieutic.config.cards import Card, Metric, read_card
from maieutic.core.intervals import StudentT, paired_difference
from maieutic.core.records import Difference, Grade, Item, Scoring, write_records
from maieutic.core.stats import SHARE, BootstrapSettings, estimate_statistic, leave_one_out
from maieutic.scores.differences import (
    CompareTutors,
    ComparisonKey,
    compare_tutors,
    exact_mcnemar,
    holm_corrected,
    smallest_p,
    tutor_differences,
)
from maieutic.scores.metrics import RELEASED, GradedItem
from maieutic.scores.metrics import Metric as Function
from maieutic.scores.registry import METRICS
from maieutic.scores.score import Measurement, MetricEvidence
from scipy.stats import binomtest, ttest_1samp

TASK = "problem_solving"
CARD: Card = read_card(Path("resources/benchmarks/mathtutorbench") / f"{TASK}.yaml").card


def grades(answers: Mapping[str, bool | None]) -> list[Grade]:
    """Return a tutor's grades. answers: by item, right, wrong, or None for an unreadable reply."""
    return [
        Grade(
            id=name, task=TASK, kind=CARD.graders[0], scoring=scoring, value=1 if right is not None else None,
            correct=right, raw="", why_none=None if right is not None else "refused",
        )
        for name, right in answers.items()
        for scoring in ("paper_compat", "robust")
    ]  # fmt: skip


def compare(
    folder: Path, tutors: Mapping[str, Mapping[str, bool | None]], clusters: Mapping[str, str] | None = None
) -> dict[tuple[str, str], Difference]:
    """Return the differences of tutors under the robust scoring, by pair."""
    names = sorted({name for answers in tutors.values() for name in answers})
    items = [
        Item(id=name, task=TASK, cluster=(clusters or {}).get(name, name), vars={}, reference={}) for name in names
    ]
    write_records(folder / f"{TASK}.jsonl", items)
    for tutor, answers in tutors.items():
        write_records(folder / f"of-{tutor}.jsonl", grades(answers))
    job = CompareTutors(
        benchmark="mathtutorbench", tutors=list(tutors), tasks=[TASK], absent=["reward", "judge"], resamples=500, seed=1
    )
    files = [folder / f"of-{tutor}.jsonl" for tutor in tutors]
    compare_tutors(job=job, items=folder, grades=files, out=folder / "out.json")
    differences = [
        Difference.model_validate(line) for line in json.loads((folder / "out.json").read_text(encoding="utf-8"))
    ]
    return {
        (difference.first, difference.second): difference
        for difference in differences
        if difference.scoring == "robust"
    }


def answers_of(right: Sequence[bool]) -> dict[str, bool | None]:
    return {f"i{number:03}": bool(correct) for number, correct in enumerate(right)}


def test_a_difference_is_that_of_the_values_and_its_interval_is_paired(tmp_path: Path) -> None:
    generator = np.random.default_rng(3)
    second = generator.random(300) < 0.5
    first = second | (generator.random(300) < 0.1)  # right wherever the second is, and on a tenth of the other items
    difference = compare(tmp_path, {"a": answers_of(first), "b": answers_of(second)})["a", "b"]
    assert difference.value == pytest.approx(first.mean() - second.mean())
    assert difference.n == difference.clusters == 300
    t_interval = ttest_1samp(first.astype(float) - second, 0.0).confidence_interval()
    assert (difference.low, difference.high) == (
        pytest.approx(t_interval.low, abs=0.01),
        pytest.approx(t_interval.high, abs=0.01),
    )
    assert difference.low > 0, "the tutors' own intervals overlap, but the paired interval excludes zero"
    single = estimate_statistic(
        SHARE, list(second.astype(float)), [f"i{n:03}" for n in range(300)], BootstrapSettings(500, 1)
    )
    assert difference.high - difference.low < (single.interval.high - single.interval.low) / 2
    assert (difference.first_alone_right, difference.second_alone_right) == (int((first & ~second).sum()), 0)
    assert difference.mcnemar_p == pytest.approx(binomtest(0, int((first & ~second).sum()), 0.5).pvalue)


def test_equal_tutors_do_not_differ(tmp_path: Path) -> None:
    answers = answers_of([True, False] * 20)
    difference = compare(tmp_path, {"a": answers, "b": answers})["a", "b"]
    assert (difference.value, difference.p, difference.p_holm, difference.mcnemar_p) == (0, 1, 1, 1)
    assert -0.1 < difference.low < 0 < difference.high < 0.1, "with few answers a small difference remains possible"


def test_items_of_one_problem_are_drawn_together(tmp_path: Path) -> None:
    first, second = answers_of([True] * 12 + [False] * 12), answers_of([False] * 24)
    alone = compare(tmp_path, {"a": first, "b": second})["a", "b"]
    grouped = compare(tmp_path, {"a": first, "b": second}, {name: name[:3] for name in first})["a", "b"]
    assert grouped.value == alone.value == 0.5 and (grouped.clusters, alone.clusters) == (3, 24)
    assert grouped.high - grouped.low > alone.high - alone.low


def test_only_items_that_both_tutors_have_count(tmp_path: Path) -> None:
    """An unreadable reply is wrong, but items without a reply of both tutors are left out."""
    first = {"i1": True, "i2": None, "i3": True}
    second = {"i1": False, "i2": True, "i4": True}
    difference = compare(tmp_path, {"a": first, "b": second})["a", "b"]
    assert (difference.n, difference.value, difference.first_alone_right, difference.second_alone_right) == (
        2, 0.0, 1, 1,
    )  # fmt: skip


def contrast_of(first: np.ndarray, second: np.ndarray) -> StudentT:
    """Return the contrast of two tutors' shares, with one item per problem."""
    sides = [np.column_stack([side, np.ones(len(side))]).astype(float) for side in (first, second)]
    left_out = [leave_one_out(sums, SHARE.from_sums) for sums in sides]
    contrast = paired_difference((float(first.mean()), float(second.mean())), (left_out[0], left_out[1]), (0.0, 1.0))
    assert contrast is not None
    return contrast


def test_p_values_keep_their_error_rate_where_nothing_differs() -> None:
    generator, significant = np.random.default_rng(5), 0
    for _ in range(400):
        pairs = generator.random((80, 2)) < 0.5
        contrast = contrast_of(pairs[:, 0], pairs[:, 1])
        (low, high), p = contrast.interval(), contrast.p_value()
        assert 0 < p <= 1 and (p < 0.05) == (low > 0 or high < 0), "the interval and the p value agree"
        significant += p < 0.05
    assert 6 <= significant <= 36, "about one in twenty"


def test_one_answer_of_twenty_is_no_difference() -> None:
    """20 of 20 beside 19 of 20: zero is well inside the interval; a percentile bootstrap interval only touches it."""
    first, second = np.ones(20), np.array([0.0] + [1.0] * 19)
    contrast = contrast_of(first, second)
    assert contrast.interval()[0] < 0 < contrast.interval()[1] and contrast.p_value() > 0.2


def test_a_large_difference_is_found_among_many_pairs() -> None:
    """A bootstrap of 2,000 resamples has no p value below 0.001, which Holm's correction of 1,520 pairs raises to 1."""
    generator = np.random.default_rng(8)
    first, second = generator.random(200) < 0.9, generator.random(200) < 0.6
    p = contrast_of(first, second).p_value()
    expected = float(ttest_1samp(first.astype(float) - second, 0.0).pvalue)
    assert p < 1e-4 and math.log10(p) == pytest.approx(math.log10(expected), abs=2)
    assert holm_corrected([make_difference(p), *(make_difference(0.5) for _ in range(1519))])[0].p_holm < 0.05


@pytest.mark.parametrize(("problems", "smallest"), [(2, 0.5), (3, 0.25), (12, 2 / 4096)])
def test_few_problems_prove_little(problems: int, smallest: float) -> None:
    """The p value is at least that of a sign test in which all problems agree."""
    contrast = contrast_of(np.ones(problems), np.zeros(problems))
    p = smallest_p(contrast, problems)
    assert p is not None and p >= smallest
    assert smallest_p(None, problems) is None


def test_the_exact_test_is_the_binomial_one() -> None:
    for wins, losses in ((5, 15), (0, 0), (1, 0), (30, 31)):
        expected = binomtest(wins, wins + losses, 0.5).pvalue if wins + losses else 1.0
        assert exact_mcnemar(wins, losses) == pytest.approx(expected)


def make_difference(p: float | None, scoring: str = "robust") -> Difference:
    return Difference(
        benchmark="b", task="t", first="x", second="y", metric="m", criterion=None, by=None, scoring=scoring,
        value=0.1, low=0.0, high=0.2, p=p, n=1, clusters=1,
    )  # fmt: skip


def test_holm_by_hand() -> None:
    """Expect 0.01 x 3, max(that, 0.03 x 2) and max(that, 0.04); another scoring is corrected separately."""
    corrected = holm_corrected(
        [
            make_difference(0.04), make_difference(0.01), make_difference(None), make_difference(0.03),
            make_difference(0.5, "paper_compat"),
        ]
    )  # fmt: skip
    assert [result.p_holm for result in corrected] == [
        pytest.approx(0.06), pytest.approx(0.03), None, pytest.approx(0.06), 0.5,
    ]  # fmt: skip


def test_a_pair_without_shared_items_does_not_stop_the_others(tmp_path: Path) -> None:
    differences = compare(tmp_path, {"a": {"i1": True}, "b": {"i2": True}, "c": {"i1": False, "i2": False}})
    assert list(differences) == [("a", "c"), ("b", "c")]
    assert {
        (difference.value, difference.by, difference.criterion, difference.metric)
        for difference in differences.values()
    } == {(1.0, None, None, "accuracy")}


def compare_by_graders(folder: Path, task: str, grades_of: Mapping[str, list[Grade]], items: int) -> list[Difference]:
    """Return the differences of tutors on one task by reward models and judges, with one file per tutor and grader."""
    benchmark = "mrbench" if task == "mistake_remediation" else "mathtutorbench"
    names = [f"i{number}" for number in range(items)]
    write_records(
        folder / f"{task}.jsonl", [Item(id=name, task=task, cluster=name, vars={}, reference={}) for name in names]
    )
    tutors, files = [], []
    for tutor, tutor_grades in grades_of.items():
        for by in dict.fromkeys(grade.by for grade in tutor_grades):
            tutors.append(tutor)
            files.append(folder / f"{tutor}-{by}.jsonl")
            write_records(files[-1], [grade for grade in tutor_grades if grade.by == by])
    absent = ["reward"] if benchmark == "mrbench" else ["judge"]
    job = CompareTutors(benchmark=benchmark, tutors=tutors, tasks=[task], absent=absent, resamples=200, seed=1)
    compare_tutors(job=job, items=folder, grades=files, out=folder / "out.json")
    differences = [
        Difference.model_validate(line) for line in json.loads((folder / "out.json").read_text(encoding="utf-8"))
    ]
    return [difference for difference in differences if difference.scoring == "robust"]


def test_the_first_judge_compares(tmp_path: Path) -> None:
    def judge_grades(*shares: tuple[str, list[float | None]]) -> list[Grade]:
        return [
            Grade(
                id=f"i{number}", task="mistake_remediation", kind="judge", by=judge, scoring="robust",
                criterion="desired_share", value=value, correct=None, raw="", why_none=None if value is not None else "no",
            )
            for judge, values in shares
            for number, value in enumerate(values)
        ]  # fmt: skip

    first = judge_grades(("strict", [0.25, 0.5, 0.75]), ("kind", [1, 1, 1]))
    second = judge_grades(("strict", [0, 0, 0.75]))
    third = judge_grades(("strict", [None, None, None]), ("kind", [0.5, 0.5, 0.25]))
    differences = compare_by_graders(tmp_path, "mistake_remediation", {"a": first, "b": second, "c": third}, 3)
    [difference] = differences  # no reply of the third tutor has a verdict
    assert (difference.benchmark, difference.task) == ("mrbench", "mistake_remediation")
    fields = (
        difference.by, difference.first, difference.second, difference.metric, difference.criterion, difference.value,
        difference.n,
    )  # fmt: skip
    assert fields == ("strict", "a", "b", "damr", "desired_share", 0.25, 3)


def test_a_reference_is_not_compared_by_a_metric_against_itself(tmp_path: Path) -> None:
    def reward_grades(*wins: bool) -> list[Grade]:
        return [
            Grade(
                id=f"i{number}", task="scaffolding_generation", kind="reward", by="rm", scoring="robust",
                criterion="win", value=win, correct=win, raw="",
            )
            for number, win in enumerate(wins)
        ]  # fmt: skip

    tutors = {
        "a": reward_grades(True, True, False, True),
        "reference": reward_grades(*[False] * 4),
        "b": reward_grades(True, False, False, False),
    }
    [difference] = compare_by_graders(tmp_path, "scaffolding_generation", tutors, 4)
    assert (difference.first, difference.second, difference.by, difference.criterion, difference.value) == (
        "a", "b", "rm", "win", 0.5,
    )  # fmt: skip


def compare_by_metric(function: str, scoring: Scoring, first: list[GradedItem], second: list[GradedItem]) -> Difference:
    """Return the difference of two tutors by a metric that is not a headline of a shipped card."""
    items = [
        Item(id=f"i{number}", task=TASK, cluster=f"i{number}", vars={}, reference={}) for number in range(len(first))
    ]
    metric = Metric(headline=True, function=function)
    measured = {
        tutor: Measurement(
            "own", metric, scoring, None, MetricEvidence(list(zip(items, graded, strict=True)), 0, len(items))
        )
        for tutor, graded in (("a", first), ("b", second))
    }
    [difference] = tutor_differences(CARD, ComparisonKey(TASK, scoring, None), measured)
    return difference


@pytest.mark.parametrize(("scoring", "functions"), [("paper_compat", RELEASED), ("robust", METRICS)])
def test_a_difference_is_computed_as_its_scoring_computes_the_metric(
    scoring: Scoring, functions: Mapping[str, Function]
) -> None:
    gold = ["x", "y", "x", "y"]
    first = [
        GradedItem(answer, answer == label, label) for answer, label in zip(["x", "y", "z", "y"], gold, strict=True)
    ]
    second = [
        GradedItem(answer, answer == label, label) for answer, label in zip(["x", "y", "y", "y"], gold, strict=True)
    ]
    metric = functions["macro_f1"]
    difference = compare_by_metric("macro_f1", scoring, first, second)
    assert difference.value == metric.value(first) - metric.value(second)
    assert (difference.metric, difference.n) == ("own", 4)
    assert RELEASED["macro_f1"].value(first) != METRICS["macro_f1"].value(first)


def test_a_difference_of_undefined_values_is_none() -> None:
    unparsed = [GradedItem(None, None, None, (GradedItem(1, True, True), GradedItem(None, None, None)))] * 2
    difference = compare_by_metric("reason_accuracy", "robust", unparsed, unparsed)
    assert difference.value is None
