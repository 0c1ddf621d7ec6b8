"""Derivatives of objectives in JAX, on lists that are filled up to a common length. Imports no Numba.

Scores are (queries, length), what belongs to rows has the same shape, what belongs to queries is (queries,); `there`
says which places hold a document. Results are the gradients of `podium/objectives/`, in float32; places without a
document have 0. Pairs are never stored: the compiler sums them as it forms them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp

from podium.metrics.closed_forms import (
    ADDITIVE,
    CASCADE,
    FIRST,
    PRECISION,
    cascade_drop,
    cascade_sums,
    precision_weights,
)

Rows = Mapping[str, Any]
_NEAREST = 0.01  # as in objectives/lambdas.py
_STEEPEST = 60.0  # as in objectives/kernels.py


def gradients(
    formula: str, settings: Mapping[str, Any], scores: Any, there: Any, rows: Rows, queries: Rows, table: Any
) -> Any:
    """(queries, length) gradients of the named formula, times the weights of queries."""
    scores = jnp.where(there, scores, 0.0)
    found = FORMULAS[formula](scores, there, rows, queries, table, **settings)
    if "row_weight" not in rows:  # which has the query's weight in it
        found = found * queries["weight"][:, None]
    return jnp.where(there, found, 0.0)


def _squared(scores: Any, there: Any, rows: Rows, queries: Rows, table: Any) -> Any:
    return rows["row_weight"] * (scores - rows["label"])


def _centred(scores: Any, there: Any, rows: Rows, queries: Rows, table: Any) -> Any:
    weight = jnp.where(there, rows["row_weight"], 0.0)
    total = weight.sum(axis=1, keepdims=True)
    distance = scores - rows["label"]
    return weight * (distance - (weight * distance).sum(axis=1, keepdims=True) / jnp.where(total > 0, total, 1.0))


def _thresholds(scores: Any, there: Any, rows: Rows, queries: Rows, table: Any, slope: float) -> Any:
    down = jax.nn.sigmoid(slope * (scores - rows["upper"]))
    up = jax.nn.sigmoid(slope * (rows["lower"] - scores))
    return rows["row_weight"] * slope * (down - up)


def _softmax(scores: Any, there: Any, rows: Rows, queries: Rows, table: Any) -> Any:
    target = jnp.where(there, rows["target"], 0.0)
    share = jax.nn.softmax(jnp.where(there, scores, -jnp.inf), axis=1, where=there)
    return target.sum(axis=1, keepdims=True) * share - target


def _likelihood(scores: Any, there: Any, rows: Rows, queries: Rows, table: Any) -> Any:
    """Each document i that is better than the worst is chosen among those that are not better."""
    label = jnp.where(there, rows["label"], jnp.inf)
    weight = jnp.where(there, rows.get("document_weight", jnp.ones_like(scores)), 0.0)
    chosen = weight * (label > label.min(axis=1, keepdims=True))
    among = _both(there, label[:, None, :] <= label[:, :, None])  # [q, i, j]: j is there where i is chosen
    level = jax.nn.logsumexp(jnp.where(among, scores[:, None, :], -jnp.inf), axis=2)
    level = jnp.where(there, level, 0.0)
    shares = jnp.where(among, jnp.exp(scores[:, None, :] - level[:, :, None]), 0.0)
    return (chosen[:, :, None] * shares).sum(axis=1) - chosen


def _smooth_ndcg(scores: Any, there: Any, rows: Rows, queries: Rows, table: Any, alpha: float) -> Any:
    both = there[:, :, None] & there[:, None, :] & ~jnp.eye(scores.shape[1], dtype=bool)
    above = jax.nn.sigmoid(-alpha * _differences(scores))  # [q, i, j]: j is above i
    rank = 1.0 + jnp.where(both, above, 0.0).sum(axis=2)
    step = jnp.where(there, rows["gain"], 0.0) * jnp.log(2.0) / ((1.0 + rank) * jnp.log(1.0 + rank) ** 2)
    terms = jnp.where(both, above * jax.nn.sigmoid(alpha * _differences(scores)) * -_differences(step), 0.0)
    return alpha * terms.sum(axis=2)


def _pull(form: str, o: Any) -> Any:
    """-dC/do of a pair with margin o."""
    if form == "hinge":
        return jnp.where(o < 1.0, 1.0, 0.0)
    if form == "squared_hinge":
        return 2.0 * jnp.maximum(1.0 - o, 0.0)
    if form == "exponential":
        return jnp.exp(jnp.minimum(-o, _STEEPEST))
    return jax.nn.sigmoid(-o)


def _pairwise(
    scores: Any, there: Any, rows: Rows, queries: Rows, table: Any, form: str, slope: float, even: bool
) -> Any:
    both = there[:, :, None] & there[:, None, :]
    sign = jnp.where(both, jnp.sign(_differences(rows["label"])), 0.0)
    o = slope * _differences(scores)
    force = sign * _pull(form, sign * o)
    if even:
        force += jnp.where(both & (sign == 0.0), jax.nn.sigmoid(-o) - 0.5, 0.0)
    return -slope * (_pair_weights(force, rows) * force).sum(axis=2)


def _lambda(
    scores: Any,
    there: Any,
    rows: Rows,
    queries: Rows,
    table: Any,
    kind: int,
    cutoff: int,
    sigma: float,
    normalised: bool,
) -> Any:
    place = _places(scores, there)
    drop = DROPS[kind](place, there, rows, table, cutoff)
    delta = _both(there, _differences(rows["value"]) * jnp.abs(drop))  # positive where i is better
    o = _differences(scores)
    force = delta * jax.nn.sigmoid(-sigma * jnp.sign(delta) * o)
    force = _pair_weights(force, rows) * force
    scale = queries["scale"]
    if normalised:
        most = jnp.where(there, scores, -jnp.inf).max(axis=1)
        least = jnp.where(there, scores, jnp.inf).min(axis=1)
        force = force / jnp.where((least < most)[:, None, None], _NEAREST + jnp.abs(o), 1.0)
        total = sigma * scale * jnp.abs(force).sum(axis=(1, 2))
        scale = scale * jnp.where(total > 0, jnp.log2(1.0 + total) / jnp.where(total > 0, total, 1.0), 1.0)
    return -sigma * scale[:, None] * force.sum(axis=2)


def _places(scores: Any, there: Any) -> Any:
    """How many documents stand above each: those with a higher score, and of equal ones the earlier."""
    order = jnp.arange(scores.shape[1])
    mine, other = scores[:, :, None], scores[:, None, :]
    above = (other > mine) | ((other == mine) & (order[None, :] < order[:, None]))
    return (above & there[:, None, :]).sum(axis=2, dtype=jnp.int32)


def _differences(values: Any) -> Any:
    """[q, i, j]: value of i minus that of j."""
    return values[:, :, None] - values[:, None, :]


def _pair_weights(like: Any, rows: Rows) -> Any:
    weight = rows.get("document_weight")
    return 1.0 if weight is None else weight[:, :, None] * weight[:, None, :]


# --- drops of closed forms, [q, i, j]: times the difference of the values, what swapping i and j loses ---------------


def _additive(place: Any, there: Any, rows: Rows, table: Any, cutoff: int) -> Any:
    weights = rows.get("place_weight")
    if weights is None:
        return _differences(table[jnp.minimum(place, table.shape[0] - 1)])
    return _differences(jnp.take_along_axis(weights, jnp.minimum(place, place.shape[1] - 1), axis=1))


def _precision(place: Any, there: Any, rows: Rows, table: Any, cutoff: int) -> Any:
    relevant, inverse = jnp.where(there, rows["value"], 0.0), _inverse_ranks(place, cutoff)
    until = place[:, None, :] <= place[:, :, None]
    hits, passed = _sums(until, relevant), _sums(until, relevant * inverse)
    falling, rising = precision_weights(hits, passed, inverse)
    return jnp.where(_upper(relevant, place) > 0, _differences(falling), _differences(rising))


def _first(place: Any, there: Any, rows: Rows, table: Any, cutoff: int) -> Any:
    """Only the first relevant place counts: the upper one is it and may fall after the second, or stands above it."""
    inverse = _inverse_ranks(place, cutoff)
    relevant = jnp.where(there & (rows["value"] > 0), place, place.shape[1])
    first = relevant.min(axis=1, keepdims=True)
    second = jnp.where(relevant > first, relevant, place.shape[1]).min(axis=1, keepdims=True)
    worth = [jnp.where(at < place.shape[1], _inverse_ranks(at, cutoff), 0.0)[:, :, None] for at in (first, second)]
    upper, above = _upper(inverse, place), jnp.minimum(place[:, :, None], place[:, None, :])
    behind = jnp.where(above == first[:, :, None], jnp.maximum(_lower(inverse, place), worth[1]), worth[0])
    return jnp.where(above <= first[:, :, None], upper - behind, 0.0)


def _cascade(place: Any, there: Any, rows: Rows, table: Any, cutoff: int) -> Any:
    stop = jnp.where(there, rows["value"], 0.0)
    above = place[:, None, :] < place[:, :, None]
    here = jnp.exp(_sums(above, jnp.log1p(-stop))) * _inverse_ranks(place, cutoff)
    total, full = cascade_sums(here, stop, _sums(above, here * stop))
    here, stay, total = (_upper(numbers, place) for numbers in (here, 1.0 / (1.0 - stop), total))
    opened = jnp.minimum(place[:, :, None], place[:, None, :]) < cutoff
    return jnp.where(opened, cascade_drop(here, stay, total, _lower(full, place)), 0.0)


def _inverse_ranks(place: Any, cutoff: int) -> Any:
    return jnp.where(place < cutoff, 1.0 / (place + 1.0), 0.0)


def _sums(among: Any, values: Any) -> Any:
    """[q, i]: the sum over those j that are among what belongs to i."""
    return jnp.where(among, values[:, None, :], 0.0).sum(axis=2)


def _upper(values: Any, place: Any) -> Any:
    """[q, i, j]: the value of whichever of i and j stands above the other."""
    return jnp.where(place[:, :, None] < place[:, None, :], values[:, :, None], values[:, None, :])


def _lower(values: Any, place: Any) -> Any:
    return jnp.where(place[:, :, None] < place[:, None, :], values[:, None, :], values[:, :, None])


def _both(there: Any, values: Any) -> Any:
    return jnp.where(there[:, :, None] & there[:, None, :], values, jnp.zeros((), values.dtype))


FORMULAS: dict[str, Callable[..., Any]] = {
    "squared": _squared,
    "centred": _centred,
    "thresholds": _thresholds,
    "softmax": _softmax,
    "likelihood": _likelihood,
    "smooth_ndcg": _smooth_ndcg,
    "pairwise": _pairwise,
    "lambda": _lambda,
}
DROPS: dict[int, Callable[..., Any]] = {
    ADDITIVE: _additive,
    PRECISION: _precision,
    FIRST: _first,
    CASCADE: _cascade,
}
