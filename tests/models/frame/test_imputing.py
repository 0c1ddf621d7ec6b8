"""Imputation: missing values filled by the models that do not learn from what is missing."""

import numpy as np
import pytest
from families import small_model
from sklearn.impute import SimpleImputer

import podium
from podium.data.ranking import RankingData
from podium.models.frame.imputing import ImputeParameters
from podium.models.registry import MODELS

FILLING = [name for name, kind in MODELS.items() if issubclass(kind, ImputeParameters)]
ALIKE = ("LambdaRank", "ListNet", "ListMLE", "XENDCG", "ApproxNDCG", "Net")  # nets that differ in their objective only
TRIED = [name for name in FILLING if name not in ALIKE]
nan = np.nan


def data_with_gaps(rng, n_queries=12):
    """Features of which the first two have gaps; whether the second is missing says something about the label."""
    n = n_queries * 8
    X = rng.normal(size=(n, 4)).astype(np.float32) + np.float32(3)
    y = np.digitize(X[:, 0] + 0.5 * X[:, 2], [4, 5]).astype(float)
    X[rng.random(n) < 0.2, 0] = nan
    X[(y > 0) & (rng.random(n) < 0.5), 1] = nan
    return RankingData.from_arrays(X, y, np.repeat(np.arange(n_queries), 8))


def make(name, **parameters):
    """A small model; solvers of SVMs may take the rounds they need."""
    return small_model(name, **({"max_iter": 1000} if "SVM" in name else {}) | parameters)


def filled(data, X):
    return RankingData.from_arrays(X, data.y, data.qid, sample_weight=data.sample_weight)


def test_linear_models_svms_estimators_and_nets_fill_and_no_others():
    assert {"Linear", "BayesRank", "AdaRank", "CoordinateAscent", "RankSVM", "KernelRankSVM"} <= set(FILLING)
    assert {"Pointwise", "Pairwise", "RankNet", "SelfAttentionRanker"} <= set(FILLING)
    assert not {"LambdaMART", "RandomForest", "RankBoost", "Blend"} & set(FILLING)


@pytest.mark.parametrize("name", TRIED)
@pytest.mark.parametrize(("impute", "strategy"), [("mean", "mean"), ("zero", "constant")])
def test_a_model_that_fills_is_that_of_rows_filled_by_scikit_learn(name, impute, strategy, rng):
    train, test = data_with_gaps(rng), data_with_gaps(rng)
    imputer = SimpleImputer(strategy=strategy, fill_value=0.0).fit(train.X.astype(np.float64))
    X, Z = (imputer.transform(part.X.astype(np.float64)).astype(np.float32) for part in (train, test))
    model = make(name, impute=impute).fit(train)
    apart = make(name).fit(filled(train, X))
    assert not np.isnan(Z).any()
    np.testing.assert_allclose(model.predict(test), apart.predict(filled(test, Z)), rtol=1e-4, atol=1e-4)
    assert np.ptp(model.predict(test)) > 0


@pytest.mark.parametrize("name", TRIED)
@pytest.mark.parametrize("transform", [None, ("raw", "zscore")])
def test_a_file_has_what_is_filled_in_and_the_columns_that_say_where(name, transform, rng, tmp_path):
    train, test = data_with_gaps(rng), data_with_gaps(rng)
    model = make(name, impute="mean", missing_indicator=True, transform=transform).fit(train)
    names = model.column_names_
    gaps = ("missing(feature 1)", "missing(feature 2)")
    if transform:
        gaps += ("missing(zscore(feature 1))", "missing(zscore(feature 2))")
    assert names[-len(gaps) :] == gaps
    assert len(names) == model.n_columns
    model.save(tmp_path / "model.podium")
    loaded = podium.load(tmp_path / "model.podium")
    assert (loaded.predict(test) == model.predict(test)).all()
    assert loaded.column_names_ == names
    loaded.set_params(impute=None, missing_indicator=False)  # for the next training only
    assert (loaded.predict(test) == model.predict(test)).all()
    one = test.subset([0])  # a scorer takes the rows of a query
    np.testing.assert_allclose(loaded.scorer()(one.X), loaded.predict(one), rtol=1e-4, atol=1e-5)


