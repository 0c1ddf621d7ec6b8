"""RankingData: the documents of many queries, each a row of features, with or without labels.

Rows stay in the order in which they were given. Query q owns the rows `rows[offsets[q]:offsets[q + 1]]`, in their
order; queries are numbered by first appearance. Kernels need the rows of a query to be contiguous: `grouped()`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from podium._runtime.compiler import readonly
from podium._runtime.deprecation import renamed_argument, warn_renamed
from podium._runtime.once import once
from podium.data.precision import columns_where, is_large, keeps_all, merged_columns, warn_of_merged
from podium.data.sparse import FeatureMatrix, as_dense, as_sparse, is_sparse
from podium.data.texts import Texts

if TYPE_CHECKING:
    from typing import Self


@dataclass(frozen=True, eq=False, repr=False)
class RankingData:
    """Features, labels and queries, checked once and never changed.

    Data to be ranked needs no labels: `y` is then None, and what needs labels refuses the data. Use
    `RankingData.from_arrays`, `RankingData.from_frame` or one of the readers; the constructor expects `offsets` and
    `rows` that fit each other. All arrays are read-only.
    """

    X: FeatureMatrix  # (rows, features) float32, NaN = missing: an array in C order, or a scipy `csr_array`
    y: np.ndarray | None  # (rows,) float64, finite and not negative; None: no labels
    offsets: np.ndarray  # (queries + 1,) int64
    query_ids: np.ndarray  # (queries,) int64, uint64 or str (object)
    rows: np.ndarray  # (rows,) int64: the rows of query 0, then those of query 1, ...; 0, 1, 2, ... if contiguous
    docid_texts: Texts | None = None
    comment_texts: Texts | None = None  # the text after `#` of a LETOR file, whole
    feature_names: tuple[str, ...] | None = None
    sample_weight: np.ndarray | None = None  # (rows,) float64
    query_weight: np.ndarray | None = None  # (queries,) float64

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, np.ndarray):
                object.__setattr__(self, field.name, readonly(value))
            elif is_sparse(value):
                object.__setattr__(self, field.name, as_sparse(value))

    @classmethod
    def from_arrays(
        cls,
        X: Any,
        y: Any = None,
        qid: Any = None,
        *,
        group: Any = None,
        docids: Any = None,
        feature_names: Sequence[str] | None = None,
        sample_weight: Any = None,
        query_weight: Any = None,
        document_weight: Any = None,
    ) -> Self:
        """Create ranking data from arrays: one query id per row in any order, or `group` sizes as in LightGBM.

        Without y the data has no labels: it can be ranked, but not trained on or evaluated. X may be any scipy sparse
        matrix, and stays sparse: entries that are not stored are 0, a stored NaN is missing.
        `sample_weight` has one weight per row, `query_weight` one per query, in order of first appearance.
        `document_weight` is the deprecated name of `sample_weight`.
        """
        sample_weight = renamed_argument("document_weight", document_weight, "sample_weight", sample_weight)
        X = as_features(X, feature_names, stacklevel=3)
        n = X.shape[0]
        y = None if y is None else as_labels(y, n)
        order, offsets, query_ids = group_rows(as_query_ids(qid, group, n))
        if docids is not None:
            docids = Texts.of(_as_strings(docids, "docids", n))
        if sample_weight is not None:
            sample_weight = as_weights(sample_weight, n, "sample_weight", "row")
        if query_weight is not None:
            query_weight = as_weights(query_weight, len(query_ids), "query_weight", "query")
        return cls(
            X,
            y,
            offsets,
            query_ids,
            np.arange(n, dtype=np.int64) if order is None else order,
            docid_texts=docids,
            feature_names=as_feature_names(feature_names, X.shape[1]),
            sample_weight=sample_weight,
            query_weight=query_weight,
        )

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        label: str | None = "label",
        qid: str = "qid",
        docid: str | None = None,
        features: Sequence[str] | None = None,
        sample_weight: str | None = None,
        query_weight: str | None = None,
        document_weight: str | None = None,
    ) -> Self:
        """Create ranking data from a pandas, polars or pyarrow table; columns not named here are features.

        With `label=None` the data has no labels, and a column that is called "label" is left out. `document_weight` is
        the deprecated name of `sample_weight`.
        """
        from podium.formats.frames import arrays_from_frame

        sample_weight = renamed_argument("document_weight", document_weight, "sample_weight", sample_weight)
        return cls.from_arrays(
            **arrays_from_frame(
                frame,
                label=label,
                qid=qid,
                docid=docid,
                features=features,
                sample_weight=sample_weight,
                query_weight=query_weight,
            )
        )

    def to_frame(self, backend: str = "pandas") -> Any:
        """A table with columns label and docid (if known), qid and one per feature: `pandas`, `polars` or `pyarrow`."""
        from podium.formats.frames import frame_from_data

        return frame_from_data(self, backend)

    def to_dense(self) -> Self:
        """The same data with sparse features written out, zeros and all."""
        return replace(self, X=as_dense(self.X)) if is_sparse(self.X) else self

    def labels_for(self, what: str) -> np.ndarray:
        """The labels, or an error that names what needs them."""
        if self.y is None:
            raise ValueError(
                f"{what} needs labels, and the data has none (y is None). "
                "Give y to from_arrays, or the name of a column to from_frame or the reader."
            )
        return self.y

    @property
    def n_rows(self) -> int:
        return len(self.rows)

    @property
    def n_queries(self) -> int:
        return len(self.query_ids)

    @property
    def n_features(self) -> int:
        return int(self.X.shape[1])

    @property
    def document_weight(self) -> np.ndarray | None:
        """The deprecated name of `sample_weight`."""
        warn_renamed("RankingData.document_weight", "sample_weight")
        return self.sample_weight

    @property
    def group(self) -> np.ndarray:
        """Documents per query, as `group` in LightGBM."""
        return np.diff(self.offsets)

    @once
    def is_contiguous(self) -> bool:
        """Whether the rows of each query are contiguous, the queries in their order."""
        return not len(self.rows) or bool(self.rows[0] == 0 and (np.diff(self.rows) == 1).all())

    @once
    def query_numbers(self) -> np.ndarray:
        """(rows,) int64: the number of each row's query, counted from 0 by first appearance."""
        return readonly(self.scatter(np.repeat(np.arange(self.n_queries), self.group)))

    @once
    def qid(self) -> np.ndarray:
        """One query id per row."""
        return readonly(self.scatter(np.repeat(self.query_ids, self.group)))

    @once
    def docids(self) -> np.ndarray | None:
        """One document id per row (dtype object), or None when the input has none."""
        return None if self.docid_texts is None else readonly(self.docid_texts.to_array())

    def grouped(self) -> Self:
        """The same data with the rows of each query contiguous: itself, without a copy, if they are already.

        Row k of it is row `rows[k]` of this one.
        """
        return self if self.is_contiguous else self._take(self.rows, rows=np.arange(self.n_rows))

    def scatter(self, values: np.ndarray) -> np.ndarray:
        """Values of the grouped rows, (rows, ...), in the order of these rows."""
        if self.is_contiguous:
            return values
        result = np.empty_like(values)
        result[self.rows] = values
        return result

    def subset(self, queries: Any) -> Self:
        """The named queries only: positions, a slice, or one True/False per query; in the order given.

        Positions that rise, a rising slice and True/False leave the rows in their order, so interleaved queries stay
        interleaved. Any other order gives the rows query by query.
        """
        chosen = np.arange(self.n_queries)[queries]
        lengths = self.group[chosen]
        offsets = _offsets(lengths)
        places = np.repeat(self.offsets[chosen] - offsets[:-1], lengths) + np.arange(offsets[-1])
        taken, rows = self.rows[places], np.arange(len(places), dtype=np.int64)
        if not self.is_contiguous and (np.diff(chosen) > 0).all():
            order = np.argsort(taken)
            taken = taken[order]
            rows = np.argsort(order)
        return self._take(
            taken,
            rows=rows,
            offsets=offsets,
            query_ids=self.query_ids[chosen],
            query_weight=None if self.query_weight is None else self.query_weight[chosen],
        )

    def _take(self, taken: np.ndarray, **others: Any) -> Self:
        """What belongs to single rows, of the rows `taken`; `others` has what else is different."""
        return replace(
            self,
            X=self.X[taken],
            y=None if self.y is None else self.y[taken],
            docid_texts=None if self.docid_texts is None else self.docid_texts.take(taken),
            comment_texts=None if self.comment_texts is None else self.comment_texts.take(taken),
            sample_weight=None if self.sample_weight is None else self.sample_weight[taken],
            **others,
        )

    def folds(self, k: int = 5, seed: int = 0) -> Iterator[tuple[Self, Self]]:
        """k pairs (training, test): whole queries, shuffled by the seed, each query in one test part."""
        if not 2 <= k <= self.n_queries:
            raise ValueError(f"k must be from 2 to the number of queries ({self.n_queries}); got {k}.")
        part = np.random.default_rng(seed).permutation(np.arange(self.n_queries) % k)
        for fold in range(k):
            yield self.subset(part != fold), self.subset(part == fold)

    @classmethod
    def concat(cls, parts: Sequence[RankingData]) -> Self:
        """Concatenate data sets, rows in order.

        They must have the same features and share no query, and have labels all or none of them.
        """
        if not parts:
            raise ValueError("concat needs at least one data set; got none.")
        _refuse_unlike_parts(parts)
        starts = np.cumsum([0, *(part.n_rows for part in parts)])
        return cls(
            _concat_features([part.X for part in parts]),
            None if parts[0].y is None else np.concatenate([part.labels_for("concat") for part in parts]),
            _offsets(np.concatenate([part.group for part in parts])),
            _concat_ids([part.query_ids for part in parts]),
            np.concatenate([part.rows + start for part, start in zip(parts, starts)]),
            docid_texts=_concat_texts([part.docid_texts for part in parts], parts),
            comment_texts=_concat_texts([part.comment_texts for part in parts], parts),
            feature_names=parts[0].feature_names,
            sample_weight=_concat_weights([part.sample_weight for part in parts], [p.n_rows for p in parts]),
            query_weight=_concat_weights([part.query_weight for part in parts], [p.n_queries for p in parts]),
        )

    def __len__(self) -> int:
        return self.n_rows

    def __repr__(self) -> str:
        labels = ", no labels" if self.y is None else ""
        return f"RankingData({self.n_rows} rows, {self.n_queries} queries, {self.n_features} features{labels})"


