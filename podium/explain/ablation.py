"""Ablation: how much a metric drops when a model is trained again without a feature, or without a group of features.

Permutation importance asks what a trained model loses without a feature; ablation asks what could not be learned from
the others. A feature with a near copy has a large permutation importance and costs nothing to leave out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.sparse import diags_array

from podium.data.ranking import RankingData, as_feature_names
from podium.data.sparse import is_sparse
from podium.evaluation.evaluating import Evaluation, evaluate
from podium.explain.drops import ImportanceDrops, metric_drop
from podium.explain.subjects import find_feature, names_for
from podium.metrics.registry import parse_metric
from podium.models.frame.estimator import clone
from podium.models.frame.init_model import refuse_fitted_inits
from podium.models.frame.ranker import Ranker

ReportProgress = Callable[[float, float], None]


def ablation(
    model: Any,
    train: RankingData,
    test: RankingData,
    *,
    groups: Mapping[str, Sequence[int | str]] | None = None,
    metric: Any = None,
    names: Sequence[str] | None = None,
    report: ReportProgress | None = None,
    **fit: Any,
) -> ImportanceDrops:
    """Train the model with all features, and again without each feature or group; the drop of the metric on `test`.

    groups: {"links": ["pagerank", "inlinks"]}, features by name or column; by default each feature by itself. metric:
    None takes the model's own. `fit` has further arguments of `fit`, such as eval_set and early_stopping_rounds.

    A feature is left out by setting it to 0 in all rows: columns keep their numbers, so that parameters which name
    features (monotone constraints, categories) still hold. The model given is not changed, and need not be fitted.
    """
    _refuse_other_models(model)
    known = _names(model, train, names)
    left_out = _groups(groups, known)
    eval_metric = model.evaluation_metric() if metric is None else parse_metric(metric)
    trained: list[Evaluation] = []
    for number, columns in enumerate([(), *left_out.values()]):
        trained.append(_measure(model, train, test, columns, eval_metric, fit))
        if report is not None:
            report(number + 1, len(left_out) + 1)
    baseline, *others = trained
    means, per_query = zip(*(metric_drop(baseline, other, eval_metric) for other in others))
    return ImportanceDrops(
        what="when left out of training",
        metric=eval_metric.name,
        policy=baseline.policy,
        baseline=float(baseline[eval_metric.name]),
        names=tuple(left_out),
        means=np.array(means),
        per_query=np.array(per_query),
        weights=baseline.query_weight,
    )


def _measure(
    model: Ranker, train: RankingData, test: RankingData, columns: Sequence[int], metric: Any, fit: Mapping[str, Any]
) -> Evaluation:
    arguments, eval_set = dict(fit), fit.get("eval_set")
    if isinstance(eval_set, RankingData):
        arguments["eval_set"] = without(eval_set, columns)
    elif eval_set is not None:
        arguments["eval_set"] = [without(part, columns) for part in eval_set]
    fitted = clone(model).fit(without(train, columns), **arguments)
    return evaluate(fitted.predict(without(test, columns)), test, metrics=[metric], n_jobs=model.n_jobs)


def without(data: RankingData, columns: Sequence[int]) -> RankingData:
    """The same data with 0 in some columns."""
    if not isinstance(data, RankingData):
        raise ValueError(
            f"ablation needs RankingData for training, test and evaluation sets; got {type(data).__name__}."
        )
    if not len(columns):
        return data
    if is_sparse(data.X):
        factors = np.ones(data.n_features, dtype=np.float32)
        factors[list(columns)] = 0
        changed = (data.X @ diags_array(factors)).tocsr()
        changed.eliminate_zeros()
        return replace(data, X=changed)
    rows = np.array(data.X)
    rows[:, list(columns)] = 0
    return replace(data, X=rows)


def _refuse_other_models(model: Any) -> None:
    if not isinstance(model, Ranker):
        raise ValueError(f"expected a model of Podium, such as LambdaMART; got {type(model).__name__}.")
    refuse_fitted_inits(model, "ablation")


def _names(model: Ranker, train: RankingData, names: Sequence[str] | None) -> tuple[str, ...]:
    if names is None and hasattr(model, "n_features_in_"):
        return names_for(model, train)
    known = train.feature_names if names is None else as_feature_names(names, train.n_features)
    return known or tuple(f"feature {number}" for number in range(1, train.n_features + 1))


def _groups(groups: Mapping[str, Sequence[int | str]] | None, known: Sequence[str]) -> dict[str, list[int]]:
    if groups is None:
        return {name: [column] for column, name in enumerate(known)}
    columns = {name: [find_feature(feature, known) for feature in features] for name, features in groups.items()}
    if not columns or not all(columns.values()):
        empty = next((name for name, features in columns.items() if not features), "groups")
        raise ValueError(f"groups: expected at least one feature per group; {empty} has none.")
    return columns
