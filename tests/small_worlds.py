"""A small world of queries, and every model made small enough to be trained on it in a moment."""

import numpy as np

import podium
from podium.data.ranking import RankingData
from podium.models.frame.ranker import Ranker
from podium.models.registry import MODELS

SMALL = {
    "n_estimators": 6,
    "min_samples_leaf": 5,
    "max_epochs": 3,
    "n_rounds": 4,
    "n_restarts": 1,
    "hidden_layer_sizes": (4,),
    "embedding_size": 4,
    "max_pairs": 200,
    "samples": 2,
    "n_members": 2,
    "folds": 2,
    "model": podium.LambdaMART(n_estimators=3, min_samples_leaf=5),
    "members": [podium.LambdaMART(n_estimators=3, min_samples_leaf=5), podium.Linear(max_iter=5)],
    "budget": 1e-6,
    "n_jobs": 1,
}


def world(seed: int = 0, n_queries: int = 24) -> RankingData:
    """Ten documents per query; two of five features matter."""
    draws = np.random.default_rng(seed)
    X = draws.standard_normal((n_queries * 10, 5)).astype(np.float32)
    y = np.clip(np.round(X[:, 0] + np.abs(X[:, 1]) + draws.standard_normal(len(X)) / 2), 0, 3)
    return RankingData.from_arrays(X, y, np.repeat(np.arange(n_queries) + 1000 * seed, 10))


def small_model(name: str) -> Ranker:
    kind = MODELS[name]
    known = {parameter: value for parameter, value in SMALL.items() if parameter in kind().get_params(deep=False)}
    if name == "LambdaSMART":
        known["init"] = podium.Linear(max_iter=5)
    return kind(**known)
