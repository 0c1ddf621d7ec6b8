"""Transforms: columns as an obvious version makes them, fitted and saved with any model, the same for any row order."""

import io
import json
import sys

import numpy as np
import pytest
from fuzz_files import read_parts, write_parts
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from scipy.stats import rankdata
from sklearn.base import clone

import podium
from podium import cli
from podium.data.ranking import RankingData
from podium.formats.errors import FormatError
from podium.formats.kinds import MODEL
from podium.models.frame.transforms import KINDS, WITHIN_QUERY, Transform, queries_by_id, same_transforms
from podium.models.linear import Linear
from podium.models.registry import MODELS, find_model, plan_model, read_settings
from podium.models.trees.named import LambdaMART, LambdaSMART, RandomForest

TREES = LambdaMART(n_estimators=4, max_leaf_nodes=4, min_samples_leaf=3)
FEW = {
    "model": TREES,
    "members": [TREES, Linear(max_iter=5)],
    "n_members": 2,
    "folds": 2,
    "budget": 1e-6,
    "n_estimators": 5,
    "max_leaf_nodes": 6,
    "min_samples_leaf": 3,
    "max_iter": 5,
    "max_epochs": 5,
    "n_jobs": 1,
}
ALL = ("raw", "zscore", "rank", "minmax", "standard", "signed_log", "quantile")


def small(kind, **parameters):
    few = {name: value for name, value in FEW.items() if name in kind().get_params()}
    return kind(**few | parameters)


