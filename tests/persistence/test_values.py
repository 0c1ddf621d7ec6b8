"""Parameters in a model file: what is loaded has equal ones, and nothing in a file is run."""

import json
import math
from dataclasses import dataclass, fields, replace

import numpy as np
import pytest
from families import TREE_MODELS
from hypothesis import given, settings
from hypothesis import strategies as st

import podium
from podium.data.ranking import RankingData
from podium.formats.errors import FormatError
from podium.metrics import METRICS, POLICIES, Policy
from podium.metrics.additive import DCG, NDCG, RBP, Precision
from podium.metrics.base import Metric
from podium.metrics.cascade import ERR
from podium.models.trees.named import Boosted, LambdaMART, LambdaSMART, RandomForest
from podium.objectives import OBJECTIVES, Lambda, Logistic, Ordinal, RankNet
from podium.persistence.checkpoints import describe_run
from podium.persistence.saving import load
from podium.persistence.storage import load_parts, save_parts
from podium.persistence.values import from_plain, to_plain

SMALL = {"n_estimators": 2, "max_leaf_nodes": 3, "min_samples_leaf": 2, "n_jobs": 1}


def small(kind):
    return {name: value for name, value in SMALL.items() if name in kind().get_params()}


@pytest.fixture(scope="module")
def data():
    draws = np.random.default_rng(5)
    X = draws.integers(0, 6, (60, 4)).astype(np.float32)
    return RankingData.from_arrays(X, draws.integers(0, 3, 60), qid=np.arange(60) // 10)


def same(first, second):
    """Equal, of the same kind; a base model by its own parameters and trees."""
    if hasattr(first, "get_params") and not isinstance(first, type):
        return type(first) is type(second) and same_parameters(first, second)
    if isinstance(first, np.ndarray):
        return first.tolist() == list(second)
    alike = type(first) is type(second) or isinstance(first, (np.generic, frozenset))
    if isinstance(first, (list, tuple)):
        return alike and len(first) == len(second) and all(map(same, first, second))
    if isinstance(first, dict):
        return alike and list(first) == list(second) and all(map(same, first, second))
    return alike and bool(first == second)


def same_parameters(first, second):
    mine, other = first.get_params(deep=False), second.get_params(deep=False)
    return mine.keys() == other.keys() and all(same(mine[name], other[name]) for name in mine if name != "n_jobs")


# --- random parameters --------------------------------------------------------------------------------------------

numbers = st.floats(0.01, 100, allow_nan=False).map(lambda value: value) | st.integers(1, 9)
tables = st.lists(st.integers(0, 40), min_size=1, max_size=4).map(lambda gains: tuple(map(float, sorted(gains))))
named_policies = st.sampled_from(list(POLICIES.values()))
policies = named_policies | st.builds(
    Policy,
    st.text(min_size=1, max_size=9),
    gain=st.sampled_from(["exponential", "linear"]) | tables,
    discount=st.sampled_from(["log2", "letor", "reciprocal"]),
    empty=st.sampled_from([0.0, 1.0, 0.5]),
    short=st.sampled_from(["cut", "zero"]),
    ties=st.sampled_from(["worst", "best", "input", "docid", "average"]),
    relevant=numbers,
    whole_labels=st.booleans(),
)
cutoffs = st.none() | st.integers(1, 30) | st.integers(1, 9).map(np.int64)
metrics = st.one_of(
    st.builds(NDCG, cutoffs, gain=st.none() | st.just("linear") | tables, empty=st.none() | numbers, policy=policies),
    st.builds(DCG, cutoffs, policy=policies),
    st.builds(RBP, cutoffs, persistence=st.floats(0.1, 0.9), graded=st.booleans(), policy=policies),
    st.builds(ERR, cutoffs, rmax=st.none() | st.integers(2, 9).map(np.float32), policy=policies),
    st.builds(Precision, cutoffs, relevant=st.none() | numbers, policy=policies),
    st.sampled_from([kind(7) for kind in METRICS.values()]),
)
metric_values = st.sampled_from(["ndcg@10", "map", "rbp(0.8)@5"]) | metrics
seeds = st.integers(0, 2**40)
objectives = st.one_of(
    st.sampled_from([*OBJECTIVES, *OBJECTIVES.values()]),
    st.sampled_from([kind() for kind in OBJECTIVES.values()]),
    st.builds(RankNet, sigma=numbers | numbers.map(np.float64), ties=st.booleans()),
    st.builds(
        Lambda,
        metric_values,
        sigma=numbers,
        normalize=st.sampled_from([None, "lightgbm", "xgboost"]),
        policy=st.none() | st.sampled_from(list(POLICIES)) | policies,
    ),
    st.builds(Lambda, metric_values, gain=st.just("linear")),
    st.builds(Lambda, metric_values, label_gain=tables),
    st.builds(
        OBJECTIVES["bayesrank"], st.builds(NDCG, cutoffs, policy=policies), samples=st.integers(1, 9), seed=seeds
    ),
    st.builds(OBJECTIVES["approxndcg"], alpha=numbers, label_gain=st.none() | tables),
    st.builds(OBJECTIVES["xendcg"], seed=st.none() | seeds, label_gain=st.none() | tables),
    st.builds(Ordinal, st.none() | st.lists(st.integers(-5, 5), unique=True, max_size=4).map(sorted)),
    st.builds(Logistic, alpha=numbers, relevant=numbers),
)
features = st.integers(0, 3) | st.sampled_from(["a", "b", "7"]) | st.integers(0, 3).map(np.int64)
special = {
    "metric": metric_values,
    "eval_metric": st.none() | metric_values,
    "objective": objectives,
    "goss": st.sampled_from([None, (0.2, 0.1), [0.3, 0.3], (np.float64(0.2), 0.1), np.array([0.2, 0.1])]),
    "monotone": st.none() | st.dictionaries(features, st.sampled_from([1, -1])),
    "categorical": st.sampled_from([None, [1, "a"], (0, 2), {1, "a", "b"}, frozenset([3]), range(2), np.array([1, 2])]),
    "random_state": seeds | seeds.map(np.int64),
    "learning_rate": numbers | numbers.map(np.float32),
}


@st.composite
def parameters(draw, kind):
    chosen = draw(st.sets(st.sampled_from([field.name for field in fields(kind)])))
    return {name: draw(special[name]) for name in sorted(chosen) if name in special}


@pytest.fixture(scope="module")
def fitted(data):
    base = TREE_MODELS["MART"](**SMALL).fit(data)
    return {
        name: kind(**small(kind), **({"init": base} if kind is LambdaSMART else {})).fit(data)
        for name, kind in TREE_MODELS.items()
    }


@pytest.mark.parametrize("name", TREE_MODELS)
@settings(max_examples=40)
@given(draws=st.data())
def test_a_loaded_model_has_the_parameters_of_the_saved_one(name, draws, fitted, tmp_path_factory, data):
    """Whatever they are: the trees stay those of the fit, so that only the parameters are tried."""
    model = fitted[name]
    before = model.get_params(deep=False)
    path = tmp_path_factory.mktemp("models") / "m.podium"
    try:
        model.set_params(**draws.draw(parameters(TREE_MODELS[name])))
        model.save(path)
        again = load(path)
        assert same_parameters(model, again)
        np.testing.assert_array_equal(again.predict(data), model.predict(data))
        again.save(path.with_suffix(".again"))
        assert path.with_suffix(".again").read_bytes() == path.read_bytes()
    finally:
        model.set_params(**before)


@settings(max_examples=300)
@given(st.one_of(objectives, metrics, policies))
def test_values_come_back_equal_through_json(value):
    again = from_plain(json.loads(json.dumps(to_plain(value))))
    assert type(again) is type(value)
    assert again == value
    if isinstance(value, Metric):
        assert again.policy == value.policy


VALUES = {
    "objective": [
        RankNet(sigma=2.0),
        RankNet,
        "ordinal",
        Logistic(relevant=2.0),
        Lambda(NDCG(5, policy=POLICIES["letor4"])),
    ],
    "metric": [NDCG(5, policy=POLICIES["letor4"]), "map", DCG(3, gain=(0.0, 1.0, 5.0))],
    "eval_metric": [NDCG(3, policy=POLICIES["lightgbm"]), "map@5"],
    "goss": [(0.5, 0.3)],
    "monotone": [{0: 1, "1": -1}],
    "categorical": [(2,), {3}],
}


@pytest.mark.parametrize("name", TREE_MODELS)
def test_refit_and_fit_more_work_on_a_loaded_model_as_on_the_saved_one(name, data, tmp_path):
    kind = TREE_MODELS[name]
    known = {field.name for field in fields(kind)}
    base = {"init": TREE_MODELS["MART"](**SMALL).fit(data)} if kind is LambdaSMART else {}
    for parameter, values in VALUES.items():
        if parameter not in known:
            continue
        for value in values:
            model = kind(**small(kind), **base, **{parameter: value}).fit(data)
            model.save(tmp_path / "m.podium")
            again = load(tmp_path / "m.podium")
            assert same_parameters(model, again), (parameter, value)
            for one in (model, again):
                one.refit(data, decay=0.5).save(tmp_path / f"refit-{one is model}")
                if kind is not RandomForest:
                    one.fit_more(data, n_estimators=2).save(tmp_path / f"more-{one is model}")
            assert (tmp_path / "refit-True").read_bytes() == (tmp_path / "refit-False").read_bytes()
            if kind is not RandomForest:
                assert (tmp_path / "more-True").read_bytes() == (tmp_path / "more-False").read_bytes()


# --- what cannot be saved -----------------------------------------------------------------------------------------


class Second(Metric):
    """A user's own."""

    base_name = "second"

    def value(self, ranked_labels, judged=None):
        return float(ranked_labels[1]) if len(ranked_labels) > 1 else 0.0


class OwnNDCG(NDCG):
    """It has the spelling of another."""


@dataclass(frozen=True)
class OwnNet(RankNet):
    """It has the name of another."""


def pull(scores, labels, offsets):
    return scores - labels, np.ones(len(labels))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"objective": pull}, "Boosted: objective cannot be saved: <function pull.*is a Python function"),
        (
            {"objective": OwnNet()},
            "objective cannot be saved: OwnNet.*is an objective of your own",
        ),
        ({"objective": Lambda(Second())}, r"objective cannot be saved: Second\(.*is a metric of your own"),
        (
            {"metric": Second()},
            r"metric cannot be saved: Second.*model\.set_params\(metric='ndcg@10'\), or save",
        ),
        ({"eval_metric": OwnNDCG(5)}, r"eval_metric cannot be saved: .*model\.set_params\(eval_metric=None\)"),
    ],
)
def test_what_only_code_could_say_is_refused_with_what_to_do(parameters, message, data, tmp_path):
    model = Boosted(**SMALL, **parameters).fit(data)
    with pytest.raises(ValueError, match=message):
        model.save(tmp_path / "m.podium")
    assert not list(tmp_path.iterdir())
    scores = model.predict(data)
    model.set_params(objective="lambda", metric="ndcg@10", eval_metric=None)
    model.save(tmp_path / "m.podium")
    np.testing.assert_array_equal(load(tmp_path / "m.podium").predict(data), scores)


