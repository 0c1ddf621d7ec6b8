"""RankBoost equals its definition over written-out pairs, and its bound holds."""

import itertools
import math

import numpy as np
import oracles
import pytest
from hypothesis import given
from hypothesis import strategies as st

from podium.learners.rankboost.alphas import bound_alpha, closed_alpha, search_alpha
from podium.learners.rankboost.boosting import RankBoosting, RankBoostRules
from podium.learners.rankboost.pairs import Grades, PairDistribution

CASES = [
    case
    for case in itertools.product(("threshold", "value"), ("r", "z"), ("search", "closed", "bound"))
    if case[::2] != ("value", "closed")
]
LIMIT = 2.0


def make_rows(seed, n_grades=4, missing=0.15, sizes=(5, 1, 7, 4, 6)):
    draws = np.random.default_rng(seed)
    queries = np.repeat(np.arange(len(sizes)), sizes)
    X = draws.standard_normal((len(queries), 4)).astype(np.float32)
    X[:, 1] = np.round(X[:, 1])  # ties
    X[draws.random(X.shape) < missing] = np.nan
    labels = draws.integers(0, n_grades, len(queries)).astype(np.float64)
    return X, labels, queries, np.append(0, np.cumsum(sizes)), draws


def train(X, labels, offsets, weights=None, query_weights=None, rounds=6, **rules):
    """A learner after some rounds, and the rows in its order."""
    weights = np.ones(len(labels)) if weights is None else weights
    query_weights = np.ones(len(offsets) - 1) if query_weights is None else query_weights
    all_rules = RankBoostRules(largest_alpha=LIMIT, **rules)
    learner = RankBoosting.of_labels(X, labels, offsets, weights, query_weights, all_rules)
    while learner.n_steps < rounds and not learner.is_done:
        learner.step()
    return learner


def expected_alpha(pairs, values, rule):
    if rule == "bound":
        r = oracles.rankboost_r(pairs, values)
        whole = math.copysign(math.inf, r) if abs(r) > 1 - 1e-9 else 0.5 * math.log((1 + r) / (1 - r))
        return max(-LIMIT, min(LIMIT, whole))
    return oracles.rankboost_search(pairs, values, LIMIT)


def criterion(pairs, values, selection, alpha):
    """What is to be as large as possible: |r|, or 1 - Z at the alpha that the weak ranker gets."""
    if selection == "r":
        return abs(oracles.rankboost_r(pairs, values))
    return 1 - oracles.rankboost_z(pairs, values, expected_alpha(pairs, values, alpha))


@pytest.mark.parametrize(("kind", "selection", "alpha"), CASES)
@pytest.mark.parametrize("weighted", [False, True])
def test_every_round_is_that_of_written_out_pairs(kind, selection, alpha, weighted):
    """The chosen weak ranker is a best one of all, its alpha and Z are those of the definition."""
    for seed in range(2):
        X, labels, queries, offsets, draws = make_rows(seed, n_grades=2 + 2 * seed, sizes=(5, 1, 6, 4))
        weights = draws.choice([0.0, 0.5, 1.0, 3.0], len(labels)) if weighted else None
        query_weights = draws.random(len(offsets) - 1) + 0.1 if weighted else None
        given = X, labels, offsets, weights, query_weights
        rules = {"weak_ranker": kind, "selection": selection, "alpha": alpha}
        learner = train(*given, **rules, preference="difference" if weighted else "equal")
        if weighted:  # rows of weight 0 are as if they were not there
            X, labels, queries, weights = (one[weights > 0] for one in (X, labels, queries, weights))
        pairs = oracles.rankboost_start(labels, queries, weights, query_weights, by_difference=weighted)
        candidates = oracles.weak_ranker_values(X, kind)
        for ranker, found_alpha, z in learner.rankers.rounds():
            values = ranker.values(X[:, ranker.feature]).tolist()
            assert values in candidates.values()
            best = max(criterion(pairs, other, selection, alpha) for other in candidates.values())
            assert criterion(pairs, values, selection, alpha) == pytest.approx(best, abs=1e-7)
            assert found_alpha == pytest.approx(expected_alpha(pairs, values, alpha), abs=1e-6)
            assert z == pytest.approx(oracles.rankboost_z(pairs, values, found_alpha), rel=1e-9)
            pairs = {
                (i, j): weight * math.exp(-found_alpha * (values[i] - values[j])) / z
                for (i, j), weight in pairs.items()
            }
        assert learner.n_steps == 6 or learner.is_done


