"""RankingData: the documents of many queries, each a row of features, with or without labels.

Rows stay in the order in which they were given. Query q owns the rows `rows[offsets[q]:offsets[q + 1]]`, in their
order; queries are numbered by first appearance. Kernels need the rows of a query to be contiguous: `grouped()`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from podium._runtime.compiler import Array, readonly
from podium._runtime.once import once
from podium._runtime.words import counted
from podium.data.categories import Categories, check_categories, recode, united
from podium.data.joining import concat_features, concat_scores, concat_texts, concat_weights, refuse_unlike_parts
from podium.data.precision import columns_where, is_large, keeps_all, merged_columns, warn_of_merged
from podium.data.query_ids import as_query_ids, concat_ids, group_rows, offsets_of
from podium.data.sparse import FeatureMatrix, as_dense, as_sparse, is_sparse
from podium.data.splitting import letor_rotation, named_parts
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
    y: Array | None  # (rows,) float64, finite and not negative; None: no labels
    offsets: Array  # (queries + 1,) int64
    query_ids: Array  # (queries,) int64, uint64 or str (object)
    rows: Array  # (rows,) int64: the rows of query 0, then those of query 1, ...; 0, 1, 2, ... if contiguous
    docid_texts: Texts | None = None
    comment_texts: Texts | None = None  # the text after `#` of a LETOR file, whole
    feature_names: tuple[str, ...] | None = None
    sample_weight: Array | None = None  # (rows,) float64
    query_weight: Array | None = None  # (queries,) float64
    categories: Categories | None = None  # of features that hold places in a list of names: that list, by feature
    init_score: Array | None = None  # (rows,) float64: what training starts from, and scores have no part of

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
        categories: Categories | None = None,
        init_score: Any = None,
    ) -> Self:
        """Create ranking data from arrays: one query id per row in any order, or `group` sizes as in LightGBM.

        Without y the data has no labels: it can be ranked, but not trained on or evaluated. X may be any scipy sparse
        matrix, and stays sparse: entries that are not stored are 0, a stored NaN is missing.
        `sample_weight` has one weight per row, `query_weight` one per query, in order of first appearance.
        `categories` has the names of a feature whose values are their places, `{"colour": ["blue", "red"]}` for 0 and
        1. `init_score` has one score per row that training starts from, as in LightGBM.
        """
        X = as_features(X, feature_names, warns=True)
        n = X.shape[0]
        y = None if y is None else as_labels(y, n)
        order, offsets, query_ids = group_rows(as_query_ids(qid, group, n))
        if docids is not None:
            docids = _as_texts(docids, "docids", n)
        if sample_weight is not None:
            sample_weight = as_weights(sample_weight, n, "sample_weight", "row")
        if query_weight is not None:
            query_weight = as_weights(query_weight, len(query_ids), "query_weight", "query")
        feature_names = as_feature_names(feature_names, X.shape[1])
        return cls(
            X,
            y,
            offsets,
            query_ids,
            np.arange(n, dtype=np.int64) if order is None else order,
            docid_texts=docids,
            feature_names=feature_names,
            sample_weight=sample_weight,
            query_weight=query_weight,
            categories=check_categories(categories, X, feature_names),
            init_score=None if init_score is None else as_init_score(init_score, n),
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
        drop: Sequence[str] = (),
        categorical: Sequence[str] = (),
    ) -> Self:
        """Create ranking data from a pandas, polars or pyarrow table; columns not named here are features.

        With `label=None` the data has no labels, and a column that is called "label" is left out, as those of `drop`
        are. Features of a categorical type and those of text hold categories, and so do those in `categorical`, which
        may be numbers; text that is in part numbers must be listed there.
        """
        from podium.formats.frames import ColumnNames, arrays_from_frame

        asked = ColumnNames(
            label, qid, docid, features, sample_weight, query_weight, drop=drop, categorical=categorical
        )
        return cls.from_arrays(**arrays_from_frame(frame, asked))

    def to_frame(self, backend: str = "pandas") -> Any:
        """A table with columns label and docid (if known), qid and one per feature: `pandas`, `polars` or `pyarrow`."""
        from podium.formats.frames import frame_from_data

        return frame_from_data(self, backend)

    def to_dense(self) -> Self:
        """The same data with sparse features written out, zeros and all."""
        return replace(self, X=as_dense(self.X)) if is_sparse(self.X) else self

    def labels_for(self, what: str) -> Array:
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
    def group(self) -> Array:
        """Documents per query, as `group` in LightGBM."""
        return np.diff(self.offsets)

    @once
    def is_contiguous(self) -> bool:
        """Whether the rows of each query are contiguous, the queries in their order."""
        return not len(self.rows) or bool(self.rows[0] == 0 and (np.diff(self.rows) == 1).all())

    @once
    def query_numbers(self) -> Array:
        """(rows,) int64: the number of each row's query, counted from 0 by first appearance."""
        return readonly(self.scatter(np.repeat(np.arange(self.n_queries), self.group)))

    @once
    def qid(self) -> Array:
        """One query id per row."""
        return readonly(self.scatter(np.repeat(self.query_ids, self.group)))

    @once
    def docids(self) -> Array | None:
        """One document id per row (dtype object), or None when the input has none."""
        return None if self.docid_texts is None else readonly(self.docid_texts.to_array())

    def grouped(self) -> Self:
        """The same data with the rows of each query contiguous: itself, without a copy, if they are already.

        Row k of it is row `rows[k]` of this one.
        """
        return self if self.is_contiguous else self._take(self.rows, rows=np.arange(self.n_rows))

    def scatter(self, values: Array) -> Array:
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
        offsets = offsets_of(lengths)
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

    def _take(self, taken: Array, **others: Any) -> Self:
        """What belongs to single rows, of the rows `taken`; `others` has what else is different."""
        return replace(
            self,
            X=self.X[taken],
            y=None if self.y is None else self.y[taken],
            docid_texts=None if self.docid_texts is None else self.docid_texts.take(taken),
            comment_texts=None if self.comment_texts is None else self.comment_texts.take(taken),
            sample_weight=None if self.sample_weight is None else self.sample_weight[taken],
            init_score=None if self.init_score is None else self.init_score[taken],
            **others,
        )

    def folds(self, k: int = 5, seed: int = 0) -> Iterator[tuple[Self, Self]]:
        """k pairs (training, test): whole queries, shuffled by the seed, each query in one test part."""
        if not 2 <= k <= self.n_queries:
            raise ValueError(f"k must be from 2 to the number of queries ({self.n_queries}); got {k}.")
        part = np.random.default_rng(seed).permutation(np.arange(self.n_queries) % k)
        for fold in range(k):
            yield self.subset(part != fold), self.subset(part == fold)

    def split(self, parts: Mapping[str, float], seed: int = 0) -> dict[str, Self]:
        """Parts by name: whole queries, drawn by the seed, in shares such as {"train": 0.8, "valid": 0.2}.

        Where the shares add up to less than 1, the other queries are in no part.
        """
        numbers = named_parts(self.n_queries, parts, seed)
        return {name: self.subset(numbers == number) for number, name in enumerate(parts)}

    def letor_folds(self, k: int = 5, seed: int = 0) -> Iterator[tuple[Self, Self, Self]]:
        """k triples (training, validation, test) as LETOR has them: k parts in turn, each a test part once."""
        for train, valid, test in letor_rotation(self.n_queries, k, seed):
            yield self.subset(train), self.subset(valid), self.subset(test)

    @classmethod
    def concat(cls, parts: Sequence[RankingData], names: Sequence[str] | None = None) -> Self:
        """Concatenate data sets, rows in order.

        They must have the same features and share no query, and have labels all or none of them. Each may have
        categories that others do not have. `names` are what the parts are called in errors.
        """
        if not parts:
            raise ValueError("concat needs at least one data set; got none.")
        called = [f"part {number}" for number in range(1, len(parts) + 1)] if names is None else names
        refuse_unlike_parts(parts, called)
        categories = united([part.categories for part in parts])
        starts = np.cumsum([0, *(part.n_rows for part in parts)])
        return cls(
            concat_features([part.features_in(categories, one, "another part") for one, part in zip(called, parts)]),
            None if parts[0].y is None else np.concatenate([part.labels_for("concat") for part in parts]),
            offsets_of(np.concatenate([part.group for part in parts])),
            concat_ids([part.query_ids for part in parts]),
            np.concatenate([part.rows + start for part, start in zip(parts, starts)]),
            docid_texts=concat_texts([part.docid_texts for part in parts], parts),
            comment_texts=concat_texts([part.comment_texts for part in parts], parts),
            feature_names=parts[0].feature_names,
            sample_weight=concat_weights([part.sample_weight for part in parts], [p.n_rows for p in parts]),
            query_weight=concat_weights([part.query_weight for part in parts], [p.n_queries for p in parts]),
            categories=categories or None,
            init_score=concat_scores(parts, called),
        )

    def features_in(self, known: Categories, where: str, whose: str) -> FeatureMatrix:
        """X with the numbers that `known` gives to categories; one that it does not have is missing, with a warning.

        `where` and `whose` are what this data, and those whose numbers are wanted, are called in messages.
        """
        return recode(self.X, self.feature_names, self.categories, known, where, whose)

    def __len__(self) -> int:
        return self.n_rows

    def __repr__(self) -> str:
        labels = ", no labels" if self.y is None else ""
        return f"RankingData({self.sizes}{labels})"

    def _repr_html_(self) -> str:
        """For notebooks."""
        from podium.data.preview import show_data

        return show_data(self)

    @property
    def sizes(self) -> str:
        """`"5 rows, 1 query, 2 features"`"""
        queries = counted(self.n_queries, "query", "queries")
        return f"{counted(self.n_rows, 'row')}, {queries}, {counted(self.n_features, 'feature')}"


