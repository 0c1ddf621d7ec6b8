"""Queries that are held out of the training data to stop it: as if they had been taken out by hand."""

import json

import numpy as np
import pandas as pd
import pytest
from families import small_model
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import podium
from podium.data.ranking import RankingData
from podium.models.registry import MODELS

HOLDING = [name for name, kind in MODELS.items() if "validation_fraction" in kind().get_params()]
ALIKE = ("LambdaRank", "ListNet", "ListMLE", "XENDCG", "ApproxNDCG", "Net")  # nets that differ in their objective only
N = 20
SHARES = {"train": 0.75, "valid": 0.25}


def make_data(rng, n_queries=N, mixed=True, **weights):
    """Queries of 6 documents, their rows mixed unless they are asked for in order."""
    qid = np.repeat(np.arange(n_queries), 6)
    qid = rng.permutation(qid) if mixed else qid
    X = rng.normal(size=(len(qid), 3)).astype(np.float32)
    y = np.digitize(X[:, 0] + 0.5 * rng.normal(size=len(qid)), [0, 1]).astype(float)
    return RankingData.from_arrays(X, y, qid, **weights)


def make(name, **parameters):
    more = {"max_iter": 500} if "SVM" in name else {}
    more |= {"init": MODELS["Pointwise"]()} if name == "LambdaSMART" else {}
    return small_model(name, **more | parameters)


def by_hand(model, data, seed=0, **options):
    """The same training with an evaluation set that was taken out before."""
    parts = data.split(SHARES, seed=seed)
    rounds = {"early_stopping_rounds": True} | options
    return model.fit(parts["train"], eval_set={"validation": parts["valid"]}, **rounds)


def test_all_models_with_steps_hold_out():
    steps = {"LambdaMART", "RandomForest", "Linear", "AdaRank", "CoordinateAscent", "RankSVM", "KernelRankSVM"}
    assert steps | {"RankBoost", "RankNet", "SelfAttentionRanker", "Bagged", "Blend", "Stack"} <= set(HOLDING)
    assert set(MODELS) - set(HOLDING) == {"Pointwise", "Pairwise", "AutoRanker"}  # one step, or a choice of their own


@pytest.mark.parametrize("name", [name for name in HOLDING if name not in ALIKE])
def test_holding_out_is_taking_out_the_queries_by_hand(name, rng):
    data = make_data(rng)
    model = make(name, validation_fraction=0.25).fit(data)
    hand = by_hand(make(name), data)
    assert (model.predict(data) == hand.predict(data)).all()
    assert model.evals_ == hand.evals_
    assert list(model.evals_) == ["validation"]
    assert (model.best_iteration_, model.best_score_) == (hand.best_iteration_, hand.best_score_)
    assert model.n_queries_ == 15


def test_arrays_lists_tables_and_sparse_rows_hold_out_the_same_queries(rng):
    data = make_data(rng)
    expected = by_hand(small_model("MART"), data).predict(data)
    table = pd.DataFrame(data.X, columns=list("abc"), index=rng.permutation(data.n_rows))
    for X in (data.X, data.X.tolist(), csr_array(data.X), table):
        model = small_model("MART", validation_fraction=0.25)
        model.fit(X, pd.Series(data.y, index=rng.permutation(data.n_rows)) if X is table else data.y, data.qid)
        assert (model.predict(X) == expected).all()


def test_sizes_of_groups_do_as_ids(rng):
    data = make_data(rng, mixed=False)
    model = small_model("MART", validation_fraction=0.25).fit(data.X, data.y, group=[6] * N)
    assert (model.predict(data.X) == by_hand(small_model("MART"), data).predict(data.X)).all()


def test_patience_is_50_trees_or_rounds_and_10_epochs_unless_it_is_given(rng):
    data = make_data(rng)
    noise = RankingData.from_arrays(data.X, rng.integers(0, 3, data.n_rows), data.qid)
    trees = small_model("MART", n_estimators=300, learning_rate=0.5, validation_fraction=0.25).fit(noise)
    assert len(trees.evals_["validation"]["ndcg@10"]) == trees.best_iteration_ + 50
    net = small_model("RankNet", max_epochs=200, validation_fraction=0.25).fit(noise)
    assert len(net.evals_["validation"]["ndcg@10"]) == net.best_iteration_ + 10
    other = small_model("MART", n_estimators=300, learning_rate=0.5, validation_fraction=0.25)
    other.fit(noise, early_stopping_rounds=3)
    assert len(other.evals_["validation"]["ndcg@10"]) == other.best_iteration_ + 3
    never = other.fit(noise, early_stopping_rounds=False)
    assert len(never.evals_["validation"]["ndcg@10"]) == never.best_iteration_ == 300


