"""Models made of models: combined as an obvious version does, the same bytes for any threads, one file, one API."""

import json
import sys

import numpy as np
import pytest
from fuzz_files import read_parts, write_parts
from scipy.stats import rankdata
from sklearn.base import clone

import podium
from podium import Bagged, Blend, LambdaMART, Linear, RankingData, Stack, cli
from podium.formats.errors import FormatError
from podium.formats.kinds import MODEL
from podium.models.frame.nested import read_model, read_models
from podium.pipelines.ensembles.bagged import draw_queries

TREES = LambdaMART(n_estimators=4, max_leaf_nodes=5, min_samples_leaf=5)
FLAT = Linear(max_iter=5)
KINDS = {
    "bagged": lambda **more: Bagged(model=TREES, n_members=3, **more),
    "blend": lambda **more: Blend(members=[TREES, FLAT], **more),
    "stack": lambda **more: Stack(members=[TREES, FLAT], final=Linear(max_iter=4), folds=3, **more),
}


@pytest.fixture(scope="module")
def parts():
    draws = np.random.default_rng(11)
    made = []
    for n in (400, 160):
        X = draws.standard_normal((n, 6)).astype(np.float32)
        y = np.clip(np.round(X[:, 0] - X[:, 1] + draws.standard_normal(n) / 2), 0, 3)
        made.append(RankingData.from_arrays(X, y, draws.permutation(np.arange(n) // 10)))
    return made


def normalized(scores, how, qid):
    """Query by query, in plain numpy and scipy."""
    result = np.empty(len(scores))
    for one in np.unique(qid):
        own = scores[qid == one]
        if how is None:
            made = own
        elif how == "rank":
            made = (rankdata(own) - 0.5) / len(own)
        elif own.min() == own.max():
            made = 0.0
        elif how == "zscore":
            made = (own - own.mean()) / own.std()
        else:
            made = (own - own.min()) / (own.max() - own.min())
        result[qid == one] = made
    return result


@pytest.mark.parametrize("how", ["zscore", "rank", "minmax", None])
def test_scores_are_the_mean_of_normalized_scores(parts, how):
    train, test = parts
    bagged = Bagged(model=TREES, n_members=3, normalization=how).fit(train)
    expected = np.mean([normalized(member.predict(test), how, test.qid) for member in bagged.members_], axis=0)
    np.testing.assert_allclose(bagged.predict(test), expected, atol=1e-9)
    blend = Blend(members=[TREES, FLAT], weights=[3, 1], normalization=how).fit(train)
    alone = [clone(member).fit(train).predict(test) for member in (TREES, FLAT)]
    expected = [normalized(scores, how, test.qid) for scores in alone]
    np.testing.assert_allclose(blend.predict(test), 0.75 * expected[0] + 0.25 * expected[1], atol=1e-9)
    assert blend.weights_.tolist() == [0.75, 0.25]
    if how is None:
        np.testing.assert_array_equal(bagged.predict(test.X), bagged.predict(test))


def test_members_of_a_bag_are_the_model_on_bootstrapped_queries_or_with_other_seeds(parts):
    train, test = parts
    bagged = Bagged(model=TREES, n_members=2, random_state=7).fit(train)
    for number, member in enumerate(bagged.members_):
        drawn = np.random.Generator(np.random.PCG64([7, number])).integers(0, train.n_queries, train.n_queries)
        rows = np.concatenate([train.rows[train.offsets[q] : train.offsets[q + 1]] for q in np.sort(drawn)])
        alone = clone(TREES).set_params(random_state=number)
        alone.fit(train.X[rows], train.y[rows], np.repeat(np.arange(len(drawn)), 10))
        np.testing.assert_array_equal(member.predict(test), alone.predict(test))
    sampled = clone(TREES).set_params(query_fraction=0.5, random_state=3)
    bagged = Bagged(model=sampled, n_members=2, sample="seeds").fit(train)
    for number, member in enumerate(bagged.members_):
        alone = clone(sampled).set_params(random_state=3 + number).fit(train)
        np.testing.assert_array_equal(member.predict(test), alone.predict(test))
    fixed = clone(TREES).set_params(extra_trees=False)
    with pytest.warns(UserWarning, match="all members are alike, because LambdaMART draws nothing at random"):
        Bagged(model=fixed, n_members=2, sample="seeds").fit(train)


def test_a_bootstrap_sample_has_whole_queries_and_all_that_belongs_to_them(parts):
    train = parts[0]
    weighted = RankingData.from_arrays(
        train.X, train.y, train.qid, sample_weight=train.X[:, 0] ** 2, query_weight=np.arange(1, train.n_queries + 1)
    )
    drawn = draw_queries(weighted, [0, 1])
    assert drawn.n_queries == weighted.n_queries
    assert len(np.unique(drawn.query_ids)) == drawn.n_queries
    np.testing.assert_allclose(drawn.sample_weight, drawn.X[:, 0] ** 2)
    picked = drawn.query_weight.astype(int) - 1
    assert len(np.unique(picked)) < len(picked)
    for number, query in enumerate(picked):
        own = weighted.rows[weighted.offsets[query] : weighted.offsets[query + 1]]
        np.testing.assert_array_equal(drawn.X[drawn.offsets[number] : drawn.offsets[number + 1]], weighted.X[own])


@pytest.mark.parametrize("passthrough", [False, True])
def test_a_stack_trains_its_second_ranker_on_scores_of_unseen_queries(parts, passthrough):
    train, test = parts
    stack = Stack(members=[TREES, FLAT], final=Linear(max_iter=4), folds=3, passthrough=passthrough, random_state=2)
    stack.fit(train)
    columns = np.empty((train.n_rows, 2), np.float32)
    for _, held in train.folds(3, seed=2):  # the same parts, but each model is trained on the others
        rows = np.isin(train.qid, held.query_ids)
        rest = RankingData.from_arrays(train.X[~rows], train.y[~rows], train.qid[~rows])
        for column, member in enumerate((TREES, FLAT)):
            scores = clone(member).fit(rest).predict(train.X[rows])
            columns[rows, column] = normalized(scores, "zscore", train.qid[rows])
    rows = np.hstack([columns, train.X]) if passthrough else columns
    final = Linear(max_iter=4).fit(rows, train.y, train.qid)
    np.testing.assert_allclose(stack.final_.coef_, final.coef_, rtol=1e-3, atol=1e-5)
    scores = [normalized(clone(member).fit(train).predict(test), "zscore", test.qid) for member in (TREES, FLAT)]
    rows = np.stack(scores, axis=1).astype(np.float32)
    rows = np.hstack([rows, test.X]) if passthrough else rows
    np.testing.assert_allclose(stack.predict(test), stack.final_.predict(rows), atol=1e-5)


@pytest.mark.parametrize("name", list(KINDS))
@pytest.mark.parametrize("transform", [None, ("raw", "rank")])
def test_one_file_with_the_same_bytes_for_any_number_of_threads(name, transform, parts, tmp_path):
    train, test = parts
    for n_jobs in (1, 2, 3):
        model = KINDS[name](transform=transform, n_jobs=n_jobs).fit(train, eval_set=test)
        model.save(tmp_path / f"{n_jobs}.podium")
    assert (tmp_path / "1.podium").read_bytes() == (tmp_path / "2.podium").read_bytes()
    assert (tmp_path / "1.podium").read_bytes() == (tmp_path / "3.podium").read_bytes()
    loaded = podium.load(tmp_path / "1.podium")
    np.testing.assert_array_equal(loaded.predict(test), model.predict(test))
    assert repr(loaded.set_params(n_jobs=None)) == repr(KINDS[name](transform=transform))
    again = clone(loaded).fit(train, eval_set=test)
    np.testing.assert_array_equal(again.predict(test), model.predict(test))


@pytest.mark.parametrize("name", list(KINDS))
def test_curves_callbacks_and_early_stopping(name, parts):
    train, test = parts
    seen = []
    long = clone(TREES).set_params(n_estimators=60, learning_rate=0.5)
    members = {"model": long} if name == "bagged" else {"members": [long, FLAT]}
    model = KINDS[name]().set_params(**members)
    model.fit(
        train, eval_set=test, early_stopping_rounds=3, callbacks=[lambda progress: seen.append(progress.iteration)]
    )
    curve = model.evals_["eval_0"]["ndcg@10"]
    assert seen == list(range(1, len(curve) + 1)) == list(range(1, model.best_iteration_ + 1))
    assert curve[-1] == pytest.approx(model.score(test), abs=1e-12)
    assert model.members_[0].best_iteration_ < 60
    assert curve[0] == pytest.approx(model.members_[0].score(test), abs=1e-9)


@pytest.mark.parametrize("name", list(KINDS))
def test_qid_is_needed_where_scores_are_normalized(name, parts):
    train, test = parts
    model = KINDS[name]().fit(train)
    kind = type(model).__name__
    with pytest.raises(ValueError, match=f"{kind}: predict needs qid, one query id per row, because the scores of its"):
        model.predict(test.X)
    np.testing.assert_array_equal(model.predict(test.X, test.qid), model.predict(test))
    order = np.random.default_rng(0).permutation(test.n_rows)
    np.testing.assert_allclose(model.predict(test.X[order], test.qid[order]), model.predict(test)[order], atol=1e-12)
    own = test.qid == 3
    np.testing.assert_allclose(model.scorer()(test.X[own]), model.predict(test)[own], rtol=1e-5, atol=1e-6)
    plain = KINDS[name](normalization=None).fit(train)
    np.testing.assert_array_equal(plain.predict(test.X), plain.predict(test))


@pytest.mark.parametrize("name", list(KINDS))
def test_a_killed_training_ends_in_the_same_bytes(name, parts, tmp_path):
    class Killed(Exception):
        pass

    def kill(progress):
        if progress.iteration == 2:
            raise Killed

    train, test = parts
    more = {"set_params": {"n_members": 4}} if name == "bagged" else {"set_params": {"members": [TREES, FLAT, FLAT]}}
    options = {"eval_set": test, "early_stopping_rounds": 3}
    KINDS[name]().set_params(**more["set_params"]).fit(train, **options).save(tmp_path / "whole.podium")
    kept = {"checkpoint": tmp_path / "run.check", "every": 1}
    with pytest.raises(Killed):
        KINDS[name]().set_params(**more["set_params"]).fit(train, **options, **kept, callbacks=[kill])
    nested = "model__n_estimators" if name == "bagged" else "members__0__n_estimators"
    with pytest.raises(ValueError, match="is the checkpoint of another training"):
        clone(KINDS[name]().set_params(**more["set_params"])).set_params(**{nested: 9}).fit(train, **options, **kept)
    KINDS[name]().set_params(**more["set_params"]).fit(train, **options, **kept).save(tmp_path / "resumed.podium")
    assert (tmp_path / "whole.podium").read_bytes() == (tmp_path / "resumed.podium").read_bytes()


def best_on_grid(scores, data, metric, points=200):
    """The best value of (1 - alpha) s + alpha s2 among many alphas."""
    s, s2 = scores
    grid = [(1 - alpha) * s + alpha * s2 for alpha in np.linspace(0, 1, points)]
    return max(podium.evaluate(one, data, metrics=[metric])[metric] for one in grid)


@pytest.mark.parametrize("weights", ["greedy", "coordinate"])
@pytest.mark.parametrize("metric", ["ndcg@5", "map"])
def test_weights_are_chosen_on_the_first_evaluation_set(weights, metric, parts, tmp_path):
    train, valid = parts
    narrow = [clone(FLAT).set_params(max_iter=1), clone(TREES).set_params(n_estimators=1)]
    model = Blend(members=narrow, weights=weights, eval_metric=metric).fit(train, eval_set=valid)
    queries = valid.rows, valid.offsets
    scores = np.stack([model.normalized_scores(member, valid.X, queries) for member in model.members_])
    reached = model.score(valid)
    assert model.evals_["eval_0"][metric][-1] == pytest.approx(reached, abs=1e-12)
    assert reached >= best_on_grid(scores, valid, metric) - 1e-9
    assert model.weights_.sum() == pytest.approx(1)
    model.save(tmp_path / "m.podium")
    assert podium.load(tmp_path / "m.podium").weights_.tolist() == model.weights_.tolist()
    three = Blend(members=[*narrow, TREES], weights=weights, eval_metric=metric).fit(train, eval_set=valid)
    scores = np.stack([three.normalized_scores(member, valid.X, queries) for member in three.members_])
    alone = [podium.evaluate(one, valid, metrics=[metric])[metric] for one in scores]
    assert three.score(valid) >= max(alone) - (1e-12 if weights == "greedy" else 1)
    equal = Blend(members=[*narrow, TREES], eval_metric=metric).fit(train, eval_set=valid)
    assert three.score(valid) >= equal.score(valid) - (1e-12 if weights == "coordinate" else 1)
    with pytest.raises(ValueError, match=f'weights="{weights}" are chosen on an evaluation set; got none'):
        Blend(members=narrow, weights=weights).fit(train)


def test_nested_parameters_are_read_and_set():
    blend = Blend(members=[clone(TREES), clone(FLAT)])
    assert blend.get_params()["members__0__n_estimators"] == 4
    assert blend.set_params(members__1__max_iter=9, normalization="rank").members[1].max_iter == 9
    assert Bagged(model=clone(TREES)).set_params(model__n_estimators=7).model.n_estimators == 7
    assert clone(blend).members[0] is not blend.members[0]
    assert clone(blend).get_params(deep=False).keys() == blend.get_params(deep=False).keys()
    with pytest.raises(ValueError, match="names a member that is not there"):
        blend.set_params(members__2__max_iter=9)


def test_ensembles_of_ensembles_and_members_with_transforms(parts, tmp_path):
    train, test = parts
    inner = Bagged(model=clone(FLAT).set_params(transform=("raw", "zscore")), n_members=2)
    model = Blend(members=[inner, TREES], transform=("raw", "rank")).fit(train)
    model.save(tmp_path / "m.podium")
    loaded = podium.load(tmp_path / "m.podium")
    np.testing.assert_array_equal(loaded.predict(test), model.predict(test))
    assert loaded.members_[0].members_[0].column_names_[-1] == "zscore(rank(feature 6))"
    found = podium.explain.permutation_importance(model, test, repeats=1)
    assert found.baseline == model.score(test)
    assert podium.explain.partial_dependence(model, test, 0, grid=3).curves.shape == (160, 3)


def test_a_base_model_of_a_member_stays_fitted(parts):
    train, test = parts
    base = clone(FLAT).fit(train)
    model = Bagged(model=podium.LambdaSMART(n_estimators=3, init=base), n_members=2, normalization=None).fit(train)
    trees = np.mean([member.forest_.scores(test.X) for member in model.members_], axis=0)
    np.testing.assert_allclose(model.predict(test), trees + base.predict(test))


def test_what_members_do_not_support_is_refused_and_the_best_of_both_is_inspected(parts):
    train, _ = parts
    X = np.array(train.X)
    X[0, 0] = np.nan
    with pytest.raises(ValueError, match="Linear does not support missing values"):
        Blend(members=[TREES, FLAT]).fit(X, train.y, train.qid)
    Bagged(model=TREES, n_members=2).fit(X, train.y, train.qid)
    told = str(Blend(members=[TREES, FLAT]).fit(train).inspect())
    assert "made of LambdaMART: 4 trees" in told
    assert "with weight 0.5" in told
    for name in KINDS:
        json.dumps(KINDS[name]().fit(train).inspect().as_dict())


def test_the_recipe_has_its_models_and_learns(parts, tmp_path):
    pytest.importorskip("jax")
    train, test = parts
    blend = podium.yahoo_blend(n_estimators=3, max_epochs=2)
    kinds = ["LambdaMART"] * 8 + ["LambdaRank"] * 2 + ["Linear"] * 2
    assert [type(member).__name__ for member in blend.members] == kinds
    seeds = [member.random_state for member in blend.members if hasattr(member, "random_state")]
    assert len(set(seeds)) == 10  # no two models draw the same numbers
    constant = podium.evaluate(np.zeros(test.n_rows), test, metrics=["ndcg@10"])["ndcg@10"]
    assert blend.fit(train).score(test) > constant + 0.1
    blend.save(tmp_path / "blend.podium")
    np.testing.assert_array_equal(podium.load(tmp_path / "blend.podium").predict(test), blend.predict(test))


def test_the_recipe_without_jax_names_the_extra_or_leaves_the_nets_out(monkeypatch):
    monkeypatch.setitem(sys.modules, "jax", None)
    with pytest.raises(ImportError, match=r"needs JAX.*podium\[neural\].*yahoo_blend\(nets=False\)"):
        podium.yahoo_blend()
    members = podium.yahoo_blend(nets=False).members
    assert [type(member).__name__ for member in members] == ["LambdaMART"] * 8 + ["Linear"] * 2


# --- text, files, wrong values ------------------------------------------------------------------------------------


def test_models_are_written_as_text():
    text = 'lambdamart(n_estimators=50, metric=ndcg@5(gain=linear)), linear(transform=["raw", "rank"])'
    trees, flat = read_models(text)
    assert (trees.n_estimators, trees.metric) == (50, "ndcg@5(gain=linear)")
    assert flat.transform == ("raw", "rank")
    nested = read_model("blend(members=[linear, mart(n_estimators=3)])")
    assert isinstance(nested, Blend)
    for wrong in ("lambdamarts", "linear(max_iter=5", "linear(iterations=5)"):
        with pytest.raises(ValueError, match=r"lambdamarts|bracket|iterations"):
            read_model(wrong)


@pytest.mark.parametrize(
    "settings",
    [
        "bagged --set model=lambdamart(n_estimators=3) --set n_members=2",
        "blend --set members=lambdamart(n_estimators=3),linear(max_iter=3) --set weights=[2,1]",
        "stack --set members=mart(n_estimators=3),linear(max_iter=3) --set final=linear(max_iter=2) --set folds=2",
    ],
)
def test_the_command_line_trains_them(settings, parts, tmp_path, monkeypatch, capsys):
    for name, part in zip(("train", "valid"), parts):
        podium.write_letor(part.grouped(), tmp_path / f"{name}.txt")
    monkeypatch.chdir(tmp_path)
    command = f"train {settings} train.txt --valid valid.txt --out m.podium --json"
    monkeypatch.setattr(sys, "argv", ["podium", *command.split()])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    found = json.loads(capsys.readouterr().out)
    assert ended.value.code == 0
    assert found["members"] == 2
    model = podium.load("m.podium")
    assert model.score(podium.read_letor("valid.txt")) == pytest.approx(found["metrics"]["valid.txt"]["ndcg@10"])


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (Bagged(model="lambdamart"), "model must be a model such as"),
        (Bagged(model=LambdaMART(n_estimators=0)), "LambdaMART: n_estimators must be"),
        (Bagged(n_members=0), "n_members must be"),
        (Blend(members=[]), "members must be a list of models"),
        (Blend(members=[TREES, 3]), "members must be a list of models"),
        (Blend(members=[TREES], weights=[1, 2]), "weights has 2 numbers for 1 members"),
        (Blend(weights=[-1, 2]), "weights must be"),
        (Blend(normalization="softmax"), "normalization must be one of None, zscore, rank, minmax"),
        (Stack(folds=1), "folds must be"),
        (Stack(members=[FLAT], folds=41), "folds must be at most the number of queries, 40; got 41"),
        (Stack(final=Linear(max_iter=0)), "Linear: max_iter must be"),
    ],
)
def test_wrong_values_are_refused(wrong, message, parts):
    with pytest.raises(ValueError, match=message):
        wrong.fit(parts[0])


def test_crafted_files_are_refused(parts, tmp_path):
    path = tmp_path / "m.podium"
    KINDS["stack"]().fit(parts[0]).save(path)
    meta, arrays = read_parts(path, MODEL)

    def edited(change):
        made = json.loads(json.dumps(meta))
        change(made["meta"])
        write_parts(path, MODEL, made, arrays)
        with pytest.raises(FormatError, match=r"m\.podium"):
            podium.load(path)

    edited(lambda own: own["children"].pop("final"))
    edited(lambda own: own["children"].pop("member 1"))
    edited(lambda own: own.update(best_iteration=3))
    edited(lambda own: own["children"].update({"member 3": own["children"]["member 2"]}))
    edited(lambda own: own["children"].update(final=own["children"]["member 1"]))
    edited(lambda own: own["children"].update(transform=own["children"].pop("final")))
    edited(lambda own: own["parameters"].update(members=[{"type": "model", "name": "Ranker", "parameters": {}}]))
    edited(lambda own: own["parameters"].update(members=[{"type": "model", "name": "Linear", "parameters": []}]))
    edited(lambda own: own["parameters"]["members"][0]["parameters"].update(n_estimators=-1))
    edited(lambda own: own["parameters"]["members"][0]["parameters"].update(init=3))
    edited(lambda own: own["parameters"].update(members=[]))
    KINDS["blend"]().fit(parts[0]).save(path)
    meta, arrays = read_parts(path, MODEL)
    for weights in ([1.0], [1.0, None], "equal", [1.0, 10**400]):
        edited(lambda own, weights=weights: own.update(weights=weights))


def test_more_than_nine_members_come_back_in_their_order(tmp_path, rng):
    X, y = rng.standard_normal((60, 3)).astype(np.float32), rng.integers(0, 3, 60)
    qid = np.arange(60) // 10
    model = Bagged(model=podium.MART(n_estimators=1, max_leaf_nodes=3, min_samples_leaf=2), n_members=12).fit(X, y, qid)
    model.save(tmp_path / "m.podium")
    loaded = podium.load(tmp_path / "m.podium")
    for own, other in zip(model.members_, loaded.members_, strict=True):
        np.testing.assert_array_equal(own.predict(X), other.predict(X))
    np.testing.assert_array_equal(model.predict(X, qid), loaded.predict(X, qid))


def one_query(n=30):
    draws = np.random.default_rng(4)
    X = draws.standard_normal((n, 4)).astype(np.float32)
    y = np.clip(np.round(X[:, 0] - X[:, 1] + 1), 0, 3)
    return RankingData.from_arrays(X, y, group=[n])


@pytest.mark.parametrize("how", ["zscore", None])
def test_a_stack_of_one_query_divides_its_documents(how):
    """The second ranker sees scores by models that were trained on the other documents."""
    data, folds = one_query(), 3
    part_of = np.random.default_rng(0).permutation(np.arange(data.n_rows) % folds)
    unseen = np.empty((data.n_rows, 1))
    for fold in range(folds):
        others = part_of != fold
        member = clone(FLAT).fit(data.X[others], data.y[others], group=[others.sum()])
        unseen[~others, 0] = member.predict(data.X[~others])
    columns = normalized(unseen[:, 0], how, data.qid)[:, None]
    final = Linear(max_iter=4).fit(columns.astype(np.float32), data.y, data.qid)
    stack = Stack(members=[FLAT], final=Linear(max_iter=4), folds=folds, normalization=how, random_state=0).fit(data)
    scores = normalized(clone(FLAT).fit(data).predict(data), how, data.qid)[:, None]
    np.testing.assert_allclose(stack.predict(data), final.predict(scores.astype(np.float32)), rtol=1e-5)


def test_a_stack_of_one_query_needs_a_document_per_fold():
    with pytest.raises(ValueError, match="number of documents if there is one query, n_samples=2; got 3"):
        Stack(members=[FLAT], folds=3).fit(one_query(2))


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_of_one_query_takes_rows_without_qid_as_one_query(kind, tmp_path):
    data = one_query()
    model = KINDS[kind]().fit(data)
    model.save(tmp_path / "m.podium")
    for one in (model, podium.load(tmp_path / "m.podium")):
        with pytest.warns(UserWarning, match="qid not given: all 20 rows are treated as one query"):
            scores = one.predict(data.X[:20])
        np.testing.assert_array_equal(scores, one.predict(data.X[:20], np.full(20, 7)))
