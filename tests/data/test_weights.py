"""Weights are scaled before training: a common factor means nothing, and ratios that float32 loses are refused."""

import io
import warnings
from dataclasses import replace

import numpy as np
import pytest
from families import small_model
from sklearn.linear_model import Ridge

from podium.data.ranking import RankingData
from podium.data.weights import LARGEST_RATIO, row_weights, with_scaled_weights
from podium.models.linear import Linear
from podium.models.pointwise import Pointwise
from podium.models.registry import MODELS
from podium.models.trees.named import MART, Boosted

N, QUERIES = 60, 6


def weighted_rows(document=None, query=None):
    rng = np.random.default_rng(3)
    X = rng.standard_normal((N, 3)).astype(np.float32)
    y = np.clip(np.round(X[:, 0] + 0.5 * X[:, 1] + 1 + 0.5 * rng.standard_normal(N)), 0, 3)
    return RankingData.from_arrays(X, y, np.arange(N) // 10, sample_weight=document, query_weight=query)


def document_weights():
    return np.random.default_rng(5).choice([0.0, 0.5, 1.0, 3.0], N)


def query_weights():
    return np.array([1.0, 0.25, 0.0, 2.0, 1.5, 1.0])


def make(name):
    init = {"init": Linear(max_iter=5).fit(weighted_rows())} if name == "LambdaSMART" else {}
    return small_model(name, **init)


def fitted(name, data):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # rounds that are too few for a learner to end by itself
        return make(name).fit(data)


def saved(model):
    target = io.BytesIO()
    model.save(target)
    return target.getvalue()


# --- the scaled weights


def test_the_mean_of_the_positive_weights_is_one():
    data = with_scaled_weights(weighted_rows(np.repeat([0.0, 1.0, 3.0], N // 3), [0, 4, 4, 4, 8, 0]))
    np.testing.assert_allclose(data.sample_weight, np.repeat([0.0, 1 / 2, 3 / 2], N // 3), rtol=1e-15)
    np.testing.assert_allclose(data.query_weight, [0, 4 / 5, 4 / 5, 4 / 5, 8 / 5, 0], rtol=1e-15)


@pytest.mark.parametrize("weight", [5e-324, 1e-300, 0.1, 1 / 3, 7.0, 1e300, np.finfo(np.float64).max])
def test_equal_weights_are_one_exactly(weight):
    data = with_scaled_weights(weighted_rows(np.full(N, weight)))
    assert (data.sample_weight == 1.0).all()
    assert data.query_weight is None


def test_data_without_weights_are_the_same_object():
    data = weighted_rows()
    assert with_scaled_weights(data) is data


def test_the_order_of_rows_does_not_change_a_bit():
    weights = np.random.default_rng(0).random(N)
    order = np.random.default_rng(1).permutation(N)
    scaled = with_scaled_weights(weighted_rows(weights)).sample_weight
    np.testing.assert_array_equal(with_scaled_weights(weighted_rows(weights[order])).sample_weight, scaled[order])


def test_row_weights_are_those_of_the_document_times_those_of_its_query():
    interleaved = RankingData.from_arrays(np.eye(4), np.zeros(4), [7, 9, 7, 9])
    assert row_weights(interleaved) is None
    both = replace(interleaved, sample_weight=np.array([1.0, 2, 3, 4]), query_weight=np.array([10.0, 100]))
    np.testing.assert_array_equal(row_weights(both), [10, 200, 30, 400])
    np.testing.assert_array_equal(row_weights(replace(both, sample_weight=None)), [10, 100, 10, 100])
    np.testing.assert_array_equal(row_weights(replace(both, query_weight=None)), [1, 2, 3, 4])


# --- the law over all models


@pytest.mark.parametrize("name", MODELS)
def test_a_common_factor_of_the_weights_changes_no_model(name):
    """Powers of two give the same file; others the same scores up to the rounding of the weights themselves."""
    data = weighted_rows(document_weights(), query_weights())
    model = fitted(name, data)
    expected, scores = saved(model), model.predict(data)
    assert np.isfinite(scores).all()
    for exponent in (-990, 990):
        factor = 2.0**exponent  # 1e-298 and 1e298
        assert saved(fitted(name, replace(data, sample_weight=factor * data.sample_weight))) == expected
        assert saved(fitted(name, replace(data, query_weight=factor * data.query_weight))) == expected


@pytest.mark.parametrize("factor", [1e-300, 1 / 3, 1e300])
@pytest.mark.parametrize("name", ["LambdaMART", "MART", "Linear", "RankSVM", "Pointwise", "Pairwise", "RankBoost"])
def test_factors_that_are_rounded_give_the_same_scores(name, factor):
    data = weighted_rows(document_weights(), query_weights())
    other = replace(data, sample_weight=factor * data.sample_weight, query_weight=data.query_weight / factor)
    np.testing.assert_allclose(
        fitted(name, other).predict(data), fitted(name, data).predict(data), rtol=1e-5, atol=1e-7
    )


@pytest.mark.parametrize("name", MODELS)
def test_equal_weights_are_no_weights(name):
    data = weighted_rows()
    equal = replace(data, sample_weight=np.full(N, 1e-200), query_weight=np.full(QUERIES, 1e200))
    np.testing.assert_allclose(
        fitted(name, equal).predict(data), fitted(name, data).predict(data), rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize("name", MODELS)
def test_ratios_beyond_single_precision_are_refused_by_place(name):
    X, y, qid = (lambda data: (data.X, data.y, data.qid))(weighted_rows())
    weights = np.ones(N)
    weights[[7, 8, 9]] = 1e300, 1e-300, 0.0
    pattern = r"fit: positive weights may differ by a factor of at most 1e\+12; sample_weight\[8\] is 1e-300 and "
    with pytest.raises(ValueError, match=pattern + r"sample_weight\[7\] is 1e\+300\. Set weights that are negligible"):
        make(name).fit(X, y, qid, sample_weight=weights)
    with pytest.raises(ValueError, match=r"query_weight\[5\] is 1e-13 and query_weight\[0\] is 1\. Set"):
        make(name).fit(X, y, qid, query_weight=[1, 1, 1, 1, 1, 1e-13])


@pytest.mark.parametrize("name", MODELS)
def test_the_largest_ratio_is_trained_with(name):
    weights = np.geomspace(1 / LARGEST_RATIO, 1.0, N)
    data = weighted_rows(1e-290 * weights, np.geomspace(1e-300, 1e-288, QUERIES))
    assert np.isfinite(fitted(name, data).predict(data)).all()


# --- what scaled weights mean where a penalty does not depend on the number of rows


def test_the_estimator_of_a_pointwise_model_gets_scaled_weights():
    data = weighted_rows(document_weights())
    model = Pointwise(estimator=Ridge(alpha=5.0), standardize=False).fit(data)
    positive = document_weights()[document_weights() > 0]
    X = data.X.astype(np.float64)
    expected = Ridge(alpha=5.0 * positive.mean()).fit(X, data.y, sample_weight=document_weights())
    np.testing.assert_allclose(model.predict(data), expected.predict(X), rtol=1e-9)


# --- weights as numbers of copies, where the definition of a model allows it


@pytest.mark.parametrize("objective", ["squared", "ranknet"])
@pytest.mark.parametrize("growth", ["leaf", "level", "oblivious"])
def test_trees_are_grown_as_if_documents_of_weight_zero_were_not_there(objective, growth):
    data = weighted_rows()
    counts = np.random.default_rng(2).random(N) < 0.7
    rules = {"objective": objective, "growth": growth, "n_estimators": 5, "min_samples_leaf": 2}
    weighted = Boosted(**rules).fit(data.X, data.y, data.qid, sample_weight=counts)
    without = Boosted(**rules).fit(data.X[counts], data.y[counts], data.qid[counts])
    np.testing.assert_allclose(weighted.predict(data), without.predict(data), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("sampling", [{"row_fraction": 0.5}, {"query_fraction": 0.5}, {"goss": (0.2, 0.2)}])
def test_samples_of_rows_without_any_weight_are_no_error(sampling):
    weights = np.zeros(N)
    weights[3:9] = 1.0
    model = MART(n_estimators=5, min_samples_leaf=1, **sampling)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(weighted_rows(weights))
    assert np.isfinite(model.predict(weighted_rows())).all()


@pytest.mark.parametrize("objective", ["squared", "logistic", "ranknet", "hinge"])
def test_weights_of_a_linear_model_are_copies(objective):
    """Standardisation and mean loss are weighted; gradients are float32, so scores are equal to some six digits."""
    data, copies = weighted_rows(), np.random.default_rng(5).integers(0, 4, N)
    rows = np.repeat(np.arange(N), copies)
    model = Linear(objective=objective, max_iter=200, tolerance=1e-9)
    weighted = model.fit(data.X, data.y, data.qid, sample_weight=copies).predict(data)
    repeated = model.fit(data.X[rows], data.y[rows], data.qid[rows]).predict(data)
    np.testing.assert_allclose(weighted, repeated, atol=1e-4)
