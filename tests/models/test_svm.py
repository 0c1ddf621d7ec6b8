"""RankSVM: equal to LinearSVC on explicit pairs, hard margins, weights, files, and all that the frame gives."""

import json
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from oracles import hard_margin, preference_pairs
from scipy.optimize import minimize
from sklearn.svm import LinearSVC

import podium
from podium import RankSVM, cli
from podium.data.ranking import RankingData

EXAMPLE = """3 qid:1 1:1 2:1 3:0 4:0.2 5:0
2 qid:1 1:0 2:0 3:1 4:0.1 5:1
1 qid:1 1:0 2:1 3:0 4:0.4 5:0
1 qid:1 1:0 2:0 3:1 4:0.3 5:0
1 qid:2 1:0 2:0 3:1 4:0.2 5:0
2 qid:2 1:1 2:0 3:1 4:0.4 5:0
1 qid:2 1:0 2:0 3:1 4:0.1 5:0
1 qid:2 1:0 2:0 3:1 4:0.2 5:0
2 qid:3 1:0 2:0 3:1 4:0.1 5:1
3 qid:3 1:1 2:1 3:0 4:0.3 5:0
4 qid:3 1:1 2:0 3:0 4:0.4 5:1
1 qid:3 1:0 2:1 3:1 4:0.5 5:0
"""  # the training set of SVMrank's manual


def make_lists(rng, n=240, features=6, noise=1.0):
    scales = np.array([1, 30, 0.1, 1, 5, 1])[:features]
    X = (rng.standard_normal((n, features)) * scales + 3 * scales).astype(np.float32)
    y = np.clip(np.round(X[:, 0] - 2 + X[:, 1] / 30 - 3 + noise * rng.standard_normal(n)), 0, 4)
    return X, y, np.arange(n) // 12


def differences(X, y, qid):
    pairs = np.array(preference_pairs(y, qid))
    return X[pairs[:, 0]].astype(float) - X[pairs[:, 1]].astype(float)


def cost(weights, D, C, power=1):
    return 0.5 * weights @ weights + C * (np.maximum(0, 1 - D @ weights) ** power).sum()


def svc_weights(D, C, loss):
    """The same problem for scikit-learn: every difference once as it is and once turned round, with half the price."""
    signs = np.where(np.arange(len(D)) % 2, 1.0, -1.0)
    svc = LinearSVC(C=C, loss=loss, fit_intercept=False, tol=1e-8, max_iter=200_000, dual=loss == "hinge")
    return svc.fit(D * signs[:, None], signs).coef_[0]


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("C", [1e-4, 0.01, 1.0])
def test_the_minimum_is_that_of_linear_svc_on_explicit_pairs(rng, loss, C):
    X, y, qid = make_lists(rng)
    X /= X.std(axis=0)  # scikit-learn's solver needs it
    D, power = differences(X, y, qid), 1 if loss == "hinge" else 2
    model = RankSVM(C=C, loss=loss, max_gap=1e-9).fit(X, y, qid=qid)
    theirs = svc_weights(D, C, loss)
    own, their = cost(model.coef_, D, C, power), cost(theirs, D, C, power)
    assert own == pytest.approx(model.objective_, rel=1e-9)
    assert own <= their * (1 + 1e-6)
    assert own == pytest.approx(their, rel=1e-3)
    np.testing.assert_allclose(model.coef_, theirs, atol=2e-2 * np.abs(theirs).max())


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_the_stated_gap_bounds_the_distance_to_the_minimum(rng, loss):
    X, y, qid = make_lists(rng)
    least = RankSVM(C=0.1, loss=loss, max_gap=1e-10).fit(X, y, qid=qid).objective_
    for max_gap in (0.5, 0.1, 1e-2, 1e-4, 1e-6):
        model = RankSVM(C=0.1, loss=loss, max_gap=max_gap).fit(X, y, qid=qid)
        assert model.duality_gap_ <= max_gap
        assert 0 <= model.objective_ / least - 1 <= model.duality_gap_ / (1 - model.duality_gap_) + 1e-9


