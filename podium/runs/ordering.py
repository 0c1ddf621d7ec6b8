"""The order of a run: falling score, and of equal scores falling document id, compared as bytes as strcmp does.

That is the order of `Run.ranked` and of files that Podium writes, here for all queries at once.
"""

from __future__ import annotations

import numpy as np

from podium._runtime.compiler import Array
from podium.data.texts import TextRows, Texts
from podium.metrics.lists import order_by_score
from podium.metrics.sorting_names import sort_named_ties


def best_first(
    scores: Array, offsets: Array, ids: Texts, rows: Array | None = None, n_jobs: int | None = None
) -> Array:
    """The rows of each query, best first; row i has the id `ids[rows[i]]`, or `ids[i]`."""
    order = order_by_score(scores, offsets, n_jobs)
    ranked = np.asarray(scores, np.float64)[order]
    tied = np.zeros(len(order), np.bool_)
    tied[1:] = ranked[1:] == ranked[:-1]
    sort_named_ties(order, tied, offsets, TextRows(ids, np.arange(len(order)) if rows is None else rows), n_jobs)
    return order
