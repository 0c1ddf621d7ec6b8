"""Parameters that are "auto": what is set wins, and the trees are those of the resolved values."""

from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from sklearn.base import clone

import podium
from podium.data.ranking import RankingData
from podium.models.registry import MODELS, find_model, plan_model
from podium.persistence.saving import from_parts, to_parts
from podium.persistence.storage import load_parts

AUTO_MODELS = ("LambdaMART", "LambdaSMART", "MART", "Boosted")
FIVE = ("learning_rate", "feature_fraction", "extra_trees", "max_leaf_nodes", "min_samples_leaf")
FEW = {"learning_rate": 0.05, "feature_fraction": 1.0, "extra_trees": True, "max_leaf_nodes": 5, "min_samples_leaf": 20}
SOME = FEW | {"max_leaf_nodes": 15}
MORE = FEW | {"max_leaf_nodes": 22, "learning_rate": 0.1}
MANY = {"learning_rate": 0.1, "feature_fraction": 1, "extra_trees": False, "max_leaf_nodes": 31, "min_samples_leaf": 20}
SET = {"learning_rate": 0.3, "feature_fraction": 0.5, "extra_trees": False, "max_leaf_nodes": 3, "min_samples_leaf": 7}


def lists(n_queries, per_query=12, seed=0, **more):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_queries * per_query, 5)).astype(np.float32)
    y = np.clip(np.round(X[:, 0] + X[:, 1] ** 2), 0, 3)
    return RankingData.from_arrays(X, y, np.repeat(np.arange(n_queries), per_query), **more)


DATA = {n: lists(n, 100 if n < 100 else 12) for n in (12, 240, 1500, 5000)}
EXPECTED = {12: FEW, 240: SOME, 1500: MORE, 5000: MANY}


def made(name, **values):
    values = {"n_estimators": 2, "n_jobs": 1} | values
    return MODELS[name](**values | ({"init": podium.MART(n_estimators=1, n_jobs=1)} if name == "LambdaSMART" else {}))


def forest_of(model):
    """The bytes of the trees."""
    return [getattr(model.forest_, one.name) for one in fields(model.forest_) if one.init]


def same_forest(one, other):
    return all(np.array_equal(ours, theirs) for ours, theirs in zip(forest_of(one), forest_of(other), strict=True))


def names_to_set():
    return st.sets(st.sampled_from(FIVE))


@pytest.mark.parametrize("name", AUTO_MODELS)
@settings(max_examples=8)
@given(names=names_to_set(), n_queries=st.sampled_from(sorted(DATA)))
def test_what_is_set_wins_in_every_combination_and_the_rest_follows_the_table(name, names, n_queries):
    chosen = {parameter: SET[parameter] for parameter in names}
    model = made(name, n_estimators=1, **chosen).fit(DATA[n_queries])
    assert model.resolved_params_ == EXPECTED[n_queries] | chosen
    shown = {parameter: getattr(model, parameter) for parameter in FIVE}
    assert shown == dict.fromkeys(FIVE, "auto") | chosen  # parameters stay as they were set


@pytest.mark.parametrize("name", AUTO_MODELS)
@settings(max_examples=8)
@given(
    names=names_to_set(),
    n_queries=st.sampled_from([12, 240, 1500]),
    others=st.sampled_from(
        [
            {},
            {"growth": "oblivious"},
            {"growth": "level"},
            {"growth": "oblivious", "max_depth": 3},
            {"monotone": {0: 1}},
        ]
    ),
    sparse=st.booleans(),
    transform=st.sampled_from([None, ("raw", "rank")]),
)
def test_the_trees_are_those_of_the_values_that_are_set_explicitly(name, names, n_queries, others, sparse, transform):
    data = DATA[n_queries]
    X = csr_array(data.X) if sparse and transform is None else data.X
    others = others | {"transform": transform}
    chosen = {parameter: SET[parameter] for parameter in names}
    model = made(name, **chosen, **others).fit(X, data.y, data.qid)
    explicit = made(name, **EXPECTED[n_queries] | chosen, **others).fit(X, data.y, data.qid)
    assert same_forest(model, explicit)
    assert model.resolved_params_ == explicit.resolved_params_


def test_matrixnet_has_a_depth_and_no_leaves():
    for n_queries, depth in ((12, 2), (240, 4), (1500, 4), (5000, 6)):
        model = podium.MatrixNet(n_estimators=1).fit(DATA[n_queries])
        known = {name: EXPECTED[n_queries][name] for name in FIVE[:3]}
        assert model.resolved_params_ == known | {"max_depth": depth}
        assert model.inspect().trees[0].depth <= depth
    assert podium.MatrixNet(n_estimators=1, max_depth=3).fit(DATA[12]).resolved_params_["max_depth"] == 3


def test_trees_and_forests_keep_their_defaults():
    for model, leaves in ((podium.RegressionTree(), 31), (podium.RandomForest(n_estimators=1), 100)):
        assert model.max_leaf_nodes == leaves
        assert model.fit(DATA[12]).resolved_params_ == {}
        with pytest.raises(ValueError, match="max_leaf_nodes must be an integer from 2 to 65,536; got 'auto'"):
            model.set_params(max_leaf_nodes="auto").fit(DATA[12])