@given(st.integers(0, 10**6), st.integers(2, 5), st.booleans(), st.sampled_from([0.1, 3.0, 400.0]))
def test_sums_over_documents_are_sums_over_pairs(seed, n_grades, by_difference, size):
    """Also where scores are so large that exponentials of single scores would overflow."""
    _, labels, queries, offsets, draws = make_rows(seed, n_grades)
    weights, query_weights = draws.choice([0.0, 0.5, 2.0], len(labels)), draws.random(len(offsets) - 1)
    start = oracles.rankboost_start(labels, queries, weights, query_weights, by_difference) if len(labels) else {}
    if not start or not any(start.values()):
        return
    scores = labels * size + draws.standard_normal(len(labels))  # in order, mostly: as training makes them
    factors = {pair: weight * math.exp(scores[pair[1]] - scores[pair[0]]) for pair, weight in start.items()}
    total = sum(factors.values())
    grades = Grades.of(labels, offsets)
    pairs = PairDistribution(grades, weights[grades.order], query_weights, by_difference)
    sums = pairs.sums_at(scores[grades.order], pairs.shift + math.log(total))
    pairs.move_to(scores[grades.order], pairs.shift + math.log(total), sums)
    assert pairs.total == pytest.approx(1.0)
    inside = draws.integers(0, 2, len(labels)).astype(np.float64)
    ordered = sum(weight for (i, j), weight in factors.items() if inside[i] > inside[j]) / total
    reversed_ = sum(weight for (i, j), weight in factors.items() if inside[i] < inside[j]) / total
    assert pairs.split(inside[grades.order]) == pytest.approx((ordered, reversed_), abs=1e-12)
    values = draws.random(len(labels))
    now = {pair: weight / total for pair, weight in factors.items()}
    assert pairs.potentials @ values[grades.order] == pytest.approx(oracles.rankboost_r(now, values), abs=1e-12)
    assert pairs.factor(values[grades.order], 0.7) == pytest.approx(oracles.rankboost_z(now, values, 0.7))


@pytest.mark.parametrize(("kind", "selection", "alpha"), CASES)
@pytest.mark.parametrize("preference", ["equal", "difference"])
def test_the_product_of_z_bounds_the_share_of_pairs_out_of_order(kind, selection, alpha, preference):
    for seed in range(4):
        X, labels, queries, offsets, _ = make_rows(seed)
        rules = {"weak_ranker": kind, "selection": selection, "alpha": alpha, "preference": preference}
        learner = train(X, labels, offsets, rounds=25, **rules)
        rankers = learner.rankers
        scores = np.zeros(len(labels))
        rankers.add_to(scores, X)
        start = oracles.rankboost_start(labels, queries, by_difference=preference == "difference")
        error = sum(weight for (i, j), weight in start.items() if scores[i] <= scores[j])
        exponential = sum(weight * math.exp(scores[j] - scores[i]) for (i, j), weight in start.items())
        assert 0 < (rankers.z < 1).sum() == len(rankers)
        assert error <= math.exp(rankers.log_bound)
        assert math.exp(rankers.log_bound) == pytest.approx(exponential, rel=1e-9)


@pytest.mark.parametrize("kind", ["threshold", "value"])
def test_z_is_within_its_own_bound(kind):
    """Z <= sqrt(1 - r^2), where alpha is that of the bound: alpha = artanh r gives sqrt(1 - r^2) = 1 / cosh(alpha)."""
    X, labels, _, offsets, _ = make_rows(7)
    rankers = train(X, labels, offsets, rounds=20, weak_ranker=kind, alpha="bound").rankers
    assert (np.abs(rankers.alpha) < LIMIT).all()
    assert (rankers.z <= 1 / np.cosh(rankers.alpha) + 1e-12).all()


