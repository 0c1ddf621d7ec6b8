"""Metrics that add up: the value is `sum of gain(label at place i) * weight(i)`.

Precision, recall, DCG, NDCG, MeanNDCG and RBP differ only in their gains and weights, where the weights may depend on
which labels a query has but not on their order. So swapping places i and j changes the value by
`(gain_j - gain_i) * (weight_i - weight_j)`, and equal scores average by averaging gains.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from podium._runtime.compiler import Array, kernel, readonly
from podium._runtime.threads import over_queries
from podium.metrics.base import KernelMetric, RelevanceMetric, refuse_labels_above_rmax, rmax_note
from podium.metrics.closed_forms import ADDITIVE, ClosedForm, inverse
from podium.metrics.lists import Places, RankedLists, heads, sort_descending
from podium.metrics.measures.prefixes import PrefixSums
from podium.metrics.measures.profiles import Profile, relevant_counts
from podium.metrics.policies import discounts, gain_table, gains, known_gain

Gain = str | tuple[float, ...]


@dataclass(frozen=True)
class AdditiveMetric(KernelMetric):
    """The common part: members define the gain of a label, the weight of a rank and the normaliser."""

    def gains(self, labels: Array) -> Array:
        raise NotImplementedError

    def rank_weights(self, n: int) -> Array:
        """Weights of the first n ranks before normalising, whatever the cutoff."""
        raise NotImplementedError

    def place_weights(self, n: int) -> Array:
        """The same, 0 beyond the cutoff."""
        return cut(self.rank_weights(n), self.cutoff)

    def normalisers(self, lists: RankedLists) -> Array:
        """One divisor per query; 0 where the query has nothing to gain."""
        return np.ones(lists.n_queries)

    def empty_value(self) -> float:
        return 0.0

    def values(self, lists: RankedLists) -> Array:
        sums = self.sparse_sums(lists) if self._is_sparse_sum(lists) else self._sums(lists)
        divisors = self.normalisers(lists)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(divisors > 0, sums / divisors, self.empty_value())

    def _sums(self, lists: RankedLists) -> Array:
        gain, offsets = self.ranked_gains(lists)
        return weighted_sums(gain, offsets, self.place_weights(_longest(offsets)))

    def _is_sparse_sum(self, lists: RankedLists) -> bool:
        """Whether documents without a label add nothing, and a cutoff only ends the sum."""
        methods = type(self).ranked_gains, type(self).place_weights
        plain = methods == (AdditiveMetric.ranked_gains, AdditiveMetric.place_weights)
        return lists.is_sparse and plain and not self.gains(np.zeros(1))[0]

    def sparse_sums(self, lists: RankedLists) -> Array:
        """The sum over the documents that the qrels have, from sums that serve all cutoffs."""
        key = "sums", replace(self, cutoff=None)
        if key not in lists.memo:
            self.refuse_labels(lists)
            gain, weights = self.gains(lists.places.labels), self.rank_weights(lists.longest)
            lists.memo[key] = PrefixSums.of_weighted(gain, weights, lists.places)
        sums: PrefixSums = lists.memo[key]
        return sums.down_to(self.cutoff)

    def closed_form(self, lists: RankedLists) -> ClosedForm | None:
        return self.additive_form(lists, inverse(self.normalisers(lists)), self.place_weights(lists.longest))

    def additive_form(self, lists: RankedLists, scales: Array, *ranks: Array) -> ClosedForm:
        """Gains, times document weights, with these scales of queries; `ranks`: the table of weights and its starts."""
        gains = self.gains(lists.labels) * (1.0 if lists.weights is None else lists.weights)
        sums = weighted_sums(np.abs(gains), lists.offsets) * scales
        largest = float(sums.max(initial=0.0) * np.abs(ranks[0]).max(initial=0.0)) or 1.0
        return ClosedForm(ADDITIVE, self.top(lists.longest), gains, scales, largest, *ranks)

    def ranked_gains(self, lists: RankedLists) -> tuple[Array, Array]:
        """The gains in ranked order down to the cutoff, times document weights, and their offsets."""
        self.refuse_labels(lists)
        if lists.average_ties:
            return self._averaged_gains(lists), lists.offsets
        labels, offsets = lists.top(self.cutoff)
        if lists.weights is None:
            return self.gains(labels), offsets
        return self.gains(labels) * heads(lists.weights, lists.offsets, self.cutoff)[0], offsets

    def refuse_labels(self, lists: RankedLists) -> None:
        """Raise where a label has no gain, at any rank: the cutoff does not apply to them."""

    def _averaged_gains(self, lists: RankedLists) -> Array:
        gain = self.gains(lists.labels) * (1.0 if lists.weights is None else lists.weights)
        if lists.tied is not None:
            _average_runs(gain, readonly(lists.tied))
        return gain

    def ideal_gains(self, lists: RankedLists) -> tuple[Array, Array]:
        """The gains of each query, largest first, down to the cutoff, and their offsets."""
        if lists.weights is None:
            labels, offsets = lists.ideal(self.cutoff)
            return self.gains(labels), offsets
        if lists.judged is not None:
            raise ValueError("Document weights need lists that hold every judged document.")
        return sort_descending(self.gains(lists.labels) * lists.weights, lists.offsets, self.cutoff)


@dataclass(frozen=True)
class CountingMetric(AdditiveMetric, RelevanceMetric):
    """The gain is 1 for relevant documents, else 0."""

    def gains(self, labels: Array) -> Array:
        return (labels >= self.threshold).astype(np.float64)


@dataclass(frozen=True)
class RelevantDocuments(CountingMetric):
    """The weight of all ranks is 1: the sum is the number of relevant documents."""

    def lambda_advice(self) -> str | None:
        return _set_advice(self.cutoff)

    def rank_weights(self, n: int) -> Array:
        return np.ones(n)

    def sparse_sums(self, lists: RankedLists) -> Array:
        profile = Profile.of(lists, self.threshold)
        return profile.hits_at(lists.longest if self.cutoff is None else self.cutoff)


@dataclass(frozen=True)
class Precision(RelevantDocuments):
    """P@k: the share of relevant documents among the first k places, empty places counting as not relevant."""

    base_name: ClassVar[str] = "p"
    cut_by_policy: ClassVar[bool] = True

    def normalisers(self, lists: RankedLists) -> Array:
        lengths = lists.lengths.astype(np.float64)
        if self.cutoff is None:
            return lengths
        if self.policy.precision == "list":
            return np.minimum(lengths, self.cutoff)
        return np.full(lists.n_queries, float(self.cutoff))


@dataclass(frozen=True)
class Recall(RelevantDocuments):
    """recall@k: the share of a query's relevant documents that is found among the first k places."""

    base_name: ClassVar[str] = "recall"

    def empty_value(self) -> float:
        return self.policy.empty_recall

    def normalisers(self, lists: RankedLists) -> Array:
        return relevant_totals(lists, self.threshold)


