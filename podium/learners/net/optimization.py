"""Optimisers: from gradients of the weights to their next step, per net. Imports only JAX, optax and NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax


@dataclass(frozen=True)
class OptimizerRules:
    """How weights are changed."""

    name: str = "adam"
    learning_rate: float = 1e-3
    schedule: str = "constant"
    warmup: float = 0.0  # share of the training in which the rate rises from 0
    weight_decay: float = 0.0
    clipping: float | None = None  # largest norm of a gradient
    momentum: float = 0.9  # of "sgd"; 0: its steps are the gradients
    fixed_bias: bool = False  # the last weight, the bias of scores, stays as it is

    def rate(self, done: float) -> float:
        """The learning rate when this share of the training is done."""
        if done < self.warmup:
            return self.learning_rate * done / self.warmup
        left = 1.0 - (done - self.warmup) / (1.0 - self.warmup) if self.warmup < 1.0 else 1.0
        if self.schedule == "linear":
            return self.learning_rate * max(left, 0.0)
        if self.schedule == "cosine":
            return self.learning_rate * 0.5 * (1.0 - math.cos(math.pi * max(left, 0.0)))
        return self.learning_rate


def make_optimizer(rules: OptimizerRules, penalised: np.ndarray) -> optax.GradientTransformation:
    """Without the learning rate, which `step_of` multiplies. penalised (n_weights,): which weights decay.

    Decay is part of the gradient, an L2 penalty; with "adamw" it acts on the step, past Adam's scaling. Where only
    differences of scores count, the gradient of their bias is rounding noise, which Adam would scale up: `fixed_bias`.
    """
    parts = []
    if rules.fixed_bias:
        moved = np.ones_like(penalised)
        moved[-1] = 0.0
        parts.append(optax.stateless(lambda gradients, weights: gradients * moved))
    if rules.clipping is not None:
        parts.append(optax.clip_by_global_norm(rules.clipping))
    decay = optax.stateless(lambda gradients, weights: gradients + rules.weight_decay * penalised * weights)
    if rules.weight_decay > 0.0 and rules.name != "adamw":
        parts.append(decay)
    parts.append(optax.trace(rules.momentum) if rules.name == "sgd" else optax.scale_by_adam())
    if rules.weight_decay > 0.0 and rules.name == "adamw":
        parts.append(decay)
    return optax.chain(*parts)


def step_of(optimizer: optax.GradientTransformation) -> Callable[..., Any]:
    """`(weights, memory, gradients, rate) -> (weights, memory)`, each with one row per net."""

    def one(weights: Any, memory: Any, gradients: Any, rate: Any) -> Any:
        updates, memory = optimizer.update(gradients, memory, weights)
        return weights - rate * updates, memory

    return jax.vmap(one, in_axes=(0, 0, 0, None))


def start_memory(optimizer: optax.GradientTransformation, weights: Any) -> Any:
    """What the optimiser remembers before its first step, per net."""
    return jax.vmap(optimizer.init)(jnp.asarray(weights))
