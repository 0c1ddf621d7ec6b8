"""AutoRanker: choices on unseen queries only, the same for a seed, one file; and no worse than LambdaMART."""

from __future__ import annotations

import json
from functools import partial
from time import process_time

import numpy as np
import pytest
from scipy.sparse import csr_array
from small_worlds import world

import podium
from podium.data.ranking import RankingData
from podium.evaluation.intervals import mean_interval
from podium.lab.tuning.tuning import tune
from podium.persistence.values import to_plain
from podium.pipelines.auto import autoranker
from podium.pipelines.auto import candidates as candidates_module
from podium.pipelines.auto.autoranker import make_plan, read_plan
from podium.pipelines.auto.budget import Budget
from podium.pipelines.auto.candidates import FAMILIES, make_candidates, with_batches
from podium.pipelines.auto.choosing import Choice, Member, Trying, choose
from podium.pipelines.auto.criteria import parse_criterion
from podium.pipelines.auto.cross_validation import divide_queries
from podium.pipelines.auto.page import html_page, markdown_page

QUICK = {"families": ("linear", "trees"), "divisions": 1, "folds": 2, "n_jobs": 1}


@pytest.fixture(scope="module")
def fitted() -> tuple[podium.AutoRanker, RankingData]:
    data = world(3, 40)
    return podium.AutoRanker(**QUICK).fit(data), data


def test_out_of_fold_scores_are_those_of_models_that_have_not_seen_the_query() -> None:
    """By hand, for interleaved rows: trees after each stage, standardised within the query."""
    data = world(1)
    order = np.random.default_rng(0).permutation(data.n_rows)
    data = RankingData.from_arrays(data.X[order], data.y[order], data.qid[order])
    tried = [one for one in make_candidates(data, ("linear", "trees"))[0] if one.name.endswith(("0.03", "7 leaves"))]
    trying = Trying(data, tried, parse_criterion("map"), 3, Budget(60.0), 0, 2)
    fold_of = divide_queries(data, 3, 7)
    for candidate in tried:
        found = trying._out_of_fold(candidate, fold_of, trying._watch(tried.index(candidate)))
        for fold in range(3):
            held = fold_of[data.query_numbers] == fold
            model = type(candidate.model)(**candidate.model.get_params())
            model.fit(data.X[~held], data.y[~held], data.qid[~held])
            for place, step in enumerate(candidate.steps):
                trees = {"n_trees": step} if step else {}
                scores = model.predict(data.X[held], data.qid[held], **trees)
                for query in set(data.qid[held]):
                    own = scores[data.qid[held] == query]
                    expected = (own - own.mean()) / own.std() if own.std() > 0 else 0 * own
                    np.testing.assert_allclose(found[place][held & (data.qid == query)], expected, atol=2e-5)


def test_the_model_is_the_same_for_a_seed_and_any_number_of_threads(fitted, tmp_path) -> None:
    model, data = fitted
    again = podium.AutoRanker(**QUICK | {"n_jobs": 2}).fit(data)
    assert again.plan_ == model.plan_
    assert again.tried_ == model.tried_
    np.testing.assert_array_equal(again.predict(data), model.predict(data))
    model.save(tmp_path / "one.podium")
    again.save(tmp_path / "two.podium")
    assert (tmp_path / "one.podium").read_bytes() == (tmp_path / "two.podium").read_bytes()
    loaded = podium.load(tmp_path / "one.podium")
    np.testing.assert_array_equal(loaded.predict(data), model.predict(data))
    assert (loaded.plan_, loaded.tried_, loaded.notes_) == (model.plan_, model.tried_, model.notes_)
    assert html_page(loaded) == html_page(model)


def test_a_plan_trains_the_same_blend_with_another_seed(fitted) -> None:
    model, data = fitted
    plan = json.loads(json.dumps(model.plan_))
    same = podium.AutoRanker(plan=plan, n_jobs=1).fit(data)
    np.testing.assert_array_equal(same.predict(data), model.predict(data))
    assert same.tried_ == []
    forests = podium.AutoRanker(plan={"members": plan["members"][-1:], "weights": [1.0]}, families=("trees",))
    if "feature_fraction" in json.dumps(plan["members"][-1]):
        other = podium.AutoRanker(plan=forests.plan, random_state=1).fit(data)
        assert (other.predict(data) != forests.fit(data).predict(data)).any()


