"""The one interval and what it rests on, at its edges and against scipy's bootstrap of plain rows."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from maieutic.core import stats
from maieutic.core.intervals import bounded_interval, clopper_pearson
from maieutic.core.stats import (
    MEAN,
    RATING,
    SHARE,
    BootstrapSettings,
    Estimate,
    Interval,
    Statistic,
    bootstrap_draws,
    bootstrap_interval,
    estimate_statistic,
    leave_one_out,
    mean_statistic,
    normal_half_width,
    percentile_interval,
    safe_ratio,
    sums_by_cluster,
)
from scipy.stats import bootstrap

MANY = BootstrapSettings(400, 3)


@pytest.mark.parametrize("empty", [0.0, math.nan])
def test_nothing_of_nothing_is_what_the_caller_says(empty: float) -> None:
    found = safe_ratio(np.array([[1.0, 0.0], [3.0, 0.0]]), np.array([[2.0, 0.0], [4.0, 5.0]]), empty=empty)
    assert found.dtype == float
    np.testing.assert_array_equal(found, [[0.5, empty], [0.75, 0.0]])
    assert safe_ratio(np.array(1), np.array(4), empty=0.0) == 0.25


def test_a_mean_of_something_read_from_each_observation() -> None:
    lengths: Statistic[str] = mean_statistic(len)
    assert lengths.value(["a", "abc"]) == 2.0
    np.testing.assert_array_equal(lengths.counts(["a", "abc"]), [[1.0, 1.0], [3.0, 1.0]])
    sums = np.array([[4.0, 2.0], [9.0, 3.0], [0.0, 0.0]])
    np.testing.assert_array_equal(lengths.from_sums(sums), [2.0, 3.0, 0.0])
    assert MEAN.value([1, 2]) == 1.5


def test_an_estimate_counts_what_it_has_and_what_it_lacks() -> None:
    nothing = estimate_statistic(MEAN, [], [], MANY, missing=4)
    assert nothing == Estimate(None, Interval(None, None), 0, 4, 0)
    without: Statistic[float] = MEAN._replace(value=lambda observed: math.nan)
    assert estimate_statistic(without, [1.0, 2.0], ["a", "b"], MANY, missing=1) == Estimate(
        None, Interval(None, None), 2, 1, 2
    )
    found = estimate_statistic(MEAN, [1.0, 2.0, 6.0], ["a", "a", "b"], MANY, 2)
    assert (found.value, found.n, found.missing, found.clusters) == (3.0, 3, 2, 2)
    assert found.interval.low < 1.5 and found.interval.high > 6.0, "two problems tell little"
    assert estimate_statistic(MEAN, [1.0, 2.0], ["a", "a"], MANY).interval == Interval(None, None), "one problem alone"
    assert estimate_statistic(MEAN, [1.0], ["a"], MANY).missing == 0


@pytest.mark.parametrize(("known", "there"), [(4, False), (5, False), (6, True), (10, True)])
def test_an_interval_needs_a_value_in_most_draws(known: int, there: bool) -> None:
    drawn = np.array([float(number) for number in range(known)] + [math.nan] * (10 - known))
    found = percentile_interval(drawn, BootstrapSettings(10, 1))
    if there:
        assert found == pytest.approx(np.percentile(np.arange(known), [2.5, 97.5]))
        assert type(found.low) is float and type(found.high) is float
    else:
        assert found == Interval(None, None)


def test_observations_of_a_problem_are_added_up() -> None:
    counts = np.array([[1.0, 1.0], [2.0, 1.0], [5.0, 1.0]])
    np.testing.assert_array_equal(sums_by_cluster(counts, ["b", "a", "b"]), [[2.0, 1.0], [6.0, 2.0]])


@pytest.mark.parametrize("resamples", [60, 700], ids=["one batch", "several batches"])
def test_draws_are_scipys_of_the_plain_rows(resamples: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The weights with which problems are counted give what adding up the drawn rows gives, draw by draw."""
    monkeypatch.setattr(stats, "BATCH", 256)
    values = np.random.default_rng(7).normal(size=23)
    clusters = [f"p{number % 11:02d}" for number in range(len(values))]
    sums = sums_by_cluster(MEAN.counts(list(values)), clusters)

    def plain(places: np.ndarray, axis: int = -1) -> np.ndarray:
        rows = sums[places]
        return rows[..., 0].sum(axis) / rows[..., 1].sum(axis)

    expected = bootstrap(
        (np.arange(len(sums)),), plain, n_resamples=resamples, batch=256, method="percentile", vectorized=True,
        rng=np.random.default_rng(5),
    ).bootstrap_distribution  # fmt: skip
    found = bootstrap_draws(MEAN.counts(list(values)), MEAN.from_sums, clusters, BootstrapSettings(resamples, 5))
    assert found.shape == (resamples,)
    np.testing.assert_allclose(found, expected)
    low, high = np.percentile(expected, [2.5, 97.5])
    interval = bootstrap_interval(MEAN.counts(list(values)), MEAN.from_sums, clusters, BootstrapSettings(resamples, 5))
    assert interval == Interval(pytest.approx(low), pytest.approx(high))
    other = bootstrap_draws(MEAN.counts(list(values)), MEAN.from_sums, clusters, BootstrapSettings(resamples, 6))
    assert not np.allclose(found, other), "another seed, other draws"


