"""XGBoost's JSON and UBJSON: the same bits both ways, by XGBoost itself and by a plain walk in float32."""

import json

import lightgbm
import numpy as np
import pandas
import pytest
import xgboost
from exchange.forests import hostile_rows, plain_scores, random_form, random_model

import podium
from podium.exchange import import_model, read, ubjson, verify
from podium.exchange.engines import lightgbm as engine_of_lightgbm
from podium.exchange.engines import xgboost as engine
from podium.exchange.engines import xgboost_ubj
from podium.exchange.exporting import write_form
from podium.exchange.forms import form_of

ENGINES = {"json": engine, "ubj": xgboost_ubj}
BOTH = pytest.mark.parametrize("kind", ENGINES)


def booster_of(content):
    booster = xgboost.Booster()
    booster.load_model(bytearray(content))
    return booster


def margins(booster, X, **options):
    rows = X if isinstance(X, xgboost.DMatrix) else xgboost.DMatrix(X)
    return booster.predict(rows, output_margin=True, validate_features=False, **options)


# --- out


@BOTH
@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("categorical", [(), (1, 4)], ids=["numbers", "categories"])
def test_xgboost_gives_exported_forests_the_bits_that_are_expected(kind, seed, categorical):
    form = random_form(seed, categorical=categorical, start=float(np.random.default_rng(seed).normal(0, 10.0**seed)))
    X = hostile_rows(form.forest, seed=seed, categorical=categorical)
    written = ENGINES[kind].write(form)
    assert written.claim.kind == "single"
    booster = booster_of(written.content)
    np.testing.assert_array_equal(margins(booster, X), written.expected(X))
    np.testing.assert_array_equal(booster.predict(xgboost.DMatrix(X)), written.expected(X))  # rank:ndcg changes nothing
    np.testing.assert_array_equal(written.expected(X), plain_scores(form.forest, X, np.float32))


@BOTH
def test_the_ranker_of_xgboost_gives_an_exported_model_its_bits(kind, tmp_path):
    model = random_model(5, single=True, start=-1e-5)
    X = hostile_rows(model.forest_)
    report = model.export(tmp_path / f"model.{kind}", "xgboost" if kind == "json" else "xgboost-ubj")
    assert report.claim.kind == "bits"
    ranker = xgboost.XGBRanker()
    ranker.load_model(tmp_path / f"model.{kind}")
    np.testing.assert_array_equal(ranker.predict(X), model.predict(X))
    np.testing.assert_array_equal(report.expected(X), model.predict(X))


def test_names_and_categories_of_a_model_that_was_exported():
    form = random_form(2, names=["a", "b[1]", "b_1_", "<c", "d", "e"], categorical=(0,))
    written = engine.write(form)
    booster = booster_of(written.content)
    assert booster.feature_names == ["a", "b_1__", "b_1_", "_c", "d", "e"]
    assert booster.feature_types == ["c", *["float"] * 5]
    assert "names of features" in written.notes[0]
    X = hostile_rows(form.forest, categorical=(0,))
    rows = xgboost.DMatrix(X, feature_names=booster.feature_names, feature_types=booster.feature_types)
    np.testing.assert_array_equal(booster.predict(rows), written.expected(X))


def test_categories_that_are_no_integers_see_what_is_expected():
    form = random_form(4, categorical=(1, 4))
    X = hostile_rows(form.forest, categorical=(1, 4))
    X[:, [1, 4]] += np.random.default_rng(0).choice([0, 0.5, -0.5, 2**24], (len(X), 2)).astype(np.float32)
    written = engine.write(form)
    np.testing.assert_array_equal(margins(booster_of(written.content), X), written.expected(X))


def test_shap_values_of_an_exported_model_are_numbers():
    form = random_form(1, start=0.5)  # whose counts are 0 here and there
    X = hostile_rows(form.forest, 50)
    shares = booster_of(engine.write(form).content).predict(xgboost.DMatrix(X), pred_contribs=True)
    assert np.isfinite(shares).all()


def test_what_xgboost_cannot_hold_is_refused():
    form = random_form(1, categorical=(2,))
    form.forest.set_values.setflags(write=True)
    form.forest.set_values[0] = -3
    with pytest.raises(ValueError, match="'feature 3' has the category -3; XGBoost takes integers from 0"):
        engine.write(form)
    with pytest.raises(ValueError, match="which float32 does not hold"):
        engine.write(random_form(1, start=1e39))