def test_members_stop_by_the_queries_that_the_ensemble_holds_out_each_in_its_own_time(rng):
    data = make_data(rng)
    noise = RankingData.from_arrays(data.X, rng.integers(0, 3, data.n_rows), data.qid)
    members = [small_model("MART", n_estimators=300, learning_rate=0.5), small_model("RankNet", max_epochs=100)]
    blend = podium.Blend(members=members, weights="greedy", validation_fraction=0.25, n_jobs=1).fit(noise)
    for member, patience in zip(blend.members_, (50, 10)):
        assert len(member.evals_["validation"]["ndcg@10"]) == member.best_iteration_ + patience
    valid = noise.split(SHARES)["valid"]
    assert blend.best_score_ == pytest.approx(blend.score(valid))


def test_a_member_may_hold_out_for_itself_but_not_from_a_bootstrap_sample(rng):
    data = make_data(rng)
    inner = small_model("MART", validation_fraction=0.25)
    blend = podium.Blend(members=[inner], n_jobs=1).fit(data)
    assert blend.members_[0].n_queries_ == 15
    seeds = podium.Bagged(inner, n_members=2, sample="seeds", normalization=None, n_jobs=1)
    seeds.set_params(model__feature_fraction=0.5).fit(data)
    assert [member.n_queries_ for member in seeds.members_] == [15, 15]
    assert seeds.members_[0].evals_ != seeds.members_[1].evals_  # each draws by its own seed
    with pytest.raises(ValueError, match="Bagged: the MART holds out queries, of which a bootstrap sample has copies"):
        podium.Bagged(podium.Blend(members=[inner])).fit(data)
    bagged = podium.Bagged(small_model("MART"), n_members=2, validation_fraction=0.25, n_jobs=1).fit(data)
    assert all(member.n_queries_ == 15 for member in bagged.members_)
    assert all(list(member.evals_) == ["validation"] for member in bagged.members_)


def test_the_seed_draws_the_queries(rng):
    data = make_data(rng)
    one, other = (small_model("MART", validation_fraction=0.25, random_state=seed).fit(data) for seed in (1, 2))
    assert one.evals_ == by_hand(small_model("MART", random_state=1), data, seed=1).evals_
    assert one.evals_ != other.evals_


@pytest.mark.parametrize("name", ["LambdaMART", "Linear", "RankSVM", "RankBoost", "RankNet"])
def test_weights_go_with_their_rows_and_queries(name, rng):
    weights = {"sample_weight": rng.uniform(0.5, 2, N * 6), "query_weight": rng.uniform(0.5, 2, N)}
    data = make_data(rng, **weights)
    model, hand = make(name, validation_fraction=0.25), by_hand(make(name), data)
    assert (model.fit(data).predict(data) == hand.predict(data)).all()
    assert (model.fit(data.X, data.y, data.qid, **weights).predict(data) == hand.predict(data)).all()


def test_queries_of_weight_0_are_as_if_they_were_not_there(rng):
    data = make_data(rng)
    silent = np.isin(np.arange(N), [0, 3, 11])
    weight = np.where(silent, 0.0, 1.0)
    parameters = {"validation_fraction": 0.25, "min_samples_leaf": 2}
    weighted = small_model("MART", **parameters).fit(data.X, data.y, data.qid, query_weight=weight)
    without = small_model("MART", **parameters).fit(data.subset(~silent))
    assert weighted.evals_ == without.evals_
    rows = small_model("MART", **parameters)
    rows.fit(data.X, data.y, data.qid, sample_weight=weight[data.query_numbers])
    assert rows.best_iteration_ == without.best_iteration_


def test_sizes_that_are_auto_are_those_of_the_queries_that_are_left(rng):
    qid = np.repeat(np.arange(160), 5)
    X, y = rng.normal(size=(800, 2)).astype(np.float32), rng.integers(0, 3, 800)
    model = podium.LambdaMART(n_estimators=2, validation_fraction=0.25).fit(X, y, qid)
    assert model.resolved_params_["max_leaf_nodes"] == 5  # of 120 queries, not of 160
    assert podium.LambdaMART(n_estimators=2).fit(X, y, qid).resolved_params_["max_leaf_nodes"] == 15


