"""Ranker: the interface of every model. Rows and labels in, one score per row out.

A ranker has the parameters of its class as dataclass fields, which gives scikit-learn the signature it wants. How it is
trained is its `training_plan`, what it scores with its `score_columns`; a class of your own defines these two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from podium._runtime.warn import warn
from podium.data.query_ids import as_query_ids, group_rows
from podium.data.ranking import RankingData, refuse_beside_data
from podium.data.sparse import FeatureMatrix
from podium.evaluation.evaluating import evaluate
from podium.formats.names import Names
from podium.learners.rows import finite_scores
from podium.metrics.base import Metric
from podium.metrics.lists import order_by_score
from podium.metrics.registry import parse_metric
from podium.models.frame.arguments import one_query_warning, refuse_number_as_qid, refuse_unsupported, rows_for
from podium.models.frame.estimator import Estimator, check_fitted, is_fitted
from podium.models.frame.parameters import (
    INTEGER,
    METRIC_NAMES,
    HiddenIfNone,
    check_values,
    parameter,
    parametrized,
    value_of,
)
from podium.models.frame.plan import Callback, FitOptions, TrainingPlan, all_or_nothing
from podium.models.frame.scoring import RowScorer, Scorer
from podium.models.frame.transforms import TRANSFORMS, WITHIN_QUERY, Queries, one_query, queries_by_id, queries_of
from podium.objectives.base import Objective
from podium.persistence.validation import Fact

if TYPE_CHECKING:
    from sklearn.utils import Tags

    from podium.exchange.claims import Report
    from podium.models.frame.inspection import ModelInspection


@dataclass(frozen=True)
class FittedState:
    """What a model file holds of a fitted model, besides what every model has."""

    facts: Mapping[str, Any] = field(default_factory=dict)  # plain JSON
    arrays: Mapping[str, np.ndarray] = field(default_factory=dict)
    parts: Mapping[str, Ranker] = field(default_factory=dict)  # models that are saved with it


@parametrized
class Ranker(Estimator):
    """The frame: checks input, remembers feature names, trains by a plan, scores, ranks, saves."""

    eval_metric: Any = parameter(
        None,
        "Metric for evaluation sets and score; None uses the metric that the model optimizes, or ndcg@10. Of several, "
        "the first is that of score, and decides when training stops.",
        kind=METRIC_NAMES,
        words='a metric, several such as ["ndcg@10", "map"] (as text: ndcg@10,map), or None',
    )
    n_jobs: int | None = parameter(
        None,
        "Number of threads. The model is the same for any number.",
        kind=INTEGER,
        low=-1,
        high=4096,
        words="an integer from 1 to 4,096, or -1 or None for all cores",
    )
    transform: Any = parameter(
        None,
        "Columns made of each feature: within the query zscore, rank and minmax, over the training rows standard, "
        "signed_log and quantile, or raw. With one of the first three, predict needs qid. None: the features as they "
        "are.",
        kind=TRANSFORMS,
        words=f"{TRANSFORMS.words}; or None",
    )

    # What a class says of itself.
    step_word: ClassVar[str] = "step"  # what a step of the training is called
    steps_parameter: ClassVar[str | None] = None  # with the number of steps, where a learning curve can decide it
    default_patience: ClassVar[int] = 50  # steps: what early_stopping_rounds=True stands for
    search_space: ClassVar[Mapping[str, Any]] = {}  # what `podium tune` searches, with the defaults in it
    allows_missing: ClassVar[bool] = True  # whether rows may hold NaN
    allows_sparse: ClassVar[bool] = True
    state_facts: ClassVar[Mapping[str, Fact]] = {}  # the keys of `fitted_state().facts`, with what may stand there
    state_arrays: ClassVar[tuple[str, ...]] = ()  # the keys of `fitted_state().arrays`
    # Parameters that a fitted model still reads, to score or to tell about itself. `fit` keeps their values: a
    # parameter that is set afterwards is for the next training. All else that scores depend on is in fitted attributes.
    scoring_parameters: ClassVar[tuple[str, ...]] = ()

    # --- what a class defines

    def training_plan(self) -> TrainingPlan[Any]:
        """Objective, target metric, how the learner is made, and what becomes of what it has learned."""
        raise NotImplementedError

    def score_columns(self, X: FeatureMatrix, queries: Queries | None) -> np.ndarray:
        """One score per row, float64, of columns as the learner saw them; `queries` are None unless `needs_queries`."""
        raise NotImplementedError

    def make_objective(self) -> Objective:
        """What is minimized, of a model whose learner takes any objective."""
        raise NotImplementedError

    def fitted_state(self) -> FittedState:
        """What the model file holds, to be saved."""
        return FittedState()

    def restore_state(self, state: FittedState) -> None:
        """Take over what a file holds, of which names and types of facts and names of arrays have been checked."""

    def check_state(self) -> None:
        """Refuse a restored model whose parts do not fit together."""
        check_values(self)  # objectives and metrics are read where they are used

    def check_parameters(self) -> None:
        """Refuse values that the parameters do not take; a class adds what holds between parameters."""
        check_values(self)
        self.evaluation_metrics()  # so a misspelt objective or metric is answered before any work

    # --- training

    @all_or_nothing
    def fit(
        self,
        X: Any,
        y: Any = None,
        qid: Any = None,
        *,
        group: Any = None,
        sample_weight: Any = None,
        query_weight: Any = None,
        pairs: Any = None,
        eval_set: Any = None,
        early_stopping_rounds: int | None = None,
        callbacks: Sequence[Callback] = (),
        verbose: int | None = None,
        checkpoint: Any = None,
        every: int = 10,
        checkpoint_errors: str = "stop",
        client: Any = None,
    ) -> Self:
        """Train on rows X (n, features) with labels y and one query id per row, in any order; or on a RankingData.

        Here and wherever rows are asked for, X may be a scipy sparse matrix: it stays sparse, what is not stored is 0.

        `group` takes LightGBM's sizes instead of qid. `eval_set` is one (X, y, qid) or RankingData, a list of them, or
        a dict of them by name; the first one stops the training after `early_stopping_rounds` steps without progress
        (None: never, nets after 10; True: 50 trees or rounds, 10 epochs; False: never). The parameter
        `validation_fraction` holds out training queries instead. `verbose=k` prints a line every k steps.

        With `pairs=(i, j)`, `(i, j, p)` or `(i, j, p, weight)` a model that learns from pairs takes these in place of
        labels: rows i and j of X are documents of one query, p is the probability that row i is the better one; p and
        weight are 1 if they are left out. Labels are then neither needed nor used.

        With `checkpoint=path` the training is kept in that file every few steps. If the file is there already, from the
        same training that was killed, it is resumed, and the model has the same bytes as one of a run that never
        stopped; a file of another training is refused. The file is removed when the training comes to its end, as the
        model is then the result and the next training would be refused; Ctrl-C and errors leave it. If it cannot be
        written, `checkpoint_errors="stop"` raises the error, "warn" warns once; the last checkpoint stays valid.

        With a Dask `client` the training runs on the workers of its cluster, and the model is the same, byte for byte,
        for any number of them. X, y, qid and sample_weight may then be Dask collections, and X a folder or list of
        Parquet and `.podium-data` files; evaluation sets likewise. For boosted trees.

        A fit that fails leaves the model as it was before. Ctrl-C is noticed when a step is done (a second one at
        once): the steps so far are kept on the model, and KeyboardInterrupt is raised. Before the first step, it is a
        fit that fails.
        """
        from podium.models.frame.fitting import train  # a model that is loaded to score needs none of it

        self.check_parameters()
        watched = eval_set, early_stopping_rounds, callbacks, verbose
        options = FitOptions(group, sample_weight, query_weight, pairs, *watched, checkpoint, every, checkpoint_errors)
        if client is not None:
            from podium.distributed.training import fit_on_cluster

            fit_on_cluster(self, client, X, y, qid, options)
            return self
        train(self, self.training_plan(), X, y, qid, options)
        return self

    def evaluation_metric(self) -> Metric:
        """The metric of `score`, which decides when training stops: the first of `evaluation_metrics`."""
        return self.evaluation_metrics()[0]

    def evaluation_metrics(self) -> list[Metric]:
        """The metrics of evaluation sets: `eval_metric`, or the target metric of the training."""
        chosen = self.training_plan().metric if self.eval_metric is None else self.eval_metric
        metrics = [parse_metric(one) for one in (chosen if isinstance(chosen, (list, tuple)) else [chosen])]
        names = [metric.name for metric in metrics]
        if not names or len(set(names)) < len(names):
            problem = f"{type(self).__name__}: eval_metric must be a metric, or several with different names"
            raise ValueError(f"{problem}; got {chosen!r}.")
        return metrics

    def find_names(self, X: Any) -> Names:
        """Of each column of names in the training data, the names; models that know categories look for them."""
        if isinstance(X, RankingData) and X.categories:
            column, known = next(iter(X.categories.items()))
            raise ValueError(
                f"{type(self).__name__} needs numbers, and column {column!r} holds categories such as {known[0]!r}. "
                f"Use a model of trees, or leave the column out: drop=[{column!r}] (--drop {column})."
            )
        return {}

    def untransformed_features(self) -> Sequence[int]:
        """Features that no transform makes sense for: categories."""
        return ()

    def takes_missing(self, fitted: bool) -> bool:
        """Whether rows may hold NaN, to train on or where the model is fitted."""
        filled = self.imputation_ if fitted else value_of(self, "impute")
        return self.allows_missing or filled is not None

    def imputation_weights(self, data: RankingData) -> np.ndarray | None:
        """Weights of rows in the means that missing values are filled with; None where all count alike."""
        return None

    def refuse_unsupported(self, X: FeatureMatrix, where: str, fitted: bool = False) -> None:
        """Refuse rows that the model does not support, to be trained or where it is fitted."""
        init = self.init_ if fitted else self.init
        if isinstance(init, Ranker):  # which gets the rows as they are
            init.refuse_unsupported(X, where, is_fitted(init))
        refuse_unsupported(self, X, where, self.takes_missing(fitted))

    # --- scoring

    def predict(self, X: Any, qid: Any = None) -> np.ndarray:
        """One score per row. Scores order the documents of a query.

        `qid`, one query id per row, is needed by models that compare the documents of a query: those with a transform
        within the query, and ensembles of normalized scores. A RankingData has its own. A model that was trained on one
        query takes rows without `qid` as one query, with a warning.
        """
        refuse_number_as_qid(qid)
        return self.score_rows(*self.checked_rows(X, qid))

    def scorer(self) -> Scorer:
        """A bare function for services: float32 rows in C order in, float32 scores out, on the caller's thread.

        Where scores depend on the other documents of the query, the rows of one call are one query.
        """
        check_fitted(self)
        exact = lambda X: self.score_rows(X, one_query(len(X)))  # noqa: E731
        return RowScorer(exact, self.n_features_in_, type(self).__name__)

    def score_rows(self, rows: FeatureMatrix, queries: Queries | None) -> np.ndarray:
        """One score per row of rows that were checked but not transformed; all are finite, or it is an error.

        Every way to scores goes through here, also that of members and init models: a NaN within an ensemble would
        not be seen in its ranks.
        """
        scores = self.score_columns(self.columns(rows, queries), queries)
        return finite_scores(self.with_init(scores, rows, queries), type(self).__name__)

    def with_init(self, scores: np.ndarray, rows: FeatureMatrix, queries: Queries | None) -> np.ndarray:
        """What was learned, with the scores of the init model if there is one."""
        if self.init_ is None:
            return scores
        from podium.models.frame.init_model import init_predictions

        return np.asarray(scores + init_predictions(self, rows, queries))

    def checked_rows(self, X: Any, qid: Any) -> tuple[FeatureMatrix, Queries | None]:
        """Rows to be scored, checked; and their queries, where scores depend on them."""
        rows = rows_for(self, X)
        self.refuse_unsupported(rows, "the rows", fitted=True)
        if not self.needs_queries():
            return rows, None
        if isinstance(X, RankingData):
            return rows, queries_of(X)
        if qid is None and self.n_queries_ == 1:  # trained on one list, as scikit-learn's tools do without qid
            warn(one_query_warning(rows.shape[0]))
            return rows, one_query(rows.shape[0])
        if qid is None:
            needed = f"predict needs qid, one query id per row, because {self.reason_for_queries()}"
            raise ValueError(
                f"{type(self).__name__}: {needed}. model.scorer() takes the rows of one query as one list."
            )
        return rows, queries_by_id(as_query_ids(qid, None, rows.shape[0]))

    def needs_queries(self) -> bool:
        """Whether a score depends on the other documents of its query; then `predict` asks for them."""
        transformed = self.transform_ is not None and self.transform_.needs_queries
        return transformed or (isinstance(self.init_, Ranker) and self.init_.needs_queries())

    def reason_for_queries(self) -> str:
        return f"its transform compares the documents of a query ({', '.join(WITHIN_QUERY)})"

    def rank(self, X: Any, qid: Any = None) -> np.ndarray:
        """Rows, best first per query, queries in order of first appearance; without `qid`, all rows are one query."""
        if isinstance(X, RankingData):
            refuse_beside_data("rank", qid=qid)
            scores = self.predict(X)
            return np.asarray(X.rows[order_by_score(scores[X.rows], X.offsets)])
        n = X.shape[0] if hasattr(X, "shape") else len(X)
        if qid is None and n > 1 and getattr(self, "n_queries_", 1) > 1:
            warn(f"rank: qid not given: all {n} rows are ranked as one query. If they are, give qid=[0] * {n}.")
        ids = np.zeros(n, np.int64) if qid is None else as_query_ids(qid, None, n)
        scores = self.predict(X, ids)
        order, offsets, _ = group_rows(ids)
        if order is None:
            return order_by_score(scores, offsets)
        return np.asarray(order[order_by_score(scores[order], offsets)])

    def score(self, X: Any, y: Any = None, qid: Any = None, *, group: Any = None, sample_weight: Any = None) -> float:
        """The mean over queries of the metric that evaluation sets are judged by, under its policy; more is better.

        It is `eval_metric`, or the target metric of the model, or ndcg@10; negated where lower values are better.
        """
        metric = self.evaluation_metric()
        if isinstance(X, RankingData):
            refuse_beside_data("score", y=y, qid=qid, group=group, sample_weight=sample_weight)
            evaluation = evaluate(self.predict(X), X, metrics=[metric])
        else:
            if qid is None and group is None:
                if getattr(self, "n_queries_", 1) > 1:
                    raise ValueError("score needs qid (or group): the model was trained on many queries.")
                warn(one_query_warning(np.shape(X)[0]))
                group = [np.shape(X)[0]]
            ids = as_query_ids(qid, group, np.shape(X)[0]) if self.needs_queries() else None
            evaluation = evaluate(
                self.predict(X, ids), y, qid=qid, group=group, metrics=[metric], sample_weight=sample_weight
            )
        return evaluation[metric.name] * (1 if metric.higher_is_better else -1)

    # --- columns: what rows become before the learner sees them

    def columns(self, rows: FeatureMatrix, queries: Queries | None) -> FeatureMatrix:
        """Checked rows as the learner sees them."""
        columns = rows if self.transform_ is None else self.transform_.apply(rows, queries, self.n_jobs)
        return columns if self.imputation_ is None else self.imputation_.apply(columns)

    def transformed(self, data: RankingData) -> RankingData:
        """Training or evaluation data as the learner sees them."""
        from podium.models.frame.inspection import column_names, feature_names

        if self.transform_ is not None:
            data = self.transform_.apply_to(data, feature_names(self), self.n_jobs)
        return data if self.imputation_ is None else self.imputation_.apply_to(data, column_names(self))

    @property
    def n_columns(self) -> int:
        """How many columns the learner sees: the features, or what was made of them."""
        if self.imputation_ is not None:
            return self.imputation_.n_columns
        return int(self.n_features_in_) if self.transform_ is None else self.transform_.n_columns

    @property
    def column_names_(self) -> tuple[str, ...]:
        """What the columns that the learner sees are called, such as `bm25` and `zscore(bm25)`."""
        from podium.models.frame.inspection import column_names

        return tuple(column_names(self))

    # --- what a fitted model tells

    def inspect(self) -> ModelInspection:
        """What the model is made of. Print it."""
        from podium.models.frame.inspection import ModelInspection, about_model

        check_fitted(self)
        return ModelInspection(*about_model(self))

    def save(self, target: Any, *, score_only: bool = False) -> None:
        """Write the model, to a path or a binary file object, as one checked file without code; `podium.load` reads it.

        Parameters that are Python functions are refused, unless `score_only`: then they are left out, and the loaded
        model scores but cannot be trained until they are set again.
        """
        from podium.persistence.saving import save

        check_fitted(self, "It has learned nothing that could be saved; call fit first.")
        save(self, target, score_only)

    def export(self, path: Any, to: str, **options: Any) -> Report:
        """Write the model as a file of another program, such as to="lightgbm"; see `podium.exchange.export`."""
        from podium.exchange.exporting import export

        return export(self, path, to, **options)

    def scoring_parameter(self, name: str) -> Any:
        """A parameter as it was in `fit`; before, as it is."""
        known: Mapping[str, Any] = self.__dict__.get("fitted_parameters_", {})
        return known[name] if name in known else value_of(self, name)

    def summands(self) -> list[Any]:
        """Forests and linear functions that add up to the score, for models that are such a sum."""
        message = f"{type(self).__name__} is not a sum of trees and linear functions, which exact Shapley values need."
        raise ValueError(f"{message} Use podium.explain.permutation_importance or partial_dependence.")

    def largest_score(self) -> float:
        """No score without that of the init model is further from 0 than this, where the model knows a bound."""
        return 0.0

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.target_tags.positive_only = True
        tags.input_tags.allow_nan = self.takes_missing(fitted=is_fitted(self))
        tags.input_tags.sparse = self.allows_sparse
        return tags


Ranker.transform = HiddenIfNone("transform")
