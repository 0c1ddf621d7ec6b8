"""Forms: what a model is to other programs. `Trees` are added up, a `LinearSum` has weights; a net is itself.

`form_of` makes one of a model, or says what cannot be expressed anywhere: columns made of the features within the
query, scores that are normalized within it. What only some formats cannot express, these refuse themselves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

import numpy as np

from podium._runtime.compiler import Array
from podium.exchange.claims import BITS, DOUBLE, SINGLE, Claim
from podium.learners.trees.scoring.categories import CategorySets
from podium.learners.trees.scoring.forest import NODE_ARRAYS, Forest
from podium.models.attention import SelfAttentionRanker
from podium.models.frame.estimator import check_fitted
from podium.models.frame.inspection import feature_names
from podium.models.frame.ranker import Ranker
from podium.models.imported import (
    AS_IS,
    NOTHING,
    NUMBERED,
    TINY,
    TRUNCATED,
    ZERO_MISSING,
    ImportedForest,
    ImportedLinear,
    prepare,
)
from podium.models.linear import LinearScores
from podium.models.nets import NetRanker
from podium.models.pointwise import EstimatorRanker
from podium.models.rankboost import RankBoost
from podium.models.trees.boosted import BoostedTrees

_LARGEST_SINGLE = float(np.finfo(np.float32).max)


@dataclass(frozen=True, eq=False)
class Trees:
    """score = factor * (start + the leaf of the first tree + that of the second + ...) / divisor

    The sum is taken from left to right, in the type of the forest's values.
    """

    forest: Forest
    names: Sequence[str]  # of the features
    prepared: Array  # (features,) uint8: what is done to a feature before trees see it (`models/imported.py`)
    factor: float = 1.0
    divisor: float = 1.0
    categories: Mapping[str, Sequence[Any]] = field(default_factory=dict)  # by feature: what its numbers stand for
    is_one_sum: bool = True  # whether the model itself adds up in this order
    complete: bool = False  # whether rows with missing values are ruled out

    @classmethod
    def of(cls, forest: Forest, names: Sequence[str], **more: Any) -> Trees:
        return cls(forest, names, np.full(forest.n_features, AS_IS, np.uint8), **more)

    @property
    def is_plain(self) -> bool:
        """Whether the score is the sum of the leaves and nothing else."""
        return self.factor == self.divisor == 1 and not self.prepared.any()

    def scores(self, X: Array) -> Array:
        """One float64 per row of X (rows, features), float32."""
        total = self.forest.scores(prepare(X, self.prepared), n_jobs=1).astype(np.float64)
        return total * self.factor / self.divisor

    def in_single(self) -> Trees:
        """The same trees, whose values are rounded to float32 and added up in float32."""
        if not self.forest.largest_score <= _LARGEST_SINGLE:
            problem = f"scores may be as large as {self.forest.largest_score:.3g}, which float32 does not hold"
            raise ValueError(f"{problem}. Train it on smaller labels, or export it as lightgbm.")
        start = float(np.float32(self.forest.start))
        return replace(self, forest=replace(self.forest, value=self.forest.value.astype(np.float32), start=start))

    def in_double(self) -> Trees:
        """The same trees, whose values are added up in float64."""
        return replace(self, forest=replace(self.forest, value=self.forest.value.astype(np.float64)))

    def claim(self, sums: type[np.floating[Any]], engine: str, conditions: Sequence[str] = ()) -> Claim:
        """What holds where a program adds the leaves up from left to right in this type: np.float64 or np.float32."""
        if self.is_one_sum and self.forest.value.dtype == sums:
            return Claim(BITS, engine, tuple(conditions))
        return Claim(DOUBLE if sums is np.float64 else SINGLE, engine, tuple(conditions))

    def scaled(self) -> Trees:
        """With factor and divisor in the values; a sum of other bits then, where there is one."""
        if self.factor == self.divisor == 1:
            return self
        value = self.forest.value.astype(np.float64) * self.factor / self.divisor
        forest = replace(self.forest, value=value, start=self.forest.start * self.factor / self.divisor)
        return replace(self, forest=forest, factor=1.0, divisor=1.0, is_one_sum=False)

    def with_start_as_tree(self) -> Trees:
        """The score before the first tree as a tree of one leaf, where it is not 0 or where there are no others."""
        forest = self.forest
        if forest.start == 0 and forest.n_trees:
            return self
        first = {"threshold": np.inf, "value": forest.start, "count": int(forest.count[:1].sum())}
        nodes: dict[str, Any] = {
            name: np.concatenate([[first.get(name, 0)], getattr(forest, name)]).astype(getattr(forest, name).dtype)
            for name in NODE_ARRAYS
        }
        nodes["left"][1:] += np.uint32(1)
        roots = np.concatenate([np.zeros(1, np.int64), forest.roots + 1])
        depths = np.concatenate([np.zeros(1, np.int64), forest.depths])
        return replace(self, forest=replace(forest, roots=roots, depths=depths, start=0.0, **nodes))


@dataclass(frozen=True, eq=False)
class LinearSum:
    """score = weights . row + intercept"""

    weights: Array  # (features,) float64
    intercept: float
    names: Sequence[str]
    missing_is_zero: bool = False  # else rows with missing values are refused
    is_one_sum: bool = False  # whether the model itself adds up in this order

    def scores(self, X: Array) -> Array:
        """One float64 per row, feature by feature."""
        total = np.zeros(len(X))
        X = np.where(np.isnan(X), np.float32(0), X) if self.missing_is_zero else X
        for feature, weight in enumerate(self.weights.tolist()):
            total += weight * X[:, feature].astype(np.float64)
        return total + self.intercept


@dataclass(frozen=True, eq=False)
class NetForm:
    """A net, or several whose scores are averaged; the model knows its layers."""

    model: Any
    names: Sequence[str]


Form = Trees | LinearSum | NetForm
_KINDS = {Trees: "trees", LinearSum: "linear models", NetForm: "nets"}
_ADVICE = {
    Trees: "Export it as lightgbm, xgboost or onnx.",
    LinearSum: "Export it as onnx, c, ltr or solr.",
    NetForm: "Export it as onnx.",
}


def refuse_form(form: Form, where: str, takes: Sequence[type]) -> NoReturn:
    """The error of a format that takes other forms only; `where` is the format, such as "LightGBM's text"."""
    taken = " and ".join(_KINDS[kind] for kind in takes)
    raise ValueError(f"{where} holds {taken}; this model is one of {_KINDS[type(form)]}. {_ADVICE[type(form)]}")


def as_trees(
    form: Form,
    where: str,
    *,
    sets: bool = True,
    zero_missing: bool = False,
    missing_listed: bool = False,
    takes: Sequence[type] = (Trees,),
) -> Trees:
    """The trees of a form for a format, with factor and divisor in their values; or what the format cannot express.

    sets: whether it has splits by categories; zero_missing: whether a feature's zeros can count as missing;
    missing_listed: whether missing values can go another way than categories that a split does not list.
    """
    if not isinstance(form, Trees):
        refuse_form(form, where, takes)
    if len(form.forest.sets) and not sets:
        tree, node, name = _first_set(form, np.ones(len(form.forest.sets), bool))
        advice = "Train it with the categories as numbers (categorical=None), or choose a format that has them."
        raise ValueError(f"tree {tree}, node {node}: {where} has no splits by categories, as of {name!r}. {advice}")
    if not missing_listed:
        _refuse_listed_missing(form, where)
    return _without_preparation(form, where, zero_missing).scaled()


def _first_set(form: Trees, which: Array) -> tuple[int, int, str]:
    """Tree (from 1), node (from 0) and feature of the first split by one of these sets of categories."""
    forest = form.forest
    of_set = (forest.feature >= forest.n_features) & (forest.left != np.arange(len(forest.left)))
    number = np.where(of_set, forest.feature.astype(np.int64) - forest.n_features, 0)
    node = int(np.argmax(of_set & which[number]))
    tree = int(np.searchsorted(forest.roots, node, side="right"))
    return tree, node - int(forest.roots[tree - 1]), form.names[int(forest.owner[node])]


def _without_preparation(form: Trees, where: str, zero_missing: bool) -> Trees:
    """Without what the format need not know: zeros that go where missing values go are no different from others."""
    codes = form.prepared.copy()
    codes[codes == TRUNCATED] = AS_IS  # categories are integers
    codes[(codes == NUMBERED) & ~np.isin(np.arange(len(codes)), form.forest.sets.feature[_lists_missing(form)])] = AS_IS
    for feature in np.flatnonzero(codes == ZERO_MISSING).tolist():
        if _zeros_follow_missing(form.forest, feature):
            codes[feature] = AS_IS
        elif not zero_missing:
            problem = f"zeros of feature {form.names[feature]!r} count as missing, which {where} cannot say"
            raise ValueError(f"{problem}. Train it without zero_as_missing, or with NaN in place of these zeros.")
    return replace(form, prepared=codes)


def _lists_missing(form: Trees) -> Array:
    """Whether each set of categories lists missing values."""
    sets = form.forest.sets
    first = sets.values[sets.start[:-1]] if len(sets) else np.empty(0, np.float32)
    return np.asarray((first == NOTHING) & (form.prepared[sets.feature] == NUMBERED))


def _refuse_listed_missing(form: Trees, where: str) -> None:
    lists = _lists_missing(form)
    if lists.any():
        tree, node, name = _first_set(form, lists)
        problem = f"missing values of {name!r} go another way than categories that are not listed, which {where}"
        raise ValueError(f"tree {tree}, node {node}: {problem} cannot say. Export it as xgboost.")


def _zeros_follow_missing(forest: Forest, feature: int) -> bool:
    """Whether each split sends values of |x| <= 1e-35 where it sends missing ones."""
    asks = (forest.owner == feature) & (forest.left != np.arange(len(forest.left)))
    threshold, right = forest.threshold[asks], forest.missing_right[asks].astype(bool)
    return bool(np.where(right, threshold < -TINY, threshold >= TINY).all())


def form_of(model: Any, complete: bool = False) -> Form:
    """What a fitted model is to other programs, or an error that says what they cannot express, and what to do.

    complete: whether rows with missing values are ruled out.
    """
    form = _form_of(model)
    return replace(form, complete=True) if complete and isinstance(form, Trees) else form


def _form_of(model: Any) -> Form:
    name = type(model).__name__
    if not isinstance(model, Ranker):
        raise TypeError(f"export takes a fitted model of Podium; got {name}.")
    check_fitted(model, "There is nothing to export; call fit first.")
    if model.transform_ is not None:
        advice = "Train it without transform, or make the columns before the features reach the model."
        raise ValueError(f"{name} has a transform of its features, which no other program computes. {advice}")
    names = feature_names(model)
    if isinstance(model, LinearScores):
        return _linear(model, names)
    if isinstance(model, SelfAttentionRanker):
        problem = "scores each document by attention to the others of its query, which no format here expresses"
        raise ValueError(f"{name} {problem}. Train a net without attention, such as LambdaRank.")
    if isinstance(model, NetRanker):
        if model.init_ is not None:
            _refuse_init(model)
        return NetForm(model, names)
    _refuse_imputation(model)
    if isinstance(model, BoostedTrees):
        return _with_init(model, Trees.of(model.forest_, names, categories=model.categories_))
    if isinstance(model, ImportedForest):
        scale: dict[str, Any] = {"factor": model.factor_, "divisor": model.divisor_}
        exact: dict[str, Any] = {"categories": model.categories_, "is_one_sum": not model.single_sums_}
        return Trees(model.forest_, names, model.prepared_, **scale, **exact)
    if isinstance(model, ImportedLinear):
        return LinearSum(model.coef_, float(model.intercept_), names, missing_is_zero=True, is_one_sum=True)
    if isinstance(model, RankBoost):
        return Trees.of(_stumps(model), names)
    if hasattr(model, "members_") and not model.needs_queries():
        return _weighted_sum(model, names)
    if isinstance(model, EstimatorRanker) and (linear := model.linear_function()) is not None:
        return LinearSum(linear.weights, linear.intercept, names)
    raise ValueError(f"{name} {_reason(model)}. Export one of: trees, linear models, RankSVM, RankBoost, nets.")


def _reason(model: Ranker) -> str:
    if model.needs_queries():
        return "scores a document beside the others of its query, which no format here expresses"
    return "has a scoring function that no format here expresses"


def _weighted_sum(model: Any, names: Sequence[str]) -> Form:
    """Members whose scores are added up as they are: trees together, or linear functions together."""
    weights, forms = model.member_weights(), [form_of(member) for member in model.members_]
    trees = [form for form in forms if isinstance(form, Trees) and form.is_plain]
    linear = [form for form in forms if isinstance(form, LinearSum)]
    if weights and len(trees) == len(forms):
        scaled = [replace(form.in_double(), factor=weight).scaled().forest for form, weight in zip(trees, weights)]
        parts = [tree for forest in scaled for tree in forest.split()]
        joined = Forest.join(parts, sum(forest.start for forest in scaled), scaled[0].n_features)
        return Trees.of(joined, names, is_one_sum=False)
    if weights and len(linear) == len(forms):
        total = np.sum([weight * form.weights for form, weight in zip(linear, weights)], axis=0)
        intercept = sum(weight * form.intercept for form, weight in zip(linear, weights))
        return LinearSum(total, intercept, names, missing_is_zero=all(form.missing_is_zero for form in linear))
    problem = "combines members that are neither all trees nor all linear functions, which has no format"
    raise ValueError(f"{type(model).__name__} {problem}. Export its members one by one: model.members_[0], ...")


def _refuse_imputation(model: Ranker) -> None:
    if model.imputation_ is not None:
        problem = "fills missing values before it scores, which other programs do not"
        raise ValueError(f"{type(model).__name__} {problem}. Fill them in the data, and train it without impute.")


def _linear(model: LinearScores, names: Sequence[str]) -> LinearSum:
    """Weights of the features; basis functions are no features."""
    name, filled = type(model).__name__, model.imputation_
    if getattr(model, "basis_", None) is not None:
        raise ValueError(f"{name} has basis functions, which no format here expresses. Train it with basis=None.")
    is_zero = filled is not None and not filled.values.any() and not len(filled.flagged)
    if filled is not None and not is_zero:
        _refuse_imputation(model)
    return LinearSum(np.asarray(model.coef_, np.float64), float(model.intercept_), names, missing_is_zero=is_zero)


def _with_init(model: BoostedTrees, trees: Trees) -> Trees:
    """With the trees of the init model before those of the model."""
    if model.init_ is None:
        return trees
    name = type(model).__name__
    if not isinstance(model.init_, Ranker):
        raise ValueError(f"{name} starts from the scores of a {type(model.init_).__name__}, which cannot be exported.")
    base = form_of(model.init_)
    if not isinstance(base, Trees) or not base.is_plain or base.forest.value.dtype != trees.forest.value.dtype:
        _refuse_init(model, ", or with an init model of trees")
    start = base.forest.start + trees.forest.start
    joined = Forest.join([*base.forest.split(), *trees.forest.split()], start, trees.forest.n_features)
    return replace(trees, forest=joined, is_one_sum=False)


def _refuse_init(model: Ranker, otherwise: str = "") -> NoReturn:
    problem = f"starts from the scores of {type(model.init_).__name__}, and sums of unlike models have no format"
    raise ValueError(f"{type(model).__name__} {problem}. Train it with init=None{otherwise}.")


def _stumps(model: RankBoost) -> Forest:
    """Weak rankers as trees of one split each: 0 up to the threshold, alpha above it."""
    rankers = model.rankers_
    sloping = rankers.low != rankers.high
    if sloping.any():
        number = int(np.argmax(sloping)) + 1
        advice = 'Train it with weak_ranker="threshold".'
        raise ValueError(
            f"RankBoost: weak ranker {number} is a slope of a feature, which no format expresses. {advice}"
        )
    rounds = len(rankers)
    split = np.arange(3 * rounds) % 3 == 0
    nodes: dict[str, Array] = {
        "feature": np.where(split, np.repeat(rankers.feature, 3), 0).astype(np.uint32),
        "threshold": np.where(split, np.repeat(rankers.low, 3), np.inf).astype(np.float32),
        "left": (np.arange(3 * rounds) + split).astype(np.uint32),
        "missing_right": np.where(split, np.repeat(rankers.default, 3), 0).astype(np.uint8),
        "value": np.where(np.arange(3 * rounds) % 3 == 2, np.repeat(rankers.alpha, 3), 0.0),
        "gain": np.where(split, np.abs(np.repeat(rankers.alpha, 3)), 0.0),
        "count": np.zeros(3 * rounds, np.int64),
    }
    roots, depths = np.arange(rounds + 1, dtype=np.int64) * 3, np.ones(rounds, np.int64)
    sets = CategorySets.none().arrays()
    return Forest(roots=roots, depths=depths, start=0.0, n_features=model.n_columns, **nodes, **sets)
