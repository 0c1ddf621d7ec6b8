"""The list-aware net: a document's score depends on its list and not on the order of its rows."""

import itertools

import jax
import numpy as np
import pytest

from podium.learners.net.attention import AttentionFunction, AttentionShape, list_blocks
from podium.learners.net.attention_network import make_attention
from podium.learners.net.device import DeviceRules, DeviceRunner
from podium.learners.net.optimization import OptimizerRules, make_optimizer, start_memory
from podium.learners.net.scoring import Inputs
from podium.learners.net.training import ListRunner, NetRules
from podium.objectives import parse_objective

LENGTHS = [1, 5, 12, 9, 30, 3]


def made(rng, n_nets=1):
    offsets = np.concatenate([[0], np.cumsum(LENGTHS)])
    X = rng.standard_normal((offsets[-1], 5)).astype(np.float32)
    X[3, 1] = np.nan
    inputs = Inputs.of(X)
    shape = AttentionShape(inputs.width, 8, 2, 2)
    weights = shape.start(4, n_nets) + rng.normal(0, 0.1, (n_nets, shape.n_weights)).astype(np.float32)
    return X, offsets, AttentionFunction(shape, inputs, weights)


def test_permuted_documents_have_permuted_scores(rng):
    X, offsets, function = made(rng)
    order = np.concatenate([a + rng.permutation(b - a) for a, b in itertools.pairwise(offsets)])
    np.testing.assert_allclose(
        function.scores(X[order], offsets), function.scores(X, offsets)[order], rtol=1e-4, atol=1e-5
    )


def test_a_score_depends_on_its_own_list_only(rng):
    X, offsets, function = made(rng)
    whole = function.scores(X, offsets)
    alone = [function.scores(X[a:b], np.array([0, b - a])) for a, b in itertools.pairwise(offsets)]
    np.testing.assert_allclose(np.concatenate(alone), whole, rtol=1e-4, atol=1e-5)
    changed = X.copy()
    changed[offsets[2]] += 3.0
    moved = np.abs(function.scores(changed, offsets) - whole) > 1e-6
    assert moved[offsets[2] : offsets[3]].all()
    assert not moved[: offsets[2]].any()
    assert not moved[offsets[3] :].any()


def test_the_number_of_threads_changes_no_bit(rng):
    X, offsets, function = made(rng)
    many = np.concatenate([[0], np.cumsum(np.tile(np.diff(offsets), 200))])
    assert len(list_blocks(np.diff(many))) > 2
    found = [function.scores(np.tile(X, (200, 1)), many, n_jobs) for n_jobs in (1, 2, 5)]
    np.testing.assert_array_equal(found[1], found[0])
    np.testing.assert_array_equal(found[2], found[0])


def test_scores_are_those_of_jax(rng):
    X, offsets, function = made(rng, n_nets=2)
    network = make_attention(function.shape)
    expected = []
    for a, b in itertools.pairwise(offsets):
        x, there = np.zeros((1, 32, function.inputs.width), np.float32), np.zeros((1, 32), bool)
        x[0, : b - a], there[0, : b - a] = function.inputs.columns(X[a:b]), True
        expected.append(np.mean([np.asarray(network(w, x, there))[0, : b - a] for w in function.weights], axis=0))
    np.testing.assert_allclose(function.scores(X, offsets), np.concatenate(expected), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("n_nets", [1, 2])
def test_host_and_device_make_the_same_moves(rng, n_nets):
    X, offsets, function = made(rng, n_nets)
    columns, y = function.inputs.columns(X), rng.integers(0, 3, len(X)).astype(np.float64)
    optimizer = OptimizerRules("sgd", 0.05)
    rules = NetRules(n_nets=n_nets, optimizer=optimizer, batch_size=25)
    target = parse_objective("ranknet").bind(y, offsets)
    own = DeviceRules(function.shape, optimizer, n_nets=n_nets)
    form = target.on_device()
    runners = [
        ListRunner(columns, offsets, target, function.shape, rules),
        DeviceRunner(columns, offsets, lambda epoch: form, own, 25, rules.rates),
    ]
    memory = start_memory(make_optimizer(optimizer, function.shape.penalised()), function.weights)
    moved = [np.asarray(runner.epoch(1, function.weights, memory)[0]) for runner in runners]
    np.testing.assert_allclose(moved[0], moved[1], rtol=1e-4, atol=1e-5)
    assert np.abs(moved[0] - function.weights).max() > 1e-3


def test_the_gradient_is_that_of_finite_differences(rng):
    X, offsets, function = made(rng)
    y = rng.integers(0, 3, len(X)).astype(np.float64)
    target = parse_objective("ranknet").bind(y, offsets)
    direction = rng.standard_normal(function.shape.n_weights).astype(np.float32)
    columns = function.inputs.columns(X)
    rules = NetRules(batch_size=1000, optimizer=OptimizerRules("sgd", 1.0))
    runner = ListRunner(columns, offsets, target, function.shape, rules)
    memory = start_memory(make_optimizer(rules.optimizer, function.shape.penalised()), function.weights)
    slope = np.asarray(function.weights - runner.epoch(0, function.weights, memory)[0])[0] @ direction

    def loss(step):
        moved = AttentionFunction(
            function.shape, function.inputs, function.weights.astype(np.float64) + step * direction
        )
        return target.loss(moved.scores(X, offsets)) / len(LENGTHS)

    assert slope == pytest.approx((loss(1e-5) - loss(-1e-5)) / 2e-5, rel=2e-2)


def test_dropout_draws_anew_for_every_key(rng):
    _, _, function = made(rng)
    network = make_attention(function.shape, dropout=0.5)
    x, there = rng.standard_normal((1, 6, function.inputs.width)).astype(np.float32), np.ones((1, 6), bool)
    one, same, other = (network(function.weights[0], x, there, jax.random.key(seed)) for seed in (1, 1, 2))
    np.testing.assert_array_equal(np.asarray(one), np.asarray(same))
    assert (np.asarray(one) != np.asarray(other)).any()


def test_blocks_have_every_query_once_and_room_for_it(rng):
    lengths = rng.integers(0, 700, 200)
    blocks = list_blocks(lengths)
    assert sorted(np.concatenate([queries for queries, _ in blocks]).tolist()) == np.flatnonzero(lengths).tolist()
    assert all((lengths[queries] <= width).all() for queries, width in blocks)