def refuse_beside_data(what: str, **given: Any) -> None:
    """Refuse arguments that a RankingData contains itself: they would be ignored, or contradict it."""
    names = [name for name, value in given.items() if value is not None]
    if names:
        raise ValueError(
            f"{what}: got {', '.join(names)} together with a RankingData, which has its own labels and weights. "
            "Leave them out, or make the data with them: RankingData.from_arrays(X, y, qid, ...)."
        )


def as_features(X: Any, names: Sequence[str] | None = None, stacklevel: int | None = None) -> FeatureMatrix:
    """A C-ordered float32 matrix, NaN for missing; anything that is no finite number or NaN is refused by place.

    A sparse one stays sparse. With a `stacklevel`, columns with numbers that float32 merges are warned of, by name.
    """
    if is_sparse(X):
        sparse = as_sparse(X)
        _warn_of_merged(X, names, stacklevel)
        return sparse
    matrix = np.asarray(X)
    if matrix.ndim != 2:
        raise ValueError(f"X must have two dimensions (rows, features); got shape {matrix.shape}.")
    if matrix.dtype.kind == "c":
        raise ValueError("X holds complex numbers; expected real ones.")
    with np.errstate(over="ignore"):
        try:
            result = np.ascontiguousarray(matrix, dtype=np.float32)
        except (TypeError, ValueError) as error:
            raise ValueError(f"X must hold numbers; {error}.") from error
    large = columns_where(np.isinf if keeps_all(matrix.dtype) else is_large, result)  # one pass for all that is asked
    infinite = np.argwhere(np.isinf(result[:, large])) if len(large) else large
    if len(infinite):
        row, column = int(infinite[0, 0]), int(large[infinite[0, 1]])
        raise ValueError(
            f"X[{row}, {column}] is {matrix[row, column]}; features must be finite as float32, or NaN for missing."
        )
    _warn_of_merged(matrix, names, stacklevel, large)
    return result


