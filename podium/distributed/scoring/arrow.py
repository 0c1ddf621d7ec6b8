"""Arrow: a function from record batches to record batches, for everything that hands those around, Spark's `mapInArrow`
first.

It is picklable and small: a model file travels as path and digest, a model in memory as its bytes (`sending.py`), and
each process loads it once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from podium._runtime.compiler import Array
from podium.data.query_ids import as_query_ids
from podium.distributed.scoring.columns import (
    feature_names,
    general_rows,
    is_plain,
    refuse_other_columns,
    rows_of_columns,
    score_columns,
)
from podium.distributed.scoring.sending import SentModel
from podium.formats.frames import no_column, optional_package
from podium.formats.names import warn_of_unknown
from podium.models.frame.ranker import Ranker
from podium.models.frame.transforms import queries_by_id

if TYPE_CHECKING:
    import pyarrow

_SCORE = "score"


def arrow_scorer(
    model: Any,
    *,
    keep: Sequence[str] | None = None,
    score: str = _SCORE,
    qid: str | None = None,
    features: Sequence[str] | None = None,
) -> ArrowScorer:
    """A picklable function that takes an iterator of Arrow record batches and yields them with a column of scores.

    `model` is the path of a model file that all processes can read, or a fitted model, which travels as bytes. The
    features are found by their names; `features` names them where the model was trained without names. `keep`: the
    columns that are handed on, in this order; None for all. `score`: the name of the column of scores, float64.

    A model whose scores depend on the other documents of the query needs `qid`, the column of query ids, and the rows
    of a query one after the other within one iterator.
    """
    optional_package("pyarrow")
    if isinstance(keep, str):
        raise TypeError(f"keep must be a list of columns, such as [{keep!r}]; got the text {keep!r}.")
    names = None if keep is None else tuple(keep)
    if names is not None and score in names:
        raise ValueError(f"keep has {score!r}, which is the name of the scores. Give them another: score='...'.")
    sent = SentModel.of(model)
    loaded = sent.load()
    if loaded.needs_queries() and qid is None:
        raise ValueError(
            f"{type(loaded).__name__} needs qid='...', the column of query ids, because {loaded.reason_for_queries()}."
        )
    feature_names(loaded, features)
    return ArrowScorer(sent, names, score, qid, None if features is None else tuple(features))


@dataclass(frozen=True)
class ArrowScorer:
    """What `arrow_scorer` returns."""

    sent: SentModel
    keep: tuple[str, ...] | None
    score: str
    qid: str | None
    features: tuple[str, ...] | None

    def __call__(self, batches: Iterable[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        """The batches with their scores; with queries to be kept whole, the same rows in other batches."""
        model = self.sent.load()
        if model.needs_queries():
            assert self.qid is not None
            batches = whole_queries(batches, self.qid)
        for batch in batches:
            yield self._scored(model, batch)

    @property
    def columns(self) -> list[str]:
        """The columns that are read, for readers of files that have others too."""
        model = self.sent.load()
        ids = [self.qid] if self.qid is not None and model.needs_queries() else []
        return list(dict.fromkeys([*(self.keep or ()), *ids, *feature_names(model, self.features)]))

    def _scored(self, model: Ranker, batch: pyarrow.RecordBatch) -> pyarrow.RecordBatch:
        import pyarrow

        columns = {name: _column(batch, name) for name in self._kept(batch)}
        scores = pyarrow.array(self._scores(model, batch), type=pyarrow.float64())
        fields = [batch.schema.field(name) for name in columns]
        schema = pyarrow.schema([*fields, pyarrow.field(self.score, pyarrow.float64())], batch.schema.metadata)
        return pyarrow.record_batch([*columns.values(), scores], schema=schema)

    def _kept(self, batch: pyarrow.RecordBatch) -> Sequence[str]:
        names: Sequence[str] = batch.schema.names if self.keep is None else self.keep
        if self.score in names:
            raise ValueError(
                f"the batches have a column {self.score!r} already. Name the scores otherwise (score='...'), or say "
                "which columns to keep (keep=[...])."
            )
        if len(set(names)) < len(names):
            raise ValueError(f"two columns have the same name; found: {', '.join(names)}. Rename one.")
        return names

    def _scores(self, model: Ranker, batch: pyarrow.RecordBatch) -> Array:
        names = feature_names(model, self.features)
        refuse_other_columns(model, names, batch.schema.names)
        if not batch.num_rows:
            return np.empty(0)
        columns = _plain_columns(model, batch, names)
        if not model.needs_queries() and columns is not None:
            return score_columns(model, columns, names)
        rows = general_rows(model, _table(batch, names)) if columns is None else rows_of_columns(model, columns, names)
        if not model.needs_queries():
            return model.score_rows(rows, None)
        ids = as_query_ids(_ids(_column(batch, self.qid or "")), None, len(rows))
        return model.score_rows(rows, queries_by_id(ids))


def whole_queries(batches: Iterable[pyarrow.RecordBatch], qid: str) -> Iterator[pyarrow.RecordBatch]:
    """The same rows in batches that end where a query ends; a query whose rows come back later is refused."""
    import pyarrow

    waiting: list[pyarrow.RecordBatch] = []  # of the query that may go on
    ended: set[Any] = set()
    last: Any = None
    for batch in batches:
        if not batch.num_rows:
            continue
        ids = as_query_ids(_ids(_column(batch, qid)), None, batch.num_rows)
        starts = np.flatnonzero(np.concatenate([[not waiting or ids[0] != last], ids[1:] != ids[:-1]]))
        begun = ids[starts].tolist()
        for query in begun:
            if query in ended:
                raise ValueError(
                    f"query {query!r} comes back after the rows of others, and its scores depend on all of its rows. "
                    f"Sort the rows of each partition by {qid!r}."
                )
            ended.add(query)
        last = ids[-1]
        if len(starts):
            whole = [*waiting, batch.slice(0, starts[-1])]
            waiting = []
            if sum(part.num_rows for part in whole):
                yield pyarrow.concat_batches(whole)
            batch = batch.slice(starts[-1])
        waiting.append(batch)
    if waiting:
        yield pyarrow.concat_batches(waiting)


def _column(batch: pyarrow.RecordBatch, name: str) -> pyarrow.Array:
    if name not in batch.schema.names:
        raise ValueError(no_column(name, batch.schema.names))
    return batch.column(name)


def _ids(column: pyarrow.Array) -> Any:
    if column.null_count:
        row = int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
        raise ValueError(f"a query id is missing in row {row + 1} of the batch; every row needs one.")
    values = column.to_numpy(zero_copy_only=False)
    return values.tolist() if values.dtype.kind == "O" else values


def _plain_columns(model: Ranker, batch: pyarrow.RecordBatch, names: Sequence[str]) -> list[Array] | None:
    """The features as arrays of numbers; None where there is something that only a general reader knows."""
    if model.categories_ and not hasattr(model, "feature_names_in_"):  # categories of an array, by place
        return None
    columns = []
    for name in names:
        column, known = batch.column(name), model.categories_.get(name)
        values = _numbers(column) if known is None else _places(column, name, known)
        if values is None:
            return None
        columns.append(values)
    return columns


def _numbers(column: pyarrow.Array) -> Array | None:
    """Without a copy where nothing is missing; null becomes NaN."""
    from pyarrow import types

    if types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if not (types.is_floating(column.type) or types.is_integer(column.type) or types.is_boolean(column.type)):
        return np.full(len(column), np.nan) if types.is_null(column.type) else None
    if column.null_count and types.is_boolean(column.type):
        return None
    values: Array = column.to_numpy(zero_copy_only=False)
    return values if is_plain(values.dtype) else None


def _places(column: pyarrow.Array, name: str, known: Sequence[Any]) -> Array | None:
    """Names as the numbers that the model gives them: one search per distinct name, not per row."""
    from pyarrow import types

    if not types.is_dictionary(column.type):
        column = column.dictionary_encode()
    if types.is_nested(column.type.value_type):
        return None
    numbers = {value: float(number) for number, value in enumerate(known)}
    names = column.dictionary.to_pylist()
    places = np.array([*(numbers.get(value, np.nan) for value in names), np.nan])  # null comes last
    codes = column.indices.cast("int64").fill_null(len(names)).to_numpy(zero_copy_only=False)
    values: Array = places[codes]
    missing = np.isnan(values)
    if missing.any():
        is_null = np.array([*(value is None or value != value for value in names), True])
        warn_of_unknown(missing & ~is_null[codes], missing, f"column {name!r}")
    return values


def _table(batch: pyarrow.RecordBatch, names: Sequence[str]) -> pyarrow.Table:
    import pyarrow

    return pyarrow.Table.from_batches([batch.select(list(names))])