# --- files of others ----------------------------------------------------------------------------------------------


def typed(kind, name, /, **own):
    return {"type": kind, "name": name, "fields": own}


DEEP = {"type": "tuple", "items": []}
for _ in range(30):
    DEEP = {"type": "tuple", "items": [DEEP]}

CRAFTED = [
    {"type": "infinity", "sign": -1},
    typed("metric", "ndgc"),
    typed("metric", ["ndcg"]),
    typed("metric", "ndcg", cutoff=0),
    typed("metric", "ndcg", cutoff=10**400),
    typed("metric", "ndcg", cutoff="10"),
    typed("metric", "ndcg", cutoff=True),
    typed("metric", "ndcg", colour=1),
    typed("metric", "ndcg", policy="letor4"),
    typed("metric", "ndcg", policy=typed("metric", "map")),
    typed("metric", "ndcg", policy={"type": "policy", "name": "letor5"}),
    typed("metric", "ndcg", policy=typed("policy", "x", name="x", ties="random")),
    typed("metric", "ndcg", policy=typed("policy", "x", name="y")),
    typed("metric", "ndcg", policy=typed("policy", "x", name="x", gain="cubic")),
    typed("metric", "ndcg", policy=typed("policy", "x", name="x", gain={"type": "tuple", "items": [3.0, 1.0]})),
    typed("metric", "ndcg", gain={"type": "tuple", "items": ["1"]}),
    typed("metric", "rbp", persistence=7.0),
    typed("metric", "rbp", persistence="0.5"),
    typed("objective", "custom", function="print"),
    typed("objective", "ranknet", sigma=-1),
    typed("objective", "ranknet", sigma=[2.0]),
    typed("objective", "ranknet", ties=1),
    typed("objective", "lambda", metric=typed("objective", "ranknet")),
    typed("objective", "lambda", metric="ndgc@10"),
    typed("objective", "lambda", normalize="none"),
    {"type": "objective class", "name": "print"},
    {"type": "objective", "name": "ranknet"},
    {"type": "metric", "name": "ndcg", "fields": [], "more": 1},
    {"type": "metric", "name": "ndcg", "fields": []},
    {"type": "builtins.print", "items": []},
    {"type": "tuple", "items": {"a": 1}},
    {"type": "tuple"},
    {"type": "range", "items": [0, 10, 0]},
    {"type": "range", "items": [0.5]},
    {"type": "set", "items": [[1]]},
    {"type": "mapping", "items": [[[], 1]]},
    {"type": "mapping", "items": [["a"]]},
    {"type": "mapping", "items": ["ab", "cd"]},
    DEEP,
]