def test_a_statistic_without_a_value_in_some_draws_warns_nobody() -> None:
    counts = np.array([[1.0, 1.0], [0.0, 0.0], [0.0, 0.0]])

    def ratio(sums: np.ndarray) -> np.ndarray:
        return sums[..., 0] / sums[..., 1]

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        drawn = bootstrap_draws(counts, ratio, ["a", "b", "c"], MANY)
        open_ended = bootstrap_draws(np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 0.0]]), ratio, ["a", "b", "c"], MANY)
    assert len(drawn) == 400 and np.isnan(drawn).any() and not np.isnan(drawn).all()
    assert np.isinf(open_ended).any() and np.isnan(open_ended).any()
    assert len(bootstrap_draws(counts[:1], ratio, ["a"], MANY)) == 0


def test_a_normal_interval_needs_two_values() -> None:
    assert normal_half_width([]) is None and normal_half_width([1.0]) is None
    assert normal_half_width([0.0, 1.0]) == pytest.approx(1.959963984540054 * 0.5)


def test_a_normal_half_width_is_1_96_standard_errors() -> None:
    from scipy.stats import norm

    values = [0.0, 1.0, 0.5, 0.25]
    expected = norm.ppf(0.975) * np.std(values, ddof=1) / 2
    assert stats.normal_half_width(values) == pytest.approx(expected, rel=1e-15)


@pytest.mark.parametrize("right", [0, 1, 7, 19, 20])
def test_a_share_of_single_items_has_clopper_and_pearsons_interval(right: int) -> None:
    """The kept library's, where each problem has one item, on what Student's t leaves of the sample."""
    from statsmodels.stats.proportion import proportion_confint

    found = estimate_statistic(SHARE, [1.0] * right + [0.0] * (20 - right), [f"p{n}" for n in range(20)], MANY).interval
    low, high = proportion_confint(right, 20, method="beta")
    assert found.low is not None and found.high is not None
    if right in (0, 20):
        assert (found.low, found.high) == (
            pytest.approx(np.nan_to_num(low)),
            pytest.approx(np.nan_to_num(high, nan=1.0)),
        )
    assert found.low <= np.nan_to_num(low) + 1e-9 and found.high >= np.nan_to_num(high, nan=1.0) - 1e-9
    assert found.high - found.low <= 1.15 * (np.nan_to_num(high, nan=1.0) - np.nan_to_num(low))


def test_an_exact_interval_is_the_kept_librarys() -> None:
    from statsmodels.stats.proportion import proportion_confint

    for part, size in ((0.3, 10.0), (0.97, 33.3), (0.5, 200.0)):
        assert clopper_pearson(part, size) == pytest.approx(proportion_confint(part * size, size, method="beta"))


def test_an_interval_of_a_mean_of_zeros_and_ones_is_a_shares() -> None:
    observed, problems = [1.0] * 12, [f"p{number}" for number in range(12)]
    assert estimate_statistic(MEAN, observed, problems, MANY) == estimate_statistic(SHARE, observed, problems, MANY)
    assert estimate_statistic(MEAN, [0.7] * 12, problems, MANY).interval == pytest.approx((0.7, 0.7)), (
        "nothing is known of its spread"
    )


def test_bounds_hold_and_the_value_lies_within() -> None:
    third = estimate_statistic(SHARE, [1.0, 1.0, 0.0, 0.0, 1.0, 1.0], list("aabbcc"), MANY)
    assert 0 < third.interval.low < third.value < third.interval.high < 1
    correlation = Statistic(
        lambda observed: 1.0, lambda observed: np.ones((len(observed), 1)), lambda sums: np.ones(len(sums)), (-1.0, 1.0)
    )
    found = estimate_statistic(correlation, [1, 2, 3], list("abc"), MANY).interval
    assert found.high == 1.0 and -1 < found.low < 1


@pytest.mark.parametrize(("problems", "true"), [(20, 0.97), (20, 0.9), (50, 0.97), (50, 0.5)])
def test_the_interval_covers_a_true_share_near_an_end(problems: int, true: float) -> None:
    """In bench/intervals.py with 10,000 runs a cell; the percentile bootstrap covers .62 in the first one."""
    chance, covered = np.random.default_rng(4), 0
    for _ in range(400):
        right = chance.binomial(1, true, problems).astype(float)
        sums = np.column_stack([right, np.ones(problems)])
        low, high = bounded_interval(float(right.mean()), leave_one_out(sums, SHARE.from_sums), 0.0, 1.0)
        covered += low <= true <= high
    assert covered / 400 >= 0.93


@pytest.mark.parametrize("statistic", [SHARE, RATING], ids=["shares", "ratings"])
def test_an_interval_of_a_mean_stays_within_its_bounds(statistic: Statistic[float]) -> None:
    found = estimate_statistic(statistic, [0.9, 1.0, 0.4, 1.0], list("abcd"), MANY).interval
    assert statistic.bounds is not None
    assert statistic.bounds[0] <= found.low < 0.825 < found.high <= 1.0
    below = estimate_statistic(RATING, [-1.0, 0.5, 0.0], list("abc"), MANY).interval
    assert below.low < -1.0 and below.high <= 1.0


@pytest.mark.parametrize(("problems", "true"), [(20, 0.95), (20, 0.7), (50, 0.9)])
def test_the_interval_covers_a_true_mean_of_shares(problems: int, true: float) -> None:
    """Each item has eight dimensions that depend on each other, as MRBench's desired shares."""
    chance, covered = np.random.default_rng(7), 0
    for _ in range(400):
        rate = chance.beta(4 * true, 4 * (1 - true), problems)
        values = list(chance.binomial(8, rate) / 8)
        low, high = estimate_statistic(SHARE, values, list(map(str, range(problems))), MANY).interval
        covered += low <= true <= high
    assert covered / 400 >= 0.93
