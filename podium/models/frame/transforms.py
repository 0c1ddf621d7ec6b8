"""Transforms: features as the learner sees them, compared within their query or over the training rows.

    within the query    zscore      (x - mean) / standard deviation, 0 where the query is constant, at most 4 from 0
                        rank        (average rank - 0.5) / n, the smallest value first
                        minmax      (x - min) / (max - min), 0 where the query is constant
    over training rows  standard    (x - mean) / standard deviation
                        signed_log  sign(x) log(1 + |x|)
                        quantile    the share of training rows below x, between 256 quantiles by interpolation
    neither             raw         x

Each one makes one column per feature; columns that are constant over the training rows are dropped. A missing value
stays missing and counts in no mean, rank or quantile. All of them rise with x, so a monotone constraint on a feature is
one on all of its columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from podium._runtime.compiler import readonly
from podium._runtime.threads import map_slices, over_queries
from podium.data.query_ids import group_rows
from podium.data.ranking import RankingData
from podium.data.sharding.shard import Shard
from podium.data.sparse import FeatureMatrix, is_sparse
from podium.data.standardising import Standardisation
from podium.models.frame.parameters import NAMES
from podium.models.frame.parameters import Kind as ParameterKind
from podium.models.frame.query_kernels import feature_ranges, minmax_queries, rank_queries, zscore_queries

KINDS = ("raw", "zscore", "rank", "minmax", "standard", "signed_log", "quantile")  # by number in model files
WITHIN_QUERY = ("zscore", "rank", "minmax")
TRANSFORM_ARRAYS = ("kinds", "features", "centre", "scale", "quantiles")
_KEEP_ZEROS = ("raw", "signed_log")
_LARGEST_ZSCORE = 4.0
_QUANTILES = 256
_BLOCK_ROWS = 8192
_LARGEST = float(np.finfo(np.float32).max)

Queries = tuple[np.ndarray, np.ndarray]
"""The rows of query 0, then those of query 1, ..., and offsets into them."""


def queries_of(data: RankingData) -> Queries:
    return data.rows, data.offsets


def queries_by_id(ids: np.ndarray) -> Queries:
    order, offsets, _ = group_rows(ids)
    return (np.arange(len(ids)) if order is None else order), offsets


def one_query(n: int) -> Queries:
    return np.arange(n), np.array([0, n])


@dataclass(frozen=True, eq=False, repr=False)
class TransformedData(RankingData):
    """Ranking data whose X has transformed columns; `source` has the features they were made of."""

    source: RankingData | None = None


def source_of(data: RankingData) -> RankingData:
    """The data as they came to the model."""
    return data.source if isinstance(data, TransformedData) and data.source is not None else data


def without_source(data: RankingData) -> RankingData:
    """The data for another model, which sees the columns as its features."""
    return replace(data, source=None) if isinstance(data, TransformedData) else data


@dataclass(frozen=True, eq=False)
class Transform:
    """Fitted transforms: one kind and one feature per column, and what the training rows were like."""

    kinds: np.ndarray  # (columns,) uint8: numbers of KINDS
    features: np.ndarray  # (columns,) uint32
    centre: np.ndarray  # (features,) float64, of "standard"
    scale: np.ndarray  # (features,) float64, above 0
    quantiles: np.ndarray  # (points, features) float32, rising; no points without "quantile"

    @classmethod
    def fit(
        cls,
        kinds: Sequence[str],
        data: RankingData,
        unchanged: Sequence[int],
        n_jobs: int | None,
        shard: Shard | None = None,
    ) -> Transform:
        """On training data, or the part of one rank. Features `unchanged` (categories) have one column, as they are."""
        refuse_sparse(kinds, data.X)
        if shard is not None:
            _refuse_divided(kinds)
        free = [feature for feature in range(data.n_features) if feature not in set(unchanged)]
        pairs = [(0, feature) for feature in unchanged]
        pairs += [(KINDS.index(kind), feature) for kind in kinds for feature in free]
        columns = np.array(pairs, np.int64).reshape(-1, 2)
        scaling = Standardisation.fit(data.X) if "standard" in kinds else Standardisation.identity(data.n_features)
        transform = cls(
            kinds=columns[:, 0].astype(np.uint8),
            features=columns[:, 1].astype(np.uint32),
            centre=scaling.centre,
            scale=scaling.scale,
            quantiles=_quantiles(data.X) if "quantile" in kinds else np.empty((0, data.n_features), np.float32),
        )
        return transform._without_constants(data, n_jobs, shard)

    @property
    def n_columns(self) -> int:
        return len(self.kinds)

    @property
    def n_features(self) -> int:
        return len(self.centre)

    @property
    def needs_queries(self) -> bool:
        """Whether a column depends on the other documents of the query."""
        return any(KINDS[kind] in WITHIN_QUERY for kind in np.unique(self.kinds))

    def names(self, features: Sequence[str]) -> tuple[str, ...]:
        """`bm25`, `zscore(bm25)`, ...: one per column."""
        columns = ((KINDS[kind], features[feature]) for kind, feature in zip(self.kinds, self.features))
        return tuple(name if kind == "raw" else f"{kind}({name})" for kind, name in columns)

    def columns_of(self, feature: int) -> list[int]:
        """The columns that are made of a feature; none where all were constant."""
        return np.flatnonzero(self.features == feature).tolist()

    def apply(self, X: FeatureMatrix, queries: Queries | None, n_jobs: int | None = None) -> FeatureMatrix:
        """The columns of rows X; `queries` is not looked at where no column depends on it."""
        if is_sparse(X):
            refuse_sparse([KINDS[kind] for kind in np.unique(self.kinds)], X)
            return self._apply_sparse(X)
        out, X = np.empty((len(X), self.n_columns), np.float32), readonly(np.ascontiguousarray(X))
        for kind, first, features in self._runs():
            if kind in WITHIN_QUERY:
                if queries is None:
                    raise ValueError(f"{kind} is computed within the query; give one query id per row.")
                transform_queries(kind, X, queries, features, _LARGEST_ZSCORE, first, out, n_jobs)
            else:
                self._apply_rowwise(kind, X, features, out[:, first : first + len(features)], n_jobs)
        return out

    def apply_to(self, data: RankingData, names: Sequence[str], n_jobs: int | None) -> TransformedData:
        """Ranking data with the columns in place of the features, which are called `names`."""
        known = {field.name: getattr(data, field.name) for field in fields(RankingData)}
        made = {"X": self.apply(data.X, queries_of(data), n_jobs), "feature_names": self.names(names)}
        return TransformedData(**known | made, source=data)

    def arrays(self) -> dict[str, np.ndarray]:
        """For a model file."""
        return {name: getattr(self, name) for name in TRANSFORM_ARRAYS}

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, np.ndarray], n_features: int) -> Transform:
        """What `arrays` returned, all of it checked."""
        transform = cls(**{name: arrays[name] for name in TRANSFORM_ARRAYS})
        width, points = (n_features,), transform.quantiles.shape[:1]
        for name, dtype, shape in (
            ("kinds", np.uint8, transform.kinds.shape[:1]),
            ("features", np.uint32, transform.kinds.shape[:1]),
            ("centre", np.float64, width),
            ("scale", np.float64, width),
            ("quantiles", np.float32, points + width),
        ):
            array = arrays[name]
            if array.dtype != dtype or array.shape != shape or not np.isfinite(array).all():
                raise ValueError(f"transform/{name} must have finite numbers of {np.dtype(dtype)} and shape {shape}")
        if not transform.n_columns or (transform.kinds >= len(KINDS)).any() or (transform.features >= n_features).any():
            raise ValueError("a column is of a transform or a feature that is not there, or there is none")
        if len(np.unique(np.stack([transform.kinds, transform.features]), axis=1).T) < transform.n_columns:
            raise ValueError("two columns are the same transform of the same feature")
        if (transform.scale <= 0).any() or (np.diff(transform.quantiles, axis=0) < 0).any():
            raise ValueError("a scale is not above 0, or quantiles fall")
        if not points[0] and KINDS.index("quantile") in transform.kinds:
            raise ValueError("there are no quantiles")
        return transform

    def _runs(self) -> Iterator[tuple[str, int, np.ndarray]]:
        """Columns of the same kind that follow one another: (kind, first column, features)."""
        starts = np.flatnonzero(np.diff(self.kinds.astype(np.int64), prepend=-1))
        for first, last in zip(starts.tolist(), [*starts[1:].tolist(), self.n_columns]):
            yield KINDS[self.kinds[first]], first, self.features[first:last].astype(np.int64)

    def _apply_rowwise(self, kind: str, X: np.ndarray, features: np.ndarray, out: np.ndarray, n_jobs: Any) -> None:
        formula = self._formula(kind, features)

        def work(part: slice) -> None:
            out[part] = formula(X[part][:, features])

        map_slices(work, len(X), _BLOCK_ROWS, n_jobs)

    def _formula(self, kind: str, features: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        """Of a kind that looks at one value at a time: the values of these features, (rows, features), transformed."""
        if kind == "raw":
            return lambda values: values
        if kind == "signed_log":
            return _signed_log
        if kind == "standard":
            scaling = Standardisation(self.centre, self.scale).take(features)
            return lambda values: np.clip(scaling.apply(values), -_LARGEST, _LARGEST)
        quantiles = self.quantiles[:, features]
        return lambda values: np.stack([_shares_below(v, q) for v, q in zip(values.T, quantiles.T)], axis=1)

    def _apply_sparse(self, X: Any) -> Any:
        from scipy.sparse import csr_array, hstack

        parts = []
        for kind, _, features in self._runs():
            part = csr_array(X[:, features])
            values = part.data if kind == "raw" else _signed_log(part.data)
            parts.append(csr_array((values, part.indices, part.indptr), shape=part.shape))
        return hstack(parts, format="csr")

    def _without_constants(self, data: RankingData, n_jobs: int | None, shard: Shard | None) -> Transform:
        varying = _varying(self.apply(data.X, queries_of(data), n_jobs), shard)
        if not varying.any():
            n = data.n_rows if shard is None else shard.n_rows
            problem = f"all columns are constant over the training rows (n_samples={n})"
            advice = "Add features, or transforms that vary within the training rows."
            raise ValueError(f"transform: {problem}, so there is nothing to learn from. {advice}")
        return Transform(self.kinds[varying], self.features[varying], self.centre, self.scale, self.quantiles)


def same_transforms(one: Transform | None, other: Transform | None) -> bool:
    """Whether both make the same columns."""
    if one is None or other is None:
        return one is other
    return all(np.array_equal(array, other.arrays()[name]) for name, array in one.arrays().items())


def transform_queries(
    kind: str,
    X: np.ndarray,
    queries: Queries,
    features: np.ndarray,
    largest_zscore: float,
    first: int,
    out: np.ndarray,
    n_jobs: int | None,
) -> None:
    """One of WITHIN_QUERY, of these features of X, to the columns of `out` from `first` on."""
    rows, offsets = readonly(queries[0]), readonly(queries[1])

    def work(start: int, stop: int) -> None:
        part = X, rows, offsets[start : stop + 1], features
        if kind == "zscore":
            zscore_queries(*part, largest_zscore, first, out)
        elif kind == "rank":
            rank_queries(*part, first, out)
        else:
            minmax_queries(*part, first, out)

    over_queries(work, offsets, n_jobs)


def refuse_sparse(kinds: Sequence[str], X: FeatureMatrix) -> None:
    changing = [kind for kind in kinds if kind not in _KEEP_ZEROS]
    if changing and is_sparse(X):
        problem = f"zeros would not stay zeros under {changing[0]!r}, so sparse rows would be filled up"
        allowed = " and ".join(map(repr, _KEEP_ZEROS))
        raise ValueError(f"transform: {problem}; with sparse rows use {allowed}, or X.toarray().")


def _are_transforms(value: Any) -> bool:
    if isinstance(value, str) or not isinstance(value, Sequence) or not value:
        return False
    return all(isinstance(kind, str) and kind in KINDS for kind in value) and len(set(value)) == len(value)


_EXAMPLE = '("raw", "zscore", "rank")'
TRANSFORMS = ParameterKind(
    f"names such as {_EXAMPLE}, each once, out of {', '.join(KINDS)}", _are_transforms, NAMES.read
)


def _signed_log(values: np.ndarray) -> np.ndarray:
    return np.asarray(np.copysign(np.log1p(np.abs(values)), values))


def _shares_below(values: np.ndarray, quantiles: np.ndarray) -> np.ndarray:
    """Where values lie among quantiles, from 0 to 1; a value that is several quantiles lies in their middle."""
    shares = np.linspace(0, 1, len(quantiles))
    below = np.interp(values, quantiles, shares)
    above = -np.interp(-values, -quantiles[::-1], -shares[::-1])
    return np.asarray(0.5 * (below + above))


def _quantiles(X: np.ndarray) -> np.ndarray:
    quantiles = np.zeros((_QUANTILES, X.shape[1]), np.float32)
    for feature, values in enumerate(X.T):
        present = values[~np.isnan(values)]
        if len(present):
            of_feature = np.quantile(present.astype(np.float64), np.linspace(0, 1, _QUANTILES))
            quantiles[:, feature] = np.maximum.accumulate(of_feature)  # interpolation may round downwards
    return quantiles


def _refuse_divided(kinds: Sequence[str]) -> None:
    """Refuse transforms that need all training rows at once."""
    whole = [kind for kind in kinds if kind in ("standard", "quantile")]
    if whole:
        problem = f"{whole[0]!r} needs all training rows at once, and each worker has a part of them"
        raise ValueError(f"transform: {problem}. Trees need no scaling; use {', '.join(WITHIN_QUERY)}, or no client.")


def _varying(X: FeatureMatrix, shard: Shard | None = None) -> np.ndarray:
    """Which columns have two different values, a missing one being one."""
    low, high, count = _ranges_of_sparse(X) if is_sparse(X) else _ranges(X)
    n = X.shape[0]
    if shard is not None:
        ends = shard.collective.largest(np.stack([-low, high]))
        low, high, count, n = -ends[0], ends[1], shard.collective.sum(count), shard.n_rows
    return np.asarray((low < high) | ((count > 0) & (count < n)))


Ranges = tuple[np.ndarray, np.ndarray, np.ndarray]
"""The smallest and the largest value of each column, and how many are not missing."""


def _ranges(X: np.ndarray) -> Ranges:
    width = X.shape[1]
    low, high, count = np.empty(width), np.empty(width), np.empty(width, np.int64)
    feature_ranges(readonly(X), np.arange(len(X)), np.arange(width), low, high, count)
    return low, high, count


def _ranges_of_sparse(X: Any) -> Ranges:
    n, width = X.shape
    missing = np.isnan(X.data)
    count = n - np.bincount(X.indices[missing], minlength=width)
    zeros = n - np.bincount(X.indices, minlength=width)
    low, high = np.where(zeros > 0, 0.0, np.inf), np.where(zeros > 0, 0.0, -np.inf)
    np.minimum.at(low, X.indices[~missing], X.data[~missing])
    np.maximum.at(high, X.indices[~missing], X.data[~missing])
    return low, high, count
