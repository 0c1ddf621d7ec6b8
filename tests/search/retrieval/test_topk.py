"""Top-k: exactly the documents, order and scores of adding up every list, whatever can be skipped."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podium.search.retrieval.impacts import ImpactTable
from podium.search.retrieval.topk import NOTHING, ROWS, WINDOW, best_of_segment, sort_heap


def table_of_lists(lists, n_documents):
    """A table of lists (documents, impacts), one after the other."""
    table = ImpactTable(np.concatenate([docs for docs, _ in lists]), len(lists), n_documents)
    ends = np.cumsum([len(docs) for docs, _ in lists]).tolist()
    for term, ((_, impacts), start, end) in enumerate(zip(lists, [0, *ends], ends)):
        table.impacts[start:end] = impacts
        if end > start:
            table.set_list(term, start, end)
    return table


def found(lists, counts, n, k, *, prior=None, n_query=0, allowed=None, dtype=np.uint32):
    table = table_of_lists(lists, n)
    window = np.zeros(WINDOW, dtype)
    scores, best = np.zeros(k, np.int64), np.zeros(k, np.int64)
    filled = best_of_segment(
        np.arange(len(lists)), np.array(counts, np.int64), len(lists), table.facts, table.docs, table.impacts,
        table.block_maxima, table.directory, table.hints, n, np.empty(0, np.int64) if prior is None else prior, n_query,
        np.empty(0, bool) if allowed is None else allowed, np.empty(0, np.int64),
        np.zeros((ROWS, len(lists) + 1), np.int64), window, scores, best, 0,
    )  # fmt: skip
    assert not window.any()
    sort_heap(scores, best, filled)
    return list(zip(best[:filled].tolist(), scores[:filled].tolist()))


def exhaustive(lists, counts, n, k, *, prior=None, n_query=0, allowed=None):
    total = np.zeros(n, np.int64)
    for (docs, impacts), count in zip(lists, counts):
        total[docs] += impacts.astype(np.int64) * count
    chosen = np.flatnonzero(total > 0)
    if allowed is not None:
        chosen = chosen[allowed[chosen]]
    scores = total + (0 if prior is None else n_query * prior)
    pairs = sorted((-int(scores[doc]), int(doc)) for doc in chosen)
    return [(doc, -score) for score, doc in pairs[:k]]


def random_lists(rng, n, n_lists, largest):
    lists = []
    for _ in range(n_lists):
        share = 10.0 ** rng.uniform(-4, 0)
        docs = np.flatnonzero(rng.random(n) < share).astype(np.uint32)
        lists.append((docs, rng.integers(1, largest + 1, len(docs)).astype(np.uint32)))
    return lists


@settings(max_examples=60)
@given(
    seed=st.integers(0, 2**32),
    n=st.sampled_from([1, 2, 130, WINDOW, WINDOW + 1, 3 * WINDOW - 5, 40_000]),
    n_lists=st.integers(1, 12),
    k=st.sampled_from([1, 3, 10, 11, 1000]),
    largest=st.sampled_from([1, 3, 1000, 2**24]),
    conditions=st.sampled_from(["none", "prior", "allowed", "both"]),
)
def test_pruned_equals_exhaustive(seed, n, n_lists, k, largest, conditions):
    rng = np.random.default_rng(seed)
    lists, counts = random_lists(rng, n, n_lists, largest), rng.integers(1, 4, n_lists).tolist()
    options = {}
    if conditions in ("prior", "both"):
        options |= {"prior": -rng.integers(0, max(2, largest), n), "n_query": sum(counts)}
    if conditions in ("allowed", "both"):
        options |= {"allowed": rng.random(n) < 0.5}
    assert found(lists, counts, n, k, **options) == exhaustive(lists, counts, n, k, **options)


def test_dense_windows_with_many_ties():
    rng, n = np.random.default_rng(5), 3 * WINDOW
    lists = [(np.flatnonzero(rng.random(n) < 0.6).astype(np.uint32),) for _ in range(4)]
    lists = [(docs, np.full(len(docs), 1 + place % 2, np.uint32)) for place, (docs,) in enumerate(lists)]
    for k in (1, 10, 500):
        assert found(lists, [1] * 4, n, k) == exhaustive(lists, [1] * 4, n, k)


def test_deleted_documents_have_no_impact_and_are_not_found():
    docs, impacts = np.array([0, 3, 5], np.uint32), np.array([7, 0, 2], np.uint32)
    assert found([(docs, impacts)], [1], 6, 10) == [(0, 7), (5, 2)]
    assert found([(docs, np.zeros(3, np.uint32))], [1], 6, 10) == []


def test_scores_beyond_32_bits_need_wider_accumulators():
    docs = np.arange(50, dtype=np.uint32)
    lists = [(docs, np.full(50, 2**32 - 1, np.uint32))] * 5
    assert found(lists, [3] * 5, 50, 2, dtype=np.uint64) == [(0, 15 * (2**32 - 1)), (1, 15 * (2**32 - 1))]


@pytest.mark.parametrize("k", [1, 2, 7, 64])
def test_sort_heap_orders_what_push_collected(k):
    from podium.search.retrieval.topk import push

    rng = np.random.default_rng(k)
    scores, ranks, n = np.full(k, NOTHING), np.zeros(k, np.int64), 0
    values = rng.integers(0, 9, 100)
    for rank in rng.permutation(100):
        n = push(scores, ranks, n, int(values[rank]), int(rank))
    sort_heap(scores, ranks, n)
    expected = sorted(range(100), key=lambda rank: (-values[rank], rank))[:k]
    assert ranks.tolist() == expected
