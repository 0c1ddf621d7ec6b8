"""Models: products of learner and objective, with scikit-learn's face, the same bytes for any number of threads."""

import os
import subprocess
import sys
from dataclasses import replace
from inspect import signature

import numpy as np
import pytest
from families import TREE_MODELS
from sklearn.base import clone

import podium
from podium.data.ranking import RankingData
from podium.metrics import POLICIES
from podium.metrics.additive import NDCG
from podium.metrics.pairs import Inversions
from podium.metrics.precision import AveragePrecision
from podium.models.trees.named import MART, Boosted, LambdaMART, LambdaSMART, RandomForest, RegressionTree
from podium.objectives import OBJECTIVES, BayesRank, Lambda
from podium.persistence.saving import load

pytestmark = pytest.mark.usefixtures("large_sizes")

# The lecture notes' example: (x1, x2, label).
POINTS = np.concatenate(
    [
        [(1, 4, 1), (1, 1, 1), (2, 8, 1), (4, 9, 1), (2, 8, 1), (1, 1, 2), (4, 2, 2), (2, 7, 2), (3, 8, 2)],
        [(6, 2, 3), (7, 3, 3), (9, 4, 3), (7, 7, 4), (9, 8, 4), (6, 6, 4), (9, 9, 4), (8, 8, 4)],
    ],
    dtype=float,
)


def small(kind=LambdaMART, **more):
    few = {"n_estimators": 8, "max_leaf_nodes": 8, "min_samples_leaf": 5}
    return kind(**({name: value for name, value in few.items() if name in signature(kind).parameters} | more))


def one_query(**more):
    return RankingData.from_arrays(POINTS[:, :2], POINTS[:, 2], qid=np.zeros(17, int), **more)


def test_mart_reproduces_the_worked_example():
    model = MART(n_estimators=2, learning_rate=1.0, max_leaf_nodes=2, min_samples_leaf=1).fit(one_query())
    forest = model.forest_
    assert forest.start == pytest.approx(42 / 17)
    assert forest.feature.tolist()[::3] == [0, 1]
    assert forest.threshold.tolist()[::3] == [5, 5]  # between 4 and 6
    assert forest.value[[1, 2]] == pytest.approx([13 / 9 - 42 / 17, 29 / 8 - 42 / 17], abs=1e-6)
    assert forest.value[[4, 5]] == pytest.approx([-17 / 72, 119 / 720], abs=1e-6)
    assert np.unique(model.predict(POINTS[:, :2]).round(4)).tolist() == [1.2083, 1.6097, 3.3889, 3.7903]


def test_a_stump_leaves_the_impurity_of_the_worked_example():
    tree = RegressionTree(max_leaf_nodes=2, min_samples_leaf=1).fit(one_query())
    errors = POINTS[:, 2] - tree.predict(POINTS[:, :2])
    assert np.mean(errors**2) / 2 == pytest.approx(295 / 2448, abs=1e-6)
    # The root's impurity is above 0.2, the stump's 0.1205: a limit between them stops after one cut.
    stopped = RegressionTree(max_leaf_nodes=9, min_samples_leaf=1, max_impurity=0.13).fit(one_query())
    assert len(stopped.forest_.feature) == 3


@pytest.mark.parametrize("kind", [LambdaMART, MART, Boosted])
def test_models_beat_the_best_single_feature(splits, kind):
    model = kind(n_estimators=40, max_leaf_nodes=8).fit(splits.train)
    ours = podium.evaluate(model.predict(splits.test), splits.test, metrics=["ndcg@10"])["ndcg@10"]
    single = podium.evaluate(splits.test.X[:, 0], splits.test, metrics=["ndcg@10"])["ndcg@10"]
    assert ours > single + 0.05


