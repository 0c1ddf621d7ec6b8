"""Boosted trees: the frame of all models of trees. What the trees fit, a model of `named.py` says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from numbers import Integral
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np

from podium._runtime.warn import warn
from podium._runtime.words import counted
from podium.data.ranking import RankingData, refuse_beside_data
from podium.data.sparse import FeatureMatrix
from podium.formats.names import Names, find_names
from podium.learners.rows import finite_scores
from podium.learners.trees.scoring.forest import FOREST_ARRAYS, Forest
from podium.learners.trees.scoring.walking import Scorer
from podium.metrics.registry import parse_metric
from podium.models.frame.arguments import refuse_number_as_qid
from podium.models.frame.estimator import check_fitted
from podium.models.frame.parameters import (
    ABOVE_0,
    INTEGER,
    LARGE,
    STRUCTURE,
    SWITCH,
    TRANSFORM_SPACE,
    BinParameter,
    SeedParameter,
    parameter,
    parametrized,
)
from podium.models.frame.ranker import Ranker, all_or_nothing
from podium.models.frame.scoring import RowScorer
from podium.models.frame.starting import InitParameter, StartingRanker
from podium.models.frame.transforms import one_query, same_transforms
from podium.models.frame.weights import row_weights
from podium.persistence.validation import TREE_FACTS, Fact

# Training code is imported by the methods that train: a model that is loaded to score needs none of it.
if TYPE_CHECKING:
    from podium.learners.monitor import Monitor
    from podium.learners.trees.training.boosting import Boosting, BoostingRules, StepRule
    from podium.models.frame.inspection import Inspection
    from podium.models.trees.pruning import Pruning

GROWTHS = ("leaf", "level", "oblivious")
STEPS = ("newton", "mean", "exact", "tree", "line_search")
GOSS_UNITS = ("row", "query")
LEAF_SPACE: dict[str, Any] = {
    "max_leaf_nodes": {"low": 4, "high": 127, "log": True},
    "min_samples_leaf": {"low": 5, "high": 200, "log": True},
}
BOOSTED_SPACE: dict[str, Any] = {
    "learning_rate": {"low": 0.02, "high": 0.3, "log": True},
    **LEAF_SPACE,
    "feature_fraction": {"low": 0.3, "high": 1.0},
    "l2_regularization": [0.0, 1.0, 10.0],
    **TRANSFORM_SPACE,
}


def _is_goss_pair(value: Any) -> bool:
    try:
        pair = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        return False
    return pair.shape == (2,) and bool((pair >= 0).all() and pair[1] > 0 and pair.sum() <= 1)


def _is_feature_list(value: Any) -> bool:
    return not isinstance(value, str) and bool(np.iterable(value))


def _is_sign_mapping(value: Any) -> bool:
    return isinstance(value, Mapping) and all(sign in (1, -1) for sign in value.values())


@parametrized
class GrowthParameters:
    """The shape of trees that are not always oblivious."""

    max_leaf_nodes: int = parameter(31, "Maximum number of leaves per tree.", low=2, high=2**16)
    min_samples_leaf: int = parameter(20, "Minimum number of documents per leaf.", low=1, high=2**40)
    max_impurity: float = parameter(
        0.0, "A tree stops growing once its impurity is not above this; 0 for no limit.", low=0, high=LARGE
    )
    growth: str = parameter(
        "leaf",
        '"leaf" splits the leaf with the largest gain, "level" all leaves of a level before those of the next, '
        '"oblivious" all leaves of a level by the same split: then max_depth is the depth of the tree (None: as '
        "max_leaf_nodes allows), and min_samples_leaf and max_impurity are not used.",
        choices=GROWTHS,
    )


@parametrized
class BoostingParameters(InitParameter):
    """Trees that are added to the scores of earlier ones, and the samples they are grown on."""

    learning_rate: float = parameter(0.1, "Factor for the values of each tree (shrinkage).", low=ABOVE_0, high=1e3)
    row_fraction: float = parameter(1.0, "Fraction of the documents sampled per tree.", low=ABOVE_0, high=1)
    query_fraction: float = parameter(1.0, "Fraction of the queries sampled per tree.", low=ABOVE_0, high=1)
    goss: Any = parameter(
        None,
        "Gradient-based one-side sampling (a, b): each tree is grown on the fraction a of the documents with the "
        "largest gradients and on a random fraction b, which stands for all others. None uses all documents.",
        kind=STRUCTURE,
        optional=True,
        holds=_is_goss_pair,
        words="two fractions such as [0.2, 0.1], the second above 0, together at most 1, or None",
    )
    goss_by: str = parameter(
        "row", 'What GOSS keeps and samples: single documents, "row", or whole queries, "query".', choices=GOSS_UNITS
    )
    drop_rate: float = parameter(
        0.0, "DART: fraction of the trees that is dropped while the next one is grown; 0 for no DART.", low=0, high=1
    )
    skip_drop: float = parameter(0.5, "DART: probability that no tree is dropped in a step.", low=0, high=1)
    max_drop: int = parameter(50, "DART: maximum number of trees dropped per step.", low=1, high=10**6)


@parametrized
class BoostedTrees(BinParameter, SeedParameter, StartingRanker):
    """Trees added one by one. Subclasses define the objective."""

    n_estimators: int = parameter(100, "Number of trees.", low=1, high=10**6)
    max_depth: int | None = parameter(
        None, "Maximum depth of a tree; None for no limit.", kind=INTEGER, low=1, high=2**16, optional=True
    )
    min_hessian: float = parameter(1e-3, "Minimum sum of hessians per leaf.", low=0, high=LARGE)
    min_gain: float = parameter(0.0, "Minimum gain to split: a split must gain more.", low=0, high=LARGE)
    l2_regularization: float = parameter(0.0, "L2 penalty on leaf values.", low=0, high=LARGE)
    max_delta_step: float = parameter(
        0.0, "Maximum absolute leaf value before the learning rate; 0 for no limit.", low=0, high=LARGE
    )
    step: str = parameter(
        "newton",
        'How leaf values are computed: a "newton" step, the "mean" of the negative gradients, the "exact" minimum of '
        'the loss per leaf, the mean gradients with one step size per "tree", or Newton steps with one step size per '
        'tree by exact "line_search" of the metric on the training data.',
        choices=STEPS,
    )
    feature_fraction: float = parameter(1.0, "Fraction of the features sampled per tree.", low=ABOVE_0, high=1)
    extra_trees: bool = parameter(
        False,
        "Extremely randomized trees: one random threshold per feature and node is tried instead of all.",
    )
    max_bins: int = 255
    bundle_features: bool | None = parameter(
        None,
        "Exclusive feature bundling (EFB): features that hardly ever have non-default values in the same document "
        "share a histogram. None bundles if X is sparse, or dense with one value nearly everywhere in most columns.",
        kind=SWITCH,
        optional=True,
    )
    max_conflicts: float = parameter(
        0.0,
        "Maximum fraction of the documents in which features of a bundle may collide; 0 keeps the trees exact.",
        low=0,
        high=1,
    )
    monotone: Any = parameter(
        None,
        "Monotone constraints, by feature name or number from 0: 1 if the score must not fall as the feature grows, -1 "
        "if it must not rise.",
        kind=STRUCTURE,
        optional=True,
        holds=_is_sign_mapping,
        words='a mapping from features to 1 or -1 such as {"3": 1, "price": -1}, or None',
    )
    categorical: Any = parameter(
        None,
        "Categorical features, by name or number from 0. Columns of a table that have a categorical type need not be "
        "listed.",
        kind=STRUCTURE,
        optional=True,
        holds=_is_feature_list,
        words='a list of features such as [3, "colour"], or None',
    )
    category_smoothing: float = parameter(
        10.0,
        "Added to the hessian of each category when categories are ordered for a split: rare ones move to the middle.",
        low=0,
        high=LARGE,
    )

    # The values of models without the groups of parameters above.
    max_leaf_nodes, min_samples_leaf, max_impurity, growth = 31, 20, 0.0, "leaf"
    learning_rate, row_fraction, query_fraction, goss_by = 1.0, 1.0, 1.0, "row"
    drop_rate, skip_drop, max_drop = 0.0, 0.5, 50
    goss = cast(Any, None)

    @all_or_nothing
    def fit_more(self, X: Any, y: Any = None, qid: Any = None, *, n_estimators: int, **options: Any) -> BoostedTrees:
        """Add `n_estimators` trees to a fitted model, on the same or other data; `options` are those of `fit`.

        With a checkpoint, begin again from the same fitted model: the file knows which trees it started from.
        """
        check_fitted(self)
        more: Any = n_estimators
        if isinstance(more, bool) or not isinstance(more, Integral) or int(more) < 1:
            raise ValueError(f"fit_more: n_estimators must be an integer from 1; got {more!r}.")
        return self._train(X, y, qid, **options, more=int(more))

    def refit(
        self,
        X: Any,
        y: Any = None,
        qid: Any = None,
        *,
        group: Any = None,
        sample_weight: Any = None,
        query_weight: Any = None,
        decay: float = 0.9,
    ) -> BoostedTrees:
        """A new model with the same trees and values for other data: `decay` of the old value, the rest of the new one.

        Trees are gone through in their order, each leaf taking Newton's step for the rows that reach it; a leaf that
        none reaches keeps its value.
        """
        from podium.learners.trees.training.boosting import refit_values

        check_fitted(self)
        if not 0 <= decay <= 1:
            raise ValueError(f"refit: decay must be from 0 to 1; got {decay!r}.")
        self._check_parameters()
        model = copy(self)
        data = self._training_data(X, y, qid, group, sample_weight, query_weight, known=True)
        rules, base_scores, data = self._rules(), self._base_scores(data), self._transformed(data.grouped())
        model.forest_ = refit_values(self.forest_, data.X, self._bind(data), rules, decay, base_scores)
        return model

    def prune(self, X: Any, y: Any = None, qid: Any = None, *, metric: Any = None, tolerance: float = 0.0) -> Pruning:
        """A smaller model: without the trees that other data than the training's can do without.

        X, y, qid: such data, or a RankingData. metric: what may fall by no more than `tolerance`; None takes what
        evaluation sets are judged by. Returns the model and a table of quality against time; this model is unchanged.
        """
        from podium.models.trees.pruning import Pruning, prune_forest

        check_fitted(self)
        if isinstance(X, RankingData):
            refuse_beside_data("prune", y=y, qid=qid)
        data = self._transformed(self._eval_data(X if isinstance(X, RankingData) else (X, y, qid), 0))
        judge = self._judging_metric() if metric is None else parse_metric(metric)
        model = copy(self)
        model.forest_, steps = prune_forest(self.forest_, data, self._offset(data), judge, tolerance, self.n_jobs)
        model.best_iteration_ = model.forest_.n_trees
        return Pruning(model, judge.name, steps)

    @property
    def feature_importances_(self) -> np.ndarray:
        """The share of each feature, or of each column of its transforms, in the total gain of all splits."""
        gain = self.forest_.importances("gain")
        total = gain.sum()
        return gain / total if total > 0 else gain

    def inspect(self) -> Inspection:
        """What the model is made of: its trees, the features they use, its parameters. Print it."""
        from podium.models.frame.inspection import inspect

        return inspect(self)

    def _learner(self, data: RankingData, continued: bool) -> Boosting:
        from podium.learners.trees.training.boosting import Boosting

        base_scores, data = self._base_scores(data), data.grouped()
        weights = row_weights(data)
        return Boosting(
            data.X,
            data.offsets,
            self._bind(data),
            self._rules(),
            base_scores=base_scores,
            forest=self.forest_ if continued else None,
            step_rule=self._line_search(data) if self.step == "line_search" else None,
            counts=None if weights is None or not weights.any() else weights > 0,
        )

    def _line_search(self, data: RankingData) -> StepRule:
        """The step that the training metric likes best, up to nine times Newton's."""
        from podium.models.trees.steps import metric_steps

        return metric_steps(data, parse_metric(self._training_metric()), self.n_jobs)

    def _training_metric(self) -> Any:
        """The metric that the model optimizes; where it has none, the one that evaluation sets are judged by."""
        return self._aim() if hasattr(self, "metric") else self._judging_metric()

    def _n_steps(self) -> int:
        return self.n_estimators

    step_word: ClassVar[str] = "tree"
    steps_parameter: ClassVar[str | None] = "n_estimators"
    search_space: ClassVar[Mapping[str, Any]] = BOOSTED_SPACE
    _FACTS: ClassVar[Mapping[str, Fact]] = TREE_FACTS
    _ARRAYS: ClassVar[tuple[str, ...]] = FOREST_ARRAYS

    def _fitted_meta(self) -> dict[str, Any]:
        return {"start": self.forest_.start, "bundles": self.bundles_}

    def _fitted_arrays(self) -> dict[str, np.ndarray]:
        return {name: getattr(self.forest_, name) for name in FOREST_ARRAYS}

    def _restore_fitted(self, meta: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
        self.bundles_ = [[int(f) for f in bundle] for bundle in meta["bundles"]]
        self.forest_ = Forest(**arrays, start=float(meta["start"]), n_features=self._n_columns)

    def _check_fitted(self) -> None:
        super()._check_fitted()
        self._check_goss()
        self.forest_.check()
        if self.best_iteration_ > self.forest_.n_trees:
            raise ValueError(f"best_iteration is {self.best_iteration_} of {self.forest_.n_trees} trees")
        self._check_categories()
        self._check_base()

    def _check_categories(self) -> None:
        """A category in a split is the place of its name in the column's list."""
        sets = self.forest_.sets
        for column, names in self.categories_.items():
            own = np.isin(sets.feature, self._columns_of([self._feature_number("categories", column)]))
            values = sets.values[np.repeat(own, np.diff(sets.start))]
            if (values < 0).any() or (values >= len(names)).any() or (values != np.floor(values)).any():
                raise ValueError(f"a split asks for a category of {column!r} that is not there")

    def _largest_score(self) -> float:
        """No score is further from 0, with those of the models that this one started from."""
        base = self._base_model()
        return float(self.forest_.largest_score + (0.0 if base is None else base._largest_score()))

    def _set_fitted(self, learner: Boosting) -> None:
        self.bundles_, self.forest_ = learner.bundles(), learner.finished()

    def _warn_if_nothing_learned(self, learner: Boosting, monitor: Monitor) -> None:
        """Where only queries with different labels teach, `fit` has warned already that there are none."""
        from podium.models.trees.no_splits import explain_no_splits, has_gradients, without_splits

        if learner.is_done:
            metric, n = parse_metric(self._training_metric()).name, learner.n_steps
            found = f"no step along tree {n + 1} improves {metric} on the training data"
            warn(f"{type(self).__name__}: training ended after {counted(n, 'tree')}: {found} (step='line_search').")
        grown = learner.trees[len(learner.trees) - monitor.steps :]
        if without_splits(grown) and (has_gradients(learner) or not self._needs_pairs()):
            warn(explain_no_splits(learner))

    def predict(self, X: Any, qid: Any = None, *, n_trees: int | None = None) -> np.ndarray:
        """One score per row, by the first `n_trees` trees or by all. A transform within the query needs `qid`."""
        if n_trees is None:
            return super().predict(X, qid)
        refuse_number_as_qid(qid)
        rows, queries = self._asked(X, qid)
        scores = self._scores(self._columns(rows, queries), self._check_trees(n_trees))
        return finite_scores(self._with_base(scores, rows, queries), type(self).__name__)

    def staged_predict(self, X: Any, qid: Any = None) -> Iterator[np.ndarray]:
        """The scores after one tree, after two, and so on; the n-th are those of `predict(X, n_trees=n)`."""
        rows, queries = self._asked(X, qid)
        columns = self._columns(rows, queries)
        scores = self.forest_.scores(columns, n_trees=0)
        base = None if self._base_model() is None else self._base_predictions(rows, queries)
        for tree in range(self.forest_.n_trees):
            self.forest_.add_scores(columns, tree, tree + 1, scores)
            yield finite_scores(scores.copy() if base is None else scores + base, type(self).__name__)

    def tree_contributions(self, X: Any, qid: Any = None) -> np.ndarray:
        """What each tree adds to each score, (rows, trees).

        `forest_.start` and a row's contributions, added from left to right, give its score to the last bit; the scores
        of an `init` model come on top.
        """
        columns = self._columns(*self._asked(X, qid))
        return self.forest_.contributions(columns, self.n_jobs)

    def scorer(self, n_trees: int | None = None) -> Scorer | RowScorer:
        """A bare function for services: float32 rows in C order in, float32 scores out, on the caller's thread.

        With a transform within the query, the rows of one call are one query.
        """
        check_fitted(self)
        forest = self.forest_ if n_trees is None else self.forest_.first(self._check_trees(n_trees))
        base: Any = self._base_model()
        if base is not None:
            base = base.scorer().exact if isinstance(base, Ranker) else self._base_predictions
        if self.transform_ is None:
            return Scorer(forest, base, type(self).__name__)
        trees, transform = Scorer(forest), self.transform_

        def exact(X: np.ndarray) -> np.ndarray:
            scores = trees.exact(transform.apply(X, one_query(len(X)), 1))
            return scores if base is None else scores + base(X)

        return RowScorer(exact, self.n_features_in_, type(self).__name__)

    def _check_trees(self, n_trees: Any) -> int:
        there = self.forest_.n_trees
        if isinstance(n_trees, bool) or not isinstance(n_trees, Integral) or not 0 <= int(n_trees) <= there:
            raise ValueError(f"n_trees must be an integer from 0 to {there}, the number of trees; got {n_trees!r}.")
        return int(n_trees)

    def _scores(self, X: FeatureMatrix, n_trees: int | None = None) -> np.ndarray:
        """By the trees alone."""
        return self.forest_.scores(X, n_trees, self.n_jobs)

    def _summands(self) -> list[Any]:
        base = self._base_model()
        if base is not None and not isinstance(base, Ranker):
            raise ValueError(f"init is a {type(base).__name__}; only models of Podium can be explained.")
        if base is not None and not same_transforms(self.transform_, base.transform_):
            raise ValueError(
                f"{type(self).__name__} and its init have different transforms, so their scores are sums over "
                "different columns. Explain them one by one, or train both with the same transform on the same data."
            )
        return [self.forest_, *(base._summands() if base is not None else [])]

    def _rules(self) -> BoostingRules:
        from podium.learners.trees.training.boosting import BoostingRules
        from podium.learners.trees.training.bundling import LayoutRules
        from podium.learners.trees.training.growing import GrowthRules
        from podium.learners.trees.training.sampling import SamplingRules

        depth = self.max_depth or 0
        if self.growth != "leaf" and not depth:
            levels = np.log2(self.max_leaf_nodes)
            depth = max(1, int(np.ceil(levels) if self.growth == "level" else levels))
        leaves = min(self.max_leaf_nodes, 2**depth) if depth and depth < 31 else self.max_leaf_nodes
        if self.growth == "oblivious":
            leaves = 2 ** min(depth, 16)
        growth = GrowthRules(
            max_leaf_nodes=leaves,
            max_depth=depth,
            min_samples_leaf=self.min_samples_leaf,
            min_hessian=self.min_hessian,
            min_gain=self.min_gain,
            max_impurity=self.max_impurity,
            l2_regularization=self.l2_regularization,
            growth=self.growth,
            extra_trees=bool(self.extra_trees),
        )
        return BoostingRules(
            learning_rate=self.learning_rate,
            step=self.step,
            max_delta_step=self.max_delta_step,
            max_bins=self.max_bins,
            drop_rate=self.drop_rate,
            skip_drop=self.skip_drop,
            max_drop=self.max_drop,
            seed=self.random_state,
            n_jobs=self.n_jobs,
            growth=growth,
            sampling=SamplingRules(
                row_fraction=self.row_fraction,
                query_fraction=self.query_fraction,
                feature_fraction=self.feature_fraction,
                goss=None if self.goss is None else (float(self.goss[0]), float(self.goss[1])),
                goss_by=self.goss_by,
            ),
            layout=LayoutRules(
                bundle_features=self.bundle_features,
                max_conflicts=self.max_conflicts,
                categorical=self._columns_of(self._categorical()),
                category_smoothing=float(self.category_smoothing),
                signs=self._signs(),
            ),
        )

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_goss()
        self._check_line_search()
        self._objective()  # a misspelt name is answered before any work
        self._judging_metric()

    def _find_names(self, X: Any) -> Names:
        return find_names(X, self.categorical or ())

    def _categorical(self) -> tuple[int, ...]:
        """The columns of categories: those that are asked for, and those that hold names."""
        asked = [*(self.categorical or ()), *getattr(self, "categories_", {})]
        return tuple(sorted({self._feature_number("categorical", name) for name in asked}))

    def _signs(self) -> tuple[int, ...]:
        """One per column: the direction in which the score may go as it grows; columns of a feature rise with it."""
        if not self.monotone:
            return ()
        signs = [0] * self._n_columns
        named = self._categorical()
        for name, sign in self.monotone.items():
            number = self._feature_number("monotone", name)
            if number in named:
                raise ValueError(f"{type(self).__name__}: feature {name!r} cannot be monotone: it is categorical.")
            for column in self._columns_of([number]):
                signs[column] = int(sign)
        return tuple(signs)

    def _untransformed(self) -> tuple[int, ...]:
        return self._categorical()

    def _columns_of(self, features: Sequence[int]) -> tuple[int, ...]:
        """The columns that the learner sees of these features."""
        if self.transform_ is None:
            return tuple(features)
        return tuple(column for feature in features for column in self.transform_.columns_of(feature))

    def _feature_number(self, parameter: str, name: Any) -> int:
        """The column of a feature that is called by its name or counted from 0."""
        names = [str(known) for known in getattr(self, "feature_names_in_", [])]
        if isinstance(name, str) and name in names:
            return names.index(name)
        number = int(name) if isinstance(name, Integral) or str(name).isdecimal() else -1
        if 0 <= number < self.n_features_in_:
            return number
        about = f"one of {', '.join(names[:8])}" if names else f"a number below {self.n_features_in_}"
        raise ValueError(f"{type(self).__name__}: {parameter} names the feature {name!r}; expected {about}.")

    def _check_line_search(self) -> None:
        """Refuse parameters that a line search does not go with."""
        if self.step == "line_search" and self.drop_rate > 0:
            found = "step='line_search' does not support DART, which changes earlier trees after the search"
            raise ValueError(f"{type(self).__name__}: {found}; set drop_rate=0.")

    def _check_goss(self) -> None:
        """Refuse parameters that GOSS does not go with."""
        if self.goss is None:
            return
        if self.row_fraction < 1 or self.query_fraction < 1:
            raise ValueError(f"{type(self).__name__}: goss draws the rows; leave row_fraction and query_fraction at 1.")
        if self.step in ("exact", "tree"):
            raise ValueError(f"{type(self).__name__}: goss goes with step 'newton' or 'mean'; got {self.step!r}.")