@dataclass(frozen=True)
class RBP(CountingMetric):
    """Rank-biased precision: a user who looks at the next place with probability p; `sum gain (1 - p) p^i`.

    The gain is 1 from the relevance threshold on; `graded` takes `r / rmax` instead.
    """

    base_name: ClassVar[str] = "rbp"
    positional: ClassVar[str] = "persistence"

    persistence: float = 0.8
    graded: bool = False
    rmax: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.persistence < 1:
            raise ValueError(f"rbp: persistence must be between 0 and 1; got {self.persistence}.")

    def resolve(self, largest_label: float) -> Self:
        return replace(self, rmax=largest_label) if self.graded and self.rmax is None else self

    def notes(self) -> tuple[str, ...]:
        return rmax_note(self.rmax) if self.graded else ()

    def gains(self, labels: Array) -> Array:
        if not self.graded:
            return super().gains(labels)
        refuse_labels_above_rmax(self, labels, self.rmax)
        return labels / (self.rmax or 1.0)

    def rank_weights(self, n: int) -> Array:
        return np.asarray((1.0 - self.persistence) * self.persistence ** np.arange(n))


@dataclass(frozen=True)
class DCG(AdditiveMetric):
    """DCG@k: gains divided by the logarithm of their rank."""

    base_name: ClassVar[str] = "dcg"

    gain: Gain | None = None  # overrides the policy's

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.gain, str):
            known_gain(self.gain)
        elif self.gain is not None:
            gain_table(self.gain)

    def gains(self, labels: Array) -> Array:
        return gains(labels, self.policy.gain if self.gain is None else self.gain)

    def refuse_labels(self, lists: RankedLists) -> None:
        gain = self.policy.gain if self.gain is None else self.gain
        self.gains(lists.labels if isinstance(gain, tuple) else np.array([lists.largest_label]))

    def rank_weights(self, n: int) -> Array:
        return discounts(n, self.policy.discount)


