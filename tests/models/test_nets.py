"""Nets have everything from the frame: early stopping, checkpoints, files, base models, the command line."""

import io
import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from families import NETS
from sklearn.base import clone

import podium
from podium import cli
from podium.models.registry import plan_model


def saved(model):
    file = io.BytesIO()
    model.save(file)
    return file.getvalue()


@pytest.mark.parametrize("name", NETS)
def test_every_net_learns_to_rank_and_comes_back_from_its_file(splits, name):
    model = NETS[name](max_epochs=25, learning_rate=5e-3).fit(splits.train, eval_set=splits.valid)
    constant = podium.evaluate(np.zeros(splits.test.n_rows), splits.test, metrics=["ndcg@10"])["ndcg@10"]
    assert model.score(splits.test) > constant + 0.1
    loaded = podium.load(io.BytesIO(saved(model)))
    np.testing.assert_array_equal(loaded.predict(splits.test), model.predict(splits.test))
    assert saved(loaded) == saved(model)
    assert f"{name}: 24 features" in str(loaded.inspect())
    np.testing.assert_allclose(model.scorer()(splits.test.X), model.predict(splits.test), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("objective", [*podium.objectives.OBJECTIVES, "custom"])
def test_any_objective_trains_a_net(splits, objective):
    def squared(scores, labels, offsets):
        return scores - labels, np.ones(len(labels))

    given = squared if objective == "custom" else objective
    model = podium.Net(objective=given, max_epochs=15, learning_rate=5e-3).fit(splits.train)
    constant = podium.evaluate(np.zeros(splits.test.n_rows), splits.test, metrics=["ndcg@10"])["ndcg@10"]
    assert model.score(splits.test) > constant + 0.05


def test_early_stopping_keeps_the_best_epoch(splits):
    model = podium.RankNet(max_epochs=200, learning_rate=0.02)
    model.fit(splits.train, eval_set=splits.valid, early_stopping_rounds=10)
    curve = model.evals_["eval_0"]["ndcg@10"]
    assert model.best_iteration_ == 1 + int(np.argmax(curve))
    assert len(curve) == model.best_iteration_ + 10
    assert model.score(splits.valid) == max(curve)
    longer = podium.RankNet(max_epochs=40, learning_rate=0.02)
    longer.fit(splits.train, eval_set=splits.valid, early_stopping_rounds=1000)
    assert len(longer.evals_["eval_0"]["ndcg@10"]) == 40


def test_without_early_stopping_an_evaluation_set_only_watches(splits):
    made = [podium.RankNet(max_epochs=15, learning_rate=0.02, schedule="linear") for _ in range(2)]
    watched = made[0].fit(splits.train, eval_set=splits.valid, early_stopping_rounds=False)
    alone = made[1].fit(splits.train)
    assert len(watched.evals_["eval_0"]["ndcg@10"]) == watched.best_iteration_ == 15
    np.testing.assert_array_equal(watched.predict(splits.test), alone.predict(splits.test))
    given = {"eval_set": splits.valid, "early_stopping_rounds": False}
    blend = podium.Blend([podium.RankNet(max_epochs=15, learning_rate=0.02)]).fit(splits.train, **given)
    assert blend.members_[0].best_iteration_ == 15


PLAIN = {"optimizer": "sgd", "momentum": 0, "schedule": "constant", "weight_decay": 0.0, "dropout": 0.0}


def one_step_of_plain_sgd(update):
    """Weights of z = -1 and 1 before and after one step of rate 0.5, where the second document is the better one."""
    given = {"hidden_layer_sizes": [], "activation": "identity", "max_epochs": 1, "update": update}
    made = [podium.RankNet(**PLAIN, **given, learning_rate=rate) for rate in (1e-12, 0.5)]
    return [model.fit([[1.0], [3.0]], [0, 1], [7, 7]).net_.weights[0, 0] for model in made]


@pytest.mark.parametrize("update", ["batch", "pair"])
def test_a_step_of_plain_sgd_is_the_rate_times_the_gradient(update):
    before, after = one_step_of_plain_sgd(update)
    # dC/dw = lambda (z_i - z_j) with lambda = -1 / (1 + exp(2 w)) for the better document i
    assert after == pytest.approx(before + 0.5 * 2 / (1 + np.exp(2 * before)), rel=1e-5)


def test_momentum_is_checked_saved_cloned_and_read_from_text(splits, tmp_path):
    model = podium.RankNet(**PLAIN, max_epochs=2, learning_rate=1e-3).fit(splits.train)
    model.save(tmp_path / "m.podium")
    again = podium.load(tmp_path / "m.podium")
    assert (again.momentum, clone(again).momentum) == (0, 0)
    np.testing.assert_array_equal(again.predict(splits.test), model.predict(splits.test))
    assert plan_model("ranknet", ["optimizer=sgd", "momentum=0"]).model.momentum == 0.0
    for wrong in (-0.1, 1.0, float("nan"), None):
        with pytest.raises(ValueError, match=r"RankNet: momentum must be from 0 to 0\.999"):
            podium.RankNet(momentum=wrong).fit(splits.train)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"objective": "xendcg", "n_nets": 2, "dropout": 0.2, "optimizer": "sgd", "learning_rate": 1e-3},
        {"n_nets": 2, "learning_rate": 1e-3, **PLAIN},
    ],
)
def test_a_killed_training_ends_in_the_same_bytes(splits, tmp_path, options):
    class Killed(Exception):
        pass

    def kill(progress):
        if progress.iteration == 9:
            raise Killed

    make = lambda: podium.Net(**{"max_epochs": 16, "batch_size": 300, "schedule": "linear"} | options)  # noqa: E731
    watched = {"eval_set": splits.valid, "early_stopping_rounds": 8}
    whole = saved(make().fit(splits.train, **watched))
    kept = {"checkpoint": tmp_path / "run.check", "every": 4}
    with pytest.raises(Killed):
        make().fit(splits.train, **watched, **kept, callbacks=[kill])
    assert saved(make().fit(splits.train, **watched, **kept)) == whole


