"""LightGBM's text: the same bits both ways, by LightGBM itself in a process of its own and by a plain walk."""

import lightgbm
import numpy as np
import pytest
from exchange.forests import hostile_rows, plain_scores, random_form, random_model

import podium
from podium.exchange import read, verify
from podium.exchange.engines import lightgbm as engine
from podium.exchange.exporting import write_form


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("categorical", [(), (1, 4)], ids=["numbers", "categories"])
def test_lightgbm_gives_exported_forests_the_bits_that_are_expected(seed, categorical):
    form = random_form(seed, categorical=categorical)
    X = hostile_rows(form.forest, seed=seed, categorical=categorical)
    written = engine.write(form)
    booster = lightgbm.Booster(model_str=written.content.decode())
    np.testing.assert_array_equal(booster.predict(X, num_threads=1), written.expected(X))
    flushed = np.where(np.abs(X) <= 1e-35, np.float32(0), X)  # as `predict` of dense rows does first
    np.testing.assert_array_equal(written.expected(X), plain_scores(form.forest, flushed))


@pytest.mark.parametrize("seed", range(6))
def test_what_was_exported_is_imported_with_the_same_scores(seed):
    form = random_form(seed, categorical=(2,))
    X = hostile_rows(form.forest, seed=seed, categorical=(2,))
    model = engine.read(engine.write(form).content).model
    np.testing.assert_array_equal(model.predict(X), plain_scores(form.forest, X))
    again = write_form(podium.exchange.forms.form_of(model), "lightgbm")
    np.testing.assert_array_equal(engine.read(again.content).model.predict(X), model.predict(X))


TRAININGS = {
    "lambdarank": {},
    "xendcg": {"objective": "rank_xendcg"},
    "dart": {"boosting_type": "dart"},
    "zeros are missing": {"zero_as_missing": True},
    "nothing is missing": {"use_missing": False},
    "random forest": {"boosting_type": "rf", "bagging_fraction": 0.5, "bagging_freq": 1},
    "categories": {"categorical_feature": [3]},
}


@pytest.mark.parametrize("options", TRAININGS.values(), ids=TRAININGS)
def test_a_model_of_lightgbm_scores_here_as_there(options, tmp_path):
    random = np.random.default_rng(4)
    X = random.standard_normal((600, 6)).astype(np.float32)
    X[random.random(X.shape) < 0.1], X[random.random(X.shape) < 0.1] = np.nan, 0
    X[:, 3] = random.integers(0, 20, len(X))
    y, groups = random.integers(0, 4, len(X)), np.full(30, 20)
    settings = {"objective": "lambdarank", "verbose": -1, "num_threads": 1, "min_data_in_leaf": 5, **options}
    categories = settings.pop("categorical_feature", "auto")
    data = lightgbm.Dataset(X, y, group=groups, categorical_feature=categories)
    theirs = lightgbm.train(settings, data, num_boost_round=12)
    theirs.save_model(tmp_path / "theirs.txt")
    imported = read(tmp_path / "theirs.txt")
    tiny = np.where(random.random(X.shape) < 0.2, np.float32(-1e-36), X)
    for rows in (X, tiny):
        np.testing.assert_array_equal(imported.model.predict(rows), theirs.predict(rows))
    imported.model.export(tmp_path / "ours.txt", "lightgbm")
    assert verify(imported.model, tmp_path / "ours.txt", X).holds


@pytest.mark.parametrize(
    ("objective", "is_changed"),
    [
        ({"objective": "regression", "reg_sqrt": True}, True),
        ({"objective": "quantile"}, False),
        ({"objective": "binary"}, True),
    ],
)
def test_a_note_says_where_predict_changes_the_sum_of_the_leaves(objective, is_changed, tmp_path):
    random = np.random.default_rng(5)
    X = random.standard_normal((300, 4)).astype(np.float32)
    data = lightgbm.Dataset(X, (X[:, 0] > 0).astype(float))
    theirs = lightgbm.train(objective | {"verbose": -1, "num_threads": 1}, data, num_boost_round=5)
    theirs.save_model(tmp_path / "theirs.txt")
    imported = read(tmp_path / "theirs.txt")
    np.testing.assert_array_equal(imported.model.predict(X), theirs.predict(X, raw_score=True))
    assert (imported.model.predict(X) != theirs.predict(X)).any() == is_changed == bool(imported.notes)


def test_an_imported_model_is_saved_with_its_bits_and_refuses_training(tmp_path):
    model = random_model(3, categorical=(0,))
    X = hostile_rows(model.forest_, categorical=(0,))
    model.save(tmp_path / "m.podium")
    loaded = podium.load(tmp_path / "m.podium")
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    with pytest.raises(ValueError, match="cannot be trained"):
        loaded.fit(X, np.zeros(len(X)))


@pytest.mark.parametrize("categorical", [(), (1, 4)], ids=["numbers", "categories"])
def test_treelite_gives_exported_forests_the_same_bits(categorical, tmp_path):
    treelite = pytest.importorskip("treelite")
    form = random_form(21, n_trees=20, categorical=categorical)
    X = hostile_rows(form.forest, categorical=categorical)
    (tmp_path / "m.txt").write_bytes(engine.write(form).content)
    model = treelite.frontend.load_lightgbm_model(tmp_path / "m.txt")
    scores = treelite.gtil.predict(model, X.astype(np.float64), nthread=1)
    np.testing.assert_array_equal(np.ravel(scores), plain_scores(form.forest, X))
