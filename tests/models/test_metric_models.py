"""AdaRank and CoordinateAscent: equal to brute force on small sets, and all that the frame gives every model."""

import io
import json
import sys

import numpy as np
import oracles
import pytest

import podium
from podium import cli
from podium.data.ranking import RankingData
from podium.metrics import METRICS, Metric, parse_metric
from podium.models.adarank import AdaRank
from podium.models.coordinate_ascent import CoordinateAscent

NAMES = [name if name != "recall" else "recall@3" for name in METRICS]  # without a cutoff it is always 1
KINDS = [AdaRank, CoordinateAscent]


class SecondPlace(Metric):
    base_name = "second"

    def value(self, ranked_labels, judged=None):
        return float(ranked_labels[1]) if len(ranked_labels) > 1 else 0.0


def make_rows(seed, n_queries=5, n_features=4):
    rng = np.random.default_rng(seed)
    n = 6 * n_queries
    X = rng.integers(-3, 4, (n, n_features)).astype(np.float32)
    kind = np.repeat(np.arange(n_queries) % 2, 6)  # queries that different features are good for
    y = np.clip(np.round(np.where(kind, X[:, 0], X[:, 2]) - 0.5 * X[:, 1] + rng.standard_normal(n)), 0, 3)
    y[::6], y[1::6] = 0, 1  # each query has two labels
    return X, y, np.repeat(np.arange(n_queries), 6)


@pytest.fixture(scope="module")
def parts(splits):
    return [
        RankingData.from_arrays(np.nan_to_num(part.X)[:, :6], part.y, part.qid)
        for part in (splits.train.subset(np.arange(20)), splits.valid.subset(np.arange(10)), splits.test)
    ]


def mean_and_values(metric, y, qid):
    """The mean of a metric, larger is better, and E of each query."""
    sign = 1 if parse_metric(metric).higher_is_better else -1

    def values(scores):
        return sign * podium.evaluate(scores, y, qid=qid, metrics=[metric]).per_query[str(metric)]

    largest, shift = max(1.0, np.nanmax(np.abs([values(y), values(-y)]))), 0 if sign > 0 else 1
    return (lambda scores: float(np.nanmean(values(scores)))), (lambda scores: shift + values(scores) / largest)


@pytest.mark.parametrize("metric", [*NAMES, "ndcg@3", SecondPlace()], ids=str)
@pytest.mark.parametrize("signs", ["positive", "both"])
def test_adarank_equals_its_definition(metric, signs):
    X, y, qid = make_rows(3)
    model = AdaRank(metric=metric, n_rounds=4, signs=signs).fit(X, y, qid)
    performance = mean_and_values(metric, y, qid)[1]
    expected = oracles.adarank(X.tolist(), performance, 5, 4, (1, -1) if signs == "both" else (1,))
    np.testing.assert_allclose(model.coef_ * X.std(axis=0, dtype=float), expected, rtol=1e-9, atol=1e-12)
    assert model.best_iteration_ == 4
    if metric in ("ndcg", "map"):
        assert np.count_nonzero(expected) > 1  # not the same feature in all rounds


@pytest.mark.parametrize("metric", [*NAMES, "ndcg@3", "auc(pooled)", SecondPlace()], ids=str)
def test_coordinate_ascent_equals_brute_force(metric):
    X, y, qid = make_rows(5, n_queries=3, n_features=3)
    model = CoordinateAscent(metric=metric, n_rounds=2, min_improvement=0, n_restarts=9, random_state=7).fit(X, y, qid)
    orders = [np.random.Generator(np.random.PCG64([7, 1, step])).permutation(3) for step in range(2)]
    value = mean_and_values(metric, y, qid)[0]
    groups = 0 * qid if str(metric) == "auc(pooled)" else qid
    one, two = (oracles.coordinate_ascent(X.tolist(), groups, value, orders[:rounds]) for rounds in (1, 2))
    Z = np.array(oracles.standardised(X.tolist()))
    expected = two if value(Z @ two) > value(Z @ one) else one
    if np.allclose(one, 1 / 3):  # no round gains anything: the second one began at a new start
        return
    np.testing.assert_allclose(model.coef_ * X.std(axis=0, dtype=float), expected, rtol=1e-6, atol=1e-9)
    assert np.abs(model.coef_ * X.std(axis=0, dtype=float)).sum() == pytest.approx(1)