def test_tuning_it_gives_a_plan_so_that_other_seeds_need_no_choice() -> None:
    train, valid = world(0), world(1)
    model = podium.AutoRanker(budget=1e-6, n_jobs=1)
    found = tune(model, {"refit": ["train"]}, train, valid)
    assert set(found.chosen) == {"refit", "plan"}
    chosen = json.loads(json.dumps(found.as_dict()))["chosen"]
    again = podium.AutoRanker(**chosen).fit(train, eval_set=valid)
    assert again.notes_ == ["The plan was given."]
    np.testing.assert_array_equal(again.predict(valid), found.model.predict(valid))


@pytest.mark.parametrize(
    "plan", [{}, {"members": [], "weights": []}, {"members": [3], "weights": [1.0]}, {"members": None, "weights": None}]
)
def test_what_is_no_plan_is_refused(plan) -> None:
    with pytest.raises(ValueError, match="AutoRanker: plan must be the plan_ of a fitted AutoRanker, or None; got"):
        podium.AutoRanker(plan=plan).fit(world())


def test_the_members_are_the_blend_that_was_tried_last(fitted) -> None:
    model, _ = fitted
    kinds = {one["kind"] for one in model.tried_}
    assert kinds >= {"candidate", "single", "chosen"}
    members, weights = read_plan(model.plan_)
    assert len(members) == len(model.members_) == len(weights)
    assert weights.sum() == pytest.approx(1)
    assert all(set(one) == {"what", "kind", "division", "trees", "value"} for one in model.tried_)
    chosen = model.tried_[-1]
    assert [one["kind"] for one in model.tried_].count("chosen") == 1
    assert chosen["what"].count(" + ") == len(members) - 1
    assert model.why()[0] == f"Chosen: {chosen['what']}."
    assert f"{chosen['value']:.4f}" in model.why()[1]


def test_validation_queries_take_part_in_the_choice_and_in_the_final_training_if_asked() -> None:
    train, valid = world(0), world(1)
    alone = podium.AutoRanker(**QUICK | {"families": ("linear",)}).fit(train)
    judged = podium.AutoRanker(**QUICK | {"families": ("linear",)}).fit(train, eval_set=valid)
    whole = podium.AutoRanker(**QUICK | {"families": ("linear",), "refit": "all"}).fit(train, eval_set=valid)
    assert alone.tried_ != judged.tried_
    assert judged.tried_ == whole.tried_
    both = RankingData.concat([train, valid])
    for model, rows in ((judged, train), (whole, both)):
        members, _ = read_plan(model.plan_)
        expected = podium.Blend(members).fit(rows).predict(valid)
        np.testing.assert_allclose(model.predict(valid), expected)


def test_validation_data_may_have_the_query_ids_of_the_training_data() -> None:
    train = world(0)
    model = podium.AutoRanker(**QUICK | {"families": ("linear",)}).fit(train, eval_set=world(0))
    assert model.n_queries_ == train.n_queries


def test_a_budget_too_small_for_anything_trains_the_first_linear_model_and_says_so() -> None:
    data = world()
    model = podium.AutoRanker(budget=1e-6, n_jobs=1).fit(data)
    assert model.tried_ == []
    first = "The budget of 1e-06 s was too small to compare anything: linear, penalty 0.03 was trained."
    assert model.why()[0] == first
    for one in make_candidates(data, FAMILIES)[0]:
        assert any(note.startswith(f"{one.name}: left out, because ") for note in model.notes_), one.name
    (linear,) = model.members_
    columns = {"transform": ("raw", "zscore", "rank"), "max_iter": 200}
    alone = podium.Linear(objective="ranknet", pair_exponent=0.5, l2_regularization=0.03, **columns).fit(data)
    np.testing.assert_array_equal(linear.coef_, alone.coef_)


def test_nets_need_jax_and_the_others_go_on(monkeypatch) -> None:
    monkeypatch.setattr(candidates_module, "find_spec", lambda name: None)
    model = podium.AutoRanker(budget=1e-6, n_jobs=1).fit(world())
    assert 'nets: left out, because it needs JAX (pip install "podium[neural]").' in model.notes_
    with pytest.raises(ValueError, match=r"no family is left to try\. nets: left out"):
        podium.AutoRanker(families=("nets",)).fit(world())


def test_missing_values_and_sparse_rows_have_their_candidates() -> None:
    data = world()
    X = np.where(np.random.default_rng(0).random(data.X.shape) < 0.1, np.nan, data.X)
    model = podium.AutoRanker(budget=1e-6, n_jobs=1).fit(X, data.y, data.qid)
    assert "linear: left out, because it does not support missing values." in model.notes_
    assert np.isfinite(model.predict(X, data.qid)).all()
    sparse = podium.AutoRanker(budget=1e-6, n_jobs=1).fit(csr_array(np.maximum(data.X, 0)), data.y, data.qid)
    for family in ("linear", "nets"):
        assert f"{family}: left out, because it does not support sparse rows." in sparse.notes_
    assert np.isfinite(sparse.predict(csr_array(np.maximum(data.X, 0)), data.qid)).all()


