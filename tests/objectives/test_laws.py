"""Laws that every objective keeps, written once, by family."""

import os
import subprocess
import sys
import warnings
from dataclasses import FrozenInstanceError, fields, replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podium.objectives import OBJECTIVES, parse_objective

POINTWISE = [
    ("squared", {}),
    ("logistic", {}),
    ("logistic", {"alpha": 0.7, "relevant": 2.0}),
    ("ordinal", {"thresholds": (-1.0, 0.2, 0.5, 2.0)}),
]
PAIRWISE = [
    ("ranknet", {}),
    ("ranknet", {"sigma": 1.7}),
    ("hinge", {}),
    ("squared_hinge", {}),
    ("exponential", {}),
    ("ranknet", {"pair_exponent": 0.5}),
    ("hinge", {"pair_exponent": 1.0}),
]
METRICS = [
    "ndcg",
    "ndcg@3",
    "dcg@3",
    "map",
    "map@3",
    "rr",
    "rr@3",
    "err(rmax=4)",
    "err@3(rmax=4)",
    "rbp(0.7)",
    "p@3",
    "recall@3",
    "meanndcg",
    "auc",
    "inversions@4",
]
LAMBDAS = [
    *(("lambda", {"metric": metric}) for metric in METRICS),
    ("lambda", {"metric": "ndcg@3", "sigma": 2.0}),
    ("lambda", {"metric": "ndcg", "policy": "letor4"}),
    ("lambda", {"metric": "ndcg", "pair_exponent": 0.5}),
    ("lambda", {"metric": "ndcg@3", "normalize": "lightgbm"}),
    ("lambda", {"metric": "map", "normalize": "xgboost"}),
]
LISTWISE = [
    ("query_rmse", {}),
    ("listnet", {}),
    ("listnet", {"smoothing": 0.2}),
    ("listmle", {}),
    ("xendcg", {"seed": None}),
    ("xendcg", {"seed": None, "smoothing": 0.2}),
    ("xendcg", {"gain": "linear", "seed": None}),
    ("approxndcg", {"alpha": 2.0}),
    ("bayesrank", {"metric": "ndcg"}),
]
TIES = [("ranknet", {"ties": True})]
DRAWN = [("xendcg", {}), ("bayesrank", {"samples": 5})]  # whose draws belong to the rows
ORDERED = PAIRWISE + LAMBDAS + LISTWISE + TIES + DRAWN  # only differences of scores count
LAWFUL = POINTWISE + PAIRWISE + LAMBDAS + LISTWISE + TIES
EVERY = LAWFUL + DRAWN

LENGTHS = (4, 3, 0, 4, 1, 2)  # bayesrank is exact on lists this short


def named(cases):
    return pytest.mark.parametrize(("name", "fields_"), cases, ids=[f"{n} {f or ''}".strip() for n, f in cases])


def bind(name, settings_, labels, offsets, **more):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of metrics that ignore ranks
        return parse_objective(name, **settings_).bind(labels, offsets, **more)


def derivatives(bound, scores, queries=None):
    g, h = np.full((2, len(scores)), np.nan, dtype=np.float32)
    bound.derivatives(scores, g, h, queries)
    return g, h


def lists(rng, lengths=LENGTHS, gap=0.37):
    """Labels 0..4 (with a 4, and every grade) and scores at least `gap` apart within a query."""
    n = sum(lengths)
    labels = rng.permutation(np.resize([4.0, 0.0, 1.0, 3.0, 2.0, 0.0], n))
    scores = np.concatenate([gap * (rng.permutation(k) + 0.3 * rng.random(k)) - 1.0 for k in lengths])
    return scores, labels, np.cumsum([0, *lengths])


def test_every_objective_is_under_the_laws():
    assert {name for name, _ in EVERY} == set(OBJECTIVES)


@named([*(case for case in LAWFUL if "normalize" not in case[1]), ("xendcg", {})])
def test_gradient_is_the_derivative_of_the_loss(name, fields_, rng):
    scores, labels, offsets = lists(rng)
    bound = bind(name, fields_, labels, offsets)
    assert bound.has_loss
    g, _ = derivatives(bound, scores)
    np.testing.assert_allclose(g, slopes(bound.loss, scores), rtol=1e-4, atol=2e-6)


def slopes(loss, scores, step=1e-5):
    moves = step * np.eye(len(scores))
    return np.array([loss(scores + move) - loss(scores - move) for move in moves]) / (2 * step)


