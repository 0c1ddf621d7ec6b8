"""Baselines: the trees are those of the libraries themselves, watched by Podium's metrics."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import podium
from podium.lab.experiments.making import entry_of
from podium.lab.tuning.tuning import tune

N_QUERIES = 30


@pytest.fixture(scope="module")
def data() -> tuple[podium.RankingData, podium.RankingData]:
    rng = np.random.default_rng(3)
    X = rng.random((N_QUERIES * 10, 5), dtype=np.float32)
    y = np.clip((3 * X[:, 0] * X[:, 1] + rng.normal(0, 0.4, len(X))).round(), 0, 2)
    whole = podium.RankingData.from_arrays(X, y, np.repeat(np.arange(N_QUERIES), 10))
    return whole.subset(slice(0, 20)), whole.subset(slice(20, N_QUERIES))


@pytest.mark.parametrize("objective", ["lambdarank", "rank_xendcg", "regression"])
def test_lightgbm_is_what_its_own_train_gives(data: Any, objective: str) -> None:
    lightgbm = pytest.importorskip("lightgbm")
    train, valid = data
    settings = {"objective": objective, "num_leaves": 5, "min_data_in_leaf": 4, "feature_fraction": 0.6}
    model: Any = (
        entry_of("lightgbm").kind(n_estimators=8, random_state=5, n_jobs=1, **settings).fit(train, eval_set=valid)
    )
    own = {"seed": 5, "num_threads": 1, "verbose": -1, "deterministic": True, "force_row_wise": True}
    rows = lightgbm.Dataset(train.X, train.y, group=train.group)
    booster = lightgbm.train(settings | own | {"learning_rate": 0.1}, rows, 8)
    np.testing.assert_allclose(model.predict(valid), booster.predict(valid.X), rtol=1e-12)
    curve = model.evals_["eval_0"]["ndcg@10"]
    assert len(curve) == 8
    assert curve[-1] == pytest.approx(podium.evaluate(booster.predict(valid.X), valid, metrics="ndcg@10")["ndcg@10"])
    assert model.feature_importances_.sum() == pytest.approx(1)
    assert model.feature_importances_[:2].sum() > 0.5
    assert model.file_size() > 500


def test_lightgbm_stops_by_its_own_rule_where_cut_offs_are_given(data: Any) -> None:
    lightgbm = pytest.importorskip("lightgbm")
    train, valid = data
    own: dict[str, Any] = {"num_leaves": 5, "min_data_in_leaf": 4, "learning_rate": 0.3}
    given = {"n_estimators": 60, "random_state": 5, "n_jobs": 1, "eval_at": (1, 3)}
    model: Any = entry_of("lightgbm").kind(**own, **given)
    model.fit(train, eval_set=valid, early_stopping_rounds=5)
    rows = lightgbm.Dataset(train.X, train.y, group=train.group)
    judged = lightgbm.Dataset(valid.X, valid.y, group=valid.group, reference=rows)
    settings = own | {"objective": "lambdarank", "metric": "ndcg", "eval_at": [1, 3], "seed": 5, "num_threads": 1}
    settings |= {"verbose": -1, "deterministic": True, "force_row_wise": True}
    stopping = lightgbm.early_stopping(5, verbose=False)
    booster = lightgbm.train(settings, rows, 60, valid_sets=[judged], callbacks=[stopping])
    assert model.best_iteration_ == booster.best_iteration < 55
    np.testing.assert_allclose(model.predict(valid), booster.predict(valid.X), rtol=1e-12)
    other = entry_of("lightgbm").kind(**own, **given | {"eval_at": ()}).fit(train, eval_set=valid)
    assert other.best_iteration_ == 60
    for wrong in ((0,), 5, ("ndcg",), (True,), (1001,), "3"):
        with pytest.raises(ValueError, match=r"eval_at must be a list of integers from 1 to 1,000.*got"):
            entry_of("lightgbm").kind(eval_at=wrong).fit(train)


@pytest.mark.parametrize("objective", ["rank:ndcg", "reg:squarederror"])
def test_xgboost_is_what_its_own_train_gives(data: Any, objective: str) -> None:
    xgboost = pytest.importorskip("xgboost")
    train, valid = data
    settings = {"objective": objective, "max_depth": 3, "colsample_bytree": 0.6}
    model: Any = (
        entry_of("xgboost").kind(n_estimators=8, random_state=5, n_jobs=1, **settings).fit(train, eval_set=valid)
    )
    rows = xgboost.DMatrix(train.X, train.y)
    rows.set_group(train.group)
    own = {"seed": 5, "nthread": 1, "verbosity": 0, "learning_rate": 0.1, "base_score": 0.0}
    booster = xgboost.train(settings | own, rows, 8)
    expected = booster.predict(xgboost.DMatrix(valid.X), output_margin=True)
    np.testing.assert_allclose(model.predict(valid), expected, rtol=1e-5, atol=1e-6)
    assert len(model.evals_["eval_0"]["ndcg@10"]) == 8
    assert model.feature_importances_[:2].sum() > 0.5
    assert model.file_size() > 500


@pytest.mark.parametrize("kind", ["lightgbm", "xgboost"])
def test_peers_stop_early_and_are_tuned_like_other_models(data: Any, kind: str) -> None:
    pytest.importorskip(kind)
    train, valid = data
    model: Any = entry_of(kind).kind(n_estimators=60, learning_rate=0.5, n_jobs=1)
    stopped = model.fit(train, eval_set=valid, early_stopping_rounds=5)
    curve = stopped.evals_["eval_0"]["ndcg@10"]
    assert stopped.best_iteration_ == int(np.argmax(curve)) + 1 < 60
    again: Any = entry_of(kind).kind(n_estimators=stopped.best_iteration_, learning_rate=0.5, n_jobs=1).fit(train)
    np.testing.assert_allclose(stopped.predict(valid), again.predict(valid), rtol=1e-6)
    space = {"max_depth": [2, 3]}
    tuned = tune(entry_of(kind).kind(n_estimators=10, n_jobs=1), space, train, valid, trials=2, sampler="random")
    assert tuned.chosen.keys() == {"max_depth", "n_estimators"}
    with pytest.raises(ValueError, match="must be"):
        entry_of(kind).kind(learning_rate=-1.0).fit(train)