def test_what_sparse_rows_leave_out_is_noted() -> None:
    """Dense and sparse rows of the same data have the same candidates, or a note per family that has others."""
    data = world()
    sparse = RankingData.from_arrays(csr_array(data.X), data.y, data.qid)
    (dense_candidates, dense_notes), (candidates, notes) = (make_candidates(one, FAMILIES) for one in (data, sparse))
    assert not dense_notes
    for family in FAMILIES:
        dense_models = [to_plain(one.model) for one in dense_candidates if one.family == family]
        models = [to_plain(one.model) for one in candidates if one.family == family]
        assert (models != dense_models) == any(note.startswith(f"{family}: ") for note in notes)
    note = "trees: tried without zscore and rank of the features within the query, which would fill up sparse rows."
    assert any(one.startswith(note) for one in podium.AutoRanker(budget=1e-6, n_jobs=1).fit(sparse).notes_)


def test_a_candidate_that_fails_is_left_out_with_the_reason(monkeypatch) -> None:
    data = world()
    fit = podium.Linear.fit

    def fails(self, *given, **options):
        if self.l2_regularization < 0.1:
            raise ValueError("no luck.")
        return fit(self, *given, **options)

    monkeypatch.setattr(podium.Linear, "fit", fails)
    model = podium.AutoRanker(**QUICK | {"families": ("linear",)}).fit(data)
    assert "linear, penalty 0.03: left out, because it failed: no luck." in model.notes_
    tried = {one["what"].removesuffix(", features as they are") for one in model.tried_}
    assert tried == {"linear, penalty 0.1", "linear, penalty 0.3"}
    monkeypatch.setattr(podium.Linear, "fit", lambda *given, **options: fails(podium.Linear(l2_regularization=0)))
    with pytest.raises(ValueError, match=r"no candidate could be trained\. linear, penalty 0\.03: left out"):
        podium.AutoRanker(**QUICK | {"families": ("linear",)}).fit(data)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"families": ("linear", "tree")}, "Did you mean 'trees'"),
        ({"families": ()}, "families must be names, each once, out of"),
        ({"criterion": "ndgc"}, "Did you mean 'ndcg'"),
        ({"policy": "letor"}, "policy must be one of"),
        ({"budget": 0}, "budget must be"),
    ],
)
def test_wrong_parameters_are_refused_before_any_work(given, message) -> None:
    with pytest.raises(ValueError, match=message):
        podium.AutoRanker(**given).fit(world())


def test_metrics_that_are_better_when_lower_are_minimised() -> None:
    data = world()
    tried = make_candidates(data, ("linear",))[0]
    found = choose(
        Trying(data, tried, parse_criterion("inversions"), folds=2, budget=Budget(60.0), seed=0, n_jobs=1), divisions=1
    )
    values = {one["what"]: one["value"] for one in found.tried if one["kind"] == "candidate"}
    assert found.members[0].candidate.name == min(values, key=values.__getitem__) == found.tried[-1]["what"]


class FromTable(Trying):
    """Candidates with scores that are given, not trained."""

    def _out_of_fold(self, candidate, fold_of, watch):
        return np.stack([self.table[candidate.name]] * len(candidate.steps))


def test_both_kinds_of_nets_have_eight_batches_per_epoch() -> None:
    for one in make_candidates(world(), ("nets",))[0]:
        sizes = {rows: with_batches(one.model, rows).batch_size for rows in (10, 8_817, 10**6)}
        assert sizes == {10: 32, 8_817: 1_103, 10**6: 4_096}


def test_what_is_trained_in_the_end_is_averaged() -> None:
    found = {one.group: one for one in make_candidates(world(), FAMILIES)[0]}
    assert list(found) == ["linear", "trees", "RankNet", "ListMLE"]
    members, weights = read_plan(make_plan(Choice([Member(one, one.steps[-1]) for one in found.values()])))
    assert list(weights) == [0.25] * 4
    assert [type(member).__name__ for member in members] == ["Linear", "Bagged", "RankNet", "ListMLE"]
    assert members[1].n_members == 5
    assert members[2].n_nets == members[3].n_nets == 5
    (alone,), _ = read_plan(make_plan(Choice([Member(found["ListMLE"], 0)])))
    assert alone.n_nets == 10


