"""Scoring in NumPy is the net that JAX trained, row by row, with missing values and far means."""

import os
import subprocess
import sys

import numpy as np
import pytest
from oracles import net_score

from podium.learners.net.network import make_network, over_nets
from podium.learners.net.scoring import ACTIVATIONS, Inputs, NetFunction, NetShape

SHAPES = [
    ((), {}),
    ((5,), {}),
    ((5, 4), {}),
    ((4, 4, 3), {"layer_norm": True, "residual": True}),
    ((3, 3), {"residual": True}),
]


def rows(rng, n=300, width=6):
    """Far means, a constant, missing values."""
    X = rng.standard_normal((n, width)).astype(np.float32)
    X[:, 1] += 300.0
    X[:, 2] = 7.0
    X[rng.random((n, width)) < 0.1] = np.nan
    X[:, 5] = np.nan_to_num(X[:, 5])
    return X


def made(rng, hidden, activation="relu", n_nets=1, **more):
    X = rows(rng)
    inputs = Inputs.of(X)
    shape = NetShape(inputs.width, hidden, activation, **more)
    weights = shape.start(3, n_nets) + rng.normal(0, 0.1, (n_nets, shape.n_weights)).astype(np.float32)
    return X, NetFunction(shape, inputs, weights)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize(("hidden", "more"), SHAPES)
def test_scores_are_those_of_the_slow_net_and_of_jax(rng, hidden, more, activation):
    X, function = made(rng, hidden, activation, n_nets=2, **more)
    expected = [np.mean([net_score(function, w, x) for w in function.weights]) for x in X[:40]]
    np.testing.assert_allclose(function.scores(X[:40]), expected, rtol=2e-4, atol=2e-5)
    network = over_nets(make_network(function.shape), 2)
    by_jax = np.asarray(network(function.weights, function.inputs.columns(X), None))
    np.testing.assert_allclose(by_jax.mean(axis=0), function.scores(X), rtol=2e-4, atol=2e-5)


def test_a_row_has_the_same_bits_whatever_is_scored_with_it(rng):
    X, function = made(rng, (64, 32))
    X = np.concatenate([X] * 30)
    whole = function.scores(X)
    for part in (slice(0, 1), slice(7, 8), slice(3, 2503), slice(4096, 4097), slice(17, 8900), slice(0, 129)):
        np.testing.assert_array_equal(function.scores(X[part]), whole[part])
    assert function.scores(X[:0]).shape == (0,)
    for n_jobs in (1, 2, 5):
        np.testing.assert_array_equal(function.scores(X, n_jobs), whole)


PLACES = """
import numpy as np
from podium.learners.net.scoring import multiply_rows, product_rows

rng = np.random.default_rng(1)
for inputs in (1, 2, 5, 16, 31, 46, 136):
    for outputs in (1, 3, 4, 8, 12, 17, 32, 100):
        h = rng.standard_normal((257, inputs), np.float32)
        matrix = rng.standard_normal((inputs, outputs), np.float32)
        order = rng.permutation(257)
        assert (multiply_rows(h[order], matrix) == multiply_rows(h, matrix)[order]).all(), (inputs, outputs)
        np.testing.assert_allclose(multiply_rows(h, matrix), h @ matrix, rtol=1e-4, atol=1e-4)
        print(product_rows(inputs, outputs), end=" ")
"""


@pytest.mark.parametrize("processor", ["", "Haswell", "Sandybridge", "Nehalem"])
def test_a_row_has_the_same_bits_at_any_place_on_any_processor(processor):
    """OpenBLAS has one set of instructions per kind of processor; older ones run on newer ones too."""
    environment = dict(os.environ) | ({"OPENBLAS_CORETYPE": processor} if processor else {})
    done = subprocess.run([sys.executable, "-c", PLACES], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.split()) == 7 * 8


def test_standardised_columns_have_mean_0_and_variance_1(rng):
    X = rows(rng)
    inputs = Inputs.of(X)
    assert inputs.flagged.tolist() == [0, 1, 2, 3, 4]
    columns = inputs.columns(X)
    assert columns.shape == (300, 11)
    for f in range(6):
        there = ~np.isnan(X[:, f])
        assert columns[there, f].mean() == pytest.approx(0, abs=1e-4)
        assert columns[there, f].std() == pytest.approx(0 if f == 2 else 1, abs=1e-4)
        assert (columns[~there, f] == 0).all()
    np.testing.assert_array_equal(columns[:, 6:], np.isnan(X[:, :5]))


def test_rows_with_missing_values_do_not_change_the_others(rng):
    X, function = made(rng, (8,))
    full = np.nan_to_num(X)
    mixed = np.concatenate([full[:5], X[:100], full[5:9]])
    np.testing.assert_array_equal(function.scores(mixed)[[0, 1, 2, 3, 4, -4, -3, -2, -1]], function.scores(full[:9]))


def test_weights_of_a_net_depend_on_its_number_and_not_on_how_many_there_are():
    shape = NetShape(4, (3,), layer_norm=True)
    np.testing.assert_array_equal(shape.start(5, 3)[:2], shape.start(5, 2))
    assert (shape.start(5, 1) != shape.start(6, 1)).any()
    assert shape.start(5, 1, bias=2.5)[0, -1] == 2.5
