"""Linear models: one weight per feature, trained by L-BFGS on the derivatives of any objective."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from podium.data.ranking import RankingData
from podium.learners.linear.function import LinearFunction
from podium.learners.linear.lbfgs import LinearRules, LinearTraining
from podium.models.inspection import LinearInspection, feature_names, shown_parameters
from podium.models.parameters import (
    LARGE,
    MetricParameter,
    ObjectiveParameter,
    RoundsParameter,
    SeedParameter,
    parameter,
    parametrized,
)
from podium.models.ranker import Ranker
from podium.objectives import Objective
from podium.objectives.custom import Custom
from podium.objectives.pointwise import Logistic, Ordinal, Squared
from podium.persistence.validation import Fact, is_number


@parametrized
class LinearScores(Ranker):
    """Models whose score is linear in the features: `coef_`, `intercept_`, and the means of the training rows."""

    _ALLOWS_MISSING: ClassVar[bool] = False
    _ALLOWS_SPARSE: ClassVar[bool] = False
    _FACTS: ClassVar[Mapping[str, Fact]] = {"intercept": Fact("a finite number", is_number)}
    _ARRAYS: ClassVar[tuple[str, ...]] = ("coef", "centre")

    def _scores(self, X: Any) -> np.ndarray:
        return self._summands()[0].scores(X, self.n_jobs)

    def _summands(self) -> list[LinearFunction]:
        return [LinearFunction(self.coef_, self.intercept_, self.feature_means_)]

    @property
    def feature_importances_(self) -> np.ndarray:
        """The share of each weight in the sum of their sizes; comparable where features have comparable scales."""
        sizes: np.ndarray = np.abs(self.coef_)
        return np.asarray(sizes / sizes.sum() if sizes.sum() > 0 else sizes)

    def inspect(self) -> LinearInspection:
        """What the model is made of: its weights and parameters. Print it."""
        names = list(feature_names(self))
        order = np.argsort(-np.abs(self.coef_), kind="stable")
        weights = [(names[place], float(self.coef_[place])) for place in order]
        about = type(self).__name__, self.n_features_in_, *shown_parameters(self)
        return LinearInspection(*about, weights, float(self.intercept_))

    def _fitted_meta(self) -> dict[str, Any]:
        return {"intercept": float(self.intercept_)}

    def _fitted_arrays(self) -> dict[str, np.ndarray]:
        return {"coef": self.coef_, "centre": self.feature_means_}

    def _restore_fitted(self, meta: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
        self.coef_, self.feature_means_ = arrays["coef"], arrays["centre"]
        self.intercept_ = float(meta["intercept"])

    def _check_fitted(self) -> None:
        super()._check_fitted()
        for name, array in self._fitted_arrays().items():
            if array.dtype != np.float64 or array.shape != (self.n_features_in_,) or not np.isfinite(array).all():
                raise ValueError(f"{name} must have one finite float64 number per feature")


@parametrized
class Linear(ObjectiveParameter, MetricParameter, SeedParameter, RoundsParameter, LinearScores):
    """One weight per feature, trained by L-BFGS on any objective.

    Features are standardised inside, so that the penalty treats them alike; `coef_` and `intercept_` are those of the
    features as they came.
    """

    objective: Any = "ranknet"
    l2_regularization: float = parameter(
        1e-4, "L2 penalty on the weights of standardised features, per training row.", low=0, high=LARGE
    )
    max_iter: int = 100
    tolerance: float = parameter(
        1e-6, "Training ends when no entry of the gradient, per training row, is larger.", low=0, high=LARGE
    )

    _UNIT: ClassVar[str] = LinearTraining.unit

    def _objective(self) -> Any:
        if self.objective == "lambda":
            return self._named_objective("lambda", metric=self.metric)
        return self._named_objective(self.objective)

    def _aim(self) -> Any:
        return super()._aim() if isinstance(self.objective, Objective) else self.metric

    def _needs_pairs(self) -> bool:
        return not isinstance(self._objective(), (Squared, Logistic, Ordinal, Custom))

    def _learner(self, data: RankingData, continued: bool) -> LinearTraining:
        data = data.grouped()
        rules = LinearRules(
            l2=float(self.l2_regularization),
            tolerance=float(self.tolerance),
            fit_intercept=not self._needs_pairs(),
            n_jobs=self.n_jobs,
        )
        return LinearTraining(data.X, self._bind(data), rules)

    def _n_steps(self) -> int:
        return self.max_iter

    def _set_fitted(self, learner: LinearTraining) -> None:
        self.coef_, self.intercept_ = learner.coefficients
        self.feature_means_ = learner.scaling.centre

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._objective()  # a misspelt name is answered before any work
        self._judging_metric()
