"""Postings: inverting tokens gives what counting them one by one does, in any number of blocks."""

from collections import defaultdict

import numpy as np
import pytest

from podium.search.index import postings
from podium.search.index.postings import Tokens, invert


def counted(documents):
    """{term: {document: positions}} of lists of terms, -1 for none."""
    found = defaultdict(lambda: defaultdict(list))
    for number, terms in enumerate(documents):
        for position, term in enumerate(terms):
            if term >= 0:
                found[term][number].append(position)
    return {term: dict(docs) for term, docs in found.items()}


def listed(found):
    """The same of Postings."""
    result, place = {}, 0
    for term in range(found.n_terms):
        start, end = found.starts[term : term + 2]
        assert found.places[term] == place
        for doc, tf in zip(found.docs[start:end].tolist(), found.tfs[start:end].tolist()):
            result.setdefault(term, {})[doc] = found.positions[place : place + tf].tolist()
            place += tf
    assert place == found.places[-1] == len(found.positions)
    return result


@pytest.mark.parametrize("blocks", [1, 2, 3, 7])
def test_postings_are_the_documents_of_each_term(rng, monkeypatch, blocks):
    monkeypatch.setattr(postings, "_blocks_for", lambda n_tokens, n_terms: blocks)
    for n in (0, 1, 5, 40):
        documents = [rng.integers(-1, 6, rng.integers(0, 12)).tolist() for _ in range(n)]
        order = rng.permutation(n)[: max(1, n - 2)]
        ends = np.cumsum([len(terms) for terms in documents], dtype=np.int64)
        tokens = Tokens(np.array([term for terms in documents for term in terms], np.int32), ends)
        found = invert(tokens, order, 6)
        chosen = [documents[number] for number in order.tolist()]
        assert listed(found) == counted(chosen)
        assert found.lengths.tolist() == [sum(term >= 0 for term in terms) for terms in chosen]
        assert found.uniques.tolist() == [len(set(terms) - {-1}) for terms in chosen]
        without = invert(tokens, order, 6, positions=False)
        assert len(without.positions) == len(without.places) == 0
        assert without.docs.tolist() == found.docs.tolist()


def test_joined_tokens_get_new_numbers_and_keep_their_gaps(rng):
    parts = [rng.integers(-1, 5, size).astype(np.int32) for size in (4, 0, 7)]
    numbers = np.array([3, -1, 0, 4, 1, -1], np.int32)  # the last one is for -1
    tokens = Tokens.joined([Tokens(part, np.array([2, len(part)])) for part in parts], numbers)
    assert tokens.terms.tolist() == [numbers[number] for part in parts for number in part.tolist()]
    assert tokens.ends.tolist() == [2, 4, 6, 4, 6, 11]


def test_blocks_take_no_more_memory_than_the_tokens(monkeypatch):
    monkeypatch.setattr(postings, "usable_threads", lambda n_jobs: 8)
    assert postings._blocks_for(10**8, 10**5) == 8
    assert postings._blocks_for(10**8, 10**6) == 8
    assert postings._blocks_for(10**7, 10**6) == 1
    assert postings._blocks_for(0, 0) == 1
