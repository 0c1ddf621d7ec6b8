"""Data shaped like MSLR-WEB: 136 features, lists of very different length, grades 0 to 4 with few good documents.

A document has a hidden quality and a query a hidden difficulty. Features are noisy functions of them, of eight kinds
that such data have: few whole numbers, ratios, long-tailed counts, values of the query alone, counts and scores that
are often 0, booleans, and smooth scores.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

N_FEATURES = 136
GRADE_SHARES = (0.52, 0.32, 0.13, 0.02, 0.01)
_ROWS_AT_A_TIME = 50_000


@dataclass(frozen=True, eq=False)
class Lists:
    """Rows of queries, one after the other."""

    X: np.ndarray  # (rows, features) float32
    y: np.ndarray
    offsets: np.ndarray

    @property
    def sizes(self) -> np.ndarray:
        return np.diff(self.offsets)

    @property
    def qid(self) -> np.ndarray:
        return np.repeat(np.arange(len(self.sizes)), self.sizes)

    def queries(self, first: int, last: int) -> Lists:
        start, stop = self.offsets[first], self.offsets[last]
        return Lists(self.X[start:stop], self.y[start:stop], self.offsets[first : last + 1] - start)


def make_lists(n_rows: int, n_queries: int, seed: int = 0, n_features: int = N_FEATURES) -> Lists:
    rng = np.random.default_rng(seed)
    offsets = _offsets(rng, n_rows, n_queries)
    quality = rng.standard_normal(n_rows).astype(np.float32)
    difficulty = np.repeat(rng.standard_normal(n_queries), np.diff(offsets)).astype(np.float32)
    strengths = rng.uniform(0.0, 1.0, n_features) ** 2
    X = np.empty((n_rows, n_features), dtype=np.float32)
    for start in range(0, n_rows, _ROWS_AT_A_TIME):
        part = slice(start, start + _ROWS_AT_A_TIME)
        X[part] = _features(rng, quality[part], difficulty[part], strengths)
    # Quality counts for more where features that are not about it agree: something for deep trees to find.
    agreement = np.tanh(X[:, 6] - X[:, 14]) if n_features > 14 else 0.0
    hidden = quality * (1.0 + 0.5 * agreement) + 0.3 * difficulty + 0.7 * rng.standard_normal(n_rows)
    y = np.digitize(hidden, np.quantile(hidden, np.cumsum(GRADE_SHARES)[:-1])).astype(np.float64)
    return Lists(X, y, offsets)


def _offsets(rng: np.random.Generator, n_rows: int, n_queries: int) -> np.ndarray:
    lengths = np.maximum(rng.lognormal(0.0, 0.6, n_queries), 0.02)
    ends = np.maximum(np.round(np.cumsum(lengths) * n_rows / lengths.sum()), np.arange(1, n_queries + 1))
    return np.concatenate([[0], ends]).astype(np.int64)


def _features(
    rng: np.random.Generator, quality: np.ndarray, difficulty: np.ndarray, strengths: np.ndarray
) -> np.ndarray:
    noise = rng.standard_normal((len(quality), len(strengths)), dtype=np.float32)
    base = quality[:, None] * strengths.astype(np.float32) + noise
    for f in range(len(strengths)):
        column, kind = base[:, f], f % 8
        if kind == 0:
            column[:] = np.clip(np.round(column + 2), 0, 5)
        elif kind == 1:
            column[:] = np.clip(np.round(column * 2 + 4), 0, 8) / 8
        elif kind == 2:
            column[:] = np.round(np.exp(1.2 * column + 4))
        elif kind == 3:
            column[:] = difficulty * (1 + f / 100)
        elif kind == 4:
            column[:] = np.round(np.maximum(column, 0) * 4)
        elif kind == 5:
            column[:] = np.where(column > 0.2, column, 0)
        elif kind == 7 and f % 16 == 15:
            column[:] = column > 0.5
    return base
