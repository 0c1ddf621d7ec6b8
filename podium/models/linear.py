"""Linear models: one weight per feature or basis function, trained by L-BFGS on the derivatives of any objective."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

from podium.data.ranking import RankingData
from podium.data.sparse import FeatureMatrix
from podium.data.standardising import Standardisation
from podium.data.weights import row_weights
from podium.learners.linear.basis import BASES, MOST_FUNCTIONS, Basis
from podium.learners.linear.centres import are_centres, as_centres
from podium.learners.linear.function import LinearFunction
from podium.models.frame.holding_out import ValidationParameter
from podium.models.frame.imputing import ImputeParameters
from podium.models.frame.inspection import LinearInspection, about_model
from podium.models.frame.parameters import (
    ABOVE_0,
    LARGE,
    NAME,
    NUMBER,
    STRUCTURE,
    TRANSFORM_SPACE,
    AnyObjectiveParameters,
    MetricParameter,
    RoundsParameter,
    SeedParameter,
    check_values,
    parameter,
    parametrized,
    rules_for,
)
from podium.models.frame.plan import TrainingPlan, TrainingRows, named_objective, target_parameter
from podium.models.frame.ranker import FittedState, Ranker
from podium.models.frame.transforms import Queries
from podium.objectives.base import Objective
from podium.persistence.validation import Fact, is_number

if TYPE_CHECKING:
    from podium.learners.linear.lbfgs import LinearTraining


class WeightedLearner(Protocol):
    """A learner of one weight per feature."""

    @property
    def coefficients(self) -> tuple[np.ndarray, float]: ...
    @property
    def scaling(self) -> Standardisation: ...


LINEAR_SPACE: dict[str, Any] = {"l2_regularization": {"low": 1e-4, "high": 1.0, "log": True}, **TRANSFORM_SPACE}


@parametrized
class LinearScores(ImputeParameters, Ranker):
    """Models whose score is linear in the columns: `coef_`, `intercept_`, and the means of the training rows."""

    fitted_attributes: ClassVar[Mapping[str, str]] = {
        "coef_": "One weight per column (feature, transformed feature or basis function).",
        "intercept_": "Constant that is added to every score.",
        "feature_means_": "Mean of each column over the training rows, which explanations refer to.",
        "feature_importances_": "Share of each weight in the sum of their sizes, one per column.",
    }
    allows_missing: ClassVar[bool] = False
    allows_sparse: ClassVar[bool] = False
    state_facts: ClassVar[Mapping[str, Fact]] = {"intercept": Fact("a finite number", is_number)}
    state_arrays: ClassVar[tuple[str, ...]] = ("coef", "centre")

    def score_columns(self, X: FeatureMatrix, queries: Queries | None) -> np.ndarray:
        return self._function().scores(X, self.n_jobs)

    def keep_weights(self, learner: WeightedLearner) -> None:
        """What `TrainingPlan.keep` is of a learner of weights: `coef_`, `intercept_` and the means of the rows."""
        self.coef_, self.intercept_ = learner.coefficients
        self.feature_means_ = learner.scaling.centre

    def _function(self) -> LinearFunction:
        return LinearFunction(self.coef_, self.intercept_, self.feature_means_)

    def summands(self) -> list[Any]:
        return [self._function()]

    @property
    def feature_importances_(self) -> np.ndarray:
        """The share of each weight in the sum of their sizes; comparable where features have comparable scales."""
        sizes = self._sizes()
        return np.asarray(sizes / sizes.sum() if sizes.sum() > 0 else sizes)

    def _sizes(self) -> np.ndarray:
        return np.asarray(np.abs(self.coef_))

    def _function_names(self) -> Sequence[str]:
        """What the weights belong to."""
        return self.column_names_

    def inspect(self) -> LinearInspection:
        """What the model is made of: its weights and parameters. Print it."""
        names = self._function_names()
        order = np.argsort(-np.abs(self.coef_), kind="stable")
        weights = [(names[number], float(self.coef_[number])) for number in order]
        return LinearInspection(*about_model(self), weights, float(self.intercept_))

    def fitted_state(self) -> FittedState:
        arrays = {"coef": self.coef_, "centre": self.feature_means_}
        return FittedState({"intercept": float(self.intercept_)}, arrays)

    def restore_state(self, state: FittedState) -> None:
        self.coef_, self.feature_means_ = state.arrays["coef"], state.arrays["centre"]
        self.intercept_ = float(state.facts["intercept"])

    def _n_functions(self) -> int:
        return self.n_columns

    def check_state(self) -> None:
        super().check_state()
        for name, array in (("coef", self.coef_), ("centre", self.feature_means_)):
            if array.dtype != np.float64 or array.shape != (self._n_functions(),) or not np.isfinite(array).all():
                raise ValueError(f"{name} must have one finite float64 number per column or basis function")


@parametrized
class LinearRanker(SeedParameter, RoundsParameter, ValidationParameter, LinearScores):
    """The frame of linear models. Subclasses define the objective.

    Features are standardised inside, so that the penalty treats them alike; `coef_` and `intercept_` are those of the
    features as they came, or of the basis functions.
    """

    l2_regularization: float = parameter(
        0.03,
        "L2 penalty: half of it times the squared weights of standardised features is added to the mean loss.",
        low=0,
        high=LARGE,
    )
    max_iter: int = 100
    tolerance: float = parameter(
        1e-6, "Training ends when no entry of the gradient of the mean loss is larger.", low=0, high=LARGE
    )
    basis: str | None = parameter(
        None,
        'Basis functions that take the place of the features: powers of each ("polynomial"), or functions of the '
        'distance ("gaussian") or of the product ("sigmoid") of a row and a centre. None for the features themselves.',
        kind=NAME,
        choices=BASES,
    )
    degree: int = parameter(3, "Basis functions: the largest power of polynomials.", low=1, high=10)
    interactions: bool = parameter(
        False,
        "Polynomial basis functions: whether products of different features are among them, all of up to `degree` "
        f"factors, as in scikit-learn's PolynomialFeatures; at most {MOST_FUNCTIONS:,} functions.",
    )
    n_centres: int = parameter(
        100, "Gaussian and sigmoid basis functions: how many training rows are centres.", low=1, high=10**5
    )
    centres: Any = parameter(
        None,
        "Gaussian and sigmoid basis functions: their centres, one row of numbers per centre and one number per column, "
        "in units of the columns as they are (features, or what `transform` makes of them). None: training rows.",
        kind=STRUCTURE,
        words="one row of finite numbers per centre, such as [[0, 1], [2, 0.5]]; or None",
        holds=are_centres,
    )
    sigma: float | None = parameter(
        None,
        "Gaussian and sigmoid basis functions: their width in units of the columns, which then are not standardised: "
        "a Gaussian is exp(-d^2 / (2 sigma^2)) at distance d. None: `width`, of standardised columns.",
        kind=NUMBER,
        low=ABOVE_0,
        high=LARGE,
    )
    width: float = parameter(
        1.0,
        "Gaussian and sigmoid basis functions: their width, in units of the square root of the number of features.",
        low=1e-3,
        high=1e6,
    )

    fitted_attributes: ClassVar[Mapping[str, str]] = {
        "basis_": "The fitted basis functions, or None without basis.",
    }
    step_word: ClassVar[str] = "round"
    search_space: ClassVar[Mapping[str, Any]] = LINEAR_SPACE
    scoring_parameters: ClassVar[tuple[str, ...]] = ("basis", "degree", "width", "interactions", "sigma")
    state_arrays: ClassVar[tuple[str, ...]] = ("coef", "centre", "basis_mean", "basis_scale", "basis_centres")

    def check_parameters(self) -> None:
        if self.centres is not None:
            try:
                as_centres(self.centres)
            except ValueError as error:
                raise ValueError(f"{type(self).__name__}: centres: {error}") from error
        super().check_parameters()
        self._refuse_beside_basis()

    def _refuse_beside_basis(self) -> None:
        """Refuse what would be ignored, and is for functions of another kind."""
        centred, known = self.basis in ("gaussian", "sigmoid"), "gaussian and sigmoid basis functions"
        for name, is_set, applies, kinds in (
            ("interactions", self.interactions, self.basis == "polynomial", "polynomial basis functions"),
            ("centres", self.centres is not None, centred, known),
            ("sigma", self.sigma is not None, centred, known),
        ):
            if is_set and not applies:
                default = type(self).__dataclass_fields__[name].default
                problem = f"{name} is for {kinds}; got basis={self.basis!r}"
                raise ValueError(f"{type(self).__name__}: {problem}. Leave it at {default}, or set basis.")

    def training_plan(self) -> TrainingPlan[LinearTraining]:
        objective, target = self.make_objective(), target_parameter(self)
        takes_pairs = objective.takes_pairs
        return TrainingPlan(self._make_learner, self._keep, self.max_iter, objective, target, takes_pairs=takes_pairs)

    def imputation_weights(self, data: RankingData) -> np.ndarray | None:
        """As in the standardisation."""
        return row_weights(data)

    def _make_learner(self, rows: TrainingRows) -> LinearTraining:
        from podium.learners.linear.lbfgs import LinearRules, LinearTraining  # scoring needs neither

        objective, data, weights = self.make_objective(), rows.data, row_weights(rows.data)
        l2, fit_intercept = float(self.l2_regularization), not objective.needs_pairs
        rules = rules_for(LinearRules, self, l2=l2, fit_intercept=fit_intercept)
        return LinearTraining(data.X, rows.bind(objective), rules, self._make_basis(data, weights), weights)

    def _keep(self, learner: LinearTraining) -> None:
        self.keep_weights(learner)
        self.basis_ = learner.basis

    def _make_basis(self, data: RankingData, weights: np.ndarray | None) -> Basis | None:
        """The basis functions of training rows, whose columns are as the learner sees them."""
        if self.basis is None:
            return None
        n_columns, is_raw = data.X.shape[1], self.sigma is not None
        scaling = Standardisation.identity(n_columns) if is_raw else Standardisation.fit(data.X, weights)
        basis = self._basis(self.basis, scaling, np.empty((0, n_columns)))
        basis.refuse_too_many(n_columns)
        if self.centres is None:
            basis = basis.centred(data.X, self.n_centres, self.random_state)
        else:
            basis = basis.around(self._centres_for(n_columns))
        basis.refuse_too_large(data.n_rows)
        return basis

    def _basis(self, kind: str, scaling: Standardisation, centres: np.ndarray) -> Basis:
        """With the parameters of `fit`."""
        degree, width, interactions, sigma = map(self.scoring_parameter, self.scoring_parameters[1:])
        sigma = None if sigma is None else float(sigma)
        return Basis(kind, int(degree), float(width), scaling, centres, bool(interactions), sigma)

    def _centres_for(self, n_columns: int) -> np.ndarray:
        centres = as_centres(self.centres)
        if centres.shape[1] != n_columns:
            makers = {"transform": self.transform_ is not None, "missing_indicator": n_columns > self.n_features_in_}
            maker = next((name for name, is_maker in makers.items() if is_maker), None)
            columns = "features" if maker is None else f"columns, which {maker} made of the features"
            made = "" if maker is None else "; a model fitted without centres lists them as column_names_"
            problem = f"centres have {centres.shape[1]:,} numbers each, but the rows have {n_columns:,} {columns}"
            raise ValueError(f"{type(self).__name__}: {problem}. Give one number per column{made}.")
        return centres

    def score_columns(self, X: FeatureMatrix, queries: Queries | None) -> np.ndarray:
        if self.basis_ is None:
            return super().score_columns(X, queries)
        return self.basis_.scores(np.asarray(X), self._function(), self.n_jobs)

    def summands(self) -> list[Any]:
        return super().summands() if self.basis_ is None else Ranker.summands(self)

    def _sizes(self) -> np.ndarray:
        """Of powers, those of a feature are added up."""
        if self.basis_ is not None and (self.basis_.kind != "polynomial" or self.basis_.interactions):
            functions = "products" if self.basis_.interactions else f"{self.basis_.kind} basis functions"
            raise AttributeError(f"weights of {functions} do not belong to single features.")
        return np.asarray(super()._sizes().reshape(self.n_columns, -1).sum(axis=1))

    def _function_names(self) -> Sequence[str]:
        names = super()._function_names()
        return names if self.basis_ is None else self.basis_.names(names)

    def fitted_state(self) -> FittedState:
        state, basis, none = super().fitted_state(), self.basis_, np.empty(0)
        arrays = (none, none, none)
        if basis is not None:
            arrays = basis.scaling.centre, basis.scaling.scale, basis.centres.reshape(-1)
        named = zip(("basis_mean", "basis_scale", "basis_centres"), arrays)
        return replace(state, arrays={**state.arrays, **dict(named)})

    def restore_state(self, state: FittedState) -> None:
        super().restore_state(state)
        self.basis_, kind = None, self.scoring_parameter("basis")
        if kind is not None:
            centres = state.arrays["basis_centres"].reshape(-1, max(self.n_columns, 1))
            scaling = Standardisation(state.arrays["basis_mean"], state.arrays["basis_scale"])
            self.basis_ = self._basis(str(kind), scaling, centres)

    def _n_functions(self) -> int:
        return super()._n_functions() if self.basis_ is None else self.basis_.n_functions

    def check_state(self) -> None:
        check_values(self)  # of which the basis is made
        if self.basis_ is not None:
            self.basis_.check(self.n_columns)
        super().check_state()


@parametrized
class Linear(AnyObjectiveParameters, LinearRanker):
    """One weight per feature, trained by L-BFGS on any objective.

    It minimises the mean loss plus l2_regularization / 2 times the squared weights of standardised features; only
    pointwise objectives have an intercept, which is not penalised. The mean is over documents (weighted) for pointwise
    objectives, over pairs for pairwise ones, and over queries for lambda and listwise ones.
    """

    objective: Any = "ranknet"

    search_space: ClassVar[Mapping[str, Any]] = LINEAR_SPACE | {"pair_exponent": [0.0, 0.5, 1.0]}


@parametrized
class BayesRank(MetricParameter, LinearRanker):
    """One weight per feature, which maximises the expected metric of rankings drawn from Plackett-Luce.

    The metric must be a sum over ranks, such as ndcg, dcg, rbp or p. The cost is not convex: training starts at 0,
    where all rankings are equally likely.
    """

    samples: int = parameter(
        16, "Rankings drawn per query and round; queries of up to 4 documents use all of theirs.", low=1, high=10**6
    )
    l2_regularization: float = 0.003

    def make_objective(self) -> Objective:
        return named_objective(self, "bayesrank", samples=self.samples)
