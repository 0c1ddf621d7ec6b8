"""Training of nets: an epoch is a step, a batch of whole queries is one move of the optimiser.

The net gives scores, the objective one derivative per document, and one backward pass turns these into the gradient of
the weights: the factorised gradient, with no loop over pairs of net evaluations. On the host, the derivatives are those
of the compiled objective, so lists need no padding: rows are filled up to one of few sizes, with derivatives of 0.

The cost is the mean of the objective over the queries of a batch. Random numbers depend on the seed, the epoch and the
batch alone, so that a training can be resumed after any epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from podium.learners.net.attention import AttentionFunction, AttentionShape
from podium.learners.net.batches import filled_size, rows_of, shuffled_batches
from podium.learners.net.device import (
    DeviceRules,
    DeviceRunner,
    ListClasses,
    batch_network,
    device_data,
    enough_rows,
    plan_rows,
)
from podium.learners.net.network import make_network, over_nets
from podium.learners.net.optimization import OptimizerRules, make_optimizer, start_memory, step_of
from podium.learners.net.scoring import Inputs, Layout, NetFunction, NetShape
from podium.learners.protocol import Target
from podium.learners.stored import read_count, read_numbers, refuse_other_names

if TYPE_CHECKING:
    from podium.data.ranking import RankingData

Snapshot = tuple[int, Any]
DIVERGED = "the weights are no longer finite: the training diverged. Use a smaller learning rate, or clip gradients."


class BatchTarget(Target, Protocol):
    """An objective that is bound to the training rows and can be asked for some queries only."""

    def derivatives(
        self, scores: np.ndarray, gradients: np.ndarray, hessians: np.ndarray, queries: np.ndarray | None = None
    ) -> None: ...
    def on_device(self) -> Any:
        """The `DeviceObjective` of the current iteration, or None."""


@dataclass(frozen=True)
class NetRules:
    """How a net is trained."""

    dropout: float = 0.0
    max_epochs: int = 100
    batch_size: int = 1024  # rows
    n_nets: int = 1
    seed: int = 0
    precision: str = "float32"  # of activations and products
    optimizer: OptimizerRules = field(default_factory=OptimizerRules)

    def rates(self, epoch: int, n_batches: int) -> list[float]:
        """The learning rate of each batch of an epoch."""
        return [self.optimizer.rate((epoch + b / n_batches) / self.max_epochs) for b in range(n_batches)]


class Runner(Protocol):
    """Whoever goes through an epoch: weights and the optimiser's memory in, both out."""

    def epoch(self, number: int, weights: Any, memory: Any) -> tuple[Any, Any]: ...


