"""Measures of the ranks of relevant documents: R-precision and its multiples, interpolated precision, success, binG.

R is the number of relevant documents of a query, retrieved or not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from podium._runtime.compiler import Array, kernel, readonly
from podium._runtime.threads import over_queries
from podium.metrics.lists import RankedLists
from podium.metrics.measures.frame import Measure
from podium.metrics.measures.profiles import Profile, ratio

_ROUND_UP = 0.9  # what trec_eval adds to a share of R before it drops the fraction
_ELEVEN = tuple(level / 10 for level in range(11))


@dataclass(frozen=True)
class RPrecision(Measure):
    """The precision at rank R, where it equals the recall."""

    base_name: ClassVar[str] = "rprec"

    def of_profile(self, profile: Profile) -> Array:
        return ratio(profile.hits_at(profile.relevant), profile.relevant)


@dataclass(frozen=True)
class RPrecisionMultiple(Measure):
    """The precision at a multiple of R: `rprec_mult(0.2)`."""

    base_name: ClassVar[str] = "rprec_mult"
    positional: ClassVar[str] = "multiple"

    multiple: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        _refuse_other_than_positive(self.base_name, "multiple", self.multiple)

    def of_profile(self, profile: Profile) -> Array:
        ranks = _share(self.multiple, profile.relevant)
        return ratio(profile.hits_at(ranks), ranks)


@dataclass(frozen=True)
class InterpolatedPrecision(Measure):
    """The largest precision at any rank whose recall is at least this: `iprec(0.5)`; 0 if there is none."""

    base_name: ClassVar[str] = "iprec"
    positional: ClassVar[str] = "recall"

    recall: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.recall <= 1:
            raise ValueError(f"{self.base_name}: the recall must be between 0 and 1; got {self.recall!r}.")

    def of_profile(self, profile: Profile) -> Array:
        return _interpolated(profile, self.recall)


@dataclass(frozen=True)
class ElevenPointAverage(Measure):
    """The mean of interpolated precision at recall 0, 0.1, ..., 1."""

    base_name: ClassVar[str] = "11pt_avg"

    def of_profile(self, profile: Profile) -> Array:
        total = np.zeros(len(profile.relevant))
        for recall in reversed(_ELEVEN):  # in trec_eval's order, so that sums are rounded alike
            total += _interpolated(profile, recall)
        return total / len(_ELEVEN)


@dataclass(frozen=True)
class RelativePrecision(Measure):
    """P@k divided by the largest possible one, which is that of min(k, R) relevant documents."""

    base_name: ClassVar[str] = "relative_p"

    def values(self, lists: RankedLists) -> Array:
        ranks = lists.lengths if self.cutoff is None else self.cutoff
        profile = Profile.of(lists, self.threshold)
        return ratio(profile.hits_at(ranks), np.minimum(ranks, profile.relevant))


@dataclass(frozen=True)
class Success(Measure):
    """1 if one of the first k documents is relevant, else 0."""

    base_name: ClassVar[str] = "success"

    def values(self, lists: RankedLists) -> Array:
        profile = Profile.of(lists, self.threshold)
        return (profile.hits_at(profile.retrieved if self.cutoff is None else self.cutoff) > 0).astype(np.float64)


@dataclass(frozen=True)
class BinaryG(Measure):
    """trec_eval's binG: the mean over relevant documents of 1 / log2(2 + documents above that are not relevant)."""

    base_name: ClassVar[str] = "bing"

    def of_profile(self, profile: Profile) -> Array:
        out = np.empty(len(profile.relevant))
        logs = readonly(1.0 / np.log2(np.arange(2, 3 + profile.retrieved.max(initial=0), dtype=np.float64)))
        ranks, ends = profile.hits.ranks, profile.hits.ends
        over_queries(lambda first, last: _sum_of_misses(ranks, ends, logs, first, last, out), ends, cheap=True)
        return ratio(out, profile.relevant)


def _share(share: float, relevant: Array) -> Array:
    """A share of R as a whole number of documents."""
    return (share * relevant + _ROUND_UP).astype(np.int64)


def _interpolated(profile: Profile, recall: float) -> Array:
    peaks, ends = profile.peaks, profile.hits.ends
    wanted = _share(recall, profile.relevant)
    places = ends[:-1] + np.maximum(wanted, 1) - 1
    reached = (wanted <= profile.relevant_retrieved) & (profile.relevant_retrieved > 0)
    out = np.zeros(len(wanted))
    out[reached] = peaks[places[reached]]
    return out


def _refuse_other_than_positive(metric: str, name: str, value: float) -> None:
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"{metric}: {name} must be a number above 0; got {value!r}.")


@kernel
def _sum_of_misses(ranks: Array, ends: Array, logs: Array, first: int, last: int, out: Array) -> None:
    """out[q]: the sum over relevant documents of logs[m], m documents above them being not relevant."""
    for q in range(first, last):
        total = 0.0
        for k in range(ends[q], ends[q + 1]):
            total += logs[ranks[k] - (k - ends[q])]
        out[q] = total
