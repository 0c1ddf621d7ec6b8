"""Why a cascade ranks as it does: the features of each document, and what each adds to its score."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from podium.data.sparse import as_dense
from podium.explain.attributions import attribute, centre
from podium.explain.subjects import columns_for
from podium.models.frame.transforms import one_query
from podium.pipelines.cascades.cascade import Cascade, CascadeHits, Stage


@dataclass(frozen=True)
class FeatureShare:
    """A feature (or a column that the model's transform made of one) of a document, and its Shapley value.

    Shares are centred: they add up to the score minus the mean score of the documents that the stage re-ranked.
    """

    name: str
    value: float | None  # None: missing
    share: float | None  # None: the model is no sum of trees and linear functions


@dataclass(frozen=True)
class ExplainedHit:
    """A document in its place; `features` has the largest shares first, and is empty behind the last stage's n."""

    rank: int
    id: str
    score: float
    first_rank: int
    first_score: float
    features: tuple[FeatureShare, ...]

    def sentence(self, most: int = 5) -> str:
        """The largest shares in words."""
        shown = [
            f"{one.name} {'missing' if one.value is None else format(one.value, '.4g')}"
            + ("" if one.share is None else f" ({one.share:+.3g})")
            for one in self.features
            if one.share != 0
        ]
        return ", ".join(shown[:most])


@dataclass(frozen=True)
class ExplainedSearch:
    """The best documents of a query, explained."""

    query: str
    mean_score: float  # of the documents that the last stage re-ranked
    hits: tuple[ExplainedHit, ...]
    ranked: CascadeHits
    formulas: Mapping[str, str]  # of the features, by name
    note: str = ""  # why there are no shares

    def as_dict(self) -> dict[str, Any]:
        values: dict[str, Any] = {"query": self.query, "mean_score": self.mean_score}
        values |= {"hits": [asdict(hit) for hit in self.hits], "formulas": dict(self.formulas)}
        return values | ({"note": self.note} if self.note else {})


def explain_search(cascade: Cascade, text: str, k: int) -> ExplainedSearch:
    number, stage = _last_stage(cascade)
    hits = cascade.search(text, k)
    before = cascade._ranked(text, stage.n, number).top(stage.n)
    mean, note = 0.0, ""
    shares: Mapping[int, tuple[FeatureShare, ...]] = {}
    if len(before.documents):
        rows = cascade.rows(number, text, before)
        scores = before.scores if stage.model is None else stage.scores(rows)
        mean, note = float(scores.mean()), _why_not(stage)
        shares = _shares(stage, rows, before.documents, note == "")
    columns = zip(hits.ids, hits.scores, hits.first_ranks, hits.first_scores, hits.documents.tolist())
    explained = (
        ExplainedHit(rank, id, score, first_rank, first_score, shares.get(document, ()))
        for rank, (id, score, first_rank, first_score, document) in enumerate(columns, 1)
    )
    formulas = {feature.name: feature.formula for feature in stage.features.features}
    return ExplainedSearch(text, mean, tuple(explained), hits, formulas, note)


def _last_stage(cascade: Cascade) -> tuple[int, Stage]:
    """The last stage with a model; the last of all where none has one: its features are shown without shares."""
    stages = list(enumerate(cascade.stages))
    return ([one for one in stages if one[1].model is not None] or stages)[-1]


def _why_not(stage: Stage) -> str:
    if stage.model is None:
        return "No stage has a model: the order is that of the first stage, and no feature has a share in it."
    try:
        stage.model.summands()
    except ValueError as error:
        return str(error)
    return ""


def _shares(
    stage: Stage, rows: np.ndarray, documents: np.ndarray, with_shares: bool
) -> Mapping[int, tuple[FeatureShare, ...]]:
    if stage.model is None or not with_shares:
        return {doc: _feature_shares(stage.features.names, row, None) for doc, row in zip(documents.tolist(), rows)}
    columns = as_dense(stage.model.columns(rows, one_query(len(rows))))
    attributions = attribute(stage.model, columns, columns_for(stage.model, names=stage.features.names))
    values = centre(attributions.values, np.zeros(len(rows), np.int64))
    return {
        doc: _feature_shares(attributions.names, row, shares)
        for doc, row, shares in zip(documents.tolist(), columns, values)
    }


def _feature_shares(names: tuple[str, ...], row: np.ndarray, shares: np.ndarray | None) -> tuple[FeatureShare, ...]:
    order = range(len(names)) if shares is None else np.argsort(-np.abs(shares), kind="stable").tolist()
    return tuple(
        FeatureShare(
            names[column],
            None if np.isnan(row[column]) else float(row[column]),
            None if shares is None else float(shares[column]),
        )
        for column in order
    )
