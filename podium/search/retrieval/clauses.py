"""Clauses: queries with phrases, conditions or several fields, and bm25f.

No list is copied. Words in the one field that is searched take the way of plain queries, with a condition per document.
For anything else the scores of all documents are summed up in one array, list after list: words have the lists that
their fields keep, those of phrases and bm25f are made and dropped one at a time. Memory is 8 bytes (bm25f: 16) per
document and one list, for any number of words. Sums of integers are exact, so both ways give the same scores.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from podium._runtime.compiler import Array, bare_kernel
from podium.search.retrieval.formulas import SHIFTED, document_number, saturated
from podium.search.retrieval.terms import ClauseTerms
from podium.search.retrieval.topk import END, START, UNITS, push
from podium.search.retrieval.weightings import BM25F

if TYPE_CHECKING:
    from podium.search.retrieval.ranking import BestDocuments, Lists, PostingSource, Ranker, SearchWorkspace

_NO_PRIOR, ANY = np.empty(0, np.int64), np.empty(0, bool)

Part = tuple[tuple[str, int], ...]  # a term, or the terms of a phrase with their positions
Asked = tuple[Part, str | None]  # a part, and the field that it was asked for in


def search_clauses(ranker: Ranker, clauses: list[ClauseTerms], k: int) -> BestDocuments:
    """The k best documents for the clauses of a query."""
    n_query, add = _language_model_parts(ranker, clauses)
    work, n = best_of_parts(ranker, scored_parts(clauses), allowed_documents(ranker, clauses), n_query, k)
    offset = 0.0 if ranker.main is None else n_query * ranker.main.largest_prior
    return ranker.finish(work, n, add + offset)


def scored_parts(clauses: list[ClauseTerms]) -> Counter[Asked]:
    """What adds to scores, and how often it is in the query."""
    return Counter(asked for clause in clauses if not clause.clause.must_not for asked in _asked(clause))


def best_of_parts(
    ranker: Ranker, scored: Mapping[Asked, int], allowed: list[Array], n_query: int, k: int
) -> tuple[SearchWorkspace, int]:
    """The k best of the allowed documents: a workspace, and how many entries its heap has."""
    main = ranker.main
    if main is None or not all(_is_word_of(main, asked) for asked in scored):
        return _best_of_sums(ranker, scored, allowed, n_query, k)
    counts = Counter({part[0][0]: 0 for part, _ in scored})
    for (part, _), count in scored.items():
        counts[part[0][0]] += count
    return _best_of_words(ranker, main, counts, allowed, n_query, k)


def _asked(clause: ClauseTerms) -> list[Asked]:
    """All terms of a phrase together, or each word on its own."""
    if clause.is_phrase:
        first = clause.terms[0][1]
        return [(tuple((term, position - first) for term, position in clause.terms), clause.clause.field)]
    return [(((term, 0),), clause.clause.field) for term, _ in clause.terms]


def _is_word_of(main: PostingSource, asked: Asked) -> bool:
    part, name = asked
    return len(part) == 1 and (name is None or name == main.field.name)


def _fields(ranker: Ranker, name: str | None) -> Mapping[str, float]:
    return ranker.fields if name is None else {name: ranker.fields.get(name, 1.0 / ranker.scale)}


def _language_model_parts(ranker: Ranker, clauses: list[ClauseTerms]) -> tuple[int, float]:
    """How often a score has the prior of its document, and what all scores have: of terms that a document has."""
    n_query, add = 0, 0.0
    if not ranker.weighting.has_prior or ranker.main is None:
        return n_query, add
    for clause in clauses:
        if clause.clause.must_not or clause.clause.field not in (None, ranker.main.field.name):
            continue
        for part, _ in _asked(clause):
            statistics = ranker.main.field.part_statistics(part)
            if statistics.df:
                n_query += 1
                add += ranker.weighting.constant(statistics)
    return n_query, add


def allowed_documents(ranker: Ranker, clauses: list[ClauseTerms]) -> list[Array]:
    """Per segment and document whether it meets the conditions; empty without any."""
    musts = dict.fromkeys(asked for clause in clauses if clause.clause.must for asked in _asked(clause))
    nots = dict.fromkeys(asked for clause in clauses if clause.clause.must_not for asked in _asked(clause))
    if not musts and not nots:
        return [ANY] * len(ranker.index.segments)
    result = []
    for segment_number, segment in enumerate(ranker.index.segments):
        met = np.zeros(segment.n_documents, np.int32)  # conditions, in their order
        for number, (part, name) in enumerate(musts):
            for field in _fields(ranker, name):
                meet_condition(ranker.index.field(field).segment_postings(part, segment_number)[0], number, met)
        for part, name in nots:
            for field in _fields(ranker, name):
                met[ranker.index.field(field).segment_postings(part, segment_number)[0]] = -1
        result.append(met == len(musts))
    return result


def _best_of_words(
    ranker: Ranker, source: PostingSource, counts: Mapping[str, int], allowed: list[Array], n_query: int, k: int
) -> tuple[SearchWorkspace, int]:
    """Words in one field: its own tables."""
    prepared = [(lists, count) for term, count in counts.items() if (lists := source.prepare(term)) is not None]
    n_words = sum(count for _, count in prepared)
    work = ranker.workspace(k, len(prepared), n_words * source.largest >= 2**32)
    return work, ranker.search_lists(source, prepared, n_query, allowed, work)


def _best_of_sums(
    ranker: Ranker, scored: Mapping[Asked, int], allowed: list[Array], n_query: int, k: int
) -> tuple[SearchWorkspace, int]:
    """Anything: the scores of all documents."""
    index, work, n = ranker.index, ranker.workspace(k, 0), 0
    sums = [np.zeros(segment.n_documents, np.int64) for segment in index.segments]
    zeros = [np.zeros(len(segment_sums)) for segment_sums in sums] if isinstance(ranker.weighting, BM25F) else []
    for asked, count in scored.items():
        for lists in _lists_of(ranker, asked, zeros):
            for (docs, impacts), segment_sums in zip(lists, sums):
                add_impacts(docs, impacts, count, segment_sums)
    for number, segment_sums in enumerate(sums):
        prior = _NO_PRIOR if ranker.main is None else ranker.main.priors[number]
        n = push_documents(
            segment_sums, prior, n_query, allowed[number], index.ranks[number], work.scores, work.best, n
        )
    return work, n


def _lists_of(ranker: Ranker, asked: Asked, zeros: list[Array]) -> Iterator[Lists]:
    """One list per searched field, or one for all fields in bm25f; each with a part per segment."""
    part, name = asked
    if name is None and isinstance(ranker.weighting, BM25F):
        yield _joint_lists(ranker, ranker.weighting, part, zeros)
        return
    for field, weight in _fields(ranker, name).items():
        source = ranker.posting_source(field, weight)
        yield source.phrase_lists(part) if len(part) > 1 else _term_lists(source, part[0][0])


def _term_lists(source: PostingSource, term: str) -> Lists:
    """Views of the lists that the source keeps."""
    prepared = source.prepare(term)
    result: Lists = []
    for number, table in zip(prepared or (), source.tables):
        start, end = int(table.facts[number, START]), int(table.facts[number, END])
        result.append((table.docs[start:end], table.impacts[start:end]))
    return result


def _joint_lists(ranker: Ranker, weighting: BM25F, part: Part, zeros: list[Array]) -> Lists:
    """bm25f: the fields' frequencies, relative to their lengths, are added before they saturate."""
    joint = [
        _joint_frequencies(ranker, weighting, part, number, segment_zeros) for number, segment_zeros in enumerate(zeros)
    ]
    df = sum(len(docs) for docs, _ in joint)
    if df == 0:
        return []
    idf = weighting.idf(ranker.index.n_documents, df) / ranker.scale
    return [
        (docs, np.maximum(1, np.rint(saturated(idf, tf, weighting.k1) * UNITS)).astype(np.uint32)) for docs, tf in joint
    ]