class NetTraining:
    """The learner of nets. `runner` goes through the epochs; here is what all of them have in common."""

    def __init__(self, inputs: Inputs, shape: Any, rules: NetRules, runner: Runner, start: float = 0.0) -> None:
        self.inputs, self.shape, self.rules, self.runner = inputs, shape, rules, runner
        self._optimizer = make_optimizer(rules.optimizer, shape.penalised())
        self.weights: Any = jnp.asarray(shape.start(rules.seed, rules.n_nets, start))
        self.memory = start_memory(self._optimizer, self.weights)
        self.n_steps, self.is_done = 0, False
        self.followed: list[np.ndarray] = []
        self._followed_rows: list[tuple[RankingData, np.ndarray | float]] = []

    def step(self) -> None:
        weights, memory = self.runner.epoch(self.n_steps, self.weights, self.memory)
        if not bool(jnp.isfinite(weights).all()):
            raise ValueError(DIVERGED)
        followed = self._follow_all(weights)
        self.weights, self.memory, self.followed, self.n_steps = weights, memory, followed, self.n_steps + 1

    def follow(self, data: RankingData, offset: np.ndarray | float) -> None:
        self._followed_rows.append((data, offset))
        self.followed = self._follow_all(self.weights)

    @property
    def function(self) -> Any:
        """The scoring function of the current weights."""
        return self._function(self.weights)

    def _function(self, weights: Any) -> Any:
        return NetFunction(self.shape, self.inputs, np.asarray(weights))

    def _follow_all(self, weights: Any) -> list[np.ndarray]:
        function = self._function(weights)
        return [self._scores(function, data) + offset for data, offset in self._followed_rows]

    def _scores(self, function: Any, data: RankingData) -> np.ndarray:
        return np.asarray(function.scores(data.X))

    def snapshot(self) -> Snapshot:
        return self.n_steps, self.weights

    def keep(self, snapshot: Snapshot) -> None:
        self.n_steps, self.weights = snapshot

    def state(self, best: Snapshot) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        arrays = {"weights": self.weights, "best_weights": best[1], **self._named_memory()}
        stored = {name: np.asarray(array).reshape(-1) for name, array in arrays.items()}
        epochs = np.array([self.n_steps], np.float64)
        return {"epochs": self.n_steps, "best_epochs": best[0]}, stored | {"epochs": epochs}

    def checked_steps(self, arrays: Mapping[str, np.ndarray]) -> int:
        return int(read_numbers(arrays, "epochs", 1)[0])

    def restore(self, meta: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Snapshot:
        memory = self._named_memory()
        refuse_other_names({"epochs", "best_epochs"}, meta)
        refuse_other_names({"weights", "best_weights", "epochs", *memory}, arrays)
        epochs = read_count(meta, "epochs", 2**53)
        if epochs != self.checked_steps(arrays):
            raise ValueError("epochs are counted twice, and differ")
        best_epochs = read_count(meta, "best_epochs", epochs)
        weights, best = (_read_like(arrays, name, self.weights) for name in ("weights", "best_weights"))
        leaves = [_read_like(arrays, name, like) for name, like in memory.items()]
        self.memory = jax.tree.unflatten(jax.tree.structure(self.memory), leaves)
        self.weights, self.n_steps = weights, epochs
        self.followed = self._follow_all(weights)
        return best_epochs, best

    def _named_memory(self) -> dict[str, Any]:
        return {f"memory_{number}": leaf for number, leaf in enumerate(jax.tree.leaves(self.memory))}


class AttentionTraining(NetTraining):
    """The learner of list-aware nets, which score the lists of evaluation sets."""

    def _function(self, weights: Any) -> AttentionFunction:
        return AttentionFunction(self.shape, self.inputs, np.asarray(weights))

    def _scores(self, function: Any, data: RankingData) -> np.ndarray:
        scores = np.empty(data.n_rows)
        scores[data.rows] = function.scores(data.X[data.rows], data.offsets)
        return scores


def _read_like(arrays: Mapping[str, np.ndarray], name: str, like: Any) -> Any:
    """A stored array with the size and type of one that is known; all numbers are finite."""
    array, size = arrays[name], int(np.prod(like.shape))
    if array.dtype != like.dtype or array.shape != (size,):
        raise ValueError(f"{name} has dtype {array.dtype} and shape {array.shape}, not {like.dtype} and ({size},)")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} holds a number that is not finite")
    return jnp.asarray(array.reshape(like.shape))


