"""MQ2008 for benchmarks: its folds, values per query under policy letor4, and LightGBM as the baseline.

MQ2008 is a development set here. LETOR turns its five parts: the validation part of one fold is the test part of
another, so a constant that was chosen over the validation parts of all folds has seen every query that is tested.
Differences between systems under the same rules say more than the values themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import podium
from podium.data.ranking import RankingData
from podium.models.frame.transforms import Transform, queries_of

METRICS = ("map", "meanndcg")
Values = dict[str, np.ndarray]
"""One value per query by metric."""

Predict = Callable[[RankingData], np.ndarray]


def read_fold(folder: Path, fold: int) -> tuple[RankingData, RankingData, RankingData]:
    """Fold 0 trains on S1 to S3, is validated by S4 and tested on S5; the next ones turn by one."""
    parts = [podium.read_letor(folder / f"S{1 + (fold + k) % 5}.txt.xz") for k in range(5)]
    return RankingData.concat(parts[:3]), parts[3], parts[4]


def per_query(scores: np.ndarray, data: RankingData) -> Values:
    found = podium.evaluate(scores, data, metrics=METRICS, policy="letor4")
    return {name: np.asarray(found.per_query[name]) for name in METRICS}


def criterion(scores: np.ndarray, data: RankingData) -> float:
    """MAP + MeanNDCG."""
    found = podium.evaluate(scores, data, metrics=METRICS, policy="letor4")
    return float(sum(found[name] for name in METRICS))


def lightgbm_parameters(objective: str, leaves: int, rate: float, smallest: int, seed: int) -> dict[str, Any]:
    return {
        "objective": objective,
        "metric": "ndcg",
        "eval_at": [10],
        "num_leaves": leaves,
        "learning_rate": rate,
        "min_data_in_leaf": smallest,
        "feature_fraction": 0.8,
        "num_threads": 1,
        "seed": seed,
        "verbose": -1,
    }


def train_stopping(
    train: RankingData, valid: RankingData, parameters: dict[str, Any], trees: int, patience: int
) -> Predict:
    """LightGBM on the columns as they are, stopped early by the validation part."""
    import lightgbm

    rows = lightgbm.Dataset(train.X, train.y, group=train.group)
    held = rows.create_valid(valid.X, valid.y, group=valid.group)
    stop = lightgbm.early_stopping(patience, verbose=False)
    booster = lightgbm.train(parameters, rows, trees, valid_sets=[held], callbacks=[stop])
    return lambda data: np.asarray(booster.predict(data.X))


class XENDCG:
    """LightGBM's rank_xendcg with a number of trees, on the columns of a Podium model with this `transform`."""

    def __init__(self, leaves: int, smallest: int, trees: int, transform: tuple[str, ...], seed: int = 0) -> None:
        self.parameters = lightgbm_parameters("rank_xendcg", leaves, 0.05, smallest, seed)
        self.trees, self.transform = trees, transform

    def fit(self, data: RankingData) -> XENDCG:
        import lightgbm

        self.columns = Transform.fit(self.transform, data, (), 1)
        rows = lightgbm.Dataset(self._columns_of(data), data.y, group=data.group)
        self.booster = lightgbm.train(self.parameters, rows, self.trees)
        return self

    def predict(self, data: RankingData) -> np.ndarray:
        return np.asarray(self.booster.predict(self._columns_of(data)))

    def staged_predict(self, data: RankingData, every: int) -> list[np.ndarray]:
        """Scores after every so many trees."""
        columns = self._columns_of(data)
        stages = range(every, self.trees + 1, every)
        return [np.asarray(self.booster.predict(columns, num_iteration=n)) for n in stages]

    def _columns_of(self, data: RankingData) -> np.ndarray:
        return np.asarray(self.columns.apply(data.X, queries_of(data), 1))
