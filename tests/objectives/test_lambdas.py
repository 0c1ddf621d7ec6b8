"""Lambdas against really swapping every pair, against LightGBM and XGBoost, and on what a user may give."""

import warnings
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from oracles import METRIC_ORACLES, lambda_derivatives

from podium.metrics import METRICS, Metric, parse_metric
from podium.metrics.additive import NDCG
from podium.objectives import Lambda


def bind(objective, *arguments, **more):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return objective.bind(*arguments, **more)


def derivatives(objective, scores, labels, offsets=None, **more):
    scores = np.asarray(scores, dtype=float)
    g, h = np.empty((2, len(scores)), dtype=np.float32)
    bind(objective, labels, [0, len(scores)] if offsets is None else offsets, **more).derivatives(scores, g, h)
    return g, h


@pytest.mark.parametrize("spelling", METRICS)
@pytest.mark.parametrize("cutoff", [None, 1, 3, 30])
def test_derivatives_equal_really_swapping_every_pair(spelling, cutoff, rng):
    name = spelling if cutoff is None else f"{spelling}@{cutoff}"
    for n in (2, 5, 13):
        labels = rng.integers(0, 4, n).astype(float)
        for scores in (rng.standard_normal(n), rng.integers(0, 3, n).astype(float)):
            expected = lambda_derivatives(
                scores, labels, lambda ranked: np.nan_to_num(METRIC_ORACLES[spelling](ranked, cutoff)), 1.3
            )
            found = derivatives(Lambda(name, sigma=1.3), scores, labels)
            np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-6, err_msg=f"{name} {labels} {scores}")


@pytest.mark.parametrize("policy", ["letor4", "lightgbm", "trec", "xgboost"])
@pytest.mark.parametrize("name", ["ndcg", "ndcg@3", "ndcg@20", "map", "map@2", "p@2", "meanndcg@4"])
def test_every_policy_steers_by_its_own_changes(name, policy, rng):
    scores, labels = rng.standard_normal(9), rng.integers(0, 3, 9).astype(float)
    metric = parse_metric(name, bind(Lambda(name, policy=policy), labels, [0, 9]).metric.policy)
    expected = lambda_derivatives(scores, labels, lambda ranked: metric.value(np.array(ranked)))
    np.testing.assert_allclose(derivatives(Lambda(name, policy=policy), scores, labels), expected, rtol=2e-5, atol=2e-6)


def test_document_weights_multiply_pairs(rng):
    scores, labels, weights = rng.standard_normal(12), rng.integers(0, 4, 12).astype(float), rng.random(12)
    for name in ("ndcg@5", "map", "auc"):
        value = METRIC_ORACLES[name.partition("@")[0]]
        cutoff = 5 if "@" in name else None
        expected = lambda_derivatives(scores, labels, lambda r, v=value, c=cutoff: v(r, c), 1.0, weights)
        found = derivatives(Lambda(name), scores, labels, weights=weights)
        np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("name", ["ndcg", "ndcg@3", "map", "err", "rr", "auc"])
@pytest.mark.parametrize("spread", [1.0, 0.0])
def test_normalising_as_lightgbm_does_equals_the_double_loop(name, spread, rng):
    scores, labels = spread * rng.standard_normal(11), rng.integers(0, 4, 11).astype(float)
    value, cutoff = METRIC_ORACLES[name.partition("@")[0]], 3 if "@" in name else None
    g, h = lambda_derivatives(scores, labels, lambda ranked: value(ranked, cutoff), 1.5, normalized=True)
    np.testing.assert_allclose(
        derivatives(Lambda(name, sigma=1.5, normalize="lightgbm"), scores, labels), (g, h), rtol=2e-5, atol=2e-6
    )
    np.testing.assert_allclose(
        derivatives(Lambda(name, sigma=1.5, normalize="xgboost"), scores, labels),
        (g, np.multiply(2, h)),
        rtol=2e-5,
        atol=2e-6,
    )
    assert not Lambda(name, normalize="lightgbm").has_loss
    with pytest.raises(ValueError, match="no loss"):
        bind(Lambda(name, normalize="lightgbm"), labels, [0, 11]).loss(scores)


