"""The named models, each a product of a learner and an objective; `registry.py` lists them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from podium.models.frame.parameters import (
    TRANSFORM_SPACE,
    AnyObjectiveParameters,
    LambdaParameters,
    ObjectiveParameter,
    PairExponent,
    parametrized,
)
from podium.models.frame.plan import named_objective
from podium.models.trees.boosted import BoostedTrees
from podium.models.trees.parameters import (
    BOOSTED_SPACE,
    LEAF_SPACE,
    BoostingParameters,
    GrowthParameters,
    size_parameter,
)
from podium.objectives.base import Objective
from podium.objectives.registry import parse_objective

if TYPE_CHECKING:
    from podium.learners.trees.training.boosting import BoostingRules


@parametrized
class Boosted(BoostingParameters, GrowthParameters, AnyObjectiveParameters, BoostedTrees):
    """Boosted trees with any objective: a name, an Objective or a Python function."""

    search_space: ClassVar[Mapping[str, Any]] = BOOSTED_SPACE | {"objective": ["lambda", "xendcg", "ranknet"]}


@parametrized
class MART(ObjectiveParameter, PairExponent, BoostingParameters, GrowthParameters, BoostedTrees):
    """Multiple additive regression trees. They fit squared error, "logistic", "ordinal" or any other objective."""

    objective: Any = "squared"


@parametrized
class RegressionTree(BoostingParameters, GrowthParameters, BoostedTrees):
    """One least-squares tree: the score of a document is the mean label of its leaf."""

    n_estimators: int = 1
    learning_rate: Any = size_parameter("learning_rate", 1.0)
    max_leaf_nodes: Any = size_parameter("max_leaf_nodes", 31)
    min_samples_leaf: Any = size_parameter("min_samples_leaf", 20)
    feature_fraction: Any = size_parameter("feature_fraction", 1.0)
    extra_trees: Any = size_parameter("extra_trees", False)

    search_space: ClassVar[Mapping[str, Any]] = LEAF_SPACE | TRANSFORM_SPACE

    def make_objective(self) -> Objective:
        return parse_objective("squared")


@parametrized
class LambdaMART(LambdaParameters, BoostingParameters, GrowthParameters, BoostedTrees):
    """Boosted trees that optimize a ranking metric by lambda gradients. With `init=` this is LambdaSMART."""

    search_space: ClassVar[Mapping[str, Any]] = BOOSTED_SPACE | {"normalize": ["auto", None]}

    def make_objective(self) -> Objective:
        return named_objective(self, "lambda", sigma=self.sigma, normalize=self.normalization())


@parametrized
class LambdaSMART(LambdaMART):
    """LambdaMART that starts from the scores of an init model; init is required."""

    def check_parameters(self) -> None:
        super().check_parameters()
        if self.init is None:
            message = "LambdaSMART: init must be a model, fitted or not, or one score per training row; got None."
            raise ValueError(f"{message} On the command line, name a model's file: --set init=FILE, or a model.")


@parametrized
class MatrixNet(BoostingParameters, AnyObjectiveParameters, BoostedTrees):
    """Boosted trees with one split per level. They fit Plackett-Luce likelihood, "lambda" or any other objective."""

    objective: Any = "listmle"
    max_depth: Any = size_parameter("max_depth")

    growth = "oblivious"
    search_space: ClassVar[Mapping[str, Any]] = {
        "max_depth": {"low": 2, "high": 8},
        **{name: values for name, values in BOOSTED_SPACE.items() if name not in LEAF_SPACE},
    }


@parametrized
class RandomForest(ObjectiveParameter, GrowthParameters, BoostedTrees):
    """Each tree is grown on a bootstrap sample of the queries and on a fraction of the features.

    The score of a document is the mean over the trees.
    """

    objective: Any = "squared"
    max_leaf_nodes: Any = size_parameter("max_leaf_nodes", 100)
    min_samples_leaf: Any = size_parameter("min_samples_leaf", 5)
    feature_fraction: float = 0.3

    search_space: ClassVar[Mapping[str, Any]] = {
        "max_leaf_nodes": {"low": 16, "high": 512, "log": True},
        "min_samples_leaf": LEAF_SPACE["min_samples_leaf"],
        "feature_fraction": BOOSTED_SPACE["feature_fraction"],
        **TRANSFORM_SPACE,
    }

    def _check_line_search(self) -> None:
        if self.step == "line_search":
            problem = "step='line_search' is for trees that are added to earlier ones"
            raise ValueError(f"RandomForest: {problem}; its trees are averaged. Choose another step.")

    def _rules(self) -> BoostingRules:
        rules = super()._rules()
        return replace(rules, average=True, sampling=replace(rules.sampling, bootstrap=True))

    def fit_more(self, X: Any, y: Any = None, qid: Any = None, *, n_estimators: int, **options: Any) -> BoostedTrees:
        raise ValueError("RandomForest: fit_more is not supported; fit with a larger n_estimators.")
