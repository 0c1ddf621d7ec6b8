"""Joining: what belongs to the rows and queries of several data sets, one after the other.

Parts must be alike, and a query must be in one of them: a model would be trained on half of its documents.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from podium._runtime.compiler import Array
from podium._runtime.words import counted
from podium.data.sparse import FeatureMatrix, is_sparse
from podium.data.texts import Texts

if TYPE_CHECKING:
    from podium.data.ranking import RankingData


def refuse_unlike_parts(parts: Sequence[RankingData], called: Sequence[str]) -> None:
    first, start = parts[0], called[0]
    owner: dict[str, str] = {}
    for name, part in zip(called, parts):
        if part.n_features != first.n_features:
            features = counted(part.n_features, "feature")
            raise ValueError(f"{name} has {features}, {start} has {first.n_features:,}; all must be alike.")
        if (part.y is None) != (first.y is None):
            has, had = ("no labels", "some") if part.y is None else ("labels", "none")
            raise ValueError(f"{name} has {has}, {start} has {had}; all must be alike.")
        if part.feature_names != first.feature_names:
            raise ValueError(f"{name} has other feature names than {start}; all must be alike.")
        for query in map(str, part.query_ids):
            if query in owner:
                raise ValueError(
                    f"query {query!r} is in {owner[query]} and in {name}; a query must be in one part. If these are "
                    "rows of one query, join them first; if they are two queries, give them different ids."
                )
            owner[query] = name


def concat_features(parts: Sequence[FeatureMatrix]) -> FeatureMatrix:
    """One sparse part makes all sparse."""
    if not any(map(is_sparse, parts)):
        return np.concatenate(parts)
    from scipy.sparse import csr_array, vstack

    return vstack([csr_array(part) for part in parts], format="csr")


def concat_texts(texts: Sequence[Texts | None], parts: Sequence[RankingData]) -> Texts | None:
    if all(part is None for part in texts):
        return None
    return Texts.concat([Texts.of([""] * data.n_rows) if part is None else part for part, data in zip(texts, parts)])


def concat_weights(weights: Sequence[Array | None], lengths: Sequence[int]) -> Array | None:
    if all(part is None for part in weights):
        return None
    return np.concatenate([np.ones(n) if part is None else part for part, n in zip(weights, lengths)])


def concat_scores(parts: Sequence[RankingData], called: Sequence[str]) -> Array | None:
    """Scores to start from, of all parts or of none: a row without one does not start from 0."""
    scores = [part.init_score for part in parts if part.init_score is not None]
    if scores and len(scores) < len(parts):
        without = next(name for name, part in zip(called, parts) if part.init_score is None)
        raise ValueError(f"{without} has no init_score, and others have; give one to all or to none.")
    return np.concatenate(scores) if scores else None