def test_given_pairs_are_those_of_the_queries_that_are_left(rng):
    data = make_data(rng, mixed=False)
    first, second = np.arange(0, 6 * N, 6), np.arange(1, 6 * N, 6)
    p, weight = rng.uniform(0.5, 1, N), rng.uniform(1, 2, N)
    model = small_model("Linear", validation_fraction=0.25).fit(data, pairs=(first, second, p, weight))
    held = np.isin(data.query_ids, data.split(SHARES)["valid"].query_ids)
    left = np.cumsum(~held)[~held] - 1  # numbers of the queries among those that are left
    pairs = (6 * left, 6 * left + 1, p[~held], weight[~held])
    parts = data.split(SHARES)
    hand = small_model("Linear")
    hand.fit(parts["train"], pairs=pairs, eval_set={"validation": parts["valid"]}, early_stopping_rounds=50)
    assert (model.coef_ == hand.coef_).all()
    assert model.evals_ == hand.evals_
    arrays = small_model("Linear", validation_fraction=0.25)
    arrays.fit(data.X, data.y, data.qid, pairs=(first, second, p, weight))
    assert (arrays.coef_ == hand.coef_).all()
    with pytest.raises(ValueError, match="judges held-out queries by labels, also beside pairs, and there are none"):
        model.fit(data.X, qid=data.qid, pairs=(first, second))
    outside = np.flatnonzero(held)
    with pytest.raises(ValueError, match="pairs: all are of queries that validation_fraction holds out"):
        model.fit(data, pairs=(6 * outside, 6 * outside + 1))
    with pytest.raises(ValueError, match=rf"i\[0\] is {6 * N}"):
        model.fit(data, pairs=([6 * N], [0]))


def test_an_init_model_is_trained_on_the_queries_that_are_left(rng):
    data = make_data(rng)
    table = pd.DataFrame(data.X, columns=list("abc"))
    table["colour"] = pd.Categorical(rng.choice(["red", "green", "blue"], len(table)))
    parts = data.split(SHARES)
    model = small_model("MART", init=podium.Linear(), validation_fraction=0.25).fit(data)
    assert (model.init_.coef_ == podium.Linear().fit(parts["train"]).coef_).all()
    hand = by_hand(small_model("MART", init=podium.Linear()), data)
    assert model.evals_ == hand.evals_
    base = small_model("LambdaMART", n_estimators=2)
    named = small_model("MART", init=base, validation_fraction=0.25).fit(table, data.y, data.qid)
    assert named.init_.n_queries_ == 15
    assert named.init_.categories_ == named.categories_ == {"colour": ["blue", "green", "red"]}
    with pytest.raises(ValueError, match="validation_fraction: the init of MART is a fitted Linear, and may have been"):
        small_model("MART", init=podium.Linear().fit(data), validation_fraction=0.25).fit(data)
    with pytest.raises(ValueError, match="the init of MART is a fitted Ridge"):
        small_model("MART", init=Ridge().fit(data.X, data.y), validation_fraction=0.25).fit(data)


def test_given_scores_are_what_held_out_rows_start_from_too(rng):
    data = make_data(rng)
    scores = 10 * data.y + rng.normal(size=data.n_rows)  # nearly perfect, so whoever forgets them is far off
    model = small_model("MART", init=scores, validation_fraction=0.25, learning_rate=1e-6).fit(data)
    rows = np.flatnonzero(np.isin(data.qid, data.split(SHARES)["valid"].query_ids))
    valid = data.split(SHARES)["valid"]
    assert model.evals_["validation"]["ndcg@10"][-1] == pytest.approx(
        podium.evaluate(scores[rows], valid, metrics=["ndcg@10"])["ndcg@10"]
    )
    left = np.flatnonzero(~np.isin(np.arange(data.n_rows), rows))
    hand = small_model("MART", init=scores[left], learning_rate=1e-6)
    hand.fit(data.split(SHARES)["train"])
    assert (model.predict(data, n_trees=1) == hand.predict(data, n_trees=1)).all()


def test_further_training_holds_out_the_same_queries_of_the_same_data(rng):
    data = make_data(rng)
    model = small_model("MART", validation_fraction=0.25).fit(data, early_stopping_rounds=False)
    hand = by_hand(small_model("MART"), data, early_stopping_rounds=False)
    parts = data.split(SHARES)
    model.fit_more(data, n_estimators=4)
    hand.fit_more(parts["train"], n_estimators=4, eval_set={"validation": parts["valid"]}, early_stopping_rounds=50)
    assert (model.predict(data) == hand.predict(data)).all()
    assert model.evals_ == hand.evals_
    assert model.best_score_ == hand.best_score_ == max(hand.evals_["validation"]["ndcg@10"])
    assert model.refit(data).predict(data).shape == (data.n_rows,)  # of all rows: it takes no steps


def test_a_checkpoint_resumes_with_the_same_queries(rng, tmp_path):
    data, path = make_data(rng), tmp_path / "run.checkpoint"

    def power_cut(progress):
        if progress.iteration == 5:
            raise RuntimeError("dark")

    def model(**more):
        return small_model("LambdaMART", n_estimators=9, validation_fraction=0.25, **more)

    with pytest.raises(RuntimeError):
        model().fit(data, checkpoint=path, every=2, callbacks=[power_cut])
    with pytest.raises(ValueError, match="random_state is 1 here and 0 there"):
        model(random_state=1).fit(data, checkpoint=path, every=2)
    resumed, whole = model().fit(data, checkpoint=path, every=2), model().fit(data)
    assert resumed.evals_ == whole.evals_
    assert (resumed.predict(data) == whole.predict(data)).all()


