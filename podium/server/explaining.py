"""Explaining: what each feature adds to the scores of a list, and why one document is above another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from podium.data.sparse import as_dense
from podium.explain.attributions import attribute, centre
from podium.explain.reasons import why_of_rows
from podium.explain.subjects import columns_for
from podium.models.frame.ranker import Ranker
from podium.models.frame.transforms import one_query
from podium.pipelines.cascades.cascade import Scored
from podium.search.reading import Hits
from podium.server.errors import Refusal, unknown
from podium.server.service import order_of
from podium.server.versions.version import Version

_FEATURES = 10  # that are shown per document


def explain_rows(
    version: Version, rows: np.ndarray, ids: Sequence[Any] | None, k: int, pair: Sequence[Any] | None
) -> dict[str, Any]:
    """The k best of rows that the caller has, and why one is above another; `pair` has ids, or positions."""
    assert version.model is not None
    scores = version.scores(rows)
    called = list(range(len(rows))) if ids is None else list(ids)
    order = order_of(scores)
    shares, note = _shares(version.model, version.names, rows)
    documents = [
        {"id": called[row], "score": float(scores[row]), "features": _largest(shares, row)}
        for row in order[:k].tolist()
    ]
    answer = {"documents": documents, "mean_score": float(scores.mean())} | ({"note": note} if note else {})
    if pair is not None:
        places = [_place(called, one) for one in pair]
        answer["why"] = _why(version.model, version.names, rows, places, (str(pair[0]), str(pair[1])))
    return answer


def explain_hits(version: Version, hits: Hits, scored: Scored | None, pair: Sequence[Any] | None) -> dict[str, Any]:
    """The hits of a cascade: rows that its last model scored. Those behind them have no features."""
    if version.model is None or scored is None:
        raise Refusal(400, f"system: the {version.kind} has no model to explain.", "system", "a cascade with a model")
    place_of = {document: row for row, document in enumerate(scored.documents.tolist())}
    shares, note = _shares(version.model, version.names, scored.rows)
    documents = []
    for hit in hits:
        row = place_of.get(hit.document)
        features = [] if row is None else _largest(shares, row)
        documents.append({"id": hit.id, "score": hit.score, "features": features})
    answer = {"documents": documents, "mean_score": float(scored.scores.mean())} | ({"note": note} if note else {})
    if pair is not None:
        index = hits.searched
        numbers = {index.id(document): row for document, row in place_of.items()}
        places = [_known_place(numbers, str(one)) for one in pair]
        answer["why"] = _why(version.model, version.names, scored.rows, places, (str(pair[0]), str(pair[1])))
    return answer


def _shares(model: Ranker, names: Sequence[str], rows: np.ndarray) -> tuple[list[list[dict[str, Any]]], str]:
    """Per row the columns with their values and shares, and why there are no shares if there are none."""
    columns = as_dense(model.columns(rows, one_query(len(rows))))
    try:
        attributions = attribute(model, columns, columns_for(model, names=names))
    except ValueError as error:
        plain = [_entries(model.column_names_, row, None) for row in columns]
        return plain, str(error)
    values = centre(attributions.values, np.zeros(len(rows), np.int64))
    return [_entries(attributions.names, row, shares) for row, shares in zip(columns, values)], ""


def _entries(names: Sequence[str], row: np.ndarray, shares: np.ndarray | None) -> list[dict[str, Any]]:
    order = range(len(names)) if shares is None else np.argsort(-np.abs(shares), kind="stable").tolist()
    return [
        {
            "name": names[column],
            "value": None if np.isnan(row[column]) else float(row[column]),
            "share": None if shares is None else float(shares[column]),
        }
        for column in order
    ]


def _largest(shares: list[list[dict[str, Any]]], row: int) -> list[dict[str, Any]]:
    return [entry for entry in shares[row] if entry["share"] != 0][:_FEATURES]


def _why(model: Ranker, names: Sequence[str], rows: np.ndarray, places: list[int], called: tuple[str, str]) -> Any:
    try:
        columns, pair = columns_for(model, names=names), (places[0], places[1])
        reasons = why_of_rows(model, rows, one_query(len(rows)), pair, columns, called)
    except ValueError as error:
        raise Refusal(400, f"why: {error}", "why", "two documents of a model of trees or weights") from None
    answer = reasons.as_dict()
    return answer | {"reasons": answer["reasons"][:_FEATURES]}


def _place(called: list[Any], one: Any) -> int:
    if one not in called:
        raise unknown("why", "document", one, map(str, called[:20]))
    return called.index(one)


def _known_place(numbers: dict[str, int], one: str) -> int:
    if one not in numbers:
        expected = "an id among the documents that the model re-ranked for this query"
        raise Refusal(404, f"why: expected {expected}; got {one[:60]!r}.", "why", expected)
    return numbers[one]