def test_scalings_are_other_prices_for_the_same_problem(rng):
    X, y, qid = make_lists(rng)
    keep = np.sort(rng.permutation(240)[:230])  # lists of different lengths
    X, y, qid = X[keep], y[keep], qid[keep]
    D, queries = differences(X, y, qid), qid[[i for i, _ in preference_pairs(y, qid)]]
    counts, n_queries = np.bincount(queries), len(np.unique(qid))
    mean_pairs = RankSVM(C=20.0, scaling="mean_pairs", max_gap=1e-9).fit(X, y, qid=qid)
    same = RankSVM(C=20.0 / len(D), max_gap=1e-9).fit(X, y, qid=qid)
    np.testing.assert_allclose(mean_pairs.coef_, same.coef_, rtol=1e-3)
    model = RankSVM(C=20.0, scaling="mean_queries", max_gap=1e-9).fit(X, y, qid=qid)
    price = 20.0 / n_queries / counts[queries]
    slack = np.maximum(0, 1 - D @ model.coef_)
    assert model.objective_ == pytest.approx(0.5 * model.coef_ @ model.coef_ + price @ slack)
    weights = np.array([1 / counts[q] for q in np.unique(qid)])
    weighted = RankSVM(C=20.0 / n_queries * weights.mean(), max_gap=1e-9)  # weights are divided by their mean
    weighted.fit(X, y, qid=qid, query_weight=weights)
    np.testing.assert_allclose(model.coef_, weighted.coef_, rtol=1e-3)


def test_swapped_pairs_are_at_most_the_slack(rng):
    X, y, qid = make_lists(rng, noise=2.0)
    model = RankSVM(C=1e-3).fit(X, y, qid=qid)
    margins = differences(X, y, qid) @ model.coef_
    assert 0 < (margins <= 0).sum() <= np.maximum(0, 1 - margins).sum()


def test_document_weights_are_copies(rng):
    """Weights are divided by their mean m, and a pair has the product of two: C m^2 for them is C for the copies."""
    X, y, qid = make_lists(rng, 120)
    weights = rng.integers(0, 3, 120)
    price = 0.01 * weights[weights > 0].mean() ** 2
    one = RankSVM(C=price, max_gap=1e-9).fit(X, y, qid=qid, sample_weight=weights)
    copies = np.repeat(np.arange(120), weights)
    other = RankSVM(C=0.01, max_gap=1e-9).fit(X[copies], y[copies], qid=qid[copies])
    assert one.objective_ == pytest.approx(other.objective_)


# --- hard margins -------------------------------------------------------------------------------------------------


def test_two_documents_have_the_margin_of_their_distance():
    """w = d / |d|^2 is the shortest with w.d = 1, so the margin 1/|w| is |d| = 5."""
    model = RankSVM(C=np.inf).fit([[1, 2], [4, 6]], [0, 1], group=[2])
    np.testing.assert_allclose(model.coef_, [3 / 25, 4 / 25], rtol=1e-4)
    assert model.objective_ == pytest.approx(0.5 / 25, rel=1e-4)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_the_hard_margin_is_that_of_quadratic_programming(rng, loss):
    X, y, qid = make_lists(rng, 96, noise=0.0)
    X /= X.std(axis=0)
    y = np.digitize(X @ [1, 2, -1, 0.5, 0, 0], [8, 10]).astype(float)
    D = differences(X, y, qid)
    rule = {"type": "ineq", "fun": lambda w: D @ w - 1, "jac": lambda w: D}
    start = RankSVM(C=100.0).fit(X, y, qid=qid).coef_
    exact = minimize(lambda w: 0.5 * w @ w, start, jac=lambda w: w, constraints=rule, method="SLSQP", tol=1e-12)
    model = RankSVM(C=np.inf, loss=loss, max_gap=1e-6).fit(X, y, qid=qid)
    assert (D @ model.coef_).min() == pytest.approx(1.0)
    np.testing.assert_allclose(model.coef_, exact.x, atol=1e-2 * np.abs(exact.x).max())
    assert model.objective_ == pytest.approx(exact.fun, rel=1e-5)


@pytest.mark.parametrize("twin", [False, True])
def test_data_that_are_not_linearly_rankable_are_reported(rng, twin):
    X, y, qid = make_lists(rng, noise=0.0 if twin else 1.0)
    if twin:  # two documents that look the same, with different labels
        X, y, qid = X[:2], np.array([0.0, 1.0]), qid[:2]
        X[1] = X[0]
    with pytest.raises(ValueError, match=r"not linearly rankable, as C=inf asks for: no weights .* Set C to a number"):
        RankSVM(C=np.inf).fit(X, y, qid=qid)


def test_what_has_weight_0_does_not_make_data_unrankable():
    X, y = np.array([[0.0], [1.0], [2.0]]), [0, 1, 0]
    model = RankSVM(C=np.inf).fit(X, y, group=[3], sample_weight=[1, 1, 0])
    np.testing.assert_allclose(model.coef_, [1.0], rtol=1e-4)


