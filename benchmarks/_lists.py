"""Generated ranking data for comparing defaults: LETOR-like features, and three ways in which labels follow from them.

Features come in groups that measure nearly the same thing, as TF, IDF and BM25 of one field do; some are skewed, some
are 0 for many documents, and some are the same for all documents of a query. What a document is worth is a function of
the hidden values behind its features, plus noise; grades 0 to 2 are cut from it, more of them for some queries than for
others.

- linear: a weighted sum of hidden values;
- interactions: products, a threshold, and one value that counts only where another is high;
- noise: a weighted sum of few values, most features are noise, and so is most of the label.
"""

from __future__ import annotations

import zlib

import numpy as np

from podium.data.ranking import RankingData

KINDS = ("linear", "interactions", "noise")
_NOISE = {"linear": 1.2, "interactions": 0.8, "noise": 2.0}  # in standard deviations of the worth
_GROUP = 3  # features that measure one hidden value


def make_lists(kind: str, n_queries: int, seed: int, n_documents: int = 20, n_features: int = 30) -> RankingData:
    """One data set. The function from features to worth belongs to the seed, so a seed is a world of its own."""
    rng = np.random.default_rng([seed, zlib.crc32(kind.encode())])
    world = rng.spawn(1)[0]  # has the same numbers for any number of queries
    n_rows, n_hidden = n_queries * n_documents, n_features // _GROUP
    qid = np.repeat(np.arange(n_queries), n_documents)
    hidden = rng.standard_normal((n_rows, n_hidden))
    hidden[:, -2:] = rng.standard_normal((n_queries, 2))[qid]  # the same for all documents of a query
    hidden[:, :-2] += 0.5 * rng.standard_normal((n_queries, n_hidden - 2))[qid]
    worth = _worth(kind, hidden, world)
    worth = (worth - worth.mean()) / worth.std() + _NOISE[kind] * rng.standard_normal(n_rows)
    worth += 0.5 * rng.standard_normal(n_queries)[qid]
    grades = np.digitize(worth, np.quantile(worth, [0.8, 0.93]))
    return RankingData.from_arrays(_measured(kind, hidden, n_features, world, rng), grades, qid)


def _worth(kind: str, hidden: np.ndarray, world: np.random.Generator) -> np.ndarray:
    h = hidden.T
    if kind == "linear":
        return np.asarray(hidden @ (world.standard_normal(len(h)) * 0.7 ** np.arange(len(h))))
    if kind == "noise":
        return np.asarray(hidden[:, :2] @ (0.5 + world.random(2)))
    a, b, c, d, e = h[world.permutation(len(h) - 2)[:5]]
    return np.asarray(a * b + 1.5 * (c > 0.5) + np.where(h[-1] > 0, d, -d) + 0.7 * e)


def _measured(
    kind: str, hidden: np.ndarray, n_features: int, world: np.random.Generator, rng: np.random.Generator
) -> np.ndarray:
    """(rows, features) float32: hidden values seen through noise, on scales of their own."""
    X = np.empty((len(hidden), n_features), np.float32)
    for number in range(n_features):
        source, style, blur = number % hidden.shape[1], world.integers(4), 0.2 + 0.8 * world.random()
        seen = hidden[:, source] + blur * rng.standard_normal(len(hidden)) * (source < hidden.shape[1] - 2)
        if kind == "noise" and source >= 2:
            seen = rng.standard_normal(len(hidden))
        if style == 1:  # a count or a length
            seen = np.exp(seen)
        elif style == 2:  # a field that most documents lack
            seen = np.maximum(seen - 0.3, 0)
        X[:, number] = np.round(seen * 10.0 ** world.integers(-1, 3), 4)
    return X
