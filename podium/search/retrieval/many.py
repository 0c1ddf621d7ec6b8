"""Many queries at once: their words are split and looked up together, and one call of compiled code searches for all.

Each query has the result that it has alone. What is left to Python per query is a few hundred nanoseconds, so that
threads do not wait for each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from podium._runtime.compiler import Array, bare_kernel
from podium._runtime.threads import map_blocks, usable_threads
from podium.data.texts import Texts
from podium.search.analysis.words import Vocabulary
from podium.search.retrieval.syntax import is_plain
from podium.search.retrieval.terms import MOST_TERMS
from podium.search.retrieval.topk import UNITS, best_of_segment, sort_heap

if TYPE_CHECKING:
    from podium.search.retrieval.ranking import BestDocuments, PostingSource, Ranker

_MOST_QUERIES, _FEWEST_QUERIES = 256, 16  # per block
_MOST_RESULTS = 1 << 20  # of a block
_BLOCKS_PER_THREAD = 4
_MOST_WORDS = 64  # of a query that is searched for here: its words are compared with each other
_NO_PRIOR, _ANY, _IN_ORDER = np.empty(0, np.int64), np.empty(0, bool), np.empty(0, np.int64)


def search_many(ranker: Ranker, texts: Sequence[str], k: int, n_jobs: int | None = None) -> list[BestDocuments]:
    """What `ranker.search` finds for each text."""
    share = len(texts) // (_BLOCKS_PER_THREAD * usable_threads(n_jobs))
    size = max(1, min(max(share, _FEWEST_QUERIES), _MOST_QUERIES, _MOST_RESULTS // k))
    source = ranker.batch_source

    def block(number: int) -> list[BestDocuments]:
        block_texts = texts[number * size : (number + 1) * size]
        if source is None:
            return [ranker.search(text, k) for text in block_texts]
        return _search_block(ranker, source, block_texts, k)

    parts = map_blocks(block, -(-len(texts) // size), n_jobs)
    return [ranked for part in parts for ranked in part]


def _search_block(ranker: Ranker, source: PostingSource, texts: Sequence[str], k: int) -> list[BestDocuments]:
    lists, ends, n_words = _lists(ranker, source, texts)
    most = _most_words(source)
    apart = np.flatnonzero((np.diff(ends, prepend=0) > most) | (n_words > MOST_TERMS)).tolist()
    if not is_plain(" ".join(texts)):
        apart += [query for query, text in enumerate(texts) if not is_plain(text)]
    results = _search_lists(ranker, source, lists, ends, k, most)
    for query in apart:
        results[query] = ranker.search(texts[query], k)
    return results


def _most_words(source: PostingSource) -> int:
    """Of queries whose scores, in units, are below 2**32."""
    return min(_MOST_WORDS, (2**32 - 1) // max(source.largest, 1))


def _lists(ranker: Ranker, source: PostingSource, texts: Sequence[str]) -> tuple[Array, Array, Array]:
    """The list of each word of each text that has one, where those of a text end, and the number of its words."""
    vocabulary = Vocabulary()
    words, ends = vocabulary.numbers(texts)
    lists_of_words = [ranker.lists_of(source, word) for word in vocabulary.words()]
    numbers = np.array([-1 if lists is None else lists[0] for lists in lists_of_words], np.int64)[words]
    n_before = np.concatenate([[0], np.cumsum(numbers >= 0)])
    return numbers[numbers >= 0], n_before[ends], np.diff(ends, prepend=0)


def _search_lists(
    ranker: Ranker, source: PostingSource, lists: Array, ends: Array, k: int, most: int
) -> list[BestDocuments]:
    n, table, work = len(ends), source.tables[0], ranker.workspace(k, most)
    documents, scores, bounds = np.empty(n * k, np.int64), np.empty(n * k), np.zeros(n + 1, np.int64)
    search_queries(
        lists, ends, most, table.facts, table.docs, table.impacts, table.block_maxima, table.directory, table.hints,
        table.n_documents, _NO_PRIOR, _ANY, _IN_ORDER, work.terms, work.counts, work.lists, work.window, work.scores,
        work.best, documents, scores, bounds,
    )  # fmt: skip
    ranker.return_workspace(work)
    documents, values = documents[: bounds[-1]].copy(), (scores[: bounds[-1]] * ranker.scale).tolist()
    ids = _names(ranker.names, documents)
    places = bounds.tolist()
    return [(documents[a:b], values[a:b], ids[a:b]) for a, b in pairwise(places)]


def _names(ids: Texts, documents: Array) -> list[str]:
    """The ids of documents. All are decoded at once: no id has a NUL."""
    sizes = ids.offsets[documents + 1] - ids.offsets[documents]
    names = np.empty(int(sizes.sum()) + len(documents), np.uint8)
    write_names(documents, ids.data, ids.offsets, names)
    return str(names.data, "utf-8", "surrogateescape").split("\0")[:-1]


@bare_kernel
def write_names(documents: Array, id_data: Array, id_offsets: Array, names: Array) -> None:
    """The ids of documents, a NUL behind each."""
    used = 0
    for i in range(len(documents)):
        for byte in range(id_offsets[documents[i]], id_offsets[documents[i] + 1]):
            names[used] = id_data[byte]
            used += 1
        names[used] = 0
        used += 1


@bare_kernel
def search_queries(
    query_lists: Array,
    ends: Array,
    most: int,
    facts: Array,
    docs: Array,
    impacts: Array,
    block_maxima: Array,
    directory: Array,
    hints: Array,
    n_documents: int,
    prior: Array,
    allowed: Array,
    ranks: Array,
    terms: Array,
    counts: Array,
    lists: Array,
    window: Array,
    scores: Array,
    best: Array,
    documents: Array,
    values: Array,
    bounds: Array,
) -> None:
    """`best_of_segment` for each query: documents and scores, best first; those of query q are bounds[q]:bounds[q + 1].

    Query q has the lists query_lists[ends[q - 1] : ends[q]]; with more than `most` of them it is left out.
    """
    begin, used = 0, 0
    for query in range(len(ends)):
        n_terms, end = 0, ends[query]
        for row in range(begin, end if end - begin <= most else begin):
            term = 0
            while term < n_terms and terms[term] != query_lists[row]:
                term += 1
            if term == n_terms:
                terms[term], counts[term] = query_lists[row], 0
                n_terms += 1
            counts[term] += 1
        n = best_of_segment(
            terms, counts, n_terms, facts, docs, impacts, block_maxima, directory, hints, n_documents, prior, 0,
            allowed, ranks, lists, window, scores, best, 0,
        )  # fmt: skip
        sort_heap(scores, best, n)
        for row in range(n):
            documents[used], values[used] = best[row], scores[row] / UNITS
            used += 1
        begin, bounds[query + 1] = end, used