def test_the_same_bytes_for_a_seed_and_any_number_of_threads(splits):
    first = saved(podium.LambdaRank(max_epochs=4, n_jobs=1).fit(splits.train))
    assert saved(podium.LambdaRank(max_epochs=4, n_jobs=2).fit(splits.train)) == first
    assert saved(podium.LambdaRank(max_epochs=4, random_state=1).fit(splits.train)) != first


def test_the_order_of_rows_does_not_matter(splits, rng):
    train = splits.train
    order = np.argsort(rng.random(train.n_rows), kind="stable")
    qid = np.asarray(train.qid)
    by_query = np.concatenate([order[qid[order] == q] for q in dict.fromkeys(qid)])
    plain = {"max_epochs": 3, "dropout": 0.0, "learning_rate": 1e-3}  # whose units are dropped depends on the order
    model = podium.RankNet(**plain).fit(train.X, train.y, qid)
    other = podium.RankNet(**plain).fit(train.X[by_query], train.y[by_query], qid[by_query])
    X = splits.test.X
    np.testing.assert_allclose(model.predict(X), other.predict(X), rtol=1e-3, atol=1e-3)


def test_the_bias_of_scores_stays_where_only_differences_count(splits):
    assert podium.RankNet(max_epochs=3).fit(splits.train).net_.weights[0, -1] == 0.0
    start = podium.Net(objective="squared", max_epochs=1, learning_rate=1e-12).fit(splits.train).net_.weights[0, -1]
    assert start == pytest.approx(splits.train.y.mean(), abs=1e-5)
    assert podium.Net(objective="squared", max_epochs=3).fit(splits.train).net_.weights[0, -1] != start


def test_a_net_adds_to_the_scores_of_its_base_model_and_can_be_one(splits, tmp_path):
    train, test = splits.train, splits.test
    base = podium.LambdaMART(n_estimators=10).fit(train)
    model = podium.LambdaRank(max_epochs=5, init=base).fit(train, eval_set=splits.valid, early_stopping_rounds=99)
    np.testing.assert_allclose(model.predict(test), base.predict(test) + model.net_.scores(test.X), rtol=1e-12)
    assert model.score(splits.valid) == max(model.evals_["eval_0"]["ndcg@10"])
    model.save(tmp_path / "m.podium")
    loaded = podium.load(tmp_path / "m.podium")
    np.testing.assert_array_equal(loaded.predict(test), model.predict(test))
    given = podium.LambdaRank(max_epochs=5, init=base.predict(train)).fit(train)
    plain = podium.LambdaRank(max_epochs=5).fit(train)
    assert np.abs(given.predict(test) - plain.predict(test)).max() > 0.01
    trees = podium.LambdaSMART(n_estimators=5, init=podium.RankNet(max_epochs=5).fit(train)).fit(train)
    trees.save(tmp_path / "t.podium")
    np.testing.assert_array_equal(podium.load(tmp_path / "t.podium").predict(test), trees.predict(test))
    with pytest.raises(ValueError, match="init was trained on 24 features, the training data have 3"):
        podium.RankNet(init=base).fit(train.X[:, :3], train.y, train.qid)