def test_columns_are_filled_behind_the_transform():
    X = np.array([[1.0], [nan], [3.0], [5.0], [9.0]], np.float32)
    data = RankingData.from_arrays(X, [0, 1, 1, 0, 1], [0, 0, 0, 1, 1])
    model = podium.Linear(transform=("zscore", "raw"), impute="mean", missing_indicator=True).fit(data)
    columns = model.columns(*model.checked_rows(data, None))
    # the z-scores of query 0 are those of 1 and 3, and their mean over all four known rows is 0; (1 + 3 + 5 + 9) / 4
    np.testing.assert_allclose(columns[:, 0], [-1, 0, 1, -1, 1], atol=1e-6)
    np.testing.assert_allclose(columns[:, 1], [1, 4.5, 3, 5, 9])
    assert columns[:, 2].tolist() == columns[:, 3].tolist() == [0, 1, 0, 0, 0]
    assert model.column_names_ == (
        "zscore(feature 1)",
        "feature 1",
        "missing(zscore(feature 1))",
        "missing(feature 1)",
    )


def test_means_of_linear_are_weighted_and_rows_of_weight_0_are_not_there(rng):
    X = np.array([[1.0, nan], [nan, 2.0], [4.0, 2.0], [100.0, 7.0], [3.0, 4.0]], np.float32)
    y, qid, weight = [1, 0, 1, 1, 0], [0, 0, 0, 1, 1], np.array([2.0, 1, 1, 0, 1])
    data = RankingData.from_arrays(X, y, qid, sample_weight=weight)
    model = podium.Linear(impute="mean", missing_indicator=True).fit(data)
    np.testing.assert_allclose(model.imputation_.values, [(2 * 1 + 4 + 3) / 4, (2 + 2 + 4) / 3], rtol=1e-6)
    plain = podium.CoordinateAscent(impute="mean").fit(data)  # whose standardisation has no weights
    np.testing.assert_allclose(plain.imputation_.values, [(1 + 4 + 100 + 3) / 4, (2 + 2 + 7 + 4) / 4])
    X[3] = nan  # of weight 0, so it is no reason for an indicator or for another mean
    again = podium.Linear(impute="mean", missing_indicator=True).fit(
        RankingData.from_arrays(X, y, qid, sample_weight=weight)
    )
    assert again.imputation_.values.tolist() == model.imputation_.values.tolist()


def test_without_missing_values_filling_changes_no_bit(rng):
    X = rng.normal(size=(80, 3)).astype(np.float32)
    data = RankingData.from_arrays(X, rng.integers(0, 3, 80), np.repeat(np.arange(8), 10))
    for kind in (podium.Linear, podium.RankSVM, podium.AdaRank):
        scores = [kind(**more).fit(data).predict(data) for more in ({}, {"impute": "mean", "missing_indicator": True})]
        assert (scores[0] == scores[1]).all()


def test_a_net_without_impute_keeps_its_own_inputs_and_with_it_sees_filled_columns(rng):
    train = data_with_gaps(rng)
    own = small_model("RankNet").fit(train)
    assert own.imputation_ is None
    assert own.net_.inputs.flagged.tolist() == [0, 1]
    bare = small_model("RankNet", impute="mean").fit(train)
    assert bare.net_.inputs.flagged.tolist() == []
    assert bare.net_.shape.n_inputs == 4
    flagged = small_model("RankNet", impute="zero", missing_indicator=True).fit(train)
    assert flagged.net_.inputs.flagged.tolist() == []
    assert flagged.net_.shape.n_inputs == 6


def test_an_init_model_sees_the_rows_as_they_came(rng):
    train, test = data_with_gaps(rng), data_with_gaps(rng)
    base = small_model("LambdaMART").fit(train)
    net = small_model("RankNet", init=base, impute="mean", missing_indicator=True, max_epochs=1).fit(train)
    rows = net.columns(test.X, None)
    np.testing.assert_allclose(net.predict(test), base.predict(test) + net.net_.scores(rows, 1))
    assert len(np.unique(base.predict(test))) > 3


def test_given_pairs_basis_functions_and_evaluation_sets_take_filled_columns(rng):
    train, valid = data_with_gaps(rng), data_with_gaps(rng)
    pairs = ([0, 9, 20], [1, 10, 21])
    model = podium.Linear(impute="mean", basis="gaussian", n_centres=5)
    model.fit(train, pairs=pairs, eval_set=[valid], early_stopping_rounds=5)
    assert np.isfinite(model.predict(valid)).all()
    assert len(model.evals_["eval_0"]["ndcg@10"]) > 0
    centred = podium.Linear(impute="mean", missing_indicator=True, basis="gaussian", centres=np.zeros((2, 4)))
    with pytest.raises(ValueError, match="have 6 columns, which missing_indicator made of the features"):
        centred.fit(train)


