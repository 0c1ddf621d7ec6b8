"""Fitting on one rank: the frame of `fit` on the rows of one worker; what depends on all rows, all ranks work out.

Every rank does the same in the same order, with equal numbers wherever a decision is taken. So each of them ends with
the same model, byte for byte.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, replace
from io import BytesIO
from typing import Any

import numpy as np

from podium._runtime.compiler import Array, kernel
from podium._runtime.warn import warn
from podium.data.ranking import RankingData
from podium.data.sharding.shard import Shard
from podium.data.sparse import is_sparse
from podium.data.weights import with_scaled_weights
from podium.distributed.shuffling import ShardRows
from podium.distributed.watching import ShardMonitor
from podium.formats.names import Names
from podium.learners.monitor import Curves
from podium.models.frame.arguments import eval_data
from podium.models.frame.constant_features import constant_features
from podium.models.frame.fitting import keep_result, restore_training, run_steps
from podium.models.frame.init_model import check_init_scores, fit_init, init_offset, init_scores
from podium.models.frame.parameters import value_of
from podium.models.frame.plan import TrainingPlan, TrainingRows, ordered_queries
from podium.models.frame.ranker import Ranker
from podium.models.frame.transforms import Transform
from podium.persistence.checkpoints import describe_training
from podium.persistence.saving import save

State = tuple[dict[str, Any], dict[str, Array]]


@dataclass(frozen=True)
class Order:
    """What all ranks are told to train."""

    model: Ranker
    names: Names
    feature_names: list[str] | None
    early_stopping_rounds: int | None


@dataclass(frozen=True)
class Report:
    """How far a training is; the same on all ranks."""

    n_steps: int
    total: int
    is_over: bool
    curves: Curves
    state: State | None = None  # of all rows, where it was asked for


class RankTraining:
    """A training under way, on one rank."""

    def __init__(self, order: Order, n_threads: int, training: ShardRows, eval_sets: Mapping[str, ShardRows]) -> None:
        model = copy(order.model)  # ranks in one process are told of the same object
        self.model, self.shard, model.n_jobs = model, training.shard, n_threads
        _take_note(model, training.data, order)
        self.eval_shards = [part.shard for part in eval_sets.values()]
        self.plan: TrainingPlan[Any] = model.training_plan()
        self.rows = self._training_rows(training, eval_sets, order.early_stopping_rounds)
        self.learner: Any = self.plan.make_learner(self.rows)
        for part, offset, shard in zip(self.rows.eval_sets, self.rows.eval_offsets, self.eval_shards, strict=True):
            self.learner.follow(part, offset, shard)
        self.n_steps = self.plan.n_steps if isinstance(self.plan.n_steps, int) else self.plan.n_steps()
        sets = dict(zip(self.rows.eval_names, self.rows.eval_sets, strict=True))
        watched = self.learner, sets, model.evaluation_metrics(), self.plan.patience(self.rows), _report, model.n_jobs
        self.monitor = ShardMonitor(self.eval_shards, *watched)
        self._is_over = False

    def _training_rows(
        self, training: ShardRows, eval_sets: Mapping[str, ShardRows], rounds: int | None
    ) -> TrainingRows:
        model, shard, data = self.model, training.shard, training.data
        _refuse_no_weight(data, shard)
        model.n_queries_ = shard.n_queries
        teaches = not self.plan.learns_from_pairs or shard.total(ordered_queries(data) if data.n_rows else 0) > 0
        if not teaches and shard.n_rows > 1:
            warn(f"0 of {shard.n_queries} queries have two different labels; the model is constant.")
        data = with_scaled_weights(data, shard)
        parts = {name: self._eval_data(name, part.data) for name, part in eval_sets.items()}
        check_init_scores(model, data, list(parts.values()))
        data = self._with_columns(data)
        parts = {name: model.transformed(part) for name, part in parts.items()}
        if model.init is not None:
            fit_init(model, None, None, None, {})
        offsets = [init_offset(model, part) for part in parts.values()]
        watched = list(parts.values()), list(parts), offsets, rounds
        return TrainingRows(data, init_scores(model, data), *watched, continued=False, n_jobs=model.n_jobs, shard=shard)

    def _eval_data(self, name: str, data: RankingData) -> RankingData:
        """An evaluation set, whose categories have the numbers of training already."""
        return eval_data(self.model, replace(data, categories=self.model.categories_ or None), f"eval_set[{name!r}]")

    def _with_columns(self, data: RankingData) -> RankingData:
        model, kinds = self.model, value_of(self.model, "transform")
        model.transform_ = model.imputation_ = model.init_ = None
        if kinds is not None:
            unchanged = model.untransformed_features()
            model.transform_ = Transform.fit(kinds, data, unchanged, model.n_jobs, self.shard)
        return model.transformed(data)

    # --- steps

    def advance(self, steps: int, with_state: bool) -> Report:
        """So many further steps, or fewer where the training comes to its end."""
        last = min(self.n_steps, self.learner.n_steps + steps)
        self._is_over = run_steps(self.monitor, last) or last == self.n_steps
        return self.report(with_state)

    def report(self, with_state: bool) -> Report:
        state = self._state() if with_state else None
        return Report(self.learner.n_steps, self.n_steps, self._is_over, self.monitor.curves, state)

    def describe(self) -> dict[str, str]:
        """What this training is, for a checkpoint: the same for any number of ranks."""
        words = [_describe(data, shard) for data, shard in self._divided()]
        described = describe_training(self.model, words[0], words[1:], self.rows.early_stopping_rounds)
        return described | {"steps": str(self.n_steps)}

    def restore(self, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> Report:
        """Continue from the state of all rows that `report` returned."""
        restore_training(self.monitor, 0, self.n_steps, {**meta, "run": {}}, arrays)
        return self.report(with_state=False)

    def finish(self) -> tuple[bytes, str]:
        """The file of the model, and its digest."""
        self._explain()
        keep_result(self.model, self.plan, self.monitor)
        target = BytesIO()
        save(self.model, target)
        return target.getvalue(), hashlib.sha256(target.getvalue()).hexdigest()

    def _explain(self) -> None:
        by_query, by_label = self.plan.learns_from_pairs, self.plan.uses_labels
        constant = constant_features(self.rows.ungrouped, by_query=by_query, by_label=by_label, shard=self.shard)
        if constant is not None:
            warn(f"{type(self.model).__name__}: {constant}, so there is nothing to learn. Check the features.")
        elif self.plan.explain is not None:
            self.plan.explain(self.learner, self.monitor.steps)

    def _state(self) -> State:
        """All that the next step depends on, of the rows of all ranks, as one machine would write it."""
        meta, arrays = self.learner.state(self.monitor.best_snapshot)
        watched, curves = self.monitor.state()
        return meta | watched, arrays | curves

    def _divided(self) -> list[tuple[RankingData, Shard]]:
        return [(self.rows.data, self.shard), *zip(self.rows.eval_sets, self.eval_shards)]


def _report(steps: int, curves: Curves) -> bool:
    """Callbacks are the client's."""
    return False


