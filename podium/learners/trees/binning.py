"""Binning: every feature becomes a small whole number, so that a histogram can sum over it.

Up to 255 bins a feature, cut at quantiles so that each holds about as many rows; a value that is frequent gets a bin of
its own. Missing values (NaN) have a bin of their own too, number 255. Borders are midpoints between neighbouring
values: a value goes into the first bin whose border is not below it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from podium._numba import kernel, readonly
from podium._threads import map_blocks

MISSING = 255
WORD = 8  # features in a word of 64 bits
_BLOCK = 16  # features taken out of X in one go: a cache line of float32
LARGEST_SAMPLE = 200_000  # rows; above, quantiles come from a sample


@dataclass(frozen=True, eq=False)
class Borders:
    """Where the bins end. Bin b of feature f holds values in (upper[f, b - 1], upper[f, b]]."""

    upper: np.ndarray  # (features, 255) float32; +inf from the last bin on
    n_bins: np.ndarray  # (features,) int32: bins of values, the missing one not counted
    has_missing: np.ndarray  # (features,) bool

    @property
    def n_features(self) -> int:
        return len(self.n_bins)


@dataclass(frozen=True, eq=False)
class BinnedRows:
    """The rows as bins, one byte a feature, twice: histograms read whole rows, a split reads one column."""

    rows: np.ndarray  # (n, words) uint64, C order: eight features a word, the spare ones of the last in bin 0
    columns: np.ndarray  # (features, n) uint8, C order
    borders: Borders

    @property
    def n_rows(self) -> int:
        return len(self.rows)


def find_borders(X: np.ndarray, max_bins: int = 255, seed: int = 0, n_jobs: int | None = None) -> Borders:
    """Quantile borders of each column of X (rows, features), float32."""
    n, n_features = X.shape
    rows = np.arange(n)
    if n > LARGEST_SAMPLE:
        rows = np.sort(np.random.default_rng(seed).choice(n, LARGEST_SAMPLE, replace=False))
    upper = np.full((n_features, MISSING), np.inf, dtype=np.float32)
    n_bins = np.ones(n_features, dtype=np.int32)
    missing = np.zeros(n_features, dtype=np.bool_)
    X, rows = readonly(X), readonly(rows)

    def work(block: int) -> None:
        first, last = block * _BLOCK, min(n_features, (block + 1) * _BLOCK)
        columns = np.empty((last - first, len(rows)), dtype=np.float32)
        _take_columns(X, rows, first, columns)
        columns.sort(axis=1)  # NaN last
        for f in range(first, last):
            values = columns[f - first]
            known = int(np.searchsorted(np.isnan(values), True))
            missing[f] = known < len(values)
            n_bins[f] = _cut(values[:known], max_bins, upper[f])

    map_blocks(work, -(-n_features // _BLOCK), n_jobs)
    return Borders(upper, n_bins, missing)


def bin_rows(X: np.ndarray, borders: Borders, n_jobs: int | None = None) -> BinnedRows:
    """Map every value to its bin."""
    n, n_features = X.shape
    rows = np.zeros((n, -(-n_features // WORD) * WORD), dtype=np.uint8)
    columns = np.empty((n_features, n), dtype=np.uint8)
    missing = borders.has_missing.copy()  # the sample that made the borders may have missed some
    X, upper = readonly(X), readonly(borders.upper)
    size = 16_384

    def work(block: int) -> None:
        _bin_block(X, upper, block * size, min(n, (block + 1) * size), rows, columns, missing)

    map_blocks(work, -(-n // size), n_jobs)
    return BinnedRows(rows.view(np.uint64), columns, replace(borders, has_missing=missing))


@kernel
def _take_columns(X: np.ndarray, rows: np.ndarray, first: int, columns: np.ndarray) -> None:
    """Transpose some columns of some rows: each cache line of X is read once."""
    for k in range(len(rows)):
        for f in range(columns.shape[0]):
            columns[f, k] = X[rows[k], first + f]


@kernel
def _cut(values: np.ndarray, max_bins: int, upper: np.ndarray) -> int:
    """Cut sorted values into bins of about equal size; returns how many.

    A bin closes when it holds its share of what was left at its start, so a frequent value uses up one bin and the
    others still share the rest evenly. Few distinct values get a bin each.
    """
    n = len(values)
    distinct = 0
    for k in range(n):
        if k == 0 or values[k] != values[k - 1]:
            distinct += 1
    bins, held, share = 0, 0, n / max_bins
    for k in range(n):
        held += 1
        if k + 1 < n and values[k + 1] != values[k] and bins < max_bins - 1 and (distinct <= max_bins or held >= share):
            upper[bins] = _between(values[k], values[k + 1])
            bins += 1
            held = 0
            share = (n - k - 1) / (max_bins - bins)
    upper[bins] = np.inf
    return bins + 1


@kernel
def _between(low: np.float32, high: np.float32) -> np.float32:
    """A number m with low <= m < high, the middle if rounding allows."""
    middle = np.float32(0.5) * low + np.float32(0.5) * high
    return middle if low <= middle < high else low


@kernel
def _bin_block(
    X: np.ndarray,
    upper: np.ndarray,
    first: int,
    last: int,
    rows: np.ndarray,
    columns: np.ndarray,
    missing: np.ndarray,
) -> None:
    """rows[i, f] = columns[f, i] = number of borders below X[i, f]; NaN -> 255, and missing[f] is noted.

    Eight halvings of the 255 borders, for 64 rows in step: one search alone would wait for each of its loads.
    """
    values, low = np.empty(64, np.float32), np.empty(64, np.uint32)
    for start in range(first, last, 64):
        n = min(64, last - start)
        for f in range(X.shape[1]):
            borders = upper[f]
            for k in range(n):
                values[k] = X[start + k, f]
            for k in range(64):
                low[k] = 0
            half = np.uint32(128)
            while half > np.uint32(0):
                for k in range(64):
                    low[k] += half * np.uint32(borders[low[k] + half - np.uint32(1)] < values[k])
                half >>= np.uint32(1)
            for k in range(n):
                if values[k] != values[k]:
                    rows[start + k, f] = columns[f, start + k] = np.uint8(MISSING)
                    missing[f] = True
                else:
                    rows[start + k, f] = columns[f, start + k] = np.uint8(low[k])
