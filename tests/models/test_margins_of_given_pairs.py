"""RankSVM, KernelRankSVM and RankBoost on given pairs: the same laws for all three, and numbers that can be redone."""

import io
import itertools
import math

import numpy as np
import pytest
from oracles import preference_pairs
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.svm import LinearSVC

import podium
from podium import KernelRankSVM, RankBoost, RankSVM
from podium.data.ranking import RankingData

EXACT = {"max_gap": 1e-9}
MODELS = {
    "hinge": lambda **more: RankSVM(C=0.1, **EXACT, **more),
    "squared hinge": lambda **more: RankSVM(C=1.0, loss="squared_hinge", **EXACT, **more),
    "mean of pairs": lambda **more: RankSVM(C=5.0, scaling="mean_pairs", **EXACT, **more),
    "mean of queries": lambda **more: RankSVM(C=5.0, scaling="mean_queries", **EXACT, **more),
    "kernel": lambda **more: KernelRankSVM(C=0.1, gamma=0.3, **EXACT, **more),
    "landmarks": lambda **more: KernelRankSVM(C=0.1, gamma=0.3, n_landmarks=20, **EXACT, **more),
    "thresholds": lambda **more: RankBoost(n_estimators=12, **more),
    "thresholds by z": lambda **more: RankBoost(n_estimators=12, selection="z", alpha="closed", **more),
    "values": lambda **more: RankBoost(n_estimators=12, weak_ranker="value", alpha="bound", **more),
    "values by z": lambda **more: RankBoost(n_estimators=6, weak_ranker="value", selection="z", **more),
}
BY_SUM = ("hinge", "squared hinge", "kernel", "landmarks")  # C multiplies a sum, so it grows with the weights
every_model = pytest.mark.parametrize("name", MODELS)


