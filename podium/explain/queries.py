"""What `podium explain` prints about one query: why its top documents are ranked there, or one above another."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np

from podium._runtime.words import counted, did_you_mean
from podium.data.ranking import RankingData
from podium.data.sparse import as_dense
from podium.explain.attributions import attribute, centre
from podium.explain.drawable import Drawable
from podium.explain.lambdas import Lambdas, lambdas
from podium.explain.reasons import Why, why
from podium.explain.subjects import columns_for, refuse_unfitted

_FEATURES_SHOWN = 5


@dataclass(frozen=True)
class Contribution:
    """What one feature does for a document."""

    feature: str
    value: float | None  # None: missing
    contribution: float


@dataclass(frozen=True)
class RankedDocument:
    """A document at its rank."""

    rank: int
    document: str
    label: float | None  # None: the data has no labels
    score: float
    features: tuple[Contribution, ...]  # the largest contributions first

    def sentence(self) -> str:
        reasons = ", ".join(
            f"{one.feature} is {'missing' if one.value is None else format(one.value, '.4g')} ({one.contribution:+.3g})"
            for one in self.features
        )
        return f"{self.rank}. {self.document}, score {self.score:.4f}: {reasons or 'as the mean document'}"


@dataclass(frozen=True)
class QueryExplained(Drawable):
    """The best documents of a query, and what puts each above, or below, the query's mean document."""

    drawing: ClassVar[str] = "draw_query"

    query: str
    documents: int
    mean_score: float
    top: tuple[RankedDocument, ...]

    def sentences(self) -> list[str]:
        size = f"{counted(self.documents, 'document')}, mean score {self.mean_score:.4f}"
        return [f"query {self.query}: {size}", *(placed.sentence() for placed in self.top)]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def find_query(data: RankingData, query: str) -> tuple[RankingData, list[str]]:
    """The rows of one query, named as the data file does, and what its documents are called.

    That is their id or, as in a run, their place in the file, from 1.
    """
    names = [str(one) for one in data.query_ids]
    if query not in names:
        raise ValueError(f"There is no query {query!r} among {_listed(names)}.{did_you_mean(query, names)}")
    number = names.index(query)
    part = data.subset([number])
    if part.docid_texts is not None:
        return part, list(part.docid_texts)
    return part, [str(row + 1) for row in data.rows[data.offsets[number] : data.offsets[number + 1]].tolist()]


def explain_top(model: Any, data: RankingData, query: str, top: int) -> QueryExplained:
    """Why the `top` best documents of a query are where they are."""
    refuse_unfitted(model)
    part, called = find_query(data, query)
    asked = model.checked_rows(part, None)
    rows, scores = as_dense(model.columns(*asked)), model.score_rows(*asked)
    attributions = attribute(model, rows, columns_for(model, part))
    values, names = centre(attributions.values, part.qid), attributions.names
    labels = [None] * part.n_rows if part.y is None else part.y.tolist()
    placed = [
        RankedDocument(rank, called[row], labels[row], float(scores[row]), _largest(values[row], rows[row], names))
        for rank, row in enumerate(_best_first(scores, called)[:top], 1)
    ]
    return QueryExplained(query, part.n_rows, float(scores.mean()), tuple(placed))


def explain_pair(model: Any, data: RankingData, query: str, documents: tuple[str, str]) -> Why:
    """Why the first of two documents of a query is ranked above, or below, the second."""
    part, called = find_query(data, query)
    for document in documents:
        if document not in called:
            hint = did_you_mean(document, called)
            raise ValueError(f"Query {query} has no document {document!r}; it has {_listed(called)}.{hint}")
    first, second = map(called.index, documents)
    return why(model, part, first, second, documents=documents)


def explain_lambdas(model: Any, data: RankingData, query: str, metric: str) -> Lambdas:
    """The pairs of a query's documents at the scores of a model, as training with this metric sees them."""
    refuse_unfitted(model)
    part, called = find_query(data, query)
    return lambdas(model.predict(part), part.labels_for("--lambdas"), metric=metric, documents=called)


def _best_first(scores: np.ndarray, called: list[str]) -> list[int]:
    """Rows in the order of a TREC run: equal scores by document id, descending."""
    return sorted(range(len(called)), key=lambda row: (scores[row], called[row]), reverse=True)


def _largest(values: np.ndarray, row: np.ndarray, names: tuple[str, ...]) -> tuple[Contribution, ...]:
    order = np.argsort(-np.abs(values), kind="stable")[:_FEATURES_SHOWN]
    return tuple(
        Contribution(names[f], None if np.isnan(row[f]) else float(row[f]), float(values[f]))
        for f in order
        if values[f] != 0
    )


def _listed(names: list[str]) -> str:
    return ", ".join(names) if len(names) <= 6 else f"{', '.join(names[:5])}, ... ({len(names):,} in all)"
