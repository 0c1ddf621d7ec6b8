"""Rows on which programs would differ first: values at the thresholds of a model and beside them, zeros, nothing.

Where two programs agree on these, they ask the same questions: a threshold t, its neighbours in float32, both zeros,
the smallest numbers, categories that no split lists, and nothing at all.
"""

from __future__ import annotations

import numpy as np

from podium._runtime.compiler import Array
from podium.exchange.forms import Form, LinearSum, NetForm, Trees

_SEED = 20_260_101
_EVERYWHERE = np.array([0.0, -0.0, 1.0, -1.0, 1e-36, -1e-36, 1e-45, -1e-45, 1e-38, 3.0, 1e6, -1e6], np.float32)
_MISSING = 0.1  # share of values that are missing, of a model that takes them


def telling_rows(form: Form, n_rows: int, n_features: int, seed: int = 0) -> Array:
    """Rows (n_rows, n_features), float32: the same ones for the same model and seed."""
    random = np.random.default_rng(_SEED + seed)
    rows = random.standard_normal((n_rows, n_features)).astype(np.float32)
    if isinstance(form, Trees):
        for feature, values in _values_at_splits(form).items():
            rows[:, feature] = random.choice(values, n_rows)
        if not form.complete:
            rows[random.random(rows.shape) < _MISSING] = np.nan
    elif isinstance(form, LinearSum) and form.missing_is_zero:
        rows[random.random(rows.shape) < _MISSING] = np.nan
    elif isinstance(form, NetForm):
        inputs = form.model.net_.inputs
        with np.errstate(over="ignore"):
            rows = (inputs.centre[:n_features] + inputs.scale[:n_features] * rows).astype(np.float32)
        rows[random.random(rows.shape) < _MISSING] = np.nan
    return rows


def _values_at_splits(form: Trees) -> dict[int, Array]:
    """Of each feature that is used: thresholds, their neighbours, categories and others, and what is special."""
    forest = form.forest
    split = forest.left != np.arange(len(forest.left))
    plain = split & (forest.feature < forest.n_features)
    values: dict[int, list[Array]] = {}
    for feature in np.unique(forest.feature[plain]).tolist():
        at = np.unique(forest.threshold[plain & (forest.feature == feature)])
        beside = [np.nextafter(at, np.float32(side)) for side in (-np.inf, np.inf)]
        values[feature] = [at, *beside, _EVERYWHERE]
    for number, feature in enumerate(forest.sets.feature.tolist()):
        known = forest.sets.values[forest.sets.start[number] : forest.sets.start[number + 1]]
        values.setdefault(feature, []).extend([known, known + 1, np.zeros(1, np.float32)])
    joined = {feature: np.concatenate(parts).astype(np.float32) for feature, parts in values.items()}
    return {feature: known[np.isfinite(known)] for feature, known in joined.items()}