@pytest.mark.parametrize("normalized", [False, True])
@pytest.mark.parametrize("spread", [60.0, 68.0, 72.0, 400.0])
def test_scores_far_apart_do_not_blur_those_that_are_close(spread, normalized, rng):
    """Two clusters: inside of each, sigmoids of small differences; from one to the other, nothing to tell apart."""
    scores = np.concatenate([rng.standard_normal(9), spread + rng.standard_normal(9)])
    labels = rng.permutation(np.resize([0.0, 1.0, 2.0], 18))
    objective = Lambda("ndcg", normalize="lightgbm" if normalized else None)
    value = METRIC_ORACLES["ndcg"]
    expected = lambda_derivatives(scores, labels, lambda ranked: value(ranked, None), normalized=normalized)
    for found, wanted in zip(derivatives(objective, scores, labels), expected):
        np.testing.assert_allclose(found, wanted, rtol=2e-3, atol=1e-6)  # float32 holds 400.0 to 3e-5


def test_normalising_looks_at_all_scores_for_being_equal():
    """The ones above the cutoff and the first behind it are equal here, the last one is not."""
    scores, labels = np.array([1.0, 1.0, 1.0, 0.0]), np.array([0.0, 2.0, 1.0, 3.0])
    expected = lambda_derivatives(scores, labels, lambda ranked: METRIC_ORACLES["ndcg"](ranked, 1), normalized=True)
    found = derivatives(Lambda("ndcg@1", normalize="lightgbm"), scores, labels)
    np.testing.assert_allclose(found, expected, rtol=1e-5)


LENGTHS = [7, 12, 9, 1, 5]


def halves(rng, scores, labels, train, objective, doubled_hessian=False):
    """Leaf values -sum g / (sum h + l2) of a tree with one split, theirs and ours, for random halves of the rows."""
    g, h = derivatives(objective, scores, labels, np.cumsum([0, *LENGTHS]))
    h = 2 * h if doubled_hessian else h
    for l2 in (0.001, 1.0):
        for _ in range(3):
            inside = rng.permutation(len(scores)) % 2 == 0
            ours = [-g[rows].sum() / (h[rows].sum() + l2) for rows in (~inside, inside)]
            yield train(inside.astype(float)[:, None], scores, labels, l2), ours


@pytest.mark.parametrize(("normalize", "sigma"), [("lightgbm", 1.0), ("lightgbm", 2.0), (None, 1.0)])
def test_lightgbm_has_the_same_lambdas(normalize, sigma, rng):
    lightgbm = pytest.importorskip("lightgbm")

    def train(X, scores, labels, l2):
        quiet = {"verbosity": -1, "num_threads": 1, "min_data_in_bin": 1, "feature_pre_filter": False}
        settings = {"num_leaves": 2, "min_data_in_leaf": 1, "min_sum_hessian_in_leaf": 0, "lambda_l2": l2}
        ranking = {"objective": "lambdarank", "sigmoid": sigma, "lambdarank_truncation_level": 100}
        data = lightgbm.Dataset(X, labels, group=LENGTHS, init_score=scores, params=quiet)
        ranking |= {"lambdarank_norm": normalize is not None, "learning_rate": 1.0}
        tree = lightgbm.train(quiet | settings | ranking, data, 1)
        return tree.predict(np.array([[0.0], [1.0]]), raw_score=True)

    labels = rng.integers(0, 5, sum(LENGTHS)).astype(float)
    for scores in (rng.standard_normal(len(labels)), np.zeros(len(labels))):
        for theirs, ours in halves(rng, scores, labels, train, Lambda("ndcg", sigma, normalize)):
            np.testing.assert_allclose(ours, theirs, rtol=1e-3)  # their sigmoid is a table


@pytest.mark.parametrize("normalize", ["xgboost", None])
def test_xgboost_has_the_same_lambdas(normalize, rng):
    import xgboost

    def train(X, scores, labels, l2):
        data = xgboost.DMatrix(X, labels, group=LENGTHS, base_margin=scores)
        settings = {"max_depth": 1, "min_child_weight": 0, "reg_lambda": l2, "eta": 1.0, "nthread": 1}
        ranking = {"objective": "rank:ndcg", "lambdarank_num_pair_per_sample": 100, "base_score": 0.0}
        for name in ("lambdarank_normalization", "lambdarank_score_normalization"):
            ranking[name] = normalize is not None
        tree = xgboost.train(settings | ranking, data, 1)
        ends = xgboost.DMatrix(np.array([[0.0], [1.0]]), base_margin=np.zeros(2))
        return tree.predict(ends, output_margin=True)

    labels = rng.integers(0, 5, sum(LENGTHS)).astype(float)
    for scores in (rng.standard_normal(len(labels)), np.zeros(len(labels))):
        objective = Lambda("ndcg", normalize=normalize)
        for theirs, ours in halves(rng, scores, labels, train, objective, doubled_hessian=normalize is None):
            np.testing.assert_allclose(ours, theirs, rtol=1e-3)