def test_shapley_values_are_those_of_filled_columns(rng):
    train = data_with_gaps(rng)
    model = podium.Linear(impute="mean", missing_indicator=True).fit(train)
    explained = podium.explain.shap_values(model, train)
    np.testing.assert_allclose(explained.base + explained.values.sum(axis=1), model.predict(train), atol=1e-6)
    assert explained.names[-1] == "missing(feature 2)"
    named = podium.explain.shap_values(model, train, names=["a", "b", "c", "d"])
    assert named.names[4:] == ("missing(a)", "missing(b)")


def test_trees_on_top_of_a_model_that_fills_score_but_are_not_explained_together(rng):
    train = data_with_gaps(rng)
    model = small_model("LambdaMART", init=podium.Linear(impute="mean")).fit(train)
    np.testing.assert_allclose(
        model.predict(train), model.forest_.scores(train.X) + model.init_.predict(train), atol=1e-6
    )
    with pytest.raises(ValueError, match="or fillings of missing values"):
        podium.explain.shap_values(model, train)


def test_svmlight_files_hold_a_model_that_fills_with_0_and_no_other(rng, tmp_path):
    train = data_with_gaps(rng)
    model = podium.RankSVM(impute="zero").fit(train)
    model.write_svmlight(tmp_path / "model.dat")
    again = podium.RankSVM.read_svmlight(tmp_path / "model.dat")
    np.testing.assert_allclose(again.predict(np.nan_to_num(train.X)), model.predict(train), rtol=1e-5, atol=1e-6)
    for other in (podium.RankSVM(impute="mean"), podium.RankSVM(impute="zero", missing_indicator=True)):
        with pytest.raises(ValueError, match="files of SVMlight fill missing values with 0"):
            other.fit(train).write_svmlight(tmp_path / "other.dat")
    assert not (tmp_path / "other.dat").exists()


def test_members_of_ensembles_fill_for_themselves(rng):
    train, test = data_with_gaps(rng), data_with_gaps(rng)
    blend = podium.Blend(members=[small_model("LambdaMART"), podium.Linear(impute="mean")]).fit(train)
    alone = podium.Linear(impute="mean").fit(train)
    assert (blend.members_[1].predict(test) == alone.predict(test)).all()
    assert np.isfinite(podium.Stack(members=blend.members, folds=2, n_jobs=1).fit(train).predict(test)).all()


def test_errors_name_the_parameter(rng):
    train = data_with_gaps(rng)
    with pytest.raises(ValueError, match=r'Linear does not support missing values; .*impute="mean" or impute="zero"'):
        podium.Linear().fit(train)
    fitted = podium.Linear().fit(filled(train, np.nan_to_num(train.X)))
    with pytest.raises(ValueError, match='Train it with impute="mean"'):
        fitted.set_params(impute="mean").predict(train)
    with pytest.raises(ValueError, match="Linear: impute must be one of None, mean, zero; got 'median'"):
        podium.Linear(impute="median").fit(train)
    with pytest.raises(ValueError, match="missing_indicator=True needs impute"):
        podium.RankSVM(missing_indicator=True).fit(train)
    with pytest.raises(ValueError, match="impute fills features, and with a precomputed kernel"):
        podium.KernelRankSVM(kernel="precomputed", impute="mean").fit(train)


def test_a_column_without_any_value_is_filled_with_0(rng):
    X = np.array([[nan, 1.0], [nan, 2.0], [nan, 3.0]], np.float32)
    model = podium.Linear(impute="mean", missing_indicator=True).fit(X, [0, 1, 2], group=[3])
    assert model.imputation_.values.tolist() == [0.0, 2.0]
    assert model.columns(X, None).tolist() == [[0, 1, 1], [0, 2, 1], [0, 3, 1]]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda meta, arrays: arrays.update({"impute/values": np.zeros(3, np.float32)}), "impute/values must have 4"),
        (lambda meta, arrays: arrays.update({"impute/values": np.full(4, nan, np.float32)}), "impute/values must have"),
        (lambda meta, arrays: arrays.update({"impute/flagged": np.array([1, 0])}), "impute/flagged must be rising"),
        (lambda meta, arrays: arrays.update({"impute/flagged": np.array([0, 4])}), "a column that is not there"),
        (lambda meta, arrays: meta.update({"n_filled": 5}), "5 columns are filled of 4"),
        (lambda meta, arrays: meta.pop("n_filled"), "hold 'impute/"),
    ],
)
def test_what_a_file_says_of_filling_is_checked(change, reason, rng):
    from podium.persistence.saving import from_parts, to_parts

    kind, meta, arrays = to_parts(podium.Linear(impute="mean", missing_indicator=True).fit(data_with_gaps(rng)), False)
    change(meta, arrays)
    with pytest.raises(ValueError, match=reason):
        from_parts(kind, meta, arrays)
