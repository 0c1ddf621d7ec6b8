"""Pointwise and Pairwise: any estimator of scikit-learn as a ranker.

`Pointwise` fits an estimator to (row, label) and scores a document by what it predicts. `Pairwise` fits a binary
classifier to differences of two documents of a query, the better one minus the worse one as class 1 and the reverse as
class 0. The estimator is a parameter: there is no class per estimator.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from podium._runtime.words import did_you_mean
from podium.data.ranking import RankingData
from podium.data.sparse import FeatureMatrix
from podium.data.standardising import Standardisation
from podium.data.weights import row_weights
from podium.learners.estimator import KERNELS, LINKS, EstimatorTraining, Form
from podium.learners.linear.function import LinearFunction
from podium.models.estimators import CLASSIFIERS, ESTIMATORS, make_estimator, name_of
from podium.models.frame.estimator import clone
from podium.models.frame.imputing import ImputeParameters
from podium.models.frame.parameters import LARGE, NAME, NUMBER, TRANSFORM_SPACE, SeedParameter, parameter, parametrized
from podium.models.frame.plan import TrainingPlan, TrainingRows
from podium.models.frame.ranker import FittedState, Ranker
from podium.models.frame.transforms import Queries
from podium.persistence.validation import Fact, is_number

_NO_NUMBERS = np.empty(0)


@parametrized
class EstimatorRanker(SeedParameter, ImputeParameters, Ranker):
    """The frame of rankers around an estimator of scikit-learn."""

    standardize: bool = parameter(
        True, "Standardize the features for the estimator, by means and standard deviations of the training rows."
    )

    fitted_attributes: ClassVar[Mapping[str, str]] = {
        "estimator_": "The fitted estimator of scikit-learn; a loaded model has none, and scores by form_.",
        "form_": "The scoring function as arrays, or None where only the estimator itself can score.",
        "scaling_": "Means and scales that the features were standardised by; a loaded model has them in form_.",
    }
    step_word: ClassVar[str] = "fit"
    allows_sparse: ClassVar[bool] = False
    _WRAPPED: ClassVar[str] = "estimator"  # the parameter that is the estimator
    _NEEDS_PAIRS: ClassVar[bool] = False
    _NAMES: ClassVar[Mapping[str, Any]] = ESTIMATORS
    state_facts: ClassVar[Mapping[str, Fact]] = {
        "link": Fact(f"one of {', '.join(LINKS)}", lambda value: value in LINKS),
        "gamma": Fact("a finite number", is_number),
        "coef0": Fact("a finite number", is_number),
        "degree": Fact("an integer from 0 to 1000", lambda value: type(value) is int and 0 <= value <= 1000),
    }
    state_arrays: ClassVar[tuple[str, ...]] = ("weights", "intercepts", "grades", "support", "mean", "scale")

    def takes_missing(self, fitted: bool) -> bool:
        """Whether they are filled, or the estimator takes NaN, as it says itself; scoring by arrays does not."""
        if (self.imputation_ if fitted else self.impute) is not None:
            return True
        if not fitted or "form_" not in self.__dict__:  # which the training sets in the end
            return _allows_nan(self._estimator())
        return self.form_ is None and _allows_nan(self.estimator_)

    def _estimator(self) -> Any:
        """A fresh estimator, whose random numbers come from the model's seed unless it has one of its own."""
        estimator = getattr(self, self._WRAPPED)
        if isinstance(estimator, str):
            estimator = make_estimator(estimator, f"{type(self).__name__}: {self._WRAPPED}", self._NAMES)
        if not hasattr(estimator, "fit") or isinstance(estimator, type):
            expected = f"an estimator of scikit-learn or one of {', '.join(self._NAMES)}"
            raise ValueError(f"{type(self).__name__}: {self._WRAPPED} must be {expected}; got {estimator!r}.")
        made = clone(estimator)
        if made.get_params().get("random_state", 0) is None:
            made.set_params(random_state=self.random_state % 2**32)
        return made

    def training_plan(self) -> TrainingPlan[EstimatorTraining]:
        needed = self._NEEDS_PAIRS
        return TrainingPlan(self._make_learner, lambda learner: None, 1, needs_pairs=needed, takes_pairs=needed)

    def _make_learner(self, rows: TrainingRows) -> EstimatorTraining:
        self.estimator_: Any = self._estimator()
        return EstimatorTraining(lambda: self._fit_estimator(rows), lambda X: self.score_columns(X, None))

    def _fit_estimator(self, training: TrainingRows) -> None:
        """Fit `estimator_`; set its `form_` as arrays or None, and what it takes to score with it then."""
        raise NotImplementedError

    def score_columns(self, X: FeatureMatrix, queries: Queries | None) -> np.ndarray:
        return self._predictions(np.asarray(X)) if self.form_ is None else self.form_.scores(X, self.n_jobs)

    def _predictions(self, X: np.ndarray) -> np.ndarray:
        """Scores by the estimator itself."""
        raise NotImplementedError

    def _scaling(self, X: np.ndarray) -> Standardisation:
        return Standardisation.fit(X) if self.standardize else Standardisation.identity(X.shape[1])

    def _call_fit(self, estimator: Any, Z: np.ndarray, target: np.ndarray, weights: np.ndarray | None) -> None:
        from sklearn.utils.validation import has_fit_parameter

        if weights is None:
            estimator.fit(Z, target)
        elif has_fit_parameter(estimator, "sample_weight"):
            estimator.fit(Z, target, sample_weight=weights)
        else:
            problem = f"{type(estimator).__name__} takes no sample_weight"
            raise ValueError(f"{type(self).__name__}: {problem}; fit without weights.")

    def _linear_form(
        self, link: str, weights: np.ndarray, intercepts: Any, grades: np.ndarray, scaling: Standardisation
    ) -> Form:
        """Weights of standardised features as those of the features as they came."""
        raw, shifts = scaling.unscaled(np.atleast_2d(np.asarray(weights, np.float64)))
        shifted = np.broadcast_to(np.atleast_1d(np.asarray(intercepts, np.float64)) - shifts, len(raw)).copy()
        empty = np.empty((0, raw.shape[1]))
        return Form(link, raw, shifted, grades, empty, scaling.centre, scaling.scale)

    def save(self, target: Any, *, score_only: bool = False) -> None:
        """As `Ranker.save`; of estimators that arrays do not tell, an error."""
        if hasattr(self, "form_") and self.form_ is None:
            reason = f"{type(self.estimator_).__name__} is neither a linear estimator nor SVR"
            file = "so its fitted state is not a few arrays, and a model file holds no code"
            advice = f"Nothing is written; it can be one of {', '.join(self._NAMES)}."
            raise ValueError(f"{type(self).__name__} cannot be saved: {reason}, {file}. {advice}")
        super().save(target, score_only=score_only)

    def fitted_state(self) -> FittedState:
        form = self.form_
        if form is None:  # `save` refuses
            return FittedState()
        facts = {"link": form.link, "gamma": float(form.gamma), "coef0": float(form.coef0), "degree": int(form.degree)}
        flat = {"weights": form.weights.reshape(-1), "support": form.support.reshape(-1)}
        rest = {name: getattr(form, name) for name in self.state_arrays if name not in flat}
        return FittedState(facts, flat | rest)

    def restore_state(self, state: FittedState) -> None:
        arrays, numbers = dict(state.arrays), {name: float(state.facts[name]) for name in ("gamma", "coef0")}
        arrays["weights"] = arrays["weights"].reshape(max(len(arrays["intercepts"]), 1), -1)
        arrays["support"] = arrays["support"].reshape(-1, max(self.n_columns, 1))
        form: Any = Form(**{**state.facts, **numbers, **arrays})  # None where the estimator does not consist of arrays
        self.form_ = form

    def check_state(self) -> None:
        super().check_state()
        self.form_.check(self.n_columns)

    def linear_function(self) -> LinearFunction | None:
        """The score as weights of the features, where the estimator is linear."""
        form = self.form_
        if form is None or form.link != "identity":
            return None
        return LinearFunction(form.weights[0].copy(), float(form.intercepts[0]), form.mean)

    def summands(self) -> list[Any]:
        linear = self.linear_function()
        return super().summands() if linear is None else [linear]

    def check_parameters(self) -> None:
        super().check_parameters()
        self._estimator()


