"""RankedLists: the labels of many queries, each in the order its scores give.

All that a metric needs: the ranking that the scores give, and which neighbours had the same score.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from podium._runtime.compiler import Array, kernel, readonly
from podium._runtime.once import once
from podium._runtime.threads import over_queries
from podium.data.texts import TextRows
from podium.metrics.policies import Ties
from podium.metrics.sorting import LONG_LIST, SortWorkspace, falling_keys, pack, sort_places, sort_short, unpack
from podium.metrics.sorting import make_sort_workspace as _workspace
from podium.metrics.sorting_names import sort_named_ties

if TYPE_CHECKING:
    from podium.formats.subtopics import SubtopicQrels

UNJUDGED, UNLABELLED = -1.0, -2.0  # not in the qrels; in them with a negative label: pooled, but not judged
Scored = tuple[Array, Array, Array]  # scores, labels (or none), offsets
Ranked = tuple[Array, Array, Array]  # to be filled: labels in ranked order (or none), ties, rows (or none)


@dataclass(frozen=True, eq=False)
class RankedLists:
    """Labels in ranked order. Query q owns places `offsets[q]:offsets[q + 1]`."""

    labels: Array  # (n,) float64
    offsets: Array  # (queries + 1,) int64
    tied: Array | None = None  # (n,) bool: the same score as the place above (False at the top of a list)
    weights: Array | None = None  # (n,) float64: a weight per document
    judged: Array | None = None  # labels of all judged documents, when lists do not hold them all
    judged_offsets: Array | None = None
    average_ties: bool = False
    codes: Array | None = None  # of a run: ranked labels, or UNJUDGED or UNLABELLED, which are 0 in `labels`
    subtopics: SubtopicQrels | None = None  # then labels, codes and judged are numbers of documents in these qrels

    @classmethod
    def one(cls, ranked_labels: Array, judged: Array | None = None) -> RankedLists:
        """A single list."""
        labels = np.ascontiguousarray(ranked_labels, dtype=np.float64)
        ends = None if judged is None else np.array([0, len(judged)])
        all_labels = None if judged is None else np.ascontiguousarray(judged, dtype=np.float64)
        return cls(labels, np.array([0, len(labels)]), judged=all_labels, judged_offsets=ends)

    @property
    def n_queries(self) -> int:
        return len(self.offsets) - 1

    @once
    def lengths(self) -> Array:
        return np.diff(self.offsets)

    @property
    def longest(self) -> int:
        return int(self.lengths.max(initial=0))

    @once
    def largest_label(self) -> float:
        largest = self.labels.max(initial=0.0)
        return float(largest if self.judged is None else max(largest, self.judged.max(initial=0.0)))

    @once
    def memo(self) -> dict[Any, Any]:
        """What metrics compute from these lists and share."""
        return {}

    @once
    def _ideals(self) -> dict[int | None, tuple[Array, Array]]:
        return {}

    def ideal(self, cutoff: int | None = None) -> tuple[Array, Array]:
        """The judged labels of each query, best first, down to the cutoff, and their offsets."""
        if cutoff not in self._ideals:
            self._ideals[cutoff] = sort_descending(*self.all_judged, cutoff)
        return self._ideals[cutoff]

    def top(self, cutoff: int | None = None) -> tuple[Array, Array]:
        """The labels of the first `cutoff` places of each query, and their offsets."""
        if (cutoff is None) or cutoff >= self.longest:
            return self.labels, self.offsets
        if ("top", cutoff) not in self.memo:
            self.memo["top", cutoff] = heads(self.labels, self.offsets, cutoff)
        labels, offsets = self.memo["top", cutoff]
        return labels, offsets

    @property
    def all_judged(self) -> tuple[Array, Array]:
        if self.judged is None or self.judged_offsets is None:
            return self.labels, self.offsets
        return self.judged, self.judged_offsets

    def query(self, q: int) -> Array:
        labels: Array = self.labels[self.offsets[q] : self.offsets[q + 1]]
        return labels


def rank_lists(
    scores: Array,
    labels: Array,
    offsets: Array,
    *,
    ties: Ties = "input",
    docids: Any = None,
    weights: Array | None = None,
    judged: tuple[Array, Array] | None = None,
    single: bool = False,
    n_jobs: int | None = None,
) -> RankedLists:
    """Sort each query by descending score; tied scores according to `ties`. `single` compares scores as float32.

    With `judged`, the labels of all judged documents, `labels` are codes: negative ones have no label.
    """
    scores = np.ascontiguousarray(scores, dtype=np.float64)
    ranked, tied = np.empty(len(labels)), np.empty(len(labels), dtype=np.bool_)
    if weights is None:
        turn = {"worst": 1, "best": -1}.get(ties, 0)
        if _are_ranked(readonly(scores), readonly(offsets), single, tied) and not (turn and tied.any()):
            ranked[:] = labels  # the file of a run is, and then sorting would be most of the work
        else:
            _rank_queries((scores, labels, offsets), turn, single, (ranked, tied, np.empty(0, np.int64)), n_jobs)
        if ties == "docid" and docids is not None and tied.any():
            _mend_by_name(scores, labels, offsets, single, docids, ranked, tied)
    else:
        order = np.empty(len(labels), dtype=np.int64)
        _rank_queries((scores, labels, offsets), 0, single, (ranked, tied, order), n_jobs)
        if ties in ("worst", "best"):
            _reorder_ties(order, tied, offsets, -labels if ties == "worst" else labels)
        elif ties == "docid" and docids is not None:
            _reorder_ties(order, tied, offsets, name_keys(order, tied, docids))
        ranked, weights = labels[order], weights[order]
    average = ties == "average"
    if judged is None:
        return RankedLists(ranked, offsets, tied, weights, average_ties=average)
    return RankedLists(np.maximum(ranked, 0.0), offsets, tied, weights, *judged, average_ties=average, codes=ranked)


def as_scores(scores: Any, n: int) -> Array:
    try:
        array = np.ascontiguousarray(scores, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"scores must hold one number per row; {error}.") from error
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.shape != (n,):
        raise ValueError(f"scores has shape {array.shape}, the labels have {n} rows; expected one score per row.")
    if np.isnan(array.min(initial=0.0)):
        row = int(np.flatnonzero(np.isnan(array))[0])
        raise ValueError(f"scores[{row}] is NaN; a ranking needs scores that can be compared.")
    return array


def order_by_score(scores: Array, offsets: Array, n_jobs: int | None = None) -> Array:
    """The rows of each query by falling score; equal scores keep the order of the input."""
    scores = np.ascontiguousarray(scores, dtype=np.float64)
    order, tied = np.empty(len(scores), dtype=np.int64), np.empty(len(scores), dtype=np.bool_)
    _rank_queries((scores, np.empty(0), offsets), 0, False, (np.empty(0), tied, order), n_jobs)
    return order


def _rank_queries(lists: Scored, turn: int, single: bool, out: Ranked, n_jobs: int | None) -> None:
    scores, labels, offsets = map(readonly, lists)

    def work(first: int, last: int) -> None:
        words = np.empty(int(offsets[last] - offsets[first]), dtype=np.uint64)
        shifts = np.empty(last - first, dtype=np.uint64)
        _pack_block(scores, offsets, first, last, single, words, shifts)
        _sort_long_lists(words, offsets[first : last + 1] - offsets[first])
        _rank_block((scores, labels, offsets), first, last, turn, single, words, shifts, out)

    over_queries(work, offsets, n_jobs)


def _sort_long_lists(words: Array, ends: Array) -> None:
    lengths = np.diff(ends)
    if len(lengths) and lengths[0] >= LONG_LIST and (lengths == lengths[0]).all():
        words.reshape(len(lengths), -1).sort(axis=1)
        return
    for q in np.flatnonzero(lengths >= LONG_LIST):
        words[ends[q] : ends[q + 1]].sort()


def _mend_by_name(
    scores: Array, labels: Array, offsets: Array, single: bool, docids: Any, ranked: Array, tied: Array
) -> None:
    """Put equal scores in order of falling document id; other queries are skipped."""
    queries = np.unique(np.searchsorted(offsets, np.flatnonzero(tied), side="right") - 1)
    lengths = np.diff(offsets)[queries]
    ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    rows = np.repeat(offsets[queries] - ends[:-1], lengths) + np.arange(ends[-1])
    order, ties = np.empty(len(rows), dtype=np.int64), np.empty(len(rows), dtype=np.bool_)
    _rank_queries((scores[rows], np.empty(0), ends), 0, single, (np.empty(0), ties, order), 1)
    if isinstance(docids, TextRows):
        sort_named_ties(order, ties, ends, docids.take(rows))
    else:
        names = docids if isinstance(docids, np.ndarray) else np.asarray(docids, dtype=object)
        _reorder_ties(order, ties, ends, name_keys(order, ties, names[rows]))
    ranked[rows] = labels[rows[order]]


def heads(values: Array, offsets: Array, cutoff: int | None) -> tuple[Array, Array]:
    """The first `cutoff` values of each query, and their offsets: a short list costs little, however long the rest."""
    lengths = np.diff(offsets)
    if cutoff is None or lengths.max(initial=0) <= cutoff:
        return values, offsets
    ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.minimum(lengths, cutoff))])
    places = np.repeat(offsets[:-1] - ends[:-1], np.diff(ends)) + np.arange(ends[-1])
    return values[places], ends


def sort_descending(values: Array, offsets: Array, cutoff: int | None = None) -> tuple[Array, Array]:
    """Each query's values, largest first, down to the cutoff, and their offsets."""
    lengths = np.diff(offsets)
    ends = np.concatenate(
        [np.zeros(1, np.int64), np.cumsum(lengths if cutoff is None else np.minimum(lengths, cutoff))]
    )
    result = np.empty(int(ends[-1]), dtype=np.float64)
    values = readonly(np.ascontiguousarray(values, dtype=np.float64))
    offsets, ends = readonly(offsets), readonly(ends)

    def work(first: int, last: int) -> None:
        if not _count_block(values, offsets, ends, first, last, result):
            _sort_block(values, offsets, ends, first, last, result)

    over_queries(work, offsets)
    return result, ends