def _warn_of_merged(
    X: Any, names: Sequence[str] | None, stacklevel: int | None, columns: np.ndarray | None = None
) -> None:
    if stacklevel is None:
        return
    called = list(range(X.shape[1])) if names is None or len(names) != X.shape[1] else list(names)
    warn_of_merged({called[column]: pair for column, pair in merged_columns(X, columns).items()}, stacklevel + 2)


def as_labels(y: Any, n: int) -> np.ndarray:
    """One finite float64 per row, 0 or larger."""
    labels = _as_numbers(y, "y", n, "row")
    if not (labels.min(initial=0.0) >= 0 and labels.max(initial=0.0) < np.inf):  # NaN fails both
        row = int(np.flatnonzero(~(np.isfinite(labels) & (labels >= 0)))[0])
        raise ValueError(f"y[{row}] is {labels[row]}; labels must be finite numbers, 0 or larger.")
    return labels


def as_weights(weights: Any, n: int, name: str, unit: str) -> np.ndarray:
    result = _as_numbers(weights, name, n, unit)
    bad = ~(np.isfinite(result) & (result >= 0))
    if bad.any():
        place = int(np.flatnonzero(bad)[0])
        raise ValueError(f"{name}[{place}] is {result[place]}; weights must be finite numbers, 0 or larger.")
    if n and not result.any():
        raise ValueError(f"{name} is zero everywhere, so nothing would count; at least one {unit} needs a weight.")
    return result


