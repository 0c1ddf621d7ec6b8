"""Training: the gradient is that of the whole net, batches hold whole queries, and few programs are compiled."""

from itertools import pairwise

import jax
import numpy as np
import pytest
from oracles import net_score

from podium.learners.net.batches import filled_size, rows_of, shuffled_batches
from podium.learners.net.network import make_network
from podium.learners.net.optimization import OptimizerRules, make_optimizer, start_memory, step_of
from podium.learners.net.scoring import Inputs, NetFunction, NetShape
from podium.learners.net.training import HostRunner, NetRules, NetTraining, host_programs
from podium.objectives import parse_objective


def lists(rng, lengths, width=4):
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    X = rng.standard_normal((offsets[-1], width)).astype(np.float32)
    y = np.clip(np.round(X[:, 0] + rng.standard_normal(len(X)) / 2 + 1), 0, 3)
    return X, y, offsets


def learner(X, y, offsets, objective="ranknet", hidden=(5,), **rules):
    inputs, rules = Inputs.of(X), NetRules(**rules)
    shape = NetShape(inputs.width, hidden)
    target = parse_objective(objective).bind(y, offsets)
    return NetTraining(inputs, shape, rules, HostRunner(inputs.columns(X), offsets, target, shape, rules))


def slow_gradient(function, target, X, n_queries, step=1e-5):
    """Central differences of the mean loss over queries, in every weight, in float64."""
    found = np.zeros(function.shape.n_weights)
    for w in range(len(found)):
        losses = []
        for sign in (1, -1):
            weights = function.weights[0].astype(np.float64)
            weights[w] += sign * step
            losses.append(target.loss(np.array([net_score(function, weights, x) for x in X])))
        found[w] = (losses[0] - losses[1]) / (2 * step * n_queries)
    return found


@pytest.mark.parametrize("objective", ["ranknet", "squared", "listnet", "listmle", "logistic", "approxndcg"])
@pytest.mark.parametrize("activation", ["tanh", "gelu"])
def test_the_gradient_is_the_slope_of_the_loss_through_the_whole_net(rng, objective, activation):
    X, y, offsets = lists(rng, [4, 7, 3])
    shape = NetShape(4, (3, 3), activation, layer_norm=True, residual=True)
    weights = shape.start(1, 1)
    target = parse_objective(objective).bind(y, offsets)
    rules = NetRules(batch_size=100)
    runner = HostRunner(X, offsets, target, shape, rules)
    unchanged = Inputs(np.zeros(4), np.ones(4), np.empty(0, np.int64))
    expected = slow_gradient(NetFunction(shape, unchanged, weights), target, X, 3)
    forward, _ = host_programs(shape, 0.0, 1, rules.optimizer)
    scores, pull_back = forward(weights, X, jax.random.key(0))
    (found,) = pull_back(runner._objective.gradients(np.asarray(scores), np.arange(3), np.arange(14)))
    np.testing.assert_allclose(np.asarray(found)[0], expected, rtol=1e-3, atol=1e-4)


def test_the_gradient_of_a_batch_is_the_sum_over_its_pairs(rng):
    """One backward pass with one lambda per document, against one backward pass per pair."""
    X, y, offsets = lists(rng, [6, 5])
    shape = NetShape(4, (5,))
    weights = shape.start(1, 1)
    network = make_network(shape)

    def pair_cost(vector, i, j):
        scores = network(vector, X[[i, j]], None)
        return jax.numpy.log1p(jax.numpy.exp(scores[1] - scores[0]))

    total = np.zeros(shape.n_weights)
    for q in range(2):
        for i in range(offsets[q], offsets[q + 1]):
            for j in range(offsets[q], offsets[q + 1]):
                if y[i] > y[j]:
                    total += np.asarray(jax.grad(pair_cost)(weights[0], i, j))
    rules = NetRules()
    runner = HostRunner(X, offsets, parse_objective("ranknet").bind(y, offsets), shape, rules)
    scores, pull_back = host_programs(shape, 0.0, 1, rules.optimizer)[0](weights, X, jax.random.key(0))
    (found,) = pull_back(runner._objective.gradients(np.asarray(scores), np.arange(2), np.arange(11)))
    np.testing.assert_allclose(2 * np.asarray(found)[0], total, rtol=1e-4, atol=1e-5)


def test_few_programs_are_compiled_however_long_the_lists_are(rng):
    lengths = rng.integers(1, 100, 60)
    X, y, offsets = lists(rng, lengths)
    training = learner(X, y, offsets, batch_size=500, hidden=(7,), max_epochs=9)
    for _ in range(3):
        training.step()
    sizes = {
        filled_size(int(np.diff(offsets)[queries].sum()), 500)
        for epoch in range(3)
        for queries in shuffled_batches(offsets, 500, 0, epoch)
    }
    forward, update = training.runner._programs
    assert forward._cache_size() == update._cache_size() == len(sizes) <= 8


