"""The frame of measures: each is a formula on the profile of the ranked lists."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from podium._runtime.compiler import Array
from podium.metrics.base import RelevanceMetric, refuse_averaged_ties, refuse_weights
from podium.metrics.lists import RankedLists
from podium.metrics.measures.profiles import Profile


@dataclass(frozen=True)
class Measure(RelevanceMetric):
    """A measure that depends on where the relevant documents are. A cutoff k leaves the first k documents of a list.

    Members define `of_profile`.
    """

    def values(self, lists: RankedLists) -> Array:
        refuse_averaged_ties(self, lists)
        refuse_weights(self, lists)
        return self.of_profile(Profile.of(lists, self.threshold, self.cutoff))

    def of_profile(self, profile: Profile) -> Array:
        """One number per query."""
        raise NotImplementedError


@dataclass(frozen=True)
class RunMeasure(Measure):
    """A measure of a run and its qrels; the documents of a data file are all judged and all ranked."""

    runs_only: ClassVar[bool] = True