@named([case for case in LAWFUL if "normalize" not in case[1]])
def test_hessian_is_the_second_derivative_of_the_loss_or_says_that_it_is_not(name, fields_, rng):
    scores, labels, offsets = lists(rng)
    bound = bind(name, fields_, labels, offsets)
    _, h = derivatives(bound, scores)
    assert (h >= 0).all()
    if bound.objective.hessian == "exact":
        step, here = 1e-3, bound.loss(scores)
        bends = [bound.loss(scores + move) + bound.loss(scores - move) - 2 * here for move in step * np.eye(len(h))]
        np.testing.assert_allclose(h, np.array(bends) / step**2, rtol=2e-3, atol=1e-5)
    else:
        assert bound.objective.hessian == "surrogate"
        assert h.max() > 0


@named(LAWFUL)
def test_two_queries_together_equal_each_alone(name, fields_, rng):
    scores, labels, offsets = lists(rng, (4, 3, 4))
    labels[:] = np.resize([0.0, 1, 2, 3, 4, 1, 0], 11) if name == "ordinal" else labels
    together = derivatives(bind(name, fields_, labels, offsets), scores)
    for q in range(3):
        own = slice(offsets[q], offsets[q + 1])
        if name == "ordinal":  # which needs to see all grades
            alone = derivatives(bind(name, fields_, labels, offsets), scores, np.array([q]))
            alone = alone[0][own], alone[1][own]
        else:
            alone = derivatives(bind(name, fields_, labels[own], [0, own.stop - own.start]), scores[own])
        for one, both in zip(alone, together):
            np.testing.assert_array_equal(one, both[own])


@named(LAWFUL)
def test_reordering_documents_reorders_the_result(name, fields_, rng):
    scores, labels, offsets = lists(rng)
    order = np.concatenate([start + rng.permutation(stop - start) for start, stop in pairwise(offsets)])
    before = derivatives(bind(name, fields_, labels, offsets), scores)
    after = derivatives(bind(name, fields_, labels[order], offsets), scores[order])
    for one, other in zip(before, after):
        np.testing.assert_allclose(other, one[order], rtol=1e-5, atol=1e-6)


@named(ORDERED)
def test_gradients_of_a_query_sum_to_zero(name, fields_, rng):
    scores, labels, offsets = lists(rng, (9, 30, 1, 4))
    g, _ = derivatives(bind(name, fields_, labels, offsets), scores)
    for start, stop in pairwise(offsets):
        assert abs(g[start:stop].sum(dtype=float)) <= 2e-6 * np.abs(g[start:stop]).sum()


@named(ORDERED)
def test_a_shift_of_the_scores_changes_nothing(name, fields_, rng):
    scores, labels, offsets = lists(rng, (9, 30, 1, 4))
    scores = np.round(scores * 1024) / 1024  # so that shifting is exact
    bound = bind(name, fields_, labels, offsets)
    shift = np.repeat([64.0, -128.0, 3.0, 4096.0], np.diff(offsets))
    for one, other in zip(derivatives(bound, scores), derivatives(bound, scores + shift)):
        np.testing.assert_allclose(other, one, rtol=1e-5, atol=1e-7)


@named(PAIRWISE + LAMBDAS)
def test_equal_labels_give_zero(name, fields_, rng):
    scores, _, offsets = lists(rng)
    for label in (0.0, 2.0):
        for result in derivatives(bind(name, fields_, np.full(len(scores), label), offsets), scores):
            np.testing.assert_array_equal(result, 0.0)


@named(PAIRWISE + LAMBDAS)
def test_a_good_document_below_bad_ones_rises(name, fields_):
    bound = bind(name, fields_, [0.0, 0.0, 0.0, 3.0], [0, 4])
    g, h = derivatives(bound, np.array([0.4, 0.3, 0.2, 0.1]))
    assert g[0] > 0 > g[-1]
    assert (h[[0, -1]] > 0).all()


@named(EVERY)
def test_query_weights_multiply_everything_of_a_query(name, fields_, rng):
    scores, labels, offsets = lists(rng)
    weights = np.array([2.0, 0.0, 1.0, 0.5, 3.0, 1.0])
    plain = derivatives(bind(name, fields_, labels, offsets), scores)
    weighted = derivatives(bind(name, fields_, labels, offsets, query_weights=weights), scores)
    for one, other in zip(plain, weighted):
        np.testing.assert_allclose(other, one * np.repeat(weights, LENGTHS), rtol=1e-6, atol=1e-7)


@named([case for case in EVERY if "normalize" not in case[1]])
def test_document_weights_multiply_a_documents_terms_and_a_pair_by_the_product(name, fields_, rng):
    scores, labels, offsets = lists(rng)
    plain = derivatives(bind(name, fields_, labels, offsets), scores)
    tripled = derivatives(bind(name, fields_, labels, offsets, weights=np.full(len(labels), 3.0)), scores)
    factor = 9.0 if (name, fields_) in PAIRWISE + LAMBDAS + TIES else 3.0
    for one, other in zip(plain, tripled):
        np.testing.assert_allclose(other, factor * one, rtol=1e-5, atol=1e-6)