@pytest.mark.parametrize("budget", [1, 50, 10_000])
def test_a_batch_holds_whole_queries_under_its_budget_and_an_epoch_all_of_them(rng, budget):
    offsets = np.concatenate([[0], np.cumsum(rng.integers(1, 60, 40))])
    batches = shuffled_batches(offsets, budget, 1, 0)
    assert sorted(np.concatenate(batches).tolist()) == list(range(40))
    lengths = np.diff(offsets)
    assert all(lengths[batch].sum() <= budget or len(batch) == 1 for batch in batches)
    for first, second in pairwise(batches):  # the first query of the next batch had no place
        assert lengths[first].sum() + lengths[second[0]] > budget
    rows = np.concatenate([rows_of(batch, offsets) for batch in batches])
    assert sorted(rows.tolist()) == list(range(offsets[-1]))
    assert rows_of(np.array([3, 1]), offsets).tolist() == [
        *range(offsets[3], offsets[4]),
        *range(offsets[1], offsets[2]),
    ]
    same, other = shuffled_batches(offsets, budget, 1, 0), shuffled_batches(offsets, budget, 1, 1)
    np.testing.assert_array_equal(np.concatenate(batches), np.concatenate(same))
    assert (np.concatenate(batches) != np.concatenate(other)).any()


def test_sizes_are_few_and_large_enough():
    assert {filled_size(n, 1024) for n in range(1, 1025)} == {128 * k for k in range(1, 9)}
    assert filled_size(1025, 1024) == 2048
    assert all(filled_size(n, 100) >= n for n in range(1, 500))


def test_a_bag_trains_each_net_as_if_it_were_alone(rng):
    X, y, offsets = lists(rng, [5, 9, 4, 8])
    options = {"batch_size": 10, "dropout": 0.3, "optimizer": OptimizerRules("sgd", 0.05, clipping=0.5)}
    alone, bag = learner(X, y, offsets, **options), learner(X, y, offsets, n_nets=3, **options)
    for _ in range(3):
        alone.step()
        bag.step()
    np.testing.assert_allclose(np.asarray(bag.weights)[0], np.asarray(alone.weights)[0], rtol=1e-4, atol=1e-5)
    assert np.abs(np.asarray(bag.weights)[1] - np.asarray(bag.weights)[0]).max() > 0.01


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        (OptimizerRules("sgd", 0.1, momentum=0.0), -0.1 * np.array([3.0, 4.0])),
        (OptimizerRules("sgd", 0.1, momentum=0.0, clipping=1.0), -0.1 * np.array([0.6, 0.8])),
        (OptimizerRules("sgd", 0.1, momentum=0.0, weight_decay=0.5), -0.1 * np.array([3.0 + 0.5 * 2.0, 4.0])),
        (OptimizerRules("adam", 0.1), -0.1 * np.array([1.0, 1.0])),
        (OptimizerRules("adam", 0.1, fixed_bias=True, clipping=1.0), -0.1 * np.array([1.0, 0.0])),
        (OptimizerRules("adamw", 0.1, weight_decay=0.5), -0.1 * np.array([1.0 + 0.5 * 2.0, 1.0])),
    ],
)
def test_one_move_of_each_optimizer(rules, expected):
    """From weights (2, 2) with gradient (3, 4); only the first weight decays."""
    optimizer = make_optimizer(rules, np.array([1.0, 0.0], np.float32))
    weights = np.full((1, 2), 2.0, np.float32)
    moved, _ = step_of(optimizer)(weights, start_memory(optimizer, weights), np.array([[3.0, 4.0]]), 0.1)
    np.testing.assert_allclose(np.asarray(moved - weights)[0], expected, rtol=1e-5)


def test_schedules_fall_to_0_and_warmup_rises_from_it():
    for schedule, middle in (("constant", 1.0), ("linear", 0.5), ("cosine", 0.5)):
        rules = OptimizerRules(learning_rate=1.0, schedule=schedule)
        assert rules.rate(0.0) == 1.0
        assert rules.rate(0.5) == pytest.approx(middle)
    rules = OptimizerRules(learning_rate=1.0, schedule="linear", warmup=0.5)
    assert [rules.rate(done) for done in (0.0, 0.25, 0.5, 0.75, 1.0)] == [0.0, 0.5, 1.0, 0.5, 0.0]


def test_a_training_that_diverges_stops_and_says_so(rng):
    X, y, offsets = lists(rng, [5, 5])
    training = learner(X, y, offsets, "squared", optimizer=OptimizerRules("sgd", 1e20), max_epochs=50)

    def train():
        for _ in range(20):
            seen.append(training.n_steps)
            training.step()

    seen = []
    with pytest.raises(ValueError, match="diverged"):
        train()
    assert training.n_steps == seen[-1]
    assert np.isfinite(np.asarray(training.snapshot()[1])).all()
