"""Curves: a metric along a line of scores, a constant between breakpoints and a value at each of them.

Events of many queries (where, and by how much a query's value changes there) are sorted by alpha and added up, as
integers: the sum does not depend on their order. They are distributed to buckets of about equal size first, so that
each is sorted in the cache, on threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from podium._runtime.compiler import Array, kernel
from podium._runtime.threads import map_blocks
from podium.metrics.crossings import CLOSE, Events

_BUCKET = 1 << 15  # events


@dataclass(frozen=True, eq=False)
class Curve:
    """The metric along the line: `between[k]` holds from alpha[k] to alpha[k + 1], both excluded, `at[k]` at alpha[k].

    `alpha` rises from 0 to the end of the line.
    """

    alpha: Array  # (m + 1,) float64
    at: Array  # (m + 1,) float64
    between: Array  # (m,) float64

    def __len__(self) -> int:
        return len(self.alpha)

    def __call__(self, alpha: Array | float) -> Array:
        """The metric at any alpha from 0 to the end of the line."""
        asked = np.asarray(alpha, dtype=np.float64)
        if not ((asked >= 0) & (asked <= self.alpha[-1])).all():
            raise ValueError(f"alpha must be from 0 to {self.alpha[-1]:g}; got {alpha}.")
        left = np.searchsorted(self.alpha, asked, side="right") - 1
        inside = self.between[np.minimum(left, len(self.between) - 1)]
        return np.where(self.alpha[left] == asked, self.at[left], inside)

    def best_plateau(self, higher_is_better: bool, tolerance: float) -> tuple[float, float, float]:
        """(value, first and last alpha) of the widest stretch whose values are the best, to within the tolerance."""
        sign = 1.0 if higher_is_better else -1.0
        best = max(float((sign * self.at).max()), float((sign * self.between).max()))
        first, last = _widest(self.alpha, sign * self.at, sign * self.between, best - tolerance)
        return sign * best, float(self.alpha[first]), float(self.alpha[last])


def add_up(blocks: Sequence[Events], high: float, n_jobs: int | None) -> tuple[Array, Array, Array]:
    """(alpha, at, between) of the sum of all events, as integers relative to the value at 0; see `Curve`."""
    alpha, change, point = _sorted_events(blocks, n_jobs)
    workspace = len(alpha) + 2
    places, at, behind = np.empty(workspace), np.empty(workspace, np.int64), np.empty(workspace, np.int64)
    n = _accumulate(alpha, change, point, high, places, at, behind)
    return places[:n].copy(), at[:n].copy(), behind[: n - 1].copy()


def _sorted_events(blocks: Sequence[Events], n_jobs: int | None) -> Events:
    """All events, alpha rising. Within a block, alpha rises from each start of a query to the next."""
    total = sum(len(alpha) for alpha, _, _ in blocks)
    edges = _bucket_edges(blocks, total)
    counts = np.zeros((len(blocks), len(edges) + 1), np.int64)
    map_blocks(lambda b: _count_by_bucket(blocks[b][0], edges, counts[b]), len(blocks), n_jobs)
    ends = np.cumsum(counts.T.reshape(-1))  # bucket by bucket, and in each block by block
    starts = np.ascontiguousarray((ends - counts.T.reshape(-1)).reshape(counts.T.shape).T)
    merged = np.empty(total), np.empty(total, np.int64), np.empty(total, np.int64)
    map_blocks(lambda b: _distribute(blocks[b], edges, starts[b], merged), len(blocks), n_jobs)
    borders = np.concatenate([[0], ends.reshape(-1, len(blocks))[:, -1]]) if len(blocks) else np.zeros(2, np.int64)

    def sort(bucket: int) -> None:
        part = slice(int(borders[bucket]), int(borders[bucket + 1]))
        order = np.argsort(merged[0][part])
        for array in merged:
            array[part] = array[part][order]

    map_blocks(sort, len(borders) - 1, n_jobs)
    return merged


def _bucket_edges(blocks: Sequence[Events], total: int) -> Array:
    """Numbers that divide all events into buckets of about equal size, from a sample."""
    n_buckets = total // _BUCKET
    if n_buckets < 2:
        return np.empty(0)
    sample = np.sort(np.concatenate([alpha[::101] for alpha, _, _ in blocks]))
    return np.unique(sample[np.linspace(0, len(sample) - 1, n_buckets + 1).astype(np.int64)[1:-1]])


@kernel
def _count_by_bucket(alpha: Array, edges: Array, counts: Array) -> None:
    bucket, before = 0, -1.0
    for k in range(len(alpha)):
        if alpha[k] < before:
            bucket = 0  # the next query
        before = alpha[k]
        while bucket < len(edges) and before >= edges[bucket]:
            bucket += 1
        counts[bucket] += 1


@kernel
def _distribute(events: Events, edges: Array, starts: Array, merged: Events) -> None:
    (alpha, change, point), (all_alpha, all_change, all_point) = events, merged
    bucket, before = 0, -1.0
    for k in range(len(alpha)):
        if alpha[k] < before:
            bucket = 0
        before = alpha[k]
        while bucket < len(edges) and before >= edges[bucket]:
            bucket += 1
        slot = starts[bucket]
        all_alpha[slot], all_change[slot], all_point[slot] = alpha[k], change[k], point[k]
        starts[bucket] = slot + 1


@kernel
def _accumulate(alpha: Array, change: Array, point: Array, high: float, places: Array, at: Array, behind: Array) -> int:
    """Breakpoints from 0 to `high`, crossings that are one as one, with the sums at and behind each."""
    n, value, k = 1, 0, 0
    places[0], at[0], behind[0] = 0.0, 0, 0
    while k < len(alpha):
        here, across, peak = alpha[k], 0, 0
        # up to a distance from the first: two clusters of one query are further apart, so none is added twice
        while k < len(alpha) and alpha[k] - here <= CLOSE * alpha[k] and (alpha[k] < 1.0 or here == 1.0):
            across += change[k]
            peak += point[k]
            k += 1
        if here == 1.0 and 1.0 - places[n - 1] <= CLOSE:
            n -= 1  # nothing fits between
        if here > 0.0:
            places[n], at[n] = here, value + peak
            n += 1
        value += across
        behind[n - 1] = value
    if places[n - 1] < high:
        places[n], at[n] = high, value
        n += 1
    return n


@kernel
def _widest(alpha: Array, at: Array, between: Array, least: float) -> tuple[int, int]:
    """The first and last breakpoint of the widest stretch of values of at least `least`; of equals the first.

    Values alternate: item 2k is at[k], item 2k + 1 is between[k], and a stretch is a run of items.
    """
    first, last, width, item, end = 0, 0, -1.0, 0, 2 * len(between) + 1
    while item < end:
        begin = item
        while item < end and (between[item // 2] if item % 2 else at[item // 2]) >= least:
            item += 1
        if item > begin and alpha[item // 2] - alpha[begin // 2] > width:
            first, last, width = begin // 2, item // 2, alpha[item // 2] - alpha[begin // 2]
        item += 1
    return first, last