@named(EVERY)
def test_the_mean_loss_and_its_gradient_do_not_change_with_the_scale_of_the_weights(name, fields_, rng):
    """What a linear model minimises: hence the same model for weights of 1 and of 3."""
    scores, labels, offsets = lists(rng)
    weights, query_weights = rng.random(len(labels)), rng.random(len(LENGTHS))
    one = bind(name, fields_, labels, offsets, weights=weights, query_weights=query_weights)
    other = bind(name, fields_, labels, offsets, weights=3 * weights, query_weights=7 * query_weights)
    ratio = other.total_weight / one.total_weight
    if "normalize" in fields_:  # which is not linear in the documents' weights
        other = bind(name, fields_, labels, offsets, weights=weights, query_weights=7 * query_weights)
        ratio = other.total_weight / one.total_weight
    assert ratio > 6
    np.testing.assert_allclose(derivatives(other, scores)[0], ratio * derivatives(one, scores)[0], rtol=1e-4, atol=1e-6)


@named(POINTWISE + PAIRWISE + TIES + [("query_rmse", {})])
def test_a_document_of_weight_zero_is_as_good_as_absent(name, fields_, rng):
    scores, labels, offsets = lists(rng, (5, 6))
    labels[:] = [0, 1, 2, 3, 4, 4, 3, 2, 1, 0, 2]
    weights = np.ones(11)
    weights[2] = 0.0
    with_it = derivatives(bind(name, fields_, labels, offsets, weights=weights), scores)
    kept = np.arange(11) != 2
    without = derivatives(bind(name, fields_, labels[kept], [0, 4, 10]), scores[kept])
    for one, other in zip(with_it, without):
        assert one[2] == 0
        np.testing.assert_allclose(one[kept], other, rtol=1e-6)


@named([case for case in LAWFUL if "normalize" not in case[1]])
def test_weights_are_part_of_the_loss(name, fields_, rng):
    scores, labels, offsets = lists(rng)
    weights, query_weights = rng.random(len(labels)), rng.random(len(LENGTHS))
    bound = bind(name, fields_, labels, offsets, weights=weights, query_weights=query_weights)
    g, _ = derivatives(bound, scores)
    np.testing.assert_allclose(g, slopes(bound.loss, scores), rtol=1e-4, atol=2e-6)


@named(EVERY)
def test_the_number_of_threads_changes_no_bit(name, fields_, rng, monkeypatch):
    monkeypatch.setattr("podium._runtime.threads._FEWEST_ROWS", 0)  # share out even little work
    scores, labels, offsets = lists(rng, tuple(rng.integers(1, 40, 30)))
    one, four = (derivatives(bind(name, fields_, labels, offsets, n_jobs=n_jobs), scores) for n_jobs in (1, 4))
    np.testing.assert_array_equal(one, four)


@named(EVERY)
def test_only_the_rows_of_the_queries_asked_for_are_written(name, fields_, rng):
    scores, labels, offsets = lists(rng)
    bound = bind(name, fields_, labels, offsets)
    everything, some = derivatives(bound, scores), derivatives(bound, scores, np.array([3, 0]))
    asked = np.isin(np.repeat(np.arange(6), LENGTHS), [0, 3])
    for one, other in zip(everything, some):
        np.testing.assert_array_equal(other, np.where(asked, one, np.nan))


@named(EVERY)
@pytest.mark.parametrize("spread", [0.0, 1e4, 1e12, 1e300])
def test_extreme_scores_give_finite_numbers(name, fields_, spread, rng):
    scores, labels, offsets = lists(rng, (4, 9, 40))
    far = np.sign(scores - np.median(scores)) * spread
    if name in ("squared", "query_rmse"):
        far = np.clip(far, -1e30, 1e30)  # its gradient is the distance itself: beyond this it leaves float32
    bound = bind(name, fields_, labels, offsets)
    for scale in (far, far * rng.random(len(far))):
        g, h = derivatives(bound, scale)
        assert np.isfinite(g).all()
        assert np.isfinite(h).all()
        assert (h >= 0).all()
        if bound.has_loss and spread < 1e300:
            assert np.isfinite(bound.loss(scale))


@named(ORDERED)
def test_a_single_document_and_no_document_have_no_force(name, fields_):
    for labels, offsets in (([2.0], [0, 1]), ([], [0]), ([], [0, 0]), ([1.0, 3.0], [0, 1, 2])):
        bound = bind(name, fields_, labels, offsets)
        for result in derivatives(bound, np.arange(len(labels), dtype=float)):
            np.testing.assert_array_equal(result, 0.0)
        if bound.has_loss and name != "bayesrank":
            assert bound.loss(np.arange(len(labels), dtype=float)) < 1.1 * max(len(offsets) - 1, 1e-9)


