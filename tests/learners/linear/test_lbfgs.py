"""L-BFGS: equal to scikit-learn where it has the model, at the minimum elsewhere, and the same for any threads."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit, logsumexp
from sklearn.linear_model import LogisticRegression, Ridge

from podium.data.ranking import RankingData
from podium.learners.linear.lbfgs import LinearRules, LinearTraining
from podium.learners.linear.products import multiply, multiply_transposed
from podium.models.linear import Linear
from podium.objectives import parse_objective


def make_lists(rng, n=600, features=5):
    X = (rng.standard_normal((n, features)) * [1, 10, 0.1, 1, 5] + [0, 3, 0, -2, 100]).astype(np.float32)
    y = np.clip(np.round(X[:, 0] + X[:, 1] / 10 + rng.standard_normal(n)), 0, 4)
    return X, y, np.arange(n) // 20


def standardised(X, weights=None):
    X = X.astype(np.float64)
    mean = np.average(X, axis=0, weights=weights)
    return (X - mean) / np.sqrt(np.average((X - mean) ** 2, axis=0, weights=weights))


@pytest.mark.parametrize("weighted", [False, True])
def test_squared_error_is_ridge_regression(rng, weighted):
    """Ridge adds alpha |w|^2 to the sum of squares, we add l2/2 |w|^2 to half of their weighted mean."""
    X, y, qid = make_lists(rng)
    weights = rng.random(len(X)) + 0.1 if weighted else np.ones(len(X))
    for l2 in (0.0, 1e-3, 0.1):
        model = Linear(objective="squared", l2_regularization=l2, max_iter=500, tolerance=1e-9)
        model.fit(X, y, qid=qid, sample_weight=weights)
        Z = standardised(X, weights)
        other = Ridge(alpha=l2 * weights.sum()).fit(Z, y, sample_weight=weights)
        np.testing.assert_allclose(model.predict(X), other.predict(Z), atol=1e-5)


@pytest.mark.parametrize("weighted", [False, True])
def test_logistic_loss_is_logistic_regression(rng, weighted):
    """log(1 + exp(-2 y F)) is the usual loss of 2 F; its penalty on the weights of 2 F is a quarter of ours."""
    X, y, qid = make_lists(rng)
    weights = rng.random(len(X)) + 0.1 if weighted else np.ones(len(X))
    model = Linear(objective="logistic", l2_regularization=0.01, max_iter=500, tolerance=1e-9)
    model.fit(X, np.minimum(y, 1), qid=qid, sample_weight=weights)
    other = LogisticRegression(C=1 / (0.01 / 4 * weights.sum()), tol=1e-10, max_iter=5_000)
    Z = standardised(X, weights)
    other.fit(Z, np.minimum(y, 1), sample_weight=weights)
    np.testing.assert_allclose(2 * model.predict(X), other.decision_function(Z), atol=1e-4)


def mean_loss(objective, scores, y, queries):
    """By plain sums over documents, pairs or queries; `queries` has a slice for each."""
    total, count = 0.0, 0
    for own in queries:
        s, labels = scores[own], y[own]
        if objective in ("listnet", "listmle"):
            count += 1
        if objective == "listnet":
            target = np.exp(labels) / np.exp(labels).sum()
            total += logsumexp(s) - target @ s
        elif objective == "listmle":
            for i in np.flatnonzero(labels > labels.min()):
                total += logsumexp(s[labels <= labels[i]]) - s[i]
        elif objective == "query_rmse":
            residual = s - labels
            total, count = total + 0.5 * ((residual - residual.mean()) ** 2).sum(), count + len(s)
        else:
            margins = (s[:, None] - s[None, :])[labels[:, None] > labels[None, :]]
            losses = {
                "ranknet": lambda o: np.logaddexp(0, -o),
                "squared_hinge": lambda o: np.maximum(0, 1 - o) ** 2,
                "exponential": lambda o: np.exp(-o),
            }
            total, count = total + losses[objective](margins).sum(), count + len(margins)
    return total / count


@pytest.mark.parametrize("objective", ["ranknet", "squared_hinge", "exponential", "listnet", "listmle", "query_rmse"])
def test_the_minimum_is_that_of_scipy(rng, objective):
    X, y, qid = make_lists(rng, 120)
    Z, queries = standardised(X), [slice(start, start + 20) for start in range(0, 120, 20)]

    def cost(weights):
        return mean_loss(objective, Z @ weights, y, queries) + 0.5 * 0.03 * weights @ weights

    best = minimize(cost, np.zeros(5), method="BFGS", options={"gtol": 1e-8})
    model = Linear(objective=objective, max_iter=500, tolerance=1e-9).fit(X, y, qid=qid)
    np.testing.assert_allclose(model.coef_ * X.astype(np.float64).std(axis=0), best.x, atol=2e-5)
    assert np.abs(Z @ best.x - model.predict(X) - (Z @ best.x - model.predict(X)).mean()).max() < 1e-4


def test_pair_exponent_weighs_the_queries_of_the_mean(rng):
    X, y, _ = make_lists(rng, 120)
    Z, queries = standardised(X), [slice(0, 10), slice(10, 40), slice(40, 120)]

    def cost(weights):
        total, weight = 0.0, 0.0
        for own in queries:
            n_pairs = (y[own][:, None] > y[own][None, :]).sum()
            total += n_pairs**0.5 * mean_loss("ranknet", Z @ weights, y, [own])
            weight += n_pairs**0.5
        return total / weight + 0.5 * 0.03 * weights @ weights

    best = minimize(cost, np.zeros(5), method="BFGS", options={"gtol": 1e-8})
    model = Linear(pair_exponent=0.5, max_iter=500, tolerance=1e-9).fit(X, y, group=[10, 30, 80])
    np.testing.assert_allclose(model.coef_ * X.astype(np.float64).std(axis=0), best.x, atol=2e-5)


def test_ordinal_regression_has_thresholds_in_order_and_is_at_its_minimum(rng):
    """Of minus the logarithm of P(grade) = P(F < upper) - P(F < lower), for the thresholds that the data gives."""
    X, y, qid = make_lists(rng, 200)
    Z, grades = standardised(X), np.unique(y)
    below = np.array([(y <= grade).mean() for grade in grades[:-1]])
    thresholds = np.log(below / (1 - below))
    data = RankingData.from_arrays(X, y, qid)
    bound = parse_objective("ordinal").bind(data.y, data.offsets)
    np.testing.assert_allclose(bound.thresholds, thresholds, rtol=1e-12)
    assert (np.diff(bound.thresholds) > 0).all()
    ends, place = np.concatenate([[-np.inf], thresholds, [np.inf]]), np.searchsorted(grades, y)

    def cost(point):
        scores = Z @ point[:-1] + point[-1]
        chance = expit(ends[place + 1] - scores) - expit(ends[place] - scores)
        return -np.log(chance).mean() + 0.5 * 0.03 * point[:-1] @ point[:-1]

    best = minimize(cost, np.zeros(6), method="BFGS", options={"gtol": 1e-8})
    model = Linear(objective="ordinal", max_iter=500, tolerance=1e-9).fit(X, y, qid=qid)
    np.testing.assert_allclose(model.predict(X), Z @ best.x[:-1] + best.x[-1], atol=1e-4)


def test_only_pointwise_objectives_have_an_intercept(rng):
    X, y, qid = make_lists(rng, 200)
    for objective, pointwise in (("squared", True), ("ordinal", True), ("ranknet", False), ("query_rmse", False)):
        model = Linear(objective=objective).fit(X, y, qid=qid)
        at_the_mean = model.intercept_ + model.coef_ @ X.astype(np.float64).mean(axis=0)
        assert (abs(at_the_mean) > 1e-3) == pointwise
    strong = Linear(objective="squared", l2_regularization=1e9).fit(X, y, qid=qid)
    np.testing.assert_allclose(strong.predict(X), y.mean(), rtol=1e-5)  # which is not penalised


@pytest.mark.parametrize("objective", ["ranknet", "listmle", "squared", "approxndcg"])
def test_every_round_lowers_the_cost(rng, objective):
    X, y, qid = make_lists(rng, 300)
    data = RankingData.from_arrays(X, y, qid)
    target = parse_objective(objective).bind(data.y, data.offsets)
    training = LinearTraining(data.X, target, LinearRules(l2=0.01, fit_intercept=objective == "squared"))
    costs = [training._cost(training._iterate(training.weights))]
    while training.n_steps < 15 and not training.is_done:
        training.step()
        costs.append(training._cost(training._iterate(training.weights)))
    assert len(costs) > 4
    assert (np.diff(costs) <= 1e-12).all()


def test_products_equal_those_of_numpy_and_do_not_depend_on_threads(rng):
    X = rng.standard_normal((30_000, 7)).astype(np.float32)
    weights, values = rng.standard_normal(7), rng.standard_normal(30_000)
    found = [np.empty(30_000), np.empty(30_000)]
    for n_jobs, out in zip((1, 2), found):
        multiply(X, weights, out, n_jobs)
    np.testing.assert_array_equal(*found)
    np.testing.assert_allclose(found[0], X.astype(np.float64) @ weights, atol=1e-9)
    sums = [multiply_transposed(X, values, n_jobs) for n_jobs in (1, 2, 3)]
    np.testing.assert_array_equal(sums[0], sums[1])
    np.testing.assert_array_equal(sums[0], sums[2])
    np.testing.assert_allclose(sums[0], X.T.astype(np.float64) @ values, atol=1e-8)
