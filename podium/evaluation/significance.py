"""Significance: how sure a mean difference over queries is, by tests; `intervals.py` has intervals.

All functions take the paired differences of two systems, one number per query (system minus baseline, finite), and
some take query weights. The statistic is always the weighted mean, sum(w d) / sum(w):

- the randomisation test flips the sign of each difference at random and counts how often the weighted mean gets as far
  from 0 as it was; the weights stay with their queries;
- the t test and the Wilcoxon test know no weights: they take differences only.

Random numbers come from numpy's SFC64, one generator per block, seeded by (seed, stream, block). Blocks are divided
by the size of the data, never by the number of threads, so the results do not depend on it.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from podium._runtime.compiler import Array, kernel, readonly
from podium._runtime.threads import map_blocks
from podium.data.ranking import as_weights

TESTS = ("randomisation", "t", "wilcoxon")
CORRECTIONS = ("holm", "bonferroni", "benjamini-hochberg", "none")

# Two values this close are the same value computed in two ways; so are two sums, relative to their terms.
TOLERANCE = 1e-12

_SIGNS_STREAM = 1
_PERMUTATIONS_A_BLOCK = 4_096
_QUERIES_A_WORD = 64


def paired_differences(baseline: Array, system: Array) -> Array:
    """system - baseline, exactly 0 where the two agree but for rounding: [0.3] and [0.1 + 0.2] -> [0.0]."""
    scale = np.maximum(1.0, np.maximum(np.abs(baseline), np.abs(system)))
    differences = np.asarray(system - baseline, dtype=np.float64)
    return np.where(np.abs(differences) <= TOLERANCE * scale, 0.0, differences)


def weighted_mean(differences: Array, weights: Array | None = None) -> float:
    """sum(w d) / sum(w); NaN without queries."""
    if len(differences) == 0:
        return math.nan
    return float(np.average(differences, weights=weights))


# ---------------------------------------------------------------------------------------- randomisation test


def randomisation_test(
    differences: Any, weights: Any = None, *, permutations: int = 100_000, seed: int = 0, n_jobs: int | None = None
) -> float:
    """Two-sided p-value of the paired randomisation (sign-flip) test of a mean difference of 0.

    All 2^n sign patterns are tried when there are at most `permutations` of them: [1, 1, 1] -> 2/8, as only +++ and
    --- reach the mean of 1. Otherwise p = (1 + as extreme) / (1 + permutations), with random patterns: the observed
    pattern is one of them, so p is never 0. Sums that agree but for rounding count as equally extreme.

    100,000 permutations of 10,000 queries take about 0.1 s on one thread: a byte of random bits picks the signed sum
    of eight queries out of a table, so that 64 signs cost eight additions.
    """
    values, scale = as_sample(differences, weights)
    terms = values * scale
    terms = terms[terms != 0]  # flipping a zero changes nothing, and fewer terms are enumerated sooner
    threshold = abs(terms.sum()) - TOLERANCE * np.abs(terms).sum()
    if permutations >> len(terms):  # 2^n <= permutations
        return _count_all_patterns(terms, threshold) / (1 << len(terms))
    padded = np.zeros(-len(terms) % _QUERIES_A_WORD + len(terms))
    padded[: len(terms)] = terms

    def count(block: int) -> int:
        size = min(_PERMUTATIONS_A_BLOCK, permutations - block * _PERMUTATIONS_A_BLOCK)
        sums = _random_sums(padded, size, random_generator(seed, _SIGNS_STREAM, block))
        return int(np.count_nonzero(np.abs(sums) >= threshold))

    counts = map_blocks(count, -(-permutations // _PERMUTATIONS_A_BLOCK), n_jobs)
    return (1 + sum(counts)) / (1 + permutations)


def _count_all_patterns(terms: Array, threshold: float) -> int:
    # Two halves: the memory stays small even for 2^30 patterns.
    heads, tails = _all_signed_sums(terms[16:]), _all_signed_sums(terms[:16])
    return sum(int(np.count_nonzero(np.abs(tails + head) >= threshold)) for head in heads)


def _all_signed_sums(terms: Array) -> Array:
    """The sums of all sign patterns: [1, 2] -> [3, 1, -1, -3] in some order."""
    sums = np.zeros(1)
    for term in terms:
        sums = np.concatenate([sums + term, sums - term])
    return sums


def _random_sums(terms: Array, size: int, generator: np.random.SFC64) -> Array:
    sums = np.zeros(size)
    for start in range(0, len(terms), 16 * _QUERIES_A_WORD):  # in parts: half a megabyte of random bits at a time
        part = readonly(terms[start : start + 16 * _QUERIES_A_WORD])
        words = len(part) // _QUERIES_A_WORD
        masks = generator.random_raw(words * size).view(np.uint8)
        _add_signed(sums, masks.reshape(words, size, 8), part)
    return sums


@kernel
def _add_signed(sums: Array, masks: Array, terms: Array) -> None:
    """sums[p] += sum over queries of +-terms, plus where the bit is set in masks (words, permutations, 8) uint8."""
    for word in range(len(masks)):
        tables = _signed_sums_of_eight(terms[64 * word : 64 * word + 64])
        for p in range(len(sums)):
            total = 0.0
            for j in range(8):
                total += tables[j, masks[word, p, j]]
            sums[p] += total


@kernel
def _signed_sums_of_eight(terms: Array) -> Array:
    """tables[j, mask] = sum over bits b of +-terms[8 j + b], plus where the mask has the bit; (8, 256) float64."""
    tables = np.empty((8, 256))
    for j in range(8):
        tables[j, 0] = -terms[8 * j : 8 * j + 8].sum()
        for bit in range(8):
            for mask in range(1 << bit):
                tables[j, mask + (1 << bit)] = tables[j, mask] + 2 * terms[8 * j + bit]
    return tables


# ---------------------------------------------------------------------------------------- classical tests


def t_test(differences: Any) -> float:
    """Two-sided p-value of the paired t test, unweighted; 1 when nothing differs, NaN below two queries.

    Equal differences other than 0 have no spread to measure them by: the statistic is infinite and p its limit, 0.
    """
    from scipy.special import stdtr

    values, _ = as_sample(differences, None)
    if len(values) < 2:
        return math.nan
    if not values.any():
        return 1.0
    statistic = cohens_d(values) * math.sqrt(len(values))
    return 2.0 * float(stdtr(len(values) - 1, -abs(statistic)))


def wilcoxon_test(differences: Any) -> float:
    """Two-sided p-value of the Wilcoxon signed-rank test, unweighted and without the zeros; 1 when nothing differs."""
    values, _ = as_sample(differences, None)
    if len(values) < 2:
        return math.nan
    if not values.any():
        return 1.0
    from scipy.stats import wilcoxon

    # Rounding makes equal moves tie in rank; scipy then chooses between exact and normal by size and ties.
    moves = np.round(values[values != 0] / np.abs(values).max(), 12)
    with warnings.catch_warnings():  # some versions warn of small samples; the p-value shows it already
        warnings.simplefilter("ignore")
        return min(1.0, float(wilcoxon(moves).pvalue))


def cohens_d(differences: Any, weights: Any = None) -> float:
    """Paired effect size: the mean difference in standard deviations of the differences.

    With weights, the variance is n/(n-1) sum(w (d - mean)^2) / sum(w), the usual one when all are equal. Without
    spread it is 0 when nothing differs, else infinite: every query moved alike. NaN below two queries.
    """
    values, scale = as_sample(differences, weights)
    n = len(values)
    if n < 2:
        return math.nan
    mean = weighted_mean(values, scale)
    if _without_spread(values):
        return math.copysign(math.inf, mean) if values.any() else 0.0
    variance = weighted_mean((values - mean) ** 2, scale) * n / (n - 1)
    return mean / math.sqrt(variance)


# ---------------------------------------------------------------------------------------- several comparisons


def correct(p_values: Any, correction: str) -> Array:
    """p-values corrected for their number by one of `CORRECTIONS`; NaN stays NaN and does not count."""
    p = np.asarray(p_values, dtype=np.float64)
    known = ~np.isnan(p)
    result = p.copy()
    if correction != "none":
        result[known] = _CORRECT[correction](p[known])
    return result


def bonferroni(p: Array) -> Array:
    """Each p times their number, at most 1: bounds the chance of any false find."""
    products: Array = np.minimum(p * len(p), 1.0)
    return products


def holm(p: Array) -> Array:
    """The smallest p times m, the next times m - 1, ...: the same promise as Bonferroni, and never larger."""
    order = np.argsort(p, kind="stable")
    steps = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    return _put_back(np.minimum(steps, 1.0), order)


def benjamini_hochberg(p: Array) -> Array:
    """The k-th smallest p times m / k, made monotone from the largest: bounds the share of false finds."""
    order = np.argsort(p, kind="stable")[::-1]
    steps = np.minimum.accumulate(p[order] * len(p) / np.arange(len(p), 0, -1))
    return _put_back(np.minimum(steps, 1.0), order)


_CORRECT: dict[str, Callable[[Array], Array]] = {
    "holm": holm,
    "bonferroni": bonferroni,
    "benjamini-hochberg": benjamini_hochberg,
}


def _put_back(values: Array, order: Array) -> Array:
    result = np.empty_like(values)
    result[order] = values
    return result


# ---------------------------------------------------------------------------------------- shared


def as_sample(differences: Any, weights: Any) -> tuple[Array, Array]:
    """Finite differences and positive weights (ones unless given); queries of weight 0 are dropped."""
    values = np.asarray(differences, dtype=np.float64)
    if values.ndim != 1:
        raise ValueError(f"differences must have one dimension, one number per query; got shape {values.shape}.")
    if not np.isfinite(values).all():
        query = int(np.flatnonzero(~np.isfinite(values))[0])
        raise ValueError(f"differences[{query}] is {values[query]}; leave queries without a value out.")
    if weights is None:
        return values, np.ones(len(values))
    weights = as_weights(weights, len(values), "weights", "query")
    return values[weights > 0], weights[weights > 0]


def _without_spread(values: Array) -> bool:
    return bool(np.ptp(values) <= TOLERANCE * np.abs(values).max())


def random_generator(seed: int, stream: int, block: int) -> np.random.SFC64:
    return np.random.SFC64(np.random.SeedSequence(seed, spawn_key=(stream, block)))
