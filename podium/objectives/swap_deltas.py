"""Swap deltas |dZ|: how much a metric changes when a document swaps ranks with each one below it.

Additive metrics need only the gains of documents and the weights of ranks; AP, RR and ERR have
closed forms that need a few numbers per place; any other metric answers by its own `swaps`, in Python.

Documents lie worst first: place p of n is index n - 1 - p, and the row of index i has the indices 0 .. i - 1. The
weights of a row are |dZ| with a sign, positive where i is the better document. All rows here are of one query, before
its divisor (the ideal DCG, the number of relevant documents), which multiplies at the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from podium._runtime.compiler import Array, bare_kernel, copied_kernel, kernel
from podium.metrics.base import Metric
from podium.metrics.closed_forms import (
    ADDITIVE,
    CASCADE,
    FIRST,
    PAIRS,
    PRECISION,
    ClosedForm,
    cascade_drop,
    cascade_sums,
    precision_weights,
)
from podium.metrics.lists import RankedLists
from podium.metrics.policies import Policy, get_policy
from podium.metrics.registry import parse_metric
from podium.objectives.base import BoundLabels
from podium.objectives.device import PaddedLists, differences
from podium.objectives.kernels import BLOCK


def metric_under(
    metric: str | Metric, policy: str | Policy | None, gain: str | None, label_gain: Sequence[float] | None
) -> Metric:
    """The metric as a value: by the policy given, else by its own, else by `standard`; varied by the gains."""
    if policy is None:
        policy = metric.policy if isinstance(metric, Metric) else "standard"
    return parse_metric(metric, get_policy(policy).vary(gain=gain, label_gain=label_gain))


def closed_form_of(metric: Metric, data: BoundLabels) -> ClosedForm | None:
    """The form of a resolved metric on this data; None if its swap deltas are those of `Metric.swaps`."""
    form = metric.closed_form(RankedLists(data.labels, data.offsets))
    return None if form is None or form.kind == PAIRS else form


# --- drops in JAX, [q, i, j]: times the difference of the values, what swapping i and j loses -----------------------


def ranks_of(scores: Any, mask: Any) -> Any:
    """From 0: how many documents are above each, those with a higher score, and of equal ones the earlier."""
    import jax.numpy as jnp

    order = jnp.arange(scores.shape[1])
    lower, upper = scores[:, :, None], scores[:, None, :]
    above = (upper > lower) | ((upper == lower) & (order[None, :] < order[:, None]))
    return (above & mask[:, None, :]).sum(axis=2, dtype=jnp.int32)


def _additive(rank: Any, lists: PaddedLists, cutoff: int) -> Any:
    import jax.numpy as jnp

    weights = lists.rows.get("place_weight")
    if weights is None:
        return differences(lists.table[jnp.minimum(rank, lists.table.shape[0] - 1)])
    return differences(jnp.take_along_axis(weights, jnp.minimum(rank, rank.shape[1] - 1), axis=1))


def _precision(rank: Any, lists: PaddedLists, cutoff: int) -> Any:
    import jax.numpy as jnp

    relevant, inverse = jnp.where(lists.mask, lists.rows["value"], 0.0), _inverse_ranks(rank, cutoff)
    until = rank[:, None, :] <= rank[:, :, None]
    falling, rising = precision_weights(_sums(until, relevant), _sums(until, relevant * inverse), inverse)
    return jnp.where(_upper(relevant, rank) > 0, differences(falling), differences(rising))


def _first(rank: Any, lists: PaddedLists, cutoff: int) -> Any:
    """Only the first relevant rank counts: the upper one is it and may fall after the second, or stands above it."""
    import jax.numpy as jnp

    inverse, n = _inverse_ranks(rank, cutoff), rank.shape[1]
    relevant = jnp.where(lists.mask & (lists.rows["value"] > 0), rank, n)
    first = relevant.min(axis=1, keepdims=True)
    second = jnp.where(relevant > first, relevant, n).min(axis=1, keepdims=True)
    worth = [jnp.where(at < n, _inverse_ranks(at, cutoff), 0.0)[:, :, None] for at in (first, second)]
    upper, above = _upper(inverse, rank), jnp.minimum(rank[:, :, None], rank[:, None, :])
    behind = jnp.where(above == first[:, :, None], jnp.maximum(_upper(inverse, -rank), worth[1]), worth[0])
    return jnp.where(above <= first[:, :, None], upper - behind, 0.0)


def _cascade(rank: Any, lists: PaddedLists, cutoff: int) -> Any:
    import jax.numpy as jnp

    stop, above = jnp.where(lists.mask, lists.rows["value"], 0.0), rank[:, None, :] < rank[:, :, None]
    here = jnp.exp(_sums(above, jnp.log1p(-stop))) * _inverse_ranks(rank, cutoff)
    total, full = cascade_sums(here, stop, _sums(above, here * stop))
    here, stay, total = (_upper(numbers, rank) for numbers in (here, 1.0 / (1.0 - stop), total))
    opened = jnp.minimum(rank[:, :, None], rank[:, None, :]) < cutoff
    return jnp.where(opened, cascade_drop(here, stay, total, _upper(full, -rank)), 0.0)


def _inverse_ranks(rank: Any, cutoff: int) -> Any:
    import jax.numpy as jnp

    return jnp.where(rank < cutoff, 1.0 / (rank + 1.0), 0.0)


def _sums(among: Any, values: Any) -> Any:
    """[q, i]: the sum over those j that are among what belongs to i."""
    import jax.numpy as jnp

    return jnp.where(among, values[:, None, :], 0.0).sum(axis=2)


def _upper(values: Any, rank: Any) -> Any:
    """[q, i, j]: the value of whichever of i and j has the smaller rank."""
    import jax.numpy as jnp

    return jnp.where(rank[:, :, None] < rank[:, None, :], values[:, :, None], values[:, None, :])


DROPS = {ADDITIVE: _additive, PRECISION: _precision, FIRST: _first, CASCADE: _cascade}

# --- kernels -----------------------------------------------------------------------------------------------------

# The formulas of closed forms, copied into the loops below.
_precision_weights = copied_kernel(precision_weights)
_cascade_sums = copied_kernel(cascade_sums)
_cascade_drop = copied_kernel(cascade_drop)

# float32 (longest + BLOCK,): gains (or relevance) of the documents, and weights of places;
# float64 (longest + 1,): four numbers per place for the closed forms, as documented where they are loaded
DeltaWorkspace = tuple[Array, Array, Array, Array, Array, Array]


def make_delta_workspace(longest: int) -> DeltaWorkspace:
    """Working arrays for lists of up to `longest` documents."""
    n, m = longest + BLOCK, longest + 1
    return np.zeros(n, np.float32), np.zeros(n, np.float32), np.zeros(m), np.zeros(m), np.zeros(m), np.zeros(m)


@kernel
def load_gains(places: Array, values: Array, gains: Array) -> None:
    """Gains (or relevance) of the documents of one query, worst first as `places` (n,) says."""
    for k in range(len(places)):
        gains[k] = np.float32(values[places[k]])


@kernel
def load_weights(n: int, table: Array, weights: Array) -> None:
    """Weights of the places of one query, the last place first. table: at least n of them, the first place first."""
    last = np.uint64(n - 1)
    for k in range(n):
        weights[k] = np.float32(table[last - np.uint64(k)])


@kernel
def load_deltas(kind: int, top: int, places: Array, values: Array, workspace: DeltaWorkspace) -> int:
    """Store what the closed forms need for one query; returns the number of rows, from the top, that can have a change.

    places (n,) are the query's documents, worst first; values (n,) its own.
    """
    gains, _, one, two, three, four = workspace
    n = len(places)
    load_gains(places, values, gains)
    if kind == PRECISION:
        _load_precisions(n, top, gains, one, two)
    elif kind == FIRST:
        return _load_first_places(n, top, gains, one, two)
    else:
        _load_cascade(places, top, values, one, two, three, four)
    return top


@kernel
def _load_precisions(n: int, top: int, relevant: Array, falling: Array, rising: Array) -> None:
    """The two weights per place of `precision_weights`."""
    hits, passed = 0.0, 0.0
    for rank in range(n):
        k = n - 1 - rank
        inverse = 1.0 / (rank + 1) if rank < top else 0.0
        hits += relevant[k]
        passed += relevant[k] * inverse
        falling[k], rising[k] = _precision_weights(hits, passed, inverse)


@kernel
def _load_first_places(n: int, top: int, relevant: Array, inverse: Array, firsts: Array) -> int:
    """Inverse ranks, 0 beyond the cutoff, and those of the first two relevant places; rows end at the first of them."""
    n_relevant, first = 0, n
    firsts[0] = firsts[1] = 0.0
    for rank in range(n):
        k = n - 1 - rank
        inverse[k] = 1.0 / (rank + 1) if rank < top else 0.0
        if relevant[k] > 0 and n_relevant < 2:
            firsts[n_relevant] = inverse[k]
            n_relevant += 1
            first = min(first, rank)
    return min(top, first + 1)


@kernel
def _load_cascade(
    places: Array, top: int, values: Array, stops: Array, heres: Array, totals: Array, fulls: Array
) -> None:
    """R of each place, what stopping there counts (`reach / rank`), and the two sums of `cascade_sums`."""
    n, reach, total = len(places), 1.0, 0.0
    for rank in range(n):
        k = n - 1 - rank
        stops[k] = values[places[k]]
        heres[k] = reach / (rank + 1) if rank < top else 0.0
        total, fulls[k] = _cascade_sums(heres[k], stops[k], total)
        totals[k] = total
        reach *= 1.0 - stops[k]


@copied_kernel
def additive_row(i: int, gains: Array, weights: Array, row: Array) -> None:
    """|gain_i - gain_j| |weight_i - weight_j|, with the sign of the first: gains never fall as labels rise."""
    gain, weight = gains[i], weights[i]
    for j in range(i):
        row[j] = (gain - gains[j]) * abs(weight - weights[j])
    for j in range(i, (i + BLOCK - 1) // BLOCK * BLOCK):
        row[j] = np.float32(0.0)


@bare_kernel
def closed_form_row(
    kind: int, i: int, values: Array, one: Array, two: Array, three: Array, four: Array, row: Array
) -> None:
    """The rows of the metrics that do not add up; the numbers per place are those that `load_deltas` stored."""
    if kind == PRECISION:
        _precision_row(i, values, one if values[i] > 0 else two, row)
    elif kind == FIRST:
        _first_place_row(i, values, one, two[0], two[1], row)
    else:
        _cascade_row(i, one, two, three, four, row)
    for j in range(i, (i + BLOCK - 1) // BLOCK * BLOCK):
        row[j] = np.float32(0.0)


@bare_kernel
def _precision_row(i: int, relevant: Array, weights: Array, row: Array) -> None:
    """As of an additive metric; `weights` are those that i needs."""
    gain, weight = relevant[i], weights[i]
    for j in range(i):
        row[j] = (gain - relevant[j]) * np.float32(abs(weight - weights[j]))


@bare_kernel
def _first_place_row(i: int, relevant: Array, value: Array, first: float, second: float, row: Array) -> None:
    """Only the first relevant place counts: i is it and may fall after the second, or stands above it."""
    inverse = value[i]
    if relevant[i] > 0:
        for j in range(i):
            row[j] = (np.float32(1.0) - relevant[j]) * np.float32(inverse - max(value[j], second))
    else:
        for j in range(i):
            row[j] = -relevant[j] * np.float32(inverse - first)


@bare_kernel
def _cascade_row(i: int, stops: Array, heres: Array, totals: Array, fulls: Array, row: Array) -> None:
    """(R_i - R_j) |drop|; R < 1 always, for 2^r - 1 < 2^rmax."""
    stop, stay, here, total = stops[i], 1.0 / (1.0 - stops[i]), heres[i], totals[i]
    for j in range(i):
        row[j] = np.float32((stop - stops[j]) * abs(_cascade_drop(here, stay, total, fulls[j])))
