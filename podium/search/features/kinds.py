"""Kinds of features: one row each, with the printed formula and how the values are computed. Users add rows.

Weightings are kinds too: the row of a weighting has all that is needed here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from inspect import Parameter
from typing import TYPE_CHECKING, Any

import numpy as np

from podium._runtime.registry import Registry, keyword_parameters
from podium.search.features import behaviour, columns, expanding, kernels
from podium.search.retrieval.weightings import WEIGHTINGS

if TYPE_CHECKING:
    from podium.search.features.declaring import Feature
    from podium.search.features.extracting import Extractor, QueryDocuments

FUNCTION = "function"
Column = Callable[["QueryDocuments"], np.ndarray]  # one number per document


@dataclass(frozen=True)
class FeatureKind:
    """`code`: kernels compute it from postings; otherwise `prepare(extractor, feature)` returns a `Column`."""

    formula: str
    of_field: bool = False
    settings: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()  # settings that are not numbers
    code: int | None = None
    prepare: Callable[[Extractor, Feature], Column] | None = None
    function: Callable[..., Any] | None = None  # that a user registered
    expands: bool = False  # it has terms beside those of the query, and keeps them
    derive: Callable[[Feature, QueryDocuments, np.ndarray], np.ndarray] | None = None  # from the values of another one
    names: str = ""  # the setting that is printed with the formula


_SUM = "sum over the terms of the query of"
# Of a term that no document has in the field, none of these sums has a part.
_KINDS: dict[str, FeatureKind] = {
    "tf": FeatureKind("occurrences of the terms of the query", True, code=kernels.TF),
    "idf": FeatureKind(f"{_SUM} ln(N / df)", True, code=kernels.CONSTANT),
    "tf*idf": FeatureKind(
        "TF times IDF: (occurrences of the terms) x (sum of ln(N / df))", True, code=kernels.TFIDF_TOTALS
    ),
    "tf*idf-sum": FeatureKind(f"{_SUM} tf ln(N / df)", True, code=kernels.TFIDF_SUM),
    "dl": FeatureKind("number of terms in the field", True, code=kernels.LENGTH),
    "coverage": FeatureKind("share of the distinct terms of the query that occur", True, code=kernels.COVERAGE),
    "bigrams": FeatureKind(
        "sum over neighbouring terms of the query of BM25 of both as a phrase, which is a term of its own",
        True,
        ("k1", "b"),
        prepare=expanding.Bigrams,
        expands=True,
    ),
    "feedback": FeatureKind(
        "BM25 of the most typical terms of the best documents, weighted by the mean of tf / dl times ln(N / df)",
        True,
        ("documents", "terms", "k1", "b"),
        prepare=expanding.Feedback,
        expands=True,
    ),
    "fact": FeatureKind(
        "a fact about the document in the collection",
        settings=("fact",),
        required=("fact",),
        texts=("fact",),
        prepare=columns.fact,
        names="fact",
    ),
    "table": FeatureKind(
        "a value of the query, the document or both in a table",
        settings=("file", "by", "column", "missing", "query", "document", "digest"),
        required=("file", "by", "column", "missing"),
        texts=("file", "by", "column", "query", "document", "digest"),
        prepare=behaviour.table_column,
        names="column",
    ),
    "log": FeatureKind(
        "natural logarithm of another feature",
        settings=("of",),
        required=("of",),
        texts=("of",),
        derive=columns.logarithm,
        names="of",
    ),
    "log1p": FeatureKind(
        "natural logarithm of 1 + another feature",
        settings=("of",),
        required=("of",),
        texts=("of",),
        derive=columns.logarithm,
        names="of",
    ),
    "stored": FeatureKind(
        "a number stored with the document",
        settings=("key", "default"),
        required=("key",),
        texts=("key",),
        prepare=columns.stored,
    ),
    "score": FeatureKind("the score of the stage before", prepare=columns.score),
    "query-length": FeatureKind("number of terms in the query", prepare=columns.query_length),
    FUNCTION: FeatureKind("a Python function", prepare=columns.function),
}


def feature_kinds() -> dict[str, FeatureKind]:
    """All kinds by name, with those that were registered."""
    return {**_KINDS, **{name: _weighting_kind(name) for name, row in WEIGHTINGS.items() if row.is_of_postings}}


@cache
def _weighting_kind(name: str) -> FeatureKind:
    row = WEIGHTINGS[name]
    code = row.code if row.code >= 0 else None
    return FeatureKind(f"{_SUM} {row.formula}", True, tuple(row.parameters()), code=code, prepare=columns.weighted)


def register_feature(name: str, function: Callable[..., Any], *, formula: str) -> None:
    """Make a Python function a kind of features, by name: `Features.add(..., kind=name)`, `kind` in a TOML table.

    `function(documents, *, setting=default, ...)` takes a `QueryDocuments` and returns one number per document. A
    keyword `field` makes it a kind of features of a field; a setting without a default is required. `formula` is how it
    is printed.
    """
    settings = keyword_parameters(function)
    of_field = settings.pop("field", None) is not None
    row = FeatureKind(
        formula,
        of_field,
        tuple(settings),
        tuple(key for key, default in settings.items() if default is Parameter.empty),
        tuple(key for key, default in settings.items() if isinstance(default, str)),
        prepare=columns.registered,
        function=function,
    )
    Registry("a kind of features", feature_kinds(), any_name=True).register(name, row)  # weightings have names too
    _KINDS[name] = row
