"""Features that tell no two documents apart that a model is to rank differently: nothing can be learned from them.

Models that learn from the documents of a query in comparison need features that differ within a query of at least two
labels; others need features that differ between any two rows. Rows of weight 0 do not count.
"""

from __future__ import annotations

import numpy as np

from podium.data.ranking import RankingData
from podium.data.sharding.shard import Shard
from podium.data.sparse import FeatureMatrix, as_dense, is_sparse
from podium.data.weights import row_weights

_BLOCK = 4096  # rows that are compared in one go: the first block nearly always holds a difference


def constant_features(data: RankingData, *, by_query: bool, by_label: bool, shard: Shard | None = None) -> str | None:
    """What is constant, as a sentence; None where features differ.

    by_query: only differences within a query count; by_label: and only in queries that have different labels. shard:
    where other ranks have other queries, which they look at at the same time.
    """
    rows, queries = _rows_that_count(data)
    if by_query and by_label:
        taught = _with_different_labels(data.labels_for("fit")[rows], queries)
        rows, queries = rows[taught], queries[taught]
    if _total(len(rows), shard) < 2:  # nothing to compare
        return None
    differ = len(rows) > 0 and _differ(data.X, rows, np.full(len(rows), rows[0]))
    if not _total(differ, shard) and not _first_rows_differ(data.X, rows, shard):
        return f"{_each(data.n_features)} is constant or missing in all rows"
    if by_query and not _total(len(rows) > 0 and _differ(data.X, rows, rows[_firsts(queries)]), shard):
        return f"{_each(data.n_features)} is constant or missing within every query{' of different labels' * by_label}"
    return None


def _total(number: int, shard: Shard | None) -> int:
    return number if shard is None else shard.total(int(number))


def _first_rows_differ(X: FeatureMatrix, rows: np.ndarray, shard: Shard | None) -> bool:
    """Whether the first rows of two ranks differ, each of which has equal rows only."""
    if shard is None:
        return False
    first = as_dense(X[rows[:1]]).reshape(-1)
    firsts = [row for row in shard.collective.gather(first) if len(row)]
    return any(_any_difference(row, firsts[0]) for row in firsts)


def _each(n_features: int) -> str:
    return "the only feature" if n_features == 1 else f"each of the {n_features:,} features"


def _rows_that_count(data: RankingData) -> tuple[np.ndarray, np.ndarray]:
    """Rows of positive weight, query by query, and the number of the query of each."""
    weights = row_weights(data)
    rows = data.rows if weights is None else data.rows[weights[data.rows] > 0]
    return rows, data.query_numbers[rows]


def _firsts(queries: np.ndarray) -> np.ndarray:
    """For each row of grouped ones, the place of the first row of its query."""
    begins = np.append(True, queries[1:] != queries[:-1])
    return np.asarray(np.flatnonzero(begins)[np.cumsum(begins) - 1])


def _with_different_labels(labels: np.ndarray, queries: np.ndarray) -> np.ndarray:
    """(rows,) bool: whether the row is of a query with two different labels."""
    if len(labels) == 0:
        return np.empty(0, np.bool_)
    first = _firsts(queries)
    differs = np.bincount(first, weights=labels != labels[first], minlength=len(labels))
    return np.asarray(differs[first] > 0)


def _differ(X: FeatureMatrix, rows: np.ndarray, others: np.ndarray) -> bool:
    """Whether any of these rows differs from its counterpart in any feature; missing values are equal."""
    for start in range(0, len(rows), _BLOCK):
        part = slice(start, start + _BLOCK)
        if _any_difference(X[rows[part]], X[others[part]]):
            return True
    return False


def _any_difference(one: FeatureMatrix, other: FeatureMatrix) -> bool:
    if is_sparse(one):
        one, other = _missing_as_infinite(one), _missing_as_infinite(other)
        return bool((one != other).nnz)
    return bool(((one != other) & ~(np.isnan(one) & np.isnan(other))).any())


def _missing_as_infinite(X: FeatureMatrix) -> FeatureMatrix:
    """A copy in which missing values are equal to each other; no value of X is infinite."""
    copied = X.copy()
    copied.data = np.where(np.isnan(copied.data), np.float32(np.inf), copied.data)
    return copied
