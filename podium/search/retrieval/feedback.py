"""Pseudo-relevance feedback: the terms of a query's best documents join the query, RM3 over BM25.

The query is searched for twice. With the scores s of its fb_docs best documents, a term t of these documents has the
share p(t) = sum over them of s / (sum of s) tf / dl, the relevance model RM1; the fb_terms largest are divided by
their sum. In a query of n terms, a term that is there c times is searched for with the weight

    w c + (1 - w) n p        w = original_query_weight

which is n times the interpolation of both distributions, so that w = 1 gives the scores of BM25. Terms that no
document has in the field count neither in c nor in n.

Top-k multiplies an impact by how often its term is in the query, an integer. Weights are such integers too, in units of
a power of two that only depends on n: sums stay exact, whatever the segments of the index and the order of the terms.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

from podium.search.retrieval.clauses import Asked, allowed_documents, best_of_parts, scored_parts
from podium.search.retrieval.document_terms import DocumentTerms, largest_shares
from podium.search.retrieval.ranking import BestDocuments, PostingSource, Ranker
from podium.search.retrieval.terms import MOST_TERMS, ClauseTerms, query_terms
from podium.search.retrieval.weightings import RM3, Weighting

if TYPE_CHECKING:
    from podium._runtime.compiler import Array
    from podium.search.reading import Index

_MEMORY = 1 << 26  # bytes that a ranker uses for the terms of documents
# Of all weights of a query. Impacts of BM25 are below 22 * 2**24, as ln(2**32 / 1.5) < 22: sums are below 2**53.
_BITS = 24


def make_ranker(index: Index, weighting: Weighting, fields: Mapping[str, float]) -> Ranker:
    """The ranker of a weighting."""
    return FeedbackRanker(index, weighting, fields) if isinstance(weighting, RM3) else Ranker(index, weighting, fields)


class FeedbackRanker(Ranker):
    """Searches for the terms of a query and of its best documents. Conditions of the query hold in both searches."""

    def __init__(self, index: Index, weighting: RM3, fields: Mapping[str, float]) -> None:
        _check_searchable(index, weighting.name, fields)
        super().__init__(index, weighting, fields)
        self.rm3, self.field_name = weighting, next(iter(fields))
        self._documents = DocumentTerms(index, self.field_name, _MEMORY)

    @property
    def batch_source(self) -> PostingSource | None:
        return None  # the second search depends on the first one

    def search(self, text: str, k: int) -> BestDocuments:
        clauses = query_terms(text, self.index.analyser)
        parts, allowed = self._query_parts(clauses), allowed_documents(self, clauses)
        shares = self._feedback(parts, allowed)
        if not shares:
            return self._best(parts, allowed, k)
        bits = max(0, _BITS - (parts.total() - 1).bit_length())
        documents, scores, ids = self._best(self._in_units(self._weights(parts, shares), bits), allowed, k)
        return documents, [score / 2**bits for score in scores], ids

    def expansion(self, text: str) -> dict[str, float]:
        """What is searched for: terms (phrases and terms of other fields as a query has them) and weights."""
        clauses = query_terms(text, self.index.analyser)
        parts = self._query_parts(clauses)
        weights = self._weights(parts, self._feedback(parts, allowed_documents(self, clauses)))
        named = {_written(asked): weight for asked, weight in weights.items()}
        return dict(sorted(named.items(), key=lambda pair: (-pair[1], pair[0])))

    def _query_parts(self, clauses: list[ClauseTerms]) -> Counter[Asked]:
        """The terms and phrases of the query that any document has; None is the field that is searched."""
        parts: Counter[Asked] = Counter()
        for (part, name), count in scored_parts(clauses).items():
            if self.index.field(name or self.field_name).part_statistics(part).df:
                parts[part, None if name == self.field_name else name] += count
        return parts

    def _feedback(self, parts: Mapping[Asked, int], allowed: list[Array]) -> dict[str, float]:
        """The best documents' terms and their shares, as many as a query has room for."""
        documents, scores, _ = self._best(parts, allowed, max(1, min(int(self.rm3.fb_docs), self.index.n_slots)))
        total, weights = math.fsum(scores), dict[str, float]()
        for document, score in zip(documents.tolist(), scores):
            counts = self._documents.counts(document)
            length, score_share = counts.total(), score / total
            for term, count in counts.items():
                weights[term] = weights.get(term, 0.0) + score_share * (count / length)
        return largest_shares(weights, min(int(self.rm3.fb_terms), MOST_TERMS - len(parts)))

    def _weights(self, parts: Counter[Asked], shares: Mapping[str, float]) -> dict[Asked, float]:
        query_weight = self.rm3.original_query_weight if shares else 1.0
        weights = {asked: query_weight * count for asked, count in parts.items()}
        for term, share in shares.items():
            asked: Asked = ((term, 0),), None
            weights[asked] = weights.get(asked, 0.0) + (1.0 - query_weight) * parts.total() * share
        return {asked: weight for asked, weight in weights.items() if weight > 0.0}

    def _in_units(self, weights: Mapping[Asked, float], bits: int) -> dict[Asked, int]:
        return {asked: max(1, round(weight * 2**bits)) for asked, weight in weights.items()}

    def _best(self, weights: Mapping[Asked, int], allowed: list[Array], k: int) -> BestDocuments:
        return self.finish(*best_of_parts(self, weights, allowed, 0, k), 0.0)


def _check_searchable(index: Index, name: str, fields: Mapping[str, float]) -> None:
    if len(fields) > 1:
        raise ValueError(f"{name} searches one field; got {', '.join(fields)}.")
    if "anchor" in fields:
        raise ValueError(f"{name} reads the documents' own texts; field anchor is not among them. Search another one.")
    if not index.manifest.keeps_texts:
        message = f"{name} reads the documents' texts, but {index.folder} was built with keep_texts=False"
        raise ValueError(f"{message}. Build it with them.")


def _written(asked: Asked) -> str:
    part, name = asked
    words = " ".join(term for term, _ in part)
    return (f"{name}:" if name else "") + (f'"{words}"' if len(part) > 1 else words)
