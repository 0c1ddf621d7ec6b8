"""Features that tell nothing apart are reported by every model, dense or sparse, with one warning of the frame."""

import re
import warnings
from dataclasses import replace

import numpy as np
import pytest
from families import small_model
from scipy.sparse import csr_array

from podium.data.ranking import RankingData
from podium.models.frame.constant_features import constant_features
from podium.models.nets import RankNet
from podium.models.registry import MODELS
from podium.models.trees.named import MART, LambdaMART

N = 24
QID = np.arange(N) // 6
Y = np.tile([0.0, 1.0, 2.0, 0.0, 1.0, 0.0], 4) + (QID > 1)  # queries differ in their means
VARYING = np.random.default_rng(0).standard_normal((N, 2)).astype(np.float32)
OF_QUERY = np.column_stack([QID, QID**2]).astype(np.float32)  # differs between queries, never within one
WARNING = re.compile(r"(\w+): (each of the 2 features|the only feature) is (.*), so there is nothing to learn\. Check")
SPARSE = [name for name in MODELS if small_model(name).__sklearn_tags__().input_tags.sparse]
POINTWISE = {"RegressionTree", "MART", "RandomForest", "Pointwise"}  # as they are by default


def make(name, X):
    """LambdaSMART starts from one score per row."""
    return small_model(name, **({"init": np.zeros(len(X))} if name == "LambdaSMART" else {}))


def reasons(model, X, y=Y, qid=QID, **options):
    """What is reported as constant, by the model itself and by its members."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y, qid, **options)
    matches = [WARNING.match(str(warning.message)) for warning in caught]
    assert not [one for one in caught if "no tree could split" in str(one.message)]
    return [(match[1], match[3]) for match in matches if match]


@pytest.mark.parametrize("name", MODELS)
def test_constant_features_are_reported_by_every_model(name):
    ones = np.ones_like(VARYING)
    assert (name, "constant or missing in all rows") in reasons(make(name, ones), ones)


@pytest.mark.parametrize("name", MODELS)
def test_features_that_differ_are_not_reported(name):
    assert reasons(make(name, VARYING), VARYING) == []


@pytest.mark.parametrize("name", SPARSE)
def test_constant_sparse_features_are_reported(name):
    for rows in (csr_array(np.ones_like(VARYING)), csr_array((N, 2), dtype=np.float32)):
        assert (name, "constant or missing in all rows") in reasons(make(name, VARYING), rows)
    assert reasons(make(name, VARYING), csr_array(VARYING)) == []


@pytest.mark.parametrize("name", MODELS)
def test_features_of_the_query_are_reported_where_only_documents_of_a_query_are_compared(name):
    all_reasons = reasons(make(name, OF_QUERY), OF_QUERY)
    expected = [] if name in POINTWISE else [(name, "constant or missing within every query of different labels")]
    assert [one for one in all_reasons if one[0] == name] == expected


@pytest.mark.parametrize("objective", ["squared", "logistic", "ranknet", "lambda", "listnet", "listmle", "approxndcg"])
@pytest.mark.parametrize("name", ["Boosted", "Linear"])
def test_features_of_the_query_are_reported_exactly_where_the_model_is_constant(name, objective):
    model = small_model(name, objective=objective)
    reported = reasons(model, OF_QUERY) != []
    assert reported == (objective not in ("squared", "logistic"))
    assert reported == (np.ptp(model.predict(OF_QUERY)) < 1e-4)  # gradients of a query sum to 0 but for rounding


def test_rows_of_weight_zero_and_queries_of_one_label_do_not_count():
    X = np.ones_like(VARYING)
    X[3] = 5.0
    data = RankingData.from_arrays(X, Y, QID)
    assert constant_features(data, by_query=True, by_label=True) is None
    document, query = np.ones(N), np.ones(4)
    document[3] = query[0] = 0.0
    for weights in ({"sample_weight": document}, {"query_weight": query}):
        sentence = constant_features(replace(data, **weights), by_query=False, by_label=False)
        assert sentence == "each of the 2 features is constant or missing in all rows"
    equal = replace(data, y=np.where(QID == 0, 1.0, Y))  # the only query in which features differ has one label
    assert "is constant or missing in all rows" in constant_features(equal, by_query=True, by_label=True)
    assert constant_features(equal, by_query=True, by_label=False) is None


def test_missing_values_are_values_and_interleaved_queries_are_queries():
    X = np.ones((N, 1), np.float32)
    X[::2] = np.nan
    order = np.random.default_rng(1).permutation(N)
    for rows in (X, csr_array(X)):
        data = RankingData.from_arrays(rows, Y, QID)
        assert constant_features(data, by_query=True, by_label=True) is None
    mixed = RankingData.from_arrays(np.where(QID[:, None] > 1, np.nan, 1)[order], Y[order], QID[order])
    within = "the only feature is constant or missing within every query of different labels"
    assert constant_features(mixed, by_query=True, by_label=True) == within
    assert constant_features(mixed, by_query=False, by_label=True) is None


def test_a_difference_behind_the_first_rows_is_seen():
    X = np.ones((10_000, 2), np.float32)
    y, qid = np.tile([0.0, 1.0], 5_000), np.arange(10_000) // 10
    assert constant_features(RankingData.from_arrays(X, y, qid), by_query=True, by_label=True) is not None
    X[9_999, 1] = 2.0
    for rows in (X, csr_array(X)):
        assert constant_features(RankingData.from_arrays(rows, y, qid), by_query=True, by_label=True) is None


def test_columns_are_those_of_the_transform():
    """The z-scores of features of the query are 0, whatever the features."""
    with_raw = small_model("Linear", objective="squared", transform=("raw", "zscore"))
    assert reasons(with_raw, OF_QUERY) == []
    assert reasons(small_model("Linear", transform=("raw", "zscore")), OF_QUERY) != []


def test_given_pairs_need_no_labels():
    pairs = np.arange(0, N, 2), np.arange(1, N, 2)
    (reason,) = reasons(small_model("RankNet"), OF_QUERY, None, QID, pairs=pairs)
    assert reason == ("RankNet", "constant or missing within every query")
    assert reasons(RankNet(max_epochs=1), VARYING, None, QID, pairs=pairs) == []


def test_trees_that_are_added_are_reported_too():
    model = LambdaMART(n_estimators=1, min_samples_leaf=1).fit(VARYING, Y, QID)
    with pytest.warns(UserWarning, match="LambdaMART: each of the 2 features is constant or missing in all rows"):
        model.fit_more(np.ones_like(VARYING), Y, QID, n_estimators=1)


def test_one_row_is_nothing_to_compare():
    assert constant_features(RankingData.from_arrays([[1.0]], [1.0], [1]), by_query=False, by_label=True) is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "no tree could split: the gradients")
        MART(n_estimators=1).fit([[1.0]], [1.0], [1])
