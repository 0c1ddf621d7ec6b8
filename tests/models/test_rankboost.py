"""RankBoost as a model: early stopping, checkpoints, files, threads, weights, the command line, explanations."""

import io
import itertools
import json
import sys

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.utils.estimator_checks import check_estimator

import podium
from podium import RankBoost, cli
from podium.data.ranking import RankingData

CASES = [
    {"weak_ranker": kind, "selection": selection, "alpha": alpha}
    for kind, selection, alpha in itertools.product(("threshold", "value"), ("r", "z"), ("search", "closed", "bound"))
    if (kind, alpha) != ("value", "closed")
]
IDS = ["-".join(case.values()) for case in CASES]


@pytest.fixture(scope="module")
def parts(splits):
    return splits.train, splits.valid, splits.test


def bytes_of(model):
    file = io.BytesIO()
    model.save(file)
    return file.getvalue()


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_every_kind_learns_to_rank_and_survives_saving(parts, case):
    train, _, test = parts
    model = RankBoost(n_estimators=20, **case).fit(train)
    constant = podium.evaluate(np.zeros(test.n_rows), test, metrics=["ndcg@10"])["ndcg@10"]
    assert model.score(test) > constant + 0.1
    loaded = podium.load(io.BytesIO(bytes_of(model)))
    np.testing.assert_array_equal(loaded.predict(test), model.predict(test))
    assert loaded.bound_ == model.bound_ < 1
    np.testing.assert_allclose(model.scorer()(test.X), model.predict(test), rtol=1e-6)


@pytest.mark.parametrize("case", CASES[:2] + CASES[6:7], ids=IDS[:2] + IDS[6:7])
def test_the_bound_holds_on_the_training_pairs(parts, case):
    """Shares of pairs out of order, counted query by query with all pairs written out."""
    data = parts[0].grouped()
    model = RankBoost(n_estimators=40, **case).fit(data)
    scores, wrong, all_pairs = model.predict(data), 0, 0
    for first, last in itertools.pairwise(data.offsets):
        better = data.y[first:last, None] > data.y[None, first:last]
        wrong += int((better & (scores[first:last, None] <= scores[None, first:last])).sum())
        all_pairs += int(better.sum())
    assert 0 < wrong / all_pairs <= model.bound_
    assert model.bound_ == pytest.approx(np.prod(model.rankers_.z))


def test_early_stopping_keeps_the_best_round(parts):
    train, valid, _ = parts
    model = RankBoost(n_estimators=60).fit(train, eval_set=valid, early_stopping_rounds=8)
    curve = model.evals_["eval_0"]["ndcg@10"]
    assert model.best_iteration_ == len(model.rankers_) == 1 + int(np.argmax(curve))
    assert model.score(valid) == max(curve)


@pytest.mark.parametrize("case", CASES[::3], ids=IDS[::3])
def test_a_killed_training_ends_in_the_same_bytes(parts, tmp_path, case):
    class Killed(Exception):
        pass

    def kill(progress):
        if progress.iteration == 9:
            raise Killed

    train, valid, _ = parts
    options = {"eval_set": valid, "early_stopping_rounds": 8}
    whole = RankBoost(n_estimators=20, **case).fit(train, **options)
    kept = {"checkpoint": tmp_path / "run.check", "every": 4}
    with pytest.raises(Killed):
        RankBoost(n_estimators=20, **case).fit(train, **options, **kept, callbacks=[kill])
    resumed = RankBoost(n_estimators=20, **case).fit(train, **options, **kept)
    assert bytes_of(whole) == bytes_of(resumed)


