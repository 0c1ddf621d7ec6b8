"""Search: documents to an index, queries to ranked documents."""

from __future__ import annotations

from typing import TYPE_CHECKING

from podium._runtime.lazy import lazy_names

if TYPE_CHECKING:
    from podium.search.analysis.analyser import Analyser as Analyser
    from podium.search.documents.collections import Faults as Faults
    from podium.search.documents.collections import read_documents as read_documents
    from podium.search.documents.document import Document as Document
    from podium.search.features.declaring import Feature as Feature
    from podium.search.features.declaring import Features as Features
    from podium.search.features.extracting import Extractor as Extractor
    from podium.search.features.extracting import QueryDocuments as QueryDocuments
    from podium.search.features.kinds import register_feature as register_feature
    from podium.search.index.writing import IndexWriter as IndexWriter
    from podium.search.index.writing import build_index as build_index
    from podium.search.queries import read_queries as read_queries
    from podium.search.queries import search_run as search_run
    from podium.search.reading import Hit as Hit
    from podium.search.reading import Hits as Hits
    from podium.search.reading import Index as Index
    from podium.search.reading import open_index as open_index
    from podium.search.retrieval.functions import register_weighting as register_weighting
    from podium.search.retrieval.weightings import WEIGHTINGS as WEIGHTINGS
    from podium.search.retrieval.weightings import parse_weighting as parse_weighting
    from podium.search.searcher import Searcher as Searcher
    from podium.search.tuning import tune_weighting as tune_weighting
    from podium.search.weighting_files import read_weighting as read_weighting
    from podium.search.weighting_files import write_weighting as write_weighting

__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "analysis.analyser": ("Analyser",),
        "documents.collections": ("Faults", "read_documents"),
        "documents.document": ("Document",),
        "features.declaring": ("Feature", "Features"),
        "features.extracting": ("Extractor", "QueryDocuments"),
        "features.kinds": ("register_feature",),
        "index.writing": ("IndexWriter", "build_index"),
        "queries": ("read_queries", "search_run"),
        "reading": ("Hit", "Hits", "Index", "open_index"),
        "retrieval.functions": ("register_weighting",),
        "retrieval.weightings": ("WEIGHTINGS", "parse_weighting"),
        "searcher": ("Searcher",),
        "tuning": ("tune_weighting",),
        "weighting_files": ("read_weighting", "write_weighting"),
    },
)