def make_lists(rng, n=90, features=4):
    """Rows of queries of different lengths, interleaved."""
    X = rng.standard_normal((n, features)).astype(np.float32)
    qid = rng.permutation(np.minimum(np.arange(n) // 10, 6))
    y = np.clip(np.round(X[:, 0] - X[:, 1] + 1 + rng.standard_normal(n)), 0, 3)
    y[qid == 2] = 1.0  # a query without pairs
    return X, y, qid


def random_pairs(rng, qid, number=150):
    """Any two documents of a query: repeated pairs, cycles, contradictions."""
    pairs = [(i, j) for i in range(len(qid)) for j in range(len(qid)) if i != j and qid[i] == qid[j]]
    chosen = np.array(pairs)[rng.integers(0, len(pairs), number)]
    return chosen[:, 0], chosen[:, 1]


def bytes_of(model):
    file = io.BytesIO()
    model.save(file)
    return file.getvalue()


def assert_same(one, other, X, qid, tolerance=1e-4):
    """The same function to rounding, or, of margins, to what is left of the duality gap."""
    expected, found = one.predict(X, qid=qid), other.predict(X, qid=qid)
    size = 1e-9 if isinstance(one, RankBoost) else tolerance
    np.testing.assert_allclose(found, expected, atol=size * np.abs(expected).max())
    if isinstance(one, RankBoost):
        assert other.bound_ == pytest.approx(one.bound_)
    else:
        assert other.objective_ == pytest.approx(one.objective_, rel=1e-7)


@every_model
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("transform", [None, ("zscore",)])
def test_the_pairs_of_labels_are_the_labels(rng, name, weighted, transform):
    """Half of the pairs are given the other way round, with the probability 0."""
    X, y, qid = make_lists(rng)
    options = {"qid": qid}
    if weighted:
        query_weight = rng.choice([0.0, 0.5, 2.0], 7) + (np.arange(7) == 0)
        options |= {"sample_weight": rng.choice([0.0, 1.0, 2.0], len(X)), "query_weight": query_weight}
    pairs = np.array(preference_pairs(y, qid))
    pairs = pairs[rng.permutation(len(pairs))]
    turned = rng.random(len(pairs)) < 0.5
    pairs[turned] = pairs[turned][:, ::-1]
    by_labels = MODELS[name](transform=transform).fit(X, y, **options)
    by_pairs = MODELS[name](transform=transform).fit(X, pairs=(*pairs.T, (~turned).astype(float)), **options)
    assert_same(by_labels, by_pairs, X, qid)


@every_model
def test_a_probability_is_two_pairs_with_its_parts_as_weights(rng, name):
    """Weights are divided by their mean, which is 1/2 for the parts: C is half as large for them."""
    X, _, qid = make_lists(rng)
    i, j = random_pairs(rng, qid)
    p = rng.uniform(0.05, 0.95, len(i))
    one = MODELS[name]().fit(X, qid=qid, pairs=(i, j, p))
    other = MODELS[name]()
    if name in BY_SUM:
        other.set_params(C=other.C / 2)
    twice = np.append(i, j), np.append(j, i), np.ones(2 * len(i)), np.append(p, 1 - p)
    assert_same(one, other.fit(X, qid=qid, pairs=twice), X, qid)


@every_model
def test_a_weight_is_a_number_of_copies_and_of_0_none(rng, name):
    X, _, qid = make_lists(rng)
    i, j = random_pairs(rng, qid)
    weight, p = rng.integers(0, 4, len(i)), rng.choice([0.0, 0.3, 0.5, 1.0], len(i))
    copies = np.repeat(np.arange(len(i)), weight)
    one = MODELS[name]().fit(X, qid=qid, pairs=(i, j, p, weight))
    other = MODELS[name]()
    if name in BY_SUM:
        other.set_params(C=other.C / weight[weight > 0].mean())
    assert_same(one, other.fit(X, qid=qid, pairs=(i[copies], j[copies], p[copies])), X, qid)
    scaled = MODELS[name]().fit(X, qid=qid, pairs=(i, j, p, 8.0 * weight))
    assert bytes_of(scaled) == bytes_of(one)


@every_model
def test_labels_beside_pairs_are_not_used(rng, name):
    X, y, qid = make_lists(rng)
    i, j = random_pairs(rng, qid)
    models = [
        MODELS[name]().fit(X, qid=qid, pairs=(i, j)),
        MODELS[name]().fit(X, y, qid=qid, pairs=(i, j)),
        MODELS[name]().fit(RankingData.from_arrays(X, y, qid), pairs=(i, j)),
    ]
    assert len({bytes_of(model) for model in models}) == 1
    again = models[0].fit(X, y, qid=qid)  # nothing of the pairs is left in the model
    assert bytes_of(again) == bytes_of(MODELS[name]().fit(X, y, qid=qid))


@every_model
def test_a_killed_training_ends_in_the_same_bytes_and_other_pairs_are_refused(rng, tmp_path, name):
    class Killed(Exception):
        pass

    def kill(progress):
        if progress.iteration == 2:
            raise Killed

    X, y, qid = make_lists(rng)
    i, j = random_pairs(rng, qid)
    p = rng.choice([0.3, 0.5, 1.0], len(i))
    options = {"qid": qid, "eval_set": (X, y, qid), "sample_weight": rng.choice([0.0, 1.0, 2.0], len(X))}
    whole = MODELS[name]().fit(X, pairs=(i, j, p), **options)
    checkpoint = {"checkpoint": tmp_path / "run.check", "every": 1}
    with pytest.raises(Killed):
        MODELS[name]().fit(X, pairs=(i, j, p), **options, **checkpoint, callbacks=[kill])
    for other in ((j, i, p), (i, j, p / 2), (i, j, p, np.arange(len(i)))):
        with pytest.raises(ValueError, match="pairs"):
            MODELS[name]().fit(X, pairs=other, **options, **checkpoint)
    resumed = MODELS[name]().fit(X, pairs=(i, j, p), **options, **checkpoint)
    assert bytes_of(resumed) == bytes_of(whole)
    assert whole.evals_ == resumed.evals_


@every_model
def test_saved_models_and_clones_are_the_same(rng, tmp_path, name):
    X, _, qid = make_lists(rng)
    i, j = random_pairs(rng, qid)
    model = MODELS[name](transform=("standard",)).fit(X, qid=qid, pairs=(i, j, np.full(len(i), 0.8)))
    model.save(tmp_path / "m.podium")
    loaded = podium.load(tmp_path / "m.podium")
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    for copy in (clone(model), clone(loaded)):
        copy.fit(X, qid=qid, pairs=(i, j, np.full(len(i), 0.8)))
        assert bytes_of(copy) == bytes_of(model)


@pytest.mark.parametrize("name", ["mean of queries", "thresholds", "thresholds by z", "values", "values by z"])
def test_the_same_bytes_for_any_number_of_threads(rng, name):
    n, number = 20_000, 70_000
    X, query = rng.standard_normal((n, 9)).astype(np.float32), rng.integers(0, n // 20, number)
    X[:, 3] = np.round(X[:, 3])
    i, step = 20 * query + rng.integers(0, 20, number), rng.integers(1, 20, number)
    j = 20 * query + (i + step) % 20
    p = 1 / (1 + np.exp(X[j, 0] - X[i, 0] + rng.standard_normal(number)))
    settings = {"max_gap": 1e-3} if name.startswith("mean") else {"n_estimators": 3}
    models = [MODELS[name](n_jobs=n_jobs).set_params(**settings) for n_jobs in (1, 3)]
    assert len({bytes_of(m.fit(X, qid=np.arange(n) // 20, pairs=(i, j, p))) for m in models}) == 1


@every_model
def test_pairs_as_likely_either_way_teach_nothing(rng, name):
    """Each has half a slack of 1 both ways, so nothing is better than scores of 0: C times the weight is the cost."""
    X, _, qid = make_lists(rng)
    i, j = random_pairs(rng, qid)
    with pytest.warns(UserWarning, match="all of 150 pairs have the probability 1/2"):
        model = MODELS[name]().fit(X, qid=qid, pairs=(i, j, np.full(len(i), 0.5)))
    np.testing.assert_allclose(model.predict(X), np.zeros(len(X)), atol=1e-6)
    if isinstance(model, RankBoost):
        assert (len(model.rankers_), model.bound_) == (0, 1.0)
    else:
        queries = {"mean of pairs": 1 / len(i), "mean of queries": len(set(qid[i])) / 7 / len(i)}.get(name, 1)
        assert model.objective_ == pytest.approx(model.C * len(i) * queries)


@every_model
def test_pairs_whose_documents_or_queries_have_weight_0_are_refused_together(name):
    X, qid = np.arange(8.0).reshape(4, 2), [1, 1, 2, 2]
    for weights in ({"sample_weight": [0, 1, 1, 1]}, {"query_weight": [0, 1]}):
        with pytest.raises(ValueError, match="the weight of every pair is 0, so there is nothing to learn from"):
            MODELS[name]().fit(X, qid=qid, pairs=([0], [1]), **weights)


# --- margins ------------------------------------------------------------------------------------------------------


def weighted_differences(X, i, j, p, weight):
    """Differences of all pairs both ways, and their weights on the scale of training."""
    D = X[i].astype(float) - X[j].astype(float)
    weight = weight / weight[weight > 0].mean()
    return np.concatenate([D, -D]), np.append(p * weight, (1 - p) * weight)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("C", [0.003, 0.1])
def test_the_minimum_is_that_of_linear_svc_on_weighted_differences(rng, loss, C):
    X, _, qid = make_lists(rng)
    i, j = random_pairs(rng, qid)
    p, weight = rng.choice([0.0, 0.2, 0.5, 0.9, 1.0], len(i)), rng.choice([0.0, 1.0, 3.0], len(i))
    D, costs = weighted_differences(X, i, j, p, weight)
    model = RankSVM(C=C, loss=loss, max_gap=1e-9).fit(X, qid=qid, pairs=(i, j, p, weight))
    D, costs = D[costs > 0], costs[costs > 0]
    sign = np.where(np.arange(len(D)) % 2, 1.0, -1.0)
    svc = LinearSVC(C=C, loss=loss, fit_intercept=False, tol=1e-8, max_iter=200_000, dual=loss == "hinge")
    theirs = svc.fit(D * sign[:, None], sign, sample_weight=costs).coef_[0]
    np.testing.assert_allclose(model.coef_, theirs, atol=2e-2 * np.abs(theirs).max())
    power = 1 if loss == "hinge" else 2
    own, their = (0.5 * w @ w + C * costs @ np.maximum(0, 1 - D @ w) ** power for w in (model.coef_, theirs))
    assert own == pytest.approx(model.objective_, rel=1e-9)
    assert own <= their * (1 + 1e-6)
    assert own == pytest.approx(their, rel=1e-3)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_the_minimum_with_a_kernel_is_that_of_the_dual_problem_over_pairs(rng, loss):
    """The largest sum(a) - 1/2 a'Qa [- sum a^2 / 4c] for 0 <= a [<= c], c = C times the weight of a pair."""
    X, _, qid = make_lists(rng, 60)
    i, j = random_pairs(rng, qid, 60)
    p = rng.choice([0.0, 0.2, 0.5, 0.9, 1.0], len(i))
    better, worse, costs = np.append(i, j), np.append(j, i), 3.0 * np.append(p, 1 - p)
    better, worse, costs = better[costs > 0], worse[costs > 0], costs[costs > 0]
    K = np.exp(-0.3 * ((X[:, None].astype(float) - X[None]) ** 2).sum(axis=2))
    Q = K[better][:, better] - K[better][:, worse] - K[worse][:, better] + K[worse][:, worse]
    Q = Q + (np.diag(1 / (2 * costs)) if loss == "squared_hinge" else 0)
    dual = minimize(
        lambda a: 0.5 * a @ Q @ a - a.sum(),
        np.minimum(costs, 1) / 10,
        jac=lambda a: Q @ a - 1,
        bounds=[(0, None if loss == "squared_hinge" else cost) for cost in costs],
        method="L-BFGS-B",
        options={"maxiter": 50_000, "maxfun": 100_000, "ftol": 1e-15, "gtol": 1e-9},
    )
    model = KernelRankSVM(C=3.0, gamma=0.3, loss=loss, max_gap=1e-8).fit(X, qid=qid, pairs=(i, j, p))
    assert model.objective_ == pytest.approx(-dual.fun, rel=1e-5)
    scores = (K[:, better] - K[:, worse]) @ dual.x
    np.testing.assert_allclose(model.predict(X), scores, atol=5e-3 * np.abs(scores).max())


def test_contradictory_pairs_by_hand():
    """A > B with the weight 3 and B > A with 1, which is 1.5 and 0.5 of a mean of 1; x is 1 and 0.

    1/2 w^2 + C (1.5 (1 - w) + 0.5 (1 + w)) has the slope w - C for w below 1: w = C = 0.4, and the minimum is
    0.08 + 0.4 (1.5 * 0.6 + 0.5 * 1.4) = 0.72. With p = 0.75 the weights are half of that: w = 0.2.
    """
    X, margins = np.float32([[1], [0]]), {"C": 0.4, "max_gap": 1e-9}
    model = RankSVM(**margins).fit(X, group=[2], pairs=([0, 1], [1, 0], [1, 1], [3, 1]))
    assert model.coef_ == pytest.approx([0.4], abs=1e-4)
    assert model.objective_ == pytest.approx(0.72)
    model = RankSVM(**margins).fit(X, group=[2], pairs=([0], [1], [0.75]))
    assert model.coef_ == pytest.approx([0.2], abs=1e-4)
    assert model.objective_ == pytest.approx(0.02 + 0.4 * (0.75 * 0.8 + 0.25 * 1.2))
    boosted = RankBoost().fit(X, group=[2], pairs=([0], [1], [0.75]))
    assert boosted.rankers_.alpha == pytest.approx([0.5 * math.log(3)])
    assert boosted.bound_ == pytest.approx(2 * math.sqrt(0.75 * 0.25))


def test_a_hard_margin_asks_for_the_given_pairs_alone():
    X = np.array([[1.0, 2.0], [4.0, 6.0], [9.0, 9.0]])
    model = RankSVM(C=np.inf).fit(X, group=[3], pairs=([1], [0]))  # w = d / |d|^2, d = (3, 4)
    np.testing.assert_allclose(model.coef_, [3 / 25, 4 / 25], rtol=1e-4)
    for pairs in (([1, 0], [0, 1]), ([1], [0], [0.9])):
        with pytest.raises(ValueError, match="not linearly rankable, as C=inf asks for"):
            RankSVM(C=np.inf).fit(X, group=[3], pairs=pairs)


@pytest.mark.parametrize("name", ["hinge", "kernel"])
def test_the_weight_of_swapped_pairs_is_at_most_the_slack(rng, name):
    X, _, qid = make_lists(rng)
    i, j = random_pairs(rng, qid)
    p, weight = rng.uniform(0, 1, len(i)), rng.choice([0.0, 1.0, 3.0], len(i))
    model = MODELS[name]().fit(X, qid=qid, pairs=(i, j, p, weight))
    scores, weight = model.predict(X), weight / weight[weight > 0].mean()
    margins, costs = np.append(scores[i] - scores[j], scores[j] - scores[i]), np.append(p * weight, (1 - p) * weight)
    slack = costs @ np.maximum(0, 1 - margins)
    assert 0 < costs[margins <= 0].sum() <= slack <= model.objective_ / model.C + 1e-9


# --- RankBoost ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "selection"), [*itertools.product(("threshold", "value"), ("r", "z"))])
def test_the_bound_holds_for_the_weight_of_given_pairs_out_of_order(rng, kind, selection):
    X, _, qid = make_lists(rng)
    i, j = random_pairs(rng, qid)
    p, weight = rng.uniform(0, 1, len(i)) ** 0.3, rng.choice([0.0, 1.0, 3.0], len(i))
    model = RankBoost(n_estimators=30, weak_ranker=kind, selection=selection)
    scores = model.fit(X, qid=qid, pairs=(i, j, p, weight)).predict(X)
    wrong = np.append(p * weight, (1 - p) * weight) @ np.append(scores[i] <= scores[j], scores[j] <= scores[i])
    assert 0 < wrong / weight.sum() <= model.bound_ < 1


def test_preferences_of_differences_need_labels(rng):
    X, y, qid = make_lists(rng)
    with pytest.raises(ValueError, match=r'preference="difference" is that of labels, .* Use preference="equal" and p'):
        RankBoost(preference="difference").fit(X, y, qid=qid, pairs=random_pairs(rng, qid))


def test_a_query_of_given_pairs_may_have_any_number_of_documents_where_z_chooses(rng):
    """Labels may have 256 grades there; pairs have none."""
    X = rng.standard_normal((600, 2)).astype(np.float32)
    order = np.argsort(-X[:, 0])
    model = RankBoost(n_estimators=3, selection="z").fit(X, group=[600], pairs=(order[:-1], order[1:]))
    assert model.rankers_.feature.tolist() == [0, 0, 0]


def test_early_stopping_with_pairs_watches_labels(rng):
    X, y, qid = make_lists(rng)
    pairs = np.array(preference_pairs(y, qid)).T
    model = RankBoost(n_estimators=60).fit(
        X, qid=qid, pairs=tuple(pairs), eval_set=(X, y, qid), early_stopping_rounds=5
    )
    curve = model.evals_["eval_0"]["ndcg@10"]
    assert model.best_iteration_ == 1 + int(np.argmax(curve))
    assert model.score(X, y, qid=qid) == max(curve)
