"""Ranker: the scikit-learn interface of every model. Rows and labels in, one score per row out.

A ranker has the parameters of its class as dataclass fields, which gives scikit-learn the signature it wants. `fit`
brings a learner and an objective together; what they are, a subclass says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import wraps
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar, cast

import numpy as np

from podium._runtime.interrupts import check_interrupts, deferred_interrupts, undisguised_interrupts
from podium._runtime.warn import warn
from podium._runtime.words import counted
from podium.data.query_ids import as_query_ids, group_rows
from podium.data.ranking import RankingData, refuse_beside_data
from podium.data.sparse import FeatureMatrix
from podium.evaluation.evaluating import evaluate
from podium.learners.rows import finite_scores
from podium.metrics.base import Metric
from podium.metrics.lists import order_by_score
from podium.metrics.registry import parse_metric
from podium.models.frame.arguments import (
    CheckedArguments,
    as_eval_sets,
    check_early_stopping,
    one_query_warning,
    refuse_number_as_qid,
)
from podium.models.frame.estimator import check_fitted
from podium.models.frame.parameters import (
    INTEGER,
    NAME,
    NAMES,
    HiddenWhileNone,
    check_parameters,
    parameter,
    parametrized,
    value_of,
)
from podium.models.frame.scoring import RowScorer
from podium.models.frame.transforms import (
    KINDS,
    WITHIN_QUERY,
    Queries,
    Transform,
    are_transforms,
    one_query,
    queries_by_id,
    queries_of,
)
from podium.objectives.registry import OBJECTIVES, parse_objective
from podium.persistence.validation import Fact

# Training code is imported by the methods that train: a model that is loaded to score needs none of it.
if TYPE_CHECKING:
    from podium.learners.monitor import Curves, Monitor
    from podium.persistence.checkpoints import Checkpoints

Callback = Callable[["Progress"], bool | None]


_Fit = TypeVar("_Fit", bound=Callable[..., Any])


class Interrupted(KeyboardInterrupt):
    """Ctrl-C in a training: what was learned until then is kept on the model."""


def all_or_nothing(fit: _Fit) -> _Fit:
    """A `fit` that leaves the fitted state as it was where it fails; parameters are the caller's affair."""

    @wraps(fit)
    def whole_fit(self: Ranker, *args: Any, **options: Any) -> Any:
        parameters, before = {f.name for f in fields(self)}, dict(self.__dict__)
        with deferred_interrupts(), undisguised_interrupts():
            try:
                return fit(self, *args, **options)
            except Interrupted:
                raise
            except BaseException:
                now = {name: value for name, value in self.__dict__.items() if name in parameters}
                self.__dict__ = {name: value for name, value in before.items() if name not in parameters} | now
                raise

    return cast(_Fit, whole_fit)


@dataclass(frozen=True)
class Progress:
    """What callbacks are given after each step; returning True stops the training."""

    model: Ranker
    iteration: int  # steps done
    total: int
    evals: Curves


