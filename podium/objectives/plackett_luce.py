"""Plackett-Luce: a distribution over rankings of one list, given a score per document.

The first document is drawn by the softmax of the scores, the next by the softmax of those that are left, and so on:

    P(r_1, ..., r_k) = prod_x exp(s_(r_x)) / sum_(documents d not ranked before x) exp(s_d)

A ranking has the rows of its documents, best first; one of the first k places leaves the rest open.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from podium._runtime.compiler import Array, kernel
from podium._runtime.random import check_seed, stream_of, uniform


def sample_rankings(scores: Any, n_samples: int = 1, *, top: int | None = None, seed: int = 0) -> Array:
    """Rankings drawn from Plackett-Luce, (n_samples, documents) or (n_samples, top).

    Sorting the scores plus Gumbel noise is such a draw (Gumbel-max). A ranking depends on the seed and its number
    alone: more samples begin with those of fewer.
    """
    known = _scores(scores)
    check_seed("sample_rankings", seed)
    for name, number, low, high in (("n_samples", n_samples, 0, 2**40), ("top", top, 0, len(known))):
        if number is not None and (isinstance(number, bool) or not low <= int(number) <= high):
            raise ValueError(f"sample_rankings: {name} must be an integer from {low} to {high}; got {number!r}.")
    noisy = np.empty((int(n_samples), len(known)))
    _add_gumbel(known, stream_of(int(seed), 0), noisy)
    return np.argsort(-noisy, axis=1, kind="stable")[:, :top]


def log_likelihood(scores: Any, rankings: Any) -> Any:
    """The logarithm of the probability of a ranking; of each, if `rankings` has two axes.

    Rankings may have any number of places: those of the first k documents are summed over all that can follow.
    """
    known = _scores(scores)
    ranked = np.asarray(rankings)
    if ranked.ndim not in (1, 2) or (ranked.size and ranked.dtype.kind not in "iu"):
        raise ValueError(f"rankings must hold rows, in one or two axes; got {ranked.dtype} of shape {ranked.shape}.")
    likelihoods = np.array([_log_likelihood(known, ranking) for ranking in np.atleast_2d(ranked).astype(np.int64)])
    return float(likelihoods[0]) if ranked.ndim == 1 else likelihoods


def _log_likelihood(scores: Array, ranking: Array) -> float:
    if len(np.unique(ranking)) < len(ranking) or ranking.min(initial=0) < 0 or ranking.max(initial=0) >= len(scores):
        raise ValueError(f"a ranking must have different rows from 0 to {len(scores) - 1}; got {ranking.tolist()}.")
    if len(ranking) == 0:
        return 0.0
    rest = np.delete(scores, ranking)
    chosen = scores[ranking]
    open_places = np.logaddexp.reduce(rest) if len(rest) else -np.inf
    levels = np.logaddexp(np.logaddexp.accumulate(chosen[::-1])[::-1], open_places)
    return float(np.sum(chosen - levels))


def _scores(scores: Any) -> Array:
    known: Array = np.ascontiguousarray(scores, dtype=np.float64)
    if known.ndim != 1 or not np.isfinite(known).all():
        raise ValueError(f"scores must be finite numbers of one list; got shape {known.shape}.")
    return known


@kernel
def _add_gumbel(scores: Array, stream: np.uint64, noisy: Array) -> None:
    """noisy (samples, documents) = score - log(-log(u)), u even in (0, 1)."""
    n = len(scores)
    for sample in range(len(noisy)):
        for d in range(n):
            noisy[sample, d] = scores[d] - np.log(-np.log(uniform(stream, sample * n + d)))