@pytest.mark.parametrize("metric", ["ndcg", "map", "err", "inversions"])
def test_each_round_of_coordinate_ascent_is_at_least_as_good_and_restarts_help(metric):
    X, y, qid = make_rows(9, n_queries=20, n_features=5)
    sign = -1 if metric == "inversions" else 1
    values = {}
    for n in (1, 6):
        model = CoordinateAscent(metric=metric, n_restarts=n, n_rounds=30, min_improvement=1e-9)
        curve = sign * np.array(model.fit(X, y, qid, eval_set=(X, y, qid)).evals_["eval_0"][metric])
        assert (np.diff(curve) >= 0).all()
        values[n] = curve[-1]
    assert values[6] >= values[1]
    alone = [sign * podium.evaluate(X[:, f], y, qid=qid, metrics=[metric])[metric] for f in range(5)]
    assert values[1] > max(alone)


def test_adarank_ends_where_no_weak_ranker_is_better_than_chance():
    X, y = np.zeros((6, 2), np.float32), np.array([0, 1, 0, 1, 0, 1.0])
    with pytest.warns(UserWarning, match="AdaRank: each of the 2 features is constant or missing in all rows"):
        model = AdaRank(metric="p@1").fit(X, y, group=[3, 3])  # ties: the lower label first
    assert (model.best_iteration_, model.coef_.tolist()) == (0, [0.0, 0.0])


def test_a_weak_ranker_without_errors_has_a_finite_weight():
    y = np.tile([0.0, 1.0, 2.0], 4)
    model = AdaRank(metric="ndcg", n_rounds=3).fit(y[:, None], y, group=[3] * 4)
    assert np.isfinite(model.coef_).all()
    assert model.score(y[:, None], y, group=[3] * 4) == 1.0


@pytest.mark.parametrize("kind", KINDS)
def test_a_killed_training_ends_in_the_same_bytes_for_any_number_of_threads(kind, parts, tmp_path):
    class Killed(Exception):
        pass

    def kill(progress):
        if progress.iteration == 5:
            raise Killed

    train, valid, _ = parts
    options, more = {"eval_set": valid, "early_stopping_rounds": 8}, {"n_rounds": 9}
    more |= {"min_improvement": 0.02} if kind is CoordinateAscent else {}
    kind(**more, n_jobs=1).fit(train, **options).save(tmp_path / "whole.podium")
    kept = {"checkpoint": tmp_path / "run.check", "every": 2}
    with pytest.raises(Killed):
        kind(**more).fit(train, **options, **kept, callbacks=[kill])
    kind(**more, n_jobs=2).fit(train, **options, **kept).save(tmp_path / "resumed.podium")
    assert (tmp_path / "whole.podium").read_bytes() == (tmp_path / "resumed.podium").read_bytes()


@pytest.mark.parametrize("kind", KINDS)
def test_the_frame_gives_early_stopping_files_explanations_and_the_command_line(
    kind, parts, tmp_path, monkeypatch, capsys
):
    train, valid, test = parts
    model = kind(n_rounds=6).fit(train, eval_set=valid, early_stopping_rounds=3)
    curve = model.evals_["eval_0"]["ndcg@10"]
    assert model.best_iteration_ == 1 + int(np.argmax(curve))
    assert model.score(valid) == pytest.approx(max(curve), abs=1e-12)
    constant = podium.evaluate(np.zeros(test.n_rows), test, metrics=["ndcg@10"])["ndcg@10"]
    assert model.score(test) > constant + 0.1
    file = io.BytesIO()
    model.save(file)
    file.seek(0)
    loaded = podium.load(file)
    np.testing.assert_array_equal(loaded.predict(test), model.predict(test))
    np.testing.assert_allclose(model.scorer()(test.X), model.predict(test), rtol=1e-4, atol=1e-5)
    assert kind.__name__ in str(model.inspect())
    for name, part in zip(("train", "valid"), parts):
        podium.write_letor(part, tmp_path / f"{name}.txt")
    monkeypatch.chdir(tmp_path)
    command = f"train {kind.__name__.lower()} train.txt --valid valid.txt --out m.podium --set n_rounds=2 --json"
    monkeypatch.setattr(sys, "argv", ["podium", *command.split()])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 0
    assert json.loads(capsys.readouterr().out)["rounds"] in (1, 2)
    assert isinstance(podium.load("m.podium"), kind)


def test_what_is_not_supported_is_refused(parts, splits):
    with pytest.raises(ValueError, match="AdaRank: metric must have one value per query; auc"):
        AdaRank(metric="auc(pooled)").fit(parts[0])
    for kind in KINDS:
        with pytest.raises(ValueError, match=f"{kind.__name__} does not support missing values"):
            kind().fit(splits.train)
        with pytest.raises(ValueError, match="Did you mean"):
            kind(metric="ndgc").fit(parts[0])