def test_swapping_two_documents_of_the_notes():
    """Ranked labels 0 1 0 1 1: swapping ranks 1 and 2 is worth 0.1732, ranks 3 and 4 0.0325."""
    scores, labels = np.array([5.0, 4, 3, 2, 1]), np.array([0.0, 1, 0, 1, 1])
    for pair, change in (((0, 1), 0.1732), ((2, 3), 0.0325)):
        weights = np.zeros(5)
        weights[list(pair)] = 1.0  # leaves one pair
        g, _ = derivatives(Lambda("ndcg", sigma=1e-6), scores, labels, weights=weights)
        assert g[pair[0]] / 0.5e-6 == pytest.approx(change, abs=5e-5)


@dataclass(frozen=True)
class SecondPlace(Metric):
    """A user's metric: the label at the second place."""

    spelling: ClassVar[str] = "second"

    def value(self, ranked_labels, judged=None):
        return float(ranked_labels[1]) if len(ranked_labels) > 1 else 0.0


def test_any_metric_a_user_writes_steers(rng):
    scores, labels = rng.standard_normal(8), rng.integers(0, 4, 8).astype(float)
    expected = lambda_derivatives(scores, labels, SecondPlace().value)
    np.testing.assert_allclose(derivatives(Lambda(SecondPlace()), scores, labels), expected, rtol=1e-5, atol=1e-6)
    bound = Lambda(SecondPlace()).bind(labels, [0, 8])
    assert bound.loss(scores) > 0


def test_a_users_metric_has_a_bounded_length():
    bound = Lambda(SecondPlace()).bind(np.arange(2001.0) % 3, [0, 2001])
    with pytest.raises(ValueError, match="bounded at 2000"):
        bound.derivatives(np.zeros(2001), *np.empty((2, 2001), dtype=np.float32))


@dataclass(frozen=True)
class LinearNDCG(NDCG):
    """A user's additive metric: a subclass with gains of its own."""

    spelling: ClassVar[str] = "linear"

    def gains(self, labels):
        return np.sqrt(labels)


def test_a_users_additive_metric_takes_the_fast_path(rng):
    scores, labels = rng.standard_normal(8), rng.integers(0, 4, 8).astype(float)
    expected = lambda_derivatives(scores, labels, LinearNDCG(3).value)
    np.testing.assert_allclose(derivatives(Lambda(LinearNDCG(3)), scores, labels), expected, rtol=1e-5, atol=1e-6)


def test_a_metric_given_as_a_value_keeps_its_policy():
    labels = [0.0, 1.0, 2.0]
    metric = parse_metric("ndcg@2", bind(Lambda("ndcg", policy="letor4"), labels, [0, 3]).metric.policy)
    assert bind(Lambda(metric), labels, [0, 3]).metric.policy.name == "letor4"
    assert bind(Lambda(metric, policy="trec"), labels, [0, 3]).metric.policy.name == "trec"


@pytest.mark.parametrize(
    ("metric", "words"),
    [
        ("auc", "wherever it stands"),
        ("inversions", "wherever it stands"),
        ("p@5", "ignores the order of the first 5"),
        ("recall@5", "ignores the order"),
        ("p", "same for every order"),
        ("recall", "same for every order"),
    ],
)
def test_a_metric_that_ignores_rank_warns(metric, words):
    with pytest.warns(UserWarning, match=words):
        Lambda(metric).bind([0.0, 1.0, 2.0], [0, 3])


@pytest.mark.parametrize("metric", ["ndcg", "ndcg@10", "map@5", "rr", "err@3", "rbp", "dcg", "meanndcg"])
def test_other_metrics_do_not_warn(metric):
    Lambda(metric).bind([0.0, 1.0, 2.0], [0, 3])
    Lambda(metric).bind([1.0, 1.0, 1.0], [0, 3])