@given(st.floats(0, 1), st.floats(0, 1))
def test_the_search_finds_the_closed_form(ordered, reversed_):
    closed = closed_alpha(ordered, reversed_, 5.0)
    searched = search_alpha(lambda size: ordered * math.exp(-size) - reversed_ * math.exp(size), 5.0)
    assert searched == pytest.approx(closed, abs=1e-9)
    assert abs(closed) <= 5.0


def test_alphas_that_can_be_repeated_by_hand():
    assert closed_alpha(0.6, 0.15, 5.0) == pytest.approx(0.5 * math.log(4))
    assert closed_alpha(0.15, 0.6, 5.0) == pytest.approx(-0.5 * math.log(4))
    assert bound_alpha(0.6, 5.0) == pytest.approx(0.5 * math.log(1.6 / 0.4))
    assert (closed_alpha(0.3, 0.0, 5.0), closed_alpha(0.0, 0.3, 5.0), closed_alpha(0.0, 0.0, 5.0)) == (5.0, -5.0, 0.0)
    assert (bound_alpha(1.0, 5.0), bound_alpha(-1.0, 5.0), bound_alpha(0.0, 5.0)) == (5.0, -5.0, 0.0)


def test_a_perfect_weak_ranker_ends_training_after_one_round():
    X = np.array([[1.0], [0.0], [5.0], [4.0]], np.float32)
    learner = train(X, np.array([1.0, 0.0, 1.0, 0.0]), np.array([0, 2, 4]), rounds=50, weak_ranker="value")
    assert learner.n_steps > 1  # 0.2 of the range apart: in order, but u is not 1
    learner = train(np.float32([[1], [0], [5], [0]]), np.array([1.0, 0, 1, 0]), np.array([0, 2, 4]), rounds=50)
    assert (learner.n_steps, learner.is_done) == (1, True)
    assert learner.rankers.alpha.tolist() == [LIMIT]
    assert learner.rankers.z[0] == pytest.approx(math.exp(-LIMIT))


def test_a_feature_of_which_only_its_presence_matters_is_found():
    X = np.float32([[np.nan], [3], [np.nan], [-4]])
    learner = train(X, np.array([1.0, 0, 1, 0]), np.array([0, 2, 4]))
    (ranker, alpha, _), *_ = learner.rankers.rounds()
    assert (ranker.low, ranker.high) == (-np.inf, -np.inf)
    assert ranker.values(X[:, 0]).tolist() == [0, 1, 0, 1]
    assert alpha == -LIMIT


def test_scores_of_any_size_do_not_spoil_the_weights():
    """Thousands of rounds in which some pairs are never reversed: the bound falls far below the least float."""
    X = np.float32([[2, 0], [1, 1], [0, 0], [2, 0], [1, 0], [0, 1]])
    learner = train(X, np.array([2.0, 1, 0, 2, 1, 0]), np.array([0, 3, 6]), rounds=3000, selection="z")
    assert learner.n_steps == 3000
    assert learner.rankers.log_bound < -800
    assert np.isfinite(learner.pairs.potentials).all()
    assert learner.pairs.better.sum() == pytest.approx(1.0)


def test_nothing_to_learn_is_no_round():
    X = np.float32([[1], [1], [2]])
    assert train(X, np.array([1.0, 1, 1]), np.array([0, 2, 3])).n_steps == 0  # no pairs
    assert train(X, np.array([1.0, 0, 1]), np.array([0, 2, 3])).n_steps == 0  # pairs that no feature tells apart


def test_many_different_labels_are_refused_where_they_would_cost_too_much(rng):
    X, labels = rng.standard_normal((300, 2)).astype(np.float32), np.arange(300.0)
    with pytest.raises(ValueError, match=r'at most 256 different labels; one has 300. Use selection="r"'):
        train(X, labels, np.array([0, 300]), selection="z")
    assert train(X, labels, np.array([0, 300]), selection="r").n_steps == 6


# --- given pairs ----------------------------------------------------------------------------------------------------


