"""Given pairs in place of labels: which models take them, and that they learn from all that the pairs say."""

import warnings
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from families import small_model
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier

import podium
from podium.data.ranking import RankingData
from podium.models.frame.taking_pairs import models_that_take_pairs
from podium.models.registry import MODELS

N = 72
RNG = np.random.default_rng(7)
X = RNG.standard_normal((N, 3)).astype(np.float32)
QID = RNG.integers(0, 6, N)  # interleaved
Y = np.clip(np.round(X[:, 0] + 0.3 * RNG.standard_normal(N) + 1), 0, 3)
LOSSES = ("ranknet", "hinge", "squared_hinge", "exponential")
TAKING = {
    **{f"linear {loss}": partial(podium.Linear, objective=loss) for loss in LOSSES},
    "linear exponent": partial(podium.Linear, pair_exponent=0.5, transform=("raw", "zscore")),
    "linear basis": partial(podium.Linear, basis="gaussian", n_centres=8),
    **{
        f"trees {loss}": partial(podium.Boosted, objective=loss, n_estimators=4, min_samples_leaf=3, max_leaf_nodes=4)
        for loss in LOSSES
    },
    "trees exact": partial(podium.Boosted, objective="ranknet", step="exact", n_estimators=3, l2_regularization=1.0),
    "trees by gradients": partial(podium.MART, objective="ranknet", split_by="gradients", step="tree", n_estimators=3),
    "oblivious": partial(podium.MatrixNet, objective="hinge", n_estimators=3, max_depth=2),
    "forest": partial(podium.RandomForest, objective="ranknet", n_estimators=3, feature_fraction=1.0),
    "classifier": podium.Pairwise,
    "other classifier": partial(podium.Pairwise, HistGradientBoostingClassifier(max_iter=5), references=4),
    "net": partial(podium.RankNet, max_epochs=2, hidden_layer_sizes=(4,)),
    "net by pairs": partial(podium.RankNet, max_epochs=1, hidden_layer_sizes=(4,), update="pair", pair_exponent=0.5),
    "margin": partial(podium.RankSVM, max_gap=1e-6),
    "margin in a mean": partial(podium.RankSVM, loss="squared_hinge", scaling="mean_queries", max_gap=1e-6),
    "margin of kernels": partial(podium.KernelRankSVM, max_gap=1e-4),
    "thresholds": partial(podium.RankBoost, n_estimators=4),
    "thresholds by z": partial(podium.RankBoost, n_estimators=4, selection="z"),
    "scaled features": partial(podium.RankBoost, n_estimators=4, weak_ranker="value"),
    "any net": partial(podium.Net, objective="squared_hinge", max_epochs=2, hidden_layer_sizes=(4,)),
}
CONVEX = [name for name in TAKING if name.startswith("linear")]


def pairs_of(y, qid):
    return np.nonzero((y[:, None] > y) & (qid[:, None] == qid))


def drawn_pairs(rng, n=150):
    i, j = np.nonzero((QID[:, None] == QID) & ~np.eye(N, dtype=bool))
    chosen = rng.integers(0, len(i), n)
    p = 1 / (1 + np.exp(-3 * (X[i[chosen], 0] - X[j[chosen], 0])))
    return i[chosen], j[chosen], p, rng.choice([0.5, 1.0, 3.0], n)


