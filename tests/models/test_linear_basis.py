"""Linear models of basis functions: products, given centres and a sigma, with everything else a model has."""

import io
import itertools
import json
import re
import sys

import numpy as np
import pytest
from oracles import functions_of_centres, products_of_features
from scipy.sparse import csr_array
from sklearn.base import clone

import podium
from podium import cli
from podium.data.standardising import Standardisation
from podium.models.linear import Linear

N = 240
DRAWS = np.random.default_rng(11)
X = (DRAWS.standard_normal((N, 3)) * [1, 5, 0.1] + [0, 20, 3]).astype(np.float32)
Y = np.clip(np.round(X[:, 0] * (X[:, 1] - 20) / 3 + 1), 0, 4)
INTERLEAVED = np.arange(N) % 12
WEIGHTS = DRAWS.integers(1, 4, N).astype(float)
POINTS = [[0.0, 20.0, 3.0], [1.0, 25.0, 3.0], [-1.0, 15.0, 3.1]]

BASES = {
    "products": {"basis": "polynomial", "degree": 2, "interactions": True},
    "products of 3": {"basis": "polynomial", "interactions": True},
    "points": {"basis": "gaussian", "centres": POINTS, "sigma": 4.0},
    "sigmoid points": {"basis": "sigmoid", "centres": POINTS, "sigma": 9.0},
    "rows": {"basis": "gaussian", "n_centres": 9, "sigma": 4.0},
    "standardised points": {"basis": "gaussian", "centres": POINTS, "width": 0.7},
}
OPTIONS = {"plain": {}, "transform": {"transform": ("standard", "raw")}}


