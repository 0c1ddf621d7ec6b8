"""Evaluation sets with names and several metrics: the first metric on the first set decides, the curves have all."""

import numpy as np
import pytest
from families import small_model

import podium
from podium.data.ranking import RankingData
from podium.metrics import get_policy
from podium.metrics.additive import NDCG

METRICS = ["ndcg@10", "map", "rr"]


def make_data(rng, n_queries=12):
    n = n_queries * 6
    X = rng.normal(size=(n, 3)).astype(np.float32)
    y = np.digitize(X[:, 0] + rng.normal(size=n), [0, 1]).astype(float)
    return RankingData.from_arrays(X, y, np.repeat(np.arange(n_queries), 6))


@pytest.mark.parametrize("name", ["LambdaMART", "Linear", "RankBoost", "AdaRank", "Blend", "RankNet"])
def test_curves_of_all_metrics_are_those_of_one_at_a_time(name, rng):
    train, valid, other = make_data(rng), make_data(rng), make_data(rng)
    sets = {"valid": valid, "other": other}
    model = small_model(name, eval_metric=METRICS).fit(train, eval_set=sets)
    assert list(model.evals_) == ["valid", "other"]
    for metric in METRICS:
        alone = small_model(name, eval_metric=metric).fit(train, eval_set=[valid, other])
        for part, number in (("valid", 0), ("other", 1)):
            assert model.evals_[part][metric] == alone.evals_[f"eval_{number}"][metric]
    assert model.best_score_ == model.evals_["valid"]["ndcg@10"][-1]
    assert model.best_score_ == pytest.approx(model.score(valid))


def test_the_first_metric_on_the_first_set_stops_and_is_the_score(rng):
    train, valid, other = make_data(rng), make_data(rng), make_data(rng)
    options = {"n_estimators": 60, "learning_rate": 0.5}
    model = small_model("MART", eval_metric=("map", "ndcg@10"), **options)
    model.fit(train, eval_set={"one": valid, "two": other}, early_stopping_rounds=5)
    curve = model.evals_["one"]["map"]
    assert model.best_iteration_ == 1 + int(np.argmax(curve)) == len(curve) - 5
    assert model.best_score_ == max(curve)
    assert model.score(valid) == pytest.approx(max(curve))
    alone = small_model("MART", eval_metric="map", **options).fit(train, eval_set=valid, early_stopping_rounds=5)
    assert (model.predict(valid) == alone.predict(valid)).all()


def test_a_metric_that_is_better_when_lower_has_its_own_value_as_best_score(rng):
    train, valid = make_data(rng), make_data(rng)
    model = small_model("MART", eval_metric=["inversions", "map"], n_estimators=30)
    model.fit(train, eval_set=valid, early_stopping_rounds=5)
    assert model.best_score_ == min(model.evals_["eval_0"]["inversions"])


def test_each_metric_has_its_own_policy(rng):
    train, valid = make_data(rng), make_data(rng)
    linear = NDCG(5, policy=get_policy("trec"))
    model = small_model("MART", eval_metric=["ndcg@10", linear]).fit(train, eval_set=valid)
    value = podium.evaluate(model.predict(valid), valid, metrics=[linear])[linear.name]
    assert model.evals_["eval_0"][linear.name][-1] == pytest.approx(value)
    assert value != pytest.approx(podium.evaluate(model.predict(valid), valid, metrics=["ndcg@5"])["ndcg@5"])


def test_without_evaluation_sets_there_is_no_best_score(rng, tmp_path):
    model = small_model("MART").fit(make_data(rng))
    model.save(tmp_path / "m.podium")
    assert model.best_score_ is podium.load(tmp_path / "m.podium").best_score_ is None


def test_further_training_has_the_best_score_of_its_own_curves(rng):
    train, valid = make_data(rng), make_data(rng)
    model = small_model("MART", n_estimators=4).fit(train, eval_set=valid)
    model.fit_more(train, n_estimators=30, eval_set={"valid": valid}, early_stopping_rounds=5)
    curve = model.evals_["valid"]["ndcg@10"]
    assert model.best_score_ == max(curve)
    assert model.best_iteration_ == 4 + 1 + int(np.argmax(curve))
    assert model.prune(valid).model.best_score_ is None  # which is not of these steps


def test_early_stopping_rounds_true_is_the_patience_of_the_model(rng):
    train, valid = make_data(rng), make_data(rng)
    noise = RankingData.from_arrays(train.X, rng.integers(0, 3, train.n_rows), train.qid)
    model = small_model("MART", n_estimators=200, learning_rate=0.5)
    model.fit(noise, eval_set=valid, early_stopping_rounds=True)
    assert len(model.evals_["eval_0"]["ndcg@10"]) == model.best_iteration_ + 50
    with pytest.raises(ValueError, match="early_stopping_rounds needs an eval_set to look at; got none"):
        model.fit(noise, early_stopping_rounds=True)