@parametrized
class Ranker(CheckedArguments):
    """The frame: checks input, remembers feature names, scores, ranks, saves. Members define `_fit` and `_scores`."""

    eval_metric: Any = parameter(
        None,
        "Metric for evaluation sets and score; None uses the metric that the model optimizes, or ndcg@10.",
        kind=NAME,
        optional=True,
        words="a metric, or None",
    )
    n_jobs: int | None = parameter(
        None,
        "Number of threads. The model is the same for any number.",
        kind=INTEGER,
        low=-1,
        high=4096,
        optional=True,
        words="an integer from 1 to 4,096, or -1 or None for all cores",
    )
    transform: Any = parameter(
        None,
        "Columns made of each feature: within the query zscore, rank and minmax, over the training rows standard, "
        "signed_log and quantile, or raw. With one of the first three, predict needs qid. None: the features as they "
        "are.",
        kind=NAMES,
        optional=True,
        holds=are_transforms,
        words=f'names such as ("raw", "zscore", "rank"), each once, out of {", ".join(KINDS)}; or None',
    )

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
        eval_set: Any = None,
        early_stopping_rounds: int | None = None,
        callbacks: Sequence[Callback] = (),
        verbose: int | None = None,
        checkpoint: Any = None,
        every: int = 10,
        checkpoint_errors: str = "stop",
    ) -> Self:
        """Train on rows X (n, features) with labels y and one query id per row, in any order; or on a RankingData.

        Here and wherever rows are asked for, X may be a scipy sparse matrix: it stays sparse, what is not stored is 0.

        `group` takes LightGBM's sizes instead of qid. `eval_set` is one (X, y, qid) or RankingData, or a list of them;
        the first one stops the training after `early_stopping_rounds` steps without progress (None: never, nets after
        10; False: never). `verbose=k` prints a line every k steps.

        With `checkpoint=path` the training is kept in that file every few steps. If the file is there already, from the
        same training that was killed, it goes on from it, and the model has the same bytes as one of a run that never
        stopped; a file of another training is refused. The file is removed when the training comes to its end, as the
        model is then the result and the next training would be refused; Ctrl-C and errors leave it. If it cannot be
        written, `checkpoint_errors="stop"` raises the error, "warn" warns once; the last checkpoint stays valid.

        A fit that fails leaves the model as it was before. Ctrl-C is noticed when a step is done (a second one at
        once): the steps so far are kept on the model, and KeyboardInterrupt is raised. Before the first step, it is a
        fit that fails.
        """
        given = {"group": group, "sample_weight": sample_weight, "query_weight": query_weight}
        watched = {"eval_set": eval_set, "early_stopping_rounds": early_stopping_rounds, "callbacks": callbacks}
        kept = {"checkpoint": checkpoint, "every": every, "checkpoint_errors": checkpoint_errors}
        return self._train(X, y, qid, **given, **watched, **kept, verbose=verbose)

    def _train(
        self,
        X: Any,
        y: Any,
        qid: Any,
        *,
        group: Any = None,
        sample_weight: Any = None,
        query_weight: Any = None,
        eval_set: Any = None,
        early_stopping_rounds: int | None = None,
        callbacks: Sequence[Callback] = (),
        verbose: int | None = None,
        checkpoint: Any = None,
        every: int = 10,
        checkpoint_errors: str = "stop",
        more: int | None = None,
        own: Mapping[str, Any] | None = None,
    ) -> Self:
        """`fit`, or with `more` so many further steps of the fitted model.

        own: arguments that only the `fit` of this model has; its learner is made with them.
        """
        from podium.persistence.checkpoints import Checkpoints

        own = {} if own is None else own
        self._check_parameters()
        if more is None:
            self.fitted_parameters_ = {name: value_of(self, name) for name in self._FITTED_PARAMETERS}
        kept = Checkpoints.of(checkpoint, every, checkpoint_errors, print if verbose else None)
        check_early_stopping(early_stopping_rounds, eval_set)
        if more is None:
            self.categories_ = self._find_names(X)
        data = self._training_data(X, y, qid, group, sample_weight, query_weight, known=more is not None)
        self.n_queries_ = data.n_queries
        self._warn_if_nothing_to_learn(data, **own)
        self._supported(data.X, "the training data")
        eval_sets = [self._eval_data(part, number) for number, part in enumerate(as_eval_sets(eval_set))]
        for number, part in enumerate(eval_sets):
            self._supported(part.X, f"eval_set[{number}]")
        if more is None:
            self.transform_ = self._fit_transform(data)
        data, eval_sets = self._transformed(data), [self._transformed(part) for part in eval_sets]
        listeners = [*callbacks, *([_print_every(verbose)] if verbose else [])]
        if more is None:
            self._fit_base(X, y, qid, group=group, sample_weight=sample_weight, query_weight=query_weight)
        check_interrupts()
        self._run(data, eval_sets, early_stopping_rounds, listeners, kept, more, own)
        return self

    def _fit_base(self, X: Any, y: Any, qid: Any, **more: Any) -> None:
        """Train what the model starts from, on what `fit` is given; members that start from something do."""

    def _run(
        self,
        data: RankingData,
        eval_sets: list[RankingData],
        early_stopping_rounds: int | None,
        callbacks: Sequence[Callback],
        checkpoints: Checkpoints | None,
        more: int | None,
        own: Mapping[str, Any],
    ) -> None:
        """Let the learner take its steps; what it has learned becomes the fitted state."""
        from podium.learners.monitor import Monitor
        from podium.models.frame.fitting import Keeper, run_steps
        from podium.persistence.checkpoints import describe_run

        learner = self._start(data, eval_sets, early_stopping_rounds, continued=more is not None, **own)
        n_steps = self._n_steps() if more is None else learner.n_steps + more
        check_interrupts()

        def report(steps: int, curves: Curves) -> bool:
            progress = Progress(self, steps, n_steps, curves)
            answers = [bool(callback(progress)) for callback in callbacks]  # all are called
            return any(answers)

        watched = eval_sets, self._judging_metric(), self._patience(early_stopping_rounds)
        monitor, keeper = Monitor(learner, *watched, report, self.n_jobs), None
        if checkpoints is not None:
            description = describe_run(self, data.grouped(), eval_sets, early_stopping_rounds)
            keeper = Keeper(checkpoints, learner, monitor, n_steps, description | {"steps": str(n_steps)})
            keeper.resume()
        try:
            with undisguised_interrupts():
                run_steps(learner, monitor, n_steps, keeper)
        except KeyboardInterrupt as interrupt:
            if not monitor.steps:
                raise
            self._keep(learner, monitor)
            stopped = f"stopped after {counted(learner.n_steps, learner.unit)}; what was learned is kept."
            raise Interrupted(stopped) from interrupt
        if not self._warn_if_constant(data, **own):  # else no reason that the learner could give is a better one
            self._warn_if_nothing_learned(learner, monitor)
        self._keep(learner, monitor)
        if checkpoints is not None:
            checkpoints.end()

    def _keep(self, learner: Any, monitor: Monitor) -> None:
        """What was learned up to the last completed step, or the best one, becomes the fitted state."""
        snapshot, curves = monitor.result()
        learner.keep(snapshot)
        self._set_fitted(learner)
        self.best_iteration_, self.evals_ = learner.n_steps, curves

    def _start(
        self,
        data: RankingData,
        eval_sets: list[RankingData],
        early_stopping_rounds: int | None,
        *,
        continued: bool,
        **own: Any,
    ) -> Any:
        """The learner, which follows the evaluation sets; own: see `_train`."""
        learner = self._learner(data, continued=continued, **own)
        for part in eval_sets:
            learner.follow(part.X, self._offset(part))
        return learner

    def _patience(self, early_stopping_rounds: int | None) -> int | None:
        """After how many steps without progress the training ends."""
        return early_stopping_rounds or None

    def _objective(self) -> Any:
        """What the learner fits the gradients of; None: the learner has a loss of its own."""
        return None

    def _named_objective(self, chosen: Any, **settings: Any) -> Any:
        """An objective. One that is given by name has the model's seed and metric, where it takes them, and `settings`.

        A pair_exponent of the model is that of the objective; it is refused where the objective has none.
        """
        kind = OBJECTIVES.get(chosen.strip().lower()) if isinstance(chosen, str) else None
        if kind is not None:
            own = {"seed": getattr(self, "random_state", None), "metric": getattr(self, "metric", None)}
            given = {name: value for name, value in own.items() if value is not None} | settings
            found = parse_objective(chosen, **{f.name: given[f.name] for f in fields(kind) if f.name in given})
        else:
            found = parse_objective(chosen)
        exponent = getattr(self, "pair_exponent", 0.0)
        if not exponent:
            return found
        if "pair_exponent" not in {field.name for field in fields(found)}:
            raise ValueError(
                f"{type(self).__name__}: pair_exponent={exponent:g} is for pairwise objectives and lambda; "
                f"got objective {found.name!r}. Leave it at 0."
            )
        return parse_objective(found, pair_exponent=float(exponent))

    def _learner(self, data: RankingData, continued: bool) -> Any:
        """The learner, on the training rows; `continued`: from the fitted state."""
        raise NotImplementedError

    def _n_steps(self) -> int:
        """How many steps `fit` takes."""
        raise NotImplementedError

    def _set_fitted(self, learner: Any) -> None:
        """Take over what was learned."""
        raise NotImplementedError

    def _scores(self, X: FeatureMatrix) -> np.ndarray:
        """One score per row, of checked rows that were transformed: the columns that the learner saw."""
        raise NotImplementedError

    def _offset(self, data: RankingData) -> np.ndarray | float:
        """The scores that rows of an evaluation set have before the first step."""
        return 0.0

    def _warn_if_nothing_learned(self, learner: Any, monitor: Monitor) -> None:
        """Members that can tell why warn."""

    def _bind(self, data: RankingData) -> Any:
        """The objective on the (grouped) training rows."""
        weights = {"weights": data.sample_weight, "query_weights": data.query_weight}
        return self._objective().bind(data.labels_for("fit"), data.offsets, **weights, n_jobs=self.n_jobs)

    def predict(self, X: Any, qid: Any = None) -> np.ndarray:
        """One score per row. Scores order the documents of a query.

        `qid`, one query id per row, is needed by models that compare the documents of a query: those with a transform
        within the query, and ensembles of normalized scores. A RankingData has its own. A model that was trained on one
        query takes rows without `qid` as one query, with a warning.
        """
        refuse_number_as_qid(qid)
        return self._score_rows(*self._asked(X, qid))

    def scorer(self) -> Any:
        """A bare function for services: float32 rows in C order in, float32 scores out, on the caller's thread.

        Where scores depend on the other documents of the query, the rows of one call are one query.
        """
        check_fitted(self)
        exact = lambda X: self._row_scores(X, one_query(len(X)))  # noqa: E731
        return RowScorer(exact, self.n_features_in_, type(self).__name__)

    def _score_rows(self, rows: FeatureMatrix, queries: Queries | None) -> np.ndarray:
        """One score per row of rows that were checked but not transformed; all are finite, or it is an error.

        Every way to scores goes through here, also that of members and base models: a NaN within an ensemble would
        not be seen in its ranks.
        """
        return finite_scores(self._row_scores(rows, queries), type(self).__name__)

    def _row_scores(self, rows: FeatureMatrix, queries: Queries | None) -> np.ndarray:
        """What `_score_rows` checks."""
        return self._scores(self._columns(rows, queries))

    def _asked(self, X: Any, qid: Any) -> tuple[FeatureMatrix, Queries | None]:
        """Rows to be scored, checked; and their queries, where scores depend on them."""
        rows = self._supported(self._rows(X), "the rows", fitted=True)
        if not self._needs_qid():
            return rows, None
        if isinstance(X, RankingData):
            return rows, queries_of(X)
        if qid is None and self.n_queries_ == 1:  # trained on one list, as scikit-learn's tools do without qid
            warn(one_query_warning(rows.shape[0]))
            return rows, one_query(rows.shape[0])
        if qid is None:
            raise ValueError(
                f"{type(self).__name__}: predict needs qid, one query id per row, because {self._reason_for_qid()}. "
                "model.scorer() takes the rows of one query as one list."
            )
        return rows, queries_by_id(as_query_ids(qid, None, rows.shape[0]))

    def _needs_qid(self) -> bool:
        """Whether a score depends on the other documents of its query; then `predict` asks for them."""
        transform = getattr(self, "transform_", None)
        return transform is not None and transform.needs_queries

    def _reason_for_qid(self) -> str:
        return f"its transform compares the documents of a query ({', '.join(WITHIN_QUERY)})"

    def rank(self, X: Any, qid: Any = None) -> np.ndarray:
        """The rows, best first within each query; queries in order of first appearance.

        Without `qid`, all rows are those of one query.
        """
        if isinstance(X, RankingData):
            refuse_beside_data("rank", qid=qid)
            scores = self.predict(X)
            return np.asarray(X.rows[order_by_score(scores[X.rows], X.offsets)])
        n = X.shape[0] if hasattr(X, "shape") else len(X)
        ids = np.zeros(n, np.int64) if qid is None else as_query_ids(qid, None, n)
        scores = self.predict(X, ids)
        order, offsets, _ = group_rows(ids)
        if order is None:
            return order_by_score(scores, offsets)
        return np.asarray(order[order_by_score(scores[order], offsets)])

    def score(self, X: Any, y: Any = None, qid: Any = None, *, group: Any = None, sample_weight: Any = None) -> float:
        """The mean over queries of the metric that evaluation sets are judged by, under its policy; more is better.

        It is `eval_metric`, or what the model aims at, or ndcg@10. A metric that is better when lower comes negated.
        """
        metric = self._judging_metric()
        if isinstance(X, RankingData):
            refuse_beside_data("score", y=y, qid=qid, group=group, sample_weight=sample_weight)
            found = evaluate(self.predict(X), X, metrics=[metric])
        else:
            if qid is None and group is None:
                if getattr(self, "n_queries_", 1) > 1:
                    raise ValueError("score needs qid (or group): the model was trained on many queries.")
                warn(one_query_warning(np.shape(X)[0]))
                group = [np.shape(X)[0]]
            ids = as_query_ids(qid, group, np.shape(X)[0]) if self._needs_qid() else None
            found = evaluate(
                self.predict(X, ids), y, qid=qid, group=group, metrics=[metric], sample_weight=sample_weight
            )
        return found[metric.name] * (1 if metric.higher_is_better else -1)

    def _judging_metric(self) -> Metric:
        """The metric of evaluation sets and of `score`."""
        return parse_metric(self._aim() if self.eval_metric is None else self.eval_metric)

    def _aim(self) -> Any:
        """The metric that the objective steers by, where it has one."""
        return getattr(self._objective(), "target", "ndcg@10")

    def inspect(self) -> Any:
        """What the model is made of. Print it."""
        from podium.models.frame.inspection import ModelInspection, shown_parameters

        check_fitted(self)
        return ModelInspection(type(self).__name__, self.n_features_in_, *shown_parameters(self))

    def save(self, target: Any, *, score_only: bool = False) -> None:
        """Write the model, to a path or a binary file object, as one checked file without code; `podium.load` reads it.

        Parameters that are Python functions are refused, unless `score_only`: then they are left out, and the loaded
        model scores but cannot be trained until they are set again.
        """
        from podium.persistence.saving import save

        check_fitted(self)
        save(self, target, score_only)

    step_word: ClassVar[str] = "step"  # what a step of the training is called
    steps_parameter: ClassVar[str | None] = None  # with the number of steps, where a learning curve can decide it
    search_space: ClassVar[Mapping[str, Any]] = {}  # what `podium tune` searches, with the defaults in it

    # Parameters that a fitted model still reads, to score or to tell about itself. `fit` keeps their values: a
    # parameter that is set afterwards is for the next training. All else that scores depend on is in fitted attributes.
    _FITTED_PARAMETERS: ClassVar[tuple[str, ...]] = ()

    def _fitted_parameter(self, name: str) -> Any:
        """A parameter as it was in `fit`; before, as it is."""
        known: Mapping[str, Any] = self.__dict__.get("fitted_parameters_", {})
        return known[name] if name in known else value_of(self, name)

    # --- transforms: what rows become before the learner sees them

    def _fit_transform(self, data: RankingData) -> Transform | None:
        kinds = value_of(self, "transform")
        return None if kinds is None else Transform.fit(kinds, data, self._untransformed(), self.n_jobs)

    def _untransformed(self) -> Sequence[int]:
        """Features that no transform makes sense for: categories."""
        return ()

    def _transformed(self, data: RankingData) -> RankingData:
        """Training or evaluation data as the learner sees them."""
        if self.transform_ is None:
            return data
        from podium.models.frame.inspection import feature_names

        return self.transform_.apply_to(data, feature_names(self), self.n_jobs)

    def _columns(self, rows: FeatureMatrix, queries: Queries | None) -> FeatureMatrix:
        """Checked rows as the learner sees them."""
        return rows if self.transform_ is None else self.transform_.apply(rows, queries, self.n_jobs)

    @property
    def _n_columns(self) -> int:
        """How many columns the learner sees; without a transform the number of features."""
        return int(self.n_features_in_) if self.transform_ is None else self.transform_.n_columns

    @property
    def column_names_(self) -> tuple[str, ...]:
        """What the columns that the learner sees are called, such as `bm25` and `zscore(bm25)`."""
        from podium.models.frame.inspection import column_names

        return tuple(column_names(self))

    # What a model file holds of a fitted model; members say.
    _FACTS: ClassVar[Mapping[str, Fact]] = {}  # keys of `_fitted_meta`
    _ARRAYS: ClassVar[tuple[str, ...]] = ()  # keys of `_fitted_arrays`

    def _fitted_meta(self) -> dict[str, Any]:
        return {}

    def _fitted_arrays(self) -> dict[str, np.ndarray]:
        return {}

    def _restore_fitted(self, meta: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
        """Take over what a file holds, which has been checked by type."""

    def _check_fitted(self) -> None:
        """Refuse parameters out of range, and a model whose parts do not fit together."""
        Ranker._check_parameters(self)  # objectives and metrics are read where they are used

    def _children(self) -> dict[str, Ranker]:
        """Models that are parts of this one and saved with it, by name."""
        return {}

    def _set_child(self, name: str, child: Ranker) -> None:
        raise ValueError(f"{type(self).__name__} has no part that is called {name!r}")

    def _summands(self) -> list[Any]:
        """Forests and linear functions that add up to the score, for models that are such a sum."""
        message = f"{type(self).__name__} is not a sum of trees and linear functions, which exact Shapley values need."
        raise ValueError(f"{message} Use podium.explain.permutation_importance or partial_dependence.")

    def _largest_score(self) -> float:
        """No score is further from 0 than this, where the model knows a bound."""
        return 0.0

    def _unsaved_parameters(self) -> tuple[str, ...]:
        """Parameters that are not in the model file: threads are the machine's affair."""
        return ("n_jobs",)

    def _check_parameters(self) -> None:
        """Refuse values that the parameters do not take; subclasses add what holds between parameters."""
        check_parameters(self)

    def _warn_if_nothing_to_learn(self, data: RankingData) -> None:
        labels = data.labels_for("fit")[data.rows]
        low, high = (of.reduceat(labels, data.offsets[:-1]) for of in (np.minimum, np.maximum))
        if self._needs_pairs() and not (low < high).any() and data.n_rows > 1:
            warn(f"0 of {data.n_queries} queries have two different labels; the model is constant.")

    def _warn_if_constant(self, data: RankingData, by_label: bool = True) -> bool:
        """Warn where the columns that the learner sees tell nothing apart that it is to rank; whether they do not."""
        from podium.models.frame.constant_features import constant_features

        constant = constant_features(data, by_query=self._needs_pairs(), by_label=by_label)
        if constant is not None:
            warn(f"{type(self).__name__}: {constant}, so there is nothing to learn. Check the features.")
        return constant is not None

    def _needs_pairs(self) -> bool:
        """Whether queries with a single label teach nothing."""
        objective = self._objective()
        return objective is None or bool(objective.needs_pairs)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.target_tags.positive_only = True
        tags.input_tags.allow_nan = self._allows_missing(fitted=hasattr(self, "n_features_in_"))
        tags.input_tags.sparse = self._ALLOWS_SPARSE
        return tags


Ranker.transform = HiddenWhileNone("transform")


def _print_every(steps: int) -> Callback:
    def show(progress: Progress) -> None:
        if progress.iteration % steps == 0:
            numbers = [
                f"{part} {metric} {curve[-1]:.4f}"
                for part, curves in progress.evals.items()
                for metric, curve in curves.items()
            ]
            print(f"{progress.iteration}/{progress.total}  {'  '.join(numbers)}", flush=True)

    return show