class HostObjective:
    """The compiled objective, asked for the queries of a batch."""

    def __init__(self, target: BatchTarget, n_rows: int, base: np.ndarray | None) -> None:
        self.target, self.base = target, base
        self._scores = np.zeros(n_rows)
        self._derivatives = np.zeros(n_rows, np.float32), np.zeros(n_rows, np.float32)

    def gradients(self, scores: np.ndarray, queries: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Derivatives of the batch's mean cost, (nets, size): net by net, as each has scores of its own."""
        first, second = self._derivatives
        gradients = np.zeros(scores.shape, np.float32)
        for net, net_scores in enumerate(scores):
            self._scores[rows] = net_scores[: len(rows)]
            if self.base is not None:
                self._scores[rows] += self.base[rows]
            self.target.derivatives(self._scores, first, second, queries)
            gradients[net, : len(rows)] = first[rows]
        return gradients / np.float32(len(queries))


class HostRunner:
    """Epochs with the compiled objective of the host."""

    def __init__(
        self,
        columns: np.ndarray,
        offsets: np.ndarray,
        target: BatchTarget,
        shape: NetShape,
        rules: NetRules,
        base: np.ndarray | None = None,
    ) -> None:
        """columns (n, inputs) float32 are standardised rows, grouped by `offsets`; base (n,): scores to add to."""
        self.columns, self.offsets, self.rules = columns, offsets, rules
        self._programs = host_programs(shape, rules.dropout, rules.n_nets, rules.optimizer, rules.precision)
        self._objective = HostObjective(target, len(columns), base)

    def epoch(self, number: int, weights: Any, memory: Any) -> tuple[Any, Any]:
        self._objective.target.begin(number)
        key = jax.random.fold_in(jax.random.key(self.rules.seed % 2**32), number)
        batches = shuffled_batches(self.offsets, self.rules.batch_size, self.rules.seed, number)
        for batch, (queries, rate) in enumerate(zip(batches, self.rules.rates(number, len(batches)))):
            weights, memory = self._batch(queries, rate, jax.random.fold_in(key, batch), weights, memory)
        return weights, memory

    def _batch(self, queries: np.ndarray, rate: float, key: Any, weights: Any, memory: Any) -> tuple[Any, Any]:
        rows = rows_of(queries, self.offsets)
        size = filled_size(len(rows), self.rules.batch_size)
        x = np.zeros((size, self.columns.shape[1]), np.float32)
        np.take(self.columns, rows, axis=0, out=x[: len(rows)])
        forward, update = self._programs
        scores, backward = forward(weights, x, key)
        gradients = self._objective.gradients(np.asarray(scores), queries, rows)
        return update(weights, memory, backward, gradients, np.float32(rate))  # type: ignore[no-any-return]


class ListRunner:
    """Epochs of list-aware nets with the compiled objective of the host: batches as on a device, one by one."""

    def __init__(
        self,
        columns: np.ndarray,
        offsets: np.ndarray,
        target: BatchTarget,
        shape: AttentionShape,
        rules: NetRules,
        base: np.ndarray | None = None,
    ) -> None:
        self.offsets, self.rules = offsets, rules
        self.classes, self._largest = ListClasses(offsets, rules.batch_size), 0
        self._data = device_data(columns, offsets, jnp.dtype(rules.precision), None)
        self._device_rules = DeviceRules(shape, rules.optimizer, rules.dropout, rules.n_nets, rules.precision)
        self._objective = HostObjective(target, len(columns), base)

    def epoch(self, number: int, weights: Any, memory: Any) -> tuple[Any, Any]:
        self._objective.target.begin(number)
        parts, rows = self.classes.epoch(self.rules.seed, number)
        self._largest = enough_rows(rows, self._largest)
        forward, update = list_programs(self._device_rules, tuple(self.classes.widths), self._largest)
        key = jax.random.fold_in(jax.random.key(self.rules.seed % 2**32), number)
        for batch, rate in enumerate(self.rules.rates(number, self.classes.n_batches)):
            chosen = [part[batch] for part in parts]
            scores, backward = forward(weights, self._data, chosen, jax.random.fold_in(key, batch))
            queries = np.concatenate(chosen)
            queries = queries[queries >= 0].astype(np.int64)
            gradients = self._objective.gradients(np.asarray(scores), queries, rows_of(queries, self.offsets))
            weights, memory = update(weights, memory, backward, gradients, np.float32(rate))
        return weights, memory


class DeviceEpochs:
    """Epochs on the device: `DeviceRunner` with an objective that is bound on the host."""

    def __init__(
        self,
        columns: np.ndarray,
        offsets: np.ndarray,
        target: BatchTarget,
        shape: NetShape | AttentionShape,
        rules: NetRules,
        base: np.ndarray | None,
    ) -> None:
        self.target, self._objective = target, target.on_device()
        device_rules = DeviceRules(shape, rules.optimizer, rules.dropout, rules.n_nets, rules.precision)
        data = columns, offsets, self._objective_at, device_rules, rules.batch_size, rules.rates
        self.epoch = DeviceRunner(*data, seed=rules.seed, base=base).epoch

    def _objective_at(self, number: int) -> Any:
        if self._objective.resampled:
            self.target.begin(number)
            self._objective = self.target.on_device()
        return self._objective


Programs = tuple[Callable[..., Any], Callable[..., Any]]  # scores with their backward pass, and the optimiser's move


@lru_cache(maxsize=32)
def host_programs(
    shape: NetShape, dropout: float, n_nets: int, rules: OptimizerRules, precision: str = "float32"
) -> Programs:
    """Compiled once per shape of their arguments."""
    return _programs(over_nets(make_network(shape, dropout, jnp.dtype(precision)), n_nets), rules, shape)


@lru_cache(maxsize=32)
def list_programs(rules: DeviceRules, widths: tuple[int, ...], n_rows: int) -> Programs:
    """`host_programs` for list-aware nets."""
    network = batch_network(rules, widths)

    def scores(weights: Any, data: Any, chosen: Any, key: Any) -> Any:
        plan = plan_rows(widths, n_rows, chosen, data)
        return network(weights, data["columns"][plan["row"]], key, chosen, plan, data)

    return _programs(scores, rules.optimizer, rules.shape)


def _programs(scores: Callable[..., Any], rules: OptimizerRules, shape: Layout) -> Programs:
    step = step_of(make_optimizer(rules, shape.penalised()))

    @jax.jit
    def forward(weights: Any, *inputs: Any) -> Any:
        return jax.vjp(lambda moved: scores(moved, *inputs), weights)

    @jax.jit
    def update(weights: Any, memory: Any, backward: Any, gradients: Any, rate: Any) -> Any:
        return step(weights, memory, *backward(gradients), rate)

    return forward, update