@pytest.mark.parametrize("crafted", CRAFTED, ids=lambda value: json.dumps(value)[:60])
@pytest.mark.parametrize("parameter", ["objective", "metric", "goss"])
def test_crafted_values_are_refused(crafted, parameter, data, fitted, tmp_path):
    with pytest.raises(ValueError, match=r"^goss: "):
        from_plain(crafted, "goss")
    fitted["Boosted"].save(tmp_path / "m.podium")
    kind, meta, arrays = load_parts(tmp_path / "m.podium")
    meta["parameters"][parameter] = crafted
    save_parts(tmp_path / "m.podium", kind, meta, arrays)
    with pytest.raises(FormatError, match=f"holds no model this version understands .{parameter}: "):
        load(tmp_path / "m.podium")


# --- which run a checkpoint is of ---------------------------------------------------------------------------------


def varied(kind):
    """Of a dataclass of Podium: copies that differ in one field each."""
    others = {
        "name": "other",
        "gain": "linear",
        "discount": "reciprocal",
        "short": "zero",
        "ties": "docid",
        "average_precision": "cutoff",
        "precision": "list",
        "label_gain": (0.0, 1.0, 2.0),
        "thresholds": (0.5, 1.5),
        "metric": "dcg@3",
        "policy": POLICIES["letor4"],
        "normalize": "xgboost",
    }
    value = kind() if kind is not Policy else POLICIES["standard"]
    for field in fields(value):
        now = getattr(value, field.name)
        if field.name == "ties" and isinstance(now, bool):
            other = not now
        elif field.name in others:
            other = others[field.name]
        elif isinstance(now, bool):
            other = not now
        else:
            other = 0.25 if isinstance(now, float) or field.name == "persistence" else 3
        yield value, replace(value, **{field.name: other}), field.name


