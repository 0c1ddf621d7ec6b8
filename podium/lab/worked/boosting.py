"""RankBoost: one round on ten pairs, of which the weak ranker orders six, reverses two and ties two."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from podium.lab.worked.example import SURVEY, Example, formula
from podium.learners.rankboost.rankers import WeakRankers
from podium.models.rankboost import RankBoost

_SIGN_OF_R = (
    "The weight of a pair grows with h(x) - h(y), so x is the worse document, but the bound belongs to r = sum of "
    "D (h(y) - h(x)), better minus worse. With r as printed alpha has the wrong sign."
)


def boosting_examples() -> Iterator[Example]:
    what = "RankBoost: 6 of 10 pairs in order, 2 reversed, 2 tied"
    closed = _one_round("closed")
    alpha, z = "ln((6/10) / (2/10)) / 2", "2/10 + 2*sqrt(6/10 * 2/10)"
    yield formula(SURVEY, f"{what}: alpha, closed form", alpha, alpha, closed.alpha[0])
    yield formula(SURVEY, f"{what}: Z", z, z, closed.z[0])
    yield formula(SURVEY, f"{what}: alpha by search", alpha, alpha, _one_round("search").alpha[0])
    printed, correct = "ln((1 - 4/10) / (1 + 4/10)) / 2", "ln((1 + 4/10) / (1 - 4/10)) / 2"
    yield formula(
        SURVEY, f"{what}: alpha by the bound, r = 4/10", printed, correct, _one_round("bound").alpha[0], _SIGN_OF_R
    )


def _one_round(alpha: str) -> WeakRankers:
    """Ten queries with one pair each; the feature is 1 or 0."""
    better, worse = [1] * 6 + [0] * 2 + [0] * 2, [0] * 6 + [1] * 2 + [0] * 2
    X = np.column_stack([better, worse]).reshape(-1, 1).astype(np.float32)
    model = RankBoost(n_estimators=1, alpha=alpha)
    return model.fit(X, np.tile([1, 0], 10), qid=np.repeat(np.arange(10), 2)).rankers_
