"""Tests of estimates and their intervals, at edge cases and against scipy's bootstrap of plain rows."""

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
    percentile_interval,
    safe_ratio,
    sums_by_cluster,
)
from scipy.stats import bootstrap

BOOTSTRAP = BootstrapSettings(400, 3)


@pytest.mark.parametrize("empty", [0.0, math.nan])
def test_zero_of_zero_is_what_the_caller_passes(empty: float) -> None:
    ratios = safe_ratio(np.array([[1.0, 0.0], [3.0, 0.0]]), np.array([[2.0, 0.0], [4.0, 5.0]]), empty=empty)
    assert ratios.dtype == float
    np.testing.assert_array_equal(ratios, [[0.5, empty], [0.75, 0.0]])
    assert safe_ratio(np.array(1), np.array(4), empty=0.0) == 0.25


def test_a_mean_of_a_number_read_from_each_observation() -> None:
    lengths: Statistic[str] = mean_statistic(len)
    assert lengths.value(["a", "abc"]) == 2.0
    np.testing.assert_array_equal(lengths.counts(["a", "abc"]), [[1.0, 1.0], [3.0, 1.0]])
    sums = np.array([[4.0, 2.0], [9.0, 3.0], [0.0, 0.0]])
    np.testing.assert_array_equal(lengths.from_sums(sums), [2.0, 3.0, 0.0])
    assert MEAN.value([1, 2]) == 1.5


def test_an_estimate_counts_observed_and_missing_values() -> None:
    no_observations = estimate_statistic(MEAN, [], [], BOOTSTRAP, missing=4)
    assert no_observations == Estimate(None, Interval(None, None), 0, 4, 0)
    undefined: Statistic[float] = MEAN._replace(value=lambda observed: math.nan)
    expected = Estimate(None, Interval(None, None), 2, 1, 2)
    assert estimate_statistic(undefined, [1.0, 2.0], ["a", "b"], BOOTSTRAP, missing=1) == expected
    estimate = estimate_statistic(MEAN, [1.0, 2.0, 6.0], ["a", "a", "b"], BOOTSTRAP, 2)
    assert (estimate.value, estimate.n, estimate.missing, estimate.clusters) == (3.0, 3, 2, 2)
    assert estimate.interval.low < 1.5 and estimate.interval.high > 6.0, "two problems give a wide interval"
    assert estimate_statistic(MEAN, [1.0, 2.0], ["a", "a"], BOOTSTRAP).interval == Interval(None, None), (
        "a single problem"
    )
    assert estimate_statistic(MEAN, [1.0], ["a"], BOOTSTRAP).missing == 0


@pytest.mark.parametrize(("known", "defined"), [(4, False), (5, False), (6, True), (10, True)])
def test_an_interval_needs_a_value_in_most_draws(known: int, defined: bool) -> None:
    draws = np.array([float(number) for number in range(known)] + [math.nan] * (10 - known))
    interval = percentile_interval(draws, BootstrapSettings(10, 1))
    if defined:
        assert interval == pytest.approx(np.percentile(np.arange(known), [2.5, 97.5]))
        assert type(interval.low) is float and type(interval.high) is float
    else:
        assert interval == Interval(None, None)


def test_observations_of_a_problem_are_added_up() -> None:
    counts = np.array([[1.0, 1.0], [2.0, 1.0], [5.0, 1.0]])
    np.testing.assert_array_equal(sums_by_cluster(counts, ["b", "a", "b"]), [[2.0, 1.0], [6.0, 2.0]])


