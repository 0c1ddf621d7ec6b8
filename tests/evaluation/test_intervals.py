"""Intervals: against scipy and a slow bootstrap, and how often they hold the true mean."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats

from podium.evaluation.intervals import INTERVALS, LEAST_DIFFERING, WIDEST, _bootstrap, differing, mean_interval


def skewed(rng: np.random.Generator, n: int) -> np.ndarray:
    """Like differences of a metric: many zeros, a few large gains. The mean is 0.4 * 0.2."""
    return np.where(rng.random(n) < 0.6, 0.0, rng.exponential(0.2, n))


# ------------------------------------------------------------------------------------------------ references


def test_t_agrees_with_scipy(rng: np.random.Generator) -> None:
    differences = skewed(rng, 40)
    expected = stats.ttest_1samp(differences, 0).confidence_interval(0.9)
    assert mean_interval(differences, method="t", level=0.9) == pytest.approx((expected.low, expected.high))


@pytest.mark.parametrize("n", [40, 100])
def test_bca_agrees_with_scipy(n: int) -> None:
    differences = skewed(np.random.default_rng(n), n)
    reference = stats.bootstrap((differences,), np.mean, n_resamples=50_000, method="BCa", random_state=1)
    interval = reference.confidence_interval
    near = 0.1 * differences.std() / math.sqrt(n)
    found = mean_interval(differences, method="bca", resamples=50_000)
    assert found == pytest.approx((interval.low, interval.high), abs=near)


def slow_statistics(values: np.ndarray, weights: np.ndarray, n: int) -> np.ndarray:
    """(m* - m) / s* of n samples, each computed by its definition."""
    rng, found = np.random.default_rng(5), []
    mean = np.average(values, weights=weights)
    for _ in range(n):
        drawn = rng.integers(len(values), size=len(values))
        d, w = values[drawn], weights[drawn]
        own = np.average(d, weights=w)
        error = math.sqrt(len(d) / (len(d) - 1) * (w**2 * (d - own) ** 2).sum()) / w.sum()
        found.append((own - mean) / error)
    return np.array(found)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("method", ["studentised", "bounded"])
def test_the_studentised_bootstrap_agrees_with_its_definition(method: str, weighted: bool) -> None:
    rng = np.random.default_rng(3)
    values, weights = skewed(rng, 60), rng.uniform(0.5, 2, 60) if weighted else np.ones(60)
    low, high = np.quantile(slow_statistics(values, weights, 20_000), (0.025, 0.975))
    if method == "bounded":
        effective = weights.sum() ** 2 / (weights**2).sum()
        t = stats.t.ppf(0.975, effective - 1)
        low, high = max(min(low, -t), -WIDEST * t), min(max(high, t), WIDEST * t)
    mean = np.average(values, weights=weights)
    error = math.sqrt(60 / 59 * (weights**2 * (values - mean) ** 2).sum()) / weights.sum()
    found = mean_interval(values, weights, method=method)
    assert found == pytest.approx((mean - high * error, mean - low * error), abs=0.1 * error)


def test_a_sample_without_spread_has_a_large_statistic_and_no_error() -> None:
    values = np.zeros(1000)
    values[:8] = 0.125 * np.arange(1, 9)  # one resample in e^8 draws none of them
    means, statistics = _bootstrap(values, np.ones(1000), 20_000, 0, None)
    assert np.isfinite(statistics).all()
    assert statistics[means < 1e-12].max() <= -1e3
    assert all(map(math.isfinite, mean_interval(values, method="studentised")))


def test_bootstrap_draws_every_query_equally_often() -> None:
    # The mean of the indicator of each query over many resamples is 1/n.
    for query in range(3):
        means, _ = _bootstrap(np.eye(3)[query], np.ones(3), 10_000, 0, None)
        assert means.mean() == pytest.approx(1 / 3, abs=0.01)
        assert means.var() == pytest.approx((1 / 3) * (2 / 3) / 3, abs=0.005)


def test_a_weight_of_two_moves_the_means_as_a_repeated_query_does(rng: np.random.Generator) -> None:
    differences, weights = rng.normal(0, 1, 200), rng.integers(1, 3, 200)
    means, _ = _bootstrap(differences, weights.astype(float), 10_000, 0, None)
    assert means.mean() == pytest.approx(np.repeat(differences, weights).mean(), abs=0.01)


# ------------------------------------------------------------------------------------------------ laws of all methods


@pytest.mark.parametrize("method", INTERVALS)
def test_every_method_keeps_its_laws(rng: np.random.Generator, method: str) -> None:
    differences, weights = skewed(rng, 60) - 0.05, rng.uniform(0.5, 2, 60)

    def interval(values: np.ndarray, weights: Any = None, **options: Any) -> tuple[float, float]:
        return mean_interval(values, weights, method=method, **options)

    low, high = interval(differences)
    assert low < differences.mean() < high
    assert interval(differences, n_jobs=1) == interval(differences, n_jobs=3) == (low, high)
    assert interval(differences, np.full(60, 3.0)) == pytest.approx((low, high))
    assert interval(differences, weights * 1e-200) == pytest.approx(interval(differences, weights))
    assert interval(-differences) == pytest.approx((-high, -low), abs=0.15 * (high - low))
    assert interval(2 * differences + 1) == pytest.approx((2 * low + 1, 2 * high + 1))
    assert interval(np.append(differences, 9.0), np.append(np.ones(60), 0.0)) == pytest.approx((low, high))
    narrow, wide = interval(differences, level=0.8), interval(differences, level=0.999)
    assert wide[0] < low < narrow[0] < narrow[1] < high < wide[1]
    if method != "t":
        assert interval(differences, seed=7) == interval(differences, seed=7)


def test_the_bounded_interval_lies_between_that_of_t_and_a_wider_one(rng: np.random.Generator) -> None:
    for n in (12, 30, 100):
        differences = skewed(rng, n) if n > 20 else rng.exponential(1, n)
        mean = differences.mean()
        inner, (low, high) = mean_interval(differences, method="t"), mean_interval(differences)
        assert mean - WIDEST * (mean - inner[0]) - 1e-12 <= low <= inner[0] + 1e-12
        assert inner[1] - 1e-12 <= high <= mean + WIDEST * (inner[1] - mean) + 1e-12


# ------------------------------------------------------------------------------------------------ too few


@pytest.mark.parametrize(
    ("values", "number"),
    [
        ([0.0, 0.0, 0.1, -0.2], 2),
        ([0.5, 0.5, 0.5, 0.0], 1),  # of values of one system, the most frequent one need not be 0
        ([0.1, 0.2, 0.3], 3),
        ([0.1, 0.1, 0.1], 0),
        ([0.1], 0),
        ([], 0),
    ],
)
def test_values_that_differ_from_the_most_frequent_one_are_counted(values: list[float], number: int) -> None:
    assert differing(np.array(values), np.ones(len(values))) == pytest.approx(number)


@pytest.mark.parametrize("method", INTERVALS)
def test_too_few_differences_have_no_interval(method: str) -> None:
    enough = [0.1 * (k + 1) for k in range(LEAST_DIFFERING)]
    for values in ([], [1.0], [0.0] * 50, [0.3] * 50, [0.0] * 50 + enough[1:], enough[1:]):
        assert all(map(math.isnan, mean_interval(values, method=method)))
    assert all(map(math.isfinite, mean_interval([0.0] * 50 + enough, method=method)))
    assert all(map(math.isfinite, mean_interval(enough, method=method)))


def test_one_dominating_weight_leaves_too_few_queries() -> None:
    values = np.arange(30.0)
    weights = np.where(values == 0, 1e20, 1.0)
    assert all(map(math.isnan, mean_interval(values, weights)))


def test_bad_input_is_reported() -> None:
    with pytest.raises(ValueError, match="interval must be one of bounded, t, studentised, bca"):
        mean_interval([1.0, 2.0], method="percentile")
    with pytest.raises(ValueError, match="one dimension"):
        mean_interval([[1.0]])


# ------------------------------------------------------------------------------------------------ coverage

Draw = Callable[[np.random.Generator, Any], np.ndarray]


def of_either_sign(gains: float) -> Draw:
    """Bounded in [-1, 1], many small and few large ones, like differences of NDCG; the mean is (2 gains - 1) / 7."""
    return lambda rng, shape: np.where(rng.random(shape) < gains, 1, -1) * rng.beta(0.5, 3, shape)


KINDS: dict[str, tuple[Draw, float]] = {
    "normal": (lambda rng, shape: rng.normal(0.05, 0.2, shape), 0.05),
    "exponential": (lambda rng, shape: rng.exponential(0.2, shape), 0.2),
    "bounded": (of_either_sign(0.6), 0.2 / 7),
    "mostly gains": (of_either_sign(0.9), 0.8 / 7),
    "gains only": (of_either_sign(1.0), 1 / 7),
}


def coverage(
    kind: str, zeros: float, n: int, samples: int, resamples: int = 400, method: str = "bounded"
) -> tuple[float, float]:
    """Of so many samples, the share with an interval, and of these the share whose interval holds the true mean."""
    draw, mean = KINDS[kind]
    rng = np.random.default_rng([samples, n, int(100 * zeros), sorted(KINDS).index(kind)])
    drawn = np.where(rng.random((samples, n)) < zeros, 0.0, draw(rng, (samples, n)))
    options: dict[str, Any] = {"method": method, "resamples": resamples, "n_jobs": 1}
    ends = np.array([mean_interval(row, seed=number, **options) for number, row in enumerate(drawn)])
    shown = ends[~np.isnan(ends[:, 0])]
    held = (shown[:, 0] <= mean * (1 - zeros)) & (mean * (1 - zeros) <= shown[:, 1])
    return len(shown) / samples, float(held.mean()) if len(held) else math.nan


HARD = [
    ("exponential", 0.0, 10),  # t: 90 %
    ("bounded", 0.5, 20),  # studentised: 88 %, BCa: 83 %
    ("gains only", 0.5, 30),  # t: 90 %
    ("mostly gains", 0.75, 50),
    ("bounded", 0.0, 10),  # BCa: 84 %
]


@pytest.mark.parametrize(("kind", "zeros", "n"), HARD)
def test_intervals_hold_the_mean_in_93_to_97_percent(kind: str, zeros: float, n: int) -> None:
    """Of 3,000 samples; the standard error is 0.4 %, enough to tell 93 from 95."""
    shown, held = coverage(kind, zeros, n, samples=3_000)
    assert shown >= 0.8
    assert 0.93 <= held <= 0.97


@pytest.mark.parametrize("weighted", ["folds", "unevenly"])
def test_weighted_intervals_hold_the_mean_too(weighted: str) -> None:
    """Three folds of 18, 20 and 22 queries with the same weight each, as in the lab; and weights from 0.2 to 3."""
    rng = np.random.default_rng(9)
    weights = np.repeat([1 / 18, 1 / 20, 1 / 22], [18, 20, 22]) if weighted == "folds" else rng.uniform(0.2, 3, 60)
    drawn = np.where(rng.random((2_000, 60)) < 0.5, 0.0, of_either_sign(0.6)(rng, (2_000, 60)))
    options: dict[str, Any] = {"resamples": 400, "n_jobs": 1}
    ends = np.array([mean_interval(row, weights, seed=number, **options) for number, row in enumerate(drawn)])
    assert 0.93 <= np.mean((ends[:, 0] <= 0.1 / 7) & (ends[:, 1] >= 0.1 / 7)) <= 0.97


@pytest.mark.slow
@pytest.mark.parametrize("n", [10, 20, 50, 200, 1_000])
@pytest.mark.parametrize("zeros", [0.0, 0.25, 0.5, 0.75, 0.9])
@pytest.mark.parametrize("kind", KINDS)
def test_intervals_hold_the_mean_for_every_size_and_share_of_zeros(kind: str, zeros: float, n: int) -> None:
    """Where most samples have an interval, 93 to 97 % of these hold the mean; elsewhere few are wrong in all."""
    samples = 2_000 if n <= 200 else 1_000
    shown, held = coverage(kind, zeros, n, samples, resamples=600 if n <= 200 else 400)
    error = 2 * math.sqrt(0.95 * 0.05 / samples)  # two standard errors of the simulation itself
    if shown >= 0.8:
        assert 0.93 - error <= held <= 0.97 + error
    elif shown > 0:
        assert shown * (1 - held) <= 0.07


@pytest.mark.parametrize(
    ("method", "kind", "zeros", "n"),
    [("t", "exponential", 0.0, 10), ("studentised", "bounded", 0.5, 20), ("bca", "bounded", 0.0, 10)],
)
def test_every_other_method_fails_somewhere(method: str, kind: str, zeros: float, n: int) -> None:
    """Why none of them is the default."""
    _, held = coverage(kind, zeros, n, samples=800, method=method)
    assert held < 0.92