def fitted(name, *arguments, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # small trees that cannot split are tested elsewhere
        return TAKING[name]().fit(*arguments, **options)


def saved(model, folder):
    model.save(folder / "model.podium")
    return (folder / "model.podium").read_bytes()


# --- which models take pairs


NEEDED = {"LambdaSMART": {"init": np.zeros(N)}, "KernelRankSVM": {"max_gap": 0.01}}  # 20 rounds end at twice its gap


@pytest.mark.parametrize("name", MODELS)
def test_every_model_takes_pairs_or_refuses_them_and_names_those_that_do(name):
    model = small_model(name, **NEEDED.get(name, {}))
    before = dict(model.__dict__)
    if model.training_plan().takes_pairs:
        assert name in models_that_take_pairs()
        assert np.ptp(model.fit(X, qid=QID, pairs=pairs_of(Y, QID)).predict(X, QID)) > 0
        return
    with pytest.raises(ValueError, match=rf"^{name} takes no pairs.*; those that do are Linear, .*Pairwise, .*RankNet"):
        model.fit(X, Y, QID, pairs=pairs_of(Y, QID))
    assert {key: value for key, value in model.__dict__.items() if key != "init"} == {
        key: value for key, value in before.items() if key != "init"
    }


@pytest.mark.parametrize("kind", [podium.Linear, podium.Boosted, podium.Net])
@pytest.mark.parametrize("objective", ["squared", "lambda", "listnet", "approxndcg"])
def test_objectives_of_labels_refuse_pairs(kind, objective):
    message = f"{kind.__name__} takes no pairs with the objective '{objective}'; those that do are"
    with pytest.raises(ValueError, match=message):
        kind(objective=objective).fit(X, qid=QID, pairs=([0], [1]))


def test_a_line_search_of_a_metric_refuses_pairs():
    model = podium.Boosted(objective="ranknet", step="line_search", n_estimators=2)
    with pytest.raises(ValueError, match="step='line_search' searches a metric of labels"):
        model.fit(X, qid=QID, pairs=pairs_of(Y, QID))


# --- what they learn


@pytest.mark.parametrize("name", TAKING)
@pytest.mark.parametrize("weighted", [False, True])
def test_the_pairs_of_the_labels_make_the_model_of_the_labels(name, weighted):
    weights = {"sample_weight": np.linspace(0.5, 2, N), "query_weight": np.linspace(0.5, 2, 6)} if weighted else {}
    by_labels = fitted(name, X, Y, QID, **weights).predict(X, QID)
    by_pairs = fitted(name, X, qid=QID, pairs=pairs_of(Y, QID), **weights).predict(X, QID)
    loose = 1e-2 if name == "net by pairs" else 1e-3  # one move per pair, in another order of the pairs
    np.testing.assert_allclose(by_pairs, by_labels, atol=loose * max(np.ptp(by_labels), 1e-3))


@pytest.mark.parametrize("name", TAKING)
def test_labels_beside_pairs_and_the_form_of_the_rows_change_nothing(name, rng):
    pairs = drawn_pairs(rng)
    model = fitted(name, X, qid=QID, pairs=pairs)
    for arguments in ((X, Y, QID), (RankingData.from_arrays(X, qid=QID),), (RankingData.from_arrays(X, Y, QID),)):
        other = fitted(name, *arguments, pairs=pairs)
        assert other.predict(X, QID).tobytes() == model.predict(X, QID).tobytes()


@pytest.mark.parametrize("name", TAKING)
def test_grouped_rows_make_the_model_of_interleaved_ones(name, rng):
    """Queries keep their order of first appearance, so only the numbers of the rows are others."""
    i, j, p, w = drawn_pairs(rng)
    data = RankingData.from_arrays(X, qid=QID)
    position = np.argsort(data.rows)
    mixed = fitted(name, data, pairs=(i, j, p, w))
    grouped = fitted(name, data.grouped(), pairs=(position[i], position[j], p, w))
    assert mixed.predict(X, QID).tobytes() == grouped.predict(X, QID).tobytes()


@pytest.mark.parametrize("name", CONVEX)
def test_a_pair_with_a_probability_is_two_pairs_with_weights(name, rng):
    i, j, p, w = drawn_pairs(rng)
    if name == "linear exponent":  # which counts pairs: all queries must have twice as many
        p = np.clip(p, 0.1, 0.9)
    one = fitted(name, X, qid=QID, pairs=(i, j, p, w))
    split = np.append(i, j), np.append(j, i), np.ones(2 * len(i)), np.append(p * w, (1 - p) * w)
    two = fitted(name, X, qid=QID, pairs=split)
    np.testing.assert_allclose(two.predict(X, QID), one.predict(X, QID), atol=1e-4 * np.ptp(one.predict(X, QID)))


@pytest.mark.parametrize("name", TAKING)
def test_no_factor_of_all_weights_changes_a_model(name, rng):
    i, j, p, w = drawn_pairs(rng)
    model, other = (fitted(name, X, qid=QID, pairs=(i, j, p, factor * w)) for factor in (1.0, 2.0**600))
    assert other.predict(X, QID).tobytes() == model.predict(X, QID).tobytes()


@pytest.mark.parametrize("name", CONVEX)
def test_a_weight_of_2_is_a_pair_twice_and_a_weight_of_0_is_none(name, rng):
    i, j, p, _ = drawn_pairs(rng)
    if name == "linear exponent":
        i, j, p = i[QID[i] == 0], j[QID[i] == 0], p[QID[i] == 0]  # one query: its factor changes nothing
    weight = np.arange(len(i)) % 3
    times = np.repeat(np.arange(len(i)), weight)
    one = fitted(name, X, qid=QID, pairs=(i, j, p, weight)).predict(X, QID)
    two = fitted(name, X, qid=QID, pairs=(i[times], j[times], p[times])).predict(X, QID)
    np.testing.assert_allclose(two, one, atol=1e-4 * np.ptp(one))


@pytest.mark.parametrize("name", sorted(TAKING.keys() - {"net by pairs", "other classifier"}))
def test_the_order_of_pairs_hardly_matters_and_threads_do_not_at_all(name, rng):
    """Not so of moves per pair, and of a classifier that splits what is equal but for rounding."""
    pairs = drawn_pairs(rng)
    order = rng.permutation(len(pairs[0]))
    model = fitted(name, X, qid=QID, pairs=pairs).predict(X, QID)
    mixed = fitted(name, X, qid=QID, pairs=tuple(part[order] for part in pairs)).predict(X, QID)
    np.testing.assert_allclose(mixed, model, atol=2e-3 * np.ptp(model))
    for n_jobs in (1, 3):
        made = TAKING[name]().set_params(n_jobs=n_jobs)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            assert made.fit(X, qid=QID, pairs=pairs).predict(X, QID).tobytes() == model.tobytes()


def test_pairs_are_what_is_learned_not_labels():
    """The pairs say the reverse of the labels."""
    j, i = pairs_of(Y, QID)
    net = podium.RankNet(max_epochs=30, learning_rate=0.03, hidden_layer_sizes=(8,))
    for model in (podium.Linear(), podium.MART(objective="hinge", min_samples_leaf=3), podium.Pairwise(), net):
        scores = model.fit(X, Y, QID, pairs=(i, j)).predict(X, QID)
        assert np.corrcoef(scores, X[:, 0])[0, 1] < -0.5, model


def test_sparse_rows_of_interleaved_queries_make_the_trees_of_dense_ones(rng):
    rows = X * (rng.random(X.shape) < 0.5)
    pairs, weights = drawn_pairs(rng), {"sample_weight": rng.random(N) + 0.5}
    dense, sparse = (fitted("trees hinge", part, qid=QID, pairs=pairs, **weights) for part in (rows, csr_array(rows)))
    np.testing.assert_array_equal(sparse.predict(rows), dense.predict(rows))


# --- Pairwise


@pytest.mark.parametrize("weighted", [False, True])
def test_a_classifier_is_fitted_to_both_directions_of_each_pair(rng, weighted):
    """By hand: of each pair (i, j, p, w) the rows x_i - x_j and x_j - x_i, of each class with its share of w."""
    i, j, p, w = drawn_pairs(rng)
    weights = {"sample_weight": rng.random(N) + 0.5, "query_weight": rng.random(6) + 0.5} if weighted else {}
    model = podium.Pairwise(LogisticRegression(), standardize=False)
    model.fit(X, qid=QID, pairs=(i, j, p, w), **weights)
    queries = {name: number for number, name in enumerate(dict.fromkeys(QID.tolist()))}
    rows, classes, shares = [], [], []
    for a, b, q, v in zip(i, j, p, w / w.mean()):
        if weighted:
            documents, of_query = (weights[key] / weights[key].mean() for key in ("sample_weight", "query_weight"))
            v = v * documents[a] * documents[b] * of_query[queries[QID[a]]]
        for sign in (1, -1):
            rows += [sign * (X[a] - X[b])] * 2
            classes += [1, 0]
            shares += [v * q, v * (1 - q)] if sign == 1 else [v * (1 - q), v * q]
    expected = LogisticRegression().fit(rows, classes, sample_weight=shares)
    np.testing.assert_allclose(model.form_.weights[0], expected.coef_[0], atol=2e-3)
    assert model.n_pairs_ == len(i)


def test_classifiers_draw_pairs_above_their_number_and_refuse_weights_that_they_do_not_take(rng):
    pairs = drawn_pairs(rng)
    one, same, other = (
        podium.Pairwise(max_pairs=40, random_state=seed).fit(X, qid=QID, pairs=pairs) for seed in (0, 0, 1)
    )
    assert one.n_pairs_ == 40
    assert one.predict(X).tobytes() == same.predict(X).tobytes() != other.predict(X).tobytes()
    plain = podium.Pairwise(KNeighborsClassifier()).fit(X, qid=QID, pairs=pairs_of(Y, QID))  # all weights are 1
    assert np.isfinite(plain.predict(X)).all()
    with pytest.raises(ValueError, match="KNeighborsClassifier takes no sample_weight"):
        podium.Pairwise(KNeighborsClassifier()).fit(X, qid=QID, pairs=pairs)


# --- the frame


@pytest.mark.parametrize("name", ["linear hinge", "trees ranknet", "classifier", "net"])
def test_models_of_pairs_are_cloned_set_saved_and_loaded(name, rng, tmp_path):
    pairs, others = drawn_pairs(rng), drawn_pairs(rng)
    model = fitted(name, X, qid=QID, pairs=pairs)
    model.save(tmp_path / "m.podium")
    loaded = podium.load(tmp_path / "m.podium")
    assert loaded.predict(X, QID).tobytes() == model.predict(X, QID).tobytes()
    again = clone(loaded).fit(X, qid=QID, pairs=pairs)
    assert again.predict(X, QID).tobytes() == model.predict(X, QID).tobytes()
    first = model.predict(X, QID)
    assert model.fit(X, qid=QID, pairs=others).predict(X, QID).tobytes() != first.tobytes()


def test_no_warning_speaks_of_labels():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for labels in (None, np.ones(N)):  # one label everywhere
            podium.Linear().fit(X, labels, QID, pairs=pairs_of(Y, QID))
    with pytest.warns(UserWarning, match="constant or missing within every query, so there is nothing to learn"):
        podium.Linear().fit(np.column_stack([QID, QID**2]), qid=QID, pairs=pairs_of(Y, QID))
    with pytest.warns(UserWarning, match="all of 2 pairs have the probability 1/2; no document is above another"):
        podium.Linear().fit(X, qid=np.zeros(N), pairs=([0, 1, 2], [1, 2, 3], [0.5, 0.5, 1.0], [1, 2, 0]))
    with pytest.warns(UserWarning, match="qid not given: all 72 rows are treated as one query"):
        podium.Linear().fit(X, pairs=([0], [1]))


def test_evaluation_sets_are_labelled_data_and_stop_the_training(rng):
    pairs, held_out = drawn_pairs(rng), RankingData.from_arrays(X, Y, QID)
    model = podium.Boosted(objective="ranknet", n_estimators=60, min_samples_leaf=3)
    model.fit(X, qid=QID, pairs=pairs, eval_set=held_out, early_stopping_rounds=3)
    (curve,) = model.evals_["eval_0"].values()
    assert model.best_iteration_ == np.argmax(curve) + 1 < 60
    with pytest.raises(ValueError, match=r"eval_set\[0\] needs labels"):
        model.fit(X, qid=QID, pairs=pairs, eval_set=replace(held_out, y=None))


def test_weights_that_leave_no_pair_are_refused():
    weights = np.ones(N)
    i, j = pairs_of(Y, QID)
    weights[i] = 0.0
    for name in ("linear hinge", "trees ranknet", "classifier", "net"):
        with pytest.raises(ValueError, match="times the weights of documents and queries, the weight of every pair is"):
            fitted(name, X, qid=QID, pairs=(i, j), sample_weight=weights)


def test_a_fit_on_bad_pairs_leaves_the_model_as_it_was():
    model = podium.Linear().fit(X, qid=QID, pairs=pairs_of(Y, QID))
    before = dict(model.__dict__)
    other = int(np.flatnonzero(QID[0] != QID)[0])
    with pytest.raises(ValueError, match=f"pair 0 has rows 0 and {other}"):
        model.fit(X * 2, qid=QID, pairs=([0], [other]))
    assert model.__dict__ == before


def test_init_models_learn_from_the_pairs_too_or_refuse_them(rng):
    pairs = drawn_pairs(rng)
    trees = podium.Boosted(objective="ranknet", n_estimators=3, min_samples_leaf=3)
    model = clone(trees).set_params(init=podium.Linear()).fit(X, qid=QID, pairs=pairs)
    base = podium.Linear().fit(X, qid=QID, pairs=pairs)
    assert model.init_.predict(X).tobytes() == base.predict(X).tobytes()
    ready = clone(trees).set_params(init=base).fit(X, qid=QID, pairs=pairs)
    scores = clone(trees).set_params(init=base.predict(X)).fit(X, qid=QID, pairs=pairs)
    assert ready.predict(X).tobytes() == model.predict(X).tobytes()
    np.testing.assert_allclose(scores.predict(X) + base.predict(X), model.predict(X), rtol=1e-12)
    with pytest.raises(ValueError, match=r"^MART takes no pairs"):
        clone(trees).set_params(init=podium.MART()).fit(X, Y, QID, pairs=pairs)


def test_trees_are_added_and_refitted_from_pairs(rng):
    pairs, others = drawn_pairs(rng), drawn_pairs(rng)
    whole = podium.Boosted(objective="ranknet", n_estimators=6, min_samples_leaf=3).fit(X, qid=QID, pairs=pairs)
    grown = podium.Boosted(objective="ranknet", n_estimators=4, min_samples_leaf=3).fit(X, qid=QID, pairs=pairs)
    grown.fit_more(X, qid=QID, pairs=pairs, n_estimators=2)
    np.testing.assert_allclose(grown.predict(X), whole.predict(X), rtol=1e-6)
    new = whole.refit(X, qid=QID, pairs=others, decay=0.0)
    same = whole.refit(RankingData.from_arrays(X, qid=QID), pairs=others, decay=0.0)
    assert new.predict(X).tobytes() == same.predict(X).tobytes() != whole.predict(X).tobytes()
    by_labels, by_pairs = whole.refit(X, Y, QID), whole.refit(X, qid=QID, pairs=pairs_of(Y, QID))
    np.testing.assert_allclose(by_pairs.predict(X), by_labels.predict(X), atol=1e-4)
    with pytest.raises(ValueError, match=r"^MART takes no pairs"):
        podium.MART(n_estimators=1).fit(X, Y, QID).refit(X, qid=QID, pairs=pairs)
    with pytest.raises(ValueError, match=r"^LambdaMART takes no pairs"):
        podium.LambdaMART(n_estimators=1).fit(X, Y, QID).fit_more(X, Y, QID, n_estimators=1, pairs=pairs)


def test_trees_that_cannot_split_say_what_the_features_do_not_tell():
    i, j = np.nonzero((QID[:, None] == QID) & (X[:, :1] > X[:, 0]))
    order = np.argsort(QID, kind="stable")
    column = np.zeros((N, 1))
    column[order[QID[order] == 5][:3]] = 1.0  # differs in a query without pairs
    others = QID[i] != 5
    model = podium.Boosted(objective="ranknet", n_estimators=1, min_samples_leaf=1)
    with pytest.warns(UserWarning, match="no feature tells the documents of the pairs apart. Check the features"):
        model.fit(column, qid=QID, pairs=(i[others], j[others]))


class Killed(Exception):
    """Stands for the end of the process."""


def killed_after(step):
    def callback(progress):
        if progress.iteration == step:
            raise Killed

    return callback


CHECKED = {
    "linear ranknet": {"max_iter": 6},
    "linear exponent": {"max_iter": 6},
    "trees hinge": {"n_estimators": 6},
    "forest": {"n_estimators": 6},
    "net": {"max_epochs": 6},
    "net by pairs": {"max_epochs": 6},
}


@pytest.mark.parametrize("name", CHECKED)
def test_a_killed_training_on_pairs_resumes_to_the_same_bytes(name, rng, tmp_path):
    pairs, path = drawn_pairs(rng), tmp_path / "run.checkpoint"
    weights = {"sample_weight": rng.random(N) + 0.5}
    make = lambda: TAKING[name]().set_params(**CHECKED[name])  # noqa: E731
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        whole = make().fit(X, qid=QID, pairs=pairs, **weights)
        options = {"checkpoint": path, "every": 1}
        with pytest.raises(Killed):
            make().fit(X, qid=QID, pairs=pairs, callbacks=[killed_after(4)], **weights, **options)
        model = make().fit(RankingData.from_arrays(X, Y, QID, **weights), pairs=pairs, **options)
    assert saved(model, tmp_path) == saved(whole, tmp_path)


def test_a_checkpoint_of_other_pairs_or_of_labels_is_refused_by_name(rng, tmp_path):
    i, j, p, w = drawn_pairs(rng)
    path = tmp_path / "run.checkpoint"
    with pytest.raises(Killed):
        podium.Linear().fit(X, Y, QID, pairs=(i, j, p, w), checkpoint=path, every=1, callbacks=[killed_after(3)])
    p2, w2 = p.copy(), w.copy()
    p2[-1], w2[-1] = 0.125, 7.0
    for others in ((i, j, p2, w), (i, j, p, w2), (j, i, p, w), (i[:-1], j[:-1], p[:-1], w[:-1])):
        with pytest.raises(ValueError, match=r"another training .the list of given pairs is 1.. pairs, checksum"):
            podium.Linear().fit(X, Y, QID, pairs=others, checkpoint=path, every=1)
    with pytest.raises(ValueError, match="the list of given pairs is not known here and 150 pairs, checksum"):
        podium.Linear().fit(X, Y, QID, checkpoint=path, every=1)


def test_pairs_are_an_argument_of_every_fit():
    for kind in MODELS.values():
        assert "pairs" in kind.fit.__signature__.parameters
