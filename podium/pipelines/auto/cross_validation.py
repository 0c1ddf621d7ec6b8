"""Cross-validation by query: every query is scored once per division by a model that has not seen it.

The queries are divided into folds, all documents of a query in one. The queries of a fold are scored by a copy of the
model that was trained on the others, so the scores of all rows together are out-of-fold scores.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from podium._runtime.threads import threads_for, usable_threads
from podium.data.ranking import RankingData
from podium.evaluation.evaluating import Evaluation, MetricLike, evaluate
from podium.metrics.policies import Policy
from podium.models.frame.estimator import clone
from podium.models.frame.init_model import refuse_fitted_inits, refuse_given_scores
from podium.models.frame.parameters import INTEGER
from podium.models.frame.ranker import Ranker


@dataclass(frozen=True, eq=False)
class CrossValidation:
    """What a model of this kind reaches on queries that it has not seen.

    `evaluation` is that of the out-of-fold scores of all queries, with a value per query for `podium.compare`;
    `folds` has one evaluation per fold.
    """

    scores: np.ndarray  # (rows,) in the order of the data
    evaluation: Evaluation
    folds: tuple[Evaluation, ...]
    fold_of: np.ndarray  # (queries,) the number of the fold that each query is in
    models: tuple[Ranker, ...]

    @property
    def per_query(self) -> Mapping[str, np.ndarray]:
        return self.evaluation.per_query

    def spread(self, metric: str) -> float:
        """The standard deviation over folds."""
        values = [fold[metric] for fold in self.folds]
        return float(np.std(values, ddof=1))

    def as_dict(self) -> dict[str, Any]:
        overall = self.evaluation.as_dict()
        folds = [fold.as_dict() for fold in self.folds]
        return overall | {"folds": [{"queries": fold["queries"], "metrics": fold["metrics"]} for fold in folds]}


def cross_validate(
    model: Ranker,
    data: RankingData,
    *,
    folds: int = 5,
    metrics: MetricLike | Sequence[MetricLike] = ("ndcg@10", "map"),
    policy: str | Policy | None = None,
    random_state: int = 0,
    n_jobs: int | None = None,
) -> CrossValidation:
    """Train and evaluate copies of a model on `folds` divisions of the queries.

    `random_state` divides the queries; the model keeps its own. Folds are trained side by side on `n_jobs` threads, and
    the result is the same for any number of them.
    """
    fold_of = divide_queries(data, folds, random_state)
    refuse_fitted_inits(model, "cross_validate")
    refuse_given_scores(model, "cross_validate")
    scores, models = out_of_fold_scores(model, data, fold_of, n_jobs=n_jobs)
    options: dict[str, Any] = {"metrics": metrics, "policy": policy}
    in_fold = fold_of[data.query_numbers]
    parts = (evaluate(scores[in_fold == k], data.subset(fold_of == k), **options) for k in range(folds))
    return CrossValidation(scores, evaluate(scores, data, **options), tuple(parts), fold_of, tuple(models))


def divide_queries(data: RankingData, folds: int, random_state: int = 0) -> np.ndarray:
    """(queries,) fold numbers from 0, sizes that differ by at most one, drawn by the seed."""
    if not INTEGER.holds(folds) or not 2 <= folds <= data.n_queries:
        raise ValueError(f"folds must be an integer from 2 to the number of queries, {data.n_queries}; got {folds!r}.")
    return np.random.default_rng(random_state).permutation(np.arange(data.n_queries) % folds)


def out_of_fold_scores(
    model: Ranker, data: RankingData, fold_of: np.ndarray, *, n_jobs: int | None = None
) -> tuple[np.ndarray, list[Ranker]]:
    """One score per row, in the order of the data, by models that have not seen its query; and these models."""
    scores = np.empty(data.n_rows)
    in_fold = fold_of[data.query_numbers]

    def work(fold: int, threads: int) -> Ranker:
        fitted: Ranker = clone(model).set_params(n_jobs=threads)
        fitted.fit(data.subset(fold_of != fold))
        scores[in_fold == fold] = fitted.predict(data.subset(fold_of == fold))
        return fitted

    return scores, over_folds(work, int(fold_of.max()) + 1, n_jobs)


def over_folds(work: Callable[[int, int], Any], n_folds: int, n_jobs: int | None) -> list[Any]:
    """`work(fold, threads)` for every fold, side by side; the threads that are left over are shared by the folds."""
    together = usable_threads(n_jobs)
    beside = min(together, n_folds)
    threads = max(1, together // beside)
    if beside == 1:
        return [work(fold, threads) for fold in range(n_folds)]
    with threads_for(beside, "podium-folds") as pool:
        return list(pool.map(lambda fold: work(fold, threads), range(n_folds)))