def _reorder_ties(order: Array, tied: Array, offsets: Array, keys: Array) -> None:
    over_queries(lambda first, last: _sort_ties(order, tied, readonly(offsets), readonly(keys), first, last), offsets)


def name_keys(order: Array, tied: Array, docids: Array) -> Array:
    """One key per row, larger for larger names, compared as bytes; filled for tied rows only."""
    in_tie = tied.copy()
    in_tie[:-1] |= tied[1:]
    rows = order[in_tie]
    names = np.array([str(docids[row]).encode("utf-8", "surrogateescape") for row in rows], dtype=object)
    keys = np.zeros(len(order), dtype=np.float64)
    keys[rows] = np.unique(names, return_inverse=True)[1]
    return keys


@kernel
def _are_ranked(scores: Array, offsets: Array, single: bool, tied: Array) -> bool:
    """Whether no score of a query is above the one before it; `tied` is filled down to the first that is."""
    for q in range(len(offsets) - 1):
        last = np.inf
        for k in range(offsets[q], offsets[q + 1]):
            score = np.float64(np.float32(scores[k])) if single else scores[k]
            if score > last:
                return False
            tied[k] = score == last and k > offsets[q]
            last = score
    return True


@kernel
def _pack_block(
    scores: Array, offsets: Array, first: int, last: int, single: bool, words: Array, shifts: Array
) -> None:
    """Turn the scores of queries first..last into words to sort; short lists are sorted here."""
    workspace = _workspace(_longest(offsets, first, last))
    for q in range(first, last):
        start, n = offsets[q], offsets[q + 1] - offsets[q]
        query_words = words[start - offsets[first] : start - offsets[first] + n]
        shifts[q - first] = pack(scores[start : start + n], single, workspace[0], query_words)
        if n < LONG_LIST:
            sort_short(query_words, workspace)