def adapted(settings, columns):
    """Centres with as many numbers as there are columns: those of features, once per transform."""
    if "centres" not in settings:
        return settings
    return settings | {"centres": np.tile(settings["centres"], (1, columns // 3))}


def saved(model):
    file = io.BytesIO()
    model.save(file)
    return podium.load(io.BytesIO(file.getvalue())), file.getvalue()


def values_by_loops(model, settings, columns):
    """The basis functions of columns, from the parameters alone, but for training rows that are centres."""
    if "sigma" in settings:
        centres = settings.get("centres", model.basis_.centres)
        return np.array(functions_of_centres(settings["basis"], columns, centres, settings["sigma"]))
    scaling = Standardisation.fit(columns, WEIGHTS)
    Z = np.clip((columns.astype(np.float64) - scaling.centre) / scaling.scale, -10, 10)
    if settings["basis"] == "polynomial":
        return np.array([products_of_features(row, settings.get("degree", 3)) for row in Z])
    centres = np.clip((np.array(settings["centres"]) - scaling.centre) / scaling.scale, -10, 10)
    width = settings["width"] * Z.shape[1] ** 0.5
    return np.array(functions_of_centres("gaussian", Z, centres, width))


@pytest.mark.parametrize(("case", "option"), list(itertools.product(BASES, OPTIONS)))
def test_scores_are_weights_times_functions_through_files_clones_and_interleaved_queries(case, option):
    settings = adapted(BASES[case], 3 * (2 if option == "transform" else 1)) | OPTIONS[option]
    model = Linear(**settings, max_iter=15).fit(X, Y, INTERLEAVED, sample_weight=WEIGHTS)
    scores, columns = model.predict(X), model.columns(X, None)
    phi = values_by_loops(model, settings, columns)
    names = [name for name, _ in model.inspect().weights]
    assert phi.shape[1] == len(model.coef_) == len(set(names))
    np.testing.assert_allclose(scores, phi @ model.coef_ + model.intercept_, rtol=1e-4, atol=1e-4)
    loaded, content = saved(model)
    again = clone(model).fit(X, Y, INTERLEAVED, sample_weight=WEIGHTS)
    for other in (loaded, again, clone(loaded).fit(X, Y, INTERLEAVED, sample_weight=WEIGHTS)):
        np.testing.assert_array_equal(other.predict(X), scores)
        assert saved(other)[1] == content
    grouped = np.argsort(INTERLEAVED, kind="stable")
    other = Linear(**settings, max_iter=15)
    other.fit(X[grouped], Y[grouped], INTERLEAVED[grouped], sample_weight=WEIGHTS[grouped])
    if case != "rows":  # which are drawn by number
        np.testing.assert_array_equal(other.predict(X), scores)
    json.dumps(model.inspect().as_dict())


@pytest.mark.parametrize("case", BASES)
def test_what_is_set_after_fit_is_for_the_next_training_also_through_a_file(case):
    model = Linear(**BASES[case], max_iter=5).fit(X, Y, INTERLEAVED)
    before = model.predict(X)
    for changed in ({"interactions": True, "degree": 1}, {"centres": [[0.0] * 3]}, {"sigma": 1.0}, {"centres": "x"}):
        model.set_params(**changed)
        np.testing.assert_array_equal(model.predict(X), before)
        if changed != {"centres": "x"}:
            loaded, _ = saved(model)
            np.testing.assert_array_equal(loaded.predict(X), before)
            assert all(loaded.get_params()[name] == value for name, value in changed.items())
    with pytest.raises(ValueError, match="Linear: centres: expected one row of numbers per centre"):
        model.fit(X, Y, INTERLEAVED)
    np.testing.assert_array_equal(model.predict(X), before)  # a fit that fails leaves the model


@pytest.mark.parametrize("case", BASES)
def test_a_training_that_was_stopped_resumes_to_the_same_bytes(case, tmp_path):
    settings, rows = BASES[case] | {"max_iter": 12}, (X, Y, INTERLEAVED)
    whole = Linear(**settings).fit(*rows, eval_set=rows)

    def stop(progress):
        if progress.iteration == 7:
            raise RuntimeError("stopped")

    path = {"checkpoint": tmp_path / "run.check", "every": 3}
    with pytest.raises(RuntimeError, match="stopped"):
        Linear(**settings).fit(*rows, eval_set=rows, callbacks=[stop], **path)
    assert path["checkpoint"].exists()
    if "centres" in settings:
        other = settings | {"centres": np.add(settings["centres"], 1)}
        with pytest.raises(ValueError, match="checkpoint of another training"):
            Linear(**other).fit(*rows, eval_set=rows, **path)
    assert saved(Linear(**settings).fit(*rows, eval_set=rows, **path))[1] == saved(whole)[1]


def test_products_learn_what_powers_cannot():
    """Labels rise with the product of two features."""
    powers = Linear(basis="polynomial", degree=2, max_iter=60).fit(X, Y, INTERLEAVED)
    products = Linear(basis="polynomial", degree=2, interactions=True, max_iter=60).fit(X, Y, INTERLEAVED)
    assert products.score(X, Y, INTERLEAVED) > powers.score(X, Y, INTERLEAVED) + 0.1
    assert products.inspect().weights[0][0] == "feature 1 * feature 2"
    assert powers.feature_importances_.sum() == pytest.approx(1)
    assert not hasattr(products, "feature_importances_")


def test_an_array_and_its_lists_are_the_same_centres():
    array = Linear(basis="gaussian", centres=np.array(POINTS), sigma=4.0, max_iter=5).fit(X, Y, INTERLEAVED)
    lists = Linear(basis="gaussian", centres=POINTS, sigma=4.0, max_iter=5).fit(X, Y, INTERLEAVED)
    assert saved(array)[1] == saved(lists)[1]
    assert str(array.inspect()) == str(lists.inspect())
    assert "centres=[[0.0, 20.0, 3.0]" in str(lists.inspect())


def test_many_centres_are_shown_by_their_beginning():
    model = Linear(basis="gaussian", centres=X, sigma=4.0, max_iter=2).fit(X, Y, INTERLEAVED)
    assert max(map(len, str(model.inspect()).splitlines())) < 500
    assert len(model.inspect().as_dict()["parameters"]["centres"]) == N


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"interactions": True}, "interactions is for polynomial basis functions; got basis=None. Leave it at False"),
        ({"interactions": True, "basis": "gaussian"}, "interactions is for polynomial basis functions"),
        ({"centres": POINTS}, "centres is for gaussian and sigmoid basis functions; got basis=None. Leave it at None"),
        ({"sigma": 1.0, "basis": "polynomial"}, "sigma is for gaussian and sigmoid basis functions"),
        ({"sigma": 0, "basis": "gaussian"}, "sigma must be above 0, or None; got 0"),
        ({"sigma": "1", "basis": "gaussian"}, "sigma must be above 0, or None; got '1'"),
        ({"interactions": "yes", "basis": "polynomial"}, "interactions must be True or False; got 'yes'"),
        ({"centres": [[1, 2]], "basis": "gaussian"}, "centres have 2 numbers each, but the rows have 3 features."),
        (
            {"centres": POINTS, "basis": "gaussian", "transform": ("raw", "rank")},
            "centres have 3 numbers each, but the rows have 6 columns, which transform made of the features. Give one "
            "number per column; a model fitted without centres lists them as column_names_.",
        ),
    ],
)
def test_settings_that_do_not_fit_are_refused(settings, message):
    for kind in (Linear, podium.BayesRank):
        with pytest.raises(ValueError, match=re.escape(message)):
            kind(**settings).fit(X, Y, INTERLEAVED)