@parametrized
class Pointwise(EstimatorRanker):
    """Any regressor or classifier of scikit-learn, fitted to the labels of single documents.

    The score is the prediction of a regressor, and the expected grade of a classifier: the sum of its classes times
    their probabilities; with `relevant`, the probability of a label of at least that. Classifiers without
    predict_proba score by their decision function, and take two classes.
    """

    estimator: Any = parameter(
        "ridge",
        "The estimator: an object of scikit-learn, or the name of one with its default parameters.",
        kind=NAME,
        positional=True,
        words=f"an estimator, or {', '.join(ESTIMATORS)}",
    )
    relevant: float | None = parameter(
        None,
        "Classifiers: labels from here on are relevant, and the score is the probability of that. None takes every "
        "label as a class of its own.",
        kind=NUMBER,
        low=-LARGE,
        high=LARGE,
    )

    search_space: ClassVar[Mapping[str, Any]] = {
        "estimator": ["ridge", "logistic_regression", "linear_svr"],
        **TRANSFORM_SPACE,
    }

    def _fit_estimator(self, training: TrainingRows) -> None:
        data = training.data
        made, weights = self.estimator_, row_weights(data)
        scaling = self._scaling(data.X)
        Z = scaling.apply(data.X)
        target = self._target(made, data.labels_for("fit"))
        if name_of(made) == "svr" and made.gamma in ("scale", "auto"):
            spread = float(Z.var()) if made.gamma == "scale" else 1.0
            made.set_params(gamma=1.0 / (Z.shape[1] * spread) if spread > 0 else 1.0)  # as scikit-learn does
        self._call_fit(made, Z, target, weights)
        self.scaling_ = scaling
        self.form_ = _explained_from(self._form(made, scaling), data.X)

    def _predictions(self, X: np.ndarray) -> np.ndarray:
        return _prediction(self.estimator_, self.scaling_.apply(X))

    def _target(self, made: Any, y: np.ndarray) -> np.ndarray:
        if not _is_classifier(made):
            return y
        target = y if self.relevant is None else (y >= self.relevant).astype(np.float64)
        grades = np.unique(target)
        if not hasattr(made, "predict_proba") and len(grades) > 2:
            problem = f"{type(made).__name__} has no predict_proba, so it takes two classes"
            advice = "Set relevant, such as relevant=1, or use logistic_regression."
            raise ValueError(f"Pointwise: {problem}; the labels have {len(grades)}. {advice}")
        return target

    def _form(self, made: Any, scaling: Standardisation) -> Form | None:
        name = name_of(made)
        if name is None:
            return None
        if name == "svr" and made.kernel != "linear":
            if made.kernel not in KERNELS:
                return None
            numbers = float(made.gamma), float(made.coef0), int(made.degree)
            dual, support = np.asarray(made.dual_coef_, np.float64), np.asarray(made.support_vectors_, np.float64)
            arrays = dual, made.intercept_.copy(), _NO_NUMBERS, support, scaling.centre, scaling.scale
            return Form(made.kernel, *arrays, *numbers)
        if name == "logistic_regression":
            grades = np.asarray(made.classes_, np.float64)
            link = "logistic" if len(grades) == 2 else "softmax"
            return self._linear_form(link, made.coef_, made.intercept_, grades, scaling)
        return self._linear_form("identity", made.coef_, made.intercept_, _NO_NUMBERS, scaling)


