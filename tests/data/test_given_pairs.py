"""Given pairs: the caller's rows become grouped rows, pairs split into two directions, errors name the pair."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from podium.data.given_pairs import GivenPairs
from podium.data.ranking import RankingData


def data_of(qid):
    return RankingData.from_arrays(np.zeros((len(qid), 1)), qid=qid)


def read(pairs, qid):
    data = data_of(qid)
    return GivenPairs.read(pairs, data.rows, data.offsets)


@st.composite
def worlds(draw):
    """Query ids in any order, and pairs of rows of one query with probabilities and weights, some of them 0."""
    qid = np.array(draw(st.lists(st.integers(0, 3), min_size=2, max_size=12)))
    allowed = [(i, j) for i in range(len(qid)) for j in range(len(qid)) if i != j and qid[i] == qid[j]]
    pairs = draw(st.lists(st.sampled_from(allowed), min_size=1, max_size=15)) if allowed else []
    share = st.sampled_from([0.0, 0.25, 0.5, 1.0])
    return qid, [(i, j, draw(share), draw(st.sampled_from([0.0, 1.0, 3.0]))) for i, j in pairs]


@given(world=worlds())
def test_pairs_are_sorted_by_query_and_keep_their_order_in_it(world):
    qid, pairs = world
    if not any(w for *_, w in pairs):
        with pytest.raises(ValueError, match="so there is nothing to learn from"):
            read(tuple(zip(*pairs)) or ([], []), qid)
        return
    data, result = data_of(qid), read(tuple(map(list, zip(*pairs))), qid)
    mean = np.mean([w for *_, w in pairs if w > 0])
    for query, name in enumerate(data.query_ids):
        part = slice(result.starts[query], result.starts[query + 1])
        rows = zip(data.rows[result.first[part]], data.rows[result.second[part]], result.target[part])
        assert list(rows) == [(i, j, p) for i, j, p, _ in pairs if qid[i] == name]
        expected = [w / mean for i, *_, w in pairs if qid[i] == name]
        np.testing.assert_allclose(result.weight[part], expected, rtol=1e-12)
    assert result.queries.tolist() == data.query_numbers[data.rows][result.first].tolist()


@given(world=worlds())
def test_a_pair_is_its_first_document_above_the_second_and_the_reverse(world):
    qid, pairs = world
    if not any(w for *_, w in pairs):
        return
    pairs_read = read(tuple(map(list, zip(*pairs))), qid)
    expected = []
    for query in range(pairs_read.n_queries):
        for k in range(pairs_read.starts[query], pairs_read.starts[query + 1]):
            i, j, p, w = (getattr(pairs_read, part)[k] for part in ("first", "second", "target", "weight"))
            expected += [(query, a, b, x) for a, b, x in ((i, j, p * w), (j, i, (1 - p) * w)) if x > 0]
    better, worse, weight, starts = pairs_read.directed()
    query = np.repeat(np.arange(pairs_read.n_queries), np.diff(starts))
    assert list(zip(query, better, worse, weight)) == expected


def test_probabilities_and_weights_are_1_if_they_are_left_out():
    for pairs in (([0, 1], [1, 0]), ([0, 1], [1, 0], [1, 1]), ([0, 1], [1, 0], [1, 1], [7, 7])):
        result = read(pairs, [5, 5])
        assert (result.target.tolist(), result.weight.tolist()) == ([1, 1], [1, 1])


def test_weights_of_documents_and_queries_multiply():
    pairs = read(([0, 2], [1, 3], [1, 1], [1, 3]), [1, 1, 2, 2])  # scaled: 1/2 and 3/2
    weighted = pairs.weighted(np.array([2.0, 3.0, 1.0, 5.0]), np.array([7.0, 11.0]))
    np.testing.assert_allclose(weighted.weight, [2 * 3 * 7 / 2, 1 * 5 * 11 * 3 / 2], rtol=1e-12)
    with pytest.raises(ValueError, match="the weight of every pair is 0"):
        pairs.weighted(np.array([0.0, 1.0, 1.0, 0.0]), None)


def test_what_is_taken_stays_with_its_query():
    pairs = read(([0, 1, 3, 4], [1, 0, 4, 3], [0.1, 0.2, 0.3, 0.4]), [1, 1, 2, 3, 3])
    taken = pairs.take(np.array([1, 3]))
    assert (taken.target.tolist(), taken.starts.tolist()) == ([0.2, 0.4], [0, 1, 1, 2])


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        (np.array([[0, 1], [1, 0]]), "one list each; got ndarray"),
        ("01", "one list each; got str"),
        (([0], [1], [1], [1], [1]), "one list each; got 5 lists"),
        (([0, -1], [1, 0]), r"i must be row numbers of X, from 0 to 4 \(5 rows\); i\[1\] is -1"),
        (([0], [2**63]), r"j\[0\] is 9223372036854775808"),
        (([0.0], [1]), "i must be a list of row numbers; got float64"),
        (([[0]], [[1]]), r"of shape \(1, 1\)"),
        (([0, 0], [1, 3]), "a pair must be two documents of one query; pair 1 has rows 0 and 3"),
        (([0, 1], [1, 1]), "pair 1 has rows 1 and 1"),
        (([0], [1], [np.nan]), r"p must be from 0 to 1; p\[0\] is nan"),
        (([0], [1], ["x"]), "p must hold one number per pair"),
        (([0], [1], [1j]), "complex"),
        (([0], [1], [1], [-1]), r"weight must be finite and not negative; weight\[0\] is -1"),
        (([0], [1], [1], [np.inf]), r"weight\[0\] is inf"),
        (([0], [1], [1], [1, 1]), "as long as one another"),
        (([0], [1], [1], [0]), "the weight of every pair is 0"),
        (([], []), "there are 0 pairs"),
        (([0, 0], [1, 1], [1, 1], [1, 1e13]), "may differ by a factor of at most 1e"),
    ],
)
def test_pairs_that_make_no_sense_are_refused(pairs, message):
    with pytest.raises(ValueError, match=message):
        read(pairs, [1, 1, 1, 2, 2])
