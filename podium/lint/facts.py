"""What the linter measures: one pass over the features, in blocks small enough for the cache.

Equality is found by 64-bit hashes and then confirmed value by value, so a report never rests on a collision. Two
missing values count as equal, and so do 0.0 and -0.0. Plain NumPy on blocks runs at about 8 ns per value; compiling a
kernel would take longer than it saves on most files.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from podium.data.sparse import FeatureMatrix, as_dense
from podium.data.texts import Texts

_BLOCK = 1 << 19  # values per block: 2 MB as float32
_PAIR_DRAWS = 1 << 18
_PAIR_VALUES = 20_000_000  # values compared at most when looking for leaks


@dataclass(frozen=True, eq=False)
class Facts:
    """What one pass over a data set finds out about its features (one entry per feature) and rows."""

    missing: np.ndarray  # int64: number of NaN
    low: np.ndarray  # float32: smallest value, NaN when all are missing
    high: np.ndarray  # float32
    first: np.ndarray  # uint32: the bits of the first row
    varies: np.ndarray  # bool: not the same in all rows
    varies_in_query: np.ndarray  # bool: not the same in all rows of at least one query
    column_hashes: np.ndarray  # uint64
    row_hashes: np.ndarray  # uint64, one per row


def measure(X: np.ndarray, offsets: np.ndarray) -> Facts:
    """All facts in one pass; the largest temporary is one block."""
    n, f = X.shape
    opens_query = np.zeros(n + 1, dtype=bool)
    opens_query[offsets] = True
    missing, column_hashes = np.zeros(f, np.int64), np.zeros(f, np.uint64)
    low, high = np.full(f, np.nan, np.float32), np.full(f, np.nan, np.float32)
    varies, varies_in_query = np.zeros(f, bool), np.zeros(f, bool)
    row_hashes, column_keys = np.empty(n, np.uint64), keys(0, f)
    for start, stop in _blocks(n, f):
        before = max(start - 1, 0)  # with the row before, so that each neighbouring pair is compared once
        bits = canonical_bits(X[before:stop])
        differs = bits[1:] != bits[:-1]
        varies |= differs.any(axis=0)
        differs[opens_query[before + 1 : stop]] = False
        varies_in_query |= differs.any(axis=0)
        block, wide = X[start:stop], bits[start - before :].astype(np.uint64)
        missing += np.count_nonzero(np.isnan(block), axis=0)
        low, high = np.fmin(low, np.fmin.reduce(block)), np.fmax(high, np.fmax.reduce(block))
        row_hashes[start:stop] = np.einsum("ij,j->i", wide, column_keys)
        column_hashes += np.einsum("ij,i->j", wide, keys(start, stop))
    return Facts(missing, low, high, canonical_bits(X[:1])[0], varies, varies_in_query, column_hashes, row_hashes)


def hash_texts(texts: Texts) -> np.ndarray:
    """One uint64 a string; equal strings have equal hashes."""
    lengths = np.diff(texts.offsets)
    result = np.empty(len(texts), np.uint64)
    step = 1 << 16
    for start in range(0, len(texts), step):
        ends = texts.offsets[start : start + step + 1]
        places = np.arange(ends[0], ends[-1]) - np.repeat(ends[:-1], lengths[start : start + step])
        products = texts.data[ends[0] : ends[-1]] * mix(places.astype(np.uint64))
        sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(products, dtype=np.uint64)])  # wraps, by design
        result[start : start + step] = sums[ends[1:] - ends[0]] - sums[ends[:-1] - ends[0]]
    return mix(result + lengths.astype(np.uint64))


def mix(values: np.ndarray) -> np.ndarray:
    """Scatter uint64 values: each bit of the input touches every bit of the result (the splitmix64 finaliser)."""
    values = values + np.uint64(0x9E3779B97F4A7C15)
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(values ^ (values >> np.uint64(31)))


def repeats(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Each place whose key came before, with the last place before it: [7, 3, 7, 7] -> ([0, 2], [2, 3])."""
    order = np.argsort(keys, kind="stable")
    same = keys[order[1:]] == keys[order[:-1]]
    before, again = order[:-1][same], order[1:][same]
    by_place = np.argsort(again)
    return before[by_place], again[by_place]