def test_rows_of_weight_zero_are_not_counted():
    data = lists(120, 20, query_weight=np.repeat([1.0, 0.0], [60, 60]))
    model = podium.LambdaMART(n_estimators=2).fit(data)
    assert model.resolved_params_ == FEW
    assert same_forest(model, podium.LambdaMART(n_estimators=2).fit(data.subset(np.arange(60))))
    half = np.tile([1.0, 0.0], 6)
    data = lists(30, sample_weight=np.tile(half, 30))
    assert podium.MART(n_estimators=1).fit(data).resolved_params_["min_samples_leaf"] == 30 * 6 // 20


@pytest.mark.filterwarnings("ignore:qid not given")
def test_rows_without_queries_count_as_one_query_per_twenty_rows():
    data = DATA[1500]
    assert podium.MART(n_estimators=1).fit(data.X[:2999], data.y[:2999]).resolved_params_ == FEW
    assert podium.MART(n_estimators=1).fit(data.X[:3000], data.y[:3000]).resolved_params_ == SOME
    assert podium.MART(n_estimators=1).fit(data.X[:399], data.y[:399]).resolved_params_ == FEW | {
        "min_samples_leaf": 19,
        "extra_trees": False,
    }


@pytest.mark.parametrize("name", [*AUTO_MODELS, "MatrixNet"])
@settings(max_examples=6)
@given(names=names_to_set(), since=names_to_set())
def test_a_saved_model_has_both_and_goes_on_as_the_unsaved_one(name, names, since, tmp_path_factory):
    names, since = ({one for one in some if one in FIVE[:3] or name != "MatrixNet"} for some in (names, since))
    path = tmp_path_factory.mktemp("saved") / "model.podium"
    model = made(name, **{parameter: SET[parameter] for parameter in names}).fit(DATA[240])
    before = dict(model.resolved_params_)
    model.set_params(**dict.fromkeys(since, "auto"))
    model.save(path)
    loaded = podium.load(path)
    assert loaded.resolved_params_ == model.resolved_params_ == before
    assert loaded.get_params(deep=False).keys() == model.get_params(deep=False).keys()
    assert [getattr(loaded, one) for one in before] == [getattr(model, one) for one in before]
    again = path.with_name("again.podium")
    loaded.save(again)
    assert again.read_bytes() == path.read_bytes()
    for one in (model, loaded):  # far more data than at first
        one.fit_more(DATA[5000], n_estimators=1)
        assert one.resolved_params_ == before
    assert same_forest(model, loaded)


def test_further_training_has_the_values_of_the_first_and_what_is_set_since():
    model = made("LambdaMART").fit(DATA[240])
    explicit = made("LambdaMART", **SOME).fit(DATA[240])
    for one in (model, explicit):
        one.fit_more(DATA[5000], n_estimators=2)
    assert same_forest(model, explicit)
    assert same_forest(model.refit(DATA[1500]), explicit.refit(DATA[1500]))
    assert model.refit(DATA[1500]).resolved_params_ == SOME
    for one in (model, explicit):
        one.set_params(max_leaf_nodes=13).fit_more(DATA[1500], n_estimators=1)
    assert same_forest(model, explicit)
    assert model.inspect().trees[-1].leaves == 13
    model.fit(DATA[1500])
    assert model.resolved_params_ == MORE | {"max_leaf_nodes": 13}


def test_a_model_that_was_trained_with_set_values_keeps_them_for_further_training_by_auto():
    model = made("MART", **SET).fit(DATA[240])
    explicit = made("MART", **SET).fit(DATA[240]).fit_more(DATA[1500], n_estimators=1)
    model.set_params(**dict.fromkeys(FIVE, "auto")).fit_more(DATA[1500], n_estimators=1)
    assert same_forest(model, explicit)


def test_set_params_changes_no_fitted_model():
    model = made("LambdaMART").fit(DATA[240])
    scores = model.predict(DATA[12].X)
    model.set_params(**SET)
    np.testing.assert_array_equal(model.predict(DATA[12].X), scores)
    assert model.resolved_params_ == SOME


def test_clones_are_unresolved_and_a_failed_fit_changes_nothing():
    model = made("LambdaMART").fit(DATA[240])
    copy = clone(model)
    assert not hasattr(copy, "resolved_params_")
    assert [getattr(copy, name) for name in FIVE] == ["auto"] * 5
    with pytest.raises(ValueError, match="callback"):
        model.fit(DATA[12], callbacks=[_fails])
    assert model.resolved_params_ == SOME


def _fails(progress):
    raise ValueError("a callback that fails")


class Killed(Exception):
    pass