@pytest.mark.parametrize("name", [name for name in TREE_MODELS if name != "LambdaSMART"])
def test_saving_and_cloning_keep_every_score(name, splits, tmp_path):
    model = small(TREE_MODELS[name]).fit(splits.train)
    model.save(tmp_path / "m.podium")
    again = load(tmp_path / "m.podium")
    np.testing.assert_array_equal(again.predict(splits.test), model.predict(splits.test))
    twin = clone(model).fit(splits.train)
    twin.save(tmp_path / "twin.podium")
    assert (tmp_path / "m.podium").read_bytes() == (tmp_path / "twin.podium").read_bytes()


def test_lambdasmart_starts_from_a_base_model_and_is_saved_with_it(splits, tmp_path):
    base = small(MART).fit(splits.train)
    model = small(LambdaSMART, init=base).fit(splits.train)
    trees_alone = model.forest_.scores(splits.test.X)
    np.testing.assert_allclose(model.predict(splits.test), trees_alone + base.predict(splits.test))
    model.save(tmp_path / "m.podium")
    np.testing.assert_array_equal(load(tmp_path / "m.podium").predict(splits.test), model.predict(splits.test))
    from_scores = small(LambdaMART, init=base.predict(splits.train)).fit(splits.train)
    np.testing.assert_array_equal(from_scores.forest_.value, model.forest_.value)
    with pytest.raises(ValueError, match="init must be a model, fitted or not"):
        small(LambdaSMART).fit(splits.train)


BYTES = """
import sys
from podium.demo.letor import demo_splits
from podium.models.trees.named import LambdaMART
train = demo_splits(n_queries=80).train
model = LambdaMART(n_estimators=5, max_leaf_nodes=8, row_fraction=0.8, feature_fraction=0.5, n_jobs=int(sys.argv[1]))
model.fit(train).save(sys.argv[2])
"""


@pytest.mark.slow
def test_the_bytes_are_the_same_for_any_number_of_threads_and_any_hash_seed(tmp_path):
    found = set()
    for n_jobs in (1, 2, 4):
        path = tmp_path / f"{n_jobs}.podium"
        environment = {
            "PYTHONHASHSEED": str(n_jobs),
            "PATH": "",
            "HOME": str(tmp_path.home()),
        }
        subprocess.run([sys.executable, "-c", BYTES, str(n_jobs), str(path)], check=True, env=environment)
        found.add(path.read_bytes())
    assert len(found) == 1


def test_early_stopping_keeps_the_best_iteration_and_the_curves(splits):
    model = LambdaMART(n_estimators=60, learning_rate=0.5, max_leaf_nodes=16)
    model.fit(splits.train, eval_set=[splits.valid, splits.test], early_stopping_rounds=5)
    curve = model.evals_["eval_0"]["ndcg@10"]
    assert model.best_iteration_ == int(np.argmax(curve)) + 1
    assert len(curve) == min(60, model.best_iteration_ + 5)
    assert model.forest_.n_trees == model.best_iteration_
    assert len(model.evals_["eval_1"]["ndcg@10"]) == len(curve)
    value = podium.evaluate(model.predict(splits.valid), splits.valid, metrics=["ndcg@10"])["ndcg@10"]
    assert value == pytest.approx(max(curve), abs=1e-12)


def test_fit_more_goes_on_where_a_longer_run_would_be(splits):
    short, long = small(n_estimators=4).fit(splits.train), small(n_estimators=9).fit(splits.train)
    short.fit_more(splits.train, n_estimators=5)
    np.testing.assert_array_equal(short.forest_.value, long.forest_.value)
    np.testing.assert_array_equal(short.forest_.threshold, long.forest_.threshold)
    base = small(MART).fit(splits.train)
    short, long = small(n_estimators=4, init=base).fit(splits.train), small(n_estimators=9, init=base).fit(splits.train)
    short.fit_more(splits.train, n_estimators=5)
    np.testing.assert_array_equal(short.forest_.value, long.forest_.value)


def test_ctrl_c_keeps_the_trees_so_far(splits):
    def interrupt(progress):
        if progress.iteration == 3:
            raise KeyboardInterrupt

    model = small()
    with pytest.raises(KeyboardInterrupt, match="stopped after 3 trees; what was learned is kept"):
        model.fit(splits.train, callbacks=[interrupt])
    assert model.forest_.n_trees == 3
    assert np.isfinite(model.predict(splits.test)).all()


