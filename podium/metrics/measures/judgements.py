"""Measures that tell documents that are judged from those that are not: bpref, infAP, Judged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from podium._runtime.compiler import Array, kernel, readonly
from podium._runtime.threads import over_queries
from podium.metrics.measures.frame import Measure, RunMeasure
from podium.metrics.measures.profiles import Profile, ratio

_EPSILON = 0.00001  # trec_eval's, so that a precision of no judged document is 1/2


@dataclass(frozen=True)
class BinaryPreference(Measure):
    """bpref: of the pairs of a relevant document and a judged one that is not, the share that is in order.

    Of the latter the first min(R, N) count, with N of them in the qrels.
    """

    base_name: ClassVar[str] = "bpref"

    def of_profile(self, profile: Profile) -> Array:
        arrays = profile.others_above, readonly(profile.relevant), readonly(profile.nonrelevant)
        ends, out = profile.hits.ends, np.empty(len(profile.relevant))
        over_queries(lambda first, last: _preferences(arrays, ends, first, last, out), ends, cheap=True)
        return ratio(out, profile.relevant)


@dataclass(frozen=True)
class InferredAP(Measure):
    """infAP: average precision estimated from a pool of which a part is judged; the rest has a negative label."""

    base_name: ClassVar[str] = "infap"

    def of_profile(self, profile: Profile) -> Array:
        arrays = profile.hits.ranks, profile.judged_above, profile.others_above
        ends, out = profile.hits.ends, np.empty(len(profile.relevant))
        over_queries(lambda first, last: _inferred_sums(arrays, ends, first, last, out), ends, cheap=True)
        return ratio(out, profile.relevant)


@dataclass(frozen=True)
class Judged(RunMeasure):
    """Judged@k: the share of the first k documents (of all, if there are fewer) that the qrels have."""

    base_name: ClassVar[str] = "judged"
    reads_labels: ClassVar[bool] = False

    def of_profile(self, profile: Profile) -> Array:
        return ratio(np.diff(profile.judged.ends), profile.retrieved)


@dataclass(frozen=True)
class JudgedNonrelevantRetrieved(RunMeasure):
    """How many retrieved documents are judged and not relevant."""

    base_name: ClassVar[str] = "num_nonrel_judged_ret"
    summary: ClassVar[str] = "sum"

    def of_profile(self, profile: Profile) -> Array:
        codes, ends, out = profile.judged.codes, profile.judged.ends, np.empty(len(profile.relevant))
        bounds = 0.0, profile.threshold
        over_queries(lambda first, last: _count_codes(codes, ends, bounds, first, last, out), ends, cheap=True)
        return out


@kernel
def _preferences(arrays: tuple[Array, ...], ends: Array, first: int, last: int, out: Array) -> None:
    """out[q]: the sum over relevant documents of 1 - min(n, R) / min(N, R), n of N judged others being above."""
    others_above, relevant, nonrelevant = arrays
    for q in range(first, last):
        total, least = 0.0, min(nonrelevant[q], relevant[q])
        for k in range(ends[q], ends[q + 1]):
            total += 1.0
            if others_above[k] > 0:
                total -= min(others_above[k], relevant[q]) / least
        out[q] = total


@kernel
def _inferred_sums(arrays: tuple[Array, ...], ends: Array, first: int, last: int, out: Array) -> None:
    """out[q]: the sum over relevant documents of the precision that is expected at their rank."""
    ranks, judged_above, others_above = arrays
    for q in range(first, last):
        total = 0.0
        for k in range(ends[q], ends[q + 1]):
            above, hits, others = ranks[k], k - ends[q], others_above[k]
            precision = (hits + _EPSILON) / (hits + others + 2 * _EPSILON)
            total += 1.0 / (above + 1) + (judged_above[k] / (above + 1) * precision if above else 0.0)
        out[q] = total


@kernel
def _count_codes(codes: Array, ends: Array, bounds: tuple[float, float], first: int, last: int, out: Array) -> None:
    """out[q]: the number of codes of query q from the first bound to below the second."""
    low, high = bounds
    for q in range(first, last):
        count = 0
        for k in range(np.uint64(ends[q]), np.uint64(ends[q + 1])):
            count += (codes[k] >= low) & (codes[k] < high)
        out[q] = count
