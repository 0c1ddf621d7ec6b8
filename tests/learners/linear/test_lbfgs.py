"""L-BFGS: equal to scikit-learn where it has the model, at the minimum elsewhere, and the same for any threads."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge

from podium.data.ranking import RankingData
from podium.learners.linear.products import multiply, multiply_transposed
from podium.models.linear import Linear
from podium.objectives import parse_objective


def make_lists(rng, n=600, features=5):
    X = (rng.standard_normal((n, features)) * [1, 10, 0.1, 1, 5] + [0, 3, 0, -2, 100]).astype(np.float32)
    y = np.clip(np.round(X[:, 0] + X[:, 1] / 10 + rng.standard_normal(n)), 0, 4)
    return X, y, np.arange(n) // 20


def standardised(X):
    X = X.astype(np.float64)
    return (X - X.mean(axis=0)) / X.std(axis=0)


def test_squared_error_is_ridge_regression(rng):
    X, y, qid = make_lists(rng)
    for l2 in (0.0, 1e-3, 0.1):
        model = Linear(objective="squared", l2_regularization=l2, max_iter=500, tolerance=1e-9).fit(X, y, qid=qid)
        expected = Ridge(alpha=l2 * len(X)).fit(standardised(X), y).predict(standardised(X))
        np.testing.assert_allclose(model.predict(X), expected, atol=1e-5)


def test_logistic_loss_is_logistic_regression(rng):
    """log(1 + exp(-2 y F)) is the usual loss of 2 F; its penalty on the weights of 2 F is a quarter of ours."""
    X, y, qid = make_lists(rng)
    model = Linear(objective="logistic", l2_regularization=0.01, max_iter=500, tolerance=1e-9)
    model.fit(X, np.minimum(y, 1), qid=qid)
    other = LogisticRegression(C=1 / (0.01 / 4 * len(X)), tol=1e-10, max_iter=5_000)
    other.fit(standardised(X), np.minimum(y, 1))
    np.testing.assert_allclose(2 * model.predict(X), other.decision_function(standardised(X)), atol=1e-3)


@pytest.mark.parametrize("objective", ["ranknet", "squared_hinge", "listnet", "listmle", "exponential"])
def test_no_small_step_in_any_direction_lowers_a_convex_cost(rng, objective):
    X, y, qid = make_lists(rng, 300)
    l2 = 1e-2
    model = Linear(objective=objective, l2_regularization=l2, max_iter=500, tolerance=1e-8).fit(X, y, qid=qid)
    data = RankingData.from_arrays(X, y, qid)
    target, scale = parse_objective(objective).bind(data.y, data.offsets), X.astype(np.float64).std(axis=0)

    def cost(weights):
        return target.loss(X.astype(np.float64) @ weights) + 0.5 * l2 * len(X) * ((weights * scale) ** 2).sum()

    least = cost(model.coef_)
    for _ in range(30):
        move = rng.standard_normal(5) / scale
        for size in (1e-2, 1e-3):
            assert cost(model.coef_ + size * move) > least - 1e-6 * abs(least)


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
