"""Explanation: the value of a feature, its formula in words, and the numbers that went into it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

from podium.search.features.declaring import Feature
from podium.search.retrieval.weightings import BM25, Weighting

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
        terms = [f"{term}: " + ", ".join(f"{name} {n}" for name, n in own.items()) for term, own in self.terms.items()]
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
            _inputs(extractor, feature, document),
            {} if feature.field is None else {term: _facts_of(extractor, feature, term, document) for term in terms},
        )
        for feature, value in zip(extractor.features.features, values)
    ]


def _inputs(extractor: Extractor, feature: Feature, document: int) -> dict[str, Any]:
    index, found = extractor.index, dict(feature.settings)
    if feature.field is None:
        return found
    field = index.field(feature.field)
    if feature.kind == "dl":
        return {}
    found = {"N": index.n_documents}
    if feature.is_weighted:
        found |= {"dl": int(field.lengths[document])} | _settings(feature.weighting)
        if isinstance(feature.weighting, BM25):
            found["avgdl"] = field.average_length
        elif feature.kind.startswith("lmir"):
            found |= {"u": int(field.uniques[document]), "terms of the collection": field.n_terms}
    return found


def _settings(weighting: Weighting) -> dict[str, float]:
    """Parameters of a weighting; a delta that its formula does not have is left out."""
    given = {item.name.rstrip("_"): getattr(weighting, item.name) for item in fields(weighting)}
    return {name: value for name, value in given.items() if name != "variant" and not (name == "delta" and not value)}


def _facts_of(extractor: Extractor, feature: Feature, term: str, document: int) -> dict[str, int]:
    field = extractor.index.field(feature.field or "")
    found = field.statistics(term)
    return {"tf": field.frequency(term, document), "df": found.df, "cf": found.cf}


def _shown(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