def as_feature_names(names: Sequence[str] | None, n_features: int) -> tuple[str, ...] | None:
    if names is None:
        return None
    names = tuple(str(name) for name in names)
    if len(names) != n_features:
        raise ValueError(f"feature_names has {len(names)} entries, X has {n_features} columns.")
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"feature_names has {twice!r} more than once; names must differ.")
    return names


def as_query_ids(qid: Any, group: Any, n: int) -> np.ndarray:
    """One id per row, as int64, uint64 or Python strings; ids that differ stay different."""
    if qid is not None and group is not None:
        raise ValueError("Give qid (one id per row) or group (sizes), not both.")
    if group is not None:
        return _ids_from_sizes(group, n)
    if qid is None:
        raise ValueError("qid is missing: pass one query id per row, or group= with the number of rows of each query.")
    ids = _ids_array(qid)
    if ids.ndim != 1:
        raise ValueError(f"qid must have one dimension; got shape {ids.shape}.")
    if len(ids) != n:
        hint = " Did you pass group sizes as qid? Use group= for those." if _look_like_sizes(ids, n) else ""
        raise ValueError(f"qid has {len(ids)} entries, X has {n} rows.{hint}")
    return ids


def group_rows(ids: np.ndarray) -> tuple[np.ndarray | None, np.ndarray, np.ndarray]:
    """Group equal ids: (order of rows or None when already grouped, offsets, ids of the queries).

    Queries keep the order of first appearance: [7, 7, 3, 7] -> order [0, 1, 3, 2], offsets [0, 3, 4], ids [7, 3].
    """
    n = len(ids)
    if n == 0:
        return None, np.zeros(1, np.int64), ids
    starts = np.flatnonzero(np.concatenate([[True], ids[1:] != ids[:-1]]))
    codes, query_ids = _codes(ids[starts])
    lengths = np.diff(np.append(starts, n))
    if len(query_ids) == len(starts):
        return None, _offsets(lengths), query_ids
    row_codes = np.repeat(codes, lengths)
    return np.argsort(row_codes, kind="stable"), _offsets(np.bincount(row_codes)), query_ids