def numbers(n=240, missing=False, seed=3):
    draws = np.random.default_rng(seed)
    X = draws.standard_normal((n, 5)).astype(np.float32)
    X[:, 1] = np.round(X[:, 1])  # ties
    qid = draws.permutation(np.arange(n) // 8)
    X[:, 3] = qid % 3  # constant within the query
    X[:, 4] = 7  # constant
    if missing:
        X[draws.random(X.shape) < 0.2] = np.nan
    y = np.clip(np.round(np.nan_to_num(X[:, 0]) + np.nan_to_num(X[:, 1])), 0, 3)
    return X, y, qid


# --- an obvious version -------------------------------------------------------------------------------------------


def within(kind, values):
    """One feature of one query; float64, NaN where it was."""
    result, known = np.full(len(values), np.nan), ~np.isnan(values)
    x = values[known].astype(np.float64)
    if not len(x):
        return result
    if kind == "rank":
        result[known] = (rankdata(x) - 0.5) / len(x)
    elif x.min() == x.max():
        result[known] = 0
    elif kind == "zscore":
        result[known] = np.clip((x - x.mean()) / x.std(), -4, 4)
    else:
        result[known] = (x - x.min()) / (x.max() - x.min())
    return result


def over_rows(kind, values, training):
    x, t = values.astype(np.float64), training[~np.isnan(training)].astype(np.float64)
    if kind == "raw":
        return x
    if kind == "signed_log":
        return np.sign(x) * np.log(1 + np.abs(x))
    if kind == "standard":
        return (x - t.mean()) / t.std()
    quantiles = np.quantile(t, np.linspace(0, 1, 256)).astype(np.float32).astype(np.float64)
    return np.array([share_below(value, quantiles) for value in x])


def share_below(value, quantiles):
    """The middle of the quantiles that are this value, or a point between its neighbours."""
    equal = np.flatnonzero(quantiles == value)
    if np.isnan(value) or len(equal):
        return np.nan if np.isnan(value) else equal.mean() / 255
    right = int((quantiles < value).sum())
    if right in (0, 256):
        return right / 256
    low, high = quantiles[right - 1], quantiles[right]
    return (right - 1 + (value - low) / (high - low)) / 255


def obvious(kinds, X, qid, training, training_qid):
    """All columns of X that vary over the training rows, with their names."""
    columns, names = [], []
    for kind in kinds:
        for feature in range(X.shape[1]):
            both = []
            for rows, ids in ((training, training_qid), (X, qid)):
                values = rows[:, feature]
                if kind in WITHIN_QUERY:
                    made = np.empty(len(values))
                    for one in np.unique(ids):
                        made[ids == one] = within(kind, values[ids == one])
                elif np.nanmin(training[:, feature]) == np.nanmax(training[:, feature]) and kind == "standard":
                    made = np.where(np.isnan(values), np.nan, 0)
                else:
                    made = over_rows(kind, values, training[:, feature])
                both.append(made)
            if len(np.unique(both[0])) > 1:  # NaN counts once
                columns.append(both[1])
                names.append(f"f{feature}" if kind == "raw" else f"{kind}(f{feature})")
    return np.stack(columns, axis=1), tuple(names)


@settings(max_examples=40)
@given(
    kinds=st.lists(st.sampled_from(ALL), min_size=1, max_size=7, unique=True),
    seed=st.integers(0, 10**6),
    missing=st.booleans(),
)
def test_columns_are_those_of_the_obvious_version_for_any_row_order(kinds, seed, missing):
    draws = np.random.default_rng(seed)
    (train, y, qid), (X, _, ids) = numbers(120, missing, seed), numbers(40, missing, seed + 1)
    X[0, 0], train[0, 0] = 1e30, -1e-30
    fitted = Transform.fit(kinds, RankingData.from_arrays(train, y, qid), (), 1)
    columns, names = obvious(kinds, X, ids, train, qid)
    assert fitted.names([f"f{number}" for number in range(5)]) == names
    found = fitted.apply(X, queries_by_id(ids), 1)
    np.testing.assert_allclose(found, columns, rtol=2e-5, atol=2e-6)
    order = draws.permutation(len(X))
    np.testing.assert_array_equal(fitted.apply(X[order], queries_by_id(ids[order]), 1), found[order])
    shuffled = draws.permutation(len(train))
    again = Transform.fit(kinds, RankingData.from_arrays(train[shuffled], y[shuffled], qid[shuffled]), (), 1)
    assert same_transforms(again, fitted)


def test_long_lists_and_threads_give_the_same_columns():
    draws = np.random.default_rng(1)
    X = np.round(draws.standard_normal((70_000, 3)), 2).astype(np.float32)
    qid = np.minimum(np.arange(70_000) // 20, 2500)  # and one list of 20,000
    fitted = Transform.fit(("rank", "zscore", "standard"), RankingData.from_arrays(X, X[:, 0] > 0, qid), (), 1)
    one, two = (fitted.apply(X, queries_by_id(qid), n_jobs) for n_jobs in (1, 2))
    np.testing.assert_array_equal(one, two)
    last = X[qid == 2500][:, 1]
    np.testing.assert_allclose(one[qid == 2500, 1], (rankdata(last) - 0.5) / len(last), rtol=1e-6)


def test_worked_numbers():
    X, qid = np.array([[1.0], [2.0], [2.0], [7.0], [5.0]], np.float32), np.array([0, 0, 0, 0, 1])
    fitted = Transform.fit(("rank", "minmax", "zscore"), RankingData.from_arrays(X, np.arange(5), qid), (), 1)
    deviation = np.sqrt((4 + 1 + 1 + 16) / 4)
    np.testing.assert_allclose(
        fitted.apply(X, queries_by_id(qid)),
        [
            [0.5 / 4, 0, -2 / deviation],
            [2.0 / 4, 1 / 6, -1 / deviation],
            [2.0 / 4, 1 / 6, -1 / deviation],
            [3.5 / 4, 1, 4 / deviation],
            [0.5, 0, 0],
        ],
        rtol=1e-6,
    )


# --- models -------------------------------------------------------------------------------------------------------


def built(kind, **parameters):
    """A small model of any kind that is fitted with a transform within the query."""
    X, y, qid = numbers()
    if kind is LambdaSMART:
        parameters["init"] = small(Linear).fit(X, y, qid)
    return small(kind, transform=("raw", "zscore", "rank"), **parameters), X, y, qid


@pytest.mark.parametrize("name", list(MODELS))
@pytest.mark.filterwarnings("ignore:.*RankSVM stopped after 5 rounds:UserWarning")
def test_every_model_takes_a_transform_and_keeps_it(name, tmp_path):
    model, X, y, qid = built(MODELS[name])
    model.fit(X, y, qid, eval_set=(X, y, qid))
    scores = model.predict(X, qid)
    curve = next(iter(model.evals_["eval_0"].values()))
    assert model.score(X, y, qid) == pytest.approx(curve[model.best_iteration_ - 1], abs=1e-12)
    assert model.score(X, y, group=[240]) is not None
    np.testing.assert_array_equal(model.predict(RankingData.from_arrays(X, y, qid)), scores)
    order = np.random.default_rng(0).permutation(len(X))
    rounding = 1e-5 if name == "SelfAttentionRanker" else 1e-12  # which adds up a list in single precision
    np.testing.assert_allclose(model.predict(X[order], qid[order]), scores[order], rtol=rounding, atol=rounding)
    np.testing.assert_array_equal(X[order[model.rank(X[order], qid[order])]].shape, X.shape)
    with pytest.raises(ValueError, match=rf"{name}: predict needs qid, one query id per row, because .*query"):
        model.predict(X)
    own = qid == 4
    listed = model.scorer()(X[own])
    np.testing.assert_allclose(listed, scores[own], rtol=1e-5, atol=1e-6)
    assert "transform=" in str(model.inspect())
    model.save(tmp_path / "m.podium")
    loaded = podium.load(tmp_path / "m.podium")
    assert tuple(loaded.transform) == ("raw", "zscore", "rank")
    assert loaded.column_names_ == model.column_names_
    np.testing.assert_array_equal(loaded.predict(X, qid), scores)
    assert clone(model).transform == model.transform
    assert not hasattr(MODELS[name](), "transform")  # scikit-learn would call it
    assert MODELS[name]().get_params()["transform"] is None


def test_a_transform_over_rows_needs_no_qid():
    X, y, qid = numbers()
    model = small(LambdaMART, transform=("standard", "signed_log", "quantile")).fit(X, y, qid)
    np.testing.assert_array_equal(model.predict(X), model.predict(X, qid))
    np.testing.assert_allclose(model.scorer()(X), model.predict(X), rtol=1e-6)


@pytest.mark.parametrize("kind", [LambdaMART, Linear])
def test_a_model_with_a_transform_is_one_without_on_transformed_rows(kind):
    """The frame adds nothing: scores, curves and importances are those of the columns."""
    X, y, qid = numbers()
    kinds = ("rank", "zscore")
    model = small(kind, transform=kinds).fit(X, y, qid, eval_set=(X, y, qid), early_stopping_rounds=3)
    columns, names = obvious(kinds, X, qid, X, qid)
    fitted = model.transform_.apply(X, queries_by_id(qid))
    np.testing.assert_allclose(fitted, columns, rtol=1e-5, atol=1e-6)
    plain = small(kind).fit(fitted, y, qid, eval_set=(fitted, y, qid), early_stopping_rounds=3)
    np.testing.assert_array_equal(model.predict(X, qid), plain.predict(fitted))
    np.testing.assert_array_equal(model.feature_importances_, plain.feature_importances_)
    assert model.evals_ == plain.evals_
    assert len(names) == len(model.feature_importances_) == len(model.column_names_)


@pytest.mark.parametrize("kind", [LambdaMART, Linear])
def test_checkpoints_resume_in_the_same_bytes_and_know_the_transform(kind, tmp_path):
    class Killed(Exception):
        pass

    def kill(progress):
        if progress.iteration == 3:
            raise Killed

    X, y, qid = numbers()
    options = {"transform": ("raw", "rank")}
    small(kind, **options).fit(X, y, qid, eval_set=(X, y, qid)).save(tmp_path / "whole.podium")
    kept = {"checkpoint": tmp_path / "run.check", "every": 2, "eval_set": (X, y, qid)}
    with pytest.raises(Killed):
        small(kind, **options).fit(X, y, qid, **kept, callbacks=[kill])
    with pytest.raises(ValueError, match=r"transform is \('raw', 'zscore'\) here and \('raw', 'rank'\) there"):
        small(kind, transform=("raw", "zscore")).fit(X, y, qid, **kept)
    small(kind, **options).fit(X, y, qid, **kept).save(tmp_path / "resumed.podium")
    assert (tmp_path / "whole.podium").read_bytes() == (tmp_path / "resumed.podium").read_bytes()


def test_further_training_uses_the_transform_that_was_fitted():
    X, y, qid = numbers()
    model = small(LambdaMART, transform=("standard", "quantile", "rank")).fit(X, y, qid)
    before = model.transform_
    whole = small(LambdaMART, transform=("standard", "quantile", "rank"), n_estimators=8).fit(X, y, qid)
    model.fit_more(X, y, qid, n_estimators=3)
    np.testing.assert_array_equal(model.predict(X, qid), whole.predict(X, qid))
    model.fit_more(X[:80] * 3, y[:80], qid[:80], n_estimators=1)
    assert model.transform_ is before
    other = model.refit(X[:120], y[:120], qid[:120])
    assert other.transform_ is before
    assert other.predict(X, qid).shape == (240,)
    pruned = model.prune(X, y, qid)
    assert pruned.steps[0].value == pytest.approx(model.score(X, y, qid), abs=1e-9)
    stages = list(model.staged_predict(X, qid))
    np.testing.assert_array_equal(stages[3], model.predict(X, qid, n_trees=4))
    added = model.forest_.start + model.tree_contributions(X, qid).sum(axis=1)
    np.testing.assert_allclose(added, model.predict(X, qid))


@pytest.mark.parametrize("base_transform", [None, ("zscore",), ("raw", "rank")])
@pytest.mark.parametrize("transform", [None, ("raw", "rank")])
def test_a_base_model_sees_the_rows_as_they_came(base_transform, transform, tmp_path):
    X, y, qid = numbers()
    base = small(LambdaMART, transform=base_transform).fit(X, y, qid)
    model = small(LambdaSMART, transform=transform, init=base).fit(X, y, qid, eval_set=(X, y, qid))
    trees = model.forest_.scores(model.columns(X, queries_by_id(qid)))
    np.testing.assert_allclose(model.predict(X, qid), trees + base.predict(X, qid))
    assert model.evals_["eval_0"]["ndcg@10"][-1] == pytest.approx(model.score(X, y, qid), abs=1e-12)
    model.save(tmp_path / "m.podium")
    np.testing.assert_array_equal(podium.load(tmp_path / "m.podium").predict(X, qid), model.predict(X, qid))
    own = qid == 2
    np.testing.assert_allclose(model.scorer()(X[own]), model.predict(X, qid)[own], rtol=1e-5, atol=1e-6)
    if transform == base_transform:
        found = podium.explain.shap_values(model, RankingData.from_arrays(X, y, qid))
        np.testing.assert_allclose(found.base + found.values.sum(axis=1), model.predict(X, qid), atol=1e-6)
    else:
        with pytest.raises(ValueError, match="different transforms"):
            podium.explain.shap_values(model, RankingData.from_arrays(X, y, qid))


# --- explanations -------------------------------------------------------------------------------------------------


def test_explanations_speak_of_the_transformed_columns():
    X, y, qid = numbers()
    data = RankingData.from_arrays(X, y, qid, feature_names=["bm25", "hits", "length", "day", "seven"])
    model = small(LambdaMART, transform=("zscore", "rank")).fit(data)
    assert set(model.column_names_) == {
        f"{kind}({name})" for kind in model.transform for name in data.feature_names[:3]
    }
    assert "zscore(bm25)" in str(model.inspect())
    assert dict(podium.explain.importance(model)).keys() == set(model.column_names_)
    table = data.to_frame()[list(data.feature_names)]
    found = podium.explain.shap_values(model, table, qid=qid)
    assert found.centred
    whole = podium.explain.shap_values(model, data)
    assert whole.names == model.column_names_
    np.testing.assert_allclose(whole.base + whole.values.sum(axis=1), model.predict(data), atol=1e-6)
    first, second = np.flatnonzero(qid == 3)[:2]
    reason = podium.explain.why(model, data, first, second)
    np.testing.assert_allclose(reason.scores, model.predict(data)[[first, second]])
    assert sum(one.contribution for one in reason.reasons) == pytest.approx(reason.difference, abs=1e-9)
    assert str(podium.explain.why(model, table, first, second, qid=qid)) == str(reason)
    with pytest.raises(ValueError, match="predict needs qid"):
        podium.explain.why(model, table, first, second)
    from podium.explain.queries import explain_top

    top = explain_top(model, data, "3", 2)
    assert top.top[0].score == pytest.approx(model.predict(data)[qid == 3].max())
    assert "(" in top.top[0].features[0].feature


def test_dependence_and_permutation_go_through_the_whole_model():
    X, y, qid = numbers()
    model = small(LambdaMART, transform=("raw", "zscore")).fit(X, y, qid)
    curve = podium.explain.partial_dependence(model, X, 0, grid=[0.0, 1.0], qid=qid)
    changed = X.copy()
    changed[:, 0] = 1.0
    np.testing.assert_array_equal(curve.curves[:, 1], model.predict(changed, qid))
    found = podium.explain.permutation_importance(model, X, y, qid, repeats=2)
    assert found.names == tuple(f"feature {number}" for number in range(1, 6))
    assert found.baseline == model.score(X, y, qid)
    assert found.means[4] == 0
    assert found.means[0] > 0


# --- categories, constraints, missing and sparse values -----------------------------------------------------------


def test_categories_pass_unchanged_and_constraints_hold_for_all_columns_of_a_feature(tmp_path):
    import pandas as pd

    X, y, qid = numbers()
    table = pd.DataFrame(X[:, :3], columns=["bm25", "hits", "length"])
    table["colour"] = pd.Categorical(np.array(["red", "green", "blue"])[(y % 3).astype(int)])
    model = small(LambdaMART, transform=("rank", "zscore"), monotone={"hits": -1}).fit(table, y, qid)
    assert model.column_names_[0] == "colour"
    assert not any("(colour)" in name for name in model.column_names_)
    assert model._signs() == tuple(-1 if "hits" in name else 0 for name in model.column_names_)
    assert "colour is" in model_text(model)
    model.save(tmp_path / "m.podium")
    np.testing.assert_array_equal(podium.load(tmp_path / "m.podium").predict(table, qid), model.predict(table, qid))
    for row in (3, 77):
        scores = []
        for value in np.linspace(-4, 4, 9):
            changed = table.copy()
            changed.loc[row, "hits"] = value
            scores.append(model.predict(changed, qid)[row])
        assert (np.diff(scores) <= 1e-12).all()


def model_text(model):
    from podium.models.frame.inspection import tree_text

    return "\n".join(tree_text(model, number) for number in range(1, 1 + model.forest_.n_trees))


def test_missing_values_stay_missing_where_the_model_takes_them():
    X, y, qid = numbers(missing=True)
    model = small(LambdaMART, transform=ALL).fit(X, y, qid)
    columns = model.columns(X, queries_by_id(qid))
    missing = np.isnan(X)[:, model.transform_.features]
    np.testing.assert_array_equal(np.isnan(columns), missing)
    with pytest.raises(
        ValueError, match=r"Linear does not support missing values; feature \d, X\[:, \d\], of the training data"
    ):
        small(Linear, transform=ALL).fit(X, y, qid)


def test_sparse_rows_are_taken_where_zeros_stay_zeros():
    X, y, qid = numbers()
    X[np.abs(X) < 0.7] = 0
    X[3, 0] = np.nan
    for kind in KINDS:
        model = small(RandomForest, transform=("signed_log", kind) if kind != "signed_log" else (kind,))
        if kind not in ("raw", "signed_log"):
            with pytest.raises(ValueError, match=f"zeros would not stay zeros under '{kind}'"):
                model.fit(csr_array(X), y, qid)
            continue
        sparse, dense = model.fit(csr_array(X), y, qid), clone(model).fit(X, y, qid)
        assert sparse.column_names_ == dense.column_names_
        np.testing.assert_allclose(sparse.predict(csr_array(X)), dense.predict(X), atol=1e-6)


def test_all_columns_constant_is_an_error_that_says_so():
    with pytest.raises(ValueError, match="all columns are constant over the training rows"):
        small(LambdaMART, transform=("zscore",)).fit(np.ones((20, 2)), np.arange(20) % 2, group=[10, 10])


# --- parameters and files -----------------------------------------------------------------------------------------


def test_the_command_line_takes_names_or_json(tmp_path, monkeypatch, capsys):
    entry = find_model("linear")
    wanted = ("raw", "zscore", "rank")
    for text in ("raw,zscore,rank", "raw, zscore, rank", '["raw", "zscore", "rank"]'):
        assert read_settings(entry, [f"transform={text}"]) == {"transform": wanted}
    assert read_settings(entry, ["transform=none"]) == {"transform": None}
    X, y, qid = numbers()
    data = RankingData.from_arrays(X, y, qid).grouped()
    podium.write_letor(data, tmp_path / "train.txt")
    podium.write_letor(RankingData.from_arrays(data.X, data.y.max() - data.y, data.qid), tmp_path / "valid.txt")
    monkeypatch.chdir(tmp_path)
    for command in (
        "train lambdamart train.txt --valid valid.txt --out m.podium --set n_estimators=5 --set transform=raw,rank",
        "rank m.podium train.txt --out scores.txt",
        "inspect m.podium",
        "explain m.podium train.txt --query 3",
    ):
        monkeypatch.setattr(sys, "argv", ["podium", *command.split(), "--json"])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        assert ended.value.code == 0, command
    found = podium.load("m.podium")
    np.testing.assert_allclose(
        np.loadtxt("scores.txt"), found.predict(podium.read_letor("train.txt")), rtol=1e-6, atol=1e-6
    )


@pytest.mark.parametrize("wrong", ["zscore", ("zscores",), (), ("raw", "raw"), 3, [["raw"]], {"raw": 1}])
def test_other_values_are_refused(wrong):
    with pytest.raises(ValueError, match=r"Linear: transform must be names such as .* out of raw, zscore"):
        Linear(transform=wrong).fit(*numbers())
    with pytest.raises(ValueError, match="transform must be names such as"):
        plan_model("linear", ["transform=raw,x"])


def test_crafted_files_are_refused(tmp_path):
    X, y, qid = numbers()
    path = tmp_path / "m.podium"
    small(Linear, transform=("raw", "zscore", "quantile")).fit(X, y, qid).save(path)
    meta, arrays = read_parts(path, MODEL)
    for name, edit in (
        ("kinds", lambda array: array.astype(np.int64)),
        ("kinds", lambda array: array[:-1]),
        ("kinds", lambda array: array + 9),
        ("kinds", lambda array: np.zeros_like(array)),
        ("features", lambda array: array + 5),
        ("centre", lambda array: array[:-1]),
        ("scale", lambda array: array * 0),
        ("scale", lambda array: array * np.nan),
        ("quantiles", lambda array: array[::-1]),
        ("quantiles", lambda array: array[:0]),
        ("quantiles", lambda array: array.T),
    ):
        write_parts(path, MODEL, meta, arrays | {f"transform/{name}": edit(arrays[f"transform/{name}"])})
        with pytest.raises(FormatError, match=r"m\.podium"):
            podium.load(path)
    for value in (None, -1, 3, "4", 2**40):
        edited = json.loads(json.dumps(meta))
        edited["meta"]["n_columns"] = value
        write_parts(path, MODEL, edited, arrays)
        with pytest.raises(FormatError, match=r"m\.podium"):
            podium.load(path)
    del edited["meta"]["n_columns"]
    write_parts(path, MODEL, edited, arrays)
    with pytest.raises(FormatError, match="not known"):
        podium.load(path)
    file = io.BytesIO()
    small(Linear).fit(X, y, qid).save(file)
    file.seek(0)
    assert podium.load(file).transform_ is None
