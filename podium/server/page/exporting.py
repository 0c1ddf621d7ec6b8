"""Exporting: judgements as TREC qrels, and as LETOR text with the features that a system's model is given."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from podium.data.ranking import RankingData
from podium.formats.letor.writing import write_letor
from podium.formats.trec import Qrels, write_qrels
from podium.pipelines.cascades.cascade import Cascade
from podium.server.errors import Refusal, wrong
from podium.server.page.judging import MERGING, JudgedQuery
from podium.server.page.systems import System


def qrels_text(queries: Sequence[JudgedQuery]) -> bytes:
    """`number 0 document label` lines. The format has no comments: the rule and the texts stand elsewhere."""
    labels = {str(query.number): labels_of(query) for query in queries}
    if not any(labels.values()):
        raise _nothing()
    return _written(write_qrels, Qrels.from_dict(labels), "judgements.qrels")


def queries_text(queries: Sequence[JudgedQuery]) -> bytes:
    """`number<tab>text` lines."""
    if not queries:
        raise _nothing()
    return "".join(f"{query.number}\t{query.text}\n" for query in queries).encode()


def labels_of(query: JudgedQuery) -> dict[str, float]:
    """One label per document, but for ids with blanks, for which both formats have no place."""
    return {document: label for document, label in query.labels.items() if not any(map(str.isspace, document))}


def rows_of_query(system: System, query: JudgedQuery) -> RankingData | None:
    """The judged documents of a query as the last model of a cascade sees them; None if it finds none of them."""
    cascade = system.version.searcher
    assert isinstance(cascade, Cascade)
    labels = labels_of(query)
    if not labels:
        return None
    number = str(query.number)
    options: dict[str, Any] = {"unjudged": "skip", "n_jobs": 1, "add_judged": len(cascade.stages) == 1}
    try:
        return cascade.training_data({number: query.text}, {number: labels}, **options)
    except ValueError:  # none of the documents is in the index, or the query has no words
        return None


def has_features(system: System) -> bool:
    return not system.is_first_stage and isinstance(system.version.searcher, Cascade)


def refuse_without_features(system: System) -> None:
    if not has_features(system):
        raise wrong("system", "a cascade, which has features", system.label)


def letor_text(parts: Sequence[RankingData], system: System, queries: Sequence[JudgedQuery]) -> bytes:
    """Comments with the rule and the texts of the queries, then rows."""
    if not parts:
        raise _nothing()
    numbers = {str(name) for part in parts for name in part.query_ids}
    version = system.version
    comments = [
        f"judgements and features of {system.label}, sha256 {version.digest}, index generation {version.generation}",
        MERGING,
        *(f"query {query.number}: {query.text}" for query in queries if str(query.number) in numbers),
    ]
    head = "".join(f"# {comment}\n" for comment in comments).encode()
    return head + _written(write_letor, RankingData.concat(parts), "judgements.letor.txt")


def _written(write: Any, content: Any, name: str) -> bytes:
    with tempfile.TemporaryDirectory(prefix="podium-export-") as folder:
        path = Path(folder) / name
        write(content, path)
        return path.read_bytes()


def _nothing() -> Refusal:
    return Refusal(404, "there is nothing to export: no judgement that this file could hold. Judge some documents.")
