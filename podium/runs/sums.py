"""Sums of points, for methods that need no more: all of a query is done while it is in the processor's cache.

Each row of each run is looked up in a hash table of the query's documents and adds its points to the document's sum;
then the sums are sorted, and ids copied, in the order of the fused run.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from podium._runtime.compiler import Array, kernel, readonly
from podium._runtime.threads import map_blocks
from podium.data.query_ids import offsets_of
from podium.data.text_hashing import Ids
from podium.data.texts import Texts
from podium.formats.trec import Run
from podium.metrics.sorting import make_sort_workspace, sort_places
from podium.metrics.sorting_names import sort_by_name
from podium.runs.joining import JoinedRuns, enter_row, make_slots
from podium.runs.methods import BORDA, BORDA_SHARE, MAXIMUM, SUM, USES_RANKS, Method
from podium.runs.points import point, refuse_no_positive_maximum, shift_and_scale

_ROWS_OF_BLOCK = 250_000  # what a block of queries reads and writes stays in a shared cache


def adds_up(method: Method, points: int) -> bool:
    """Whether a document's score is a sum over the runs that have it, so that the others need not be known."""
    return method.combine == SUM and points not in (BORDA, BORDA_SHARE)


def sum_runs(
    joined: JoinedRuns, method: Method, points: int, weights: Array, top: int | None, n_jobs: int | None
) -> Run | None:
    """The fused run, best first; None if a score is not finite."""
    if points == MAXIMUM:
        refuse_no_positive_maximum(joined)
    ranks = np.empty(0, np.int64) if points not in USES_RANKS or joined.is_ranked else joined.ranks
    texts = readonly(joined.ids.data), readonly(joined.ids.offsets)
    rows = readonly(joined.scores), readonly(ranks), readonly(joined.segments)
    numbers = readonly(method.rank_points(joined.longest)), readonly(method.factors(joined.n_runs)), readonly(weights)
    sizes = np.diff(joined.segments, axis=2).sum(axis=(1, 2))
    bounds = _block_bounds(sizes)
    n_bytes = np.diff(joined.ids.offsets[joined.segments], axis=2).sum(axis=(1, 2))
    most = len(joined.scores) if top is None else top

    def work(block: int) -> tuple[Array, ...]:
        first, last = bounds[block]
        n, counts = int(sizes[first:last].sum()), np.empty(last - first, np.int64)
        scores, ends = np.empty(n), np.empty(n + 1, np.int64)
        data = np.empty(int(n_bytes[first:last].sum()), np.uint8)
        length = _sum_block(texts, rows, numbers, (points, most), (first, last), (counts, scores, ends, data))
        return counts, scores[:length], ends[: length + 1], data[: ends[length]]

    blocks = map_blocks(work, len(bounds), n_jobs)
    if not all(np.isfinite(scores).all() for _, scores, _, _ in blocks):
        return None
    return _assembled(joined.query_ids, blocks, n_jobs)


def _block_bounds(sizes: Array) -> list[tuple[int, int]]:
    """Blocks of whole queries with so many rows, or one query."""
    blocks = np.cumsum(sizes) // _ROWS_OF_BLOCK
    starts = np.flatnonzero(np.diff(blocks, prepend=-1))
    return list(pairwise([*starts.tolist(), len(sizes)]))


def _assembled(query_ids: Array, blocks: list[tuple[Array, ...]], n_jobs: int | None) -> Run:
    counts = np.concatenate([np.empty(0, np.int64), *(block[0] for block in blocks)])
    starts, shifts = (offsets_of(np.array([len(block[part]) for block in blocks], np.int64)) for part in (1, 3))
    scores, ends = np.empty(int(starts[-1])), np.zeros(int(starts[-1]) + 1, np.int64)
    data = np.empty(int(shifts[-1]), np.uint8)

    def copy(block: int) -> None:
        _, its_scores, its_ends, its_data = blocks[block]
        start, end = int(starts[block]), int(starts[block + 1])
        scores[start:end] = its_scores
        np.add(its_ends[1:], shifts[block], out=ends[start + 1 : end + 1])
        data[int(shifts[block]) : int(shifts[block + 1])] = its_data

    map_blocks(copy, len(blocks), n_jobs)
    return Run(query_ids, offsets_of(counts), Texts(data, ends), scores)


@kernel
def _sum_block(
    texts: Ids,
    rows: tuple[Array, Array, Array],
    numbers: tuple[Array, Array, Array],
    rules: tuple[int, int],
    queries: tuple[int, int],
    out: tuple[Array, Array, Array, Array],
) -> int:
    """Fill counts per query, and scores and ids of their documents, best first; the number of these."""
    (scores, ranks, segments), (rank_points, factors, weights) = rows, numbers
    (code, top), (first, last), (counts, _, out_ends, _) = rules, queries, out
    longest = 0
    for q in range(first, last):
        n = 0
        for run in range(segments.shape[1]):
            n += segments[q, run, 1] - segments[q, run, 0]
        longest = max(longest, n)
    slots, entered = make_slots(longest), (np.empty(longest, np.int64), np.empty(longest, np.uint64))
    sums, times = np.empty(longest), np.empty(longest, np.int64)
    workspace, filled = make_sort_workspace(longest), 0
    out_ends[0] = 0
    for q in range(first, last):
        count = np.uint64(0)
        for run in range(segments.shape[1]):
            start, end, weight = segments[q, run, 0], segments[q, run, 1], weights[run]
            shift, scale = shift_and_scale(scores[start:end], code)
            for row in range(start, end):
                document = enter_row(slots, texts, entered, count, row)
                if document == count:
                    count += np.uint64(1)
                    sums[document], times[document] = 0.0, 0
                rank = ranks[row] if len(ranks) else row - start
                sums[document] += weight * point(code, scores[row], rank, shift, scale, end - start, rank_points)
                times[document] += 1
        for number in range(count):
            slots[entered[1][number]] = 0
            sums[number] *= factors[np.uint64(times[number])]
        order = sort_places(sums[:count], workspace, False)
        _sort_ties(order, sums, (texts[0], texts[1], entered[0]))
        n = min(len(order), top)
        _write(order[:n], sums, texts, entered[0], filled, out)
        counts[q - first] = n
        filled += n
    return filled


@kernel
def _sort_ties(order: Array, sums: Array, names: tuple[Array, Array, Array]) -> None:
    """Equal sums by falling document id."""
    start = 0
    while start < len(order):
        stop = start + 1
        while stop < len(order) and sums[order[stop]] == sums[order[start]]:
            stop += 1
        if stop - start > 1:
            sort_by_name(order[start:stop], names)
        start = stop


@kernel
def _write(
    order: Array, sums: Array, texts: Ids, first_rows: Array, filled: int, out: tuple[Array, Array, Array, Array]
) -> None:
    (data, ends), (_, out_scores, out_ends, out_data) = texts, out
    here = np.uint64(out_ends[filled])
    for k in range(len(order)):
        document = order[k]
        row = first_rows[document]
        out_scores[filled + k] = sums[document]
        for byte in range(np.uint64(ends[row]), np.uint64(ends[row + 1])):
            out_data[here] = data[byte]
            here += np.uint64(1)
        out_ends[filled + k + 1] = here