def test_an_exported_file_is_verified_by_xgboost(tmp_path):
    model = random_model(3, categorical=(0,))
    for to, name in (("xgboost", "m.json"), ("xgboost-ubj", "m.ubj"), ("xgboost-ubj", "m.anything")):
        model.export(tmp_path / name, to)
        verification = verify(model, tmp_path / name)
        assert verification.holds
        assert verification.is_same_file
        assert verification.program == f"XGBoost {xgboost.__version__}"


# --- in


@BOTH
@pytest.mark.parametrize("seed", range(6))
def test_what_was_exported_is_imported_with_the_same_scores(kind, seed):
    form = random_form(seed, categorical=(2,))
    X = hostile_rows(form.forest, seed=seed, categorical=(2,))
    written = ENGINES[kind].write(form)
    model = ENGINES[kind].read(written.content).model
    np.testing.assert_array_equal(model.predict(X), written.expected(X))
    again = write_form(form_of(model), "xgboost" if kind == "json" else "xgboost-ubj")
    assert again.claim.kind == "bits"
    np.testing.assert_array_equal(ENGINES[kind].read(again.content).model.predict(X), written.expected(X))


TRAININGS = {
    "ndcg": {"objective": "rank:ndcg"},
    "pairwise": {"objective": "rank:pairwise"},
    "map": {"objective": "rank:map"},
    "squared error": {"objective": "reg:squarederror"},
    "many trees": {"objective": "reg:squarederror", "n": 300, "eta": 0.1},
    "absolute error": {"objective": "reg:absoluteerror"},
    "dart": {"objective": "rank:ndcg", "booster": "dart", "rate_drop": 0.3, "one_drop": 1},
    "random forest": {"objective": "rank:ndcg", "num_parallel_tree": 4, "subsample": 0.5},
    "pruned": {"objective": "reg:squarederror", "tree_method": "exact", "gamma": 2.0},
    "leaf-wise": {"objective": "rank:ndcg", "grow_policy": "lossguide", "max_leaves": 20, "max_depth": 0},
    "base score": {"objective": "rank:ndcg", "base_score": 0.3},
    "no trees": {"objective": "rank:ndcg", "n": 0},
    "raw logits": {"objective": "binary:logitraw"},
}


