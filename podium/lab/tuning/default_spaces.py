"""Default spaces: what `podium tune` searches for each model unless a space is given.

Every space holds the defaults of its model, so that these are the first trial. Numbers of trees, rounds and epochs are
not in them: the learning curve decides.
"""

from __future__ import annotations

from typing import Any

from podium.models.frame.ranker import Ranker

Spaces = dict[str, dict[str, Any]]

_TRANSFORMS = [None, ("zscore",), ("raw", "zscore", "rank")]
_LEAVES: dict[str, Any] = {
    "max_leaf_nodes": {"low": 4, "high": 127, "log": True},
    "min_samples_leaf": {"low": 5, "high": 200, "log": True},
    "feature_fraction": {"low": 0.3, "high": 1.0},
}
_BOOSTED: dict[str, Any] = {
    "learning_rate": {"low": 0.02, "high": 0.3, "log": True},
    **_LEAVES,
    "l2_regularization": [0.0, 1.0, 10.0],
    "transform": _TRANSFORMS,
}
_LINEAR: dict[str, Any] = {"l2_regularization": {"low": 1e-4, "high": 1.0, "log": True}, "transform": _TRANSFORMS}
_SVM: dict[str, Any] = {
    "C": {"low": 1e-3, "high": 1e2, "log": True},
    "loss": ["hinge", "squared_hinge"],
    "scaling": ["pairs", "mean_pairs", "mean_queries"],
    "transform": _TRANSFORMS,
}
_TRAINED_NET: dict[str, Any] = {
    "learning_rate": {"low": 3e-4, "high": 1e-2, "log": True},
    "dropout": {"low": 0.0, "high": 0.5},
    "weight_decay": [0.0, 1e-3, 1e-2, 3e-2],
    "transform": _TRANSFORMS,
}
_NET: dict[str, Any] = {**_TRAINED_NET, "hidden_layer_sizes": [(32,), (64,), (128,), (64, 32)]}
_PAIRS: dict[str, Any] = {"pair_exponent": [0.0, 0.5, 1.0]}

DEFAULT_SPACES: Spaces = {
    "RegressionTree": {
        "max_leaf_nodes": {"low": 4, "high": 127, "log": True},
        "min_samples_leaf": {"low": 5, "high": 200, "log": True},
        "transform": _TRANSFORMS,
    },
    "MART": _BOOSTED,
    "LambdaMART": {**_BOOSTED, "normalize": [None, "lightgbm"]},
    "LambdaSMART": {**_BOOSTED, "normalize": [None, "lightgbm"]},
    "MatrixNet": {
        "learning_rate": {"low": 0.02, "high": 0.3, "log": True},
        "max_depth": {"low": 2, "high": 8},
        "feature_fraction": {"low": 0.3, "high": 1.0},
        "l2_regularization": [0.0, 1.0, 10.0],
        "transform": _TRANSFORMS,
    },
    "RandomForest": {**_LEAVES, "max_leaf_nodes": {"low": 16, "high": 512, "log": True}, "transform": _TRANSFORMS},
    "Boosted": {**_BOOSTED, "objective": ["lambda", "xendcg", "ranknet"]},
    "Linear": {**_LINEAR, **_PAIRS},
    "BayesRank": _LINEAR,
    "Pointwise": {"estimator": ["ridge", "logistic_regression", "linear_svr"], "transform": _TRANSFORMS},
    "Pairwise": {"classifier": ["logistic_regression", "linear_svc"], "transform": _TRANSFORMS},
    "RankSVM": _SVM,
    "KernelRankSVM": {**_SVM, "gamma": [None, 1e-3, 1e-2, 1e-1, 1.0]},
    "AdaRank": {"metric": ["ndcg@10", "map"], "signs": ["positive", "both"], "transform": _TRANSFORMS},
    "CoordinateAscent": {"metric": ["ndcg@10", "map"], "transform": _TRANSFORMS},
    "RankBoost": {
        "weak_ranker": ["threshold", "value"],
        "selection": ["r", "z"],
        "preference": ["equal", "difference"],
        "transform": _TRANSFORMS,
    },
    "Bagged": {"n_members": [5, 10, 20], "normalization": ["zscore", "rank", None]},
    "Blend": {"normalization": ["zscore", "rank", "minmax"]},
    "Stack": {"folds": [3, 5, 10], "passthrough": [False, True], "normalization": ["zscore", "rank", None]},
    "Net": {**_NET, "objective": ["ranknet", "lambda", "xendcg"]},
    "RankNet": {**_NET, **_PAIRS},
    "LambdaRank": _NET,
    "ListNet": _NET,
    "ListMLE": _NET,
    "XENDCG": _NET,
    "ApproxNDCG": {**_NET, "steepness": [3.0, 10.0, 30.0]},
    "SelfAttentionRanker": {**_TRAINED_NET, "embedding_size": [16, 32, 64], "n_layers": [1, 2]},
}


def default_space(model: Ranker) -> dict[str, Any]:
    """The space of a model, or an error that asks for one."""
    name = type(model).__name__
    if name not in DEFAULT_SPACES:
        raise ValueError(f'{name} has no default space; give one, such as {{"parameter": [1, 2]}}.')
    return DEFAULT_SPACES[name]