def refuse_beside_data(what: str, **arguments: Any) -> None:
    """Refuse arguments that a RankingData contains itself: they would be ignored, or contradict it."""
    names = [name for name, value in arguments.items() if value is not None]
    if names:
        raise ValueError(
            f"{what}: got {', '.join(names)} together with a RankingData, which has its own labels and weights. "
            "Leave them out, or make the data with them: RankingData.from_arrays(X, y, qid, ...)."
        )


def as_features(X: Any, names: Sequence[str] | None = None, warns: bool = False) -> FeatureMatrix:
    """A C-ordered float32 matrix, NaN for missing; anything that is no finite number or NaN is refused by place.

    A sparse one stays sparse. `warns`: of columns with numbers that float32 merges, by name.
    """
    if is_sparse(X):
        sparse = as_sparse(X)
        if warns:
            _warn_of_merged(X, names)
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
    if warns:
        _warn_of_merged(matrix, names, large)
    return result


def _warn_of_merged(X: Any, names: Sequence[str] | None, columns: Array | None = None) -> None:
    called = list(range(X.shape[1])) if names is None or len(names) != X.shape[1] else list(names)
    warn_of_merged({called[column]: pair for column, pair in merged_columns(X, columns).items()})


def as_labels(y: Any, n: int) -> Array:
    """One finite float64 per row, 0 or larger."""
    labels = _as_numbers(y, "y", n, "row")
    if not (labels.min(initial=0.0) >= 0 and labels.max(initial=0.0) < np.inf):  # NaN fails both
        row = int(np.flatnonzero(~(np.isfinite(labels) & (labels >= 0)))[0])
        raise ValueError(f"y[{row}] is {labels[row]}; labels must be finite numbers, 0 or larger.")
    return labels


def as_weights(weights: Any, n: int, name: str, unit: str) -> Array:
    result = _as_numbers(weights, name, n, unit)
    bad = ~(np.isfinite(result) & (result >= 0))
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise ValueError(f"{name}[{row}] is {result[row]}; weights must be finite numbers, 0 or larger.")
    if n and not result.any():
        raise ValueError(f"{name} is zero everywhere, so nothing would count; at least one {unit} needs a weight.")
    return result


def as_init_score(scores: Any, n: int) -> Array:
    result = _as_numbers(scores, "init_score", n, "row")
    if not np.isfinite(result).all():
        row = int(np.flatnonzero(~np.isfinite(result))[0])
        raise ValueError(f"init_score[{row}] is {result[row]}; scores must be finite numbers.")
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


def _as_numbers(values: Any, name: str, n: int, unit: str) -> Array:
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


def _as_texts(values: Any, name: str, n: int) -> Texts:
    texts = values if isinstance(values, Texts) else Texts.of(str(value) for value in values)
    if len(texts) != n:
        raise ValueError(f"{name} has {len(texts)} entries, the data has {n} rows.")
    return texts
