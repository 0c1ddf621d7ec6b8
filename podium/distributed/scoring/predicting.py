"""Predicting: the scores of a Dask DataFrame or array, partition by partition, with the bits of `model.predict`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

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
from podium.distributed.scoring.parts import (
    delayed_parts,
    distinct_per_part,
    is_array,
    is_frame,
    refuse_others,
    require_dask,
    same_partitions,
)
from podium.distributed.scoring.queries import SOURCE, Owners, Rows, gather, returned
from podium.distributed.scoring.sending import SentModel
from podium.formats.frames import no_column
from podium.models.frame.arguments import rows_for
from podium.models.frame.ranker import Ranker
from podium.models.frame.transforms import queries_by_id

_SCORE = "score"


def predict(model: Any, X: Any, qid: Any = None, *, features: Sequence[Any] | None = None) -> Any:
    """One score per row of a Dask DataFrame (a Series with its index) or a Dask array: the bits of `model.predict`.

    `model` is a fitted model, which travels once per worker as bytes, or the path of a model file that all workers can
    read, which travels as path and digest. The features of a DataFrame are found by their names, in any order, beside
    any other columns; `features` names them where the model was trained without names.

    Nothing is computed before the result is, but for models whose scores depend on the other documents of the query:
    these need `qid`, the name of a column or a collection of one id per row, which is computed at once to see which
    queries lie in several partitions; the rows of those queries are scored together.
    """
    require_dask()
    refuse_others(X, "X")
    sent = SentModel.of(model)
    loaded = sent.load()
    columns = _selected(loaded, X, features) if is_frame(X) else None
    if loaded.needs_queries():
        if qid is None:
            reason = loaded.reason_for_queries()
            raise ValueError(f"{type(loaded).__name__}: predict needs qid, one query id per row, because {reason}.")
        return _predict_queries(sent, X, _ids_of(X, qid), columns)
    if columns is None:
        return _rows_in_one_piece(X).map_blocks(
            _score_block, _in_graph(sent), drop_axis=1, dtype=np.float64, meta=np.empty(0)
        )
    return X[columns].map_partitions(_score_frame, _in_graph(sent), columns, meta=_meta())


def _selected(model: Ranker, X: Any, features: Sequence[Any] | None) -> list[Any]:
    columns = feature_names(model, features)
    refuse_other_columns(model, columns, list(X.columns))
    return columns


def _in_graph(sent: SentModel) -> Any:
    """The model as a task of its own, so that its bytes go to each worker once, not with every partition."""
    from dask import delayed

    name = f"podium-model-{sent.digest[:16]}-{'bytes' if sent.path is None else 'path'}"
    return delayed(SentModel)(sent.digest, sent.path, sent.content, dask_key_name=name)


def _meta() -> Any:
    import pandas

    return pandas.Series([], dtype=np.float64, name=_SCORE)


def _rows_in_one_piece(X: Any) -> Any:
    if X.ndim != 2:
        raise ValueError(f"X must have two dimensions, rows and features; got {X.ndim}.")
    return X if X.numblocks[1] == 1 else X.rechunk({1: -1})


# --- without queries


def _score_block(block: Any, sent: SentModel) -> Array:
    model = sent.load()
    return model.score_rows(_checked(model, block), None) if block.shape[0] else np.empty(0)


def _score_frame(part: Any, sent: SentModel, columns: Sequence[Any]) -> Any:
    import pandas

    model = sent.load()
    plain = _plain_columns(model, part, columns)
    if not len(part):
        scores = np.empty(0)
    elif plain is not None:
        scores = score_columns(model, plain, columns)
    else:
        scores = model.score_rows(_rows_of_frame(model, part, columns), None)
    return pandas.Series(scores, index=part.index, name=_SCORE)


def _plain_columns(model: Ranker, part: Any, columns: Sequence[Any]) -> list[Array] | None:
    if model.categories_ or not all(is_plain(part.dtypes[name]) for name in columns):
        return None
    return [part[name].to_numpy() for name in columns]


def _rows_of_frame(model: Ranker, part: Any, columns: Sequence[Any]) -> Any:
    plain = _plain_columns(model, part, columns)
    if plain is not None:
        return rows_of_columns(model, plain, columns)
    return general_rows(model, part[list(columns)])


def _checked(model: Ranker, X: Any) -> Any:
    rows = rows_for(model, X)
    model.refuse_unsupported(rows, "the rows", fitted=True)
    return rows


# --- with queries


def _ids_of(X: Any, qid: Any) -> Any:
    """One id per row as a collection."""
    if isinstance(qid, str) and is_frame(X):
        if qid not in X.columns:
            raise ValueError(no_column(qid, list(X.columns)))
        return X[qid]
    refuse_others(qid, "qid")
    return qid


def _predict_queries(sent: SentModel, X: Any, qid: Any, columns: list[Any] | None) -> Any:
    from dask import delayed

    X = X[columns] if columns is not None else _rows_in_one_piece(X)
    X_parts, ids = delayed_parts(X), delayed_parts(qid)
    same_partitions({"X": X_parts, "qid": ids})
    owners, model = Owners.of(distinct_per_part(ids)), _in_graph(sent)
    parts = [delayed(_query_rows)(part, one, model, columns) for part, one in zip(X_parts, ids)]
    answers = [delayed(_score_queries)(rows, model) for rows in gather(parts, owners)]
    scores = []
    for p, (part, rows, away) in enumerate(zip(X_parts, parts, owners.away)):
        wanted = {owner: answers[owner] for owner in {p, *away.values()}}
        values = delayed(_returned)(rows, away, p, wanted)
        scores.append(values if columns is None else delayed(_with_index)(values, part))
    return _as_collection(X, scores)


def _query_rows(part: Any, ids: Any, sent: SentModel, columns: Sequence[Any] | None) -> Rows:
    model = sent.load()
    n = part.shape[0]
    qid = as_query_ids(ids, None, n)
    if not n:
        return {"X": np.empty((0, model.n_features_in_), np.float32), "qid": qid}
    rows = _checked(model, part) if columns is None else _rows_of_frame(model, part, columns)
    return {"X": rows, "qid": qid}


def _score_queries(rows: Rows, sent: SentModel) -> tuple[Array, Array]:
    if not len(rows["qid"]):
        return np.empty(0), rows[SOURCE]
    return sent.load().score_rows(rows["X"], queries_by_id(rows["qid"])), rows[SOURCE]


def _returned(rows: Rows, away: dict[Any, int], partition: int, answers: dict[int, tuple[Array, Array]]) -> Array:
    return returned(rows["qid"], away, partition, answers)


def _with_index(scores: Array, part: Any) -> Any:
    import pandas

    return pandas.Series(scores, index=part.index, name=_SCORE)


def _as_collection(X: Any, scores: list[Any]) -> Any:
    if is_array(X):
        import dask.array

        lengths = X.chunks[0]
        parts = [
            dask.array.from_delayed(part, (length,), np.float64, meta=np.empty(0))
            for part, length in zip(scores, lengths)
        ]
        return dask.array.concatenate(parts, allow_unknown_chunksizes=True)
    import dask.dataframe

    return dask.dataframe.from_delayed(scores, meta=_meta(), divisions=X.divisions if X.known_divisions else None)
