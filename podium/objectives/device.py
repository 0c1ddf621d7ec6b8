"""Objectives on another device: gradients on padded lists, as a function of JAX, and the arrays that it reads there.

What is computed once when an objective is bound (targets, thresholds, gains, weights of ranks) stays on the host. The
function stands beside the kernel of its objective and needs no Numba.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np


class PaddedLists(NamedTuple):
    """Lists that are filled up to a common length, as arrays of JAX."""

    mask: Any  # (queries, length): which entries hold a document
    rows: Mapping[str, Any]  # (queries, length) each
    queries: Mapping[str, Any]  # (queries,) each
    table: Any

    def both(self, values: Any) -> Any:
        """values [q, i, j], 0 unless i and j hold a document."""
        import jax.numpy as jnp

        return jnp.where(self.mask[:, :, None] & self.mask[:, None, :], values, jnp.zeros((), values.dtype))

    @property
    def pair_weights(self) -> Any:
        weight = self.rows.get("document_weight")
        return 1.0 if weight is None else weight[:, :, None] * weight[:, None, :]


@dataclass(frozen=True)
class ListGradients:
    """`function(scores (queries, length), lists, **settings)`, times the weights of queries; equal ones are hashed so.

    Pairs are never stored: the compiler sums them as it forms them.
    """

    function: Callable[..., Any]
    settings: tuple[tuple[str, Any], ...] = ()

    def __call__(self, scores: Any, *arrays: Any) -> Any:
        """(queries, length) float32, 0 where there is no document; arrays: those of `PaddedLists`."""
        import jax.numpy as jnp

        lists = PaddedLists(*arrays)
        gradients = self.function(jnp.where(lists.mask, scores, 0.0), lists, **dict(self.settings))
        if "row_weight" not in lists.rows:  # which has the query's weight in it
            gradients = gradients * lists.queries["weight"][:, None]
        return jnp.where(lists.mask, gradients, 0.0)


@dataclass(frozen=True, eq=False)
class DeviceObjective:
    """One objective on one data set; arrays are float32."""

    gradients: ListGradients
    rows: Mapping[str, np.ndarray]  # (n,) each
    queries: Mapping[str, np.ndarray]  # (queries,) each
    table: np.ndarray  # (longest,) weights of ranks; or empty
    resampled: bool = False  # rows are others in every iteration

    @classmethod
    def of(
        cls,
        function: Callable[..., Any],
        rows: Mapping[str, np.ndarray],
        queries: Mapping[str, np.ndarray],
        settings: Mapping[str, Any] = MappingProxyType({}),
        table: Any = (),
        resampled: bool = False,
    ) -> DeviceObjective:
        """settings: plain values, which can be hashed."""
        rows, queries = (
            {name: np.asarray(values, np.float32) for name, values in arrays.items()} for arrays in (rows, queries)
        )
        gradients = ListGradients(function, tuple(sorted(settings.items())))
        return cls(gradients, rows, queries, np.asarray(table, np.float32), resampled)


def differences(values: Any) -> Any:
    """[q, i, j]: value of i minus that of j."""
    return values[:, :, None] - values[:, None, :]