def test_too_many_products_are_refused_before_anything_is_allocated():
    wide = DRAWS.standard_normal((40, 500)).astype(np.float32)
    model = Linear(basis="polynomial", degree=10, interactions=True)
    with pytest.raises(ValueError, match=r"all products of up to 10 of 500 columns are .* at most 100,000"):
        model.fit(wide, np.arange(40) % 3, np.arange(40) // 10)


@pytest.mark.parametrize("case", BASES)
def test_sparse_rows_and_missing_values_are_refused_to_train_and_to_score(case):
    model = Linear(**BASES[case], max_iter=2).fit(X, Y, INTERLEAVED)
    missing = np.where(X > 24, np.float32(np.nan), X)
    for rows, message in ((csr_array(X), "does not support sparse rows"), (missing, "does not support missing values")):
        with pytest.raises(ValueError, match=message):
            model.predict(rows)
        with pytest.raises(ValueError, match=message):
            Linear(**BASES[case]).fit(rows, Y, INTERLEAVED)


@pytest.mark.parametrize("case", BASES)
def test_models_of_models_take_them_and_are_saved(case):
    member = Linear(**BASES[case], max_iter=3)
    bag = podium.Bagged(model=member, n_members=2).fit(X, Y, INTERLEAVED)
    np.testing.assert_array_equal(saved(bag)[0].predict(X, INTERLEAVED), bag.predict(X, INTERLEAVED))
    smart = podium.LambdaSMART(init=member, n_estimators=2, min_samples_leaf=5).fit(X, Y, INTERLEAVED)
    np.testing.assert_array_equal(saved(smart)[0].predict(X), smart.predict(X))


def test_a_crafted_file_with_other_parameters_is_refused():
    model = Linear(**BASES["products"], max_iter=2).fit(X, Y, INTERLEAVED)
    for changed in ({"interactions": False}, {"degree": 3}, {"degree": 10**6}, {"interactions": "yes"}):
        model.fitted_parameters_ = {**model.fitted_parameters_, **changed}
        with pytest.raises(ValueError, match="Nothing is written"):
            saved(model)
        model.fitted_parameters_ = {name: model.get_params()[name] for name in Linear.scoring_parameters}
    points = Linear(**BASES["points"], max_iter=2).fit(X, Y, INTERLEAVED)
    points.basis_ = Linear(**BASES["standardised points"], max_iter=2).fit(X, Y, INTERLEAVED).basis_
    with pytest.raises(ValueError, match="not standardised"):
        saved(points)


def test_centres_are_set_on_the_command_line(tmp_path, monkeypatch, capsys):
    data, path = podium.RankingData.from_arrays(X, Y, np.arange(N) // 20), tmp_path / "train.txt"
    podium.write_letor(data, path)
    settings = ["basis=gaussian", f"centres={json.dumps(POINTS)}", "sigma=4", "max_iter=5"]
    sets = [part for setting in settings for part in ("--set", setting)]
    target = str(tmp_path / "m.podium")
    monkeypatch.setattr(sys, "argv", ["podium", "train", "linear", str(path), *sets, "--out", target])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 0, capsys.readouterr().err
    expected = Linear(basis="gaussian", centres=POINTS, sigma=4.0, max_iter=5).fit(podium.read_letor(path))
    np.testing.assert_array_equal(podium.load(tmp_path / "m.podium").predict(X), expected.predict(X))
