"""Experiments as data: what is written is what is read, and mistakes are named with their path and the nearest word."""

from __future__ import annotations

import copy
import functools
import json
import math
import operator
import pickle
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import podium
from podium.lab.experiments.experiment import PRESETS, Experiment, find_file, presets, read_experiment
from podium.lab.experiments.making import make, needed_by, with_seed
from podium.metrics.registry import parse_metric

SMALL: dict[str, Any] = {"name": "small", "data": {"files": ["a.txt"]}, "models": {"LambdaMART": {}}}


def changed(**values: Any) -> dict[str, Any]:
    return SMALL | values


def of_model(name: str = "LambdaMART", **settings: Any) -> dict[str, Any]:
    return changed(models={name: settings})


def of_table(**values: Any) -> dict[str, Any]:
    return changed(published=[{"title": "t", "model": "LambdaMART", "policy": "standard"} | values])


WRONG = {
    "top key": (changed(metric=["map"]), "metric: unknown key. Did you mean 'metrics'?"),
    "shared key": (changed(shard={}), "shard: unknown key. Did you mean 'shared'?"),
    "shared value": (changed(shared={"trees": 3}), "shared: expected tables of settings"),
    "like": (
        changed(shared={"trees": {}}, models={"LambdaMART": {"like": "tree"}}),
        "models.LambdaMART.like: unknown table of shared settings 'tree'. Did you mean 'trees'?",
    ),
    "data key": (changed(data={"file": "a"}), "data.file: unknown key. Did you mean 'files'?"),
    "data set": (changed(data={"name": "mq2009"}), "data.name: unknown data set 'mq2009'. Did you mean 'mq2008'?"),
    "two data": (changed(data={"name": "mq2008", "files": ["a"]}), "data: give one of: name"),
    "no test": (changed(data={"train": "a"}), "data: give train and test"),
    "fold kind": (changed(folds={"kind": "rotate"}), "folds.kind: input should be 'rotation', 'k-fold' or 'given'"),
    "fold key": (changed(folds={"kk": 3}), "folds.kk: unknown key. Did you mean 'k'?"),
    "k": (changed(folds={"k": 2}), "folds.k: input should be greater than or equal to 3; got 2."),
    "k as text": (changed(folds={"k": "5"}), "folds.k: input should be a valid integer; got '5'."),
    "metric": (changed(metrics=["ndcg@10", "ndgc@5"]), "metrics[1]: metric must be"),
    "criterion": (changed(criterion="map+menndcg"), "criterion: metric must be"),
    "policy": (changed(policies=["letor"]), "policies[0]: unknown policy 'letor'. Did you mean 'letor4'?"),
    "baseline": (changed(baseline="LambdaMRT"), "baseline: unknown model 'LambdaMRT'. Did you mean 'LambdaMART'?"),
    "budget": (changed(budget={"trials": 0}), "budget.trials: input should be greater than or equal to 1; got 0."),
    "no name": ({key: SMALL[key] for key in ("data", "models")}, "name: expected a value but found none."),
    "no models": (changed(models={}), "models: expected at least one model"),
    "model": (of_model("LambdaMRT"), "models.LambdaMRT.kind: unknown model 'lambdamrt'. Did you mean 'lambdamart'?"),
    "parameter": (
        of_model(max_leafs=3),
        "models.LambdaMART.max_leafs: unknown parameter. Did you mean 'max_leaf_nodes'?",
    ),
    "far parameter": (
        of_model(space={"xyzzy": [1]}),
        "models.LambdaMART.space.xyzzy: unknown parameter. podium models lambdamart lists them.",
    ),
    "option": (of_model(reft="train"), "models.LambdaMART.reft: unknown parameter. Did you mean 'refit'?"),
    "value": (
        of_model(max_leaf_nodes=1),
        "models.LambdaMART.max_leaf_nodes: LambdaMART: max_leaf_nodes must be an integer",
    ),
    "type": (
        of_model(learning_rate="fast"),
        "models.LambdaMART.learning_rate: LambdaMART: learning_rate must be above 0",
    ),
    "choice": (of_model(growth="leafs"), "models.LambdaMART.growth: LambdaMART: growth must be one of"),
    "refit": (of_model(refit="all"), "models.LambdaMART.refit: input should be 'train' or 'train+valid'"),
    "seed": (of_model(random_state=3), "models.LambdaMART.random_state: leave it out; the seeds of the experiment"),
    "by fold": (of_model(by_fold={"1": {"sigmaa": 1}}), "models.LambdaMART.by_fold.1.sigmaa: unknown parameter."),
    "space": (of_model(space={"max_leafs": [3]}), "models.LambdaMART.space.max_leafs: unknown parameter. Did you mean"),
    "twice": (
        of_model(sigma=2.0, space={"sigma": [1.0]}),
        "models.LambdaMART.space.sigma: it has a fixed value too, 2.0.",
    ),
    "range": (of_model(space={"sigma": {"low": 2}}), "models.LambdaMART.space: "),
    "init": (of_model("LambdaSMART"), "models.LambdaSMART: LambdaSMART: init must be"),
    "member": (of_model("Mix", kind="blend", members=["@LambdaMRT"]), "models.Mix: 'LambdaMRT' is no other model"),
    "text": (of_model("Mix", kind="blend", members=["lambdamrt"]), "models.Mix.members: model must be one of"),
    "baseline's parameter": (
        of_model("LightGBM", num_leafs=3),
        "models.LightGBM.num_leafs: unknown parameter. Did you mean 'num_leaves'?",
    ),
    "pick": (of_model("Best", kind="pick"), "models.Best.members: expected names of models"),
    "pick setting": (
        changed(models={"A": {"kind": "linear"}, "B": {"kind": "pick", "members": ["A"], "sigma": 1}}),
        "models.B.sigma: a pick has no settings",
    ),
    "circle": (
        changed(models={"A": {"kind": "lambdasmart", "init": "@B"}, "B": {"kind": "lambdasmart", "init": "@A"}}),
        "models.A: A -> B -> A refer to each other in a circle",
    ),
    "negative seed": (changed(seeds=[0, -1]), "seeds[1]: input should be greater than or equal to 0; got -1."),
    "huge seed": (changed(seeds=[2**31]), "seeds[0]: input should be less than or equal to 2147483647"),
    "text as seed": (changed(seeds=["3"]), "seeds[0]: input should be a valid integer; got '3'."),
    "seed twice": (changed(seeds=[4, 5, 4]), "seeds[2]: 4 is there twice. Give each once."),
    "no seed": (changed(seeds=[]), "seeds: expected at least one but found none."),
    "huge seed of folds": (changed(folds={"seed": 2**31}), "folds.seed: input should be less than or equal to"),
    "no seed of a model": (of_model(seeds=[]), "models.LambdaMART.seeds: expected at least one but found none."),
    "negative seed of a model": (of_model(seeds=[-1]), "models.LambdaMART.seeds[0]: input should be greater than"),
    "metric twice": (changed(metrics=["map", "map"]), "metrics[1]: 'map' is there twice."),
    "long name": (changed(name="n" * 300), "name: a name of 300 letters is too long for the name of a file."),
    "long name of a model": (
        of_model("ü" * 60, kind="mart"),
        f"models.{'ü' * 20}...: a name of 60 letters is too long for the name of a file.",
    ),
    "number as name": (changed(models={1: {}}), "models: expected text as the name of a model but found 1."),
    "no name of a model": (of_model("", kind="mart"), "models: expected text as the name of a model but found ''."),
    "settings": (of_model(settings=3), "models.LambdaMART.settings: expected a table of settings but found 3."),
    "list as like": (
        changed(shared={"trees": {}}, models={"LambdaMART": {"like": ["trees"]}}),
        "models.LambdaMART.like: unknown table of shared settings ['trees'].",
    ),
    "file as init": (
        of_model(init="missing.podium"),
        "models.LambdaMART.init: init must be the file of a saved model, or a model such as linear(max_iter=50); there",
    ),
    "inner init": (
        of_model("Mix", kind="blend", members=["lambdasmart(init=missing.podium)", "linear"]),
        "models.Mix.members: init must be the file of a saved model, or a model such as linear(max_iter=50); there is",
    ),
    "init of a fold": (
        of_model(by_fold={"1": {"init": "missing.podium"}}),
        "models.LambdaMART.by_fold.1.init: init must be the file of a saved model, or a model such as",
    ),
    "init in a space": (of_model(space={"init": ["@Linear"]}), "models.LambdaMART.space.init: a base model cannot be"),
    "infinite budget": (changed(budget={"seconds": math.inf}), "budget.seconds: input should be a finite number"),
    "budget without number": (changed(budget={"seconds": math.nan}), "budget.seconds: input should be a finite number"),
    "infinite budget of a model": (of_model(seconds=math.inf), "models.LambdaMART.seconds: input should be a finite"),
    "number as row": (of_table(values={"map": 3}), "published[0].values.map: input should be a list; got 3."),
    "text in a row": (of_table(values={"map": ["x"]}), "published[0].values.map[0]: input should be a valid number"),
    "nan in a row": (of_table(values={"map": [math.nan]}), "published[0].values.map[0]: input should be a finite"),
    "nan as mean": (of_table(values={}, mean={"map": math.nan}), "published[0].mean.map: input should be a finite"),
    "metric of a mean": (of_table(values={}, mean={"p@3": 0.1}), "published[0].mean: unknown metric 'p@3'."),
    "object": (
        of_model(metric=parse_metric("map")),
        "models.LambdaMART.metric: expected text, a number, true or false, or a list but found AveragePrecision.",
    ),
    "surrogate": (changed(title="\ud800"), "title: expected Unicode but found '\\ud800'."),
    "published": (
        changed(published=[{"title": "t", "model": "LambdaMART", "policy": "standard", "values": {"p@3": [1]}}]),
        "published[0].values: unknown metric 'p@3'.",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_mistake_is_named_with_its_path_and_the_nearest_word(case: str) -> None:
    given, message = WRONG[case]
    with pytest.raises(ValueError) as caught:  # noqa: PT011 (the text is compared below)
        Experiment(source="exp.toml", **given)
    assert str(caught.value).startswith(f"exp.toml: {message}"), str(caught.value)
    assert len(str(caught.value).splitlines()) == (2 if case == "circle" else 1)


def test_all_mistakes_are_reported_at_once() -> None:
    with pytest.raises(ValueError, match="metrics") as caught:
        Experiment(**of_model(max_leafs=3, sigma=-1), metrics=["nop"])
    assert [line.split(":")[0] for line in str(caught.value).splitlines()] == [
        "metrics[0]",
        "models.LambdaMART.max_leafs",
        "models.LambdaMART.sigma",
    ]


FULL: dict[str, Any] = changed(
    metrics=["ndcg@5", "map"],
    policies=["letor4", "standard"],
    criterion="map+ndcg@5",
    baseline="Lin",
    seeds=[3, 4],
    folds={"kind": "k-fold", "k": 4, "seed": 2},
    budget={"trials": 3, "seconds": 10},
    models={
        "Lin": {"kind": "linear", "transform": ["raw", "rank"], "space": {"l2_regularization": [0.1, 1.0]}},
        "Trees": {
            "kind": "lambdamart",
            "by_fold": {"1": {"sigma": 2.0}},
            "early_stopping_rounds": 5,
            "metrics": ["p@1"],
        },
        "Net": {"kind": "ranknet", "hidden_layer_sizes": [8], "seeds": [7]},
        "Smart": {"kind": "lambdasmart", "init": "@Lin"},
        "Mix": {"kind": "blend", "members": ["@Lin", "bagged(model=lambdamart, n_members=2)"], "weights": [2, 1]},
        "Best": {"kind": "pick", "members": ["Lin", "Mix"]},
        "Trees of others": {"kind": "lightgbm", "objective": "rank_xendcg", "refit": "train+valid"},
    },
)


def test_an_experiment_written_out_and_read_back_is_the_same() -> None:
    experiment = Experiment(**FULL)
    plain = json.loads(json.dumps(experiment.to_plain()))
    assert Experiment(**plain) == experiment == pickle.loads(pickle.dumps(experiment))
    assert Experiment(**plain).to_plain() == experiment.to_plain()
    assert experiment.changed(on="valid").on == "valid"
    with pytest.raises(ValueError, match=r"on: input should be 'test' or 'valid'; got 'tset'"):
        experiment.changed(on="tset")


def places_in(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every value inside a plain one."""
    if isinstance(value, (dict, list)):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from [(*path, key), *places_in(inner, (*path, key))]


STRANGE = [None, True, -1, 10**30, 0.5, math.nan, math.inf, "", "x" * 400, "\ud800", [], [None], [[]], {}, {"": []}]
FULL_TABLE = FULL | {"published": [{"title": "t", "model": "Lin", "policy": "letor4", "values": {"map": [0.5] * 4}}]}


@pytest.mark.parametrize("place", [*places_in(FULL_TABLE)], ids=lambda place: ".".join(map(str, place)))
def test_a_strange_value_anywhere_is_refused_or_can_be_stored(place: tuple[Any, ...]) -> None:
    for value in STRANGE:
        given: Any = copy.deepcopy(FULL_TABLE)
        holder = functools.reduce(operator.getitem, place[:-1], given)
        holder[place[-1]] = value
        try:
            made = Experiment(**given)
        except ValueError:
            continue
        plain = json.loads(json.dumps(made.to_plain(), ensure_ascii=False, allow_nan=False).encode())
        assert Experiment(**plain).to_plain() == plain


def test_models_with_nothing_random_have_one_seed() -> None:
    experiment = Experiment(**FULL)
    svm = changed(models={"RankSVM": {}, "Two": {"kind": "blend", "members": ["@RankSVM", "adarank"]}}, seeds=[5, 6])
    found = {name: experiment.seeds_of(name) for name in experiment.models}
    assert found == {name: (7,) if name == "Net" else (3, 4) for name in experiment.models}
    assert [Experiment(**svm).seeds_of(name) for name in ("RankSVM", "Two")] == [(5,), (5,)]
    assert experiment.metrics_of("Trees") == ("ndcg@5", "map", "p@1")


def test_models_are_made_of_settings_choices_and_each_other() -> None:
    experiment = Experiment(**FULL)
    chosen = {"Lin": {"l2_regularization": 0.25, "transform": ["raw"]}}
    mix: Any = make(experiment, "Mix", "1", chosen, seed=2)
    assert [type(member).__name__ for member in mix.members] == ["Linear", "Bagged"]
    assert (mix.members[0].l2_regularization, mix.members[0].transform) == (0.25, ("raw",))
    assert list(mix.weights) == [2, 1]
    assert mix.members[1].model.random_state != mix.members[1].random_state == 20_000
    assert [make(experiment, "Trees", fold, {}).sigma for fold in ("1", "2")] == [2.0, 1.0]  # type: ignore[attr-defined]
    smart: Any = make(experiment, "Smart", "1", chosen, seed=2)
    assert (smart.init.l2_regularization, smart.init.random_state) == (0.25, 2)  # as Lin is with this seed
    assert not hasattr(smart.init, "coef_")
    assert needed_by(experiment, "Best") == ["Lin", "Mix"]
    assert with_seed(podium.LambdaMART(), 4).random_state == 4  # type: ignore[attr-defined]


def test_files_are_read_and_presets_found(tmp_path: Path) -> None:
    path = tmp_path / "exp.toml"
    path.write_text('name = "x"\nmetrics = ["map"]\n[data]\nfiles = ["a.txt"]\n[models.MART]\n')
    experiment, base = read_experiment(path)
    assert (experiment.metrics, base) == (("map",), tmp_path)
    path.write_text("name = ")
    with pytest.raises(ValueError, match=r"exp\.toml: expected TOML but found"):
        read_experiment(path)
    with pytest.raises(FileNotFoundError, match=r"no such file, and no such preset\. Did you mean 'mq2008'"):
        find_file("mq2009")
    with pytest.raises(FileNotFoundError, match="podium lab show mq2008"):
        find_file(tmp_path / "other.toml")


def test_models_take_over_shared_settings_and_their_own_win() -> None:
    shared = {"trees": {"max_leaf_nodes": 7, "learning_rate": 0.05}}
    models = {"LambdaMART": {"like": "trees"}, "MART": {"learning_rate": 0.2, "like": "trees"}, "Linear": {}}
    found = Experiment(**changed(shared=shared, models=models))
    assert found.models["LambdaMART"].settings == shared["trees"]
    assert found.models["MART"].settings == {"max_leaf_nodes": 7, "learning_rate": 0.2}
    assert found.models["Linear"].settings == {}
    assert Experiment(**found.to_plain()) == found


@pytest.mark.parametrize("preset", presets())
def test_presets_are_complete(preset: str) -> None:
    """Every model of the registry is in the preset of MQ2008, and its settings are right."""
    experiment, _ = read_experiment(preset)
    assert experiment.name == preset
    assert tomllib.loads((PRESETS / f"{preset}.toml").read_text())["title"]
    if preset == "mq2008":
        from podium.models.registry import catalogue

        assert {entry.name for entry in catalogue()} <= {spec.kind.lower() for spec in experiment.models.values()}
        assert experiment.policies == ("letor4", "standard", "lightgbm")
        assert len(experiment.seeds) == 5


SAME_COLUMNS = [
    f"{name}, same columns" for name in ("LightGBM lambdarank", "LightGBM rank_xendcg", "XGBoost rank:ndcg")
]


def test_rows_of_the_preset_that_are_compared_have_equal_rights() -> None:
    """The same columns, as many settings, trees and seeds, and the same share of the columns per tree."""
    experiment, _ = read_experiment("mq2008")
    plain = experiment.to_plain()["models"]
    columns = plain["LambdaMART"]["transform"]
    for name in [*SAME_COLUMNS, "LambdaMART, LightGBM's grid, same columns"]:
        different = {key: value for key, value in plain[name].items() if key != "about"}
        assert different.pop("transform") == columns
        raw = plain[name.removesuffix(", same columns")]
        assert different == {key: value for key, value in raw.items() if key != "about"}
    ours = {name for name in plain if name.startswith("LambdaMART")}
    rivals = {*SAME_COLUMNS, *(name.removesuffix(", same columns") for name in SAME_COLUMNS)}
    for name in ours | rivals:
        assert math.prod(len(values) for values in plain[name]["space"].values()) == experiment.budget.trials == 12
        assert plain[name]["n_estimators"] == 300
        assert experiment.seeds_of(name) == experiment.seeds
    newton, gradients = (plain[f"LambdaMART, {words}"] for words in ("LightGBM's grid", "split by gradients"))
    assert {key for key in gradients if gradients[key] != newton.get(key)} == {"split_by", "about"}


def test_folds_follow_from_the_data(tmp_path: Path) -> None:
    def folds(data: dict[str, Any], **rules: Any) -> Any:
        return Experiment(**changed(data=data, folds=rules)).folds_in(tmp_path)

    assert folds({"files": ["a", "b"]}, k=3).names == ("1", "2", "3")
    assert folds({"files": list("abcde")}, kind="rotation").folds[1].test == (tmp_path / "a",)
    assert folds({"train": "a", "test": "b"}).names == ("1",)
    with pytest.raises(ValueError, match=r"folds\.kind: expected 'given', because train and test are files"):
        folds({"train": "a", "test": "b"}, kind="k-fold")
    for name in ("train", "vali", "test"):
        (tmp_path / "Fold1").mkdir(exist_ok=True)
        (tmp_path / "Fold1" / f"{name}.txt").write_text("")
    assert folds({"folder": "."}).names == ("1",)
    assert len(folds({"folder": "."}, kind="k-fold", k=4).names) == 4
    with pytest.raises(FileNotFoundError, match="is no folder"):
        folds({"folder": "nowhere"})
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="expected S1 to S5"):
        folds({"folder": "empty"})
