"""Kernels of query-level transforms: each value compared with the other values of its feature within its query.

Shapes: X (n, features) float32 or float64 in C order, rows (n,) int64 the rows of query 0, then those of query 1, ...,
offsets (queries + 1,) int64, features (columns,) int64 the features to transform; results go to
out[:, first_column:first_column + columns]. A missing value (NaN) stays one and does not count.

Sums are made of integers on a grid, so that no order of the rows can change a bit.
"""

from __future__ import annotations

import numpy as np

from podium._runtime.compiler import kernel
from podium._runtime.exact import on_grid, units_for
from podium.metrics.sorting import SortWorkspace, make_sort_workspace, sort_places

_COUNTED = 256  # up to this length, counting beats sorting


@kernel
def feature_ranges(
    X: np.ndarray, rows: np.ndarray, features: np.ndarray, low: np.ndarray, high: np.ndarray, count: np.ndarray
) -> None:
    """The smallest and the largest value per feature over some rows, and how many are not missing."""
    for k in range(len(features)):
        low[k], high[k], count[k] = np.inf, -np.inf, 0
    for row in rows:
        for k in range(len(features)):
            value = float(X[row, features[k]])
            if value == value:
                low[k], high[k], count[k] = min(low[k], value), max(high[k], value), count[k] + 1


@kernel
def moments(
    X: np.ndarray,
    rows: np.ndarray,
    features: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    count: np.ndarray,
    mean: np.ndarray,
    deviation: np.ndarray,
) -> None:
    """Fills all but the first three: range, count, mean and standard deviation (divided by the count) per feature.

    Of a feature that is constant or missing over these rows, the deviation is 0.
    """
    feature_ranges(X, rows, features, low, high, count)
    width = len(features)
    units, widest = np.empty(width), np.empty(width)
    total, squares = np.zeros(width, np.int64), np.zeros(width, np.int64)
    for k in range(width):
        units[k] = units_for(max(abs(low[k]), abs(high[k])) if count[k] else 0.0, count[k])
    for row in rows:
        for k in range(width):
            value = float(X[row, features[k]])
            if value == value:
                total[k] += on_grid(value, units[k])
    for k in range(width):
        mean[k] = float(total[k]) / units[k] / count[k] if count[k] else 0.0
        widest[k] = max(high[k] - mean[k], mean[k] - low[k])
        units[k] = units_for(1.0, count[k])
    for row in rows:
        for k in range(width):
            value = float(X[row, features[k]])
            if value == value and high[k] > low[k]:
                squares[k] += on_grid(((value - mean[k]) / widest[k]) ** 2, units[k])
    for k in range(width):
        spread = float(squares[k]) / units[k] / count[k] if count[k] else 0.0
        deviation[k] = np.sqrt(spread) * widest[k] if high[k] > low[k] else 0.0


@kernel
def zscore_queries(
    X: np.ndarray,
    rows: np.ndarray,
    offsets: np.ndarray,
    features: np.ndarray,
    limit: float,
    first_column: int,
    out: np.ndarray,
) -> None:
    """(x - mean) / standard deviation within the query, at most `limit` from 0; 0 where the query is constant."""
    width = len(features)
    low, high, count = np.empty(width), np.empty(width), np.empty(width, np.int64)
    mean, deviation = np.empty(width), np.empty(width)
    for q in range(len(offsets) - 1):
        query_rows = rows[offsets[q] : offsets[q + 1]]
        moments(X, query_rows, features, low, high, count, mean, deviation)
        for row in query_rows:
            for k in range(width):
                value = float(X[row, features[k]])
                if value == value:
                    value = (value - mean[k]) / deviation[k] if deviation[k] > 0.0 else 0.0
                    value = min(max(value, -limit), limit)
                out[row, first_column + k] = value


@kernel
def minmax_queries(
    X: np.ndarray, rows: np.ndarray, offsets: np.ndarray, features: np.ndarray, first_column: int, out: np.ndarray
) -> None:
    """(x - min) / (max - min) within the query; 0 where the query is constant."""
    width = len(features)
    low, high, count = np.empty(width), np.empty(width), np.empty(width, np.int64)
    for q in range(len(offsets) - 1):
        query_rows = rows[offsets[q] : offsets[q + 1]]
        feature_ranges(X, query_rows, features, low, high, count)
        for row in query_rows:
            for k in range(width):
                value = float(X[row, features[k]])
                if value == value:  # halves: the difference of two float64 may be infinite
                    span = 0.5 * high[k] - 0.5 * low[k]
                    value = (0.5 * value - 0.5 * low[k]) / span if span > 0.0 else 0.0
                out[row, first_column + k] = value


@kernel
def rank_queries(
    X: np.ndarray, rows: np.ndarray, offsets: np.ndarray, features: np.ndarray, first_column: int, out: np.ndarray
) -> None:
    """(average rank - 0.5) / n within the query, rank 1 for the smallest; ties have the mean of their ranks."""
    longest = 0
    for q in range(len(offsets) - 1):
        longest = max(longest, offsets[q + 1] - offsets[q])
    workspace, values = make_sort_workspace(longest), np.empty(longest, X.dtype)
    ranks, wide = np.empty(longest), np.empty(longest)
    for q in range(len(offsets) - 1):
        query_rows = rows[offsets[q] : offsets[q + 1]]
        for k in range(len(features)):
            n = 0
            for row in query_rows:
                value = X[row, features[k]]
                if value == value:
                    values[n] = value
                    n += 1
            if n <= _COUNTED:
                _count_below(values[:n], ranks)
            else:
                for i in range(n):
                    wide[i] = values[i]
                _rank_by_sorting(wide[:n], workspace, ranks)
            position = 0
            for row in query_rows:
                value = X[row, features[k]]
                if value == value:
                    out[row, first_column + k] = ranks[position]
                    position += 1
                else:
                    out[row, first_column + k] = value


@kernel
def _count_below(values: np.ndarray, ranks: np.ndarray) -> None:
    """ranks[i] = (values below the i-th + values not above it) / 2n, which is (average rank - 0.5) / n.

    All pairs, in a loop that vectorises: for lists of usual length faster than sorting.
    """
    n = len(values)
    for i in range(n):
        value, twice = values[i], np.int32(0)
        for j in range(n):
            twice += np.int32(values[j] < value) + np.int32(values[j] <= value)
        ranks[i] = 0.5 * twice / n


@kernel
def _rank_by_sorting(values: np.ndarray, workspace: SortWorkspace, ranks: np.ndarray) -> None:
    n = len(values)
    places = sort_places(values, workspace, False)  # the largest first
    start = 0
    while start < n:
        stop = start + 1
        while stop < n and values[places[stop]] == values[places[start]]:
            stop += 1
        for position in range(start, stop):
            ranks[places[position]] = (n - 0.5 * (start + stop)) / n
        start = stop