def test_files_checkpoints_copies_and_pictures_have_names_and_all_metrics(rng, tmp_path):
    train, valid = make_data(rng), make_data(rng)
    model = small_model("MART", eval_metric=("ndcg@10", "rbp(0.8)"))
    model.fit(train, eval_set={"valid": valid}, checkpoint=tmp_path / "run.checkpoint")
    model.save(tmp_path / "m.podium")
    loaded = podium.load(tmp_path / "m.podium")
    assert (loaded.evals_, loaded.best_score_) == (model.evals_, model.best_score_)
    assert loaded.eval_metric == ("ndcg@10", "rbp(0.8)")
    assert loaded.score(valid) == model.score(valid)
    pytest.importorskip("matplotlib")
    podium.explain.draw_curves(loaded, tmp_path / "curves.svg")
    picture = (tmp_path / "curves.svg").read_text()
    assert ">valid<" in picture
    assert all(f">{metric}<" in picture for metric in ("ndcg@10", "rbp(0.8)"))


def test_a_checkpoint_knows_sets_by_their_content_and_curves_have_the_names_of_the_last_run(rng, tmp_path):
    train, valid = make_data(rng), make_data(rng)

    def power_cut(progress):
        assert list(progress.evals) == ["valid"]
        if progress.iteration == 5:
            raise RuntimeError("dark")

    def model():
        return small_model("MART", n_estimators=8, eval_metric=METRICS)

    options = {"checkpoint": tmp_path / "run.checkpoint", "every": 2}
    with pytest.raises(RuntimeError):
        model().fit(train, eval_set={"valid": valid}, callbacks=[power_cut], **options)
    with pytest.raises(ValueError, match="evaluation set 0 is"):
        model().fit(train, eval_set={"valid": train}, **options)
    resumed = model().fit(train, eval_set={"moved": valid}, **options)
    assert resumed.evals_ == model().fit(train, eval_set={"moved": valid}).evals_


def test_lines_show_sets_and_metrics(rng, capsys):
    train, valid = make_data(rng), make_data(rng)
    model = small_model("MART", n_estimators=2, eval_metric=["ndcg@10", "map"])
    model.fit(train, eval_set={"valid": valid}, verbose=2)
    ndcg, mean = (model.evals_["valid"][metric][-1] for metric in ("ndcg@10", "map"))
    assert capsys.readouterr().out == f"2/2  valid ndcg@10 {ndcg:.4f}  valid map {mean:.4f}\n"


@pytest.mark.parametrize(
    ("eval_metric", "message"),
    [
        ([], "eval_metric must be a metric, or several with different names"),
        (["map", "map"], "eval_metric must be a metric, or several with different names"),
        (["map", "ndgc@10"], "Did you mean 'ndcg@10'"),
    ],
)
def test_metrics_that_are_none_are_refused_before_any_work(eval_metric, message):
    with pytest.raises(ValueError, match=message):
        small_model("MART", eval_metric=eval_metric).fit(None)


@pytest.mark.parametrize("eval_set", [{0: None}, {"": None}])
def test_names_of_evaluation_sets_are_texts(eval_set, rng):
    with pytest.raises(ValueError, match="eval_set must have names as keys"):
        small_model("MART").fit(make_data(rng), eval_set=eval_set)


def test_errors_name_the_set(rng):
    train = make_data(rng)
    narrow = RankingData.from_arrays(train.X[:, :2], train.y, train.qid)
    with pytest.raises(ValueError, match=r"eval_set\['valid'\] has 2 features, the model 3"):
        small_model("MART").fit(train, eval_set={"valid": narrow})
    alike = RankingData.from_arrays(train.X, np.ones(train.n_rows), train.qid)
    with pytest.raises(ValueError, match=r"eval_set\['even'\]: auc is undefined for all of its queries"):
        small_model("MART", eval_metric="auc").fit(train, eval_set={"even": alike}, early_stopping_rounds=2)


def test_the_command_line_names_sets_by_their_files(rng, tmp_path, monkeypatch, capsys):
    import json

    from podium import cli

    monkeypatch.chdir(tmp_path)
    for name in ("train", "valid"):
        podium.write_letor(make_data(rng), f"{name}.txt")
    words = ["train", "mart", "train.txt", "--valid", "valid.txt", "--out", "m.podium", "--set", "n_estimators=3"]
    monkeypatch.setattr("sys.argv", ["podium", *words, "--set", "eval_metric=ndcg@10, rbp(0.8, graded)", "--json"])
    with pytest.raises(SystemExit):
        cli.main()
    answer, model = json.loads(capsys.readouterr().out), podium.load("m.podium")
    assert list(answer["metrics"]["valid.txt"]) == list(model.evals_["valid.txt"])
    assert len(answer["metrics"]["valid.txt"]) == 2
    assert answer["best_score"] == pytest.approx(answer["metrics"]["valid.txt"]["ndcg@10"])
