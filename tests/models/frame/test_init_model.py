"""Base models: trained with the model that starts from them, and never on what it is judged by."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import podium
from podium import AutoRanker, Bagged, Blend, LambdaMART, LambdaSMART, Linear, RankingData, Stack, cli, explain, lab
from podium.lab.tuning.tuning import tune
from podium.models.frame.init_model import copy_unfitted, is_fitted
from podium.models.registry import MODELS
from podium.pipelines.auto.cross_validation import cross_validate

STARTING = [name for name in MODELS if "init" in MODELS[name]().get_params(deep=False)]
SMALL = {"n_estimators": 2, "max_leaf_nodes": 4, "max_epochs": 1, "hidden_layer_sizes": (2,), "embedding_size": 2}
TREE = podium.RegressionTree(max_leaf_nodes=400, min_samples_leaf=1)  # has learned every label by heart
N_QUERIES = 40
CHANCE = 0.72  # ndcg@10 of any order of ten documents with three grades at random


def noise(seed: int = 0, n_queries: int = N_QUERIES) -> RankingData:
    """Ten documents per query, features and labels that know nothing of each other."""
    draws = np.random.default_rng(seed)
    X = draws.standard_normal((10 * n_queries, 5)).astype(np.float32)
    return RankingData.from_arrays(X, draws.integers(0, 3, len(X)), np.repeat(np.arange(n_queries), 10))


DATA, TRAIN, VALID = noise(), noise().subset(np.arange(N_QUERIES) < 30), noise().subset(np.arange(N_QUERIES) >= 30)


def starting(name: str, init: Any) -> Any:
    if MODELS[name].__module__.endswith(("nets", "attention")):
        pytest.importorskip("jax")
    known = {key: value for key, value in SMALL.items() if key in MODELS[name]().get_params(deep=False)}
    model = MODELS[name](**known, init=init, n_jobs=1)
    return model


def in_folds(model: Any) -> float:
    return cross_validate(model, DATA, folds=4, metrics=["ndcg@10"], n_jobs=1).evaluation["ndcg@10"]


def tuned(model: Any) -> float:
    return tune(model, {"eval_metric": [None, "map"]}, TRAIN, VALID, trials=2, sampler="random").value


def tuned_choice(model: Any) -> float:
    space = {"init": [Linear(max_iter=1), model.init]}
    return tune(clone(model).set_params(init=None), space, TRAIN, VALID, trials=2, sampler="random").value


def tuned_member(model: Any) -> float:
    space = {"model": [Linear(max_iter=1), model]}
    bag = Bagged(Linear(max_iter=1), n_members=1)
    return tune(bag, space, TRAIN, VALID, trials=2, sampler="random").value


def stacked(model: Any) -> float:
    """1 if the second ranker relies on the scores, else 0: scores of unseen rows would tell it nothing."""
    stack = Stack([model], folds=4, final=Linear(l2_regularization=1e-6), normalization=None).fit(DATA)
    return float(stack.final_.coef_[0] > 1)


def ablated(model: Any) -> float:
    return explain.ablation(model, TRAIN, VALID, groups={"two": [0, 1]}, metric="ndcg@10").baseline


def planned(model: Any) -> float:
    return in_folds(AutoRanker(plan={"members": [model], "weights": [1.0]}))


ENTRIES = {
    "cross_validate": in_folds,
    "cross_validate a bag": lambda model: in_folds(Bagged(model, n_members=1)),
    "cross_validate a blend": lambda model: in_folds(Blend([Linear(max_iter=1), model], weights=[0, 1])),
    "cross_validate a bag in a blend": lambda model: in_folds(Blend([Bagged(model, n_members=1)])),
    "cross_validate a plan": planned,
    "cross_validate a base of a base": lambda model: in_folds(LambdaSMART(n_estimators=2, init=model)),
    "tune": tuned,
    "tune, as a choice": tuned_choice,
    "tune, inside of a choice": tuned_member,
    "Stack": stacked,
    "cross_validate a stack": lambda model: in_folds(Stack([model], folds=2)),
    "ablation": ablated,
}


@pytest.mark.parametrize("name", STARTING)
@pytest.mark.parametrize("entry", ENTRIES)
def test_a_fitted_base_model_is_refused_where_it_may_have_seen_what_it_is_judged_by(name: str, entry: str) -> None:
    model = starting(name, clone(TREE).fit(DATA))
    with pytest.raises(ValueError, match=rf"the init of {name} is a fitted RegressionTree.* Give it unfitted, init="):
        ENTRIES[entry](model)


# One model of trees and one net stand for all where others wrap them.
UNFITTED = [(name, entry) for name in STARTING for entry in ("cross_validate", "tune")]
UNFITTED += [(name, entry) for name in ("LambdaSMART", "RankNet") for entry in ENTRIES if (name, entry) not in UNFITTED]


@pytest.mark.parametrize(("name", "entry"), UNFITTED)
def test_noise_stays_noise_with_a_base_model_that_is_not_fitted(name: str, entry: str) -> None:
    assert ENTRIES[entry](starting(name, TREE)) < CHANCE + 0.08


def test_the_noise_would_show_a_leak() -> None:
    seen = clone(TREE).fit(DATA)
    assert podium.evaluate(seen.predict(VALID), VALID, metrics=["ndcg@10"])["ndcg@10"] > 0.99
    orders = [noise(seed).X[:, 0] for seed in range(20)]
    values = [podium.evaluate(scores, DATA, metrics=["ndcg@10"])["ndcg@10"] for scores in orders]
    assert np.mean(values) == pytest.approx(CHANCE, abs=0.01)


def test_an_unfitted_base_model_is_trained_on_the_rows_of_each_fit() -> None:
    model = LambdaSMART(n_estimators=2, init=Linear(max_iter=3)).fit(TRAIN)
    alone = Linear(max_iter=3).fit(TRAIN)
    given = LambdaSMART(n_estimators=2, init=alone).fit(TRAIN)
    np.testing.assert_array_equal(model.predict(VALID), given.predict(VALID))
    np.testing.assert_array_equal(model.init_.coef_, alone.coef_)
    assert not is_fitted(model.init)
    model.fit(VALID)
    np.testing.assert_array_equal(model.init_.coef_, Linear(max_iter=3).fit(VALID).coef_)


@pytest.mark.parametrize("name", STARTING)
def test_clone_gives_an_unfitted_base_model_and_fit_trains_it(name: str) -> None:
    model = starting(name, Linear(max_iter=3).fit(VALID)).fit(TRAIN)
    made = clone(model)
    assert not is_fitted(made)
    assert not is_fitted(made.init)
    made.fit(TRAIN)
    np.testing.assert_array_equal(made.init_.coef_, Linear(max_iter=3).fit(TRAIN).coef_)


def test_weights_tables_and_categories_go_to_the_base_model_too() -> None:
    pandas = pytest.importorskip("pandas")
    weights = np.linspace(0.5, 2, 30)
    trees = {"n_estimators": 2, "max_leaf_nodes": 4}
    table = pandas.DataFrame(TRAIN.X, columns=list("abcde")).assign(
        colour=pandas.Categorical(np.where(TRAIN.y > 1, "red", "blue"))
    )
    model = LambdaSMART(**trees, init=podium.MART(**trees))
    model.fit(table, TRAIN.y, TRAIN.qid, query_weight=weights, eval_set=(table, TRAIN.y, TRAIN.qid))
    alone = podium.MART(**trees).fit(table, TRAIN.y, TRAIN.qid, query_weight=weights)
    np.testing.assert_array_equal(model.init_.predict(table), alone.predict(table))
    np.testing.assert_allclose(model.predict(table), model.tree_contributions(table).sum(axis=1) + alone.predict(table))


def test_other_estimators_are_given_fitted_or_as_pointwise() -> None:
    fitted = LambdaSMART(n_estimators=2, init=Ridge().fit(TRAIN.X, TRAIN.y)).fit(TRAIN)
    assert fitted.predict(VALID).shape == (100,)
    with pytest.raises(ValueError, match=r"init is a Ridge that is not fitted.*Pointwise\(Ridge"):
        clone(fitted).fit(TRAIN)
    with pytest.raises(ValueError, match=r"fitted Ridge.*such as init=Pointwise\(estimator\)"):
        in_folds(fitted)
    assert in_folds(LambdaSMART(n_estimators=2, init=podium.Pointwise(Ridge()))) < CHANCE + 0.08
    with pytest.raises(ValueError, match=r"init must be a model \(as text"):
        LambdaSMART(init="linear").fit(TRAIN)


def test_scores_are_refused_as_base_where_parts_of_the_rows_are_trained_on() -> None:
    model = LambdaMART(n_estimators=2, init=np.zeros(DATA.n_rows))
    for one in (Stack([model]), Bagged(model), Blend([Bagged(model)])):
        with pytest.raises(ValueError, match="LambdaMART starts from one score per training row"):
            one.fit(DATA)
    Bagged(clone(model).set_params(feature_fraction=0.5), sample="seeds", n_members=2).fit(DATA)


@pytest.mark.parametrize(
    "model",
    [
        podium.Pointwise(DecisionTreeRegressor(), standardize=False),
        podium.Pairwise(DecisionTreeClassifier(), standardize=False),
        podium.Pairwise(LogisticRegression()),
        LambdaMART(n_estimators=60, min_samples_leaf=1),
        Bagged(LambdaMART(n_estimators=60, min_samples_leaf=1), n_members=1),
    ],
    ids=lambda model: repr(model)[:30],
)
def test_what_is_fitted_already_is_trained_again_in_folds(model: Any) -> None:
    """Also the estimator, classifier or model that is a parameter of it."""
    model = clone(model).fit(DATA)
    inner = {name: getattr(model, name) for name in ("estimator", "classifier", "model") if hasattr(model, name)}
    for name, value in inner.items():
        trained = value.fit(DATA) if hasattr(value, "predict") and name == "model" else value.fit(DATA.X, DATA.y > 1)
        model.set_params(**{name: trained})
    assert in_folds(model) < CHANCE + 0.08


def test_members_keep_a_fitted_base_model_however_deep_it_is() -> None:
    base = Linear(max_iter=3).fit(VALID)
    model = Blend([Bagged(LambdaSMART(n_estimators=2, init=base), n_members=2)], normalization=None).fit(TRAIN)
    for member in model.members_[0].members_:
        np.testing.assert_array_equal(member.init_.coef_, base.coef_)
    copied: Any = copy_unfitted(LambdaSMART(init=LambdaSMART(init=base)))
    assert (is_fitted(copied.init), copied.init.init) == (False, base)


def test_a_model_with_an_unfitted_base_is_saved_as_it_is_also_inside_of_others(tmp_path: Any) -> None:
    inner = LambdaSMART(n_estimators=2, init=Linear(max_iter=3, transform=("zscore",)))
    for number, model in enumerate([inner, Bagged(inner, n_members=2), LambdaSMART(n_estimators=1, init=inner)]):
        model.fit(TRAIN).save(tmp_path / f"{number}.podium")
        loaded = podium.load(tmp_path / f"{number}.podium")
        np.testing.assert_array_equal(loaded.predict(VALID), model.predict(VALID))
        assert repr(loaded) == repr(clone(model).set_params(n_jobs=None))
        np.testing.assert_array_equal(clone(loaded).fit(VALID).predict(TRAIN), clone(model).fit(VALID).predict(TRAIN))
    with pytest.raises(ValueError, match=r"an init model that is not fitted can be saved\. Set another one first"):
        Bagged(LambdaSMART(n_estimators=1, init=Linear(max_iter=3).fit(TRAIN)), n_members=1).fit(TRAIN).save("m.podium")


def test_a_training_with_an_unfitted_base_goes_on_from_its_checkpoint(tmp_path: Any) -> None:
    def stop(progress: Any) -> None:
        if progress.iteration == 3:
            raise RuntimeError("killed")

    def model() -> Any:
        return LambdaSMART(n_estimators=5, max_leaf_nodes=4, init=Linear(max_iter=3))

    kept: dict[str, Any] = {"checkpoint": tmp_path / "c", "every": 1}
    with pytest.raises(RuntimeError, match="killed"):
        model().fit(TRAIN, **kept, callbacks=[stop])
    resumed, whole = model().fit(TRAIN, **kept), model().fit(TRAIN)
    np.testing.assert_array_equal(resumed.predict(VALID), whole.predict(VALID))
    with pytest.raises(RuntimeError, match="killed"):
        model().fit(TRAIN, **kept, callbacks=[stop])
    with pytest.raises(ValueError, match="another training"):
        model().set_params(init__max_iter=1).fit(TRAIN, **kept)


def test_a_base_model_that_fails_or_is_interrupted_leaves_the_model_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    from podium.models.frame.plan import Interrupted

    model = LambdaSMART(n_estimators=2, init=Linear(max_iter=3)).fit(TRAIN)
    before = model.predict(VALID)
    for error in (Interrupted("stopped"), ValueError("wrong")):

        def fail(*_: Any, error: BaseException = error, **__: Any) -> None:
            raise error

        monkeypatch.setattr(Linear, "fit", fail)
        with pytest.raises((KeyboardInterrupt, ValueError)):
            model.fit(VALID)
        np.testing.assert_array_equal(model.predict(VALID), before)


# --- files -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def work(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)
    for name, data in (("all.txt", DATA), ("train.txt", TRAIN), ("valid.txt", VALID)):
        podium.write_letor(data, tmp_path / name)
    clone(TREE).fit(DATA).save("base.podium")
    return tmp_path


def command(monkeypatch: pytest.MonkeyPatch, capsys: Any, *words: str) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["podium", *words])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    shown = capsys.readouterr()
    return int(ended.value.code or 0), shown.out, shown.err


COMMANDS = {
    "cross-validate": ["cross-validate", "lambdasmart", "all.txt", "--set", "n_estimators=2"],
    "tune": ["tune", "lambdasmart", "train.txt", "--valid", "valid.txt", "--out", "m.podium", "--trials", "1"],
    "train": ["train", "stack", "train.txt", "--out", "m.podium"],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_commands_refuse_a_file_and_take_a_model_as_base(
    work: Any, monkeypatch: pytest.MonkeyPatch, capsys: Any, name: str
) -> None:
    def base(text: str) -> str:
        return f"members=lambdasmart(n_estimators=2, init={text})" if name == "train" else f"init={text}"

    code, _, err = command(monkeypatch, capsys, *COMMANDS[name], "--set", base("base.podium"))
    assert code == 2
    assert "the init of LambdaSMART is a fitted RegressionTree" in err
    code, _, err = command(monkeypatch, capsys, *COMMANDS[name], "--set", base("lear"))
    assert code == 2
    assert "there is no file 'lear', and no model of this name. Did you mean 'linear'?" in err or name == "train"
    assert command(monkeypatch, capsys, *COMMANDS[name], "--set", base("linear(max_iter=3)"))[0] == 0


def test_train_takes_both_and_says_which(work: Any, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    import json

    for text in ("base.podium", "linear(max_iter=3)"):
        words = ["train", "lambdasmart", "train.txt", "--out", "m.podium", "--set", f"init={text}", "--json"]
        code, out, _ = command(monkeypatch, capsys, *words, "--set", "n_estimators=2")
        assert code == 0
        assert json.loads(out)["parameters"]["init"] == text
        assert is_fitted(podium.load("m.podium").init) == (text == "base.podium")


EXPERIMENT = """
name = "noise"
metrics = ["ndcg@10"]
[data]
files = ["all.txt"]
[folds]
k = 3
[models.Tree]
kind = "regressiontree"
max_leaf_nodes = 400
min_samples_leaf = 1
[models.Smart]
kind = "lambdasmart"
n_estimators = 2
init = "{init}"
"""


def test_experiments_refuse_a_fitted_base_and_train_others_in_each_fold(work: Any) -> None:
    (work / "e.toml").write_text(EXPERIMENT.format(init="base.podium"))
    with pytest.raises(ValueError, match=r"models\.Smart: the init of LambdaSMART is a fitted RegressionTree"):
        lab.read_experiment("e.toml")
    given = {"name": "noise", "metrics": ["ndcg@10"], "data": {"files": ["all.txt"]}}
    for init in (podium.load("base.podium"), np.zeros(DATA.n_rows)):
        models = {"Smart": {"kind": "lambdasmart", "init": init}}
        with pytest.raises(ValueError, match=r"models\.Smart: .*Give"):
            lab.Experiment(**given, models=models)
    nested = {"Bag": {"kind": "bagged", "model": "lambdasmart(init=base.podium)"}}
    with pytest.raises(ValueError, match=r"models\.Bag: the init of LambdaSMART is a fitted RegressionTree"):
        lab.Experiment(**given, models=nested)
    with pytest.raises(ValueError, match=r"models\.Smart\.init: init must be the file of a saved model, or a model"):
        lab.Experiment(**given, models={"Smart": {"kind": "lambdasmart", "init": "bse.podium"}})


@pytest.mark.slow
@pytest.mark.parametrize("init", ["@Tree", "regressiontree(max_leaf_nodes=400, min_samples_leaf=1)"])
def test_noise_stays_noise_in_experiments(work: Any, init: str) -> None:
    space = "[models.Smart.space]\nmax_leaf_nodes = [4, 8]\n"
    (work / "e.toml").write_text(EXPERIMENT.format(init=init) + space)
    outcome = lab.run("e.toml", "results", n_jobs=1)
    assert not outcome.failures
    runs = [run for run in outcome.results.runs if run.model == "Smart"]
    assert len(runs) == 3
    values = [run.values["standard"]["ndcg@10"] or 0.0 for run in runs]
    assert np.mean(values) < CHANCE + 0.08