def judged_by_table(signal: dict[str, float], n_queries: int = 200) -> tuple[list[str], list[dict]]:
    """What is chosen where the scores of each family are labels + noise, with so much signal."""
    draws = np.random.default_rng(0)
    labels = draws.integers(0, 3, n_queries * 10).astype(float)
    data = RankingData.from_arrays(np.zeros((len(labels), 1)), labels, np.repeat(np.arange(n_queries), 10))
    candidates = make_candidates(data, FAMILIES)[0]
    tried = [next(one for one in candidates if one.family == family) for family in signal]
    trying = FromTable(data, tried, parse_criterion("ndcg@10"), 2, Budget(1e6), 0, 1)
    trying.table = {
        one.name: (labels * signal[one.family] + draws.standard_normal(len(labels))).astype(np.float32) for one in tried
    }
    trying.divide(range(len(tried)), 0)
    found = trying.conclude()
    return [member.candidate.family for member in found.members], found.tried


def test_equally_good_families_are_blended_and_bad_ones_left_out() -> None:
    """Independent errors cancel out; a family without any signal only adds noise."""
    chosen, tried = judged_by_table({"linear": 1.0, "trees": 1.0, "nets": 1.0})
    assert chosen == ["linear", "trees", "nets"]
    assert tried[-1]["value"] > max(one["value"] for one in tried if one["kind"] == "single") + 0.02
    assert judged_by_table({"linear": 2.0, "trees": 0.0, "nets": 2.0})[0] == ["linear", "nets"]
    chosen, tried = judged_by_table({"linear": 0.0, "trees": 3.0})
    assert chosen == ["trees"]
    assert tried[-1]["what"].startswith("trees")


def test_pages_show_everything_that_was_tried(fitted) -> None:
    model, _ = fitted
    for page in (html_page(model), markdown_page(model)):
        for one in model.tried_:
            assert one["what"] in page
            assert f"{one['value']:.4f}" in page
        assert all(sentence in page for sentence in model.why())
        assert "<script" not in page
        assert "http" not in page


@pytest.mark.filterwarnings("ignore:qid not given:UserWarning")
def test_a_single_query_gives_a_model_and_says_that_nothing_was_compared() -> None:
    data = world()
    model = podium.AutoRanker(n_jobs=1).fit(data.X, data.y)
    assert model.notes_[-1].startswith("There is a single query")
    assert [type(member).__name__ for member in model.members_] == ["Linear", "Bagged"]


# --- worlds it has never seen -------------------------------------------------------------------------------------


def interactions(seed: int, n_queries: int) -> RankingData:
    """Relevance needs two features at once: trees can say so, linear functions cannot."""
    draws = np.random.default_rng(seed)
    X = draws.standard_normal((n_queries * 20, 12)).astype(np.float32)
    signal = 2.0 * (X[:, 0] * X[:, 1] > 0) * (X[:, 2] > -0.5) + np.abs(X[:, 3]) + draws.standard_normal(len(X)) / 2
    return RankingData.from_arrays(X, np.digitize(signal, [1.2, 2.4, 3.2]), np.repeat(np.arange(n_queries), 20))


def few_noisy_queries(seed: int, n_queries: int) -> RankingData:
    """A weak linear signal in many features, features on another scale in every query."""
    draws = np.random.default_rng(seed)
    X = draws.standard_normal((n_queries * 20, 30))
    signal = X[:, :15].sum(axis=1) / 4 + 1.5 * draws.standard_normal(len(X))
    X = X + np.repeat(3 * draws.standard_normal((n_queries, 30)), 20, axis=0)
    return RankingData.from_arrays(
        X.astype(np.float32), np.digitize(signal, [1, 2]), np.repeat(np.arange(n_queries), 20)
    )


def linear_signal(seed: int, n_queries: int) -> RankingData:
    """Features on one scale, with falling weights: a linear function of them as they are can say so."""
    draws = np.random.default_rng(seed)
    X = draws.standard_normal((n_queries * 20, 30)).astype(np.float32)
    signal = X[:, :10] @ np.linspace(1, 0.1, 10) + 1.5 * draws.standard_normal(len(X))
    return RankingData.from_arrays(X, np.digitize(signal, [1, 2, 3]), np.repeat(np.arange(n_queries), 20))


