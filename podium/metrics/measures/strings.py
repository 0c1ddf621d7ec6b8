"""Measures whose values are texts: the labels of the first documents, and the name of the run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from podium._runtime.compiler import Array
from podium.data.query_ids import object_array
from podium.metrics.lists import RankedLists
from podium.metrics.measures.frame import RunMeasure

_LONGEST = 10  # without a cutoff
_LARGEST_DIGIT, _UNJUDGED = 9, ord("-")


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
        top = min(self.cutoff or _LONGEST, lists.longest)
        places = lists.places.down_to(top)
        letters = np.full((lists.n_queries, top), _UNJUDGED, np.uint8)
        letters[np.repeat(np.arange(lists.n_queries), np.diff(places.ends)), places.ranks] = _letters(places.codes)
        letters[np.arange(top) >= lists.lengths[:, None]] = 0  # ends a text
        return object_array(letters.view(f"S{top}")[:, 0].astype(str).tolist())


@dataclass(frozen=True)
class RunName(TextMeasure):
    """The name of the run, which is the last column of its file."""

    base_name: ClassVar[str] = "runid"
    reads_labels: ClassVar[bool] = False

    def texts(self, lists: RankedLists, tag: str | None) -> Array:
        return np.array([tag or ""] * lists.n_queries, dtype=object)


def _letters(codes: Array) -> Array:
    digits = np.where(codes > _LARGEST_DIGIT, ord(">"), ord("0") + codes).astype(np.uint8)
    return np.where(codes < 0, np.uint8(ord(".")), digits)
