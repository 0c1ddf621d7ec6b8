"""RankBoost as a model: its parameters, its file, and what it prints about itself."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from podium.data.sparse import FeatureMatrix
from podium.learners.rankboost.rankers import RANKER_ARRAYS, WeakRanker, WeakRankers
from podium.models.frame.holding_out import ValidationParameter
from podium.models.frame.inspection import ModelInspection, about_model
from podium.models.frame.parameters import ABOVE_0, TRANSFORM_SPACE, BinParameter, parameter, parametrized, rules_for
from podium.models.frame.plan import TrainingPlan, TrainingRows
from podium.models.frame.ranker import FittedState, Ranker
from podium.models.frame.transforms import Queries
from podium.objectives.base import bind_labels

if TYPE_CHECKING:
    from podium.data.given_pairs import GivenPairs
    from podium.learners.rankboost.boosting import RankBoosting, RankBoostRules

RANKERS = ("threshold", "value")
SELECTIONS = ("r", "z")
ALPHAS = ("search", "closed", "bound")
PREFERENCES = ("equal", "difference")
_SHOWN = 10


@parametrized
class RankBoost(BinParameter, ValidationParameter, Ranker):
    """A weighted sum of weak rankers, each a function of one feature, boosted on pairs of documents.

    `rankers_` has the weak rankers with `alpha` and `z` of each round; `bound_`, the product of all Z, bounds the share
    of training pairs that are not in order: by weight, where pairs are given.
    """

    n_estimators: int = parameter(100, "Number of rounds, one weak ranker each.", low=1, high=10**6)
    weak_ranker: str = parameter(
        "threshold",
        'Weak rankers: "threshold" is 1 where a feature is above a bin edge, else 0; "value" is a feature, scaled to '
        "[0, 1] by its least and largest value. Where the feature is missing, the better of 0 and 1.",
        choices=RANKERS,
    )
    selection: str = parameter(
        "r",
        'What the weak ranker of a round is chosen by: the largest size of r or the least Z. "z" costs more: times '
        "the grades per query for thresholds, times the steps of a search for values.",
        choices=SELECTIONS,
    )
    alpha: str = parameter(
        "search",
        'The weight of a weak ranker: the minimum of Z by numeric "search" or in "closed" form (thresholds only), or '
        'the minimum of a "bound" of Z.',
        choices=ALPHAS,
    )
    max_alpha: float = parameter(
        5.0, "Maximum absolute weight of a weak ranker, where it reverses no pair or nearly none.", low=ABOVE_0, high=50
    )
    preference: str = parameter(
        "equal",
        'Weight of a pair at the start: "equal", or the "difference" of its labels; times the weights of its two '
        "documents and of its query.",
        choices=PREFERENCES,
    )

    fitted_attributes: ClassVar[Mapping[str, str]] = {
        "rankers_": "The weak rankers in the order of the rounds, as arrays: feature, interval, default, alpha and Z.",
        "bound_": "Product of all Z: at most this share of the training pairs is out of order, ties included.",
        "feature_importances_": "Share of each feature in the sum of |alpha|, one per column.",
    }
    step_word: ClassVar[str] = "round"
    steps_parameter: ClassVar[str | None] = "n_estimators"
    search_space: ClassVar[Mapping[str, Any]] = {
        "weak_ranker": list(RANKERS),
        "selection": list(SELECTIONS),
        "preference": list(PREFERENCES),
        **TRANSFORM_SPACE,
    }
    allows_sparse: ClassVar[bool] = False
    state_arrays: ClassVar[tuple[str, ...]] = RANKER_ARRAYS

    def training_plan(self) -> TrainingPlan[RankBoosting]:
        return TrainingPlan(self._make_learner, self._keep, self.n_estimators, takes_pairs=True)

    def _make_learner(self, rows: TrainingRows) -> RankBoosting:
        from podium.learners.rankboost.boosting import RankBoosting, RankBoostRules  # scoring needs none of it

        data, rules = rows.data, rules_for(RankBoostRules, self, largest_alpha=float(self.max_alpha))
        if rows.pairs is not None:
            return self._boost_given(rows, rows.pairs, rules)
        bound = bind_labels(data.y, data.offsets, data.sample_weight, data.query_weight)
        weights = bound.weights if len(bound.weights) else np.ones(data.n_rows)
        return RankBoosting.of_labels(data.X, bound.labels, bound.offsets, weights, bound.query_weights, rules)

    def _boost_given(self, rows: TrainingRows, pairs: GivenPairs, rules: RankBoostRules) -> RankBoosting:
        from podium.learners.rankboost.boosting import RankBoosting

        if self.preference == "difference":
            problem = 'preference="difference" is that of labels, and given pairs have none'
            raise ValueError(f'RankBoost: {problem}. Use preference="equal" and pairs=(i, j, p, weight).')
        data = rows.data
        pairs.weighted(data.sample_weight, data.query_weight)  # refuses pairs that all have the weight 0
        weights = np.ones(data.n_rows) if data.sample_weight is None else data.sample_weight
        query_weights = np.ones(data.n_queries) if data.query_weight is None else data.query_weight
        return RankBoosting.of_given(data.X, pairs.directed(), data.offsets, weights, query_weights, rules)

    def _keep(self, learner: RankBoosting) -> None:
        self.rankers_ = learner.rankers

    @property
    def bound_(self) -> float:
        """The product of all Z: no larger a share of the training pairs is out of order, ties included."""
        return math.exp(self.rankers_.log_bound)

    @property
    def feature_importances_(self) -> np.ndarray:
        """The share of each feature in the sum of |alpha|."""
        sizes = np.bincount(self.rankers_.feature, np.abs(self.rankers_.alpha), minlength=self.n_columns)
        return np.asarray(sizes / sizes.sum() if sizes.sum() > 0 else sizes)

    def score_columns(self, X: FeatureMatrix, queries: Queries | None) -> np.ndarray:
        scores = np.zeros(len(X))
        self.rankers_.add_to(scores, X, n_jobs=self.n_jobs)
        return scores

    def largest_score(self) -> float:
        return float(np.abs(self.rankers_.alpha).sum())

    def inspect(self) -> RankBoostInspection:
        """What the model is made of: its weak rankers, the bound, its parameters. Print it."""
        names, shares = self.column_names_, self.feature_importances_
        order = [f for f in np.argsort(-shares, kind="stable") if shares[f] > 0]
        rounds = [
            {"weak_ranker": describe(one, names), "alpha": alpha, "z": z} for one, alpha, z in self.rankers_.rounds()
        ]
        return RankBoostInspection(
            *about_model(self), rounds, self.bound_, [(names[f], float(shares[f])) for f in order]
        )

    def fitted_state(self) -> FittedState:
        return FittedState(arrays=self.rankers_.arrays())

    def restore_state(self, state: FittedState) -> None:
        self.rankers_ = WeakRankers(**state.arrays)

    def check_state(self) -> None:
        super().check_state()
        self.rankers_.check(self.n_columns)
        if self.best_iteration_ != len(self.rankers_):
            raise ValueError(f"best_iteration is {self.best_iteration_} of {len(self.rankers_)} rounds")

    def check_parameters(self) -> None:
        super().check_parameters()
        if self.alpha == "closed" and self.weak_ranker == "value":
            needed = 'alpha="closed" is the minimum of Z for weak rankers with the values 0 and 1'
            raise ValueError(f'RankBoost: {needed}; got weak_ranker="value". Use alpha="search" or alpha="bound".')


@dataclass(frozen=True)
class RankBoostInspection(ModelInspection):
    """A fitted RankBoost."""

    rounds: list[dict[str, Any]]  # weak_ranker in words, alpha, z
    bound: float
    top_features: list[tuple[str, float]]  # with their share in the sum of |alpha|, the largest first

    def _details(self) -> list[str]:
        lines = [
            f"rounds: {len(self.rounds):,}, with {len(self.top_features):,} features",
            f"bound of the share of training pairs out of order: {self.bound:.6g}",
        ]
        if self.top_features:
            shares = ", ".join(f"{name} ({share:.1%})" for name, share in self.top_features[:_SHOWN])
            lines.append(f"most weight: {shares}")
        shown = [f"  {one['alpha']:+.4f} x [{one['weak_ranker']}]" for one in self.rounds[:_SHOWN]]
        return [*lines, *(["first rounds:", *shown] if shown else [])]


def describe(ranker: WeakRanker, names: Any) -> str:
    """`bm25 > 3.2 or missing`, `bm25 is there`, `bm25 from 0.1 to 7`."""
    name, missing = names[ranker.feature], " or missing" if ranker.default else ""
    if ranker.low == -math.inf:
        return f"{name} is there{missing}"
    if ranker.low == ranker.high:
        return f"{name} > {ranker.low:.5g}{missing}"
    return f"{name} from {ranker.low:.5g} to {ranker.high:.5g}{', 1 if missing' if ranker.default else ''}"
