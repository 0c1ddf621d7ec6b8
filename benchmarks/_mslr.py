"""Data shaped like MSLR-WEB: 136 features, lists of very different length, grades 0 to 4 with few good documents.

A document has a hidden quality and a query a hidden difficulty; features are noisy functions of them. As in MSLR, there
are 25 kinds of feature for each of five streams (body, anchor, title, URL, all), of which the anchor is empty for most
documents, and eleven about the page itself.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

N_FEATURES = 136
GRADE_SHARES = (0.52, 0.32, 0.13, 0.02, 0.01)
# Covered terms and their ratio, length, idf; sum, least, largest, mean and variance of term frequencies, then of those
# divided by the length, then of tf*idf; boolean, vector space, BM25, three language models.
STREAM_KINDS = ["few", "ratio", "count", "query", "count", "few", "count", *["smooth"] * 12, "boolean", *["smooth"] * 5]
# Slashes and length of the URL, links in and out, page and site rank, two qualities, clicks, dwell time.
PAGE_KINDS = ["few", "count", "count", "count", "smooth", "smooth", "count", "count", "rare", "rare", "rare"]
KINDS = [kind for kind in STREAM_KINDS for _ in range(5)] + PAGE_KINDS
ANCHOR = 1  # the stream that is empty for most documents

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
    agreement = np.tanh(X[:, 35] / 3) if n_features > 35 else np.float32(0.0)
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
    X = quality[:, None] * strengths.astype(np.float32) + noise
    no_anchor = rng.random(len(quality)) < 0.6
    for f, kind in enumerate(KINDS[: len(strengths)]):
        column = X[:, f]
        if kind == "few":
            column[:] = np.clip(np.round(column + 2), 0, 6)
        elif kind == "ratio":
            column[:] = np.clip(np.round(column * 4 + 8), 0, 16) / 16
        elif kind == "count":
            column[:] = np.round(np.exp(1.2 * column + (4 if f % 5 in (0, 4) else 2)))
        elif kind == "query":
            column[:] = difficulty * (1 + f / 100)
        elif kind == "boolean":
            column[:] = column > 0.5
        elif kind == "rare":
            column[:] = np.where(column > 1.5, np.round(np.exp(column)), 0)
        if f < 125 and f % 5 == ANCHOR:
            column[no_anchor] = 0
    return X
