"""Counts, and measures of the set of retrieved documents: their order does not matter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from podium._runtime.compiler import Array
from podium.metrics.additive import relevant_weight
from podium.metrics.lists import RankedLists
from podium.metrics.measures.frame import RunMeasure
from podium.metrics.measures.judgements import BinaryPreference
from podium.metrics.measures.profiles import Profile, ratio
from podium.metrics.precision import AveragePrecision


@dataclass(frozen=True)
class Count(RunMeasure):
    """A number of documents or queries; the sum over all queries is reported."""

    summary: ClassVar[str] = "sum"


@dataclass(frozen=True)
class Queries(Count):
    """1 per query."""

    base_name: ClassVar[str] = "num_q"
    reads_labels: ClassVar[bool] = False

    def of_profile(self, profile: Profile) -> Array:
        return np.ones(len(profile.relevant))

    def of_missing(self, labels: Array, offsets: Array) -> Array:
        return np.ones(len(offsets) - 1)


@dataclass(frozen=True)
class Retrieved(Count):
    """How many documents are retrieved."""

    base_name: ClassVar[str] = "num_ret"
    reads_labels: ClassVar[bool] = False

    def of_profile(self, profile: Profile) -> Array:
        return profile.retrieved.astype(np.float64)


@dataclass(frozen=True)
class Relevant(Count):
    """How many documents are relevant, retrieved or not."""

    base_name: ClassVar[str] = "num_rel"

    def of_profile(self, profile: Profile) -> Array:
        return profile.relevant.astype(np.float64)

    def of_missing(self, labels: Array, offsets: Array) -> Array:
        return relevant_weight(labels, self.threshold, None, offsets)


@dataclass(frozen=True)
class RelevantRetrieved(Count):
    """How many retrieved documents are relevant."""

    base_name: ClassVar[str] = "num_rel_ret"

    def of_profile(self, profile: Profile) -> Array:
        return profile.relevant_retrieved.astype(np.float64)


@dataclass(frozen=True)
class SetPrecision(RunMeasure):
    """The share of the retrieved documents that is relevant."""

    base_name: ClassVar[str] = "set_p"

    def of_profile(self, profile: Profile) -> Array:
        return ratio(profile.relevant_retrieved, profile.retrieved)


@dataclass(frozen=True)
class SetRelativePrecision(RunMeasure):
    """Set precision divided by the largest one that so many documents can have."""

    base_name: ClassVar[str] = "set_relative_p"

    def of_profile(self, profile: Profile) -> Array:
        return ratio(profile.relevant_retrieved, np.minimum(profile.retrieved, profile.relevant))


@dataclass(frozen=True)
class SetRecall(RunMeasure):
    """The share of the relevant documents that is retrieved."""

    base_name: ClassVar[str] = "set_recall"

    def of_profile(self, profile: Profile) -> Array:
        return ratio(profile.relevant_retrieved, profile.relevant)


@dataclass(frozen=True)
class SetAveragePrecision(RunMeasure):
    """Set precision times set recall."""

    base_name: ClassVar[str] = "set_map"

    def of_profile(self, profile: Profile) -> Array:
        return ratio(profile.relevant_retrieved**2, profile.retrieved * profile.relevant)


@dataclass(frozen=True)
class SetF(RunMeasure):
    """`(beta + 1) P R / (beta P + R)` of set precision P and set recall R: `set_f(2)`."""

    base_name: ClassVar[str] = "set_f"
    positional: ClassVar[str] = "beta"

    beta: float = 1.0

    def of_profile(self, profile: Profile) -> Array:
        precision = ratio(profile.relevant_retrieved, profile.retrieved)
        recall = ratio(profile.relevant_retrieved, profile.relevant)
        return ratio((self.beta + 1.0) * precision * recall, self.beta * precision + recall)


@dataclass(frozen=True)
class Utility(RunMeasure):
    """`a` per relevant document that is retrieved, `b` per other one, `c` per relevant document that is missing."""

    base_name: ClassVar[str] = "utility"

    a: float = 1.0
    b: float = -1.0
    c: float = 0.0

    def of_profile(self, profile: Profile) -> Array:
        hits = profile.relevant_retrieved
        return np.asarray(
            self.a * hits + self.b * (profile.retrieved - hits) + self.c * (profile.relevant - hits), dtype=np.float64
        )


@dataclass(frozen=True)
class GeometricMAP(RunMeasure):
    """AP per query, whose geometric mean is reported; values below 0.00001 count as this."""

    base_name: ClassVar[str] = "gm_map"
    summary: ClassVar[str] = "geometric"

    def values(self, lists: RankedLists) -> Array:
        return AveragePrecision(self.cutoff, relevant=self.relevant, policy=self.policy).values(lists)


@dataclass(frozen=True)
class GeometricPreference(BinaryPreference):
    """bpref per query, whose geometric mean is reported; values below 0.00001 count as this."""

    base_name: ClassVar[str] = "gm_bpref"
    summary: ClassVar[str] = "geometric"
    runs_only: ClassVar[bool] = True
