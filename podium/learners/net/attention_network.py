"""The list-aware net of `attention.py` as JAX sees it, with dropout. Imports only JAX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from podium.learners.net.attention import AttentionShape
from podium.learners.net.network import drop
from podium.learners.net.scoring import NORM_EPSILON


def make_attention(shape: AttentionShape, dropout: float = 0.0, dtype: Any = jnp.float32) -> Callable[..., Any]:
    """`scores(weights (n_weights,), x (lists, length, n_inputs), mask (lists, length), key)`, as large as the mask."""

    def scores(weights: Any, x: Any, mask: Any, key: Any = None) -> Any:
        pieces = dict(shape.views(weights))
        h = _product(x.astype(dtype), pieces, "input")
        for number in range(shape.n_layers):
            h = h + _dropped(_attention(shape, pieces, number, h, mask), dropout, key, 2 * number)
            z = jax.nn.relu(_product(_norm(h, pieces, f"{number}.feed_forward_norm"), pieces, f"{number}.feed_forward"))
            h = h + _dropped(_product(z, pieces, f"{number}.feed_forward_output"), dropout, key, 2 * number + 1)
        return _product(_norm(h, pieces, "last_norm"), pieces, "score")[..., 0].astype(jnp.float32)

    return scores


def _product(h: Any, pieces: Any, name: str) -> Any:
    return jnp.dot(h, pieces[name].astype(h.dtype)) + pieces[f"{name}_bias"].astype(h.dtype)


def _norm(h: Any, pieces: Any, name: str) -> Any:
    z = h.astype(jnp.float32)
    z = z - z.mean(axis=-1, keepdims=True)
    z = z / jnp.sqrt(jnp.square(z).mean(axis=-1, keepdims=True) + NORM_EPSILON)
    return (z * pieces[f"{name}.scale"] + pieces[f"{name}.shift"]).astype(h.dtype)


def _dropped(z: Any, dropout: float, key: Any, number: int) -> Any:
    return z if dropout == 0.0 or key is None else drop(z, dropout, jax.random.fold_in(key, number)).astype(z.dtype)


def _attention(shape: AttentionShape, pieces: Any, number: int, h: Any, mask: Any) -> Any:
    lists, length, width = h.shape
    projected = _product(_norm(h, pieces, f"{number}.query_key_value_norm"), pieces, f"{number}.query_key_value")
    queries, keys, values = jnp.moveaxis(projected.reshape(lists, length, 3, shape.n_heads, -1), 2, 0)
    likeness = jnp.einsum("qihd,qjhd->qhij", queries, keys, preferred_element_type=jnp.float32)
    likeness = likeness / jnp.sqrt(float(width // shape.n_heads))
    share = jax.nn.softmax(jnp.where(mask[:, None, None, :], likeness, -1e30), axis=-1).astype(h.dtype)
    attended = jnp.einsum("qhij,qjhd->qihd", share, values).reshape(lists, length, width)
    return _product(attended, pieces, f"{number}.output")
