"""Paired differences of tutors: on the same items, with the same problems drawn for both."""

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
from maieutic.scores.metrics.common import RELEASED, GradedItem
from maieutic.scores.metrics.common import Metric as Function
from maieutic.scores.metrics.registry import METRICS
from maieutic.scores.score import Measurement, MetricEvidence
from scipy.stats import binomtest, ttest_1samp

TASK = "problem_solving"
CARD: Card = read_card(Path("resources/benchmarks/mathtutorbench") / f"{TASK}.yaml").card


def grades(answers: Mapping[str, bool | None]) -> list[Grade]:
    """Grades of a tutor: by item right, wrong, or (None) what only the released rules can read."""
    return [
        Grade(
            id=name,
            task=TASK,
            kind=CARD.graders[0],
            scoring=scoring,
            value=1 if right is not None else None,
            correct=right,
            raw="",
            why_none=None if right is not None else "refused",
        )
        for name, right in answers.items()
        for scoring in ("paper_compat", "robust")
    ]


def compared(
    folder: Path, tutors: Mapping[str, Mapping[str, bool | None]], clusters: Mapping[str, str] | None = None
) -> dict[tuple[str, str], Difference]:
    """The differences under the robust scoring of some tutors."""
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
    found = [Difference.model_validate(one) for one in json.loads((folder / "out.json").read_text(encoding="utf-8"))]
    return {(one.first, one.second): one for one in found if one.scoring == "robust"}


def marks(right: Sequence[bool]) -> dict[str, bool | None]:
    return {f"i{number:03}": bool(one) for number, one in enumerate(right)}


def test_a_difference_is_that_of_the_values_and_its_interval_knows_that_items_are_shared(tmp_path: Path) -> None:
    chance = np.random.default_rng(3)
    second = chance.random(300) < 0.5
    first = second | (chance.random(300) < 0.1)  # right wherever the second is, and on a tenth of the others
    found = compared(tmp_path, {"a": marks(first), "b": marks(second)})["a", "b"]
    assert found.value == pytest.approx(first.mean() - second.mean()) and found.n == found.clusters == 300
    plain = ttest_1samp(first.astype(float) - second, 0.0).confidence_interval()
    assert (found.low, found.high) == (pytest.approx(plain.low, abs=0.01), pytest.approx(plain.high, abs=0.01))
    assert found.low > 0, "two intervals that overlap hide what pairs show"
    alone = estimate_statistic(
        SHARE, list(second.astype(float)), [f"i{n:03}" for n in range(300)], BootstrapSettings(500, 1)
    )
    assert found.high - found.low < (alone.interval.high - alone.interval.low) / 2
    assert (found.first_alone_right, found.second_alone_right) == (int((first & ~second).sum()), 0)
    assert found.mcnemar_p == pytest.approx(binomtest(0, int((first & ~second).sum()), 0.5).pvalue)


def test_equal_tutors_do_not_differ(tmp_path: Path) -> None:
    answers = marks([True, False] * 20)
    found = compared(tmp_path, {"a": answers, "b": answers})["a", "b"]
    assert (found.value, found.p, found.p_holm, found.mcnemar_p) == (0, 1, 1, 1)
    assert -0.1 < found.low < 0 < found.high < 0.1, "as many answers leave some room"


def test_items_of_one_problem_are_drawn_together(tmp_path: Path) -> None:
    first, second = marks([True] * 12 + [False] * 12), marks([False] * 24)
    alone = compared(tmp_path, {"a": first, "b": second})["a", "b"]
    grouped = compared(tmp_path, {"a": first, "b": second}, {name: name[:3] for name in first})["a", "b"]
    assert grouped.value == alone.value == 0.5 and (grouped.clusters, alone.clusters) == (3, 24)
    assert grouped.high - grouped.low > alone.high - alone.low


def test_only_items_that_both_have_count(tmp_path: Path) -> None:
    """A reply that cannot be read is wrong, and one that is not there is nobody's loss."""
    first = {"i1": True, "i2": None, "i3": True}
    second = {"i1": False, "i2": True, "i4": True}
    found = compared(tmp_path, {"a": first, "b": second})["a", "b"]
    assert (found.n, found.value, found.first_alone_right, found.second_alone_right) == (2, 0.0, 1, 1)