def _joint_frequencies(ranker: Ranker, weighting: BM25F, part: Part, number: int, zeros: Array) -> tuple[Array, Array]:
    """Documents of a segment that have the part in any field, in any order, and their weighted sums of frequencies.

    `zeros`: (documents,) where the sums are made; left as zeros.
    """
    docs = []
    for name, weight in ranker.fields.items():
        field = ranker.index.field(name)
        field_docs, tfs = field.segment_postings(part, number)
        docs.append(field_docs[zeros[field_docs] == 0.0])
        lengths, average = field.postings_by_segment[number].lengths[field_docs], field.average_length or 1.0
        relative = document_number(SHIFTED, 1.0, weighting.b, average, lengths, lengths)
        zeros[field_docs] += weight * ranker.scale * tfs / relative
    joined = np.concatenate(docs)
    sums = zeros[joined]
    zeros[joined] = 0.0
    return joined, sums


@bare_kernel
def meet_condition(docs: Array, number: int, met: Array) -> None:
    """Documents that have met conditions 0:number, and are among these, have met this one too."""
    for i in range(len(docs)):
        if met[docs[i]] == number:
            met[docs[i]] = number + 1


@bare_kernel
def add_impacts(docs: Array, impacts: Array, count: int, sums: Array) -> None:
    """Add a list, as often as it is in the query, to the scores of all documents of a segment."""
    for i in range(len(docs)):
        sums[docs[i]] += np.int64(impacts[i]) * count


@bare_kernel
def push_documents(
    sums: Array, prior: Array, n_query: int, allowed: Array, ranks: Array, scores: Array, best: Array, n: int
) -> int:
    """Push the documents with any impact into the heap (scores, best) of n entries; returns the new n.

    Arguments are those of `best_of_segment`.
    """
    for doc in range(len(sums)):
        score = sums[doc]
        if score == 0 or (len(allowed) and not allowed[doc]):
            continue
        if len(prior):
            score += n_query * prior[doc]
        n = push(scores, best, n, score, doc if len(ranks) == 0 else ranks[doc])
    return n