@given(
    st.lists(
        st.tuples(st.integers(0, 4), st.integers(-3, 3), st.integers(0, 2)),
        min_size=1,
        max_size=14,
    )
)
@settings(max_examples=25, deadline=None)
def test_ties_of_scores_and_any_split_into_queries_are_fine(rows):
    labels, scores, queries = (np.array(column, dtype=float) for column in zip(*sorted(rows, key=lambda row: row[2])))
    offsets = np.concatenate([[0], np.flatnonzero(np.diff(queries)) + 1, [len(rows)]])
    for name, fields_ in PAIRWISE + LAMBDAS + LISTWISE:
        if name == "lambda" and fields_["metric"] in ("auc", "inversions@4"):
            continue  # in Python, so slow: the other tests suffice
        g, h = derivatives(bind(name, fields_, labels, offsets), scores)
        assert np.isfinite(g).all()
        assert (h >= 0).all()
        sums = np.add.reduceat(g.astype(float), offsets[:-1])
        assert np.abs(sums).max() <= 1e-5 * max(1.0, float(np.abs(g).sum()))


@named(EVERY)
def test_an_objective_is_a_value(name, fields_):
    one, other = parse_objective(name, **fields_), parse_objective(name, **fields_)
    assert one == other
    assert hash(one) == hash(other)
    assert replace(one) == one
    if fields(one):
        with pytest.raises(FrozenInstanceError):
            setattr(one, fields(one)[0].name, None)


@pytest.mark.parametrize("metric", ["ndcg", "map", "err(rmax=4)", "rbp(0.7)", "ndcg@3"])
def test_at_a_fixed_order_the_jacobian_of_the_lambdas_is_symmetric(metric, rng):
    """The condition under which a cost exists."""
    scores, labels, offsets = lists(rng, (7,), gap=0.5)
    bound = bind("lambda", {"metric": metric}, labels, offsets)
    step = 0.02  # less than the gaps: the order stays
    rows = [derivatives(bound, scores + m)[0] - derivatives(bound, scores - m)[0] for m in step * np.eye(7)]
    jacobian = np.array(rows, dtype=float) / (2 * step)
    assert np.abs(jacobian).max() > 0.01
    np.testing.assert_allclose(jacobian, jacobian.T, atol=2e-5)


HASHES = """
import hashlib
import numpy as np
from podium.objectives import parse_objective

rng = np.random.default_rng(0)
offsets, labels, scores = np.arange(0, 401, 40), rng.integers(0, 5, 400).astype(float), rng.standard_normal(400)
gradients, hessians = np.empty(400, np.float32), np.empty(400, np.float32)
for name, options in [("ranknet", {}), ("lambda", {}), ("lambda", {"normalize": "lightgbm"}), ("approxndcg", {})]:
    parse_objective(name, **options).bind(labels, offsets).derivatives(scores, gradients, hessians)
    print(hashlib.sha256(gradients.tobytes() + hessians.tobytes()).hexdigest())
"""


@pytest.mark.slow
def test_kernels_just_compiled_and_kernels_from_the_cache_give_the_same_bits(tmp_path):
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    first, second = (
        subprocess.run([sys.executable, "-c", HASHES], check=True, env=environment, capture_output=True).stdout
        for _ in range(2)
    )
    assert first == second


@named(PAIRWISE + LAMBDAS + TIES)
@pytest.mark.parametrize("weighted", [False, True])
def test_the_table_of_pairs_adds_up_to_the_derivatives(name, fields_, weighted, rng):
    scores, labels, offsets = lists(rng)
    more = {"weights": rng.random(len(scores)), "query_weights": rng.random(len(LENGTHS))} if weighted else {}
    bound = bind(name, fields_, labels, offsets, **more)
    expected = derivatives(bound, scores)
    for query, n in enumerate(LENGTHS):
        table = bound.pair_table(scores, query)
        gradients = np.bincount(table.lower, table.lambdas, n) - np.bincount(table.upper, table.lambdas, n)
        hessians = np.bincount(table.lower, table.hessian, n) + np.bincount(table.upper, table.hessian, n)
        rows = slice(offsets[query], offsets[query + 1])
        np.testing.assert_allclose(gradients, expected[0][rows], rtol=2e-6, atol=2e-6)
        np.testing.assert_allclose(hessians, expected[1][rows], rtol=2e-6, atol=2e-6)


@named(POINTWISE + LISTWISE)
def test_objectives_without_pairs_have_no_table_of_them(name, fields_, rng):
    scores, labels, offsets = lists(rng)
    assert bind(name, fields_, labels, offsets).pair_table(scores, 0) is None