def test_a_callback_can_stop_the_training(splits):
    model = small().fit(splits.train, callbacks=[lambda progress: progress.iteration == 2])
    assert model.forest_.n_trees == 2


def test_rank_gives_rows_best_first_in_each_query(splits):
    model, data = small().fit(splits.train), splits.test
    order, scores = model.rank(data), model.predict(data)
    for start, end in zip(data.offsets[:-1], data.offsets[1:]):
        assert (np.diff(scores[order[start:end]]) <= 0).all()
        assert sorted(order[start:end]) == list(range(start, end))


def test_interleaved_queries_give_the_same_bytes_as_grouped_ones(splits, tmp_path):
    data = splits.train
    within = np.arange(data.n_rows) - np.repeat(data.offsets[:-1], data.group)
    mixed = np.argsort(within, kind="stable")  # the first document of every query, then the second, ...
    for name, rows in (("grouped", np.arange(data.n_rows)), ("mixed", mixed)):
        small().fit(data.X[rows], data.y[rows], qid=data.qid[rows]).save(tmp_path / name)
    assert (tmp_path / "grouped").read_bytes() == (tmp_path / "mixed").read_bytes()


def own_objective(scores, labels, offsets):
    return scores - labels, np.ones(len(labels))


@pytest.mark.parametrize("objective", [*OBJECTIVES, own_objective])
def test_trees_take_every_objective(splits, objective):
    model = small(Boosted, objective=objective, n_estimators=5).fit(splits.train)
    ours = podium.evaluate(model.predict(splits.train), splits.train, metrics=["ndcg@10"])["ndcg@10"]
    constant = podium.evaluate(np.zeros(splits.train.n_rows), splits.train, metrics=["ndcg@10"])["ndcg@10"]
    assert ours > constant + 0.1


def test_data_of_another_width_is_refused(splits):
    model = small().fit(splits.train)
    narrow = RankingData.from_arrays(splits.test.X[:, :3], splits.test.y, qid=splits.test.qid)
    with pytest.raises(ValueError, match="the data has 3 features, the model 24"):
        model.predict(narrow)
    base = small(MART).fit(narrow)
    with pytest.raises(ValueError, match="init was trained on 3 features, the training data have 24"):
        small(LambdaSMART, init=base).fit(splits.train)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"learning_rate": -1}, 'LambdaMART: learning_rate must be above 0 and at most 1,000, or "auto"; got -1'),
        ({"n_estimators": 0}, "n_estimators must be an integer from 1"),
        ({"max_leaf_nodes": 1}, "max_leaf_nodes must be an integer from 2"),
        ({"max_bins": 300}, "max_bins must be an integer from 2 to 255; got 300"),
        ({"row_fraction": 0}, "row_fraction must be above 0 and at most 1; got 0"),
        ({"growth": "leafs"}, "growth must be one of leaf, level, oblivious; got 'leafs'. Did you mean 'leaf'?"),
        ({"metric": "ndgc@10"}, "Did you mean 'ndcg@10'"),
    ],
)
def test_bad_parameters_are_named_with_what_is_allowed(splits, parameters, message):
    with pytest.raises(ValueError, match=message.replace("?", r"\?")):
        LambdaMART(**parameters).fit(splits.train)


