"""Monotone constraints: the score never moves the wrong way along a feature, whatever else happens."""

import numpy as np
import pytest

from podium.models import MART, LambdaMART


def make_lists(rng, n=2_000):
    X = rng.random((n, 3)).astype(np.float32)
    y = 2 * X[:, 0] + np.sin(9 * X[:, 1]) + X[:, 2] + 0.3 * rng.standard_normal(n)
    return X, np.clip(np.round(y + 1), 0, 4), np.arange(n) // 20


def curves(model, X, feature):
    """Scores of the first rows along a feature."""
    along = np.linspace(-0.1, 1.1, 60, dtype=np.float32)
    rows = np.repeat(X[:40], len(along), axis=0)
    rows[:, feature] = np.tile(along, 40)
    return model.predict(rows).reshape(40, -1)


@pytest.mark.parametrize("growth", ["leaf", "level", "oblivious"])
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("model", [MART, LambdaMART])
def test_scores_follow_the_sign(rng, growth, sign, model):
    X, y, qid = make_lists(rng)
    settings = {"n_estimators": 20, "max_leaf_nodes": 16, "growth": growth, "learning_rate": 0.3}
    free = model(**settings).fit(X, y, qid=qid)
    held = model(**settings, monotone={1: sign}).fit(X, y, qid=qid)
    assert np.diff(sign * curves(free, X, 1), axis=1).min() < 0  # a wave goes both ways
    assert np.diff(sign * curves(held, X, 1), axis=1).min() >= 0
    assert held.score(X, y, qid) > 0.6


def test_features_may_be_named(rng):
    pandas = pytest.importorskip("pandas")
    X, y, qid = make_lists(rng)
    table = pandas.DataFrame(X, columns=["price", "wave", "age"])
    by_name = LambdaMART(n_estimators=3, monotone={"wave": 1}).fit(table, y, qid=qid)
    by_number = LambdaMART(n_estimators=3, monotone={1: 1}).fit(X, y, qid=qid)
    np.testing.assert_array_equal(by_name.forest_.value, by_number.forest_.value)
    with pytest.raises(ValueError, match="'size'; expected one of price, wave, age"):
        LambdaMART(monotone={"size": 1}).fit(table, y, qid=qid)


@pytest.mark.parametrize("wrong", [{0: 2}, [1, 0, 0], "up", {0: "up"}])
def test_signs_that_mean_nothing_are_refused(rng, wrong):
    X, y, qid = make_lists(rng, 40)
    with pytest.raises(ValueError, match="monotone must be a mapping"):
        LambdaMART(monotone=wrong).fit(X, y, qid=qid)


def test_the_same_bytes_for_any_number_of_threads(rng, tmp_path):
    X, y, qid = make_lists(rng, 40_000)
    for n_jobs in (1, 2):
        LambdaMART(n_estimators=3, monotone={0: 1, 1: -1}, n_jobs=n_jobs).fit(X, y, qid=qid).save(
            tmp_path / f"{n_jobs}.podium"
        )
    assert (tmp_path / "1.podium").read_bytes() == (tmp_path / "2.podium").read_bytes()
