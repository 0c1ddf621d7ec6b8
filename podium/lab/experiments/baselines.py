"""Baselines: LightGBM and XGBoost as rankers of an experiment, where they are installed.

They are trained tree by tree under Podium's monitor, so that curves, early stopping and tuning use the same metric and
policy for all models of a table. Parameters have the names that these libraries give them.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from importlib.util import find_spec
from typing import Any, ClassVar

import numpy as np

from podium._runtime.threads import usable_threads
from podium.data.ranking import RankingData
from podium.data.sparse import FeatureMatrix
from podium.models.frame.parameters import ABOVE_0, INTEGER, LARGE, NAMES, SeedParameter, parameter, parametrized
from podium.models.frame.plan import TrainingPlan, TrainingRows
from podium.models.frame.ranker import Ranker
from podium.models.frame.transforms import Queries
from podium.models.registry import ModelEntry

BASELINES = {
    entry.name: entry
    for entry in (
        ModelEntry(name, __name__, "trees", "boosted trees", objectives, f"{name}'s trees.")
        for name, objectives in (
            ("LightGBM", "lambdarank, rank_xendcg or regression"),
            ("XGBoost", "rank:ndcg, rank:pairwise or regression"),
        )
    )
}


def _are_ranks(values: Any) -> bool:
    return isinstance(values, (list, tuple)) and all(INTEGER.holds(value) and 1 <= value <= 1000 for value in values)


def is_installed(name: str) -> bool:
    """Whether a baseline, by its lower-case name, can be trained here."""
    return find_spec(name) is not None


class _Trees:
    """A booster that grows one tree per step; scores of evaluation sets are up to date."""

    def __init__(self, booster: Any, update: Any, score: Any) -> None:
        self.booster, self._update, self._score, self.n_steps = booster, update, score, 0
        self.followed: list[np.ndarray] = []
        self._rows: list[np.ndarray] = []
        self.is_done, self.limit = False, 0  # limit: trees to stop at; 0 for none

    def step(self) -> None:
        if self._update(self.booster, self.n_steps):  # no tree could split
            self.is_done = True
            return
        self.n_steps += 1
        self.is_done = self.n_steps == self.limit
        for number, rows in enumerate(self._rows):
            self.followed[number] = self.followed[number] + self._score(
                self.booster, rows, self.n_steps - 1, self.n_steps
            )

    def follow(self, data: RankingData, offset: np.ndarray | float) -> None:
        self._rows.append(np.asarray(data.X))
        self.followed.append(np.zeros(data.n_rows) + offset)

    def snapshot(self) -> int:
        return self.n_steps

    def keep(self, snapshot: int) -> None:
        self.n_steps = snapshot

    def state(self, best: int) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        raise ValueError("models of other libraries have no checkpoints. Leave checkpoint out.")

    def checked_steps(self, arrays: Mapping[str, np.ndarray]) -> int:
        raise ValueError("models of other libraries have no checkpoints.")

    def restore(self, meta: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Any:
        raise ValueError("models of other libraries have no checkpoints.")


@parametrized
class _Baseline(SeedParameter, Ranker):
    """The frame of both."""

    n_estimators: int = parameter(100, "Number of trees.", low=1, high=10**6)
    learning_rate: float = parameter(0.1, "Shrinkage of each tree.", low=ABOVE_0, high=10)

    step_word: ClassVar[str] = "tree"
    steps_parameter: ClassVar[str | None] = "n_estimators"
    allows_sparse: ClassVar[bool] = False

    def training_plan(self) -> TrainingPlan[_Trees]:
        return TrainingPlan(self._make_learner, self._keep, self.n_estimators, needs_pairs=False)

    def _make_learner(self, rows: TrainingRows) -> _Trees:
        raise NotImplementedError

    def _keep(self, learner: _Trees) -> None:
        self.booster_, self.trees_ = learner.booster, learner.n_steps

    def score_columns(self, X: FeatureMatrix, queries: Queries | None) -> np.ndarray:
        return np.asarray(self._partial(self.booster_, np.asarray(X), 0, self.trees_))

    @property
    def feature_importances_(self) -> np.ndarray:
        """The share of each column in the total gain of all splits."""
        gain = self._gain()
        return gain / gain.sum() if gain.sum() > 0 else gain

    def file_size(self) -> int:
        """Bytes of the model as its library writes it."""
        raise NotImplementedError

    def _gain(self) -> np.ndarray:
        raise NotImplementedError

    @staticmethod
    def _partial(booster: Any, X: np.ndarray, first: int, last: int) -> np.ndarray:
        """What trees first, ..., last - 1 add to the scores."""
        raise NotImplementedError

    def _seed(self) -> int:
        return int(self.random_state) % 2**31


@parametrized
class LightGBM(_Baseline):
    """LightGBM's boosted trees; parameters have LightGBM's names."""

    objective: str = parameter(
        "lambdarank", "LightGBM's objective.", choices=("lambdarank", "rank_xendcg", "regression")
    )
    num_leaves: int = parameter(31, "Leaves per tree.", low=2, high=131_072)
    max_depth: int = parameter(-1, "Depth of a tree; -1: no limit.", low=-1, high=10**4)
    min_data_in_leaf: int = parameter(20, "Documents per leaf.", low=0, high=10**9)
    min_sum_hessian_in_leaf: float = parameter(1e-3, "Sum of the hessians per leaf.", low=0, high=LARGE)
    feature_fraction: float = parameter(1.0, "Share of the features per tree.", low=ABOVE_0, high=1)
    bagging_fraction: float = parameter(1.0, "Share of the rows per tree.", low=ABOVE_0, high=1)
    bagging_freq: int = parameter(0, "Trees between two draws of rows; 0: none are drawn.", low=0, high=10**6)
    lambda_l2: float = parameter(0.0, "L2 penalty on leaf values.", low=0, high=LARGE)
    lambdarank_truncation_level: int = parameter(30, "Ranks whose pairs count.", low=1, high=10**6)
    eval_at: tuple[int, ...] = parameter(
        (),
        "Cutoffs of NDCG for early stopping by LightGBM itself, which ends as soon as one of them has not improved. "
        "Without any eval_metric decides, as for all models.",
        kind=NAMES,
        holds=_are_ranks,
        words="a list of integers from 1 to 1,000",
    )

    def training_plan(self) -> TrainingPlan[_Trees]:
        return replace(super().training_plan(), stops_itself=bool(self.eval_at))

    def _make_learner(self, rows: TrainingRows) -> _Trees:
        import lightgbm

        booster = lightgbm.Booster(self._settings() | {"metric": "none"}, _dataset(rows.ungrouped))
        learner = _Trees(booster, lambda made, _: made.update(), self._partial)
        if self.eval_at and rows.early_stopping_rounds:
            learner.limit = self._stop_of_library(rows.ungrouped, rows.eval_sets[0], rows.early_stopping_rounds)
        return learner

    def _stop_of_library(self, data: RankingData, valid: RankingData, rounds: int) -> int:
        """The number of trees that LightGBM itself would keep."""
        import lightgbm

        settings, rows = self._settings() | {"metric": "ndcg", "eval_at": list(self.eval_at)}, _dataset(data)
        stopping = lightgbm.early_stopping(rounds, verbose=False)
        trained = lightgbm.train(
            settings, rows, self.n_estimators, valid_sets=[_dataset(valid, rows)], callbacks=[stopping]
        )
        return int(trained.best_iteration)

    def _settings(self) -> dict[str, Any]:
        parameters = {name: getattr(self, name) for name in _names(LightGBM) if name not in ("n_estimators", "eval_at")}
        if self.objective == "regression":
            del parameters["lambdarank_truncation_level"]
        settings = {"num_threads": usable_threads(self.n_jobs), "seed": self._seed(), "verbose": -1}
        return parameters | settings | {"deterministic": True, "force_row_wise": True}

    @staticmethod
    def _partial(booster: Any, X: np.ndarray, first: int, last: int) -> np.ndarray:
        return np.asarray(
            booster.predict(X, start_iteration=first, num_iteration=last - first, raw_score=True, num_threads=1)
        )

    def _gain(self) -> np.ndarray:
        return np.asarray(self.booster_.feature_importance("gain", iteration=self.trees_), np.float64)

    def file_size(self) -> int:
        return len(self.booster_.model_to_string(num_iteration=self.trees_))


@parametrized
class XGBoost(_Baseline):
    """XGBoost's boosted trees; parameters have XGBoost's names."""

    objective: str = parameter(
        "rank:ndcg", "XGBoost's objective.", choices=("rank:ndcg", "rank:map", "rank:pairwise", "reg:squarederror")
    )
    max_depth: int = parameter(6, "Depth of a tree.", low=1, high=64)
    min_child_weight: float = parameter(1.0, "Sum of the hessians per child.", low=0, high=LARGE)
    subsample: float = parameter(1.0, "Share of the rows per tree.", low=ABOVE_0, high=1)
    colsample_bytree: float = parameter(1.0, "Share of the features per tree.", low=ABOVE_0, high=1)
    reg_lambda: float = parameter(1.0, "L2 penalty on leaf values.", low=0, high=LARGE)

    def _make_learner(self, rows: TrainingRows) -> _Trees:
        import xgboost

        parameters = {name: getattr(self, name) for name in _names(XGBoost) if name != "n_estimators"}
        settings = {"nthread": usable_threads(self.n_jobs), "seed": self._seed(), "verbosity": 0, "base_score": 0.0}
        matrix = xgboost.DMatrix(rows.data.X, rows.data.y)
        matrix.set_group(rows.data.group)
        booster = xgboost.Booster(parameters | settings, [matrix])
        return _Trees(booster, lambda made, step: made.update(matrix, step), self._partial)

    @staticmethod
    def _partial(booster: Any, X: np.ndarray, first: int, last: int) -> np.ndarray:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            scores = booster.inplace_predict(X, iteration_range=(first, last), predict_type="margin")
        return np.asarray(scores, np.float64)

    def _gain(self) -> np.ndarray:
        gains = self.booster_.get_score(importance_type="total_gain")
        return np.array([gains.get(f"f{column}", 0.0) for column in range(self.n_columns)])

    def file_size(self) -> int:
        return len(self.booster_.save_raw("ubj"))


def _dataset(data: RankingData, reference: Any = None) -> Any:
    import lightgbm

    grouped = data.grouped()
    return lightgbm.Dataset(grouped.X, grouped.y, group=grouped.group, reference=reference, params={"verbose": -1})


def _names(kind: type[_Baseline]) -> list[str]:
    """The parameters that a library knows by the same name."""
    return [*kind.__annotations__, *(name for name in _Baseline.__annotations__ if not name.startswith("_"))]