@dataclass(frozen=True)
class NDCG(DCG):
    """NDCG@k: DCG@k divided by the DCG@k of the best order."""

    base_name: ClassVar[str] = "ndcg"
    cut_by_policy: ClassVar[bool] = True

    empty: float | None = None  # overrides the policy's value of a query with nothing relevant

    def empty_value(self) -> float:
        return self.policy.empty if self.empty is None else self.empty

    def normalisers(self, lists: RankedLists) -> Array:
        if self._is_sparse_sum(lists):
            return self._ideal_sums(lists).down_to(self.cutoff)
        gain, offsets = self.ideal_gains(lists)
        return weighted_sums(gain, offsets, self.place_weights(_longest(offsets)))

    def _ideal_sums(self, lists: RankedLists) -> PrefixSums:
        """Sums of the best order, one for all cutoffs."""
        key = "best", replace(self, cutoff=None)
        if key not in lists.memo:
            labels, offsets = lists.ideal()
            places, weights = Places.all(labels, offsets), self.rank_weights(_longest(offsets))
            lists.memo[key] = PrefixSums.of_weighted(self.gains(labels), weights, places)
        sums: PrefixSums = lists.memo[key]
        return sums

    def values(self, lists: RankedLists) -> Array:
        return np.where(self.too_short(lists.lengths), 0.0, super().values(lists))

    def closed_form(self, lists: RankedLists) -> ClosedForm:
        scales = np.where(self.too_short(lists.lengths), 0.0, inverse(self.normalisers(lists)))
        return self.additive_form(lists, scales, self.place_weights(lists.longest))

    def too_short(self, lengths: Array | int) -> Array:
        """Whether lists of these lengths have the value 0 because they are shorter than the cutoff."""
        if self.policy.short == "cut" or self.cutoff is None:
            return np.zeros(np.shape(lengths), dtype=np.bool_)
        return np.less(lengths, self.cutoff)


@dataclass(frozen=True)
class MeanNDCG(DCG):
    """LETOR's MeanNDCG: the mean of NDCG@1 .. NDCG@n over a list's own n places (the first k of them at a cutoff)."""

    base_name: ClassVar[str] = "meanndcg"

    def values(self, lists: RankedLists) -> Array:
        gain, offsets = self.ranked_gains(lists)
        best, ends = self.ideal_gains(lists)
        discount = discounts(max(_longest(offsets), _longest(ends)), self.policy.discount)
        out = np.empty(lists.n_queries)
        gain, offsets, best, ends, discount = map(readonly, (gain, offsets, best, ends, discount))
        _mean_ratios(gain, offsets, best, ends, discount, self.cutoff or len(discount), out)
        return np.where(np.isnan(out), self.policy.empty, out)

    def _weights(self, labels: Array) -> Array:
        """Weights of the ranks of one list."""
        best, n = self.ideal_gains(RankedLists.one(labels))[0], len(labels)
        top = self.top(n)
        best = np.concatenate([best, np.zeros(top)])[:top]
        discount = discounts(top, self.policy.discount)
        ideal = np.cumsum(best * discount)
        if top == 0 or ideal[-1] <= 0:
            return np.zeros(n)
        # Place i takes part in NDCG@i .. NDCG@top.
        share = np.cumsum((1.0 / ideal)[::-1])[::-1] / top
        return np.concatenate([discount * share, np.zeros(n - top)])

    def closed_form(self, lists: RankedLists) -> ClosedForm | None:
        """Weights of ranks that depend on the query."""
        if lists.weights is not None:
            return None
        tables = [self._weights(lists.query(q)) for q in range(lists.n_queries)]
        table = np.concatenate([np.zeros(0), *tables])
        return self.additive_form(lists, np.ones(lists.n_queries), table, lists.offsets[:-1])