@pytest.mark.slow
@pytest.mark.parametrize(("make", "n_queries"), [(interactions, 120), (few_noisy_queries, 60)])
def test_it_does_not_lose_to_a_plain_lambdamart(make, n_queries) -> None:
    train, unseen = make(0, n_queries), make(1, 300)
    model = podium.AutoRanker(divisions=1, families=("linear", "trees")).fit(train)
    own, other = (
        podium.evaluate(one.predict(unseen), unseen, metrics=["ndcg@10"]).per_query["ndcg@10"]
        for one in (model, podium.LambdaMART().fit(train))
    )
    _, high = mean_interval(own - other)
    assert high > -0.01
    assert (own - other).mean() > 0, "in both of these worlds it wins"


def fixed_blend(transform) -> podium.Blend:
    """Of a linear model and bagged small trees, as long as they take."""
    common = {"objective": "ranknet", "pair_exponent": 0.5, "transform": transform}
    small = {"max_leaf_nodes": 7, "min_samples_leaf": 10, "learning_rate": 0.05, "n_estimators": 200}
    trees = podium.Boosted(extra_trees=True, feature_fraction=0.4, **small, **common)
    linear = podium.Linear(l2_regularization=0.03, max_iter=200, **common)
    return podium.Blend([linear, podium.Bagged(trees, n_members=5, sample="seeds")])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "n_queries"), [(interactions, 120), (interactions, 8_000), (few_noisy_queries, 100), (linear_signal, 100)]
)
def test_with_a_budget_of_ten_seconds_it_does_not_lose_to_a_fixed_blend(make, n_queries, monkeypatch) -> None:
    """Neither to one of the features as they are, nor of columns of the query. Ten seconds of the processor, so that
    the result does not depend on what else the machine does."""
    train, unseen = make(0, n_queries), make(1, 300)
    quick = {"budget": 1e6, "divisions": 1, "folds": 2, "families": ("linear", "trees"), "n_jobs": 1}
    podium.AutoRanker(**quick).fit(make(2, 30))  # compiles
    monkeypatch.setattr(autoranker, "Budget", partial(Budget, clock=process_time))
    model = podium.AutoRanker(budget=10, n_jobs=1).fit(train)
    for transform in (None, ("raw", "zscore", "rank")):
        own, other = (
            podium.evaluate(one.predict(unseen), unseen, metrics=["ndcg@10"]).per_query["ndcg@10"]
            for one in (model, fixed_blend(transform).fit(train))
        )
        _, high = mean_interval(own - other)
        assert not high < 0
        assert (own - other).mean() > -0.005


@pytest.mark.parametrize("sparse", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_large_data_are_judged_by_a_sample_that_grows_with_the_budget(sparse) -> None:
    """12,000 rows with ten values each; a second is for 60,000 values, so for half of the rows."""
    draws = np.random.default_rng(0)
    X, families = draws.standard_normal((12_000, 10)).astype(np.float32), ("linear",)
    y, qid = np.digitize(X[:, 0], [1]), np.repeat(np.arange(600), 20)
    if sparse:
        wide = np.zeros((12_000, 50), np.float32)
        wide[:, ::5] = X
        X, families = csr_array(wide), ("trees",)
    options = {"families": families, "divisions": 1, "folds": 2, "n_jobs": 1}
    few = podium.AutoRanker(budget=1, **options).fit(X, y, qid=qid)
    assert "The choice was made on 300 of 600 queries, drawn at random." in few.notes_
    every = podium.AutoRanker(budget=2, **options).fit(X, y, qid=qid)
    assert not any("The choice was made on" in note for note in every.notes_)


def test_every_family_has_candidates_and_nets_come_last() -> None:
    for families in (FAMILIES, FAMILIES[::-1]):
        found, _ = make_candidates(world(), families)
        assert list(dict.fromkeys(one.family for one in found)) == list(FAMILIES)
        last = [one.family for one in found].index("nets")
        assert {one.family for one in found[last:]} == {"nets"}
        assert [one.family for one in found[:4]] == ["linear", "linear", "trees", "trees"]
    assert len({one.name for one in found}) == len(found)
    for one in found:
        one.model.check_parameters()
        one.final(one.steps[0]).check_parameters()


def test_the_first_setting_of_each_family_is_tried_with_columns_of_the_query_and_without() -> None:
    found, _ = make_candidates(world(), FAMILIES)
    for family in FAMILIES:
        first, second = [one for one in found if one.family == family][:2]
        assert second.name == f"{first.name}, features as they are"
        assert {"zscore", "rank"} <= set(first.transform)
        assert second.transform is None
        same = first.model.get_params() | {"transform": None}
        assert same == second.model.get_params()
