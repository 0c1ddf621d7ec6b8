"""Objectives by name, by value and by function, and what bind and derivatives refuse."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

import podium
from podium.metrics import METRICS, Metric, parse_metric, register_metric
from podium.objectives import (
    OBJECTIVES,
    BoundObjective,
    Custom,
    Lambda,
    Objective,
    RankNet,
    Squared,
    parse_objective,
    register_objective,
)


def test_every_name_gives_its_objective_and_every_objective_says_what_it_is():
    assert set(OBJECTIVES) == {
        *("squared", "logistic", "ordinal", "ranknet", "hinge", "squared_hinge", "exponential", "lambda"),
        *("listnet", "listmle", "xendcg", "approxndcg", "bayesrank", "query_rmse"),
    }
    for name, kind in OBJECTIVES.items():
        assert type(parse_objective(name)) is kind
        assert parse_objective(f" {name.upper()} ").name == name
        assert kind.__doc__


def test_settings_are_passed_on_and_vary_a_value():
    assert parse_objective("lambda", metric="map", sigma=2.0) == Lambda("map", 2.0)
    assert parse_objective(RankNet(ties=True), sigma=3.0) == RankNet(3.0, True)
    assert parse_objective(Lambda, metric="err") == Lambda("err")
    value = Squared()
    assert parse_objective(value) == value


@pytest.mark.parametrize(
    ("given", "settings", "words"),
    [
        ("ranknett", {}, "Did you mean 'ranknet'"),
        ("lamda", {}, "Did you mean 'lambda'"),
        ("lambda", {"metrics": "map"}, "no setting 'metrics'; it has metric, sigma.*Did you mean 'metric'"),
        ("squared", {"sigma": 1}, "'squared' has no setting 'sigma'; it has none"),
        (RankNet(), {"alpha": 1}, "no setting 'alpha'"),
        (len, {"sigma": 1}, "'custom' has no setting"),
        (3, {}, "a name, an Objective or a function; got 3"),
    ],
)
def test_slips_are_answered_with_the_nearest_name(given, settings, words):
    with pytest.raises(ValueError, match=words):
        parse_objective(given, **settings)


def halfway(scores, labels, offsets):
    """A user's objective: half the squared error."""
    assert offsets[-1] == len(scores)
    return 0.5 * (scores - labels), np.full(len(scores), 0.5)


def run(objective, labels, offsets, scores, queries=None, **weights):
    g, h = np.full((2, len(labels)), np.nan, dtype=np.float32)
    objective.bind(labels, offsets, **weights).derivatives(np.asarray(scores, dtype=float), g, h, queries)
    return g, h


def test_a_function_is_an_objective():
    objective = parse_objective(halfway)
    assert isinstance(objective, Custom)
    assert not objective.has_loss
    g, h = run(objective, [1.0, 0, 2], [0, 2, 3], [0.0, 1, 1], weights=[1, 2, 1], query_weights=[1, 10])
    np.testing.assert_array_equal(g, [-0.5, 1.0, -5.0])
    np.testing.assert_array_equal(h, [0.5, 1.0, 5.0])
    g, _ = run(objective, [1.0, 0, 2], [0, 2, 3], [0.0, 1, 1], queries=np.array([1]))
    np.testing.assert_array_equal(g, [np.nan, np.nan, -0.5])
    with pytest.raises(ValueError, match="no loss"):
        objective.bind([1.0], [0, 1]).loss(np.zeros(1))


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (lambda s, y, o: s, "two arrays, gradients and hessians; got ndarray"),
        (lambda s, y, o: (s, s, s), "got 3 values"),
        (lambda s, y, o: (s[:1], s), r"gradients of shape \(2,\); got shape \(1,\)"),
        (lambda s, y, o: (s, s + np.inf), "finite hessians; number 0 is inf"),
    ],
)
def test_what_a_function_returns_is_checked(result, words):
    with pytest.raises(ValueError, match=words):
        run(parse_objective(result), [1.0, 0.0], [0, 2], [0.0, 1.0])


@pytest.mark.parametrize(
    ("labels", "offsets", "more", "words"),
    [
        ([0.0, np.nan], [0, 2], {}, r"labels must be finite; labels\[1\] is nan"),
        ([[0.0]], [0, 1], {}, "flat list"),
        ([0.0, 1.0], [0, 1], {}, "from 0 to the number of labels, 2; they go from 0 to 1"),
        ([0.0, 1.0], [], {}, "from 0 to the number of labels"),
        ([0.0, 1.0, 2.0], [0, 2, 1, 3], {}, "fall from 2 to 1 at query 1"),
        ([0.0, 1.0], [0, 2], {"weights": [1.0]}, "one number per document, 2; got 1"),
        ([0.0, 1.0], [0, 2], {"weights": [1.0, -1.0]}, r"must not be negative; weights\[1\] is -1"),
        ([0.0, 1.0], [0, 2], {"query_weights": [1.0, 1.0]}, "one number per query, 1; got 2"),
        ([0.0, 1.0], [0, 2], {"query_weights": [np.inf]}, "must be finite"),
    ],
)
def test_bind_says_what_is_wrong(labels, offsets, more, words):
    with pytest.raises(ValueError, match=words):
        RankNet().bind(labels, offsets, **more)


