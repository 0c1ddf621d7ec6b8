"""Measures whose values are texts: the labels of the first documents, and the name of the run."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import numpy as np

from podium._runtime.compiler import Array
from podium.metrics.lists import UNJUDGED, RankedLists
from podium.metrics.measures.frame import RunMeasure

_LONGEST = 10  # without a cutoff


@dataclass(frozen=True)
class TextMeasure(RunMeasure):
    """A text per query, and no number. Members define `texts`."""

    summary: ClassVar[str] = "text"

    def texts(self, lists: RankedLists, tag: str | None) -> Array:
        raise NotImplementedError


@dataclass(frozen=True)
class RelevanceString(TextMeasure):
    """One character for each of the first ten documents: its label, `>` above 9, `.` for no label, `-` for unjudged."""

    base_name: ClassVar[str] = "relstring"

    def texts(self, lists: RankedLists, tag: str | None) -> Array:
        codes = lists.labels if lists.codes is None else lists.codes
        starts = lists.offsets.tolist()
        top = self.cutoff or _LONGEST
        rows = [codes[start : min(end, start + top)] for start, end in pairwise(starts)]
        return np.array(["".join(map(_character, row.tolist())) for row in rows], dtype=object)


@dataclass(frozen=True)
class RunName(TextMeasure):
    """The name of the run, which is the last column of its file."""

    base_name: ClassVar[str] = "runid"
    reads_labels: ClassVar[bool] = False

    def texts(self, lists: RankedLists, tag: str | None) -> Array:
        return np.array([tag or ""] * lists.n_queries, dtype=object)


def _character(code: float) -> str:
    if code < 0:
        return "-" if code == UNJUDGED else "."
    return ">" if code > 9 else str(int(code))
