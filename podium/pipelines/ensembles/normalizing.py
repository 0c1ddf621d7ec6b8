"""Scores of different models made comparable: normalized within the query, before they are added up."""

from __future__ import annotations

import numpy as np

from podium.models.frame.transforms import Queries, transform_queries

NORMALIZATIONS = ("zscore", "rank", "minmax")
_FIRST = np.zeros(1, np.int64)


def normalize(scores: np.ndarray, how: str | None, queries: Queries | None, n_jobs: int | None = None) -> np.ndarray:
    """One score per row, float64: as they are, or within the query as z-score, (rank - 0.5) / n or from 0 to 1.

    Where all scores of a query are equal, they become 0 (as ranks 0.5).
    """
    if how is None:
        return scores
    if queries is None:
        raise ValueError(f"scores are normalized within the query ({how}); give one query id per row.")
    out = np.empty((len(scores), 1))
    columns = np.ascontiguousarray(scores, np.float64).reshape(-1, 1)
    transform_queries(how, columns, queries, _FIRST, np.inf, 0, out, n_jobs)
    return out[:, 0]
