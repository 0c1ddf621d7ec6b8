"""One move per pair follows the gradient of the batch in expectation; pairs can be given, with probabilities."""

import numpy as np
import pytest
import sklearn
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import podium
from podium.data.given_pairs import GivenPairs
from podium.learners.net.optimization import OptimizerRules, make_optimizer, start_memory
from podium.learners.net.pairs import PairRunner, given_pairs, label_pairs
from podium.learners.net.scoring import NetShape
from podium.learners.net.training import HostRunner, NetRules
from podium.objectives import RankNet, parse_objective
from podium.objectives.given_pairs import PairGradient, bind_pairs


def lists(rng, lengths=(6, 9, 1, 4)):
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    X = rng.standard_normal((offsets[-1], 4)).astype(np.float32)
    return X, np.clip(np.round(X[:, 0] + 1), 0, 3), offsets


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_small_steps_per_pair_add_up_to_the_step_of_the_batch(rng, ties, weighted):
    """With a rate so small that weights hardly move in between, their sum is the gradient of all pairs."""
    X, y, offsets = lists(rng)
    weights = (rng.random(len(X)) + 0.5, rng.random(4) + 0.5) if weighted else (np.empty(0), np.ones(4))
    shape, optimizer = NetShape(4, (5,)), OptimizerRules("sgd", 1e-4, momentum=0.0)
    rules = NetRules(optimizer=optimizer, batch_size=100)
    start, base = shape.start(1, 2), rng.standard_normal(len(X))
    memory = start_memory(make_optimizer(optimizer, shape.penalised()), start)
    rules_of_bag = NetRules(optimizer=optimizer, batch_size=100, n_nets=2)
    runner = PairRunner(
        X, offsets, label_pairs(y, offsets, ties), shape, rules_of_bag, base, PairGradient(1.5), weights
    )
    by_pair = np.asarray(runner.epoch(0, start, memory)[0]) - start
    objective = parse_objective("ranknet", sigma=1.5, ties=ties)
    target = objective.bind(y, offsets, weights[0] if weighted else None, weights[1])
    batch = HostRunner(X, offsets, target, shape, rules_of_bag, base).epoch(0, start, memory)[0]
    by_batch = 4 * (np.asarray(batch) - start)  # the batch's cost is a mean over 4 queries
    np.testing.assert_allclose(by_pair, by_batch, rtol=2e-2, atol=2e-2 * np.abs(by_batch).max())
    assert rules.n_nets == 1


def test_pairs_of_labels_are_the_pairs_of_a_double_loop(rng):
    _, y, offsets = lists(rng)
    for ties in (False, True):
        expected = [
            (i, j, 1.0 if y[i] > y[j] else 0.5, 1.0)
            for i in range(6, 15)
            for j in range(6, 15)
            if y[i] > y[j] or (ties and i < j and y[i] == y[j])
        ]
        found = label_pairs(y, offsets, ties)(1)
        assert sorted(zip(*(part.tolist() for part in found))) == sorted(expected)


def test_given_pairs_cost_their_cross_entropy_and_pull_by_its_slope(rng):
    _, _, offsets = lists(rng)
    first, second = np.array([0, 7, 3, 16, 8]), np.array([2, 9, 5, 18, 7])
    target, scores = np.array([1.0, 0.3, 0.0, 0.5, 0.9]), rng.standard_normal(20)
    pairs = GivenPairs.read((first, second, target), np.arange(20), offsets)
    weights, query_weights = rng.random(20) + 0.5, rng.random(4) + 0.5
    bound = bind_pairs(RankNet(sigma=1.7), pairs, offsets, weights, query_weights)

    def slow_loss(s):
        total = 0.0
        for i, j, p in zip(first, second, target):
            above = 1 / (1 + np.exp(-1.7 * (s[i] - s[j])))
            weight = weights[i] * weights[j] * query_weights[np.searchsorted(offsets, i, side="right") - 1]
            total -= weight * (p * np.log(above) + (1 - p) * np.log(1 - above))
        return total

    assert bound.loss(scores) == pytest.approx(slow_loss(scores))
    gradients, hessians = np.zeros(20, np.float32), np.zeros(20, np.float32)
    bound.derivatives(scores, gradients, hessians)
    for row in range(20):
        step = np.eye(20)[row] * 1e-5
        expected = (slow_loss(scores + step) - slow_loss(scores - step)) / 2e-5
        assert gradients[row] == pytest.approx(expected, abs=1e-5)
        curve = (slow_loss(scores + 100 * step) + slow_loss(scores - 100 * step) - 2 * slow_loss(scores)) / 1e-6
        assert hessians[row] == pytest.approx(curve, abs=1e-4)
    of_query = given_pairs(pairs)(1)
    assert sorted(zip(*(part.tolist() for part in of_query))) == [(7, 9, 0.3, 1.0), (8, 7, 0.9, 1.0)]