def _take_note(model: Ranker, data: RankingData, order: Order) -> None:
    """What `fit` learns of the columns, from all partitions together."""
    model.fitted_parameters_ = {name: value_of(model, name) for name in model.scoring_parameters}
    model.categories_ = {column: list(known) for column, known in order.names.items()}
    model.n_features_in_ = data.n_features
    model.__dict__.pop("feature_names_in_", None)
    if order.feature_names is not None:
        model.feature_names_in_ = np.array(order.feature_names, dtype=object)


def _refuse_no_weight(data: RankingData, shard: Shard) -> None:
    for name in ("sample_weight", "query_weight"):
        weights = getattr(data, name)
        if weights is not None and not shard.any(np.array([weights.any()]))[0]:
            raise ValueError(f"{name} is zero everywhere, so nothing would count; at least one needs a weight.")


def _describe(data: RankingData, shard: Shard) -> str:
    """How large the data of all ranks are, and a checksum that no division of the rows can change."""
    labels = data.labels_for("fit")
    weights = [one for one in (data.sample_weight, data.init_score) if one is not None]
    total = np.zeros(1, np.uint64)
    for number, column in enumerate([labels, *weights]):
        total += _hash_column(np.ascontiguousarray(column).view(np.uint64), shard.rows, np.uint64(number))
    if data.query_weight is not None:
        total += _hash_column(np.ascontiguousarray(data.query_weight).view(np.uint64), shard.queries, np.uint64(9))
    total += _hash_features(data.X, shard.rows)
    checksum = shard.collective.sum(total.view(np.int64)).view(np.uint64)[0]
    sizes = f"{shard.n_rows} rows, {shard.n_queries} queries, {data.n_features} features"
    return f"{sizes}, divided, checksum {int(checksum):016x}"


def _hash_features(X: Any, numbers: Array) -> np.uint64:
    if is_sparse(X):
        rows = np.repeat(numbers, np.diff(X.indptr))
        bits = X.data.view(np.uint32).astype(np.uint64) << np.uint64(32) | X.indices.astype(np.uint64)
        return np.uint64(_hash_column(bits, rows, np.uint64(77)))
    return np.uint64(_hash_rows(np.ascontiguousarray(X).view(np.uint32), numbers))


@kernel
def _hash_column(bits: Array, numbers: Array, column: np.uint64) -> np.uint64:
    """The sum over rows of mixed (bits, number of the row, column)."""
    total = np.uint64(0)
    for k in range(len(bits)):
        mixed = (bits[k] ^ np.uint64(0x9E3779B97F4A7C15)) * (np.uint64(2) * np.uint64(numbers[k]) + np.uint64(1))
        mixed ^= mixed >> np.uint64(29)
        total += (mixed + column) * np.uint64(0xBF58476D1CE4E5B9)
    return total


@kernel
def _hash_rows(bits: Array, numbers: Array) -> np.uint64:
    """The sum over rows of a hash of the row's bits (rows, features) and its number."""
    total = np.uint64(0)
    for k in range(bits.shape[0]):
        mixed = np.uint64(numbers[k]) * np.uint64(0x9E3779B97F4A7C15)
        for f in range(bits.shape[1]):
            mixed = (mixed ^ np.uint64(bits[k, f])) * np.uint64(0x100000001B3)
        mixed ^= mixed >> np.uint64(31)
        total += mixed * np.uint64(0xBF58476D1CE4E5B9)
    return total
