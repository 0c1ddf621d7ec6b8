"""Candidates: what `Cascade.fit` tries. Their settings are fixed, so that few queries have little to choose from.

first stage     its order, without a model
z-score sum     zscore(score of the first stage) + zscore(score of linear), within the query
linear          one weight per column (features, their z-scores and ranks within the query), pairwise logistic loss
small trees     100 trees of 4 leaves with random thresholds, lambda gradients of NDCG
blend           zscore(score of linear) + zscore(mean of 5 such forests, each with a seed of its own)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from podium.data.ranking import RankingData
from podium.models.frame.estimator import clone
from podium.models.frame.ranker import Ranker
from podium.models.linear import Linear
from podium.models.trees.named import LambdaMART
from podium.pipelines.ensembles.bagged import Bagged
from podium.pipelines.ensembles.blend import Blend
from podium.search.features.declaring import Features

FIRST_STAGE = "first stage"
SCORE = "first stage score"  # the feature that is added where none of the declared ones is the score
_VIEWS = ("raw", "zscore", "rank")
_FORESTS = 5
_LEAST_ROWS, _MOST_ROWS, _LEAVES = 20, 50, 100  # min_samples_leaf: one in a hundred rows, within limits


@dataclass(frozen=True)
class Candidate:
    """A model to be tried; `train(model, data)` returns it fitted."""

    name: str
    model: Ranker | None  # unfitted; None: the first stage
    train: Callable[[Ranker, RankingData], Ranker] = lambda model, data: model.fit(data)
    least_rows: int = 0  # that a training needs

    @property
    def settings(self) -> str:
        """The model as it would be written in Python, on one line."""
        return "" if self.model is None else " ".join(repr(self.model).split())

    def fit(self, data: RankingData, n_jobs: int | None) -> Ranker:
        assert self.model is not None
        return self.train(clone(self.model).set_params(n_jobs=n_jobs), data)


def make_candidates(data: RankingData, score: int, seed: int) -> list[Candidate]:
    """The first stage, then the others. `score` is the column that has the score of the first stage."""
    trees = _small_trees(data.n_rows, seed)
    rows = 2 * trees.min_samples_leaf
    forests = Bagged(model=trees, n_members=_FORESTS, sample="seeds", random_state=seed)
    return [
        Candidate(FIRST_STAGE, None),
        Candidate("z-score sum", Blend(members=[Linear(max_iter=1), _linear()]), _SumWithColumn(score)),
        Candidate("linear", _linear()),
        Candidate("small trees", trees, least_rows=rows),
        Candidate("blend", Blend(members=[_linear(), forests]), least_rows=rows),
    ]


def with_score(features: Features) -> tuple[Features, int]:
    """The features, of which one is the score of the first stage; and its column."""
    kinds = [feature.kind for feature in features.features]
    if "score" not in kinds:
        features = features.add(SCORE, "score")
        kinds.append("score")
    return features, kinds.index("score")


@dataclass(frozen=True)
class _SumWithColumn:
    """Trains a blend whose first member becomes one column, as it is: a linear function with the weight 1 there."""

    column: int

    def __call__(self, blend: Ranker, data: RankingData) -> Ranker:
        assert isinstance(blend, Blend)
        member = blend.fit(data).members_[0]
        state = member.fitted_state()
        weights = np.zeros(data.n_features)
        weights[self.column] = 1.0
        member.restore_state(replace(state, facts={"intercept": 0.0}, arrays={**state.arrays, "coef": weights}))
        return blend


def _linear() -> Linear:
    return Linear(objective="ranknet", pair_exponent=0.5, transform=_VIEWS)


def _small_trees(n_rows: int, seed: int) -> LambdaMART:
    return LambdaMART(
        n_estimators=100,
        max_leaf_nodes=4,
        min_samples_leaf=int(np.clip(n_rows // _LEAVES, _LEAST_ROWS, _MOST_ROWS)),
        learning_rate=0.1,
        extra_trees=True,
        feature_fraction=0.6,
        metric="ndcg",
        random_state=seed,
    )