@pytest.mark.parametrize("case", CASES[::3], ids=IDS[::3])
def test_the_same_bytes_for_any_number_of_threads(rng, case):
    """More rows than one thread is given, and more features than one block."""
    n = 70_000 if case["selection"] == "r" else 66_000
    X = rng.standard_normal((n, 18 if case["selection"] == "r" else 9)).astype(np.float32)
    X[rng.random(n) < 0.1, 3] = np.nan
    y = np.clip(np.round(X[:, 0] + X[:, 8] + rng.standard_normal(n)), 0, 2)
    found = {
        bytes_of(RankBoost(n_estimators=3, n_jobs=jobs, **case).fit(X, y, qid=np.arange(n) // 50)) for jobs in (1, 3)
    }
    assert len(found) == 1


def test_the_order_of_rows_and_of_queries_is_immaterial(rng):
    """Sums of histograms are exact."""
    X, qid = rng.standard_normal((400, 5)).astype(np.float32), np.arange(400) // 20
    y = np.clip(np.round(X[:, 0] + rng.standard_normal(400)), 0, 3)
    order = rng.permutation(400)
    model, other = (
        RankBoost(n_estimators=15).fit(X, y, qid),
        RankBoost(n_estimators=15).fit(X[order], y[order], qid[order]),
    )
    np.testing.assert_allclose(other.predict(X), model.predict(X), rtol=1e-9)


def test_weights_of_documents_and_queries_are_repetitions(rng):
    """A document of weight 2 is two documents; a query of weight 2 is two queries; of weight 0, none."""
    X, qid = rng.standard_normal((120, 3)).astype(np.float32), np.arange(120) // 12
    y = np.clip(np.round(X[:, 0] + rng.standard_normal(120)), 0, 2)
    weight = rng.integers(1, 3, 120)
    rows = np.repeat(np.arange(120), weight)
    weighted = RankBoost(n_estimators=10).fit(X, y, qid, sample_weight=weight.astype(float))
    repeated = RankBoost(n_estimators=10).fit(X[rows], y[rows], qid[rows])
    np.testing.assert_allclose(weighted.predict(X), repeated.predict(X), rtol=1e-9)
    assert weighted.bound_ == pytest.approx(repeated.bound_)
    query_weight = np.array([2.0, 1, 0, 1, 2, 1, 1, 2, 0, 1])
    weighted = RankBoost(n_estimators=10).fit(X, y, qid, query_weight=query_weight)
    rows = np.flatnonzero(np.repeat(query_weight, 12))
    twice = np.flatnonzero(np.repeat(query_weight, 12) == 2)
    more = np.concatenate([rows, twice])
    ids = np.concatenate([qid[rows], qid[twice] + 100])
    repeated = RankBoost(n_estimators=10).fit(X[more], y[more], ids)
    assert weighted.bound_ == pytest.approx(repeated.bound_)
    np.testing.assert_allclose(weighted.predict(X[rows]), repeated.predict(X[rows]), rtol=1e-9)


def test_what_is_not_supported_is_refused_with_what_to_do(parts):
    with pytest.raises(ValueError, match=r'alpha="closed" is the minimum .* Use alpha="search" or alpha="bound"'):
        RankBoost(weak_ranker="value", alpha="closed").fit(parts[0])
    with pytest.raises(ValueError, match="RankBoost does not support sparse rows"):
        RankBoost().fit(csr_array(np.eye(4)), [0, 1, 0, 1], group=[4])
    with pytest.raises(ValueError, match="max_alpha must be above 0"):
        RankBoost(max_alpha=0).fit(parts[0])
    with pytest.raises(ValueError, match="alpha must be one of search, closed, bound; got 'serch'"):
        RankBoost(alpha="serch").fit(parts[0])


def test_labels_that_are_all_equal_give_a_constant_model(rng):
    X = rng.standard_normal((20, 2)).astype(np.float32)
    with pytest.warns(UserWarning, match="0 of 1 queries have two different labels"):
        model = RankBoost().fit(X, np.ones(20), group=[20])
    assert (len(model.rankers_), model.bound_) == (0, 1.0)
    assert model.predict(X).tolist() == [0.0] * 20
    assert "rounds: 0" in str(model.inspect())


def test_it_says_what_it_is_made_of(rng):
    X = rng.standard_normal((200, 3)).astype(np.float32)
    y = np.round(np.abs(X[:, 0]) + (np.arange(200) % 7 == 0))
    X[::7, 1] = np.nan
    data = RankingData.from_arrays(X, y, np.arange(200) // 10, feature_names=["a", "b", "c"])
    model = RankBoost(n_estimators=25).fit(data)
    found = model.inspect()
    assert found.bound == model.bound_
    assert len(found.rounds) == 25
    assert f"bound of the share of training pairs out of order: {model.bound_:.6g}" in str(found)
    assert found.rounds[0]["weak_ranker"].startswith("a > ")
    assert json.loads(json.dumps(found.as_dict()))["rounds"][3]["z"] == model.rankers_.z[3]
    assert model.feature_importances_.sum() == pytest.approx(1.0)
    assert model.feature_importances_.argmax() == 0
    assert any("or missing" in one["weak_ranker"] or "is there" in one["weak_ranker"] for one in found.rounds)


@pytest.mark.parametrize(
    ("name", "edit", "words"),
    [
        ("feature", lambda a: np.full_like(a, 99), "a feature that is not one of"),
        ("feature", lambda a: a.astype(np.int64), "feature must have dtype uint32"),
        ("alpha", lambda a: a * np.inf, "alpha must be finite"),
        ("alpha", lambda a: a[1:], "one number per round"),
        ("z", lambda a: a * 0, "z must be above 0"),
        ("low", lambda a: a * np.float32(np.nan), "must be numbers, in this order"),
        ("high", lambda a: a + np.float32(np.inf), "must be numbers, in this order"),
        ("default", lambda a: a + np.uint8(7), "the default 0 or 1"),
    ],
)
def test_a_file_that_no_training_made_is_refused(parts, name, edit, words):
    model = RankBoost(n_estimators=4).fit(parts[0])
    object.__setattr__(model.rankers_, name, edit(getattr(model.rankers_, name)))
    with pytest.raises(ValueError, match=words):
        model.save(io.BytesIO())


def test_the_command_line_trains_it(parts, tmp_path, monkeypatch, capsys):
    for name, part in zip(("train", "valid"), parts):
        podium.write_letor(RankingData.from_arrays(part.X, part.y, part.qid), tmp_path / f"{name}.txt")
    monkeypatch.chdir(tmp_path)
    command = (
        "train rankboost train.txt --valid valid.txt --out m.podium --set n_estimators=10 --set alpha=bound --json"
    )
    monkeypatch.setattr(sys, "argv", ["podium", *command.split()])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["model"], found["rounds"]) == ("rankboost", 10)
    model = podium.load("m.podium")
    assert isinstance(model, RankBoost)
    for more, expected in (("", 0), ("--tree 1", 2)):
        monkeypatch.setattr(sys, "argv", ["podium", "inspect", "m.podium", *more.split()])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        assert ended.value.code == expected
    shown = capsys.readouterr()
    assert shown.out.strip() == str(model.inspect())
    assert "--tree 1: RankBoost has no trees" in shown.err


@pytest.mark.filterwarnings("ignore:qid not given", "ignore:0 of", "ignore:.*does not inherit from `sklearn.base")
@pytest.mark.parametrize("kind", ["threshold", "value"])
def test_scikit_learn_finds_nothing_to_complain_about(kind):
    check_estimator(RankBoost(n_estimators=5, weak_ranker=kind), on_skip=None)