def test_the_hard_margin_is_saved_and_read_from_the_command_line(tmp_path, monkeypatch, capsys):
    (tmp_path / "train.txt").write_text(EXAMPLE)
    monkeypatch.chdir(tmp_path)
    command = "train ranksvm train.txt --out m.podium --set C=inf --json"
    monkeypatch.setattr(sys, "argv", ["podium", *command.split()])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 0
    assert json.loads(capsys.readouterr().out)["model"] == "ranksvm"
    model, data = podium.load("m.podium"), podium.read_letor("train.txt")
    assert np.isinf(model.C)
    assert model.inspect().as_dict()["parameters"]["C"] == "inf"
    assert (differences(data.X, data.y, data.qid) @ model.coef_).min() >= 1 - 1e-9


# --- files --------------------------------------------------------------------------------------------------------


def test_files_of_svmrank_are_read_and_written(rng, tmp_path):
    X, y, qid = make_lists(rng)
    model = RankSVM(C=0.01).fit(X, y, qid=qid)
    model.write_svmlight(tmp_path / "model.dat")
    again = RankSVM.read_svmlight(tmp_path / "model.dat", C=0.01)
    np.testing.assert_array_equal(again.coef_, model.coef_)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    again.save(tmp_path / "m.podium")
    np.testing.assert_array_equal(podium.load(tmp_path / "m.podium").predict(X), model.predict(X))
    assert np.isnan(again.objective_)
    text = (tmp_path / "model.dat").read_text().replace("\n0 # threshold", "\n0.5 # threshold")
    (tmp_path / "model.dat").write_text(text.replace("\n0 # kernel type", "\n2 # kernel type"))
    with pytest.raises(ValueError, match=r"RankSVM has a linear kernel, this file a gaussian one\. Use KernelRankSVM"):
        RankSVM.read_svmlight(tmp_path / "model.dat")
    (tmp_path / "model.dat").write_text(text)
    np.testing.assert_allclose(RankSVM.read_svmlight(tmp_path / "model.dat").predict(X), model.predict(X) - 0.5)


# --- the frame ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def parts(splits):
    return [RankingData.from_arrays(np.nan_to_num(part.X), part.y, part.qid) for part in (splits.train, splits.valid)]


def test_it_learns_to_rank_and_says_what_it_is_made_of(parts):
    train, valid = parts
    model = RankSVM(C=0.01, eval_metric="map").fit(train, eval_set=valid)
    constant = podium.evaluate(np.zeros(valid.n_rows), valid, metrics=["map"])["map"]
    assert model.score(valid) > constant + 0.1
    assert "largest weights" in str(model.inspect())
    found = podium.explain.shap_values(model, valid)
    np.testing.assert_allclose(found.base + found.values.sum(axis=1), model.predict(valid), atol=1e-6)


@pytest.mark.parametrize("settings", [{}, {"loss": "squared_hinge"}, {"C": np.inf}])
def test_a_killed_training_ends_in_the_same_bytes(rng, tmp_path, settings):
    class Killed(Exception):
        pass

    def kill(progress):
        if progress.iteration == 3:
            raise Killed

    X, y, qid = make_lists(rng)
    y = np.digitize(X[:, 0], [2, 3, 4]).astype(float) if "C" in settings else y
    options = {"qid": qid, "eval_set": (X, y, qid)}
    RankSVM(max_gap=1e-8, **settings).fit(X, y, **options).save(tmp_path / "whole.podium")
    kept = {"checkpoint": tmp_path / "run.check", "every": 1}
    with pytest.raises(Killed):
        RankSVM(max_gap=1e-8, **settings).fit(X, y, **options, **kept, callbacks=[kill])
    RankSVM(max_gap=1e-8, **settings).fit(X, y, **options, **kept).save(tmp_path / "resumed.podium")
    assert (tmp_path / "whole.podium").read_bytes() == (tmp_path / "resumed.podium").read_bytes()


