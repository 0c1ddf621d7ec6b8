"""Studies of features: what a feature is worth when it is shuffled, left out of training, or read by SHAP values."""

import json
import sys

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone

import podium
from podium import cli, explain
from podium.data.ranking import RankingData
from podium.explain.ablation import without

pytestmark = pytest.mark.usefixtures("large_sizes")

NAMES = ("planted", "copy", "noise", "weak")


def make_data(seed: int, n_queries: int = 60, sparse: bool = False) -> RankingData:
    """Labels follow "planted" (which "copy" repeats) and, a little, "weak"; "noise" is not in them."""
    rng = np.random.default_rng(seed)
    n = 12 * n_queries
    X = rng.normal(size=(n, 4)).astype(np.float32)
    X[:, 1] = X[:, 0]
    y = np.clip(np.round(1.2 * X[:, 0] + 0.5 * X[:, 3] + rng.normal(0, 0.3, n) + 1.5), 0, 4)
    rows = csr_array(X) if sparse else X
    return RankingData.from_arrays(rows, y, qid=np.arange(n) // 12, feature_names=NAMES)


TRAIN, TEST = make_data(1), make_data(2)
MODEL = podium.LambdaMART(n_estimators=20, max_leaf_nodes=8, min_samples_leaf=5, n_jobs=1, metric="ndcg@5")
BOTH = {"both": ["planted", "copy"], "planted": ["planted"], "noise": [2], "weak": ["weak"]}


@pytest.fixture(scope="module")
def drops():
    return explain.ablation(MODEL, TRAIN, TEST, groups=BOTH)


def test_a_planted_feature_costs_and_noise_costs_nothing(drops):
    found = {drop.name: drop for drop in drops.ranked()}
    assert next(iter(found)) == "both"
    assert found["both"].interval[0] > 0.1
    assert found["weak"].interval[0] > 0
    low, _ = found["noise"].interval
    assert low < 0.01
    assert abs(found["noise"].drop) < 0.01
    assert found["planted"].drop == 0  # its copy is as good: the same trees


def test_ablation_equals_training_without_the_columns(drops):
    """The oracle deletes columns; ablation sets them to 0, where no tree can split."""
    for name, kept in (("both", [2, 3]), ("noise", [0, 1, 3]), ("weak", [0, 1, 2])):
        model = clone(MODEL).fit(TRAIN.X[:, kept], TRAIN.y, qid=TRAIN.qid)
        found = podium.evaluate(model.predict(TEST.X[:, kept]), TEST, metrics=["ndcg@5"])
        place = drops.names.index(name)
        assert drops.baseline - drops.means[place] == pytest.approx(found["ndcg@5"], abs=1e-12)
        whole = podium.evaluate(clone(MODEL).fit(TRAIN).predict(TEST), TEST, metrics=["ndcg@5"])
        np.testing.assert_allclose(drops.per_query[place], whole.per_query["ndcg@5"] - found.per_query["ndcg@5"])
        assert drops.means[place] == pytest.approx(drops.per_query[place].mean())


def test_the_interval_is_the_bootstrap_of_the_drops_per_query(drops):
    from podium.evaluation.intervals import mean_interval

    for own, ends in zip(drops.per_query, drops.intervals):
        np.testing.assert_allclose(ends, mean_interval(own))


def test_lower_is_better_metrics_drop_upwards():
    found = explain.ablation(MODEL, TRAIN, TEST, groups={"both": [0, 1]}, metric="inversions")
    assert found.means[0] > 0
    assert found.per_query[0].mean() > 0


def test_every_feature_is_left_out_by_default_and_progress_is_reported():
    seen = []
    found = explain.ablation(MODEL, TRAIN, TEST, report=lambda done, of: seen.append((done, of)))
    assert found.names == NAMES
    assert seen == [(n, 5) for n in range(1, 6)]


def test_sparse_rows_are_ablated_like_dense_ones(drops):
    train, test = make_data(1, sparse=True), make_data(2, sparse=True)
    model = clone(MODEL).set_params(bundle_features=False)
    found = explain.ablation(model, train, test, groups=BOTH)
    dense = explain.ablation(model, TRAIN, TEST, groups=BOTH)
    np.testing.assert_array_equal(found.per_query, dense.per_query)
    np.testing.assert_array_equal(without(train, [1]).X.toarray(), without(TRAIN, [1]).X)
    assert without(train, [1]).X.nnz == train.X.nnz - train.n_rows


def test_evaluation_sets_lose_the_features_too():
    model = clone(MODEL).set_params(n_estimators=30)
    found = explain.ablation(model, TRAIN, TEST, groups={"weak": [3]}, eval_set=TEST, early_stopping_rounds=3)
    own = clone(model).fit(without(TRAIN, [3]), eval_set=[without(TEST, [3])], early_stopping_rounds=3)
    after = podium.evaluate(own.predict(without(TEST, [3])), TEST, metrics=["ndcg@5"])["ndcg@5"]
    assert found.baseline - found.means[0] == pytest.approx(after)


def test_what_cannot_be_ablated_is_refused():
    with pytest.raises(ValueError, match="expected a model of Podium"):
        explain.ablation(object(), TRAIN, TEST)
    with pytest.raises(ValueError, match="ablation: the init of LambdaSMART is a fitted LambdaMART"):
        explain.ablation(podium.LambdaSMART(init=clone(MODEL).fit(TRAIN)), TRAIN, TEST)
    with pytest.raises(ValueError, match="Did you mean 'noise'"):
        explain.ablation(MODEL, TRAIN, TEST, groups={"a": ["nois"]})
    with pytest.raises(ValueError, match="at least one feature per group"):
        explain.ablation(MODEL, TRAIN, TEST, groups={"a": []})
    with pytest.raises(ValueError, match="needs RankingData"):
        explain.ablation(MODEL, TRAIN, TEST, groups={"a": [0]}, eval_set=[(TEST.X, TEST.y, TEST.qid)])


def test_shuffling_has_intervals_over_queries():
    found = explain.permutation_importance(clone(MODEL).fit(TRAIN), TEST, repeats=4)
    np.testing.assert_allclose(found.per_query.mean(axis=1), found.means, atol=1e-12)
    by_name = {drop.name: drop for drop in found.ranked()}
    assert by_name["planted"].interval[0] > 0.1  # the model uses the first of two equal columns
    assert by_name["copy"].drop == 0
    assert np.isnan(by_name["copy"].interval).all()
    assert "copy     +0.0000  (too few non-zero differences)" in str(found)
    row = next(row for row in found.as_dict()["features"] if row["feature"] == "copy")
    assert (row["interval"], row["no_interval"]) == (None, "too few non-zero differences")
    assert [(drop.name, drop.drop, drop.deviation) for drop in found.ranked()] == found.sorted()
    assert json.loads(json.dumps(found.as_dict()))["features"][0]["interval"][0] > 0.1


def test_a_summary_averages_over_documents_and_then_over_queries(rng):
    keep = np.flatnonzero((TEST.qid != 3) | (rng.random(TEST.n_rows) < 0.4))  # a query of another size
    order = rng.permutation(keep)  # interleaved
    data = RankingData.from_arrays(TEST.X[order], TEST.y[order], TEST.qid[order], feature_names=NAMES)
    model = clone(MODEL).fit(TRAIN)
    found = explain.shap_summary(model, data)
    values = explain.shap_values(model, data).values
    expected = np.zeros(4)
    for query in np.unique(data.qid):
        own = values[data.qid == query]
        expected += np.abs(own - own.mean(axis=0)).mean(axis=0) / 60
    np.testing.assert_allclose(found.sizes, expected)
    assert found.importance().top(1)[0][0] == "planted"
    assert found.as_dict()["features"][0]["feature"] == "planted"


@pytest.mark.parametrize("suffix", ["svg", "png"])
def test_pictures_are_the_same_bytes_each_time(drops, tmp_path, suffix):
    summary = explain.shap_summary(clone(MODEL).fit(TRAIN), TEST)
    for name, drawn in (("drops", drops), ("summary", summary)):
        first, second = tmp_path / f"{name}1.{suffix}", tmp_path / f"{name}2.{suffix}"
        drawn.picture(first)
        drawn.picture(second)
        assert first.read_bytes() == second.read_bytes()
        assert len(first.read_bytes()) > 2000


def test_the_command_line_studies_features(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    podium.write_data(TRAIN, "train.csv")
    podium.write_data(TEST, "test.csv")
    clone(MODEL).fit(podium.read_data("train.csv")).save("m.podium")

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["podium", "explain", "m.podium", "test.csv", *arguments])
        with pytest.raises(SystemExit) as stopped:
            cli.main()
        said = capsys.readouterr()
        return stopped.value.code, said.out, said.err

    code, out, _ = run("--ablation", "train.csv", "--group", "both=planted,2", "--group", "noise=3", "--json")
    found = json.loads(out)
    assert code == 0
    assert [row["feature"] for row in found["features"]] == ["both", "noise"]
    assert found["metric"] == "ndcg@5"
    code, out, _ = run("--permutation", "-m", "map", "--out", "drops.svg")
    assert code == 0
    assert "planted" in out
    assert (tmp_path / "drops.svg").exists()
    code, out, _ = run("--shap")
    assert code == 0
    assert "mean |SHAP| within queries" in out
    for wrong, message in (
        ([], "Give one of --query Q, --shap"),
        (["--shap", "--permutation"], "Give one of"),
        (["--shap", "--top", "3"], "are about one query"),
        (["--shap", "-m", "map"], "--metric is for"),
        (["--permutation", "--group", "a=1"], "--group is for"),
        (["--ablation", "train.csv", "--group", "a"], "--group must be NAME=FEATURE"),
        (["--shap", "--out", "no/x.svg"], "does not exist"),
    ):
        code, _, err = run(*wrong)
        assert code == 2
        assert message in err