def others_of(kind, name):
    """Values of a model's parameter that train differently from each other and from the default."""
    values = {
        "metric": [one for metric in METRICS.values() for pair in varied(metric) for one in pair[:2]],
        "objective": [one for objective in OBJECTIVES.values() for pair in varied(objective) for one in pair[:2]],
        "goss": [(0.2, 0.1), (0.2, 0.2)],
        "monotone": [{0: 1}, {0: -1}, {1: 1}],
        "categorical": [[0], [1], [0, 1]],
        "step": ["mean", "exact"],
        "growth": ["leaf", "level", "oblivious"],
        "goss_by": ["row", "query"],
        "normalize": [None, "lightgbm", "xgboost"],
        "bundle_features": [None, True, False],
    }
    values["eval_metric"] = [None, "map", *values["metric"]]
    policies = [NDCG(10, policy=pair[1]) for pair in varied(Policy)]
    values["metric"] = [*values["metric"], *policies]
    return values.get(name, [3, 4])


@pytest.mark.parametrize("name", TREE_MODELS)
def test_other_parameters_have_other_descriptions(name, data):
    """Equal descriptions imply equal training: each parameter, and each field of what it can be, is in them."""
    kind = TREE_MODELS[name]
    for field in fields(kind):
        if field.name in ("n_jobs", "device", "init"):
            continue
        values = list(
            {repr(to_plain(value)): value for value in [field.default, *others_of(kind, field.name)]}.values()
        )
        told = [describe_run(kind(**{field.name: value}), data, [], None)[field.name] for value in values]
        assert len(set(told)) == len(values), field.name
        assert len(values) >= 2


