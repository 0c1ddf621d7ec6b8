"""Search: documents to an index, queries to ranked documents."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from podium.search.analysis.analyser import Analyser as Analyser
    from podium.search.documents.collections import Faults as Faults
    from podium.search.documents.collections import read_documents as read_documents
    from podium.search.documents.document import Document as Document
    from podium.search.features.declaring import Feature as Feature
    from podium.search.features.declaring import Features as Features
    from podium.search.features.extracting import Extractor as Extractor
    from podium.search.features.extracting import QueryDocuments as QueryDocuments
    from podium.search.index.writing import IndexWriter as IndexWriter
    from podium.search.index.writing import build_index as build_index
    from podium.search.queries import read_queries as read_queries
    from podium.search.queries import search_run as search_run
    from podium.search.reading import Hit as Hit
    from podium.search.reading import Hits as Hits
    from podium.search.reading import Index as Index
    from podium.search.reading import open_index as open_index
    from podium.search.retrieval.weightings import WEIGHTINGS as WEIGHTINGS
    from podium.search.retrieval.weightings import parse_weighting as parse_weighting
    from podium.search.searcher import Searcher as Searcher

_HOME = {
    "Analyser": "analysis.analyser",
    "Document": "documents.document",
    "Extractor": "features.extracting",
    "Faults": "documents.collections",
    "Feature": "features.declaring",
    "Features": "features.declaring",
    "Hit": "reading",
    "Hits": "reading",
    "Index": "reading",
    "IndexWriter": "index.writing",
    "QueryDocuments": "features.extracting",
    "Searcher": "searcher",
    "WEIGHTINGS": "retrieval.weightings",
    "build_index": "index.writing",
    "open_index": "reading",
    "parse_weighting": "retrieval.weightings",
    "read_documents": "documents.collections",
    "read_queries": "queries",
    "search_run": "queries",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'podium.search' has no attribute {name!r}")
    value = getattr(import_module(f"podium.search.{_HOME[name]}"), name)
    globals()[name] = value
    return value