def test_derivatives_say_what_is_wrong():
    bound = RankNet().bind([0.0, 1.0, 2.0], [0, 2, 3])
    good, out = np.zeros(3), np.empty(3, dtype=np.float32)
    frozen = out.copy()
    frozen.flags.writeable = False
    for arguments, words in (
        ((np.zeros(2), out, out), r"shape \(3,\); got shape \(2,\)"),
        ((np.array([0, np.nan, 0]), out, out), "scores must be finite; that of row 2 is nan"),
        ((good, np.empty(3), out), "gradients is filled in place.*got float64"),
        ((good, out, np.empty(2, np.float32)), "hessians is filled in place"),
        ((good, out, frozen), "hessians is filled in place"),
        ((good, [0, 0, 0], out), "got list"),
        ((good, out, out, np.array([2])), r"0\.\.1; got 2\.\.2"),
        ((good, out, out, np.array([-1])), "queries must be in"),
        ((good, out, out, np.array([0.0])), "query numbers; got float64"),
    ):
        with pytest.raises(ValueError, match=words):
            bound.derivatives(*arguments)
    bound.derivatives(good, out, out.copy(), np.array([], dtype=float))  # no query: nothing to do
    bound.derivatives(np.array([0.0, 0.0, np.nan]), out, out.copy(), [0])  # a bad score elsewhere is not looked at


def counts(scores, labels, offsets):
    """The loss exp(s) - y s."""
    return np.exp(scores) - labels, np.exp(scores)


@pytest.fixture
def registered(monkeypatch):
    """Registrations of the test are gone after it."""
    for table in (OBJECTIVES, METRICS):
        monkeypatch.setattr(table, "_rows", dict(table._rows))


def test_registered_objectives_are_known_by_name(registered):
    @register_objective
    @dataclass(frozen=True)
    class Halved(Squared):
        name: ClassVar[str] = "halved"

    assert register_objective(counts) is counts
    assert parse_objective("halved") == Halved()
    assert parse_objective(" Counts ") == parse_objective("counts")
    labels, offsets, scores = [0.0, 2.0], [0, 2], [0.0, 1.0]
    np.testing.assert_allclose(run(parse_objective("counts"), labels, offsets, scores)[0], [1, np.e - 2], rtol=1e-6)
    with pytest.raises(ValueError, match="'counts' has no setting 'sigma'; it has none"):
        parse_objective("counts", sigma=1)
    with pytest.raises(ValueError, match="Did you mean 'halved'"):
        parse_objective("halve")
    register_objective(Halved)  # once more


def test_an_objective_of_public_parts_has_derivatives_and_a_loss(registered):
    @register_objective
    class Poisson(Objective):
        name = "poisson"

    class BoundPoisson(BoundObjective, of=Poisson):
        def run(self, scores, queries, out):
            for q in queries:
                rows = slice(self.offsets[q], self.offsets[q + 1])
                rates = np.exp(scores[rows])
                if out.costs is not None:
                    out.costs[q] = np.sum(rates - self.labels[rows] * scores[rows])
                else:
                    out.gradients[rows], out.hessians[rows] = rates - self.labels[rows], rates

    objective, scores = parse_objective("poisson"), [0.0, 1.0, 0.0]
    gradients, hessians = run(objective, [1, 2, 3], [0, 2, 3], scores)
    np.testing.assert_allclose(gradients, [1 - 1, np.e - 2, 1 - 3], rtol=1e-6)
    np.testing.assert_allclose(hessians, [1, np.e, 1], rtol=1e-6)
    assert objective.bind([1, 2, 3], [0, 2, 3]).loss(np.array(scores)) == pytest.approx(1 + np.e - 2 + 1)


def test_a_name_belongs_to_one_objective(registered):
    other = dataclass(frozen=True)(type("Other", (Squared,), {"name": "ranknet"}))
    with pytest.raises(ValueError, match=r"'ranknet' is the name of an objective already, podium.*RankNet. Choose"):
        register_objective(other)
    with pytest.raises(ValueError, match="must be letters a to z and underscores; got '<lambda>'"):
        register_objective(lambda scores, labels, offsets: (scores, scores))
    with pytest.raises(ValueError, match="must be a class of Objective or a function; got 3"):
        register_objective(3)


class TopGrade(Metric):
    base_name = "topgrade"

    def value(self, ranked_labels, judged=None):
        return float(max(ranked_labels[: self.cutoff], default=0) >= 2)


def test_models_are_trained_saved_and_evaluated_with_registered_names(registered, monkeypatch, splits, tmp_path):
    register_objective(counts)
    assert register_metric(TopGrade) is TopGrade
    assert parse_metric("topgrade@3") == TopGrade(3)
    model = podium.Boosted(objective="counts", n_estimators=3).fit(splits.train)
    lambdas = podium.LambdaMART(metric="topgrade@1", n_estimators=2).fit(splits.train)
    assert podium.evaluate(lambdas.predict(splits.test), splits.test, metrics=["topgrade@3"])["topgrade@3"] > 0
    values = podium.LambdaMART(metric=TopGrade(1), n_estimators=2).fit(splits.train)
    for number, saved in enumerate((model, lambdas, values)):
        path = tmp_path / f"{number}.podium"
        saved.save(path)
        np.testing.assert_array_equal(podium.load(path).predict(splits.test), saved.predict(splits.test))
    monkeypatch.undo()
    for number, name in enumerate(("objective.*got 'counts'", "got 'topgrade@1'", "got 'topgrade'")):
        with pytest.raises(ValueError, match=rf"{name}.* If a plugin registers it, import that module first"):
            podium.load(tmp_path / f"{number}.podium")


def test_a_name_belongs_to_one_metric(registered):
    for name in ("ndcg", "mrr"):
        with pytest.raises(ValueError, match=f"'{name}' is the name of a metric already, podium.metrics"):
            register_metric(type("Other", (Metric,), {"base_name": name}))
    with pytest.raises(ValueError, match="a metric must be a class of Metric; got TopGrade"):
        register_metric(TopGrade())