@pytest.mark.parametrize("kind", [*METRICS.values(), *OBJECTIVES.values(), Policy])
def test_every_field_is_part_of_what_is_written(kind):
    for value, other, field in varied(kind):
        assert value != other, field
        assert to_plain(value) != to_plain(other), field


def made_with(factor, function=math.sqrt, *, base=1.0):
    def objective(scores, labels, offsets):
        return factor * (scores - labels), np.full(len(labels), function(base))

    return objective


def test_functions_and_metrics_of_the_users_own_are_reported_apart_by_code_and_content(data):
    def name_of(objective):
        return describe_run(Boosted(objective=objective), data, [], None)["objective"]

    def sine(scores, labels, offsets):
        return np.sin(scores - labels), np.ones(len(labels))

    def cosine(scores, labels, offsets):
        return np.cos(scores - labels), np.ones(len(labels))

    cosine.__qualname__ = sine.__qualname__
    first = [sine, cosine, made_with(1.0), made_with(2.0), made_with(1.0, math.exp), made_with(1.0, base=2.0)]
    assert len({name_of(objective) for objective in first}) == len(first)
    assert name_of(made_with(2.0)) == name_of(made_with(2.0))

    @dataclass(frozen=True)
    class Place(Metric):
        base_name = "place"
        place: int = 1

        def value(self, ranked_labels, judged=None):
            return float(ranked_labels[min(self.place, len(ranked_labels) - 1)])

    class Squared(Place):
        def value(self, ranked_labels, judged=None):
            return super().value(ranked_labels) ** 2

    own = [Place(), Place(place=2), Place(cutoff=3), Place(policy=POLICIES["trec"]), Squared()]
    told = {describe_run(LambdaMART(metric=metric), data, [], None)["metric"] for metric in own}
    assert len(told) == len(own)
    assert not any("0x" in one for one in told)


def test_a_run_of_one_policy_does_not_resume_the_checkpoint_of_another(data, tmp_path):
    def stop(progress):
        if progress.iteration == 2:
            raise KeyboardInterrupt

    path = tmp_path / "run.checkpoint"
    parameters = SMALL | {"n_estimators": 4}
    first = LambdaMART(**parameters, metric=NDCG(10, policy=POLICIES["letor4"]))
    with pytest.raises(KeyboardInterrupt):
        first.fit(data, checkpoint=path, every=1, callbacks=[stop])
    with pytest.raises(ValueError, match=r"another training .metric is"):
        LambdaMART(**parameters, metric=NDCG(10)).fit(data, checkpoint=path)
    assert path.exists()


def test_the_version_is_part_of_a_description(data):
    assert describe_run(LambdaMART(), data, [], None)["the version of Podium"] == podium.__version__