@pytest.mark.parametrize("resamples", [60, 700], ids=["one batch", "several batches"])
def test_draws_are_scipys_of_the_plain_rows(resamples: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Weighting problems by how often they are drawn equals adding up the drawn rows, in each resample."""
    monkeypatch.setattr(stats, "BATCH", 256)
    values = np.random.default_rng(7).normal(size=23)
    clusters = [f"p{number % 11:02d}" for number in range(len(values))]
    sums = sums_by_cluster(MEAN.counts(list(values)), clusters)

    def ratio_of_sums(indices: np.ndarray, axis: int = -1) -> np.ndarray:
        rows = sums[indices]
        return rows[..., 0].sum(axis) / rows[..., 1].sum(axis)

    expected = bootstrap(
        (np.arange(len(sums)),), ratio_of_sums, n_resamples=resamples, batch=256, method="percentile", vectorized=True,
        rng=np.random.default_rng(5),
    ).bootstrap_distribution  # fmt: skip
    draws = bootstrap_draws(MEAN.counts(list(values)), MEAN.from_sums, clusters, BootstrapSettings(resamples, 5))
    assert draws.shape == (resamples,)
    np.testing.assert_allclose(draws, expected)
    low, high = np.percentile(expected, [2.5, 97.5])
    interval = bootstrap_interval(MEAN.counts(list(values)), MEAN.from_sums, clusters, BootstrapSettings(resamples, 5))
    assert interval == Interval(pytest.approx(low), pytest.approx(high))
    other_draws = bootstrap_draws(MEAN.counts(list(values)), MEAN.from_sums, clusters, BootstrapSettings(resamples, 6))
    assert not np.allclose(draws, other_draws), "another seed yields other draws"


def test_a_statistic_that_is_undefined_in_some_draws_causes_no_warning() -> None:
    counts = np.array([[1.0, 1.0], [0.0, 0.0], [0.0, 0.0]])

    def ratio(sums: np.ndarray) -> np.ndarray:
        return sums[..., 0] / sums[..., 1]

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        draws = bootstrap_draws(counts, ratio, ["a", "b", "c"], BOOTSTRAP)
        infinite_draws = bootstrap_draws(
            np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 0.0]]), ratio, ["a", "b", "c"], BOOTSTRAP
        )
    assert len(draws) == 400 and np.isnan(draws).any() and not np.isnan(draws).all()
    assert np.isinf(infinite_draws).any() and np.isnan(infinite_draws).any()
    assert len(bootstrap_draws(counts[:1], ratio, ["a"], BOOTSTRAP)) == 0


@pytest.mark.parametrize("right", [0, 1, 7, 19, 20])
def test_a_share_of_single_items_has_clopper_and_pearsons_interval(right: int) -> None:
    """Each problem has one item; Student's t reduces the effective size, so the interval is up to 15 % wider."""
    from statsmodels.stats.proportion import proportion_confint

    interval = estimate_statistic(
        SHARE, [1.0] * right + [0.0] * (20 - right), [f"p{n}" for n in range(20)], BOOTSTRAP
    ).interval
    low, high = proportion_confint(right, 20, method="beta")
    assert interval.low is not None and interval.high is not None
    if right in (0, 20):
        assert (interval.low, interval.high) == (
            pytest.approx(np.nan_to_num(low)),
            pytest.approx(np.nan_to_num(high, nan=1.0)),
        )
    assert interval.low <= np.nan_to_num(low) + 1e-9 and interval.high >= np.nan_to_num(high, nan=1.0) - 1e-9
    assert interval.high - interval.low <= 1.15 * (np.nan_to_num(high, nan=1.0) - np.nan_to_num(low))


def test_an_exact_interval_equals_statsmodels() -> None:
    from statsmodels.stats.proportion import proportion_confint

    for part, size in ((0.3, 10.0), (0.97, 33.3), (0.5, 200.0)):
        assert clopper_pearson(part, size) == pytest.approx(proportion_confint(part * size, size, method="beta"))


def test_an_interval_of_a_mean_of_zeros_and_ones_is_a_shares() -> None:
    observed, problems = [1.0] * 12, [f"p{number}" for number in range(12)]
    expected = estimate_statistic(SHARE, observed, problems, BOOTSTRAP)
    assert estimate_statistic(MEAN, observed, problems, BOOTSTRAP) == expected
    ratings = estimate_statistic(RATING, observed, problems, BOOTSTRAP).interval
    equal = [estimate_statistic(MEAN, [value] * 12, problems, BOOTSTRAP).interval for value in (0.7, 8.0)]
    assert [ratings, *equal] == 3 * [Interval(None, None)], "equal values of unknown spread have no interval"
    assert None not in estimate_statistic(RATING, [*observed[1:], 0.9], problems, BOOTSTRAP).interval


def test_an_interval_lies_within_its_bounds_and_contains_the_value() -> None:
    estimate = estimate_statistic(SHARE, [1.0, 1.0, 0.0, 0.0, 1.0, 1.0], list("aabbcc"), BOOTSTRAP)
    assert 0 < estimate.interval.low < estimate.value < estimate.interval.high < 1
    correlation = Statistic(
        lambda observed: 1.0, lambda observed: np.ones((len(observed), 1)), lambda sums: np.ones(len(sums)), (-1.0, 1.0)
    )
    interval = estimate_statistic(correlation, [1, 2, 3], list("abc"), BOOTSTRAP).interval
    assert interval.high == 1.0 and -1 < interval.low < 1


@pytest.mark.parametrize(("problems", "true_value"), [(20, 0.97), (20, 0.9), (50, 0.97), (50, 0.5)])
def test_the_interval_covers_a_true_share_near_an_end(problems: int, true_value: float) -> None:
    """bench/intervals.py repeats this with 10,000 runs a cell. The percentile bootstrap covers .62 in the first."""
    generator, covered = np.random.default_rng(4), 0
    for _ in range(400):
        right = generator.binomial(1, true_value, problems).astype(float)
        sums = np.column_stack([right, np.ones(problems)])
        low, high = bounded_interval(float(right.mean()), leave_one_out(sums, SHARE.from_sums), 0.0, 1.0)
        covered += low <= true_value <= high
    assert covered / 400 >= 0.93


@pytest.mark.parametrize("statistic", [SHARE, RATING], ids=["shares", "ratings"])
def test_an_interval_of_a_mean_stays_within_its_bounds(statistic: Statistic[float]) -> None:
    interval = estimate_statistic(statistic, [0.9, 1.0, 0.4, 1.0], list("abcd"), BOOTSTRAP).interval
    assert statistic.bounds is not None
    assert statistic.bounds[0] <= interval.low < 0.825 < interval.high <= 1.0
    below = estimate_statistic(RATING, [-1.0, 0.5, 0.0], list("abc"), BOOTSTRAP).interval
    assert below.low < -1.0 and below.high <= 1.0


@pytest.mark.parametrize(("problems", "true_value"), [(20, 0.95), (20, 0.7), (50, 0.9)])
def test_the_interval_covers_a_true_mean_of_shares(problems: int, true_value: float) -> None:
    """Each item has eight correlated dimensions, as MRBench's desired shares."""
    generator, covered = np.random.default_rng(7), 0
    for _ in range(400):
        rate = generator.beta(4 * true_value, 4 * (1 - true_value), problems)
        values = list(generator.binomial(8, rate) / 8)
        low, high = estimate_statistic(SHARE, values, list(map(str, range(problems))), BOOTSTRAP).interval
        covered += low <= true_value <= high
    assert covered / 400 >= 0.93