def apart_of(first: np.ndarray, second: np.ndarray) -> StudentT:
    """The contrast of two tutors' shares, one item a problem."""
    sides = [np.column_stack([side, np.ones(len(side))]).astype(float) for side in (first, second)]
    left_out = [leave_one_out(sums, SHARE.from_sums) for sums in sides]
    found = paired_difference((float(first.mean()), float(second.mean())), (left_out[0], left_out[1]), (0.0, 1.0))
    assert found is not None
    return found


def test_p_values_keep_their_promise_where_nothing_differs() -> None:
    chance, below = np.random.default_rng(5), 0
    for _ in range(400):
        pairs = chance.random((80, 2)) < 0.5
        contrast = apart_of(pairs[:, 0], pairs[:, 1])
        (low, high), p = contrast.interval(), contrast.p_value()
        assert 0 < p <= 1 and (p < 0.05) == (low > 0 or high < 0), "an interval and its p value say the same"
        below += p < 0.05
    assert 6 <= below <= 36, "about one in twenty"


def test_one_answer_of_twenty_is_no_difference() -> None:
    """20 of 20 beside 19 of 20: the percentile bootstrap was undecided only by luck; here zero lies well inside."""
    first, second = np.ones(20), np.array([0.0] + [1.0] * 19)
    contrast = apart_of(first, second)
    assert contrast.interval()[0] < 0 < contrast.interval()[1] and contrast.p_value() > 0.2


def test_a_large_difference_is_found_among_many_pairs() -> None:
    """A bootstrap of 2,000 draws has no p value below 0.001, which Holm over 1,520 pairs would raise to 1."""
    chance = np.random.default_rng(8)
    first, second = chance.random(200) < 0.9, chance.random(200) < 0.6
    p = apart_of(first, second).p_value()
    expected = float(ttest_1samp(first.astype(float) - second, 0.0).pvalue)
    assert p < 1e-4 and math.log10(p) == pytest.approx(math.log10(expected), abs=2)
    assert holm_corrected([difference(p), *(difference(0.5) for _ in range(1519))])[0].p_holm < 0.05


@pytest.mark.parametrize(("problems", "smallest"), [(2, 0.5), (3, 0.25), (12, 2 / 4096)])
def test_few_problems_prove_little(problems: int, smallest: float) -> None:
    """A test of signs says how rare it is at least that every problem says the same."""
    contrast = apart_of(np.ones(problems), np.zeros(problems))
    p = smallest_p(contrast, problems)
    assert p is not None and p >= smallest
    assert smallest_p(None, problems) is None


def test_the_exact_test_is_the_binomial_one() -> None:
    for wins, losses in ((5, 15), (0, 0), (1, 0), (30, 31)):
        expected = binomtest(wins, wins + losses, 0.5).pvalue if wins + losses else 1.0
        assert exact_mcnemar(wins, losses) == pytest.approx(expected)


def difference(p: float | None, scoring: str = "robust") -> Difference:
    return Difference(
        benchmark="b", task="t", first="x", second="y", metric="m", criterion=None, by=None, scoring=scoring,
        value=0.1, low=0.0, high=0.2, p=p, n=1, clusters=1,
    )  # fmt: skip


def test_holm_by_hand() -> None:
    """0.01 x 3, then the larger of that and 0.03 x 2, then the larger of that and 0.04; another scoring is apart."""
    found = holm_corrected(
        [difference(0.04), difference(0.01), difference(None), difference(0.03), difference(0.5, "paper_compat")]
    )
    assert [one.p_holm for one in found] == [pytest.approx(0.06), pytest.approx(0.03), None, pytest.approx(0.06), 0.5]


def test_a_pair_that_shares_nothing_stops_no_other(tmp_path: Path) -> None:
    found = compared(tmp_path, {"a": {"i1": True}, "b": {"i2": True}, "c": {"i1": False, "i2": False}})
    assert list(found) == [("a", "c"), ("b", "c")]
    assert {(one.value, one.by, one.criterion, one.metric) for one in found.values()} == {(1.0, None, None, "accuracy")}