def train(options, categorical=(), n_rows=600):
    random = np.random.default_rng(4)
    X = random.standard_normal((n_rows, 6)).astype(np.float32)
    X[:, 3] = random.integers(0, 20, n_rows)
    y = random.integers(0, 4, n_rows) + (X[:, 3] % 3 == 1) * 2
    X[random.random(X.shape) < 0.1], X[:, :3][random.random((n_rows, 3)) < 0.1] = np.nan, 0
    options, n_trees = dict(options), options.get("n", 12)
    options.pop("n", None)
    if options["objective"].startswith(("binary", "rank:map")):
        y = (y > 2).astype(int)
    kinds = ["c" if feature in categorical else "q" for feature in range(6)]
    data = xgboost.DMatrix(X, y, feature_types=kinds, enable_categorical=True)
    if options["objective"].startswith("rank"):
        data.set_group(np.full(n_rows // 20, 20))
    return xgboost.train({"nthread": 1, **options}, data, n_trees), X


@BOTH
@pytest.mark.parametrize("categorical", [(), (3,)], ids=["numbers", "categories"])
@pytest.mark.parametrize("options", TRAININGS.values(), ids=TRAININGS)
def test_a_model_of_xgboost_scores_here_as_there(options, categorical, kind, tmp_path):
    if categorical and options.get("tree_method") == "exact":
        pytest.skip("exact does not take categories")
    theirs, X = train({"max_cat_to_onehot": 4} | options, categorical)
    theirs.save_model(tmp_path / f"theirs.{kind}")
    imported = read(tmp_path / f"theirs.{kind}")
    assert imported.claim.kind == "bits"
    hostile = hostile_rows(imported.model.forest_, 600, categorical=categorical)
    if categorical:
        hostile[::3, 3] += 0.5
    for rows in (X, hostile):
        np.testing.assert_array_equal(imported.model.predict(rows), margins(theirs, rows))
    again = write_form(form_of(imported.model), "xgboost")
    np.testing.assert_array_equal(margins(booster_of(again.content), hostile), margins(theirs, hostile))


@BOTH
@pytest.mark.parametrize("options", [{"base_score": 0.5}, {}], ids=["half", "estimated"])
@pytest.mark.parametrize("objective", ["binary:logistic", "count:poisson", "reg:gamma", "reg:logistic", "survival:cox"])
def test_margins_of_other_objectives_are_within_the_claim(objective, options, kind, tmp_path):
    random = np.random.default_rng(1)
    X, y = random.standard_normal((300, 3)).astype(np.float32), random.random(300)
    y = (y > 0.3).astype(int) if objective == "binary:logistic" else y
    theirs = xgboost.train({"objective": objective, **options}, xgboost.DMatrix(X, y), 10)
    theirs.save_model(tmp_path / f"m.{kind}")
    imported = read(tmp_path / f"m.{kind}")
    assert imported.claim.kind == ("bits" if imported.model.forest_.start == 0 else "tolerance")
    assert imported.claim.tolerance < 1e-4
    assert imported.claim.holds(imported.model.predict(X), margins(theirs, xgboost.DMatrix(X))).all()
    assert objective in imported.notes[0]
    assert "output_margin" in imported.notes[0]


def frame(random, n_rows, missing=0.1):
    columns = {
        "colour": pandas.Categorical(random.choice(["red", "green", "blue", "black"], n_rows)),
        "size": random.standard_normal(n_rows),
        "year": pandas.Categorical(random.integers(2018, 2024, n_rows)),
    }
    table = pandas.DataFrame(columns)
    return table.mask(random.random(table.shape) < missing) if missing else table


@BOTH
def test_categories_of_a_table_keep_their_names(kind, tmp_path):
    random = np.random.default_rng(2)
    table = frame(random, 500)
    y = (table["colour"] == "red") * 2 + (table["year"].astype(float) % 2 == 1) + random.standard_normal(500)
    theirs = xgboost.train(
        {"max_depth": 4, "max_cat_to_onehot": 1}, xgboost.DMatrix(table, y, enable_categorical=True), 8
    )
    theirs.save_model(tmp_path / f"m.{kind}")
    imported = read(tmp_path / f"m.{kind}")
    assert imported.notes == ()
    model = imported.model
    assert model.categories_["colour"] == ["black", "blue", "green", "red"]
    assert model.categories_["year"] == list(range(2018, 2024))
    np.testing.assert_array_equal(
        model.predict(table), margins(theirs, xgboost.DMatrix(table, enable_categorical=True))
    )
    text = podium.models.frame.inspection.tree_text(model, 1)
    assert "colour is" in text
    assert " missing, black, blue, green?" in text or "red" in text


def test_names_of_categories_that_xgboost_writes_wrong_are_not_kept():
    table = frame(np.random.default_rng(2), 200)
    table["colour"] = table["colour"].cat.rename_categories({"green": "grün"})
    theirs = xgboost.train({}, xgboost.DMatrix(table, np.arange(200), enable_categorical=True), 1)
    imported = engine.read(bytes(theirs.save_raw("json")))
    assert imported.model.categories_ == {}
    assert "rows must have their numbers" in imported.notes[0]


def test_missing_values_may_go_another_way_than_categories_that_are_not_listed(tmp_path):
    theirs, X = train({"objective": "reg:squarederror", "max_cat_to_onehot": 1, "seed": 3}, (3,))
    theirs.save_model(tmp_path / "m.json")
    trees = json.loads((tmp_path / "m.json").read_text())["learner"]["gradient_booster"]["model"]["trees"]
    assert any(not tree["default_left"][node] for tree in trees for node in tree["categories_nodes"])
    model = read(tmp_path / "m.json").model
    with pytest.raises(ValueError, match="'feature 4' go another way than categories that are not listed"):
        model.export(tmp_path / "m.txt", "lightgbm")
    model.save(tmp_path / "m.podium")
    np.testing.assert_array_equal(podium.load(tmp_path / "m.podium").predict(X), margins(theirs, X))
    texts = [podium.models.frame.inspection.tree_text(model, tree + 1) for tree in range(12)]
    assert any("missing" in text for text in texts)


def test_shapley_values_are_those_of_xgboost(tmp_path):
    theirs, X = train({"objective": "rank:ndcg"}, (3,))
    theirs.save_model(tmp_path / "m.ubj")
    model = read(tmp_path / "m.ubj").model
    contributions = theirs.predict(xgboost.DMatrix(X), pred_contribs=True)
    ours = podium.explain.shapley.Paths.of(model.forest_).values(model.columns(X, None))
    np.testing.assert_allclose(ours, contributions[:, :-1], atol=1e-4)


def test_a_model_that_was_stopped_early_scores_by_all_trees_and_says_so(tmp_path):
    random = np.random.default_rng(0)
    X, y, qid = random.standard_normal((400, 4)), random.integers(0, 4, 400), np.repeat(np.arange(20), 20)
    theirs = xgboost.XGBRanker(n_estimators=30, early_stopping_rounds=3, eval_metric="ndcg@5")
    theirs.fit(X[:200], y[:200], qid=qid[:200], eval_set=[(X[200:], y[200:])], eval_qid=[qid[200:]], verbose=False)
    theirs.save_model(tmp_path / "m.json")
    imported, X = read(tmp_path / "m.json"), X.astype(np.float32)
    best = theirs.best_iteration
    assert f"the best iteration was {best} (from 0)" in imported.notes[0]
    np.testing.assert_array_equal(imported.model.predict(X), margins(theirs.get_booster(), X))
    theirs.get_booster()[: best + 1].save_model(tmp_path / "best.json")
    best = read(tmp_path / "best.json")
    assert best.notes == ()
    np.testing.assert_array_equal(best.model.predict(X), theirs.predict(X))


# --- documents of other versions, and what is refused


def document(**options):
    theirs, _ = train({"objective": "rank:ndcg", **options}, n_rows=200)
    return json.loads(theirs.save_raw("json"))


def as_read(document):
    return engine.read(json.dumps(document).encode())


@pytest.mark.parametrize("text", ["2.5E-1", "[2.5E-1]", "0.25", 0.25, "[0.25]"])
def test_base_scores_of_all_versions_are_read(text):
    one = document()
    one["learner"]["learner_model_param"]["base_score"] = text
    assert as_read(one).model.forest_.start == 0.25


def test_documents_of_older_versions_are_read():
    one = document()
    X = np.random.default_rng(0).standard_normal((50, 6)).astype(np.float32)
    expected = as_read(one).model.predict(X)
    learner = one["learner"]
    for name in ("attributes", "feature_names", "feature_types"):
        del learner[name]
    learner["learner_model_param"] |= {"base_score": learner["learner_model_param"]["base_score"].strip("[]")}
    del learner["learner_model_param"]["num_target"]
    model = learner["gradient_booster"]["model"]
    del model["cats"], model["iteration_indptr"]
    for tree in model["trees"]:
        tree["default_left"] = [bool(default) for default in tree["default_left"]]
        for name in ("categories", "categories_nodes", "categories_segments", "categories_sizes", "split_type"):
            del tree[name]
        tree["tree_param"]["size_leaf_vector"] = "0"
    np.testing.assert_array_equal(as_read(one).model.predict(X), expected)


def test_numbers_are_rounded_once():
    one = document()
    tree = one["learner"]["gradient_booster"]["model"]["trees"][0]
    tree["split_conditions"][0] = 7.038531e-26  # the shortest text of a float32; as float64 it lies midway
    content = json.dumps(one).encode()
    nearest = np.array(["fd43ae15"]).astype("S8").view("S2").astype(str)
    threshold = np.frombuffer(bytes(int(byte, 16) for byte in nearest), np.float32)[0]
    X = np.zeros((3, 6), np.float32)
    X[:, tree["split_indices"][0]] = [threshold, np.nextafter(threshold, np.float32(-1)), threshold * 2]
    np.testing.assert_array_equal(engine.read(content).model.predict(X), margins(booster_of(content), X))


def test_a_version_may_come_first_and_the_content_decides(tmp_path):
    one = document()
    (tmp_path / "model").write_text(json.dumps({"version": one["version"], "learner": one["learner"]}, indent=2))
    assert import_model(tmp_path / "model").source_ == "XGBoost JSON, objective rank:ndcg"
    raw = booster_of(json.dumps(one).encode()).save_raw("ubj")
    (tmp_path / "model").write_bytes(bytes(raw))
    assert import_model(tmp_path / "model").source_ == "XGBoost UBJSON, objective rank:ndcg"


REFUSED = {
    "is more than one class": ("learner_model_param", {"num_class": "3"}, "num_class is 3"),
    "is more than one target": ("learner_model_param", {"num_target": "2"}, "num_target is 2"),
    "has several base scores": ("learner_model_param", {"base_score": "[1E0,2E0]"}, "several values"),
    "has a base score without a number": ("learner_model_param", {"base_score": "nan"}, "text of a number"),
    "has a base score beyond float32": ("learner_model_param", {"base_score": "1e39"}, "float32 does not hold"),
    "has too many features": ("learner_model_param", {"num_feature": "99999999"}, "num_feature"),
    "has an unknown objective": ("objective", {"name": "reg:new"}, "what it does to base_score is not known"),
    "is linear": ("gradient_booster", {"name": "gblinear"}, "only gbtree and dart are read. Train it with"),
}


@pytest.mark.parametrize(("where", "change", "message"), REFUSED.values(), ids=REFUSED)
def test_a_document_is_refused_that(where, change, message):
    one = document()
    one["learner"][where] |= change
    with pytest.raises(ValueError, match=message.replace("[", r"\[")):
        as_read(one)


WRONG = {
    "a child that is not there": ({"left_children": 99}, "tree 2, node 0: left_children names the node 99"),
    "children apart": ({"right_children": 5}, "tree 2, node 0: the right child must stand behind the left one"),
    "a text for a number": ({"split_conditions": "x"}, "tree 2: expected split_conditions to be an array of numbers"),
    "a fraction for an integer": ({"split_indices": 0.5}, "tree 2: expected split_indices to be an array of integers"),
    "a large integer": ({"split_indices": 10**30}, "tree 2: split_indices has a number that is too large"),
    "a feature that is not there": ({"split_indices": 6}, "tree 2, node 0: feature 6 is not there"),
    "a threshold without a number": ({"split_conditions": float("nan")}, "its threshold is not a number"),
    "categories without a list": ({"split_type": 1}, "tree 2: categories_nodes must be the nodes"),
}


@pytest.mark.parametrize(("change", "message"), WRONG.values(), ids=WRONG)
def test_a_tree_is_refused_with(change, message):
    one = document()
    tree = one["learner"]["gradient_booster"]["model"]["trees"][1]
    for name, value in change.items():
        tree[name][0] = value
    with pytest.raises(ValueError, match=message):
        as_read(one)


def test_deep_documents_are_refused():
    with pytest.raises(ValueError, match="too deep"):
        engine.read(b'{"learner":' + b"[" * 200_000)
    with pytest.raises(ValueError, match="levels deep"):
        xgboost_ubj.read(b"{i\x07learner" + b"[" * 200_000)


@BOTH
def test_a_split_whose_categories_all_go_one_way_is_exported_and_imported(kind):
    form = random_form(7, categorical=(0, 1, 2))
    form.forest.set_sides.setflags(write=True)
    form.forest.set_sides[:] = 0
    X = hostile_rows(form.forest, categorical=(0, 1, 2))
    content = ENGINES[kind].write(form).content
    np.testing.assert_array_equal(margins(booster_of(content), X), plain_scores(form.forest, X, np.float32))
    np.testing.assert_array_equal(ENGINES[kind].read(content).model.predict(X), margins(booster_of(content), X))


def test_features_split_by_categories_and_by_numbers_are_refused():
    theirs, _ = train({"objective": "rank:ndcg", "max_cat_to_onehot": 1}, (3,))
    one = json.loads(theirs.save_raw("json"))
    for tree in one["learner"]["gradient_booster"]["model"]["trees"]:
        tree["split_indices"] = [3 if left >= 0 else 0 for left in tree["left_children"]]
    with pytest.raises(ValueError, match=r"feature 3 \(from 0\) is split by categories and by numbers"):
        as_read(one)


def test_a_model_of_lightgbm_with_categories_becomes_one_of_xgboost():
    random = np.random.default_rng(5)
    X = random.standard_normal((400, 4)).astype(np.float32)
    X[:, 1] = random.integers(0, 12, 400)
    y = (X[:, 1] % 3 == 1) * 2.0 + X[:, 0]
    data = lightgbm.Dataset(X, y, categorical_feature=[1])
    theirs = lightgbm.train({"objective": "l2", "verbose": -1, "num_threads": 1}, data, 8)
    model = engine_of_lightgbm.read(theirs.model_to_string().encode()).model
    written = write_form(form_of(model), "xgboost")
    np.testing.assert_array_equal(margins(booster_of(written.content), X), written.expected(X))
    np.testing.assert_allclose(written.expected(X), model.predict(X), atol=1e-5)


# --- UBJSON


def test_a_document_of_xgboost_is_written_as_xgboost_writes_it():
    theirs, _ = train({"objective": "rank:ndcg"}, (3,))
    content = bytes(theirs.save_raw("ubj"))
    assert ubjson.dumps(ubjson.loads(content)) == content