def cut(weights: Array, cutoff: int | None) -> Array:
    if cutoff is not None:
        weights[cutoff:] = 0.0
    return weights


def weighted_sums(values: Array, offsets: Array, weights: Array | None = None) -> Array:
    """For each query the sum of its values, each times the weight of its place."""
    out = np.empty(len(offsets) - 1)
    place_weights = np.ones(_longest(offsets)) if weights is None else weights
    _weighted_sums(readonly(values), readonly(offsets), readonly(place_weights), out)
    return out


def relevant_totals(lists: RankedLists, threshold: float) -> Array:
    """`relevant_weight` of all judged documents of the lists."""
    if lists.weights is None:
        return relevant_counts(lists, threshold).astype(np.float64)
    return relevant_weight(lists.labels, threshold, lists.weights, lists.offsets)


def relevant_weight(labels: Array, threshold: float, weights: Array | None, offsets: Array) -> Array:
    """The number of relevant documents of each query, or their weight."""
    out = np.empty(len(offsets) - 1)
    labels, offsets = readonly(labels), readonly(offsets)
    document_weights = readonly(np.empty(0) if weights is None else weights)
    over_queries(
        lambda first, last: _relevant_weight(labels, threshold, document_weights, offsets, first, last, out), offsets
    )
    return out


def _set_advice(cutoff: int | None) -> str | None:
    return None if cutoff is None else f"ignores the order of the first {cutoff} places; 'map' or 'ndcg' do not"


def _longest(offsets: Array) -> int:
    return int(np.diff(offsets).max(initial=0))


@kernel
def _weighted_sums(values: Array, offsets: Array, weights: Array, out: Array) -> None:
    for q in range(len(out)):
        start, total = offsets[q], 0.0
        for rank in range(offsets[q + 1] - start):
            total += values[start + rank] * weights[rank]
        out[q] = total


@kernel
def _relevant_weight(
    labels: Array, threshold: float, weights: Array, offsets: Array, first: int, last: int, out: Array
) -> None:
    for q in range(first, last):
        total = 0.0
        for k in range(offsets[q], offsets[q + 1]):
            if labels[k] >= threshold:
                total += weights[k] if len(weights) else 1.0
        out[q] = total


@kernel
def _average_runs(values: Array, tied: Array) -> None:
    """Replace each run of ties by its mean, in place."""
    start, n = 0, len(values)
    while start < n:
        stop, total = start + 1, values[start]
        while stop < n and tied[stop]:
            total += values[stop]
            stop += 1
        if stop - start > 1:
            values[start:stop] = total / (stop - start)
        start = stop


@kernel
def _mean_ratios(
    gains: Array, offsets: Array, ideal: Array, ends: Array, discount: Array, cutoff: int, out: Array
) -> None:
    """Mean over k of DCG@k / ideal DCG@k; NaN where nothing can be gained."""
    for q in range(len(out)):
        top = min(cutoff, offsets[q + 1] - offsets[q])
        reached, best, total = 0.0, 0.0, 0.0
        for rank in range(top):
            reached += gains[offsets[q] + rank] * discount[rank]
            if ends[q] + rank < ends[q + 1]:
                best += ideal[ends[q] + rank] * discount[rank]
            if best > 0:
                total += reached / best
        out[q] = total / top if best > 0 else np.nan