@pytest.mark.parametrize("update", ["batch", "pair"])
def test_a_model_learns_from_given_pairs_in_any_order_of_rows(rng, update):
    X = rng.standard_normal((120, 3)).astype(np.float32)
    qid = rng.integers(0, 10, 120)  # not grouped
    i, j = np.array([(a, b) for a in range(120) for b in range(120) if a != b and qid[a] == qid[b]]).T
    p = 1 / (1 + np.exp(-3 * (X[i, 0] - X[j, 0])))
    model = podium.RankNet(max_epochs=8, learning_rate=0.01, update=update).fit(X, qid=qid, pairs=(i, j, p))
    assert np.corrcoef(model.predict(X), X[:, 0])[0, 1] > 0.9


def test_pairs_with_target_1_are_the_pairs_of_labels(splits):
    train = splits.train.grouped()
    found = [label_pairs(train.y, train.offsets, False)(q) for q in range(train.n_queries)]
    i, j, _, _ = (np.concatenate(parts) for parts in zip(*found))
    by_pairs = podium.RankNet(max_epochs=1).fit(train.X, qid=train.qid, pairs=(i, j))
    by_labels = podium.RankNet(max_epochs=1).fit(train.X, train.y, train.qid)
    np.testing.assert_allclose(by_pairs.net_.weights, by_labels.net_.weights, atol=1e-4)


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        (([0, 1],), r"pairs must be \(i, j\), \(i, j, p\) or \(i, j, p, weight\), one list each; got 1 list"),
        (([0], [5]), "a pair must be two documents of one query; pair 0 has rows 0 and 5"),
        (([0], [0]), "two documents of one query"),
        (([0], [1], [1.5]), r"p must be from 0 to 1; p\[0\] is 1.5"),
        (([0], [99]), r"j must be row numbers of X, from 0 to 7 \(8 rows\); j\[0\] is 99"),
        (([0.5], [1]), "i must be a list of row numbers; got float64"),
        (([0, 1], [1]), "as long as one another"),
    ],
)
def test_pairs_that_make_no_sense_are_refused(pairs, message):
    X = np.eye(8, 3, dtype=np.float32)
    with pytest.raises(ValueError, match=message):
        podium.RankNet(max_epochs=1).fit(X, qid=[0] * 4 + [1] * 4, pairs=pairs)


def test_labels_beside_pairs_change_nothing_and_data_without_labels_has_pairs(rng):
    X, qid = rng.standard_normal((40, 3)).astype(np.float32), np.arange(40) % 5
    pairs, labels = (np.arange(20), np.arange(20) + 5), rng.integers(0, 3, 40)
    fits = [
        podium.RankNet(max_epochs=2).fit(X, qid=qid, pairs=pairs),
        podium.RankNet(max_epochs=2).fit(X, labels, qid, pairs=pairs),
        podium.RankNet(max_epochs=2).fit(podium.RankingData.from_arrays(X, qid=qid), pairs=pairs),
    ]
    for other in fits[1:]:
        np.testing.assert_array_equal(other.predict(X), fits[0].predict(X))


def test_a_fit_on_pairs_that_fails_leaves_the_model_as_it_was(rng):
    X, qid = rng.standard_normal((12, 3)).astype(np.float32), np.arange(12) // 4
    model = podium.RankNet(max_epochs=1).fit(X, qid=qid, pairs=([0], [1]))
    before = dict(model.__dict__)
    with pytest.raises(ValueError, match="two documents of one query"):
        model.fit(X * 2, qid=qid, pairs=([0], [5]))
    assert model.__dict__ == before


def test_pairs_are_routed_by_scikit_learn(rng):
    X, qid = rng.standard_normal((12, 3)).astype(np.float32), np.arange(12) // 4
    i, j = np.arange(0, 12, 2), np.arange(1, 12, 2)
    with sklearn.config_context(enable_metadata_routing=True):
        net = podium.RankNet(max_epochs=2).set_fit_request(qid=True, pairs=True)
        pipeline = make_pipeline(StandardScaler(), net).fit(X, None, qid=qid, pairs=(i, j))
    direct = podium.RankNet(max_epochs=2).fit(StandardScaler().fit_transform(X), qid=qid, pairs=(i, j))
    np.testing.assert_array_equal(pipeline[-1].predict(X), direct.predict(X))