@kernel
def _rank_block(
    lists: Scored, first: int, last: int, turn: int, single: bool, words: Array, shifts: Array, out: Ranked
) -> None:
    """Read the order of queries first..last off their sorted words.

    Writes `tied`, and, unless they are empty arrays, `ranked` (labels) and `order` (rows). `turn` 1 puts the lower
    label first among equal scores, -1 the higher, 0 keeps the order of the input.
    """
    (scores, labels, offsets), (ranked, tied, order) = lists, out
    workspace = _workspace(_longest(offsets, first, last))
    keys, places = workspace[0], workspace[4]
    for q in range(first, last):
        start, n = offsets[q], offsets[q + 1] - offsets[q]
        list_tied, at = tied[start : start + n], start - offsets[first]
        falling_keys(scores[start : start + n], single, keys)
        unpack(keys, words[at : at + n], shifts[q - first], workspace)
        if n == 0:
            continue
        last_key = ~keys[places[0]]
        for k in range(n):
            key = keys[places[k]]
            list_tied[k] = key == last_key
            last_key = key
        if len(order):
            for k in range(n):
                order[start + k] = start + places[k]
        if len(ranked):
            list_ranked = ranked[start : start + n]
            for k in range(n):
                list_ranked[k] = labels[start + places[k]]
            if turn:
                _turn_ties(list_ranked, list_tied, turn, workspace)


