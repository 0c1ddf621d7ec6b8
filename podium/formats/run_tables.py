"""Runs and judgements from tables (pandas, polars, pyarrow) and from the answers of search engines, and back.

A table has one row per pair of query and document. An answer is the JSON of Elasticsearch or OpenSearch: documents are
in `hits.hits`, each with `_id` and `_score`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from podium._runtime.words import counted
from podium.data.query_ids import as_query_ids, group_rows
from podium.formats.frames import _complete_numbers, _docids, _eager, _ids, make_frame, no_column


def pairs_of_frame(frame: Any, qid: str, docid: str, value: str) -> dict[str, dict[str, float]]:
    """{query: {document: number}} of three columns, queries in order of first appearance."""
    table = _eager(frame)
    for name in (qid, docid, value):
        if name not in table.columns:
            raise ValueError(no_column(name, table.columns))
    numbers = _complete_numbers(table.get_column(value)).tolist()
    documents, n = _docids(table.get_column(docid)), len(numbers)
    order, offsets, queries = group_rows(as_query_ids(_ids(table.get_column(qid)), None, n))
    rows = range(n) if order is None else order.tolist()
    pairs: dict[str, dict[str, float]] = {}
    for q, query in enumerate(queries.tolist()):
        inner = pairs[str(query)] = {}
        for row in rows[int(offsets[q]) : int(offsets[q + 1])]:
            if documents[row] in inner:
                raise ValueError(f"row {row + 1}: query {str(query)!r} has document {documents[row]!r} already.")
            inner[documents[row]] = numbers[row]
    return pairs


def frame_of_pairs(pairs: Any, value: str, backend: str) -> Any:
    """A table with the columns qid, docid and the value; of a run also the rank."""
    lengths = np.diff(pairs.offsets)
    columns = {"qid": np.repeat(pairs.query_ids, lengths), "docid": pairs.docids, value: pairs.values}
    if value == "score":
        columns["rank"] = np.arange(len(pairs)) - np.repeat(pairs.offsets[:-1], lengths) + 1
    return make_frame(columns, backend)


def pairs_of_hits(answers: Mapping[Any, Any]) -> dict[str, dict[str, float]]:
    """{query: {document: score}} of {query: answer}; an answer is the JSON of a search, its `hits`, or their list."""
    if not isinstance(answers, Mapping):
        raise ValueError(f"expected {{query: answer of the engine}}; got {type(answers).__name__}.")
    if "hits" in answers and isinstance(answers["hits"], (Mapping, list)):
        raise ValueError("expected {query: answer of the engine}; got one answer. Give {'q1': answer}.")
    return {str(query): _scores_of(str(query), answer) for query, answer in answers.items()}


def _scores_of(query: str, answer: Any) -> dict[str, float]:
    hits = answer
    while isinstance(hits, Mapping):
        if "error" in hits:
            raise ValueError(f"query {query!r}: the engine answered with an error: {str(hits['error'])[:80]}.")
        if "hits" not in hits:
            raise ValueError(
                f"query {query!r}: expected an answer with 'hits'; found {', '.join(map(str, hits)) or '{}'}."
            )
        hits = hits["hits"]
    if not isinstance(hits, list):
        raise ValueError(f"query {query!r}: expected a list of hits; got {type(hits).__name__}.")
    scores: dict[str, float] = {}
    for number, hit in enumerate(hits, 1):
        if not isinstance(hit, Mapping) or "_id" not in hit:
            raise ValueError(f"query {query!r}, hit {number} of {counted(len(hits), 'hit')} has no '_id'.")
        if str(hit["_id"]) in scores:
            raise ValueError(f"query {query!r}, hit {number}: document {hit['_id']!r} is there already.")
        scores[str(hit["_id"])] = _score(query, number, hit.get("_score"))
    return scores


def _score(query: str, number: int, score: Any) -> float:
    if isinstance(score, bool) or not isinstance(score, (int, float)):
        advice = "Sorted searches have no scores unless they ask for them: track_scores=true"
        raise ValueError(f"query {query!r}, hit {number}: '_score' must be a number; got {score!r}. {advice}.")
    return float(score)
