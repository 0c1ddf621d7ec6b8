"""Derivatives of objectives in JAX, on lists that are filled up to a common length. Imports only JAX.

Scores are (queries, length), what belongs to rows has the same shape, what belongs to queries is (queries,); `there`
says which places hold a document. Results are the gradients of `podium/objectives/`, in float32; places without a
document have 0. Pairs are never stored: the compiler sums them as it forms them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp

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
    deltas: str,
    cutoff: int,
    sigma: float,
    normalised: bool,
) -> Any:
    place = _places(scores, there)
    delta = DELTAS[deltas](place, there, rows, table, cutoff)  # signed: positive where i is better
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


# --- swap deltas of metrics, of i and j, [q, i, j], antisymmetric ---------------------------------------------------


def _additive(place: Any, there: Any, rows: Rows, table: Any, cutoff: int) -> Any:
    own = rows.get("place_weight")
    if own is None:
        weight = table[jnp.minimum(place, table.shape[0] - 1)]
    else:
        weight = jnp.take_along_axis(own, jnp.minimum(place, place.shape[1] - 1), axis=1)
    gain = jnp.where(there, rows["value"], 0.0)
    both = there[:, :, None] & there[:, None, :]
    return jnp.where(both, _differences(gain) * jnp.abs(_differences(weight)), 0.0)


def _precision(place: Any, there: Any, rows: Rows, table: Any, cutoff: int) -> Any:
    """|fall_i - fall_j| where the upper one is relevant, |rise_i - rise_j| where the lower one is."""
    relevant = jnp.where(there, rows["value"], 0.0)
    inverse = jnp.where(place < cutoff, 1.0 / (place + 1.0), 0.0)
    until = place[:, None, :] <= place[:, :, None]
    hits = jnp.where(until, relevant[:, None, :], 0.0).sum(axis=2)
    passed = jnp.where(until, (relevant * inverse)[:, None, :], 0.0).sum(axis=2)
    fall = hits * inverse - passed
    sizes = jnp.where(_upper(relevant, place) > 0, jnp.abs(_differences(fall)), jnp.abs(_differences(fall + inverse)))
    return _both(there, _differences(relevant) * sizes)


def _first(place: Any, there: Any, rows: Rows, table: Any, cutoff: int) -> Any:
    """Only the first relevant place counts: the upper one is it and may fall after the second, or stands above it."""
    relevant, length = jnp.where(there, rows["value"], 0.0), place.shape[1]
    inverse = jnp.where(place < cutoff, 1.0 / (place + 1.0), 0.0)
    ranks = jnp.where(relevant > 0, place, length)
    first = ranks.min(axis=1, keepdims=True)
    second = jnp.where(ranks > first, ranks, length).min(axis=1, keepdims=True)
    worth = [jnp.where((at < length) & (at < cutoff), 1.0 / (at + 1.0), 0.0)[:, :, None] for at in (first, second)]
    upper, lower = _upper(inverse, place), _lower(inverse, place)
    is_first = jnp.minimum(place[:, :, None], place[:, None, :]) == first[:, :, None]
    before = jnp.minimum(place[:, :, None], place[:, None, :]) < first[:, :, None]
    sizes = jnp.where(is_first, upper - jnp.maximum(lower, worth[1]), jnp.where(before, upper - worth[0], 0.0))
    return _both(there, _differences(relevant) * jnp.abs(sizes))


def _cascade(place: Any, there: Any, rows: Rows, table: Any, cutoff: int) -> Any:
    """(R_i - R_j) |(mark_l - terms_u) / (1 - R_u) - here_u| for u the upper of the two, l the lower."""
    stop = jnp.where(there, rows["value"], 0.0)
    above = place[:, None, :] < place[:, :, None]
    reach = jnp.exp(jnp.where(above, jnp.log1p(-stop)[:, None, :], 0.0).sum(axis=2))
    here = jnp.where(place < cutoff, reach / (place + 1.0), 0.0)
    before = jnp.where(above, (here * stop)[:, None, :], 0.0).sum(axis=2)
    terms, mark = before + here * stop, before + here
    later = _lower(mark, place) - _upper(terms, place)
    sizes = jnp.abs(later / (1.0 - _upper(stop, place)) - _upper(here, place))
    opened = jnp.minimum(place[:, :, None], place[:, None, :]) < cutoff
    return _both(there, jnp.where(opened, _differences(stop) * sizes, 0.0))


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
DELTAS: dict[str, Callable[..., Any]] = {
    "additive": _additive,
    "precision": _precision,
    "first": _first,
    "cascade": _cascade,
}