@kernel
def _turn_ties(ranked: Array, tied: Array, turn: int, workspace: SortWorkspace) -> None:
    """Inside each run of equal scores: rising labels (turn 1) or falling ones (turn -1)."""
    start, n = 0, len(ranked)
    while start < n:
        stop = _end_of_run(tied, start)
        if stop - start > 1:
            run = ranked[start:stop].copy()
            places = sort_places(run, workspace, False)
            for k in range(len(run)):
                ranked[start + k] = run[places[len(run) - 1 - k if turn > 0 else k]]
        start = stop


@kernel
def _sort_ties(order: Array, tied: Array, offsets: Array, keys: Array, first: int, last: int) -> None:
    """Inside each run of equal scores: falling key, then input order."""
    workspace = _workspace(_longest(offsets, first, last))
    for q in range(first, last):
        start, end = 0, offsets[q + 1] - offsets[q]
        list_order, list_tied = order[offsets[q] : offsets[q + 1]], tied[offsets[q] : offsets[q + 1]]
        while start < end:
            stop = _end_of_run(list_tied, start)
            if stop - start > 1:
                run = list_order[start:stop].copy()
                places = sort_places(keys[run], workspace, False)
                for k in range(len(run)):
                    list_order[start + k] = run[places[k]]
            start = stop


@kernel
def _sort_block(values: Array, offsets: Array, ends: Array, first: int, last: int, out: Array) -> None:
    """Sort queries first..last, largest value first, as scores are."""
    workspace = _workspace(_longest(offsets, first, last))
    for q in range(first, last):
        query_values, query_out = values[offsets[q] : offsets[q + 1]], out[ends[q] : ends[q + 1]]
        places = sort_places(query_values, workspace, False)
        for k in range(len(query_out)):
            query_out[k] = query_values[places[k]]


@kernel
def _count_block(values: Array, offsets: Array, ends: Array, first: int, last: int, out: Array) -> bool:
    """The same for grades, by counting them; False at the first query with other numbers."""
    counts = np.zeros(256, np.int64)
    for q in range(first, last):
        if not _count_grades(values[offsets[q] : offsets[q + 1]], counts, out[ends[q] : ends[q + 1]]):
            return False
    return True


@kernel
def _count_grades(values: Array, counts: Array, out: Array) -> bool:
    """The largest of some integers from 0 to 255, sorted; False, with nothing done, if there is any other."""
    grades = True
    for k in range(len(values)):
        grade = np.uint8(min(max(values[k], 0.0), 255.0))
        grades &= np.float64(grade) == values[k]
        counts[grade] += 1
    if not grades:
        for value in range(256):
            counts[value] = 0
        return False
    position = 0
    for value in range(255, -1, -1):
        for _ in range(min(counts[value], len(out) - position)):
            out[position] = value
            position += 1
        counts[value] = 0
    return True


@kernel
def _longest(offsets: Array, first: int, last: int) -> int:
    longest = 0
    for q in range(first, last):
        longest = max(longest, offsets[q + 1] - offsets[q])
    return longest


@kernel
def _end_of_run(tied: Array, start: int) -> int:
    stop = start + 1
    while stop < len(tied) and tied[stop]:
        stop += 1
    return stop
