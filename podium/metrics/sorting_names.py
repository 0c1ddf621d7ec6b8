"""Ties by document id: equal scores in order of falling ids, compared as bytes, where the ids are one array of bytes.

A run with rounded scores has many ties, and a Python string for every id would cost more than everything else.
"""

from __future__ import annotations

import numpy as np

from podium._runtime.compiler import Array, inlined_bare_kernel, kernel, readonly
from podium._runtime.threads import over_queries
from podium.data.texts import TextRows

Names = tuple[Array, Array, Array]  # bytes of all names, where each begins (and the last ends), the name of each row


def sort_named_ties(order: Array, tied: Array, offsets: Array, names: TextRows, n_jobs: int | None = None) -> None:
    """Inside each run of equal scores of `order`: falling name."""
    rows = readonly(np.ascontiguousarray(names.rows))
    columns: Names = (readonly(names.texts.data), readonly(names.texts.offsets), rows)
    tied, offsets = readonly(tied), readonly(offsets)
    over_queries(lambda first, last: _sort_runs(order, tied, offsets, columns, first, last), offsets, n_jobs)


@kernel
def _sort_runs(order: Array, tied: Array, offsets: Array, names: Names, first: int, last: int) -> None:
    """tied: whether a place has the score of the place above; order: rows, best score first."""
    for q in range(first, last):
        start, end = offsets[q], offsets[q + 1]
        while start < end:
            stop = start + 1
            while stop < end and tied[stop]:
                stop += 1
            if stop - start > 1:
                sort_by_name(order[start:stop], names)
            start = stop


@kernel
def sort_by_name(run: Array, names: Names) -> None:
    """Falling names, by merging sorted pieces of 1, 2, 4, ... rows."""
    n, width = len(run), 1
    source, target = run.copy(), np.empty_like(run)
    while width < n:
        for start in range(0, n, 2 * width):
            middle, end = min(start + width, n), min(start + 2 * width, n)
            left, right = start, middle
            for k in range(start, end):
                if right >= end or (left < middle and not _is_above(source[right], source[left], names)):
                    target[k] = source[left]
                    left += 1
                else:
                    target[k] = source[right]
                    right += 1
        source, target = target, source
        width *= 2
    run[:] = source


@inlined_bare_kernel
def _is_above(row: int, other: int, names: Names) -> bool:
    """Whether the name of a row is larger, byte by byte; a longer name is larger than its beginning."""
    data, starts, rows = names
    here, there = starts[rows[row]], starts[rows[other]]
    length, other_length = starts[rows[row] + 1] - here, starts[rows[other] + 1] - there
    for k in range(min(length, other_length)):
        if data[here + k] != data[there + k]:
            return bool(data[here + k] > data[there + k])
    return bool(length > other_length)