def _codes(ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Number distinct ids by first appearance: ["b", "a", "b"] -> ([0, 1, 0], ["b", "a"])."""
    if ids.dtype == object:
        number: dict[Any, int] = {}
        codes = np.fromiter((number.setdefault(name, len(number)) for name in ids), np.int64, len(ids))
        distinct = np.empty(len(number), dtype=object)
        distinct[:] = list(number)
        return codes, distinct
    values, first, inverse = np.unique(ids, return_index=True, return_inverse=True)
    by_appearance = np.argsort(first)
    rank = np.empty(len(values), dtype=np.int64)
    rank[by_appearance] = np.arange(len(values))
    return rank[inverse], values[by_appearance]


def _ids_array(qid: Any) -> np.ndarray:
    if isinstance(qid, (list, tuple)):  # numpy would turn [1, "1"] into two equal texts and 2**63 into a float
        array = np.empty(len(qid), dtype=object)
        array[:] = qid
    else:
        array = np.asarray(qid)
    if array.dtype.kind == "O":
        return _ids_from_objects(array)
    if array.dtype.kind in "US":
        if array.dtype.kind == "S":
            array = np.char.decode(array, "utf-8")
        return array.astype(object)
    if array.dtype.kind in "biu":
        return array.astype(np.uint64 if array.dtype.kind == "u" else np.int64, copy=False)
    if array.dtype.kind == "f":
        return _ids_from_floats(array)
    raise ValueError(f"qid must hold integers or text; got {array.dtype}.")


def _ids_from_objects(array: np.ndarray) -> np.ndarray:
    for row, value in enumerate(array):
        if value is None or value != value:
            raise ValueError(f"qid[{row}] is missing ({value!r}); every row needs a query id.")
    kinds = {type(value) for value in array}
    if all(issubclass(kind, str) for kind in kinds):
        return array
    if all(issubclass(kind, (int, np.integer)) for kind in kinds):
        low, high = min(array, default=0), max(array, default=0)
        if low >= -(2**63) and high < 2**63:
            return array.astype(np.int64)
        if low >= 0 and high < 2**64:
            return array.astype(np.uint64)
        return _filled([str(value) for value in array])
    if all(issubclass(kind, (float, int, np.integer, np.floating)) for kind in kinds):
        return _ids_from_floats(array.astype(np.float64))
    names = sorted(kind.__name__ for kind in kinds)
    raise ValueError(f"qid must hold integers or text, not a mix; got {', '.join(names)}.")


def _ids_from_floats(array: np.ndarray) -> np.ndarray:
    bad = ~(np.isfinite(array) & (array == np.floor(array)) & (np.abs(array) < 2.0**53))
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise ValueError(
            f"qid[{row}] is {array[row]}; as floating point, ids must be integers below 2**53 "
            "(larger ones may have merged already). Pass integers or text."
        )
    return array.astype(np.int64)


def _ids_from_sizes(group: Any, n: int) -> np.ndarray:
    sizes = np.asarray(group)
    if sizes.ndim != 1 or (sizes.dtype.kind not in "iu" and not np.array_equal(sizes, np.floor(sizes))):
        raise ValueError("group must be a list of integers, the number of rows of each query.")
    if len(sizes) and sizes.min() <= 0:
        place = int(np.flatnonzero(sizes <= 0)[0])
        raise ValueError(f"group[{place}] = {sizes[place]}; sizes must be positive.")
    if sum(sizes.tolist()) != n:
        raise ValueError(f"group sizes add up to {sum(sizes.tolist())}, X has {n} rows.")
    return np.repeat(np.arange(len(sizes), dtype=np.int64), sizes.astype(np.int64))


def _look_like_sizes(ids: np.ndarray, n: int) -> bool:
    return ids.dtype != object and len(ids) > 0 and sum(ids.tolist()) == n


def _as_numbers(values: Any, name: str, n: int, unit: str) -> np.ndarray:
    try:
        array = np.asarray(values)
        if array.dtype.kind == "c":
            raise ValueError("complex numbers have no order")
        array = np.ascontiguousarray(array, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must hold one number per {unit}; {error}.") from error
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise ValueError(f"{name} must have one dimension; got shape {array.shape}.")
    if len(array) != n:
        plural = "queries" if unit == "query" else f"{unit}s"
        raise ValueError(f"{name} has {len(array)} entries, the data has {n} {plural}.")
    return array


def _as_strings(values: Any, name: str, n: int) -> list[str]:
    strings = [str(value) for value in values]
    if len(strings) != n:
        raise ValueError(f"{name} has {len(strings)} entries, the data has {n} rows.")
    return strings


def _offsets(lengths: np.ndarray) -> np.ndarray:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)])


def _filled(values: list[Any]) -> np.ndarray:
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def _refuse_unlike_parts(parts: Sequence[RankingData]) -> None:
    first = parts[0]
    owner: dict[str, int] = {}
    for number, part in enumerate(parts):
        if part.n_features != first.n_features:
            raise ValueError(
                f"part {number} has {part.n_features} features, part 0 has {first.n_features}; all must be alike."
            )
        if (part.y is None) != (first.y is None):
            has, had = ("no labels", "some") if part.y is None else ("labels", "none")
            raise ValueError(f"part {number} has {has}, part 0 has {had}; all must be alike.")
        if part.feature_names != first.feature_names:
            raise ValueError(f"part {number} has other feature names than part 0; all must be alike.")
        for name in map(str, part.query_ids):
            if name in owner:
                raise ValueError(
                    f"query {name!r} is in part {owner[name]} and in part {number}; a query must be in one part."
                )
            owner[name] = number


def _concat_features(parts: Sequence[FeatureMatrix]) -> FeatureMatrix:
    """One sparse part makes all sparse."""
    if not any(map(is_sparse, parts)):
        return np.concatenate(parts)
    from scipy.sparse import csr_array, vstack

    return vstack([csr_array(part) for part in parts], format="csr")


def _concat_ids(ids: Sequence[np.ndarray]) -> np.ndarray:
    if len({part.dtype for part in ids}) == 1:
        return np.concatenate(ids)
    if all(part.dtype != object for part in ids):  # int64 and uint64
        return _ids_from_objects(_filled([value for part in ids for value in part.tolist()]))
    return _filled([str(value) for part in ids for value in part])  # numbers and text meet as text


def _concat_texts(texts: Sequence[Texts | None], parts: Sequence[RankingData]) -> Texts | None:
    if all(part is None for part in texts):
        return None
    return Texts.concat([Texts.of([""] * data.n_rows) if part is None else part for part, data in zip(texts, parts)])


def _concat_weights(weights: Sequence[np.ndarray | None], lengths: Sequence[int]) -> np.ndarray | None:
    if all(part is None for part in weights):
        return None
    return np.concatenate([np.ones(n) if part is None else part for part, n in zip(weights, lengths)])