@parametrized
class Pairwise(EstimatorRanker):
    """Any binary classifier of scikit-learn, fitted to differences of two documents of a query.

    Every pair of different labels gives two rows: better minus worse, of class 1, and worse minus better, of class 0.
    The score of a linear classifier is its weighted sum of the features. Others compare a document with some
    training rows, and the score is the mean probability (or decision) that it is better than these.
    """

    classifier: Any = parameter(
        "logistic_regression",
        "The classifier: an object of scikit-learn, or the name of one with its default parameters.",
        kind=NAME,
        positional=True,
        words=f"a classifier, or {', '.join(CLASSIFIERS)}",
    )
    max_pairs: int = parameter(
        100_000, "Pairs that are used, spread evenly over all of them where there are more.", low=1, high=10**9
    )
    references: int = parameter(
        16, "Classifiers that are not linear: training rows that a document is compared with.", low=1, high=10**4
    )

    fitted_attributes: ClassVar[Mapping[str, str]] = {
        "n_pairs_": "Number of pairs that the classifier was trained on.",
        "reference_rows_": "Training rows that a document is compared with, where the classifier is not linear.",
    }
    search_space: ClassVar[Mapping[str, Any]] = {"classifier": ["logistic_regression", "linear_svc"], **TRANSFORM_SPACE}
    _WRAPPED: ClassVar[str] = "classifier"
    _NEEDS_PAIRS: ClassVar[bool] = True
    _NAMES: ClassVar[Mapping[str, Any]] = CLASSIFIERS

    def _estimator(self) -> Any:
        made = super()._estimator()
        if not _is_classifier(made):
            advice = f"Use Pointwise.{did_you_mean(self.classifier, CLASSIFIERS)}"
            raise ValueError(f"Pairwise: classifier must be a classifier; got {self.classifier!r}. {advice}")
        return made

    def _fit_estimator(self, training: TrainingRows) -> None:
        made, data = self.estimator_, training.data
        scale = self._scaling(data.X).scale
        rng = np.random.Generator(np.random.PCG64(self.random_state))
        better, worse, weights = self._directed_pairs(training, rng)
        self.form_ = None
        rows = np.sort(rng.permutation(data.n_rows)[: self.references])
        self.scaling_ = Standardisation(np.zeros(len(scale)), scale)  # of differences, whose mean is 0
        self.reference_rows_ = data.X[rows]
        if len(better) == 0:  # `fit` has warned
            self.form_ = self._linear_form("identity", np.zeros(len(scale)), 0.0, _NO_NUMBERS, self.scaling_)
            return
        differences = self.scaling_.apply(data.X[better].astype(np.float64) - data.X[worse])
        classes, both = np.repeat([1.0, 0.0], len(better)), None if weights is None else np.tile(weights, 2)
        self._call_fit(made, np.concatenate([differences, -differences]), classes, both)
        if name_of(made) is not None:  # an intercept is the same for all documents
            form = self._linear_form("identity", made.coef_, 0.0, _NO_NUMBERS, self.scaling_)
            self.form_ = _explained_from(form, data.X)

    def _directed_pairs(
        self, training: TrainingRows, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """Rows of better and worse documents, and weights of the pairs, or None where all are 1."""
        data = training.data
        if training.pairs is None:
            better, worse, query = sample_pairs(data, self.max_pairs, rng)
            self.n_pairs_ = len(better)
            return better, worse, _pair_weights(data, better, worse, query)
        pairs = training.pairs.weighted(data.sample_weight, data.query_weight)
        counting = np.flatnonzero(pairs.weight)
        pairs = pairs.take(counting[_spread(len(counting), self.max_pairs, rng)])
        self.n_pairs_ = len(pairs)
        better, worse, weights, _ = pairs.directed()
        return better, worse, None if (weights == 1.0).all() else weights

    def _predictions(self, X: np.ndarray) -> np.ndarray:
        total = np.zeros(len(X))
        for row in self.reference_rows_:
            total += _prediction(self.estimator_, self.scaling_.apply(X.astype(np.float64) - row))
        return total / len(self.reference_rows_)


def _allows_nan(estimator: Any) -> bool:
    from sklearn.utils import get_tags

    return bool(get_tags(estimator).input_tags.allow_nan)


def _is_classifier(estimator: Any) -> bool:
    from sklearn.base import is_classifier

    return bool(is_classifier(estimator))


def _explained_from(form: Form | None, X: np.ndarray) -> Form | None:
    """Linear functions are explained from the means of the training rows, whatever the estimator saw."""
    if form is None or form.link in KERNELS:
        return form
    return replace(form, mean=X.mean(axis=0, dtype=np.float64))


def sample_pairs(data: RankingData, most: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows of the better and of the worse document of pairs of different labels, and their queries.

    data: grouped. All pairs, or `most` of them: pairs are numbered and one is drawn from each of `most` equal ranges of
    the numbers, so queries and documents have their share.
    """
    query = np.repeat(np.arange(data.n_queries), np.diff(data.offsets))
    y = data.labels_for("fit")
    order = np.lexsort((y, query))  # by query, then by label
    labels, queries = y[order], query[order]
    new_run = np.append(True, (labels[1:] != labels[:-1]) | (queries[1:] != queries[:-1])) if len(order) else order
    run_start = np.maximum.accumulate(np.where(new_run, np.arange(len(order)), 0))
    first = np.asarray(data.offsets)[queries]
    ends = np.cumsum(run_start - first)  # how many pairs there are up to each place of the order
    total = int(ends[-1]) if len(ends) else 0
    numbers = _spread(total, most, rng)
    position = np.searchsorted(ends, numbers, side="right")
    below = numbers - (ends[position] - (run_start - first)[position])
    return order[position], order[first[position] + below], queries[position]


def _spread(total: int, most: int, rng: np.random.Generator) -> np.ndarray:
    """The numbers below `total`, or one from each of `most` equal ranges of them."""
    if total <= most:
        return np.arange(total)
    return np.minimum(((np.arange(most) + rng.random(most)) * (total / most)).astype(np.int64), total - 1)


def _pair_weights(data: RankingData, better: np.ndarray, worse: np.ndarray, query: np.ndarray) -> np.ndarray | None:
    """The product of two documents' weights times their query's; None where all are 1."""
    if data.sample_weight is None and data.query_weight is None:
        return None
    weights = np.ones(len(better))
    if data.sample_weight is not None:
        weights *= data.sample_weight[better] * data.sample_weight[worse]
    if data.query_weight is not None:
        weights *= data.query_weight[query]
    return weights


def _prediction(made: Any, Z: np.ndarray) -> np.ndarray:
    """What a fitted estimator says of rows: a number, or the grade to expect."""
    if not _is_classifier(made):
        return np.asarray(made.predict(Z), np.float64)
    if hasattr(made, "predict_proba"):
        return np.asarray(made.predict_proba(Z) @ np.asarray(made.classes_, np.float64))
    return np.asarray(made.decision_function(Z), np.float64)
