"""ONNX of nets: within the tolerance of the net in float64, for every shape that a net can have."""

from itertools import product

import numpy as np
import pytest
from exchange.test_onnx import onnx, run
from families import NETS, small_model

import podium
from podium.exchange import verify
from podium.exchange.claims import TOLERANCE
from podium.exchange.engines import onnx as engine
from podium.exchange.forms import form_of
from podium.learners.net.scoring import ACTIVATIONS, Inputs, NetFunction, NetShape
from podium.models.frame.imputing import Imputation
from podium.models.nets import Net

MARGIN = 100  # by which the tolerance is above what is measured here


def random_net(seed, activation="relu", layer_norm=False, residual=False, n_nets=1, flags=False, fills=False):
    """A net as training would leave it, with features of very different scales and weights that are not small."""
    random, model = np.random.default_rng([seed, 3]), Net()
    n_features, hidden = (6, 46, 136)[seed % 3], ((16, 16), (64, 64, 8), (), (5,))[seed % 4]
    model.n_features_in_, model.n_queries_, model.best_iteration_ = n_features, 5, 1
    model.categories_, model.evals_, model.fitted_parameters_ = {}, {}, {}
    model.transform_ = model.init_ = model.imputation_ = model.best_score_ = None
    width = n_features
    if fills:
        filled = random.standard_normal(width).astype(np.float32)
        model.imputation_, width = Imputation(filled, np.sort(random.choice(width, 2, replace=False))), width + 2
    flagged = np.sort(random.choice(width, 3 * flags, replace=False)).astype(np.int64)
    centre = random.standard_normal(width) * 10.0 ** random.integers(-3, 4, width)
    inputs = Inputs(centre, 10.0 ** random.uniform(-3, 3, width), flagged)
    shape = NetShape(inputs.width, hidden, activation, layer_norm, residual)
    weights = shape.start(seed, n_nets, 0.3) * (1 + 2 * (seed % 2))
    weights = weights + random.standard_normal(weights.shape) * 0.05
    model.net_ = NetFunction(shape, inputs, weights.astype(np.float32))
    return model


def rows_of(model, seed, n_rows=200, spread=3):
    """Rows like those of training, and others up to 10^spread standard deviations away, with missing values."""
    random, inputs, n = np.random.default_rng([seed, 5]), model.net_.inputs, model.n_features_in_
    distances = random.standard_normal((n_rows, n)) * 10.0 ** random.integers(-1, spread + 1, (n_rows, 1))
    X = (inputs.centre[:n] + inputs.scale[:n] * distances).astype(np.float32)
    X[random.random(X.shape) < 0.1] = np.nan
    return X


def distance(scores, expected):
    return np.max(np.abs(scores - expected) / np.maximum(1, np.abs(expected)))


SWITCHES = list(product((False, True), (False, True), (1, 3), (False, True), (False, True)))


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_every_shape_of_net_is_within_a_hundredth_of_the_tolerance(activation):
    for seed, (layer_norm, residual, n_nets, flags, fills) in enumerate(SWITCHES):
        model = random_net(seed, activation, layer_norm, residual, n_nets, flags, fills)
        written = engine.write(form_of(model))
        onnx.checker.check_model(written.content, full_check=True)
        assert written.claim.kind == TOLERANCE
        X = rows_of(model, seed)
        expected = written.expected(X)
        for threads in (1, 4):
            scores = run(written.content, X, threads)
            assert (scores.shape, scores.dtype) == ((len(X), 1), np.float64)
            assert distance(scores[:, 0], expected) < written.claim.tolerance / MARGIN


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_the_net_in_float64_is_that_of_predict(activation):
    for seed, (layer_norm, residual, n_nets, flags, fills) in enumerate(SWITCHES):
        model = random_net(seed, activation, layer_norm, residual, n_nets, flags, fills)
        inputs = model.net_.inputs
        inputs.centre[:], inputs.scale[:] = 0.5, np.maximum(inputs.scale, 1)  # float32 loses no digits to them
        X = rows_of(model, seed, spread=0)
        expected = engine.write(form_of(model)).expected(X)
        assert np.ptp(expected) > 1e-3
        assert distance(model.predict(X), expected) < 1e-4


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
@pytest.mark.parametrize("name", NETS)
def test_a_trained_net_of_every_kind_is_exported(splits, tmp_path, name):
    pytest.importorskip("jax")
    model = small_model(name, hidden_layer_sizes=(8, 8), residual=True, layer_norm=True).fit(splits.train)
    X = splits.test.X.copy()
    X[np.random.default_rng(2).random(X.shape) < 0.05] = np.nan
    report = model.export(tmp_path / "net.onnx", to="onnx")
    scores = run((tmp_path / "net.onnx").read_bytes(), X)[:, 0]
    assert report.claim.holds(scores, report.expected(X)).all()
    assert distance(model.predict(X), scores) < 1e-5
    assert any(note.startswith("predict computes in float32: it came within") for note in report.notes)
    assert name != "RankNet" or verify(model, tmp_path / "net.onnx").holds


def test_attention_and_init_models_are_refused_with_what_to_do():
    attention, with_init = podium.SelfAttentionRanker(), random_net(1)
    vars(attention).update(vars(random_net(1)))
    with pytest.raises(ValueError, match=r"by attention to the others of its query, .* such as LambdaRank\.$"):
        form_of(attention)
    with_init.init_ = random_net(2)
    with pytest.raises(ValueError, match=r"starts from the scores of Net, .* Train it with init=None\.$"):
        form_of(with_init)