def train_on(X, directed, offsets, weights=None, query_weights=None, rounds=6, **rules):
    """A learner after some rounds; directed: (better, worse, weight, starts)."""
    weights = np.ones(len(X)) if weights is None else weights
    query_weights = np.ones(len(offsets) - 1) if query_weights is None else query_weights
    rules = RankBoostRules(**{"largest_alpha": LIMIT, **rules})
    learner = RankBoosting.of_given(X, directed, offsets, weights, query_weights, rules)
    while learner.n_steps < rounds and not learner.is_done:
        learner.step()
    return learner


def draw_pairs(draws, offsets, per_query=12):
    """Random pairs of each query with weights: repeated ones, both directions and cycles among them."""
    better, worse, counts = [], [], []
    for first, last in itertools.pairwise(offsets):
        count = per_query if last - first > 1 else 0
        chosen = [draws.permutation(last - first)[:2] + first for _ in range(count)]
        better += [i for i, _ in chosen]
        worse += [j for _, j in chosen]
        counts.append(count)
    weight = draws.choice([0.0, 0.3, 1.0, 2.0], len(better))
    return np.array(better), np.array(worse), weight, np.append(0, np.cumsum(counts))


def pairs_of_labels(labels, queries):
    pairs = sorted(oracles.preference_pairs(labels, queries), key=lambda pair: queries[pair[0]])
    better, worse = (np.array(side, np.int64) for side in zip(*pairs))
    starts = np.searchsorted(queries[better], np.arange(queries.max() + 2))
    return better, worse, np.ones(len(pairs)), starts


def distribution(directed, queries, weights=None, query_weights=None):
    """{(better, worse): weight}, adding up to 1; pairs that are given twice count twice."""
    pairs = {}
    for i, j, weight in zip(*directed[:3]):
        weight = weight * (1 if weights is None else weights[i] * weights[j])
        weight = weight * (1 if query_weights is None else query_weights[queries[i]])
        pairs[i, j] = pairs.get((i, j), 0.0) + weight
    return {pair: weight / sum(pairs.values()) for pair, weight in pairs.items()}


@pytest.mark.parametrize(("kind", "selection", "alpha"), CASES)
@pytest.mark.parametrize("weighted", [False, True])
def test_every_round_is_that_of_the_list_of_pairs(kind, selection, alpha, weighted):
    """The chosen weak ranker is a best one of all, its alpha and Z are those of the definition."""
    for seed in range(2):
        X, _, queries, offsets, draws = make_rows(seed, sizes=(5, 1, 6, 4))
        directed = draw_pairs(draws, offsets)
        weights = draws.choice([0.0, 0.5, 1.0, 3.0], len(X)) if weighted else None
        query_weights = draws.random(len(offsets) - 1) + 0.1 if weighted else None
        rules = {"weak_ranker": kind, "selection": selection, "alpha": alpha}
        learner = train_on(X, directed, offsets, weights, query_weights, **rules)
        pairs = distribution(directed, queries, weights, query_weights)
        if weighted:  # rows of weight 0 are as if they were not there
            X = X.copy()
            X[weights == 0] = X[weights > 0][0]
        candidates = oracles.weak_ranker_values(X, kind)
        assert learner.n_steps > 0
        for ranker, found_alpha, z in learner.rankers.rounds():
            values = ranker.values(X[:, ranker.feature]).tolist()
            assert values in candidates.values()
            best = max(criterion(pairs, other, selection, alpha) for other in candidates.values())
            assert criterion(pairs, values, selection, alpha) == pytest.approx(best, abs=1e-7)
            assert found_alpha == pytest.approx(expected_alpha(pairs, values, alpha), abs=1e-6)
            assert z == pytest.approx(oracles.rankboost_z(pairs, values, found_alpha), rel=1e-9)
            pairs = {
                (i, j): weight * math.exp(-found_alpha * (values[i] - values[j])) / z
                for (i, j), weight in pairs.items()
            }
        assert learner.n_steps == 6 or learner.is_done


