"""Per-pair updates: the first form of RankNet, with one move of the optimiser per pair of documents.

Each pair costs a forward and a backward pass over two rows, where a batch needs one of each per document. Both follow
the same gradient in expectation; this one is kept to be compared with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from podium.data.given_pairs import GivenPairs
from podium.learners.net.batches import shuffled_batches
from podium.learners.net.network import make_network, over_nets
from podium.learners.net.optimization import OptimizerRules, make_optimizer, step_of
from podium.learners.net.scoring import NetShape
from podium.learners.net.training import NetRules

_CHUNK = 1024  # pairs per call

Pairs = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""Rows of both documents, the probability that the first one is better, and weights besides those of `PairRunner`."""


class PairRunner:
    """Epochs of one move per pair; queries in random order, and the pairs of each in random order too."""

    def __init__(
        self,
        columns: np.ndarray,
        offsets: np.ndarray,
        pairs_of: Callable[[int], Pairs],
        shape: NetShape,
        rules: NetRules,
        base: np.ndarray | None,
        derive: Callable[..., Any],
        weights: tuple[np.ndarray, np.ndarray],
    ) -> None:
        """pairs_of(query): its pairs; derive(s_i - s_j, target): its cost; weights: of documents, or none; queries."""
        self.offsets, self.pairs_of, self.rules = offsets, pairs_of, rules
        self._columns = jnp.asarray(columns)
        self._base = jnp.asarray(np.zeros(len(columns)) if base is None else base, jnp.float32)
        of_rows, of_queries = weights
        rows = np.ones(len(columns)) if not len(of_rows) else of_rows
        both = np.stack([rows, np.repeat(of_queries, np.diff(offsets))], axis=1)
        self._weights = jnp.asarray(both, jnp.float32)
        self._program = pair_program(shape, rules.dropout, rules.n_nets, rules.optimizer, derive)

    def epoch(self, number: int, weights: Any, memory: Any) -> tuple[Any, Any]:
        generator = np.random.default_rng([self.rules.seed, number, 1])
        key = jax.random.fold_in(jax.random.key(self.rules.seed % 2**32), number)
        batches = shuffled_batches(self.offsets, self.rules.batch_size, self.rules.seed, number)
        for batch, (queries, rate) in enumerate(zip(batches, self.rules.rates(number, len(batches)))):
            for part, chunk in enumerate(self._chunks(queries, generator)):
                chunk_key = jax.random.fold_in(jax.random.fold_in(key, batch), part)
                data = self._columns, self._base, self._weights
                weights, memory = self._program(weights, memory, *data, *chunk, np.float32(rate), chunk_key)
        return weights, memory

    def _chunks(self, queries: np.ndarray, generator: np.random.Generator) -> Iterator[Pairs]:
        pairs = [self.pairs_of(int(query)) for query in queries]
        first, second, target, weight = (np.concatenate(parts) for parts in zip(*pairs))
        order = generator.permutation(len(first))
        for start in range(0, len(order), _CHUNK):
            chosen = order[start : start + _CHUNK]
            rest = _CHUNK - len(chosen)
            yield (
                np.pad(first[chosen], (0, rest)).astype(np.int32),
                np.pad(second[chosen], (0, rest)).astype(np.int32),
                np.pad(target[chosen], (0, rest), constant_values=-1.0).astype(np.float32),  # -1: no pair
                np.pad(weight[chosen], (0, rest)).astype(np.float32),
            )


@lru_cache(maxsize=32)
def pair_program(
    shape: NetShape, dropout: float, n_nets: int, rules: OptimizerRules, derive: Callable[..., Any]
) -> Callable[..., Any]:
    """One move per pair, one pair after the other."""
    network = over_nets(make_network(shape, dropout), n_nets)
    step = step_of(make_optimizer(rules, shape.penalised()))

    @jax.jit
    def program(
        weights: Any, memory: Any, columns: Any, base: Any, importance: Any, first: Any, second: Any, target: Any,
        factor: Any, rate: Any, key: Any,
    ) -> Any:  # fmt: skip
        def one(carry: Any, inputs: Any) -> Any:
            i, j, p, more, number = inputs
            rows = jnp.stack([i, j])
            pair_key = jax.random.fold_in(key, number)
            scores, backward = jax.vjp(lambda moved: network(moved, columns[rows], pair_key), carry[0])
            difference = (scores + base[rows]) @ jnp.array([1.0, -1.0])
            weight = importance[i, 0] * importance[j, 0] * importance[i, 1] * more
            (gradient,) = backward((weight * derive(difference, p))[:, None] * jnp.array([1.0, -1.0]))
            moved = step(*carry, gradient, rate)
            return jax.tree.map(lambda new, old: jnp.where(p >= 0, new, old), moved, carry), None

        numbers = jnp.arange(len(first))
        carry, _ = jax.lax.scan(one, (weights, memory), (first, second, target, factor, numbers))
        return carry

    return program


def label_pairs(labels: np.ndarray, offsets: np.ndarray, ties: bool) -> Callable[[int], Pairs]:
    """All pairs of a query with different labels, the better document first; with `ties`, equal ones at target 1/2."""

    def pairs_of(query: int) -> Pairs:
        start, query_labels = offsets[query], labels[offsets[query] : offsets[query + 1]]
        first, second = np.nonzero(query_labels[:, None] > query_labels)
        target = np.ones(len(first))
        if ties:
            one, other = np.nonzero(np.triu(query_labels[:, None] == query_labels, 1))
            first, second = np.append(first, one), np.append(second, other)
            target = np.append(target, np.full(len(one), 0.5))
        return start + first, start + second, target, np.ones(len(target))

    return pairs_of


def given_pairs(pairs: GivenPairs) -> Callable[[int], Pairs]:
    """The given pairs of each query."""

    def pairs_of(query: int) -> Pairs:
        of_query = slice(pairs.starts[query], pairs.starts[query + 1])
        return pairs.first[of_query], pairs.second[of_query], pairs.target[of_query], pairs.weight[of_query]

    return pairs_of