def test_missing_query_ids_are_reported_and_score_needs_them():
    X, y = POINTS[:, :2], POINTS[:, 2]
    routed = (
        r"set_config\(enable_metadata_routing=True\).*set_fit_request\(qid=True\).*params=\{'qid': qid, 'groups': qid\}"
    )
    with pytest.warns(UserWarning, match=f"qid not given: all 17 rows are treated as one query.*{routed}"):
        model = small(min_samples_leaf=1).fit(X, y)
    with pytest.warns(UserWarning, match=f"qid not given: all 17 rows are treated as one query.*{routed}"):
        assert 0 <= model.score(X, y) <= 1
    model = small(min_samples_leaf=1).fit(X, y, qid=np.arange(17) // 9)
    with pytest.raises(ValueError, match="score needs qid"):
        model.score(X, y)
    assert 0 <= model.score(X, y, qid=np.arange(17) // 9) <= 1


def test_the_call_that_the_warning_names_routes_the_queries(splits):
    import re

    import sklearn
    from sklearn.model_selection import GroupKFold, cross_val_score

    X, y, qid = splits.train.X, splits.train.y, splits.train.qid
    model = small()
    with pytest.warns(UserWarning, match="qid not given") as told:
        small(n_estimators=1).fit(X, y)
    switch, requests, call = re.findall(r"sklearn\.\S+\)|model\.\S+\)(?=,)|cross_val_score.*\)", str(told[0].message))
    with sklearn.config_context(enable_metadata_routing=True):
        names = {"sklearn": sklearn, "model": model, "X": X, "y": y, "qid": qid}
        names |= {"GroupKFold": GroupKFold, "cross_val_score": cross_val_score}
        exec(switch, names)
        exec(requests, names)
        found = eval(call, names)
    expected = []
    for kept, left in GroupKFold().split(X, y, qid):
        fold = small().fit(X[kept], y[kept], qid=qid[kept])
        order = np.argsort(qid[left], kind="stable")
        judged = podium.evaluate(
            fold.predict(X[left][order]), y[left][order], qid=qid[left][order], metrics=["ndcg@10"]
        )
        expected.append(judged["ndcg@10"])
    np.testing.assert_allclose(found, expected)


LETOR = NDCG(5, policy=POLICIES["letor4"])


@pytest.mark.parametrize(
    ("kind", "parameters", "metric"),
    [
        (LambdaMART, {}, NDCG(10)),
        (LambdaMART, {"metric": LETOR}, LETOR),
        (LambdaMART, {"metric": LETOR, "eval_metric": "map"}, AveragePrecision()),
        (LambdaMART, {"eval_metric": "inversions"}, Inversions()),
        (Boosted, {"metric": LETOR}, LETOR),
        (Boosted, {"objective": Lambda(LETOR)}, LETOR),
        (Boosted, {"objective": Lambda("map", policy="lightgbm")}, AveragePrecision(policy=POLICIES["lightgbm"])),
        (Boosted, {"objective": "bayesrank", "metric": LETOR}, LETOR),
        (
            MART,
            {"objective": Lambda("ndcg@3", gain="linear")},
            NDCG(3, policy=POLICIES["standard"].vary(gain="linear")),
        ),
        (MART, {"objective": BayesRank(LETOR)}, LETOR),
        (MART, {}, NDCG(10)),
        (RandomForest, {"eval_metric": NDCG(5, policy=POLICIES["trec"])}, NDCG(5, policy=POLICIES["trec"])),
    ],
)
def test_one_metric_by_one_policy_trains_stops_scores_and_prunes(kind, parameters, metric, splits, tmp_path):
    """The numbers are those of the metric itself, asked query by query."""
    train, valid = (replace(part, feature_names=None) for part in (splits.train, splits.valid))
    model = small(kind, **parameters).fit(train, eval_set=valid)
    model.save(tmp_path / "m.podium")
    for one in (model, load(tmp_path / "m.podium")):
        assert one.evaluation_metric() == metric
        value = by_hand(metric, one.predict(valid), valid)
        assert one.evals_["eval_0"][metric.name][-1] == pytest.approx(value, abs=1e-9)
        sign = 1 if metric.higher_is_better else -1
        assert one.score(valid) == pytest.approx(sign * value, abs=1e-9)
        if metric.policy.ties != "docid":  # arrays have no document ids
            assert one.score(valid.X, valid.y, valid.qid) == pytest.approx(sign * value, abs=1e-9)
        assert one.prune(valid).steps[0].value == pytest.approx(value, abs=1e-9)
        result = podium.evaluate(one.predict(valid), valid, metrics=[metric])
        assert (result[metric.name], result.policy) == (pytest.approx(value, abs=1e-9), metric.policy.name)


def by_hand(metric, scores, data):
    """The mean over queries; equal scores by the rule of the policy, in plain Python."""
    values = []
    for start, end in zip(data.offsets[:-1], data.offsets[1:]):
        own, labels = scores[start:end], data.y[start:end]
        if metric.policy.ties == "docid":
            own = own.astype(np.float32)
            names = [str(name).encode() for name in np.asarray(data.docids)[start:end]]
            order = sorted(sorted(range(len(own)), key=lambda k: names[k], reverse=True), key=lambda k: -own[k])
        else:
            second = labels if metric.policy.ties == "worst" else np.arange(len(own))
            order = sorted(range(len(own)), key=lambda k: (-own[k], second[k]))
        if isinstance(metric, Inversions):
            pairs = [(i, j) for i in range(len(own)) for j in range(len(own)) if labels[i] > labels[j]]
            values.append(sum(1.0 if own[i] < own[j] else 0.5 * (own[i] == own[j]) for i, j in pairs))
        else:
            values.append(metric.value(labels[order]))
    return float(np.mean(values))


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_columns_are_checked_at_predict(splits):
    import pandas as pd

    frame = pd.DataFrame(POINTS[:, :2], columns=["a", "b"])
    model = small(min_samples_leaf=1).fit(frame, POINTS[:, 2], qid=np.zeros(17, int))
    np.testing.assert_array_equal(model.predict(frame), model.predict(frame.astype(np.float32)))
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[["b", "a"]])
    with pytest.raises(ValueError, match="expecting 2 features"):
        model.predict(POINTS)


def test_frames_of_all_kinds_give_the_same_scores():
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    columns = {"a": POINTS[:, 0], "b": POINTS[:, 1]}
    frames = [pd.DataFrame(columns), pl.DataFrame(columns), pa.table(columns)]
    qid = np.zeros(17, int)
    scores = [small(min_samples_leaf=1).fit(frame, POINTS[:, 2], qid=qid).predict(frame) for frame in frames]
    np.testing.assert_array_equal(scores[0], scores[1])
    np.testing.assert_array_equal(scores[0], scores[2])


def test_steps_of_a_leaf(rng):
    X = rng.standard_normal((300, 3))
    y = (X[:, 0] + 0.3 * rng.standard_normal(300) > 0).astype(float)
    data = RankingData.from_arrays(X, y, qid=np.arange(300) // 30)
    losses = {}
    for step in ("newton", "mean", "exact", "tree"):
        model = MART(objective="logistic", step=step, n_estimators=5, max_leaf_nodes=4, learning_rate=0.5).fit(data)
        F = model.predict(data)
        losses[step] = np.mean(np.log1p(np.exp(-2 * np.where(y >= 1, 1, -1) * F)))
    assert max(losses.values()) < np.log(2)
    assert losses["exact"] <= losses["mean"]


def test_an_evaluation_set_without_relevant_documents_is_reported_apart(splits, tmp_path):
    nothing = replace(splits.valid, y=np.zeros(splits.valid.n_rows))
    model = small(LambdaMART, eval_metric="auc").fit(splits.train, eval_set=nothing)
    assert np.isnan(model.evals_["eval_0"]["auc"]).all()
    model.save(tmp_path / "m.podium")
    assert np.isnan(load(tmp_path / "m.podium").evals_["eval_0"]["auc"]).all()
    with pytest.raises(ValueError, match="auc is undefined for all of its queries"):
        small(LambdaMART, eval_metric="auc").fit(splits.train, eval_set=nothing, early_stopping_rounds=3)


def test_scores_to_start_from_follow_the_rows_that_were_given(splits, rng):
    shuffled = rng.permutation(splits.train.n_rows)
    X, y, qid = splits.train.X[shuffled], splits.train.y[shuffled], splits.train.qid[shuffled]
    grouped = RankingData.from_arrays(X, y, qid)
    base = small(MART).fit(grouped)
    by_model = small(LambdaMART, init=base).fit(grouped)
    by_rows = small(LambdaMART, init=base.predict(grouped)).fit(grouped)
    by_arrays = small(LambdaMART, init=base.predict(X)).fit(X, y, qid=qid)
    np.testing.assert_array_equal(by_rows.forest_.value, by_model.forest_.value)
    np.testing.assert_array_equal(by_arrays.forest_.value, by_model.forest_.value)


@pytest.mark.parametrize("name", ["n_estimators", "max_leaf_nodes", "n_jobs", "random_state"])
def test_integers_are_asked_for_where_they_are_needed(splits, name):
    with pytest.raises(ValueError, match=f"{name} must be an integer.*got 2.5"):
        LambdaMART(**{name: 2.5}).fit(splits.train)


PREDICTIONS = """
import numpy as np
from podium.models.trees.named import LambdaMART
rng = np.random.default_rng(3)
X = rng.standard_normal((80, 3)).astype(np.float32)
y, qid = (X[:, 0] > 0) + (X[:, 1] > 0.5), np.arange(80) // 20
print(*LambdaMART(n_estimators=3, max_leaf_nodes=4, min_samples_leaf=5, n_jobs=1).fit(X, y, qid=qid).predict(X))
"""


@pytest.mark.slow
def test_kernels_do_the_same_when_python_runs_them():
    """Where nothing is compiled, a debugger can step through a kernel; only rounding may differ."""
    compiled, interpreted = (
        subprocess.run(
            [sys.executable, "-c", PREDICTIONS], check=True, capture_output=True, text=True, env=os.environ | more
        ).stdout.split()
        for more in ({}, {"NUMBA_DISABLE_JIT": "1"})
    )
    np.testing.assert_allclose(np.array(interpreted, float), np.array(compiled, float), rtol=1e-4)


def test_rows_may_stay_on_disk(splits, tmp_path):
    """Training reads X twice, block by block: memory-mapped rows and a data cache give the same model."""
    X = np.lib.format.open_memmap(tmp_path / "X.npy", "w+", np.float32, splits.train.X.shape)
    X[:] = splits.train.X
    X.flush()
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    podium.write_data(splits.train, tmp_path / "train.podium-data")
    cached = podium.read_data(tmp_path / "train.podium-data")
    expected = small().fit(splits.train.X, splits.train.y, qid=splits.train.qid).forest_
    for forest in (small().fit(mapped, splits.train.y, qid=splits.train.qid).forest_, small().fit(cached).forest_):
        np.testing.assert_array_equal(forest.value, expected.value)
        np.testing.assert_array_equal(forest.threshold, expected.threshold)


@pytest.mark.parametrize("features", [[0, 2], (0, 2), {0, 2}, range(0, 3, 2)])
def test_features_that_are_listed_in_any_way_are_saved(splits, tmp_path, features):
    model = LambdaMART(n_estimators=2, categorical=features, goss=np.array([0.3, 0.3])).fit(splits.train)
    model.save(tmp_path / "m.podium")
    again = load(tmp_path / "m.podium")
    assert (again.categorical, again.goss) == (features, [0.3, 0.3])
    np.testing.assert_array_equal(again.predict(splits.test), model.predict(splits.test))


@pytest.mark.parametrize(
    "kind", [Boosted, MART, podium.MatrixNet, podium.Linear, podium.Net, podium.SelfAttentionRanker]
)
def test_lambda_by_name_is_that_of_the_papers_in_every_model(kind):
    assert kind(objective="lambda").make_objective().normalize is None


def test_an_exponent_turns_off_the_normalization_unless_it_is_given(splits):
    assert LambdaMART().make_objective().normalize == "lightgbm"
    assert LambdaMART(pair_exponent=0.5).make_objective() == Lambda(pair_exponent=0.5)
    assert LambdaMART(normalize="xgboost").make_objective().normalize == "xgboost"
    with pytest.raises(ValueError, match="needs normalize=None; got 'lightgbm'"):
        small(pair_exponent=0.5, normalize="lightgbm").fit(splits.train)
