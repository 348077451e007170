"""The one interval and what it rests on, at its edges and against scipy's bootstrap of plain rows."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from maieutic.core import stats
from maieutic.core.stats import (
    MEAN,
    Estimate,
    Interval,
    Sampling,
    Statistic,
    clustered_draws,
    clustered_interval,
    estimate,
    mean_of,
    normal_half_width,
    percentiles,
    share,
    sums_by_cluster,
)
from scipy.stats import bootstrap

MANY = Sampling(400, 3)


@pytest.mark.parametrize("empty", [0.0, math.nan])
def test_nothing_of_nothing_is_what_the_caller_says(empty: float) -> None:
    found = share(np.array([[1.0, 0.0], [3.0, 0.0]]), np.array([[2.0, 0.0], [4.0, 5.0]]), empty=empty)
    assert found.dtype == float
    np.testing.assert_array_equal(found, [[0.5, empty], [0.75, 0.0]])
    assert share(np.array(1), np.array(4), empty=0.0) == 0.25


def test_a_mean_of_something_read_from_each_observation() -> None:
    lengths: Statistic[str] = mean_of(len)
    assert lengths.value(["a", "abc"]) == 2.0
    np.testing.assert_array_equal(lengths.counts(["a", "abc"]), [[1.0, 1.0], [3.0, 1.0]])
    sums = np.array([[4.0, 2.0], [9.0, 3.0], [0.0, 0.0]])
    np.testing.assert_array_equal(lengths.of_sums(sums), [2.0, 3.0, 0.0])
    assert MEAN.value([1, 2]) == 1.5


def test_an_estimate_counts_what_it_has_and_what_it_lacks() -> None:
    nothing = estimate(MEAN, [], [], MANY, missing=4)
    assert nothing == Estimate(None, Interval(None, None), 0, 4, 0)
    without: Statistic[float] = MEAN._replace(value=lambda observed: math.nan)
    assert estimate(without, [1.0, 2.0], ["a", "b"], MANY, missing=1) == Estimate(None, Interval(None, None), 2, 1, 2)
    found = estimate(MEAN, [1.0, 2.0, 6.0], ["a", "a", "b"], MANY, 2)
    assert (found.value, found.n, found.missing, found.clusters) == (3.0, 3, 2, 2)
    # Two problems, drawn twice: both the first one, one of each, both the second one.
    assert found.interval == Interval(1.5, 6.0)
    assert estimate(MEAN, [1.0, 2.0], ["a", "a"], MANY).interval == Interval(None, None), "one problem alone"
    assert estimate(MEAN, [1.0], ["a"], MANY).missing == 0


@pytest.mark.parametrize(("known", "there"), [(4, False), (5, False), (6, True), (10, True)])
def test_an_interval_needs_a_value_in_most_draws(known: int, there: bool) -> None:
    drawn = np.array([float(number) for number in range(known)] + [math.nan] * (10 - known))
    found = percentiles(drawn, Sampling(10, 1))
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
    found = clustered_draws(MEAN.counts(list(values)), MEAN.of_sums, clusters, Sampling(resamples, 5))
    assert found.shape == (resamples,)
    np.testing.assert_allclose(found, expected)
    low, high = np.percentile(expected, [2.5, 97.5])
    interval = clustered_interval(MEAN.counts(list(values)), MEAN.of_sums, clusters, Sampling(resamples, 5))
    assert interval == Interval(pytest.approx(low), pytest.approx(high))
    other = clustered_draws(MEAN.counts(list(values)), MEAN.of_sums, clusters, Sampling(resamples, 6))
    assert not np.allclose(found, other), "another seed, other draws"


def test_a_statistic_without_a_value_in_some_draws_warns_nobody() -> None:
    counts = np.array([[1.0, 1.0], [0.0, 0.0], [0.0, 0.0]])

    def ratio(sums: np.ndarray) -> np.ndarray:
        return sums[..., 0] / sums[..., 1]

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        drawn = clustered_draws(counts, ratio, ["a", "b", "c"], MANY)
        open_ended = clustered_draws(np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 0.0]]), ratio, ["a", "b", "c"], MANY)
    assert len(drawn) == 400 and np.isnan(drawn).any() and not np.isnan(drawn).all()
    assert np.isinf(open_ended).any() and np.isnan(open_ended).any()
    assert len(clustered_draws(counts[:1], ratio, ["a"], MANY)) == 0


def test_a_normal_interval_needs_two_values() -> None:
    assert normal_half_width([]) is None and normal_half_width([1.0]) is None
    assert normal_half_width([0.0, 1.0]) == pytest.approx(1.959963984540054 * 0.5)


def test_a_normal_half_width_is_1_96_standard_errors() -> None:
    from scipy.stats import norm

    values = [0.0, 1.0, 0.5, 0.25]
    expected = norm.ppf(0.975) * np.std(values, ddof=1) / 2
    assert stats.normal_half_width(values) == pytest.approx(expected, rel=1e-15)
