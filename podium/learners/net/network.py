"""The network as JAX sees it: the function of `scoring.py`, with dropout, on inputs that are standardised already.

Imports only JAX and NumPy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from podium.learners.net.scoring import NORM_EPSILON, NetShape

ACTIVATE: dict[str, Callable[[Any], Any]] = {
    "relu": jax.nn.relu,
    "gelu": lambda z: jax.nn.gelu(z, approximate=True),
    "silu": jax.nn.silu,
    "tanh": jnp.tanh,
    "identity": lambda z: z,
}


def make_network(shape: NetShape, dropout: float = 0.0, dtype: Any = jnp.float32) -> Callable[..., Any]:
    """`scores(weights (n_weights,), x (rows, n_inputs), key) -> (rows,)` of one net.

    dtype: of activations, of their gradients, and of products; sums in products, and weights, are float32. A key of
    None leaves dropout out.
    """

    def scores(weights: Any, x: Any, key: Any = None) -> Any:
        h, layers = x.astype(dtype), shape.unpack(weights)
        for number, layer in enumerate(layers[:-1]):
            z = _hidden(shape, h, layer)
            if number and shape.adds(h.shape[-1], z.shape[-1]):
                z = z + h
            if dropout > 0.0 and key is not None:
                z = drop(z, dropout, jax.random.fold_in(key, number))
            h = z.astype(dtype)
        last = layers[-1]
        return jnp.dot(h, last.matrix[:, 0].astype(dtype), preferred_element_type=jnp.float32) + last.bias[0]

    return scores


def _hidden(shape: NetShape, h: Any, layer: Any) -> Any:
    """One hidden layer: product, norm, activation."""
    if shape.activation == "relu" and not shape.layer_norm:
        return relu_product(h, layer.matrix, layer.bias)
    z = product(h, layer.matrix, layer.bias)
    if shape.layer_norm:
        z = z.astype(jnp.float32)
        z = z - z.mean(axis=-1, keepdims=True)
        z = z / jnp.sqrt(jnp.square(z).mean(axis=-1, keepdims=True) + NORM_EPSILON)
        z = z * layer.scale + layer.shift
    return ACTIVATE[shape.activation](z)


@jax.custom_vjp
def product(h: Any, matrix: Any, bias: Any) -> Any:
    """h matrix + bias in the type of h, whose products the backward pass has too: JAX's own would be float32."""
    return jnp.dot(h, matrix.astype(h.dtype)) + bias.astype(h.dtype)


def _product_forward(h: Any, matrix: Any, bias: Any) -> Any:
    return product(h, matrix, bias), (h, matrix)


def _product_backward(saved: Any, gradient: Any) -> Any:
    h, matrix = saved
    by_matrix = jnp.dot(h.T, gradient, preferred_element_type=jnp.float32)
    return jnp.dot(gradient, matrix.astype(h.dtype).T), by_matrix, gradient.sum(axis=0, dtype=jnp.float32)


product.defvjp(_product_forward, _product_backward)


@jax.custom_vjp
def relu_product(h: Any, matrix: Any, bias: Any) -> Any:
    """relu(h matrix + bias); keeps its result for the backward pass, and not the sum before."""
    return jnp.maximum(product(h, matrix, bias), jnp.zeros((), h.dtype))


def _relu_forward(h: Any, matrix: Any, bias: Any) -> Any:
    result = relu_product(h, matrix, bias)
    return result, (h, matrix, result)


def _relu_backward(saved: Any, gradient: Any) -> Any:
    h, matrix, result = saved
    # Not `> 0`, which the compiler turns into a comparison of the sum before: then cuBLAS could not take the maximum.
    return _product_backward((h, matrix), jnp.where(result != 0, gradient, jnp.zeros((), gradient.dtype)))


relu_product.defvjp(_relu_forward, _relu_backward)


def drop(z: Any, share: float, key: Any) -> Any:
    """Each number is 0 with probability `share`; the others grow, so that the mean stays."""
    mask = jax.random.bernoulli(key, 1.0 - share, z.shape)
    return jnp.where(mask, z / (1.0 - share), 0.0)


def over_nets(scores: Callable[..., Any], n_nets: int) -> Callable[..., Any]:
    """The same for all nets of a bag at once: `(weights (nets, n_weights), x, key) -> (nets, rows)`.

    All see the same rows. Dropout differs from net to net, and not with their number.
    """

    def one(weights: Any, x: Any, key: Any, net: Any) -> Any:
        return scores(weights, x, None if key is None else jax.random.fold_in(key, net))

    def bag(weights: Any, x: Any, key: Any = None) -> Any:
        if n_nets == 1:
            return one(weights[0], x, key, 0)[None]
        return jax.vmap(one, in_axes=(0, None, None, 0))(weights, x, key, jnp.arange(n_nets))

    return bag
