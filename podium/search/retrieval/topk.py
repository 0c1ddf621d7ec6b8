"""Top-k: the k best documents of a segment, exactly those of exhaustive scoring, without scoring all of them.

A list holds the documents that contain a term, ascending, and the impact of the term on each: an integer from 1, in
units of 2**-24 of a score (0: the document is deleted). The score of a document is the sum of its impacts, each times
how often the term is in the query. Sums of integers are exact, so neither the order of the terms nor what is skipped
can change a score. Equal scores are ranked by document number, which follows the ids of the documents.

MaxScore over windows of documents: with lists in descending order of their largest impact, a document that is only in
the last ones, whose maxima add up to less than the k-th best score so far, cannot be among the best. The other lists
are essential: they are added up, a window of documents at a time, in an array that stays in the processor's cache; the
rest are looked up for those documents that can still be among the best. Three tables per list make this quick:
- the largest impact per block of 128 postings: blocks are skipped once a single list is essential;
- hints, one byte per small range of documents, an upper bound of the impacts there: most documents that are not in a
  list, or not with a large impact, are dismissed without touching its postings;
- a directory of where the documents of a range begin: looking up a document then reads a few postings, not the path of
  a binary search.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from podium._runtime.compiler import Array, bare_kernel, inlined_bare_kernel, kernel

BLOCK = 128  # postings per block
RANGE = 4  # postings per range of the directory, on average
HINTS = 4  # hints per posting, at most
WINDOW = 8192  # documents per window: 32 KB of accumulators
TOP = 10  # the rank of the impact that is kept per list: a lower bound of the 10th best score
UNITS = 2.0**24  # of an impact, per 1
NOTHING = -(2**62)  # lower than any score
_CHUNK = 64  # accumulators that are compared at once
_DENSE = 8  # a window with more than 1 / 8 of its documents touched is scanned; otherwise its postings are read again

# Columns of `facts`, one row per list: its postings, its first block, directory entry and hint, how many bits of a
# document number are within a range of the directory and of a hint, the largest impact and the TOP-th largest.
START, END, BLOCKS, DIRECTORY, HINT, SHIFT, HINT_SHIFT, LARGEST, TENTH = range(9)
FACTS = 9
# Rows of `lists`, one column per list of the query: START to HINT_SHIFT, what one step of a hint is worth, the next
# posting and the one before this window, how often the term is in the query, what the list adds to a score at most,
# and the sum of this from a list on.
STEP, CURSOR, BEFORE, COUNT, BOUND, REST = range(7, 13)
ROWS = 13

Integer = Any  # int64 in compiled code


class _Search(NamedTuple):
    """What one search of a segment reads and fills, as in `best_of_segment`; compiled code makes and passes it on."""

    lists: Array
    n_lists: int
    docs: Array
    impacts: Array
    block_maxima: Array
    directory: Array
    hints: Array
    n_documents: int
    prior: Array
    n_query: int
    allowed: Array
    ranks: Array
    window: Array
    scores: Array
    best: Array


@bare_kernel
def push(scores: Array, ranks: Array, n: int, score: Integer, rank: Integer) -> int:
    """Add to a heap of at most len(scores) entries, the worst (lowest score, then largest rank) in front."""
    if n < len(scores):
        node = n
        n += 1
        while node > 0:
            parent = (node - 1) >> 1
            if scores[parent] < score or (scores[parent] == score and ranks[parent] > rank):
                break
            scores[node], ranks[node] = scores[parent], ranks[parent]
            node = parent
        scores[node], ranks[node] = score, rank
    elif score > scores[0] or (score == scores[0] and rank < ranks[0]):
        _sift(scores, ranks, n, score, rank)
    return n


@bare_kernel
def sort_heap(scores: Array, ranks: Array, n: int) -> None:
    """Best first: the worst goes to the end, n times."""
    for last in range(n - 1, 0, -1):
        score, rank = scores[last], ranks[last]
        scores[last], ranks[last] = scores[0], ranks[0]
        _sift(scores, ranks, last, score, rank)


@bare_kernel
def _sift(scores: Array, ranks: Array, n: int, score: int, rank: int) -> None:
    """Replace the front of a heap of n entries."""
    node = 0
    while True:
        child = 2 * node + 1
        if child >= n:
            break
        other = child + 1
        if other < n and (
            scores[other] < scores[child] or (scores[other] == scores[child] and ranks[other] > ranks[child])
        ):
            child = other
        if score < scores[child] or (score == scores[child] and rank > ranks[child]):
            break
        scores[node], ranks[node] = scores[child], ranks[child]
        node = child
    scores[node], ranks[node] = score, rank


@bare_kernel
def _shift_for(n_documents: int, n_ranges: int) -> int:
    """The fewest low bits of a document number that leave at most n_ranges (from 1) ranges of documents."""
    shift = 0
    while ((n_documents - 1) >> shift) + 1 > n_ranges:
        shift += 1
    return shift


@kernel
def prepare_list(
    term: int,
    docs: Array,
    impacts: Array,
    n_documents: int,
    facts: Array,
    block_maxima: Array,
    directory: Array,
    hints: Array,
    used: Array,
) -> None:
    """Fill facts[term], whose START and END are set, and its tables. used: (3,) entries of the tables so far."""
    start, end = facts[term, START], facts[term, END]
    facts[term, BLOCKS], facts[term, DIRECTORY], facts[term, HINT] = used[0], used[1], used[2]
    own_docs, own_impacts = docs[start:end], impacts[start:end]
    best, ranks, n = np.zeros(TOP, np.int64), np.zeros(TOP, np.int64), 0
    largest = np.uint32(0)
    for first in range(0, len(own_impacts), BLOCK):
        block = np.uint32(0)
        for i in range(first, min(first + BLOCK, len(own_impacts))):
            block = max(block, own_impacts[i])
            if n < TOP or own_impacts[i] > best[0]:
                n = push(best, ranks, n, np.int64(own_impacts[i]), 0)
        block_maxima[used[0]] = block
        used[0] += 1
        largest = max(largest, block)
    shift = _shift_for(n_documents, max(1, (end - start) // RANGE))
    n_ranges, entry = ((n_documents - 1) >> shift) + 1, 0
    for bucket in range(n_ranges):
        while entry < len(own_docs) and (np.int64(own_docs[entry]) >> shift) < bucket:
            entry += 1
        directory[used[1] + bucket] = entry
    directory[used[1] + n_ranges] = end - start
    used[1] += n_ranges + 1
    hint_shift = _shift_for(n_documents, max(1, (end - start) * HINTS))
    n_hints, step = ((n_documents - 1) >> hint_shift) + 1, _step(np.int64(largest))
    hints[used[2] : used[2] + n_hints] = 0
    for i in range(len(own_docs)):
        entry = used[2] + (np.int64(own_docs[i]) >> hint_shift)
        hints[entry] = max(hints[entry], (np.int64(own_impacts[i]) + step - 1) // step)
    used[2] += n_hints
    facts[term, SHIFT], facts[term, HINT_SHIFT], facts[term, LARGEST] = shift, hint_shift, np.int64(largest)
    facts[term, TENTH] = best[0] if n == TOP else 0


@inlined_bare_kernel
def _step(largest: Integer) -> Integer:
    """What one step of a hint is worth, such that no hint is above 255."""
    return max(1, (largest + 254) // 255)


@bare_kernel
def best_of_segment(
    terms: Array,
    counts: Array,
    n_terms: int,
    facts: Array,
    docs: Array,
    impacts: Array,
    block_maxima: Array,
    directory: Array,
    hints: Array,
    n_documents: int,
    prior: Array,
    n_query: int,
    allowed: Array,
    ranks: Array,
    lists: Array,
    window: Array,
    scores: Array,
    best: Array,
    n: int,
) -> int:
    """Merge the best documents of a segment into the heap (scores, best) of n entries; returns the new n.

    terms, counts: (n_terms,) the lists of the query, and how often each term is in it. prior: (documents,) of at most
    0, added to a score n_query times; allowed: (documents,) bool; ranks: (documents,) places among the documents
    of all segments; each may be empty. window: WINDOW zeros, and left as zeros. lists: (ROWS, n_terms + 1), scratch.
    """
    search = _Search(
        lists, _order_lists(terms, counts, n_terms, facts, lists), docs, impacts, block_maxima, directory, hints,
        n_documents, prior, n_query, allowed, ranks, window, scores, best,
    )  # fmt: skip
    need = NOTHING if len(prior) else 1
    if len(prior) == 0 and len(allowed) == 0 and len(scores) <= TOP:
        for j in range(n_terms):
            need = max(need, facts[terms[j], TENTH] * counts[j])
    essential, full, in_order = search.n_lists, len(scores), len(ranks) == 0
    while True:
        # Documents still to come have larger numbers: with one segment, an equal score is not enough for them.
        later = need
        if n == full:
            need = max(need, scores[0])
            later = max(need, scores[0] + 1 if in_order else scores[0])
        while essential > 0 and lists[REST, essential - 1] < later:
            essential -= 1
        if essential <= 1:
            break
        low = _next_document(lists, essential, docs)
        if low < 0:
            return n
        n = _add_window(low // WINDOW * WINDOW, search, essential, n, need)
    return _walk_list(search, n, later) if essential == 1 else n


@bare_kernel
def _order_lists(terms: Array, counts: Array, n_terms: int, facts: Array, lists: Array) -> int:
    """Fill `lists`, largest bound first, without empty lists."""
    n = 0
    for j in range(n_terms):
        term = terms[j]
        bound = facts[term, LARGEST] * counts[j]
        if bound == 0:
            continue
        column = n
        while column > 0 and lists[BOUND, column - 1] < bound:
            for row in range(ROWS):
                lists[row, column] = lists[row, column - 1]
            column -= 1
        for row in range(HINT_SHIFT + 1):
            lists[row, column] = facts[term, row]
        lists[STEP, column] = _step(facts[term, LARGEST]) * counts[j]
        lists[CURSOR, column], lists[COUNT, column], lists[BOUND, column] = facts[term, START], counts[j], bound
        n += 1
    rest = 0
    lists[REST, n] = 0
    for j in range(n - 1, -1, -1):
        rest += lists[BOUND, j]
        lists[REST, j] = rest
    return n


@bare_kernel
def _next_document(lists: Array, essential: int, docs: Array) -> Integer:
    """The first document ahead in an essential list; -1 without any."""
    low = np.int64(-1)
    for j in range(essential):
        if lists[CURSOR, j] < lists[END, j]:
            doc = np.int64(docs[lists[CURSOR, j]])
            if low < 0 or doc < low:
                low = doc
    return low


@inlined_bare_kernel
def _find(search: _Search, j: int, doc: Integer) -> Integer:
    """The first posting of list j whose document is not below `doc`."""
    lists, docs, directory = search.lists, search.docs, search.directory
    entry, start = lists[DIRECTORY, j] + (doc >> lists[SHIFT, j]), lists[START, j]
    low, high = start + np.int64(directory[entry]), start + np.int64(directory[entry + 1])
    while high - low > 2 * RANGE:
        middle = (low + high) >> 1
        if docs[middle] < doc:
            low = middle + 1
        else:
            high = middle
    while low < high and docs[low] < doc:
        low += 1
    return low


@bare_kernel
def _add_window(first: int, search: _Search, essential: int, n: int, need: int) -> int:
    """Add up the essential lists over documents first:first + WINDOW, and consider those that can be among the best."""
    lists, docs, impacts, window, scores = search.lists, search.docs, search.impacts, search.window, search.scores
    base, touched = np.uint32(first), 0
    for j in range(essential):
        start, end = lists[CURSOR, j], lists[END, j]
        if first + WINDOW < search.n_documents:
            end = _find(search, j, first + WINDOW)
        own_docs, own_impacts, count = docs[start:end], impacts[start:end], lists[COUNT, j]
        for i in range(len(own_docs)):
            window[own_docs[i] - base] += own_impacts[i] * count
        lists[BEFORE, j], lists[CURSOR, j] = start, end
        touched += end - start
    limit = max(1, need - lists[REST, essential])
    if touched * _DENSE > WINDOW:
        for chunk in range(0, WINDOW, _CHUNK):
            part = window[chunk : chunk + _CHUNK]
            largest = part[0]
            for i in range(_CHUNK):
                largest = max(largest, part[i])
            if largest >= limit:
                for i in range(_CHUNK):
                    if part[i] >= limit:
                        n = _consider(first + chunk + i, np.int64(part[i]), essential, search, n, need)
                        if n == len(scores) and scores[0] > need:
                            need = scores[0]
                            limit = max(1, need - lists[REST, essential])
        window[:] = 0
        return n
    for j in range(essential):
        own_docs = docs[lists[BEFORE, j] : lists[CURSOR, j]]
        for i in range(len(own_docs)):
            slot = own_docs[i] - base
            score = np.int64(window[slot])
            window[slot] = 0
            if score >= limit:
                n = _consider(np.int64(own_docs[i]), score, essential, search, n, need)
                if n == len(scores) and scores[0] > need:
                    need = scores[0]
                    limit = max(1, need - lists[REST, essential])
    return n


@bare_kernel
def _walk_list(search: _Search, n: int, need: int) -> int:
    """The documents of the one essential list, without the blocks whose largest impact is too small."""
    lists, docs, impacts, scores = search.lists, search.docs, search.impacts, search.scores
    posting, start, end, count = lists[CURSOR, 0], lists[START, 0], lists[END, 0], lists[COUNT, 0]
    rest, in_order = lists[REST, 1], len(search.ranks) == 0
    limit = max(1, need - rest)
    while posting < end:
        block = (posting - start) // BLOCK
        stop = min(start + (block + 1) * BLOCK, end)
        if np.int64(search.block_maxima[lists[BLOCKS, 0] + block]) * count >= limit:
            own_docs, own_impacts = docs[posting:stop], impacts[posting:stop]
            for i in range(len(own_docs)):
                score = np.int64(own_impacts[i]) * count
                if score >= limit:
                    n = _consider(np.int64(own_docs[i]), score, 1, search, n, need)
                    if n == len(scores) and scores[0] >= need:
                        need = scores[0] + 1 if in_order else scores[0]
                        limit = max(1, need - rest)
        posting = stop
    return n


@inlined_bare_kernel
def _consider(doc: Integer, score: Integer, essential: int, search: _Search, n: int, need: int) -> int:
    """Look a document up in the other lists, as long as it can reach `need`, and add it to the heap."""
    lists, ranks = search.lists, search.ranks
    if len(search.allowed) and not search.allowed[doc]:
        return n
    if len(search.prior):
        score += search.n_query * np.int64(search.prior[doc])
    bound = score
    for j in range(essential, search.n_lists):
        bound += np.int64(search.hints[lists[HINT, j] + (doc >> lists[HINT_SHIFT, j])]) * lists[STEP, j]
        if bound + lists[REST, j + 1] < need:
            return n
    for j in range(essential, search.n_lists):
        if score + lists[REST, j] < need:
            return n
        posting = _find(search, j, doc)
        if posting < lists[END, j] and search.docs[posting] == doc:
            score += np.int64(search.impacts[posting]) * lists[COUNT, j]
    if score < need:
        return n
    return push(search.scores, search.best, n, score, doc if len(ranks) == 0 else np.int64(ranks[doc]))


@bare_kernel
def collect(
    scores: Array, best: Array, n: int, add: float, id_data: Array, id_offsets: Array, values: Array, names: Array
) -> int:
    """Sort the heap, turn scores into numbers and write the ids of the documents, a NUL between two; their bytes.

    -1: `names` is too short.
    """
    sort_heap(scores, best, n)
    used = 0
    for rank in range(n):
        values[rank] = scores[rank] / UNITS + add
        start, end = id_offsets[best[rank]], id_offsets[best[rank] + 1]
        if used + end - start + 1 > len(names):
            return -1
        for byte in range(start, end):
            names[used] = id_data[byte]
            used += 1
        names[used] = 0
        used += 1
    return max(used - 1, 0)


@bare_kernel
def search_segment(
    terms: Array,
    counts: Array,
    n_terms: int,
    facts: Array,
    docs: Array,
    impacts: Array,
    block_maxima: Array,
    directory: Array,
    hints: Array,
    n_documents: int,
    prior: Array,
    n_query: int,
    allowed: Array,
    ranks: Array,
    lists: Array,
    window: Array,
    scores: Array,
    best: Array,
    add: float,
    id_data: Array,
    id_offsets: Array,
    values: Array,
    names: Array,
) -> tuple[int, int]:
    """`best_of_segment` and `collect` at once: (documents, bytes of their ids)."""
    n = best_of_segment(
        terms, counts, n_terms, facts, docs, impacts, block_maxima, directory, hints, n_documents, prior, n_query,
        allowed, ranks, lists, window, scores, best, 0,
    )  # fmt: skip
    return n, collect(scores, best, n, add, id_data, id_offsets, values, names)
