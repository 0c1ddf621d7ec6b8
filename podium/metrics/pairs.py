"""Pairwise metrics: how many pairs of documents with different labels are ordered correctly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from podium._runtime.compiler import Array, kernel, readonly
from podium.metrics.base import KernelMetric
from podium.metrics.closed_forms import PAIRS, ClosedForm, inverse
from podium.metrics.lists import RankedLists

PAIRWISE_ADVICE = "counts a pair the same wherever it stands; objective 'ranknet' is meant for that"


@dataclass(frozen=True)
class Inversions(KernelMetric):
    """Pairs out of order: a lower label above a higher one; equal scores count one half.

    At a cutoff, pairs whose upper document is in the top k. With sample weights a pair counts as the
    product of its two weights.
    """

    base_name: ClassVar[str] = "inversions"
    higher_is_better: ClassVar[bool] = False

    def lambda_advice(self) -> str:
        return PAIRWISE_ADVICE

    def values(self, lists: RankedLists) -> Array:
        return pair_counts(lists, self.cutoff)[0]

    def closed_form(self, lists: RankedLists) -> ClosedForm | None:
        if lists.weights is not None or self.cutoff is not None:
            return None
        most = max(1.0, float(pair_counts(lists, None)[1].max(initial=0.0)))
        return ClosedForm(PAIRS, lists.longest, lists.labels, np.full(lists.n_queries, -1.0), most)

    def swaps(self, ranked_labels: Array, i: int) -> Array:
        return inversion_deltas(np.asarray(ranked_labels, np.float64), i, self.cutoff)


@dataclass(frozen=True)
class AUC(KernelMetric):
    """The share of differently labelled pairs that is in order, equal scores counting one half.

    A query with one label has no such pair: its value is undefined (NaN). At a cutoff only disorder whose upper
    document is among the first k places counts against it. `auc(pooled)` pairs documents of all queries.
    """

    base_name: ClassVar[str] = "auc"

    pooled: bool = False

    @property
    def pools_queries(self) -> bool:
        return self.pooled

    def lambda_advice(self) -> str:
        return PAIRWISE_ADVICE

    def values(self, lists: RankedLists) -> Array:
        inverted, pairs = pair_counts(lists, self.cutoff)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(pairs > 0, 1.0 - inverted / pairs, np.nan)

    def closed_form(self, lists: RankedLists) -> ClosedForm | None:
        if lists.weights is not None or self.cutoff is not None:
            return None
        return ClosedForm(PAIRS, lists.longest, lists.labels, inverse(pair_counts(lists, None)[1]))

    def swaps(self, ranked_labels: Array, i: int) -> Array:
        labels = np.asarray(ranked_labels, np.float64)
        pairs = float(pair_counts(RankedLists.one(labels), None)[1][0])
        deltas = inversion_deltas(labels, i, self.cutoff)
        return np.full(len(deltas), np.nan) if pairs == 0 else -deltas / pairs


def pair_counts(lists: RankedLists, cutoff: int | None) -> tuple[Array, Array]:
    """For each query (weight of the inverted pairs, weight of all pairs with different labels)."""
    n = len(lists.labels)
    weights = np.ones(n) if lists.weights is None else lists.weights
    tied = np.zeros(n, np.bool_) if lists.tied is None else lists.tied
    inverted, pairs = np.empty(lists.n_queries), np.empty(lists.n_queries)
    labels, weights, tied, offsets = map(readonly, (lists.labels, weights, tied, lists.offsets))
    _count_pairs(labels, weights, tied, offsets, cutoff or n, inverted, pairs)
    return inverted, pairs


def inversion_deltas(labels: Array, i: int, cutoff: int | None) -> Array:
    deltas = np.zeros(len(labels) - i - 1)
    top = len(labels) if cutoff is None else min(cutoff, len(labels))
    codes = np.unique(labels, return_inverse=True)[1] if len(labels) else np.zeros(0, np.int64)
    if i < top:
        _inversion_deltas_from(readonly(codes.astype(np.int64)), i, top, deltas)
    return deltas


@kernel
def _add(tree: Array, code: int, amount: float) -> None:
    """A Fenwick tree: running sums by label, updated and read in O(log labels)."""
    node = code + 1
    while node < len(tree):
        tree[node] += amount
        node += node & -node


@kernel
def _up_to(tree: Array, code: int) -> float:
    """The sum over labels <= code."""
    total, node = 0.0, code + 1
    while node > 0:
        total += tree[node]
        node -= node & -node
    return total


@kernel
def _count_pairs(
    labels: Array, weights: Array, tied: Array, offsets: Array, cutoff: int, inverted: Array, pairs: Array
) -> None:
    """Walk down each list, one run of equal scores at a time; a tree holds the counted weight above by label."""
    for q in range(len(inverted)):
        start, n = offsets[q], offsets[q + 1] - offsets[q]
        distinct = np.unique(labels[start : start + n])
        codes = np.searchsorted(distinct, labels[start : start + n])
        counted, seen, run_seen = np.zeros(len(distinct) + 1), np.zeros(len(distinct)), np.zeros(len(distinct))
        wrong, total, above, run = 0.0, 0.0, 0.0, 0
        while run < n:
            stop = run + 1
            while stop < n and tied[start + stop]:
                stop += 1
            for k in range(run, stop):
                wrong += weights[start + k] * _up_to(counted, codes[k] - 1)
            run_above = 0.0
            for k in range(run, stop):
                code, weight = codes[k], weights[start + k]
                total += weight * (above - seen[code])
                wrong += 0.5 * weight * (run_above - run_seen[code])  # differing labels, equal scores
                seen[code] += weight
                above += weight
                if k < cutoff:
                    run_seen[code] += weight
                    run_above += weight
                    _add(counted, code, weight)
            for k in range(run, stop):
                run_seen[codes[k]] = 0.0
            run = stop
        inverted[q], pairs[q] = wrong, total


@kernel
def _inversion_deltas_from(codes: Array, i: int, top: int, deltas: Array) -> None:
    """Swap place i < top with each later place j; places above i see the same two labels and do not matter.

    With x the label at i and y the label at j, and [.] 1 or 0:
    gone: [x < l_m] over m > i, [l_m < y] over i < m < min(j, top), [y < l_m] over m > j if j < top;
    new: the same with x and y exchanged, and [y < x] instead of [x < y] for the pair itself.
    """
    n, n_codes = len(codes), codes.max() + 1
    behind_i, between, behind_j = np.zeros(n_codes + 1), np.zeros(n_codes + 1), np.zeros(n_codes + 1)
    for m in range(i + 1, n):
        _add(behind_i, codes[m], 1.0)
        _add(behind_j, codes[m], 1.0)
    x = codes[i]
    for j in range(i + 1, n):
        y = codes[j]
        _add(behind_j, y, -1.0)
        if x != y:
            after_i = n - i - 1
            gone = after_i - _up_to(behind_i, x) + _up_to(between, y - 1)
            # After the new label y at i come all but the one at j, and x itself at j.
            new = after_i - _up_to(behind_i, y) + (1.0 if y < x else 0.0) + _up_to(between, x - 1)
            if j < top:
                after_j = n - j - 1
                gone += after_j - _up_to(behind_j, y)
                new += after_j - _up_to(behind_j, x)
            deltas[j - i - 1] = new - gone
        if j < top:
            _add(between, y, 1.0)