def test_only_the_first_places_open_rows(rng):
    """Behind the cutoff only pairs with a document above it have a force."""
    n = 60
    scores, labels = np.arange(n, 0.0, -1), rng.integers(0, 3, n).astype(float)
    full, cut = derivatives(Lambda("ndcg"), scores, labels), derivatives(Lambda("ndcg@5"), scores, labels)
    assert np.count_nonzero(full[1]) == n
    weights = np.where(np.arange(n) < 5, 0.0, 1.0)  # without the first five nothing is left
    assert not np.any(derivatives(Lambda("ndcg@5"), scores, labels, weights=weights))
    assert np.count_nonzero(cut[1]) > 5


@pytest.mark.parametrize("top", [1, 7, 24, 25, 90])
def test_picking_the_top_and_sorting_agree(top, rng):
    n = 80
    labels = rng.integers(0, 4, n).astype(float)
    for scores in (rng.standard_normal(n), rng.integers(0, 5, n).astype(float), np.zeros(n), -np.arange(n) * 1.0):
        expected = lambda_derivatives(scores, labels, lambda ranked: METRIC_ORACLES["dcg"](ranked, top))
        np.testing.assert_allclose(derivatives(Lambda(f"dcg@{top}"), scores, labels), expected, rtol=1e-4, atol=1e-4)


def test_a_hundred_thousand_documents_fit():
    n = 100_000
    rng = np.random.default_rng(3)
    scores, labels = rng.standard_normal(n), (rng.random(n) < 0.01).astype(float)
    for metric in ("ndcg@10", "map@10", "err@10", "rr@10"):
        g, h = derivatives(Lambda(metric), scores, labels, n_jobs=1)
        assert abs(g.sum(dtype=float)) < 1e-5 * np.abs(g).sum(dtype=float)
        assert h.max() > 0


def test_labels_without_a_gain_are_refused_by_the_gain_rule():
    for labels, settings, words in (
        ([0.0, 40.0], {}, 'gain="linear"'),
        ([0.0, 2.0], {"label_gain": [0, 1]}, "label_gain has 2 entries"),
        ([0.0, -1.0], {}, "must not be negative"),
    ):
        with pytest.raises(ValueError, match=words):
            Lambda("ndcg", **settings).bind(labels, [0, 2])
    g, _ = derivatives(Lambda("ndcg", gain="linear"), [0.0, 1.0], [0.0, 40.0])
    assert np.isfinite(g).all()
    np.testing.assert_array_equal(
        derivatives(Lambda("ndcg", label_gain=[0, 1, 3, 7]), [0.0, 1.0, 2.0], [3.0, 0.0, 1.0]),
        derivatives(Lambda("ndcg"), [0.0, 1.0, 2.0], [3.0, 0.0, 1.0]),
    )


def test_wrong_settings_are_answered_at_once():
    for settings, words in (
        ({"metric": "ndgc@10"}, "Did you mean 'ndcg@10'"),
        ({"sigma": 0}, "sigma must be a positive number"),
        ({"normalize": "lightgmb"}, "Did you mean 'lightgbm'"),
        ({"policy": "leter4"}, "Did you mean 'letor4'"),
        ({"gain": "cubic"}, "exponential"),
    ):
        with pytest.raises(ValueError, match=words):
            Lambda(**settings)


@pytest.mark.parametrize("metric", ["ndcg@3", "map", "inversions"])  # additive, closed form, by the metric's own swaps
def test_a_query_counts_by_a_power_of_its_number_of_pairs(metric, rng):
    """n_pairs counts all pairs of different labels, also those beyond the cutoff."""
    scores, offsets = rng.standard_normal(15), [0, 4, 15]
    labels = rng.permutation(np.resize([0.0, 1, 2], 15))
    plain = derivatives(Lambda(metric), scores, labels, offsets)
    found = derivatives(Lambda(metric, pair_exponent=0.5), scores, labels, offsets)
    factors = [sum(a > b for a in own for b in own) ** -0.5 for own in (labels[:4], labels[4:])]
    np.testing.assert_allclose(found, plain * np.repeat(factors, [4, 11]), rtol=1e-6)


def test_normalized_lambdas_take_no_exponent():
    message = "lambda: pair_exponent=0.5 needs normalize=None; got 'lightgbm', which scales the queries itself"
    with pytest.raises(ValueError, match=message):
        Lambda(pair_exponent=0.5, normalize="lightgbm")