def test_a_copy_and_a_file_have_the_fraction_and_the_curves(rng, tmp_path):
    data = make_data(rng)
    model = small_model("LambdaMART", validation_fraction=0.25).fit(data)
    model.save(tmp_path / "m.podium")
    loaded = podium.load(tmp_path / "m.podium")
    assert clone(loaded).validation_fraction == 0.25
    assert (loaded.evals_, loaded.best_score_) == (model.evals_, model.best_score_)
    assert loaded.fit(data).evals_ == model.evals_


def test_a_search_and_a_pipeline_of_scikit_learn_stop_early_within_their_folds(rng):
    import sklearn

    data = make_data(rng)
    with sklearn.config_context(enable_metadata_routing=True):
        model = small_model("LambdaMART", validation_fraction=0.25, n_estimators=5)
        model.set_fit_request(qid=True).set_score_request(qid=True)
        pipeline = make_pipeline(StandardScaler(), model)
        search = GridSearchCV(pipeline, {"lambdamart__learning_rate": [0.1, 1.0]}, cv=GroupKFold(2))
        search.fit(data.X, data.y, qid=data.qid, groups=data.qid)
        best = search.best_estimator_[-1]
    assert list(best.evals_) == ["validation"]
    assert best.n_queries_ == 15
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


@pytest.mark.parametrize("share", [0, 1, -0.1, 1.5, "half", True])
def test_shares_that_are_none_are_refused(share, rng):
    with pytest.raises(ValueError, match="validation_fraction must be above 0 and below 1, or None"):
        small_model("Linear", validation_fraction=share).fit(make_data(rng))


def test_too_few_queries_and_evaluation_sets_beside_are_refused(rng):
    data = make_data(rng)
    model = small_model("LambdaMART", validation_fraction=0.2)
    with (
        pytest.raises(ValueError, match="and of 1 query it leaves none to hold out"),
        pytest.warns(UserWarning, match="qid not given"),
    ):
        model.fit(data.X, data.y)
    with pytest.raises(ValueError, match="divides whole queries, and of 2 queries it leaves none"):
        model.fit(data.subset([0, 1]))
    with pytest.raises(ValueError, match="of 2 queries it leaves none to train on"):
        model.set_params(validation_fraction=0.9).fit(data.subset([0, 1]))
    for eval_set in (data, [data], {"valid": data}):
        with pytest.raises(ValueError, match="and eval_set are given, and one of them says"):
            model.fit(data, eval_set=eval_set)
    model.set_params(validation_fraction=0.25).fit(data, eval_set=[])
    assert list(model.evals_) == ["validation"]
    with pytest.raises(ValueError, match="validation_fraction takes rows from X, not columns"):
        podium.KernelRankSVM(kernel="precomputed", validation_fraction=0.5).fit(data)


def test_errors_count_the_rows_that_the_caller_has(rng):
    data = make_data(rng)
    X, y = data.X.copy(), data.y.copy()
    y[77] = -1
    with pytest.raises(ValueError, match=r"y\[77\] is -1"):
        small_model("LambdaMART", validation_fraction=0.25).fit(X, y, data.qid)


def test_the_command_line_trains_with_held_out_queries(rng, tmp_path, capsys, monkeypatch):
    from typer.testing import CliRunner

    from podium.cli import app

    data = make_data(rng, mixed=False)
    podium.write_letor(data, tmp_path / "train.txt")
    monkeypatch.chdir(tmp_path)
    words = ["train", "lambdamart", "train.txt", "--out", "m.podium", "--set", "n_estimators=3"]
    runner = CliRunner()
    shown = runner.invoke(app, [*words, "--set", "validation_fraction=0.25", "--early-stopping", "2"])
    assert shown.exit_code == 0, shown.output
    assert "trained on 90 documents of 15 queries" in shown.stdout
    assert "validation (5 queries held out): ndcg@10" in shown.stdout
    answer = json.loads(runner.invoke(app, [*words, "--set", "validation_fraction=0.25", "--json"]).stdout)
    (metrics,) = answer["metrics"].values()
    assert answer["best_score"] == pytest.approx(metrics["ndcg@10"])
    refused = runner.invoke(app, [*words, "--early-stopping", "2"])
    assert isinstance(refused.exception, ValueError)
    assert "Add --valid FILE, or --set validation_fraction=0.2." in str(refused.exception)