@pytest.mark.parametrize("name", [*AUTO_MODELS, "MatrixNet"])
def test_a_resumed_training_ends_in_the_same_bytes(name, tmp_path):
    data, path = DATA[1500], tmp_path / "run.checkpoint"
    whole = made(name, n_estimators=6).fit(data)

    def kill(progress):
        if progress.iteration == 4:
            raise Killed

    model = made(name, n_estimators=6)
    with pytest.raises(Killed):
        model.fit(data, checkpoint=path, every=2, callbacks=[kill])
    assert not hasattr(model, "resolved_params_")
    model.fit(data, checkpoint=path, every=2)
    for one, file in ((whole, "whole"), (model, "resumed")):
        one.save(tmp_path / file)
    assert (tmp_path / "whole").read_bytes() == (tmp_path / "resumed").read_bytes()


def test_further_training_of_a_model_with_other_resolved_values_refuses_the_checkpoint(tmp_path):
    path = tmp_path / "run.checkpoint"

    def kill(progress):
        if progress.iteration == 5:
            raise Killed

    model = made("LambdaMART").fit(DATA[240])
    model.save(tmp_path / "model.podium")
    with pytest.raises(Killed):
        model.fit_more(DATA[1500], n_estimators=4, checkpoint=path, every=1, callbacks=[kill])
    other = podium.load(tmp_path / "model.podium")
    other.resolved_params_ = SOME | {"max_leaf_nodes": 9}
    with pytest.raises(ValueError, match="max_leaf_nodes is 'auto', which is 9 here and 'auto', which is 15 there"):
        other.fit_more(DATA[1500], n_estimators=4, checkpoint=path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"max_leaf_nodes": 1}, "'max_leaf_nodes' as 1"),
        ({"max_leaf_nodes": 4.5}, "'max_leaf_nodes' as 4.5"),
        ({"max_leaf_nodes": True}, "'max_leaf_nodes' as True"),
        ({"extra_trees": 1}, "'extra_trees' as 1"),
        ({"learning_rate": float("inf")}, "resolved must be numbers by parameter"),
        ({"learning_rate": "auto"}, "resolved must be numbers by parameter"),
        ({"n_estimators": 3}, "'n_estimators' as 3"),
        ({"max_leaf_nodes": None}, "resolved must be numbers by parameter"),
    ],
)
def test_a_crafted_file_is_refused(change, message):
    kind, meta, arrays = to_parts(made("LambdaMART").fit(DATA[12]), False)
    with pytest.raises(ValueError, match=message):
        from_parts(kind, meta | {"resolved": meta["resolved"] | change}, arrays)


def test_a_file_without_the_resolved_values_is_refused():
    kind, meta, arrays = to_parts(made("LambdaMART").fit(DATA[12]), False)
    del meta["resolved"]["min_samples_leaf"]
    with pytest.raises(ValueError, match='min_samples_leaf is "auto", and the resolved parameters lack it'):
        from_parts(kind, meta, arrays)


def test_the_file_of_a_model_without_auto_is_as_before(tmp_path):
    made("LambdaMART", **SET).fit(DATA[12]).save(tmp_path / "model.podium")
    assert "resolved" not in load_parts(tmp_path / "model.podium")[1]


def test_members_and_init_models_resolve_from_their_own_rows():
    data = DATA[240]
    bag = podium.Bagged(made("MART"), n_members=2, n_jobs=1).fit(DATA[1500])
    assert all(member.resolved_params_ == EXPECTED[1500] for member in bag.members_)
    smart = podium.LambdaSMART(n_estimators=1, init=made("MART", learning_rate=0.7)).fit(data)
    assert smart.init_.resolved_params_ == SOME | {"learning_rate": 0.7}
    blend = podium.Blend([made("MART"), made("LambdaMART")], n_jobs=1).fit(DATA[1500])
    assert all(member.resolved_params_ == MORE for member in blend.members_)


def test_texts_toml_and_python_say_it_alike():
    model = plan_model("lambdamart", ["max_leaf_nodes=auto", "extra_trees=AUTO", "learning_rate=0.2"]).model
    assert (model.max_leaf_nodes, model.extra_trees, model.learning_rate) == ("auto", "auto", 0.2)
    rows = {one.name: one.as_dict() for one in find_model("lambdamart").parameters.values()}
    assert rows["max_leaf_nodes"]["default"] == "auto"
    assert rows["max_leaf_nodes"]["allowed"] == 'an integer from 2 to 65,536, or "auto"'
    assert "5 below 150 training queries" in rows["max_leaf_nodes"]["about"]
    for value, allowed in (("max_leaf_nodes", "an integer from 2 to 65,536"), ("extra_trees", "True or False")):
        with pytest.raises(ValueError, match=f"{value} must be {allowed}, or \"auto\"; got 'Automatic'"):
            made("MART", **{value: "Automatic"}).fit(DATA[12])


def test_inspect_shows_what_the_training_had():
    model = made("LambdaMART", learning_rate=0.3).fit(DATA[12])
    inspection = model.inspect()
    assert inspection.resolved_params == FEW | {"learning_rate": 0.3}
    assert inspection.as_dict()["resolved_params"] == inspection.resolved_params
    shown = "trained with: feature_fraction=1.0, extra_trees=True, max_leaf_nodes=5, min_samples_leaf=20"
    assert str(inspection).splitlines()[-1] == shown
    assert "trained with" not in str(made("LambdaMART", **SET).fit(DATA[12]).inspect())
