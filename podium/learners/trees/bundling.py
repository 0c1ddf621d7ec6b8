"""Bundling: features that are hardly ever away from their usual bins together share one column.

Exclusive feature bundling: on one-hot and other sparse data a histogram then costs rows x bundles instead of rows x
features. Which features go together is found greedily, those that are most often away from their usual bin first, each
into the first bundle where it collides with few enough rows. Where two collide the later feature wins and the earlier
one is taken to be in its usual bin: without collisions nothing is lost.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from podium._numba import kernel, readonly
from podium.learners.trees.binning import LARGEST_SAMPLE, BinnedRows, Borders, Views, bin_rows

_SLOTS = 255  # of a column; the last one of a byte is for missing values
_MOST_AWAY = 0.5  # a feature that is away from its usual bin more often is left alone
_MOST_TRIED = 200  # bundles that a feature tries


@dataclass(frozen=True)
class ViewRules:
    """What makes a feature more than a column of ordered bins."""

    bundle_features: bool = False
    max_conflicts: float = 0.0  # of a bundle, as a share of the rows
    categorical: tuple[int, ...] = ()
    category_smoothing: float = 10.0
    signs: tuple[int, ...] = ()  # one a feature; empty: all 0


def find_views(X: np.ndarray, borders: Borders, rules: ViewRules, seed: int, n_jobs: int | None) -> Views | None:
    """How the features of X are to lie in columns; None: each in its own, as it is."""
    groups = _find_bundles(X, borders, rules.max_conflicts, seed, n_jobs) if rules.bundle_features else []
    if not groups and not borders.categorical.any() and not any(rules.signs):
        return None
    return _lay_out(groups, borders, rules)


def _find_bundles(
    X: np.ndarray, borders: Borders, max_conflicts: float, seed: int, n_jobs: int | None
) -> list[tuple[list[int], np.ndarray]]:
    """Bundles of two features or more, each with its features' usual bins."""
    candidates = np.flatnonzero(~borders.categorical & ~_miss_values(X) & (borders.n_bins > 1))
    if len(candidates) < 2:
        return []
    rows = np.arange(len(X))
    if len(X) > LARGEST_SAMPLE:
        rows = np.sort(np.random.default_rng(seed).choice(len(X), LARGEST_SAMPLE, replace=False))
    usual, away = _find_usual(bin_rows(X[rows] if len(rows) < len(X) else X, borders, n_jobs), candidates)
    rates = np.array([np.bitwise_count(bits).sum() for bits in away]) / len(rows)
    sparse = np.flatnonzero(rates <= _MOST_AWAY)
    order = sparse[np.argsort(-rates[sparse], kind="stable")]
    sizes = borders.n_bins[candidates].astype(np.int64) - 1
    owner = _fill_greedily(readonly(away), readonly(order), readonly(sizes), int(max_conflicts * len(rows)))
    groups = []
    for bundle in range(int(owner.max(initial=-1)) + 1):
        members = np.flatnonzero(owner == bundle)
        if len(members) > 1:
            groups.append((candidates[members].tolist(), usual[members]))
    return groups


def _miss_values(X: np.ndarray) -> np.ndarray:
    """Which features miss values in some row: they keep a column of their own."""
    missing = np.zeros(X.shape[1], dtype=np.bool_)
    for start in range(0, len(X), 4096):
        missing |= np.isnan(X[start : start + 4096]).any(axis=0)
    return missing


def _find_usual(binned: BinnedRows, features: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The most frequent bin of each feature, and a bit a row: whether it is in another one."""
    usual = np.empty(len(features), dtype=np.int64)
    words = -(-binned.n_rows // 64)
    away = np.zeros((len(features), words), dtype=np.uint64)
    for k, f in enumerate(features):
        column = binned.columns[f]
        usual[k] = np.bincount(column, minlength=1).argmax()
        bits = np.packbits(column != usual[k])
        away[k].view(np.uint8)[: len(bits)] = bits
    return usual, away


@kernel
def _fill_greedily(away: np.ndarray, order: np.ndarray, sizes: np.ndarray, most: int) -> np.ndarray:
    """owner[feature] = its bundle, -1 for none. A bundle holds no more than `most` collisions and 255 slots."""
    owner = np.full(len(sizes), -1, np.int64)
    taken = np.zeros((len(order), away.shape[1]), np.uint64)  # rows in which some member is away
    room, collisions = np.zeros(len(order), np.int64), np.zeros(len(order), np.int64)
    count = 0
    for position in range(len(order)):
        f = order[position]
        for bundle in range(max(0, count - _MOST_TRIED), count + 1):
            if bundle == count:
                room[bundle], count = _SLOTS - 1, count + 1
            if room[bundle] < sizes[f]:
                continue
            both, allowed = 0, most - collisions[bundle]
            for word in range(away.shape[1]):
                both += _count_bits(taken[bundle, word] & away[f, word])
                if both > allowed:
                    break
            if both <= allowed:
                owner[f] = bundle
                room[bundle] -= sizes[f]
                collisions[bundle] += both
                for word in range(away.shape[1]):
                    taken[bundle, word] |= away[f, word]
                break
    return owner


@kernel
def _count_bits(word: np.uint64) -> int:
    count = 0
    while word != np.uint64(0):
        word &= word - np.uint64(1)
        count += 1
    return count


def _lay_out(groups: list[tuple[list[int], np.ndarray]], borders: Borders, rules: ViewRules) -> Views:
    """Bundles first, then every other feature in a column of its own."""
    n = borders.n_features
    column, offset, usual = np.full(n, -1, np.int64), np.zeros(n, np.int64), np.full(n, -1, np.int64)
    for number, (members, usual_bins) in enumerate(groups):
        sizes = borders.n_bins[members].astype(np.int64) - 1
        column[members], usual[members] = number, usual_bins
        offset[members] = 1 + np.cumsum(sizes) - sizes
    alone = column < 0
    column[alone] = len(groups) + np.arange(int(alone.sum()))
    by_column = np.argsort(column, kind="stable").astype(np.int64)
    starts = np.searchsorted(column[by_column], np.arange(int(column.max(initial=-1)) + 2)).astype(np.int64)
    arrays = (column, offset, usual, by_column, starts)
    signs = np.array(rules.signs, dtype=np.float64) if rules.signs else np.zeros(n)
    return Views(*arrays, borders.categorical, np.array([rules.category_smoothing]), signs)