def test_loading_and_scoring_need_no_jax_and_training_says_how_to_get_it(splits, tmp_path):
    train = splits.train
    podium.RankNet(max_epochs=2).fit(train.X, train.y, train.qid).save(tmp_path / "m.podium")
    np.save(tmp_path / "X.npy", splits.test.X)
    code = (
        "import sys\n"
        "class Blocked:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.split('.')[0] in ('jax', 'jaxlib', 'optax'): raise ImportError(name)\n"
        "sys.meta_path.insert(0, Blocked())\n"
        "import numpy as np, podium\n"
        "X = np.load('X.npy')\n"
        "print(podium.load('m.podium').predict(X).sum())\n"
        "try:\n"
        "    podium.RankNet().fit(np.nan_to_num(X), np.arange(len(X)) % 3, group=[len(X)])\n"
        "except ImportError as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=True)
    total, message = done.stdout.splitlines()
    assert float(total) == podium.load(tmp_path / "m.podium").predict(splits.test.X).sum()
    assert message == 'Training RankNet needs JAX. Install it with: pip install "podium[neural]"'


def test_sparse_rows_are_refused_with_what_to_do():
    from scipy.sparse import csr_array

    with pytest.raises(ValueError, match=r"RankNet does not support sparse rows .* Use X\.toarray\(\)"):
        podium.RankNet().fit(csr_array(np.eye(4)), [0, 1, 0, 1], group=[4])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"weights": np.zeros((1, 3), np.float32)}, "weights must have shape"),
        ({"weights": np.full((1, 57), np.nan, np.float32)}, "not finite"),
        ({"scale": np.zeros(12)}, "scale must be above 0"),
        ({"centre": np.zeros(5)}, "centre must have one finite float64 number per feature"),
        ({"flagged": np.array([99])}, "flagged names a feature that is not there"),
    ],
)
def test_a_crafted_file_is_refused(rng, change, message):
    X = rng.standard_normal((20, 12)).astype(np.float32)
    model = podium.RankNet(max_epochs=1, hidden_layer_sizes=[4]).fit(X, np.arange(20) % 2, group=[20])
    assert model.net_.weights.shape == (1, 57)
    state = model.fitted_state()
    model.restore_state(replace(state, arrays={**state.arrays, **change}))
    with pytest.raises(ValueError, match=message):
        model.save(io.BytesIO())


def test_the_command_line_trains_one(splits, tmp_path, monkeypatch, capsys):
    for name, part in (("train", splits.train), ("valid", splits.valid)):
        plain = podium.RankingData.from_arrays(np.nan_to_num(part.X), part.y, part.qid)
        podium.write_letor(plain, tmp_path / f"{name}.txt")
    monkeypatch.chdir(tmp_path)
    settings = "--set max_epochs=4 --set hidden_layer_sizes=[8,4]"
    monkeypatch.setattr(
        sys, "argv", f"podium train ranknet train.txt --valid valid.txt --out m.podium {settings} --json".split()
    )
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 0
    found = json.loads(capsys.readouterr().out)
    assert found["model"] == "ranknet"
    assert 1 <= found["epochs"] <= 4
    assert podium.load("m.podium").net_.shape.hidden == (8, 4)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"hidden_layer_sizes": [0]}, r"hidden_layer_sizes must be a list of integers .*; got \[0\]"),
        ({"hidden_layer_sizes": 64}, "hidden_layer_sizes must be a list"),
        ({"activation": "Relu"}, "Did you mean 'relu'"),
        ({"dropout": 1.0}, "dropout must be from 0 to 0.95"),
        ({"gradient_clipping": 0}, "gradient_clipping must be above 0"),
    ],
)
def test_parameters_out_of_range_are_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        podium.RankNet(**wrong).fit(np.eye(4), [0, 1, 0, 1], group=[4])


@pytest.mark.parametrize("derivatives", ["host", "device"])
@pytest.mark.parametrize("name", [*NETS, "SelfAttentionRanker"])
def test_a_query_may_be_longer_than_a_batch(name, derivatives, rng):
    lengths = [3, 40, 5]
    X, y = rng.standard_normal((48, 3)).astype(np.float32), rng.integers(0, 3, 48)
    made = getattr(podium, name)(batch_size=10, max_epochs=3, derivatives=derivatives)
    model = made.fit(X, y, group=lengths)
    assert np.isfinite(model.net_.weights).all()
    assert np.isfinite(model.predict(X, np.repeat(np.arange(3), lengths))).all()
