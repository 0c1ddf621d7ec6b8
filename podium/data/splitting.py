"""Splitting: whole queries divided into parts by shares, or into the folds of LETOR, drawn by a seed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from numbers import Real
from typing import Any

import numpy as np

from podium._runtime.compiler import Array
from podium._runtime.words import counted

_ROUNDING = 1e-9  # of a sum of shares


def part_numbers(n_queries: int, shares: list[float], seed: int) -> Array:
    """(queries,) int64: the part of each query, the number of parts where it is in none.

    Ends of parts are rounded, so that shares which add up to 1 leave no query out: 10 queries in parts of 0.25, 0.25
    and 0.5 have the ends 2.5, 5 and 10, rounded 3, 5 and 10.
    """
    ends = np.floor(np.cumsum(shares) * n_queries + 0.5 + _ROUNDING).astype(np.int64)
    numbers = np.full(n_queries, len(shares), np.int64)
    order = np.random.default_rng(seed).permutation(n_queries)
    for part, (start, end) in enumerate(pairwise([0, *np.minimum(ends, n_queries).tolist()])):
        numbers[order[start:end]] = part
    return numbers


def named_parts(n_queries: int, parts: Mapping[str, float], seed: int) -> Array:
    """`part_numbers` of shares by name, which are checked; each part has at least one query."""
    if not isinstance(parts, Mapping) or not parts:
        raise ValueError(f'parts must be shares by name, such as {{"train": 0.8, "valid": 0.2}}; got {parts!r}.')
    for name, share in parts.items():
        if not _is_share(share):
            raise ValueError(f"parts: the share of {name!r} must be above 0 and at most 1; got {share!r}.")
    total = float(sum(parts.values()))
    if total > 1 + _ROUNDING:
        raise ValueError(f"parts: shares must add up to at most 1; got {total:g}. Divide each by {total:g}.")
    numbers = part_numbers(n_queries, [float(share) for share in parts.values()], seed)
    sizes = np.bincount(numbers, minlength=len(parts))
    for name, size in zip(parts, sizes):
        if size == 0:
            queries = counted(n_queries, "query", "queries")
            raise ValueError(f"parts: {name!r} has no query: {parts[name]:g} of {queries}. Give it a larger share.")
    return numbers


def _is_share(value: Any) -> bool:
    return type(value) is not bool and isinstance(value, Real) and 0 < float(value) <= 1


def letor_rotation(n_queries: int, k: int, seed: int) -> Iterator[tuple[Array, Array, Array]]:
    """Which queries train, validate and test in each of k folds, (queries,) bool each.

    Queries are dealt out to k parts S1, S2, ...; fold i trains on S_i and the following ones, validates on the last but
    one and is tested on the last: with five parts, fold 1 has S1 to S3, S4 and S5, fold 2 has S2 to S4, S5 and S1.
    """
    if not 3 <= k <= n_queries:
        limit = f"from 3 (train, validate, test) to the number of queries ({n_queries})"
        raise ValueError(f"k must be {limit}; got {k}.")
    part = np.random.default_rng(seed).permutation(np.arange(n_queries) % k)
    for fold in range(k):
        valid, test = part == (fold + k - 2) % k, part == (fold + k - 1) % k
        yield ~valid & ~test, valid, test