def rows_equal(X: FeatureMatrix, rows: np.ndarray, other: FeatureMatrix, other_rows: np.ndarray) -> np.ndarray:
    """For each pair of places: is the row of X the same as the row of the other matrix?"""
    equal = np.empty(len(rows), bool)
    for start, stop in _blocks(len(rows), X.shape[1]):
        mine, theirs = (canonical_bits(as_dense(part)) for part in (X[rows[start:stop]], other[other_rows[start:stop]]))
        equal[start:stop] = (mine == theirs).all(axis=1)
    return equal


def rows_flat(X: FeatureMatrix, rows: np.ndarray) -> np.ndarray:
    """For each place: has the row one value only (all zero, all missing)? Such rows are alike by chance."""
    flat = np.empty(len(rows), bool)
    for start, stop in _blocks(len(rows), X.shape[1]):
        bits = canonical_bits(as_dense(X[rows[start:stop]]))
        flat[start:stop] = (bits == bits[:, :1]).all(axis=1)
    return flat


def columns_equal(X: FeatureMatrix, columns: np.ndarray, others: np.ndarray) -> np.ndarray:
    """For each pair of columns: are they the same in every row?"""
    equal = np.ones(len(columns), bool)
    for start, stop in _blocks(X.shape[0], len(columns)):
        one, other = (canonical_bits(as_dense(X[start:stop][:, some])) for some in (columns, others))
        equal &= (one == other).all(axis=0)
    return equal


@dataclass(frozen=True, eq=False)
class PairCounts:
    """In how many sampled pairs (better label, worse label) each feature is larger, or smaller, in the better one."""

    larger: np.ndarray
    smaller: np.ndarray
    pairs: int
    queries: int


def count_pairs(X: FeatureMatrix, y: np.ndarray, offsets: np.ndarray) -> PairCounts:
    """Ask every feature about a bounded sample of pairs; ties and missing values count for neither side."""
    better, worse = _sample_pairs(y, offsets, limit=max(1000, min(20_000, _PAIR_VALUES // max(X.shape[1], 1))))
    larger, smaller = np.zeros(X.shape[1], np.int64), np.zeros(X.shape[1], np.int64)
    for start, stop in _blocks(len(better), X.shape[1]):
        high, low = as_dense(X[better[start:stop]]), as_dense(X[worse[start:stop]])
        larger += np.count_nonzero(high > low, axis=0)
        smaller += np.count_nonzero(high < low, axis=0)
    queries = np.unique(np.searchsorted(offsets, better, side="right"))
    return PairCounts(larger, smaller, len(better), len(queries))


def _sample_pairs(y: np.ndarray, offsets: np.ndarray, limit: int) -> tuple[np.ndarray, np.ndarray]:
    # Draw queries, not rows: one very long list would otherwise be the whole sample.
    mixed = np.flatnonzero(np.maximum.reduceat(y, offsets[:-1]) > np.minimum.reduceat(y, offsets[:-1]))
    if len(mixed) == 0:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    random = np.random.default_rng(0)
    query = mixed[random.integers(len(mixed), size=_PAIR_DRAWS)]
    lengths = np.diff(offsets)[query]
    one, two = (offsets[query] + (random.random(_PAIR_DRAWS) * lengths).astype(np.int64) for _ in range(2))
    better, worse = one[y[one] > y[two]], two[y[one] > y[two]]
    pairs = np.unique(better * len(y) + worse)
    if len(pairs) > limit:
        pairs = pairs[np.linspace(0, len(pairs) - 1, limit).astype(np.int64)]
    return pairs // len(y), pairs % len(y)


def canonical_bits(block: np.ndarray) -> np.ndarray:
    """The float32 bits with one zero and one NaN: equal values and equal bits are then the same thing."""
    copy: np.ndarray = np.add(block, np.float32(0), order="C")  # -0.0 + 0.0 is 0.0
    missing = np.isnan(copy)
    if missing.any():
        copy[missing] = np.nan
    return copy.view(np.uint32)


def keys(start: int, stop: int) -> np.ndarray:
    return mix(np.arange(start, stop, dtype=np.uint64)) | np.uint64(1)  # odd: no bit of a value is lost


def _blocks(rows: int, columns: int) -> Iterator[tuple[int, int]]:
    step = max(1, _BLOCK // max(columns, 1))
    for start in range(0, rows, step):
        yield start, min(start + step, rows)
