"""Columns that no kernel of postings computes: facts and stored numbers of documents, numbers of the query, functions.

Each is prepared once per extractor and feature, and returns one number per document of a `QueryDocuments`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from podium._runtime.compiler import Array, bare_kernel
from podium._runtime.words import excerpt
from podium.search.retrieval.functions import FunctionWeighting

if TYPE_CHECKING:
    from podium.search.features.declaring import Feature
    from podium.search.features.extracting import Extractor, QueryDocuments
    from podium.search.features.kinds import Column
    from podium.search.reading import Index

_LARGEST = (2.0 - 2.0**-23) * 2.0**127  # of float32, the type of features


def fits_float32(value: Any) -> bool:
    """Whether this is a number that a feature can have; integers may have any number of digits."""
    return isinstance(value, (int, float)) and -_LARGEST <= value <= _LARGEST


def fact(extractor: Extractor, feature: Feature) -> Column:
    name = feature.settings["fact"]
    return lambda asked: extractor.per_document(("fact", name), asked.index.fact, name)[asked.documents]


def stored(extractor: Extractor, feature: Feature) -> Column:
    """They are read from the texts once."""
    key, default = feature.settings["key"], float(feature.settings.get("default", 0.0))
    arguments = (extractor.index, feature.name, key, default)
    return lambda asked: extractor.per_document(("stored", key, default), _stored_numbers, *arguments)[asked.documents]


def _stored_numbers(index: Index, name: str, key: str, default: float) -> np.ndarray:
    """(documents,) a stored number of all documents."""
    values = np.full(index.n_slots, default)
    for segment, deleted, base in zip(index.segments, index.deleted, index.bases):
        if segment.store is None:
            raise ValueError(f"feature {name!r}: {index.folder} was built with keep_texts=False and has no {key}.")
        for doc, document in segment.store.documents(np.arange(segment.n_documents)):
            value = document.get("fields", {}).get(key)
            if value is None or deleted[doc]:
                continue
            if not fits_float32(value):
                message = f"feature {name!r}: {key} of document {excerpt(segment.ids[doc])} is {excerpt(value)}"
                raise ValueError(f"{message}; expected a finite number, from -3.4e38 to 3.4e38 as of float32.")
            values[base + doc] = value
    return values


def score(extractor: Extractor, feature: Feature) -> Column:
    return lambda asked: asked.scores


def query_length(extractor: Extractor, feature: Feature) -> Column:
    return lambda asked: np.full(len(asked.documents), sum(asked.terms.values()))


def function(extractor: Extractor, feature: Feature) -> Column:
    assert feature.function is not None
    return partial(_checked, feature.name, feature.function)


def registered(extractor: Extractor, feature: Feature) -> Column:
    assert feature.row.function is not None
    settings = dict(feature.settings) | ({} if feature.field is None else {"field": feature.field})
    return partial(_checked, feature.name, partial(feature.row.function, **settings))


def _checked(name: str, function: Callable[[QueryDocuments], Any], asked: QueryDocuments) -> np.ndarray:
    with np.errstate(over="ignore"):
        values = np.asarray(function(asked), np.float32)
    if values.shape != (len(asked.documents),) or np.isinf(values).any():
        message = f"feature {name!r}: expected one number per document ({len(asked.documents)})"
        raise ValueError(f"{message}, finite as float32 or NaN; got shape {values.shape}.")
    return values


def logarithm(feature: Feature, asked: QueryDocuments, values: np.ndarray) -> np.ndarray:
    """ln x or ln(1 + x) of the values of another feature, before any normalization; a missing one stays missing."""
    out, plus_one = np.empty(len(values), np.float32), feature.kind == "log1p"
    bad = fill_logarithms(values.astype(np.float64), plus_one, out)
    if bad >= 0:
        value = f"{excerpt(feature.settings['of'])} is {values[bad]:g}"
        where = f"document {excerpt(asked.ids[bad])} of query {excerpt(asked.text)}"
        message = f"{feature.kind} needs values above {-1 if plus_one else 0}; {value} for {where}"
        advice = "" if plus_one else ' Use kind "log1p", or a feature that is larger.'
        raise ValueError(f"feature {feature.name!r}: {message}.{advice}")
    return out


@bare_kernel
def fill_logarithms(values: Array, plus_one: bool, out: Array) -> int:
    """out = ln(values), or ln(1 + values); the place of the first that has no logarithm, or -1."""
    for row in range(len(values)):
        value = values[row]
        if value <= (-1.0 if plus_one else 0.0):
            return row
        out[row] = math.log1p(value) if plus_one else math.log(value)
    return -1


def weighted(extractor: Extractor, feature: Feature) -> Column:
    """The score of a weighting that is a Python function."""
    weighting, field = feature.weighting, extractor.index.field(feature.field or "")
    assert isinstance(weighting, FunctionWeighting)

    def values(asked: QueryDocuments) -> np.ndarray:
        lengths, total = field.lengths[asked.documents].astype(np.float64), np.zeros(len(asked.documents))
        for term, count in asked.terms.items():
            tfs = frequencies(*field.postings(term), asked.documents)
            rows = np.flatnonzero(tfs)
            if len(rows):
                total[rows] += count * weighting.scores(field.statistics(term), tfs[rows], lengths[rows])
        return total

    return values


def frequencies(docs: np.ndarray, tfs: np.ndarray, documents: np.ndarray) -> np.ndarray:
    """How often each of the documents has a term, whose postings are these; 0: not at all."""
    if not len(docs):
        return np.zeros(len(documents), np.uint16)
    rows = np.minimum(np.searchsorted(docs, documents), len(docs) - 1)
    return np.where(docs[rows] == documents, tfs[rows], 0)
