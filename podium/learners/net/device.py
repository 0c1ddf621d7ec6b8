"""Epochs on a device: rows, objective and optimiser stay there, and one program runs the whole epoch.

Rows of a batch lie packed, one list after the other, so that products have no rows to waste. For the objective, lists
are filled up to the length of their class, a power of two; every batch has the same number of lists of each class, so
all batches of an epoch have one shape. The host sends the order of the queries, once per epoch. A program is compiled
for the shapes of its arguments, which takes longer than a small training: small data are filled up, so that the folds
of a cross-validation share programs.

Imports only the standard library, NumPy, JAX and optax: this runs where nothing else is installed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from podium.learners.net.attention import AttentionShape
from podium.learners.net.attention_network import make_attention
from podium.learners.net.network import make_network, over_nets
from podium.learners.net.optimization import OptimizerRules, make_optimizer, step_of
from podium.learners.net.scoring import NetShape

_SHORTEST = 8  # the least length of a class
_WHOLE_ROWS = 256  # batches are filled up to a multiple of this
# cuBLAS adds biases and takes the activation in its products; Triton's products are slower to compile and to run here.
_GPU_OPTIONS = {"xla_gpu_enable_triton_gemm": False}
_LARGE = 2**17  # more rows than this are worth a program of their own
_SPARE = 1.02  # room for batches of later epochs that are larger than those of the first


def shared_size(n: int) -> int:
    """n, or up to a quarter more: four sizes per doubling, which data of nearly the same size share."""
    unit = 2 ** max(n.bit_length() - 3, 0)
    return n if n > _LARGE else -(-n // unit) * unit


class DeviceObjective(Protocol):
    """An objective on the training rows: what its gradients are a function of, (n,) and (queries,) float32 each."""

    @property
    def gradients(self) -> Callable[..., Any]:
        """(scores, mask, rows, queries, table) -> gradients, on padded lists; hashable."""

    @property
    def rows(self) -> Mapping[str, np.ndarray]: ...
    @property
    def queries(self) -> Mapping[str, np.ndarray]: ...
    @property
    def table(self) -> np.ndarray: ...
    @property
    def resampled(self) -> bool:
        """Whether the rows are others in every epoch."""


@dataclass(frozen=True)
class DeviceRules:
    """What the program depends on beside the shapes of its arguments."""

    shape: NetShape | AttentionShape
    optimizer: OptimizerRules
    dropout: float = 0.0
    n_nets: int = 1
    precision: str = "float32"  # of activations and products, "bfloat16" or "float32"


class ListClasses:
    """The queries by length, and the batches of an epoch: each class is spread evenly over all batches.

    Every batch has a query: the mean cost of none would be 0/0.
    """

    def __init__(self, offsets: np.ndarray, batch_rows: int) -> None:
        self.lengths = np.diff(offsets)
        sizes = 2 ** np.ceil(np.log2(np.maximum(self.lengths, _SHORTEST))).astype(np.int64)
        is_large = offsets[-1] > _LARGE
        longest = -(-int(self.lengths.max(initial=1)) // _SHORTEST) * _SHORTEST
        longest = longest if is_large else shared_size(longest)
        sizes = np.minimum(sizes, max(longest, _SHORTEST))
        self.widths = [int(width) for width in np.unique(sizes)]
        self.members = [np.flatnonzero(sizes == width) for width in self.widths]
        self.n_batches = max(min(-(-int(offsets[-1]) // batch_rows), len(self.lengths)), 1)
        lists = [-(-len(members) // self.n_batches) for members in self.members]
        self._lists = lists if is_large else [shared_size(n) for n in lists]  # per batch

    def epoch(self, seed: int, number: int) -> tuple[list[np.ndarray], int]:
        """Queries of each class, (batches, lists), -1 where there is none; and the rows of the largest batch."""
        generator, parts = np.random.default_rng([seed, number]), []
        rows = np.zeros(self.n_batches, np.int64)
        for members, lists in zip(self.members, self._lists):
            padded = np.full(lists * self.n_batches, -1, np.int32)
            padded[: len(members)] = generator.permutation(members)
            part = padded.reshape(lists, self.n_batches).T[generator.permutation(self.n_batches)]
            parts.append(np.ascontiguousarray(part))
        fill_empty_batches(parts)
        for part in parts:
            rows += np.where(part >= 0, self.lengths[part], 0).sum(axis=1)
        return parts, int(rows.max())


def fill_empty_batches(parts: list[np.ndarray]) -> None:
    """Give each batch without a query one of the batch that has most; parts: see `ListClasses.epoch`."""
    counts = np.sum([(part >= 0).sum(axis=1) for part in parts], axis=0)
    for empty in np.flatnonzero(counts == 0):
        largest = int(counts.argmax())
        part = next(part for part in parts if (part[largest] >= 0).any())
        slot = np.flatnonzero(part[largest] >= 0)[-1]
        part[empty, 0], part[largest, slot] = part[largest, slot], -1
        counts[largest], counts[empty] = counts[largest] - 1, 1


class DeviceRunner:
    """Epochs on the device that JAX uses by default."""

    def __init__(
        self,
        columns: np.ndarray,
        offsets: np.ndarray,
        objective: Callable[[int], DeviceObjective],
        rules: DeviceRules,
        batch_rows: int,
        rates: Callable[[int, int], list[float]],
        seed: int = 0,
        base: np.ndarray | None = None,
    ) -> None:
        """columns (n, inputs) float32: standardised rows; objective(epoch); rates(epoch, batches)."""
        self.rules, self.rates, self.seed, self._objective = rules, rates, seed, objective
        self.classes = ListClasses(offsets, batch_rows)
        self._largest = 0
        self._data = device_data(columns, offsets, jnp.dtype(rules.precision), base)
        self._arrays: Any = None  # of the objective

    def epoch(self, number: int, weights: Any, memory: Any) -> tuple[Any, Any]:
        parts, rows = self.classes.epoch(self.seed, number)
        self._largest = enough_rows(rows, self._largest)
        objective = self._send(number)
        program = epoch_program(self.rules, objective.gradients, tuple(self.classes.widths), self._largest)
        rates = jnp.asarray(self.rates(number, self.classes.n_batches), jnp.float32)
        key = jax.random.fold_in(jax.random.key(self.seed % 2**32), number)
        return program(weights, memory, self._data, self._arrays, parts, rates, key)  # type: ignore[no-any-return]

    def _send(self, number: int) -> DeviceObjective:
        """The objective of this epoch; its arrays are sent once, or again where they were resampled."""
        objective = self._objective(number)
        if self._arrays is None or objective.resampled:
            rows = {name: jnp.asarray(_filled_up(values)) for name, values in objective.rows.items()}
            queries = {name: jnp.asarray(_filled_up(values)) for name, values in objective.queries.items()}
            self._arrays = {"rows": rows, "queries": queries, "table": jnp.asarray(objective.table)}
        return objective


def _filled_up(values: np.ndarray, n_more: int = 0) -> np.ndarray:
    """With zeros at the end, as many as a shared size needs, and `n_more`."""
    missing = shared_size(len(values)) - len(values) + n_more
    return np.concatenate([values, np.zeros((missing, *values.shape[1:]), values.dtype)]) if missing else values


def device_data(columns: np.ndarray, offsets: np.ndarray, dtype: Any, base: np.ndarray | None) -> dict[str, Any]:
    """The rows with an empty one at their end, where lists begin and how long they are, and scores to add to."""
    data = {
        "columns": jnp.asarray(_filled_up(columns, 1), dtype),
        "starts": jnp.asarray(_filled_up(offsets[:-1]), jnp.int32),
        "lengths": jnp.asarray(_filled_up(np.diff(offsets)), jnp.int32),
    }
    return data if base is None else data | {"base": jnp.asarray(_filled_up(base, 1), jnp.float32)}


def enough_rows(rows: int, before: int) -> int:
    """What the batches of an epoch are filled up to: as before, unless one of them has more rows."""
    return before if rows <= before else -(-int(rows * _SPARE) // _WHOLE_ROWS) * _WHOLE_ROWS


@lru_cache(maxsize=32)
def epoch_program(
    rules: DeviceRules, gradients_of: Callable[..., Any], widths: tuple[int, ...], n_rows: int
) -> Callable[..., Any]:
    """`(weights, memory, data, objective, parts, rates, key) -> (weights, memory)` after all batches of an epoch.

    parts: per class, the queries of each batch, (batches, lists); n_rows: rows that a batch is filled up to.
    """
    network = batch_network(rules, widths)
    step = step_of(make_optimizer(rules.optimizer, rules.shape.penalised()))

    def epoch(weights: Any, memory: Any, data: Any, objective: Any, parts: Any, rates: Any, key: Any) -> Any:
        def batch(carry: Any, inputs: Any) -> Any:
            weights, memory = carry
            chosen, plan, rate, number = inputs
            x = data["columns"][plan["row"]]
            batch_key = None if rules.dropout == 0.0 else jax.random.fold_in(key, number)
            scores, backward = jax.vjp(lambda moved: network(moved, x, batch_key, chosen, plan, data), weights)
            if "base" in data:
                scores = scores + data["base"][plan["row"]]
            derive = partial(batch_gradients, gradients_of, widths, batch=(chosen, plan, data), objective=objective)
            (gradient,) = backward(jax.vmap(derive)(scores))
            return step(weights, memory, gradient, rate), None

        plans = jax.vmap(lambda chosen: plan_rows(widths, n_rows, chosen, data))(parts)
        numbers = jnp.arange(len(rates))
        (weights, memory), _ = jax.lax.scan(batch, (weights, memory), (parts, plans, rates, numbers))
        return weights, memory

    return jax.jit(epoch, compiler_options=_GPU_OPTIONS if jax.default_backend() == "gpu" else None)


def batch_network(rules: DeviceRules, widths: tuple[int, ...]) -> Callable[..., Any]:
    """`(weights (nets, n_weights), x (n_rows, inputs), key, chosen, plan, data) -> (nets, n_rows)`, packed as x is.

    List-aware nets see the lists of each class filled up to its length.
    """
    dtype = jnp.dtype(rules.precision)
    if isinstance(rules.shape, NetShape):
        bag = over_nets(make_network(rules.shape, rules.dropout, dtype), rules.n_nets)
        return lambda weights, x, key, chosen, plan, data: bag(weights, x, key)
    scores_of = make_attention(rules.shape, rules.dropout, dtype)

    def network(weights: Any, x: Any, key: Any, chosen: Any, plan: Any, data: Any) -> Any:
        lists = [(x[packed], mask) for mask, packed, _ in lists_of(widths, len(x), chosen, plan, data)]

        def one(vector: Any, net: Any) -> Any:
            net_key = None if key is None else jax.random.fold_in(key, net)
            scores = [scores_of(vector, part, mask, net_key).reshape(-1) for part, mask in lists]
            return jnp.concatenate([*scores, jnp.zeros(1)])[plan["slot"]]

        return jax.vmap(one)(weights, jnp.arange(rules.n_nets))

    return network


def lists_of(widths: tuple[int, ...], n_rows: int, chosen: Any, plan: Any, data: Any) -> list[tuple[Any, Any, Any]]:
    """Of each class, (lists, width): a mask of the documents, where they lie in the batch, their rows in the data."""
    lists, first = [], 0
    for width, queries in zip(widths, chosen):
        known, at = jnp.maximum(queries, 0), jnp.arange(width, dtype=jnp.int32)
        mask = (at < data["lengths"][known][:, None]) & (queries >= 0)[:, None]
        packed = jnp.minimum(plan["begin"][first : first + len(queries)][:, None] + at, n_rows - 1)
        row = jnp.minimum(data["starts"][known][:, None] + at, data["columns"].shape[0] - 2)
        lists.append((mask, packed, row))
        first += len(queries)
    return lists


def plan_rows(widths: tuple[int, ...], n_rows: int, chosen: Any, data: Any) -> dict[str, Any]:
    """Where the rows of a batch come from, and where its lists lie.

    row (n_rows,): rows of the data, the last of which is empty, one list after the other; begin (lists,): where each
    list begins; slot (n_rows,): the place of each row among the filled-up lists of all classes, one class after the
    other; count: queries there are.
    """
    queries = jnp.concatenate(chosen)
    lengths = jnp.where(queries >= 0, data["lengths"][jnp.maximum(queries, 0)], 0)
    ends = jnp.cumsum(lengths)
    begin = ends - lengths
    position = jnp.arange(n_rows, dtype=jnp.int32)
    number = jnp.minimum(jnp.searchsorted(ends, position, side="right"), len(ends) - 1)
    within = position - begin[number]
    filled = position < ends[-1]
    first, starts = [], 0
    for width, part in zip(widths, chosen):
        first.append(starts + width * jnp.arange(len(part), dtype=jnp.int32))
        starts += width * len(part)
    row = jnp.where(filled, data["starts"][jnp.maximum(queries, 0)][number] + within, data["columns"].shape[0] - 1)
    slot = jnp.where(filled, jnp.concatenate(first)[number] + within, starts)
    return {"row": row, "begin": begin, "slot": slot, "count": (queries >= 0).sum()}


def batch_gradients(
    gradients_of: Callable[..., Any], widths: tuple[int, ...], scores: Any, batch: Any, objective: Any
) -> Any:
    """Derivatives of the batch's mean cost by its packed scores, (n_rows,); batch: queries by class, plan and data."""
    (chosen, plan, data), gradients = batch, []
    for queries, (mask, packed, row) in zip(chosen, lists_of(widths, scores.shape[0], chosen, plan, data)):
        rows = {name: values[row] for name, values in objective["rows"].items()}
        numbers = {name: values[jnp.maximum(queries, 0)] for name, values in objective["queries"].items()}
        gradients.append(gradients_of(scores[packed], mask, rows, numbers, objective["table"]).reshape(-1))
    flat = jnp.concatenate([*gradients, jnp.zeros(1, scores.dtype)])
    return flat[plan["slot"]] / plan["count"]
