"""Bodies: a request as rows of features, and scores as an answer, in JSON, raw float32 or Arrow.

A matrix is checked here and by nothing else: float32, in C order, as many columns as the model has features, null or
NaN for a missing value, nothing infinite. Numbers are those that `predict` would see, so that scores have the same
bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson

from podium.formats.decimals import PADDING, power_table
from podium.server.errors import Refusal, unknown, wrong
from podium.server.http.kernels import read_matrix

if TYPE_CHECKING:
    from podium.server.versions.version import Version

JSON, RAW, ARROW = "application/json", "application/octet-stream", "application/vnd.apache.arrow.stream"
_KEYS = ("features", "ids", "user", "query")
_LONGEST_TEXT = 1_000  # characters of an id, a user or a query
_STARTS = (b'{"features":', b'{"features" :', b'{ "features":')
_SINGLE_BYTES = 4


@dataclass(frozen=True, eq=False)
class RankRequest:
    """The documents of one query."""

    rows: np.ndarray  # (documents, features) float32
    ids: list[Any] | None = None  # of the documents, as the caller has them
    user: str | None = None  # a session: who is answered by a canary once is so always
    query: str | None = None  # what was asked, for the log


def read_request(kind: str, body: bytes, version: Version, most_rows: int) -> RankRequest:
    """The request in a body of this content type."""
    reader = _READERS.get(kind)
    if reader is None:
        raise Refusal(415, f"content-type: expected {JSON}, {RAW} or {ARROW}; got {kind!r}.", "content-type", JSON)
    if not body:
        raise Refusal(400, "body: expected documents; got nothing.", "body", "documents")
    request = reader(body, version, most_rows)
    if not len(request.rows):
        raise wrong("features", "at least one document", [])
    if np.isinf(request.rows).any():
        row, column = np.argwhere(np.isinf(request.rows))[0].tolist()
        expected = f"a number within float32, up to {np.finfo(np.float32).max:.4g}"
        raise wrong(f"features[{row}][{column}]", expected, float(request.rows[row, column]))
    return request


def _read_json(body: bytes, version: Version, most_rows: int) -> RankRequest:
    rows, rest = _plain_matrix(body, version.n_features, most_rows)
    values = _object(rest)
    if rows is None:
        if "features" not in values:
            raise wrong("features", "a list with one list of numbers per document", None)
        rows = _matrix(values["features"], version, most_rows)
    elif values["features"] is not None:
        raise Refusal(400, "features: given twice. Give it once.", "features", "one list")
    for name in values:
        if name not in _KEYS:
            raise unknown(name, "field", name, _KEYS)
    ids = values.get("ids")
    if ids is not None:
        _check_ids(ids, len(rows))
    return RankRequest(rows, ids, _text(values, "user"), _text(values, "query"))


def _object(body: bytes) -> dict[str, Any]:
    try:
        values = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise Refusal(400, f"body: expected JSON; {error.msg} at {where}.", "body", "JSON") from None
    if not isinstance(values, dict):
        raise wrong("body", 'an object such as {"features": [[...]]}', values)
    return values


def _plain_matrix(body: bytes, n_features: int, most_rows: int) -> tuple[np.ndarray | None, bytes]:
    """The matrix, where it comes first and is plain, and the body without it; else None, and the body."""
    start = next((len(text) for text in _STARTS if body.startswith(text)), None)
    if start is None:
        return None, body
    text = np.zeros(len(body) + PADDING, np.uint8)
    text[: len(body)] = np.frombuffer(body, np.uint8)
    most = min(most_rows, body.count(b"["))  # a row begins with a bracket
    X = np.empty((most, n_features), np.float32)
    n_rows, end = read_matrix(text, start, len(body), power_table(), X)
    if n_rows < 0:
        return None, body
    return X[:n_rows], b'{"features":null' + body[end:]


def _matrix(values: Any, version: Version, most_rows: int) -> np.ndarray:
    """Lists as a matrix, each cell looked at; names of categories as their numbers."""
    if not isinstance(values, list):
        raise wrong("features", "a list with one list of numbers per document", values)
    _check_rows(len(values), most_rows)
    expected = f"{version.n_features:,} numbers, one per feature of the model"
    rows = np.empty((len(values), version.n_features), np.float64)
    for number, row in enumerate(values):
        if not isinstance(row, list) or len(row) != version.n_features:
            value = f"{len(row):,}" if isinstance(row, list) else repr(row)[:60]
            raise Refusal(
                400, f"features[{number}]: expected {expected}; got {value}.", f"features[{number}]", expected
            )
        for column, value in enumerate(row):
            rows[number, column] = _cell(value, number, column, version.categories)
    with np.errstate(over="ignore"):
        return rows.astype(np.float32)


def _cell(value: Any, row: int, column: int, categories: Mapping[int, Mapping[Any, float]]) -> float:
    known = categories.get(column)
    if known is not None and isinstance(value, str):
        return known.get(value, math.nan)
    if value is None:
        return math.nan
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        kinds = "a number, null for a missing value" + ("" if known is None else ", or the name of a category")
        raise wrong(f"features[{row}][{column}]", kinds, value)
    return float(value) if abs(value) < 1e300 else math.inf


def _check_rows(rows: int, most_rows: int) -> None:
    if rows > most_rows:
        message = f"features: expected at most {most_rows:,} documents; got {rows:,}. Send several requests."
        raise Refusal(413, message, "features", f"at most {most_rows:,} documents")


def _check_ids(ids: Any, n_rows: int) -> None:
    expected = f"a list of {n_rows:,} texts or integers, one per document"
    if not isinstance(ids, list) or len(ids) != n_rows:
        raise wrong("ids", expected, ids)
    for number, one in enumerate(ids):
        if isinstance(one, bool) or not isinstance(one, (str, int)) or (isinstance(one, str) and len(one) > 1_000):
            raise wrong(f"ids[{number}]", "a text of at most 1,000 characters or an integer", one)


def _text(values: Mapping[str, Any], name: str) -> str | None:
    value = values.get(name)
    if value is not None and (not isinstance(value, str) or len(value) > _LONGEST_TEXT):
        raise wrong(name, f"a text of at most {_LONGEST_TEXT:,} characters", value)
    return value


def _read_raw(body: bytes, version: Version, most_rows: int) -> RankRequest:
    row_bytes = _SINGLE_BYTES * version.n_features
    if len(body) % row_bytes:
        expected = f"a multiple of {row_bytes:,} bytes, {version.n_features:,} little-endian float32 per document"
        raise Refusal(400, f"body: expected {expected}; got {len(body):,} bytes.", "body", expected)
    _check_rows(len(body) // row_bytes, most_rows)
    rows = np.frombuffer(body, "<f4").reshape(-1, version.n_features)
    return RankRequest(rows.astype(np.float32))  # a copy: kernels are compiled for arrays that can be written


def _read_arrow(body: bytes, version: Version, most_rows: int) -> RankRequest:
    try:
        import pyarrow
    except ImportError:
        advice = 'The service needs pyarrow to read Arrow: pip install "podium[arrow]"'
        raise Refusal(415, f"content-type: {ARROW} is not read here. {advice}", "content-type", JSON) from None
    try:
        with pyarrow.ipc.open_stream(body) as stream:
            table = stream.read_all()
    except (pyarrow.ArrowInvalid, OSError, ValueError) as error:
        raise Refusal(400, f"body: expected an Arrow stream; {error}.", "body", "an Arrow stream") from None
    _check_rows(table.num_rows, most_rows)
    names = [name for name in table.column_names if name != "id"]
    columns = list(version.names) if set(names) == set(version.names) else names
    if len(columns) != version.n_features:
        expected = f"{version.n_features:,} columns, one per feature of the model"
        raise wrong("body", expected, len(columns))
    rows = np.empty((table.num_rows, len(columns)), np.float64)
    for number, name in enumerate(columns):
        rows[:, number] = _arrow_column(table.column(name), name, version.categories.get(number))
    ids = table.column("id").to_pylist() if "id" in table.column_names else None
    if ids is not None:
        _check_ids(ids, len(rows))
    with np.errstate(over="ignore"):
        return RankRequest(rows.astype(np.float32), ids)


def _arrow_column(column: Any, name: str, known: Mapping[Any, float] | None) -> Any:
    import pyarrow

    if known is not None and not (pyarrow.types.is_integer(column.type) or pyarrow.types.is_floating(column.type)):
        return [known.get(value, math.nan) for value in column.to_pylist()]
    if not (pyarrow.types.is_integer(column.type) or pyarrow.types.is_floating(column.type)):
        raise wrong(f"column {name}", "numbers", str(column.type))
    return column.cast(pyarrow.float64()).to_numpy()  # null becomes NaN


_READERS: Mapping[str, Callable[[bytes, Any, int], RankRequest]] = {
    JSON: _read_json,
    RAW: _read_raw,
    ARROW: _read_arrow,
}


def ranked_json(facts: Mapping[str, Any], scores: np.ndarray, order: np.ndarray, ids: Sequence[Any] | None) -> bytes:
    """Scores in the order of the request, and the order: positions in the request, best first."""
    answer: dict[str, Any] = {"scores": scores, "order": order}
    if ids is not None:
        answer["ids"] = [ids[row] for row in order.tolist()]
    return orjson.dumps(answer | dict(facts), option=orjson.OPT_SERIALIZE_NUMPY)


def ranked_arrow(scores: np.ndarray, order: np.ndarray) -> bytes:
    """The same as an Arrow stream with the columns score and order."""
    import pyarrow

    table = pyarrow.table({"score": scores, "order": order})
    sink = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return bytes(sink.getvalue())
