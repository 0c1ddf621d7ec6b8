"""Measures that tell documents that are judged from those that are not: bpref, infAP, Judged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from podium._runtime.compiler import Array, kernel, readonly
from podium._runtime.threads import over_queries
from podium.metrics.lists import UNJUDGED, UNLABELLED
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
        arrays = profile.codes, readonly(profile.offsets), profile.hits, profile.relevant, profile.nonrelevant
        out = np.empty(len(profile.relevant))
        over_queries(lambda first, last: _preferences(arrays, first, last, out), profile.offsets)
        return ratio(out, profile.relevant)


@dataclass(frozen=True)
class InferredAP(Measure):
    """infAP: average precision estimated from a pool of which a part is judged; the rest has a negative label."""

    base_name: ClassVar[str] = "infap"

    def of_profile(self, profile: Profile) -> Array:
        arrays = profile.codes, readonly(profile.offsets), profile.hits
        out = np.empty(len(profile.relevant))
        over_queries(lambda first, last: _inferred_sums(arrays, first, last, out), profile.offsets)
        return ratio(out, profile.relevant)


@dataclass(frozen=True)
class Judged(RunMeasure):
    """Judged@k: the share of the first k documents (of all, if there are fewer) that the qrels have."""

    base_name: ClassVar[str] = "judged"
    reads_labels: ClassVar[bool] = False

    def of_profile(self, profile: Profile) -> Array:
        return ratio(profile.retrieved - _count(profile, UNJUDGED, UNJUDGED), profile.retrieved)


@dataclass(frozen=True)
class JudgedNonrelevantRetrieved(RunMeasure):
    """How many retrieved documents are judged and not relevant."""

    base_name: ClassVar[str] = "num_nonrel_judged_ret"
    summary: ClassVar[str] = "sum"

    def of_profile(self, profile: Profile) -> Array:
        return _count(profile, 0.0, np.nextafter(profile.threshold, -np.inf))


def _count(profile: Profile, low: float, high: float) -> Array:
    """How many documents of each query have a code from low to high."""
    offsets, out = readonly(profile.offsets), np.empty(len(profile.relevant))
    over_queries(lambda first, last: _count_codes(profile.codes, offsets, (low, high), first, last, out), offsets)
    return out


@kernel
def _preferences(arrays: tuple[Array, ...], first: int, last: int, out: Array) -> None:
    """out[q]: the sum over relevant documents of 1 - min(n, R) / min(N, R), n of N judged others being above."""
    codes, offsets, hits, relevant, nonrelevant = arrays
    for q in range(first, last):
        total, others, before = 0.0, 0, 0
        for k in range(offsets[q], offsets[q + 1]):
            if hits[k] > before:
                total += 1.0
                if others > 0:
                    total -= min(others, relevant[q]) / min(nonrelevant[q], relevant[q])
            elif codes[k] >= 0:
                others += 1
            before = hits[k]
        out[q] = total


@kernel
def _inferred_sums(arrays: tuple[Array, ...], first: int, last: int, out: Array) -> None:
    """out[q]: the sum over relevant documents of the precision that is expected at their rank."""
    codes, offsets, hits = arrays
    for q in range(first, last):
        total, others, unlabelled, before = 0.0, 0, 0, 0
        for k in range(offsets[q], offsets[q + 1]):
            above = k - offsets[q]
            if hits[k] > before:
                pooled = before + others + unlabelled
                precision = (before + _EPSILON) / (before + others + 2 * _EPSILON)
                total += 1.0 / (above + 1) + (pooled / (above + 1) * precision if above else 0.0)
            elif codes[k] >= 0:
                others += 1
            elif codes[k] == UNLABELLED:
                unlabelled += 1
            before = hits[k]
        out[q] = total


@kernel
def _count_codes(codes: Array, offsets: Array, bounds: tuple[float, float], first: int, last: int, out: Array) -> None:
    """out[q]: the number of codes of query q within the bounds."""
    low, high = bounds
    for q in range(first, last):
        count = 0
        for k in range(offsets[q], offsets[q + 1]):
            count += low <= codes[k] <= high
        out[q] = count
