"""The named models, each a product of a learner and an objective.

| model | learner | objective |
| --- | --- | --- |
| RegressionTree | one tree | squared error |
| MART | boosted trees | squared error, logistic or ordinal, or any other |
| LambdaMART | boosted trees | lambda of a metric |
| LambdaSMART | boosted trees on top of a base model's scores | lambda of a metric |
| MatrixNet | boosted oblivious trees | Plackett-Luce likelihood, lambda or any other |
| RandomForest | the mean of trees, each from a draw of the queries | squared error or any other of single documents |
| Boosted | boosted trees | any |
| Linear | linear scoring function | any |
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from podium.learners.trees.training.boosting import BoostingRules
from podium.models.boosted import BoostedTrees
from podium.models.linear import Linear
from podium.models.ranker import Ranker
from podium.objectives import Objective, parse_objective
from podium.objectives.lambdas import NORMALIZATIONS


@dataclass(eq=False, repr=False, kw_only=True)
class Boosted(BoostedTrees):
    """Boosted trees x any objective, by name, by value or as a Python callable.

    Parameters
    ----------
    objective : what the trees fit the derivatives of.
    metric : what the objective "lambda" steers by.
    """

    objective: Any = "lambda"
    metric: Any = "ndcg@10"

    def _objective(self) -> Any:
        if self.objective == "lambda":
            return parse_objective("lambda", metric=self.metric, normalize="lightgbm")
        return parse_objective(self.objective)

    def _aim(self) -> Any:
        return super()._aim() if isinstance(self.objective, Objective) else self.metric


@dataclass(eq=False, repr=False, kw_only=True)
class MART(BoostedTrees):
    """Multiple additive regression trees: boosted trees x squared error (or "logistic", "ordinal", any objective).

    Parameters
    ----------
    objective : what the trees fit the derivatives of.
    """

    objective: Any = "squared"

    def _objective(self) -> Any:
        return parse_objective(self.objective)

    def _needs_pairs(self) -> bool:
        return False


@dataclass(eq=False, repr=False, kw_only=True)
class RegressionTree(BoostedTrees):
    """One least-squares tree: the mean label of the leaf a document falls into."""

    n_estimators: int = 1
    learning_rate: float = 1.0

    def _objective(self) -> Any:
        return parse_objective("squared")

    def _needs_pairs(self) -> bool:
        return False


@dataclass(eq=False, repr=False, kw_only=True)
class LambdaMART(BoostedTrees):
    """Boosted trees x lambda of a metric. With `init=` a fitted model or its scores this is LambdaSMART.

    Parameters
    ----------
    metric : steers the lambdas; its cutoff bounds the pairs.
    sigma : the slope of the logistic.
    normalize : scales the lambdas: None as in the papers, "lightgbm" or "xgboost" as those libraries do.
    """

    metric: Any = "ndcg@10"
    sigma: float = 1.0
    normalize: str | None = "lightgbm"

    def _objective(self) -> Any:
        return parse_objective("lambda", metric=self.metric, sigma=self.sigma, normalize=self.normalize)

    def _aim(self) -> Any:
        return self.metric

    def _choices(self) -> dict[str, tuple[str | None, ...]]:
        return super()._choices() | {"normalize": (None, *NORMALIZATIONS)}

    def _ranges(self) -> dict[str, tuple[float, float, str]]:
        return super()._ranges() | {"sigma": (1e-12, 1e12, "above 0")}


@dataclass(eq=False, repr=False, kw_only=True)
class LambdaSMART(LambdaMART):
    """LambdaMART that starts from a base model: `init` is required."""

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.init is None:
            message = "LambdaSMART: init must be a fitted model or one score a training row; got None."
            raise ValueError(f"{message} On the command line, name a model's file: --set init=FILE.")


@dataclass(eq=False, repr=False, kw_only=True)
class MatrixNet(Boosted):
    """Boosted oblivious trees x Plackett-Luce likelihood (or "lambda" with a metric, or any objective)."""

    objective: Any = "listmle"
    growth: str = "oblivious"
    max_depth: int | None = 6


@dataclass(eq=False, repr=False, kw_only=True)
class RandomForest(BoostedTrees):
    """The mean of many trees, each from as many queries as there are, drawn with replacement, and from some features.

    Parameters
    ----------
    objective : what each tree fits from the start: "squared", "logistic", or another one of single documents.
    """

    objective: Any = "squared"
    learning_rate: float = 1.0
    max_leaf_nodes: int = 100
    min_samples_leaf: int = 5
    feature_fraction: float = 0.3

    def _objective(self) -> Any:
        return parse_objective(self.objective)

    def _needs_pairs(self) -> bool:
        return False

    def _rules(self) -> BoostingRules:
        rules = super()._rules()
        return replace(rules, average=True, sampling=replace(rules.sampling, bootstrap=True))

    def _check_parameters(self) -> None:
        super()._check_parameters()
        for name in ("init", "goss", "drop_rate", "row_fraction", "query_fraction"):
            if getattr(self, name) != type(self).__dataclass_fields__[name].default:
                raise ValueError(f"RandomForest: {name} has no meaning here: its trees do not see each other.")

    def fit_more(self, X: Any, y: Any = None, qid: Any = None, *, n_estimators: int, **options: Any) -> BoostedTrees:
        raise ValueError("RandomForest: fit_more has no meaning here; fit with a larger n_estimators.")


TREE_MODELS: dict[str, type[BoostedTrees]] = {
    model.__name__: model for model in (RegressionTree, MART, LambdaMART, LambdaSMART, MatrixNet, RandomForest, Boosted)
}
MODELS: dict[str, type[Ranker]] = {**TREE_MODELS, "Linear": Linear}
