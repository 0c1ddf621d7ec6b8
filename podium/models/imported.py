"""Models that other programs trained: they score, explain, inspect and save, and cannot be trained here.

What a file of another program leaves open (objective, regularisation, data) cannot be had from its trees, so `fit` says
which model to train instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any, ClassVar, NoReturn

import numpy as np

from podium._runtime.compiler import Array, kernel, readonly
from podium.data.sparse import FeatureMatrix
from podium.learners.linear.function import LinearFunction
from podium.learners.trees.scoring.forest import FOREST_ARRAYS, Forest
from podium.learners.trees.scoring.walking import Scorer as ForestScorer
from podium.metrics.base import Metric
from podium.metrics.registry import parse_metric
from podium.models.frame.estimator import check_fitted
from podium.models.frame.inspection import Inspection, LinearInspection, about_model, inspect
from podium.models.frame.parameters import parametrized
from podium.models.frame.ranker import FittedState, Ranker
from podium.models.frame.scoring import RowScorer, Scorer
from podium.models.frame.transforms import Queries
from podium.persistence.validation import Fact, is_number

# What a program does to a value before its trees see it, by feature.
AS_IS, ZERO_MISSING, TRUNCATED, NUMBERED = 0, 1, 2, 3
TINY = np.float32(1e-35)  # LightGBM takes what is not larger for 0
_BLOCK_ROWS = 1024
NOTHING, INVALID = np.float32(-1), np.float32(-2)  # numbers of categories


def prepare(X: Array, prepared: Array) -> Array:
    """The rows as the trees see them: a copy, unless nothing is done to any feature.

    `ZERO_MISSING`: |x| <= 1e-35 is missing. `TRUNCATED`: categories are integers, 2.7 is 2.
    `NUMBERED`: so are these, and missing values are category -1, which sets can list; all else below 0 is -2.
    """
    if not prepared.any():
        return X
    rows = X.copy()
    _prepare(rows, readonly(prepared))
    return rows


@kernel
def _prepare(rows: Array, prepared: Array) -> None:
    for i in range(len(rows)):
        for f in range(len(prepared)):
            x = rows[i, f]
            if prepared[f] == ZERO_MISSING and -TINY <= x <= TINY:
                rows[i, f] = np.float32(np.nan)
            elif prepared[f] == TRUNCATED:
                rows[i, f] = np.trunc(x)
            elif prepared[f] == NUMBERED:
                rows[i, f] = NOTHING if np.isnan(x) else INVALID if x < 0 else np.floor(x)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= 200


@parametrized
class ImportedModel(Ranker):
    """The frame of models that other programs trained."""

    def fit(self, X: Any, y: Any = None, qid: Any = None, **options: Any) -> NoReturn:
        """Refused: a file of another program holds what was learned, not how."""
        source = getattr(self, "source_", "another program")
        held = f"It was imported ({source}): what it learned is known, how it was trained is not"
        raise ValueError(f"{type(self).__name__} cannot be trained. {held}. {self.advice}")

    advice: ClassVar[str] = ""  # what to train in its place

    def evaluation_metrics(self) -> list[Metric]:
        return [parse_metric("ndcg@10")] if self.eval_metric is None else super().evaluation_metrics()

    def note_import(self, n_features: int, names: list[str] | None, source: str) -> None:
        """What every fitted model has."""
        self.n_features_in_, self.n_queries_, self.categories_ = n_features, 0, {}
        self.best_iteration_, self.best_score_, self.evals_ = 0, None, {}
        self.transform_ = self.imputation_ = self.init_ = None
        self.fitted_parameters_ = {}
        self.source_ = source
        if names is not None:
            self.feature_names_in_ = np.array(names, dtype=object)


@dataclass(frozen=True)
class ImportedInspection(Inspection):
    """A forest that was imported."""

    source: str = ""

    def sentences(self) -> list[str]:
        first, *others = super().sentences()
        return [first, f"imported from: {self.source}", *others]


@parametrized
class ImportedForest(ImportedModel):
    """Trees that another program trained, scored with the bits of that program where it adds up as we do."""

    advice: ClassVar[str] = "Train a new LambdaMART; with init=(this model) it adds to these scores."
    state_facts: ClassVar[Mapping[str, Fact]] = {
        "start": Fact("a finite number", is_number),
        "factor": Fact("a finite number", is_number),
        "divisor": Fact("a number above 0", lambda value: is_number(value) and value > 0),
        "single_sums": Fact("true or false", lambda value: isinstance(value, bool)),
        "source": Fact("a short text", _is_text),
    }
    state_arrays: ClassVar[tuple[str, ...]] = (*FOREST_ARRAYS, "prepared")

    @classmethod
    def of(
        cls,
        forest: Forest,
        source: str,
        *,
        names: list[str] | None = None,
        prepared: Array | None = None,
        factor: float = 1.0,
        divisor: float = 1.0,
        categories: Mapping[str, Sequence[Any]] = MappingProxyType({}),
        single_sums: bool = False,
    ) -> ImportedForest:
        """names: of the features; categories: of the features whose numbers are places in a list, by name.

        single_sums: whether the sum is rounded to float32 after each tree, though leaves are float64.
        """
        model = cls()
        model.note_import(forest.n_features, names, source)
        model.categories_ = {name: list(known) for name, known in categories.items()}
        model.forest_, model.factor_, model.divisor_, model.single_sums_ = forest, factor, divisor, single_sums
        model.prepared_ = np.zeros(forest.n_features, np.uint8) if prepared is None else prepared
        model.best_iteration_ = forest.n_trees
        model.bundles_ = []
        return model

    def refuse_unsupported(self, X: FeatureMatrix, where: str, fitted: bool = False) -> None:
        if not isinstance(X, np.ndarray) and self.prepared_.any():
            problem = f"does not take sparse rows ({where}): its trees see changed values, of zeros too"
            raise ValueError(f"{type(self).__name__} {problem}. Use X.toarray().")
        super().refuse_unsupported(X, where, fitted)

    def columns(self, rows: FeatureMatrix, queries: Queries | None) -> FeatureMatrix:
        """The rows as the trees see them."""
        return prepare(rows, self.prepared_) if isinstance(rows, np.ndarray) else rows

    def score_columns(self, X: FeatureMatrix, queries: Queries | None) -> np.ndarray:
        if self.single_sums_:
            return self._finish(_add_in_single(self.forest_, X, self.n_jobs))
        return self._finish(self.forest_.scores(X, None, self.n_jobs))

    def _finish(self, sums: np.ndarray) -> np.ndarray:
        return np.asarray(sums.astype(np.float64, copy=False) * self.factor_ / self.divisor_)

    def scorer(self) -> Scorer:
        """As of every model; the trees are walked as in `predict`."""
        check_fitted(self)
        is_scaled = self.prepared_.any() or self.factor_ != 1 or self.divisor_ != 1
        if is_scaled or self.single_sums_ or self.forest_.value.dtype != np.float64:
            return RowScorer(partial(self.score_rows, queries=None), self.n_features_in_, type(self).__name__)
        return ForestScorer(self.forest_, None, type(self).__name__)

    def summands(self) -> list[Any]:
        values = self.forest_.value.astype(np.float64) * self.factor_ / self.divisor_
        return [replace(self.forest_, value=values, start=self.forest_.start * self.factor_ / self.divisor_)]

    @property
    def feature_importances_(self) -> np.ndarray:
        """The share of each feature in the total gain of all splits, where the file has gains; else in their number."""
        gain = self.forest_.importances("gain")
        weight = gain if gain.sum() > 0 else self.forest_.importances("split")
        return np.asarray(weight / weight.sum() if weight.sum() > 0 else weight)

    def inspect(self) -> ImportedInspection:
        """What the model is made of: its trees, and the features they use. Print it."""
        seen = inspect(self)
        values = {name: getattr(seen, name) for name in asdict(seen)}
        return ImportedInspection(**values, source=self.source_)

    def _feature_number(self, parameter: str, name: Any) -> int:
        return list(map(str, self.feature_names_in_)).index(str(name))

    def _columns_of(self, features: Sequence[int]) -> Sequence[int]:
        return features  # no transform makes columns of them

    def fitted_state(self) -> FittedState:
        arrays = {name: getattr(self.forest_, name) for name in FOREST_ARRAYS} | {"prepared": self.prepared_}
        facts = {"start": float(self.forest_.start), "factor": self.factor_, "divisor": self.divisor_}
        return FittedState(facts | {"source": self.source_, "single_sums": self.single_sums_}, arrays)

    def restore_state(self, state: FittedState) -> None:
        arrays = dict(state.arrays)
        self.prepared_ = arrays.pop("prepared")
        self.forest_ = Forest(**arrays, start=float(state.facts["start"]), n_features=self.n_columns)
        self.factor_, self.divisor_ = float(state.facts["factor"]), float(state.facts["divisor"])
        self.source_, self.single_sums_ = str(state.facts["source"]), bool(state.facts["single_sums"])
        self.bundles_: list[list[int]] = []

    def check_state(self) -> None:
        super().check_state()
        self.forest_.check(np.float32 if self.forest_.value.dtype == np.float32 else np.float64)
        prepared = self.prepared_
        if prepared.dtype != np.uint8 or prepared.shape != (self.n_columns,) or (prepared > NUMBERED).any():
            raise ValueError("prepared must have one code per feature")
        if not np.isfinite(self.forest_.largest_score * abs(self.factor_) / self.divisor_):
            raise ValueError("a score would not be finite")
        if self.best_iteration_ > self.forest_.n_trees:
            raise ValueError(f"best_iteration is {self.best_iteration_} of {self.forest_.n_trees} trees")

    def largest_score(self) -> float:
        return float(self.forest_.largest_score * abs(self.factor_) / self.divisor_)


def _add_in_single(forest: Forest, X: FeatureMatrix, n_jobs: int | None) -> Array:
    """start + the leaf of the first tree + ..., rounded to float32 after each addition."""
    total = np.full(X.shape[0], forest.start, np.float32)
    for first in range(0, len(total), _BLOCK_ROWS):
        part = total[first : first + _BLOCK_ROWS]
        for added in forest.contributions(X[first : first + _BLOCK_ROWS], n_jobs).T:
            part[:] = part + added
    return total


@parametrized
class ImportedLinear(ImportedModel):
    """One weight per feature, from a file of another program; missing values count as 0.

    Products are added up from the first feature to the last, so that every program can give the same bits.
    """

    advice: ClassVar[str] = "Train a new model, for example Linear or CoordinateAscent."
    state_facts: ClassVar[Mapping[str, Fact]] = {
        "intercept": Fact("a finite number", is_number),
        "source": Fact("a short text", _is_text),
    }
    state_arrays: ClassVar[tuple[str, ...]] = ("coef",)
    allows_sparse: ClassVar[bool] = False

    @classmethod
    def of(cls, weights: Array, intercept: float, source: str, names: list[str] | None = None) -> ImportedLinear:
        model = cls()
        model.note_import(len(weights), names, source)
        model.coef_, model.intercept_ = np.asarray(weights, np.float64), float(intercept)
        return model

    def score_columns(self, X: FeatureMatrix, queries: Queries | None) -> np.ndarray:
        scores = np.zeros(len(X))
        for feature in np.flatnonzero(self.coef_).tolist():
            column = np.asarray(X[:, feature], np.float64)
            scores += self.coef_[feature] * np.where(np.isnan(column), 0.0, column)
        return scores + self.intercept_

    def _function(self) -> LinearFunction:
        return LinearFunction(self.coef_, self.intercept_, np.zeros(len(self.coef_)))

    def summands(self) -> list[Any]:
        return [self._function()]

    @property
    def feature_importances_(self) -> np.ndarray:
        """The share of each weight in the sum of their sizes; comparable where features have comparable scales."""
        sizes = np.abs(self.coef_)
        return np.asarray(sizes / sizes.sum() if sizes.sum() > 0 else sizes)

    def inspect(self) -> LinearInspection:
        """What the model is made of: its weights. Print it."""
        order = np.argsort(-np.abs(self.coef_), kind="stable")
        weights = [(str(self.column_names_[number]), float(self.coef_[number])) for number in order]
        return LinearInspection(*about_model(self), weights, float(self.intercept_))

    def fitted_state(self) -> FittedState:
        return FittedState({"intercept": self.intercept_, "source": self.source_}, {"coef": self.coef_})

    def restore_state(self, state: FittedState) -> None:
        self.coef_, self.intercept_ = state.arrays["coef"], float(state.facts["intercept"])
        self.source_ = str(state.facts["source"])

    def check_state(self) -> None:
        super().check_state()
        if self.coef_.dtype != np.float64 or self.coef_.shape != (self.n_columns,) or not np.isfinite(self.coef_).all():
            raise ValueError("coef must have one finite float64 number per feature")