def by_models(folder: Path, task: str, grades_of: Mapping[str, list[Grade]], items: int) -> list[Difference]:
    """The differences of tutors on one task by reward models and judges; two files for each tutor, one a grader."""
    benchmark = "mrbench" if task == "mistake_remediation" else "mathtutorbench"
    names = [f"i{number}" for number in range(items)]
    write_records(
        folder / f"{task}.jsonl",
        [Item(id=name, task=task, cluster=name, vars={}, reference={}) for name in names],
    )
    tutors, files = [], []
    for tutor, of in grades_of.items():
        for by in dict.fromkeys(grade.by for grade in of):
            tutors.append(tutor)
            files.append(folder / f"{tutor}-{by}.jsonl")
            write_records(files[-1], [grade for grade in of if grade.by == by])
    absent = ["reward"] if benchmark == "mrbench" else ["judge"]
    job = CompareTutors(benchmark=benchmark, tutors=tutors, tasks=[task], absent=absent, resamples=200, seed=1)
    compare_tutors(job=job, items=folder, grades=files, out=folder / "out.json")
    found = [Difference.model_validate(one) for one in json.loads((folder / "out.json").read_text(encoding="utf-8"))]
    return [one for one in found if one.scoring == "robust"]


def test_the_first_judge_compares(tmp_path: Path) -> None:
    def judged(*shares: tuple[str, list[float | None]]) -> list[Grade]:
        return [
            Grade(
                id=f"i{number}", task="mistake_remediation", kind="judge", by=judge, scoring="robust",
                criterion="desired_share", value=value, correct=None, raw="", why_none=None if value is not None else "no",
            )
            for judge, values in shares
            for number, value in enumerate(values)
        ]  # fmt: skip

    one, other = judged(("strict", [0.25, 0.5, 0.75]), ("kind", [1, 1, 1])), judged(("strict", [0, 0, 0.75]))
    third = judged(("strict", [None, None, None]), ("kind", [0.5, 0.5, 0.25]))
    found = by_models(tmp_path, "mistake_remediation", {"a": one, "b": other, "c": third}, 3)
    [of] = found  # the third's replies were all left open
    assert (of.benchmark, of.task) == ("mrbench", "mistake_remediation")
    told = (of.by, of.first, of.second, of.metric, of.criterion, of.value, of.n)
    assert told == ("strict", "a", "b", "damr", "desired_share", 0.25, 3)


def test_a_reference_is_not_compared_by_what_holds_replies_against_it(tmp_path: Path) -> None:
    def won(*wins: bool) -> list[Grade]:
        return [
            Grade(
                id=f"i{number}", task="scaffolding_generation", kind="reward", by="rm", scoring="robust",
                criterion="win", value=win, correct=win, raw="",
            )
            for number, win in enumerate(wins)
        ]  # fmt: skip

    tutors = {"a": won(True, True, False, True), "reference": won(*[False] * 4), "b": won(True, False, False, False)}
    [found] = by_models(tmp_path, "scaffolding_generation", tutors, 4)
    assert (found.first, found.second, found.by, found.criterion, found.value) == ("a", "b", "rm", "win", 0.5)


def by_function(function: str, scoring: Scoring, first: list[GradedItem], second: list[GradedItem]) -> Difference:
    """The difference of two tutors by a metric that is no card's headline, as a team's own may be."""
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
    [found] = tutor_differences(CARD, ComparisonKey(TASK, scoring, None), measured)
    return found


@pytest.mark.parametrize(("scoring", "functions"), [("paper_compat", RELEASED), ("robust", METRICS)])
def test_a_difference_is_computed_as_its_scoring_computes_the_metric(
    scoring: Scoring, functions: Mapping[str, Function]
) -> None:
    gold = ["x", "y", "x", "y"]
    first = [GradedItem(said, said == true, true) for said, true in zip(["x", "y", "z", "y"], gold, strict=True)]
    second = [GradedItem(said, said == true, true) for said, true in zip(["x", "y", "y", "y"], gold, strict=True)]
    of = functions["macro_f1"]
    found = by_function("macro_f1", scoring, first, second)
    assert found.value == of.value(first) - of.value(second) and (found.metric, found.n) == ("own", 4)
    assert RELEASED["macro_f1"].value(first) != METRICS["macro_f1"].value(first)


def test_a_difference_of_no_number_is_none() -> None:
    nothing = [GradedItem(None, None, None, (GradedItem(1, True, True), GradedItem(None, None, None)))] * 2
    found = by_function("reason_accuracy", "robust", nothing, nothing)
    assert found.value is None
