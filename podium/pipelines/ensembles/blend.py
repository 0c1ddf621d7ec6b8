"""Blend: a weighted sum of the scores of different models, normalized within the query."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from typing import Any, ClassVar

import numpy as np

from podium.data.ranking import RankingData
from podium.data.sparse import FeatureMatrix
from podium.models.frame.holding_out import ValidationParameter
from podium.models.frame.parameters import Kind, parameter, parametrized
from podium.models.frame.ranker import FittedState
from podium.models.frame.transforms import Queries
from podium.persistence.validation import Fact, is_number
from podium.pipelines.ensembles.ensemble import Ensemble, MembersParameter
from podium.pipelines.ensembles.training import MembersTraining, Task, Trained
from podium.pipelines.ensembles.weighting import coordinate_weights, greedy_weights, weighted_sum


def _read_weights(text: str) -> Any:
    return json.loads(text) if text.lstrip().startswith("[") else text


def _are_weights(value: Any) -> bool:
    if isinstance(value, str):
        return value in WEIGHTS
    try:
        numbers = np.asarray(value, np.float64)
    except (TypeError, ValueError):
        return False
    return numbers.ndim == 1 and len(numbers) > 0 and bool(np.isfinite(numbers).all() and (numbers >= 0).all())


WEIGHTS = ("equal", "greedy", "coordinate")


@parametrized
class Blend(MembersParameter, ValidationParameter, Ensemble):
    """A weighted sum of the scores of different models, normalized within the query.

    Equal weights are hard to beat; others are chosen by exact line search on an evaluation set. Members are trained
    side by side on `n_jobs` threads.
    """

    weights: Any = parameter(
        "equal",
        'Weights of the members: equal; chosen for the metric of evaluation sets on the first one, "greedy" or '
        '"coordinate" by coordinate; or one number per member.',
        kind=Kind("weights", _are_weights, _read_weights),
        words=f"{', '.join(WEIGHTS)}, or numbers such as [2, 1], 0 or larger",
    )

    fitted_attributes: ClassVar[Mapping[str, str]] = {
        "weights_": "Weight of each member; they add up to 1.",
    }
    search_space: ClassVar[Mapping[str, Any]] = {"normalization": ["zscore", "rank", "minmax"]}
    state_facts: ClassVar[Mapping[str, Fact]] = {
        "weights": Fact("finite numbers", lambda value: isinstance(value, list) and all(map(is_number, value)))
    }

    def _tasks(self, data: RankingData, eval_sets: Mapping[str, RankingData], rounds: int | None) -> list[Task]:
        if self.weights in ("greedy", "coordinate") and not eval_sets:
            chosen = f'Blend: weights="{self.weights}" are chosen on an evaluation set'
            raise ValueError(f"{chosen}; got none. Add eval_set=(X, y, qid).")
        return super()._tasks(data, eval_sets, rounds)

    def _train_member(self, number: int, data: RankingData, options: dict[str, Any]) -> Trained:
        return Trained(self._copy(self._unfitted()[number], self._n_members()).fit(data, **options))

    def finish(self, training: MembersTraining) -> None:
        if self.weights in ("greedy", "coordinate"):
            choose = greedy_weights if self.weights == "greedy" else coordinate_weights
            chosen = choose(np.stack(training.scores[0]), training.eval_sets[0], self.evaluation_metric(), self.n_jobs)
        elif isinstance(self.weights, str):
            chosen = np.ones(training.n_steps)
        else:
            chosen = np.asarray(self.weights, np.float64)[: training.n_steps]
        total = chosen.sum()
        self.weights_ = chosen / total if total > 0 else chosen

    def combined(self, scores: np.ndarray, columns: FeatureMatrix, queries: Queries | None) -> np.ndarray:
        return weighted_sum(self.weights_, scores)

    def member_weights(self) -> list[float]:
        return [float(weight) for weight in self.weights_]

    def fitted_state(self) -> FittedState:
        return replace(super().fitted_state(), facts={"weights": self.weights_.tolist()})

    def restore_state(self, state: FittedState) -> None:
        super().restore_state(state)
        self.weights_ = np.array(state.facts["weights"], np.float64)

    def check_state(self) -> None:
        super().check_state()
        if len(self.weights_) != len(self.members_):
            raise ValueError(f"there are {len(self.weights_)} weights for {len(self.members_)} members")

    def check_parameters(self) -> None:
        super().check_parameters()
        if not isinstance(self.weights, str) and len(self.weights) != self._n_members():
            raise ValueError(f"Blend: weights has {len(self.weights)} numbers for {self._n_members()} members.")


def yahoo_blend(n_estimators: int = 300, random_state: int = 0, *, max_epochs: int = 30, nets: bool = True) -> Blend:
    """A blend after the ensemble that won the Yahoo! learning to rank challenge (Burges et al., 2011).

    Eight LambdaMARTs that differ in size, shrinkage and sampling, for NDCG and for ERR; two LambdaRank nets, for NDCG
    and for ERR, and two logistic regressions with different penalties, all four on the features, their z-scores and
    ranks within the query; equal weights. Nets need JAX to be trained; `nets=False` leaves them out.
    """
    from podium.models.linear import Linear
    from podium.models.nets import LambdaRank, require_jax
    from podium.models.trees.named import LambdaMART

    if nets:
        require_jax("yahoo_blend", otherwise="leave the nets out: yahoo_blend(nets=False)")
    metrics, shapes = ("ndcg@10", "err@10"), [(15, 0.1), (31, 0.1), (63, 0.05), (127, 0.05)]
    sampled: dict[str, Any] = {"n_estimators": n_estimators, "feature_fraction": 0.7, "query_fraction": 0.8}
    sampled |= {"min_samples_leaf": 20, "extra_trees": False}  # whatever the number of queries
    trees = [
        LambdaMART(
            metric=metric, max_leaf_nodes=leaves, learning_rate=rate, random_state=random_state + number, **sampled
        )
        for number, (metric, (leaves, rate)) in enumerate(product(metrics, shapes))
    ]
    views: dict[str, Any] = {"transform": ("raw", "zscore", "rank")}
    trained = views | {"dropout": 0.2, "max_epochs": max_epochs, "learning_rate": 2e-3, "schedule": "linear"}
    networks = [
        LambdaRank(metric=metric, hidden_layer_sizes=widths, random_state=random_state + number, **trained)
        for number, metric, widths in zip((len(trees), len(trees) + 1), metrics, ((64,), (128, 64)))
    ]
    logistic: dict[str, Any] = {"objective": "logistic", "impute": "mean", **views}
    regressions = [Linear(l2_regularization=penalty, **logistic) for penalty in (1e-4, 1e-2)]
    return Blend(members=[*trees, *(networks if nets else []), *regressions])
