"""Weights of documents and queries as training sees them: on the common scale of `data/weights.py`."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from podium.data.ranking import RankingData
from podium.data.weights import scaled_weights


def with_scaled_weights(data: RankingData) -> RankingData:
    """The data with scaled weights; the same data where it has none."""
    if data.sample_weight is None and data.query_weight is None:
        return data
    return replace(
        data,
        sample_weight=scaled_weights(data.sample_weight, "sample_weight"),
        query_weight=scaled_weights(data.query_weight, "query_weight"),
    )


def row_weights(data: RankingData) -> np.ndarray | None:
    """(rows,) float64: a document's weight times its query's, or None where all are 1."""
    if data.query_weight is None:
        return data.sample_weight
    of_query = data.query_weight[data.query_numbers]
    return np.asarray(of_query if data.sample_weight is None else data.sample_weight * of_query)
