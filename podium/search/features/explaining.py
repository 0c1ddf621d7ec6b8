"""Explanation: the value of a feature, its formula in words, and the numbers that went into it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from podium.search.features.behaviour import lookup
from podium.search.features.declaring import Feature
from podium.search.features.extracting import QueryDocuments

if TYPE_CHECKING:
    from podium.search.features.extracting import Extractor


@dataclass(frozen=True)
class FeatureValue:
    """A feature of one query and document. `terms` has tf, df and cf of the query's terms in the feature's field."""

    name: str
    value: float
    formula: str
    inputs: Mapping[str, Any]
    terms: Mapping[str, Mapping[str, int]]

    def sentence(self) -> str:
        """`BM25(body) = 1.27: sum over ...; N = 3, dl = 4, ...; laser: tf 1, df 1, cf 1`."""
        inputs = ", ".join(f"{name} = {_shown(value)}" for name, value in self.inputs.items())
        terms = [
            f"{term}: " + ", ".join(f"{name} {n}" for name, n in counts.items()) for term, counts in self.terms.items()
        ]
        return "; ".join([f"{self.name} = {self.value:.6g}: {self.formula}", *([inputs] if inputs else []), *terms])

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def explain_features(extractor: Extractor, text: str, document: int, score: float | None = None) -> list[FeatureValue]:
    """All features of one document as they are before any normalization."""
    scores = None if score is None else [score]
    values = extractor.values(text, [document], scores, normalize=False)[0]
    terms = extractor.terms(text)
    return [
        FeatureValue(
            feature.name,
            float(value),
            feature.formula,
            _inputs(extractor, feature, text, document),
            {} if feature.field is None else {term: _facts_of(extractor, feature, term, document) for term in terms},
        )
        for feature, value in zip(extractor.features.features, values)
    ]


def _was_seen(extractor: Extractor, feature: Feature, text: str, document: int) -> bool:
    """Whether the table has a row: its values are finite."""
    asked = QueryDocuments(extractor.index, text, {}, np.array([document]), np.array([np.nan]))
    return bool(np.isfinite(lookup(extractor, feature, np.nan)(asked)[0]))


def _inputs(extractor: Extractor, feature: Feature, text: str, document: int) -> dict[str, Any]:
    index, inputs = extractor.index, dict(feature.settings)
    if feature.kind == "table":
        inputs = {name: inputs[name] for name in ("by", "column", "missing")}
        return inputs | {"seen": _was_seen(extractor, feature, text, document)}
    if feature.field is None:
        return inputs
    field = index.field(feature.field)
    if feature.kind == "dl":
        return {}
    inputs = {"N": index.n_documents}
    if feature.is_weighted:
        settings = {name: value for name, value in feature.weighting.settings.items() if value or name != "delta"}
        inputs |= {"dl": int(field.lengths[document])} | settings  # without a delta that the formula does not have
        if feature.weighting.uses_average:
            inputs["avgdl"] = field.average_length
        if feature.weighting.has_prior:
            inputs |= {"u": int(field.uniques[document]), "terms of the collection": field.n_terms}
    return inputs


def _facts_of(extractor: Extractor, feature: Feature, term: str, document: int) -> dict[str, int]:
    field = extractor.index.field(feature.field or "")
    statistics = field.statistics(term)
    return {"tf": field.frequency(term, document), "df": statistics.df, "cf": statistics.cf}


def _shown(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