def test_the_same_bytes_for_any_number_of_threads(rng, tmp_path):
    X, y, _ = make_lists(rng, 70_000)
    for n_jobs in (1, 2):
        model = RankSVM(C=1e-3, max_gap=1e-3, n_jobs=n_jobs).fit(X, y, qid=np.arange(70_000) // 20)
        model.save(tmp_path / f"{n_jobs}.podium")
    assert (tmp_path / "1.podium").read_bytes() == (tmp_path / "2.podium").read_bytes()


def test_a_training_that_stops_early_is_warned_of(rng):
    X, y, qid = make_lists(rng)
    with pytest.warns(UserWarning, match="RankSVM stopped after 2 rounds") as caught:
        model = RankSVM(max_iter=2).fit(X, y, qid=qid)
    excess = f"the objective is at most {1 / (1 - model.duality_gap_):.3g} times its minimum"
    advice = 'Scale the features, for example by transform=("standard",), or lower C; or raise max_iter.'
    assert str(caught[0].message) == (
        f"RankSVM stopped after 2 rounds at a duality gap of {model.duality_gap_:.1g} ({excess}); "
        f"max_gap is 0.0001. {advice}"
    )


def separable_lists(seed):
    """A few short queries that some weights rank without an error; half of them with features of different scales."""
    rng = np.random.default_rng(seed)
    n, features = int(rng.integers(8, 60)), int(rng.integers(2, 8))
    X = rng.normal(size=(n, features))
    X = (X * 10.0 ** rng.uniform(-2, 2, features) if seed % 2 else X).astype(np.float32)
    scores = X @ (rng.normal(size=features) / X.std(axis=0))
    y = np.digitize(scores, np.quantile(scores, [0.3, 0.6, 0.8][: 1 + seed % 3]))
    return X, y, np.arange(n) // 10


@pytest.mark.parametrize("C", [1e5, 1e8, 1e12])
def test_a_large_price_ends_near_the_hard_margin_that_an_active_set_method_finds(C):
    excess = []
    for seed in range(60):
        X, y, qid = separable_lists(seed)
        D = differences(X, y, qid)
        weights, multipliers = hard_margin(D)
        assert (D @ weights).min() == pytest.approx(1, abs=1e-6)
        model = RankSVM(C=C).fit(X, y, qid=qid)
        if multipliers.max() <= C:  # otherwise some slack is cheaper
            excess.append(model.objective_ / (0.5 * weights @ weights))
            assert cost(model.coef_, D, C) < model.objective_ + 1e-12 * C  # rounding of margins of 1
    assert len(excess) > 50
    assert 1 - 1e-6 < min(excess) <= max(excess) < 1.0002


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("C", [1e3, 1e6, 1e9])
def test_a_large_price_ends_by_itself_within_the_gap(C, loss):
    for seed in range(60):
        model = RankSVM(C=C, loss=loss).fit(*separable_lists(seed))
        assert model.duality_gap_ <= 1e-4
        assert model.best_iteration_ < 200


def test_a_large_price_of_data_that_are_not_separable_has_the_minimum_of_a_small_one_scaled(rng):
    """X times 1e3 with the price C is X with the price 1e6 C: w' = w / 1e3, and the objective is 1e6 times smaller."""
    X, y, qid = make_lists(rng, 120, noise=2.0)
    small, large = RankSVM(C=1.0, max_gap=1e-6), RankSVM(C=1e6, max_gap=1e-6)
    least = large.fit(X / np.float32(1024), y, qid=qid).objective_
    assert least / 1024**2 == pytest.approx(small.set_params(C=1e6 / 1024**2).fit(X, y, qid=qid).objective_, rel=1e-5)


def test_where_no_step_helps_any_more_the_warning_does_not_advise_more_rounds():
    learner = SimpleNamespace(solution=SimpleNamespace(gap=0.5), is_done=True, n_steps=70, is_hard=False)
    with pytest.warns(UserWarning, match=r"after 70 rounds at a duality gap of 0\.5 \(.* 2 times .* or lower C\.$"):
        RankSVM().training_plan().explain(learner, 70)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"C": 0}, "C must be above 0, or inf for a hard margin; got 0"),
        ({"C": np.nan}, "C must be above 0"),
        ({"C": "1"}, "C must be above 0"),
        ({"C": True}, "C must be above 0"),
        ({"loss": "log"}, "loss must be one of hinge, squared_hinge"),
        ({"scaling": "mean"}, "scaling must be one of pairs, mean_pairs, mean_queries"),
        ({"eval_metric": "x"}, "x"),
    ],
)
def test_parameters_out_of_range_are_refused(rng, wrong, message):
    X, y, qid = make_lists(rng)
    with pytest.raises(ValueError, match=message):
        RankSVM(**wrong).fit(X, y, qid=qid)


# --- real data ----------------------------------------------------------------------------------------------------


def test_mq2008_with_the_prices_of_the_published_table(real_data):
    """C of fold 5 is 0.5 in SVMrank's scale; SVMrank reached MAP 0.4950 and MeanNDCG 0.5159."""
    parts = [podium.read_letor(real_data / "MQ2008" / f"S{k}.txt.xz") for k in (5, 1, 2, 4)]
    train = RankingData.concat(parts[:3])
    model = RankSVM(C=0.5 / train.n_queries).fit(train)
    found = podium.evaluate(model.predict(parts[3]), parts[3], metrics=["map", "meanndcg"], policy="letor4")
    assert found["map"] == pytest.approx(0.4950, abs=0.003)
    assert found["meanndcg"] == pytest.approx(0.5159, abs=0.003)