@pytest.mark.parametrize(("kind", "selection", "alpha"), CASES)
@pytest.mark.parametrize("weighted", [False, True])
def test_the_pairs_of_labels_given_one_by_one_are_boosted_as_labels_are(kind, selection, alpha, weighted):
    for seed in range(3):
        X, labels, queries, offsets, draws = make_rows(seed)
        weights = draws.choice([0.0, 0.5, 1.0, 3.0], len(labels)) if weighted else None
        query_weights = draws.choice([0.0, 0.5, 1.0], len(offsets) - 1) + 0.0 if weighted else None
        if weighted:
            query_weights[0] = 2.0
        rules = {"weak_ranker": kind, "selection": selection, "alpha": alpha, "rounds": 12}
        expected = train(X, labels, offsets, weights, query_weights, **rules).rankers
        found = train_on(X, pairs_of_labels(labels, queries), offsets, weights, query_weights, **rules).rankers
        for name in ("feature", "low", "high", "default"):
            assert getattr(found, name).tolist() == getattr(expected, name).tolist()
        np.testing.assert_allclose(found.alpha, expected.alpha, atol=1e-9)
        np.testing.assert_allclose(found.z, expected.z, rtol=1e-9)


@pytest.mark.parametrize(("kind", "selection", "alpha"), CASES)
def test_the_product_of_z_bounds_the_weight_of_given_pairs_out_of_order(kind, selection, alpha):
    for seed in range(4):
        X, _, queries, offsets, draws = make_rows(seed)
        directed = draw_pairs(draws, offsets)
        rules = {"weak_ranker": kind, "selection": selection, "alpha": alpha}
        rankers = train_on(X, directed, offsets, rounds=25, **rules).rankers
        scores, start = np.zeros(len(X)), distribution(directed, queries)
        rankers.add_to(scores, X)
        error = sum(weight for (i, j), weight in start.items() if scores[i] <= scores[j])
        exponential = sum(weight * math.exp(scores[j] - scores[i]) for (i, j), weight in start.items())
        assert (rankers.z < 1).all()
        assert 0 < error <= math.exp(rankers.log_bound) == pytest.approx(exponential, rel=1e-9)


def test_two_rounds_on_contradictory_pairs_that_can_be_repeated_by_hand():
    """Documents A, B, C with the features (1, 0), (0, 0), (1, 1); A > B with the weight 3, B > A 1, C > A 4.

    D0 is 3/8, 1/8, 4/8. Feature 0 orders A > B and reverses B > A: r = 3/8 - 1/8 = 2/8. Feature 1 orders C > A alone:
    r = 4/8, so it is first. It reverses no pair: alpha is the limit, ln 2, and Z = 3/8 + 1/8 + 4/8 / 2 = 3/4.
    Then D is 3/6, 1/6 and 2/6: feature 0 has r = 2/6 and so has feature 1, and the first one is taken,
    alpha = 1/2 ln(3/6 / 1/6) = 1/2 ln 3, Z = 2/6 + 2 sqrt(3/6 1/6).
    """
    X = np.float32([[1, 0], [0, 0], [1, 1]])
    directed = np.array([0, 1, 2]), np.array([1, 0, 0]), np.array([3.0, 1.0, 4.0]), np.array([0, 3])
    learner = train_on(X, directed, np.array([0, 3]), rounds=2, alpha="closed", largest_alpha=math.log(2))
    np.testing.assert_allclose(learner.pairs.initial, [3 / 8, 1 / 8, 4 / 8])
    assert learner.rankers.feature.tolist() == [1, 0]
    assert learner.rankers.alpha == pytest.approx([math.log(2), 0.5 * math.log(3)])
    assert learner.rankers.z == pytest.approx([3 / 4, 2 / 6 + 2 * math.sqrt(3 / 6 * 1 / 6)])
    # A > B: 3/6 / sqrt(3), B > A: 1/6 sqrt(3), which is the same; C > A: 2/6
    total = 2 * math.sqrt(3) / 6 + 2 / 6
    np.testing.assert_allclose(learner.pairs.weights * total, [math.sqrt(3) / 6, math.sqrt(3) / 6, 2 / 6])


