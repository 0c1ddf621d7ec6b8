"""Pools for judging, and how alike runs are, against plain loops and what a reader can repeat."""

import math

import numpy as np
import oracles
import pytest

from podium.formats.trec import Qrels, Run
from podium.runs import overlap, pool


def some_runs(rng, n_runs=3, grid=None):
    runs = []
    for _ in range(n_runs):
        names = {f"q{q}": [f"d{k}" for k in range(12) if rng.random() < 0.6] or ["d0"] for q in rng.permutation(4)}
        scores = (lambda: float(rng.random())) if grid is None else (lambda: float(rng.integers(grid)))
        runs.append({query: {name: scores() for name in inner} for query, inner in names.items()})
    return runs


@pytest.mark.parametrize("depth", [1, 3, 100])
@pytest.mark.parametrize("grid", [None, 3])
def test_a_pool_has_the_best_of_each_run_without_what_is_judged(depth, grid, rng):
    runs = some_runs(rng, grid=grid)
    judged = {"q0": {"d1": 0, "d2": 1, "d3": -1}, "other": {"d1": 1}}
    found = pool([Run.from_dict(run) for run in runs], depth, qrels=Qrels.from_dict(judged))
    expected, ranks, n_judged = {}, {}, 0
    for query in runs[0]:
        tops = [oracles.ranked_ids(run[query])[:depth] for run in runs]
        names = sorted({name for top in tops for name in top})
        left = [name for name in names if judged.get(query, {}).get(name, -1) < 0]
        n_judged, expected[query] = n_judged + len(names) - len(left), left
        ranks |= {(query, name): [top.index(name) + 1 for top in tops if name in top] for name in left}
    assert found.to_dict() == expected
    rows = [(query, name) for query, names in expected.items() for name in names]
    assert found.best_rank.tolist() == [min(ranks[row]) for row in rows]
    assert found.n_runs.tolist() == [len(ranks[row]) for row in rows]
    assert found.n_judged == n_judged
    assert found.qrels.to_dict() == {query: dict.fromkeys(names, -1) for query, names in expected.items()}


@pytest.mark.parametrize("grid", [None, 3])
@pytest.mark.parametrize("p", [0.3, 0.9])
def test_overlap_is_that_of_plain_loops(p, grid, rng):
    runs = some_runs(rng, grid=grid)
    values = overlap([Run.from_dict(run) for run in runs], p=p)
    for (i, j), pair in zip([(0, 1), (0, 2), (1, 2)], values.per_query.values()):
        for q, query in enumerate(values.query_ids):
            one, other = runs[i][query], runs[j][query]
            expected = oracles.rank_biased_overlap(oracles.ranked_ids(one), oracles.ranked_ids(other), p)
            assert pair["rbo"][q] == pytest.approx(expected, abs=1e-12)
            names = sorted(one.keys() | other.keys())
            numbers = [[run.get(name, -math.inf) for name in names] for run in (one, other)]
            if all(len(set(values_of)) > 1 for values_of in numbers):
                assert pair["tau"][q] == pytest.approx(oracles.kendall_tau_b(*numbers), abs=1e-12)
            else:
                assert np.isnan(pair["tau"][q])
            assert pair["common"][q] == len(one.keys() & other.keys()) / len(names)


def test_the_example_of_a_run_and_its_reverse_can_be_repeated():
    one, other = {"a": 3, "b": 2, "c": 1}, {"a": 1, "b": 2, "c": 3}
    means = overlap([Run.from_dict({"q": one}), Run.from_dict({"q": other})], p=0.5).means
    # 0 of 1, 1 of 2 and 3 of 3 are common; behind the end all are
    assert means["run 1", "run 2"] == pytest.approx(
        {"rbo": 0.5 * (0 + 0.5 * 1 / 2 + 0.25 * 1) + 0.125, "tau": -1.0, "common": 1.0}
    )


def test_equal_runs_overlap_completely_and_others_not_at_all(rng):
    run, other = Run.from_dict(some_runs(rng)[0]), Run.from_dict({f"q{q}": {"x": 1.0} for q in range(4)})
    means = overlap({"a": run, "b": run, "c": other}).means
    assert means["a", "b"]["rbo"] == pytest.approx(1.0)
    assert means["a", "b"]["common"] == 1.0
    assert (means["a", "c"]["rbo"], means["a", "c"]["common"]) == (0.0, 0.0)


def test_queries_that_a_run_lacks():
    one, other = Run.from_dict({"q": {"a": 2, "b": 1}}), Run.from_dict({"r": {"a": 2, "b": 1}, "s": {}})
    values = overlap([one, other]).per_query["run 1", "run 2"]
    assert values["rbo"][:2].tolist() == [0.0, 0.0]
    assert np.isnan([values["rbo"][2], *values["tau"]]).all()


@pytest.mark.parametrize("p", [0, 1, 1.5, "0.9", True])
def test_p_is_between_0_and_1(p):
    run = Run.from_dict({"q": {"a": 1}})
    with pytest.raises(ValueError, match=f"p must be a number between 0 and 1, such as 0.9; got {p!r}"):
        overlap([run, run], p=p)


def test_a_pool_needs_a_run_and_a_depth():
    with pytest.raises(ValueError, match="pool needs 1 run or more; got 0"):
        pool([])
    with pytest.raises(ValueError, match="depth must be an integer from 1"):
        pool([Run.from_dict({"q": {"a": 1}})], 0)
