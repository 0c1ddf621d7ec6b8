"""scikit-learn's own tools with `qid` through metadata routing: the numbers are those made by hand."""

from __future__ import annotations

import numpy as np
import pytest
import sklearn
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from small_worlds import small_model, world

import podium


@pytest.fixture(autouse=True)
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


@pytest.fixture(scope="module")
def rows():
    data = world(2)
    order = np.random.default_rng(0).permutation(data.n_rows)  # interleaved
    return data.X[order], data.y[order], data.qid[order]


def by_hand(make, X, y, qid, folds: int) -> list[float]:
    return [
        make().fit(X[train], y[train], qid[train]).score(X[held], y[held], qid[held])
        for train, held in GroupKFold(folds).split(X, y, qid)
    ]


@pytest.mark.parametrize("name", ["LambdaMART", "Linear", "RankSVM", "Blend", "AutoRanker"])
def test_cross_validate_hands_qid_to_fit_and_score(rows, name) -> None:
    X, y, qid = rows

    def make():
        return small_model(name)

    model = make().set_fit_request(qid=True).set_score_request(qid=True)
    found = cross_validate(model, X, y, cv=GroupKFold(3), params={"qid": qid, "groups": qid})
    assert found["test_score"].tolist() == by_hand(make, X, y, qid, 3)


def test_a_grid_search_finds_the_settings_that_score_best(rows) -> None:
    X, y, qid = rows
    model = podium.LambdaMART(n_estimators=5, min_samples_leaf=5).set_fit_request(qid=True).set_score_request(qid=True)
    grid = GridSearchCV(model, {"max_leaf_nodes": [2, 8], "learning_rate": [0.01, 0.3]}, cv=GroupKFold(3))
    grid.fit(X, y, qid=qid, groups=qid)
    own = [
        np.mean(by_hand(lambda p=p: podium.LambdaMART(n_estimators=5, min_samples_leaf=5, **p), X, y, qid, 3))
        for p in grid.cv_results_["params"]
    ]
    np.testing.assert_allclose(grid.cv_results_["mean_test_score"], own)
    assert grid.best_params_ == grid.cv_results_["params"][int(np.argmax(own))]
    expected = podium.LambdaMART(n_estimators=5, min_samples_leaf=5, **grid.best_params_).fit(X, y, qid)
    np.testing.assert_array_equal(grid.predict(X), expected.predict(X))


def test_a_pipeline_hands_qid_to_its_last_step(rows) -> None:
    X, y, qid = rows
    model = podium.Linear(max_iter=5, transform=("zscore",))
    model.set_fit_request(qid=True).set_score_request(qid=True).set_predict_request(qid=True)
    pipeline = make_pipeline(StandardScaler(), model).fit(X, y, qid=qid)
    scaled = StandardScaler().fit_transform(X)
    expected = podium.Linear(max_iter=5, transform=("zscore",)).fit(scaled, y, qid)
    np.testing.assert_allclose(pipeline.predict(X, qid=qid), expected.predict(scaled, qid))
    assert pipeline.score(X, y, qid=qid) == expected.score(scaled, y, qid)