def test_a_cycle_of_equal_weights_teaches_nothing_and_one_of_unequal_weights_does():
    X, offsets = np.float32([[2], [1], [0]]), np.array([0, 3])
    cycle = np.array([0, 1, 2]), np.array([1, 2, 0])
    assert train_on(X, (*cycle, np.ones(3), np.array([0, 3])), offsets).n_steps == 0
    learner = train_on(X, (*cycle, np.array([3.0, 1, 1]), np.array([0, 3])), offsets, alpha="closed", rounds=1)
    # the threshold between 2 and 1 orders A > B, 3/5, and reverses C > A, 1/5
    assert (learner.rankers.low[0], learner.rankers.alpha[0]) == (pytest.approx(1.5, abs=0.5), 0.5 * math.log(3))


def test_documents_of_weight_0_take_their_pairs_along_and_move_no_bin_edges():
    X, offsets = np.float32([[2], [1], [50], [0], [3], [1]]), np.array([0, 4, 6])
    directed = np.array([0, 2, 1, 4]), np.array([1, 0, 3, 5]), np.ones(4), np.array([0, 3, 4])
    weights = np.array([1.0, 1, 0, 2, 1, 1])
    learner = train_on(X, directed, offsets, weights, weak_ranker="value", rounds=3)
    np.testing.assert_allclose(learner.pairs.initial, [1 / 4, 2 / 4, 1 / 4])
    assert learner.rankers.high.tolist() == [3.0] * 3
    keep = np.array([0, 1, 3, 4, 5])
    without = np.array([0, 1, 3]), np.array([1, 2, 4]), np.ones(3), np.array([0, 2, 3])
    other = train_on(X[keep], without, np.array([0, 3, 5]), weights[keep], weak_ranker="value", rounds=3)
    assert learner.rankers.alpha.tobytes() == other.rankers.alpha.tobytes()


@given(st.integers(0, 10**6), st.sampled_from([0.1, 3.0, 400.0]))
def test_sums_are_those_of_the_list_of_pairs(seed, size):
    """Also where scores are so large that exponentials of single scores would overflow."""
    X, labels, queries, offsets, draws = make_rows(seed)
    directed = draw_pairs(draws, offsets)
    pairs, start = train_on(X, directed, offsets, rounds=0).pairs, distribution(directed, queries)
    scores = labels * size + draws.standard_normal(len(labels))
    top = max(scores[j] - scores[i] for (i, j), weight in start.items() if weight)
    factors = {(i, j): weight * math.exp(scores[j] - scores[i] - top) for (i, j), weight in start.items()}
    total = sum(factors.values())
    shift = pairs.log_bound + top + math.log(total)
    sums = pairs.sums_at(scores, shift)
    assert sums[2] == pytest.approx(1.0)
    pairs.move_to(scores, shift, sums)
    now = {pair: weight / total for pair, weight in factors.items()}
    inside, values = draws.integers(0, 2, len(labels)).astype(float), draws.random(len(labels))
    ordered = sum(weight for (i, j), weight in now.items() if inside[i] > inside[j])
    reversed_ = sum(weight for (i, j), weight in now.items() if inside[i] < inside[j])
    assert pairs.split(inside) == pytest.approx((ordered, reversed_), abs=1e-12)
    assert pairs.potentials @ values == pytest.approx(oracles.rankboost_r(now, values), abs=1e-12)
    assert pairs.factor(values, 0.7) == pytest.approx(oracles.rankboost_z(now, values, 0.7))
    step = 1e-5
    changes = [oracles.rankboost_z(now, values, 0.7 + sign * step) for sign in (1, -1)]
    assert pairs.slope(values, 0.7) == pytest.approx((changes[1] - changes[0]) / (2 * step), abs=1e-7)


def test_scores_of_any_size_do_not_spoil_the_weights_of_given_pairs():
    X = np.float32([[2, 0], [1, 1], [0, 0]])
    directed = np.array([0, 0, 1]), np.array([1, 2, 2]), np.ones(3), np.array([0, 3])
    learner = train_on(X, directed, np.array([0, 3]), rounds=3000, selection="z")
    assert learner.n_steps == 3000
    assert learner.rankers.log_bound < -800
    assert learner.pairs.weights.sum() == pytest.approx(1.0)
