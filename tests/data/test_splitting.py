"""Splitting by query: every query in one part, its rows in their order, with all that belongs to them."""

import re

import numpy as np
import pytest

from podium.data.ranking import RankingData


def make_data(rng, n_queries=10):
    qid = rng.permutation(np.repeat([f"q{number}" for number in range(n_queries)], 3))
    rows = np.arange(len(qid))
    X = np.stack([rows, rng.normal(size=len(qid))], axis=1).astype(np.float32)
    weights = {"sample_weight": 1 + rows, "query_weight": 1 + np.arange(n_queries)}
    return RankingData.from_arrays(X, rows % 3, qid, docids=[f"d{row}" for row in rows], **weights)


def test_each_query_is_in_one_part_whole_and_in_the_order_of_its_rows(rng):
    data = make_data(rng)
    parts = data.split({"train": 0.6, "valid": 0.2, "test": 0.2}, seed=3)
    assert [part.n_queries for part in parts.values()] == [6, 2, 2]
    ids = [query for part in parts.values() for query in part.query_ids]
    assert sorted(ids) == sorted(data.query_ids)
    for part in parts.values():
        rows = part.X[:, 0].astype(int)  # where they were
        assert (np.diff(rows) > 0).all()
        assert rows.tolist() == np.flatnonzero(np.isin(data.qid, part.query_ids)).tolist()
        assert part.docids.tolist() == [f"d{row}" for row in rows]
        assert part.sample_weight.tolist() == (1 + rows).tolist()
        numbers = [data.query_ids.tolist().index(query) for query in part.query_ids]
        assert part.query_weight.tolist() == [1 + number for number in numbers]


def test_the_seed_and_nothing_else_draws(rng):
    data = make_data(rng)
    names = [data.split({"a": 0.5, "b": 0.5}, seed=seed)["a"].query_ids.tolist() for seed in (0, 0, 1)]
    assert names[0] == names[1] != names[2]


@pytest.mark.parametrize(
    ("n_queries", "shares", "sizes"),
    [
        (10, (0.25, 0.25, 0.5), [3, 2, 5]),  # ends 2.5, 5 and 10
        (7, (0.7, 0.2, 0.1), [5, 1, 1]),  # 4.9, 6.3 and 7
        (3, (1 / 3, 1 / 3, 1 / 3), [1, 1, 1]),
        (10, (0.5, 0.1), [5, 1]),  # four queries are in no part
        (1, (1.0,), [1]),
    ],
)
def test_ends_of_parts_are_rounded(n_queries, shares, sizes, rng):
    parts = make_data(rng, n_queries).split({str(number): share for number, share in enumerate(shares)})
    assert [part.n_queries for part in parts.values()] == sizes


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({}, "parts must be shares by name"),
        ([0.8, 0.2], "parts must be shares by name"),
        ({"a": 0.0}, "the share of 'a' must be above 0 and at most 1; got 0.0"),
        ({"a": 80}, "the share of 'a' must be above 0 and at most 1; got 80"),
        ({"a": True}, "the share of 'a' must be above 0"),
        ({"a": "half"}, "the share of 'a' must be above 0"),
        ({"a": np.nan}, "the share of 'a' must be above 0"),
        ({"a": 0.8, "b": 0.4}, "at most 1; got 1.2. Divide each by 1.2"),
        ({"a": 0.97, "b": 0.03}, "'b' has no query: 0.03 of 10 queries. Give it a larger share"),
    ],
)
def test_shares_that_make_no_parts_are_refused(parts, message, rng):
    with pytest.raises(ValueError, match=re.escape(message)):
        make_data(rng).split(parts)


def test_folds_of_letor_turn_five_parts(rng):
    data = make_data(rng, 20)
    folds = [[set(part.query_ids) for part in fold] for fold in data.letor_folds(seed=1)]
    tests = [test for _, _, test in folds]
    assert len(folds) == 5
    assert set().union(*tests) == set(data.query_ids)
    assert sum(map(len, tests)) == 20
    for number, (train, valid, test) in enumerate(folds):
        assert train | valid | test == set(data.query_ids)
        assert len(train) == 12
        assert valid == tests[number - 1]  # S4 validates in fold 1 and is tested in fold 5
    for k in (2, 21):
        with pytest.raises(ValueError, match=r"k must be from 3 .* to the number of queries \(20\)"):
            list(data.letor_folds(k))
