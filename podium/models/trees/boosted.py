"""Boosted trees: the frame of all models of trees. What the trees fit, a model of `named.py` says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from functools import partial
from numbers import Integral
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np

from podium._runtime.warn import warn
from podium._runtime.words import counted
from podium.data.ranking import RankingData, refuse_beside_data
from podium.data.sparse import FeatureMatrix
from podium.data.weights import row_weights, with_scaled_weights
from podium.formats.names import Names, find_names
from podium.learners.rows import finite_scores
from podium.learners.trees.scoring.forest import FOREST_ARRAYS, Forest
from podium.learners.trees.scoring.walking import Scorer as ForestScorer
from podium.metrics.base import Metric
from podium.metrics.registry import parse_metric
from podium.models.frame.arguments import eval_data, refuse_number_as_qid, training_data
from podium.models.frame.estimator import check_fitted
from podium.models.frame.holding_out import validation_parameter
from podium.models.frame.init_model import init_offset, init_predictions, init_scores
from podium.models.frame.parameters import (
    INTEGER,
    LARGE,
    STRUCTURE,
    SWITCH,
    BinParameter,
    SeedParameter,
    parameter,
    parametrized,
    rules_for,
)
from podium.models.frame.plan import FitOptions, TrainingPlan, TrainingRows, all_or_nothing, target_parameter
from podium.models.frame.ranker import FittedState, Ranker
from podium.models.frame.resolving import AutoParameters
from podium.models.frame.scoring import RowScorer, Scorer
from podium.models.frame.taking_pairs import check_takes_pairs, read_pairs
from podium.models.frame.transforms import Queries, one_query, same_transforms
from podium.models.trees.categories import refuse_unknown_categories
from podium.models.trees.devices import device_parameter, learner_on, scores_on
from podium.models.trees.exact_sums import exact_sums_parameter, is_rounded, rounding_of, trained_forest
from podium.models.trees.parameters import (
    BOOSTED_SPACE,
    SPLITS,
    STEPS,
    TREE_ATTRIBUTES,
    check_goss,
    is_feature_list,
    is_sign_mapping,
    size_parameter,
)
from podium.models.trees.sizes import sizes_for
from podium.persistence.validation import TREE_FACTS, Fact

# Training code is imported by the methods that train: a model that is loaded to score needs none of it.
if TYPE_CHECKING:
    from podium.learners.trees.training.boosting import Boosting, BoostingRules, StepRule
    from podium.models.frame.inspection import Inspection
    from podium.models.trees.pruning import Pruning


@parametrized
class BoostedTrees(BinParameter, SeedParameter, AutoParameters, Ranker):
    """Trees added one by one. Subclasses define the objective."""

    n_estimators: int = parameter(100, "Number of trees.", low=1, high=10**6)
    max_depth: int | None = parameter(
        None, "Maximum depth of a tree; None for no limit.", kind=INTEGER, low=1, high=2**16
    )
    split_by: str = parameter(
        "newton",
        'What splits are chosen by: the "newton" gain, sums of gradients over sums of hessians, or the "gradients" '
        "alone, by least squares: weights, without them counts, take the place of hessians, and min_hessian is not "
        "used. Leaf values are those of step in both.",
        choices=SPLITS,
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
    feature_fraction: Any = size_parameter("feature_fraction", 1.0)
    extra_trees: Any = size_parameter("extra_trees", False)
    max_bins: int = 255
    validation_fraction: float | None = validation_parameter()
    bundle_features: bool | None = parameter(
        None,
        "Exclusive feature bundling (EFB): features that hardly ever have non-default values in the same document "
        "share a histogram. None bundles if X is sparse, or dense with one value nearly everywhere in most columns.",
        kind=SWITCH,
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
        holds=is_sign_mapping,
        words='a mapping from features to 1 or -1 such as {"3": 1, "price": -1}, or None',
    )
    categorical: Any = parameter(
        None,
        "Categorical features, by name or number from 0. Columns of a table that have a categorical type need not be "
        "listed.",
        kind=STRUCTURE,
        holds=is_feature_list,
        words='a list of features such as [3, "colour"], or None',
    )
    category_smoothing: float = parameter(
        10.0,
        "Added to the hessian (splits by gradients: to the weight) of each category when categories are ordered for a "
        "split: rare ones move to the middle.",
        low=0,
        high=LARGE,
    )
    exact_sums: bool = exact_sums_parameter()
    device: str = device_parameter()

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
        from podium.models.frame.fitting import train

        check_fitted(self)
        more: Any = n_estimators
        if isinstance(more, bool) or not isinstance(more, Integral) or int(more) < 1:
            raise ValueError(f"fit_more: n_estimators must be an integer from 1; got {more!r}.")
        self.check_parameters()
        train(self, self.training_plan(), X, y, qid, FitOptions(**options), int(more))
        return self

    def refit(
        self,
        X: Any,
        y: Any = None,
        qid: Any = None,
        *,
        group: Any = None,
        sample_weight: Any = None,
        query_weight: Any = None,
        pairs: Any = None,
        decay: float = 0.9,
    ) -> BoostedTrees:
        """A new model with the same trees and values for other data: `decay` of the old value, the rest of the new one.

        Trees are gone through in their order, each leaf taking Newton's step for the rows that reach it; a leaf that
        none reaches keeps its value. `pairs` take the place of labels, as in `fit`.
        """
        from podium.learners.trees.training.boosting import refit_values

        check_fitted(self)
        if not 0 <= decay <= 1:
            raise ValueError(f"refit: decay must be from 0 to 1; got {decay!r}.")
        self.check_parameters()
        check_takes_pairs(self, self.training_plan(), pairs)
        model, options = copy(self), FitOptions(group, sample_weight, query_weight, pairs)
        data = with_scaled_weights(training_data(self, X, y, qid, options, known=True))
        read, data = read_pairs(pairs, data), self.transformed(data)
        rows = TrainingRows(data, init_scores(self, data), n_jobs=self.n_jobs, pairs=read)
        target, start = rows.bind(self.make_objective()), rows.init_scores
        refitted = refit_values(self.forest_, rows.data.X, target, self._rules(), decay, start)
        model.forest_, model._rounding = rounding_of(refitted, self.exact_sums)
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
        data = self.transformed(eval_data(self, X if isinstance(X, RankingData) else (X, y, qid), "eval_set[0]"))
        target = self.evaluation_metric() if metric is None else parse_metric(metric)
        model, offset = copy(self), init_offset(self, data)
        model.forest_, steps = prune_forest(self.forest_, data, offset, target, tolerance, self.n_jobs)
        model.best_iteration_, model.best_score_ = model.forest_.n_trees, None  # that was of more trees
        return Pruning(model, target.name, steps)

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

    def training_plan(self) -> TrainingPlan[Boosting]:
        steps, objective, target = self.n_estimators, self.make_objective(), target_parameter(self)
        options: dict[str, Any] = {"takes_pairs": objective.takes_pairs, "explain": self._explain}
        return TrainingPlan(self._make_boosting, self._keep_trees, steps, objective, target, **options)

    def _make_boosting(self, rows: TrainingRows) -> Boosting:
        if not rows.continued:
            self.resolved_params_ = self.resolved_for(rows.data, rows.shard)
        data = rows.data.X, rows.local_shard, rows.bind(self.make_objective()), self._rules()
        return learner_on(
            self.device,
            *data,
            base_scores=rows.init_scores,
            forest=trained_forest(self) if rows.continued else None,
            step_rule=self._line_search(rows) if self.step == "line_search" else None,
            weights=row_weights(rows.data),
        )

    def _keep_trees(self, learner: Boosting) -> None:
        self.bundles_ = learner.bundles()
        self.forest_, self._rounding = rounding_of(learner.finished(), self.exact_sums)

    def _line_search(self, rows: TrainingRows) -> StepRule:
        """The step that the training metric likes best, up to nine times Newton's."""
        from podium.models.trees.steps import metric_steps

        if rows.pairs is not None:
            problem = "step='line_search' searches a metric of labels, and pairs take their place"
            raise ValueError(f"{type(self).__name__}: {problem}. Choose another step.")
        return metric_steps(rows.data, self._training_metric(), self.n_jobs)

    def _training_metric(self) -> Metric:
        """The metric that the model optimizes; where it has none, that of evaluation sets."""
        return parse_metric(self.training_plan().metric) if hasattr(self, "metric") else self.evaluation_metric()

    def _explain(self, learner: Boosting, steps: int) -> None:
        """Where only queries with different labels teach, `fit` has warned already that there are none."""
        from podium.models.trees.no_splits import explain_no_splits, has_gradients, without_splits

        if learner.is_done:
            metric, n = self._training_metric().name, learner.n_steps
            reason = f"no step along tree {n + 1} improves {metric} on the training data"
            warn(f"{type(self).__name__}: training ended after {counted(n, 'tree')}: {reason} (step='line_search').")
        grown = learner.trees[len(learner.trees) - steps :]
        if without_splits(grown) and (has_gradients(learner) or not self.make_objective().needs_pairs):
            warn(explain_no_splits(learner))

    auto_values = staticmethod(sizes_for)
    step_word: ClassVar[str] = "tree"
    steps_parameter: ClassVar[str | None] = "n_estimators"
    search_space: ClassVar[Mapping[str, Any]] = BOOSTED_SPACE
    fitted_attributes: ClassVar[Mapping[str, str]] = TREE_ATTRIBUTES
    state_facts: ClassVar[Mapping[str, Fact]] = TREE_FACTS
    state_arrays: ClassVar[tuple[str, ...]] = FOREST_ARRAYS

    def fitted_state(self) -> FittedState:
        forest = trained_forest(self)
        arrays = {name: getattr(forest, name) for name in FOREST_ARRAYS}
        facts = {"start": forest.start, "bundles": self.bundles_, **self.resolved_state()}
        return FittedState(facts | ({"exact_sums": True} if is_rounded(self) else {}), arrays)

    def restore_state(self, state: FittedState) -> None:
        self.restore_resolved(state.facts)
        self.bundles_ = [[int(f) for f in bundle] for bundle in state.facts["bundles"]]
        trained = Forest(**state.arrays, start=float(state.facts["start"]), n_features=self.n_columns)
        trained.check()
        self.forest_, self._rounding = rounding_of(trained, state.facts.get("exact_sums", False))

    def check_state(self) -> None:
        super().check_state()
        check_goss(self)
        if self.best_iteration_ > self.forest_.n_trees:
            raise ValueError(f"best_iteration is {self.best_iteration_} of {self.forest_.n_trees} trees")
        for column, names in self.categories_.items():
            features = self._columns_of([self._feature_number("categories", column)])
            refuse_unknown_categories(self.forest_.sets, column, names, features)

    def largest_score(self) -> float:
        return float(self.forest_.largest_score)

    def predict(self, X: Any, qid: Any = None, *, n_trees: int | None = None, device: str = "cpu") -> np.ndarray:
        """One score per row, by `n_trees` trees or all, on "cpu" or "cuda". Transforms within queries need `qid`."""
        if n_trees is None and device == "cpu":
            return super().predict(X, qid)
        refuse_number_as_qid(qid)
        rows, queries = self.checked_rows(X, qid)
        trees = None if n_trees is None else self._check_trees(n_trees)
        scores = scores_on(device, self.forest_, self.columns(rows, queries), trees, self.n_jobs)
        return finite_scores(self.with_init(scores, rows, queries), type(self).__name__)

    def staged_predict(self, X: Any, qid: Any = None) -> Iterator[np.ndarray]:
        """The scores after one tree, after two, and so on; the n-th are those of `predict(X, n_trees=n)`."""
        rows, queries = self.checked_rows(X, qid)
        columns = self.columns(rows, queries)
        scores = self.forest_.scores(columns, n_trees=0)
        start = None if self.init_ is None else init_predictions(self, rows, queries)
        for tree in range(self.forest_.n_trees):
            self.forest_.add_scores(columns, tree, tree + 1, scores)
            yield finite_scores(scores.copy() if start is None else scores + start, type(self).__name__)

    def tree_contributions(self, X: Any, qid: Any = None) -> np.ndarray:
        """What each tree adds to each score, (rows, trees).

        `forest_.start` and a row's contributions, added from left to right, give its score to the last bit; the scores
        of an `init` model come on top.
        """
        columns = self.columns(*self.checked_rows(X, qid))
        return self.forest_.contributions(columns, self.n_jobs)

    def scorer(self, n_trees: int | None = None) -> Scorer:
        """A bare function for services: float32 rows in C order in, float32 scores out, on the caller's thread.

        With a transform within the query, the rows of one call are one query.
        """
        check_fitted(self)
        forest = self.forest_ if n_trees is None else self.forest_.first(self._check_trees(n_trees))
        init: Any = self.init_
        if init is not None:
            init = init.scorer().exact if isinstance(init, Ranker) else partial(init_predictions, self)
        if self.transform_ is None:
            return ForestScorer(forest, init, type(self).__name__)
        trees, transform = ForestScorer(forest), self.transform_

        def exact(X: np.ndarray) -> np.ndarray:
            scores = trees.exact(transform.apply(X, one_query(len(X)), 1))
            return np.asarray(scores if init is None else scores + init(X))

        return RowScorer(exact, self.n_features_in_, type(self).__name__)

    def _check_trees(self, n_trees: Any) -> int:
        there = self.forest_.n_trees
        if isinstance(n_trees, bool) or not isinstance(n_trees, Integral) or not 0 <= int(n_trees) <= there:
            raise ValueError(f"n_trees must be an integer from 0 to {there}, the number of trees; got {n_trees!r}.")
        return int(n_trees)

    def score_columns(self, X: FeatureMatrix, queries: Queries | None) -> np.ndarray:
        """By the trees alone."""
        return self.forest_.scores(X, None, self.n_jobs)

    def summands(self) -> list[Any]:
        init = self.init_
        if init is not None and not isinstance(init, Ranker):
            raise ValueError(f"init is a {type(init).__name__}; only models of Podium can be explained.")
        if init is not None and (not same_transforms(self.transform_, init.transform_) or init.imputation_):
            problem = f"{type(self).__name__} and its init have different transforms or fillings of missing values"
            advice = "Explain them one by one, or train both with the same transform on the same data."
            raise ValueError(f"{problem}, so their scores are sums over different columns. {advice}")
        return [self.forest_, *(init.summands() if init is not None else [])]

    def _rules(self) -> BoostingRules:
        from podium.learners.trees.training.boosting import BoostingRules
        from podium.learners.trees.training.bundling import LayoutRules
        from podium.learners.trees.training.grown import GrowthRules
        from podium.learners.trees.training.sampling import SamplingRules

        sized = self.with_resolved()
        depth = sized.max_depth or 0
        if sized.growth != "leaf" and not depth:
            levels = np.log2(sized.max_leaf_nodes)
            depth = max(1, int(np.ceil(levels) if sized.growth == "level" else levels))
        leaves = min(sized.max_leaf_nodes, 2**depth) if depth and depth < 31 else sized.max_leaf_nodes
        if sized.growth == "oblivious":
            leaves = 2 ** min(depth, 16)
        goss = None if self.goss is None else (float(self.goss[0]), float(self.goss[1]))
        categorical = self._columns_of(self.untransformed_features())
        return rules_for(
            BoostingRules,
            sized,
            seed=self.random_state,
            growth=rules_for(GrowthRules, sized, max_leaf_nodes=leaves, max_depth=depth),
            sampling=rules_for(SamplingRules, sized, goss=goss),
            layout=rules_for(LayoutRules, sized, categorical=categorical, signs=self._signs()),
        )

    def check_parameters(self) -> None:
        super().check_parameters()
        check_goss(self)
        self._check_line_search()

    def find_names(self, X: Any) -> Names:
        return find_names(X, self.categorical or ())

    def untransformed_features(self) -> tuple[int, ...]:
        """The columns of categories: those that are asked for, and those that hold names."""
        asked = [*(self.categorical or ()), *getattr(self, "categories_", {})]
        return tuple(sorted({self._feature_number("categorical", name) for name in asked}))

    def _signs(self) -> tuple[int, ...]:
        """One per column: the direction in which the score may go as it grows; columns of a feature rise with it."""
        if not self.monotone:
            return ()
        signs, named = [0] * self.n_columns, self.untransformed_features()
        for name, sign in self.monotone.items():
            number = self._feature_number("monotone", name)
            if number in named:
                raise ValueError(f"{type(self).__name__}: feature {name!r} cannot be monotone: it is categorical.")
            for column in self._columns_of([number]):
                signs[column] = int(sign)
        return tuple(signs)

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
            problem = "step='line_search' does not support DART, which changes earlier trees after the search"
            raise ValueError(f"{type(self).__name__}: {problem}; set drop_rate=0.")
