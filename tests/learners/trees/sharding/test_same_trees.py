"""The law of shards: however the queries are divided among ranks, they grow the forest of one process, bit for bit."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from podium.data.sharding.collective import CollectiveError, ThreadGroup
from podium.data.sharding.shard import Shard
from podium.learners.trees.scoring.forest import FOREST_ARRAYS
from podium.learners.trees.sharding import leafwise, stages
from podium.learners.trees.training import binning, growing
from podium.learners.trees.training.boosting import Boosting, BoostingRules
from podium.learners.trees.training.bundling import LayoutRules
from podium.learners.trees.training.growing import GrowthRules
from podium.learners.trees.training.sampling import SamplingRules
from podium.objectives.registry import parse_objective

N_QUERIES, N_FEATURES = 40, 20
GROWTHS = ("leaf", "level", "oblivious")


class Problem:
    """Rows of queries, of which ranks take some."""

    def __init__(self, kind, seed=0):
        rng = np.random.default_rng(seed)
        self.lengths = rng.integers(2, 25, N_QUERIES)
        self.offsets = np.concatenate([[0], np.cumsum(self.lengths)])
        n = int(self.offsets[-1])
        X = np.round(rng.normal(size=(n, N_FEATURES)), 1).astype(np.float32)
        signal = X[:, 0] + X[:, 1] * X[:, 9] - (X[:, 17] > 0.5)
        if kind == "sparse":  # one-hot columns, which share some, and a few that do not
            X = np.zeros((n, N_FEATURES), np.float32)
            X[np.arange(n), rng.integers(0, 12, n)] = 1 + rng.integers(0, 2, n)
            X[:, 12:] = rng.normal(size=(n, 8)) * (rng.random((n, 8)) < 0.3)
            signal = X[:, 3] - X[:, 5] + X[:, 14]
            X = csr_array(X)
        elif kind == "missing":
            X[rng.random(X.shape) < 0.2] = np.nan
        elif kind == "categories":
            X[:, 3], X[:, 18] = rng.integers(0, 9, (2, n))
            signal += np.isin(X[:, 3], [1, 4, 5]) * 2.0 + np.isin(X[:, 18], [0, 7])
        self.X, self.y = X, np.clip(np.round(signal + rng.normal(size=n)), 0, 4)
        self.weights = rng.integers(0, 3, n) / 2.0 if kind == "weights" else None
        self.base_scores = rng.normal(size=n) if kind == "base scores" else None

    def train(self, objective, rules, shard=None, trees=4):
        whole = Shard.whole(self.offsets) if shard is None else shard
        rows = whole.rows
        weights, base = (None if a is None else a[rows] for a in (self.weights, self.base_scores))
        target = parse_objective(objective).bind(self.y[rows], whole.offsets, weights, None, 1, shard)
        boosting = Boosting(self.X[rows], whole, target, rules, base_scores=base, weights=weights)
        for _ in range(trees):
            boosting.step()
        return boosting

    def shard(self, ranks, owners):
        queries = np.flatnonzero(np.equal(owners, ranks.rank))
        return Shard.join(ranks, np.concatenate([[0], np.cumsum(self.lengths[queries])]), queries)


def owners_of(n_ranks, seed):
    """Ranks of random shares of the queries; the last of several may have none."""
    rng = np.random.default_rng(seed)
    return rng.choice(n_ranks, N_QUERIES, p=rng.dirichlet(np.ones(n_ranks)))


def assert_same_forest(forest, expected):
    assert forest.start == expected.start
    for name in FOREST_ARRAYS:
        np.testing.assert_array_equal(getattr(forest, name), getattr(expected, name), err_msg=name)


def check(kind="dense", objective="lambda", n_ranks=2, seed=0, n_jobs=1, trees=4, growth="leaf", **changes):
    """Train alone and with ranks, and compare all that a model is made of."""
    problem, owners = Problem(kind, seed), owners_of(n_ranks, seed)
    depth = {"leaf": 0, "level": 4, "oblivious": 4}[growth]
    grown = {"max_leaf_nodes": 12 if growth != "oblivious" else 16, "max_depth": depth, "min_samples_leaf": 5}
    grown |= changes.pop("grown", {})
    rules = BoostingRules(n_jobs=n_jobs, seed=seed, growth=GrowthRules(growth=growth, **grown), **changes)
    alone = problem.train(objective, rules, trees=trees)
    assert alone.finished().n_trees == trees
    assert growth == "oblivious" or len(alone.finished().value) > trees  # there are splits

    def work(ranks):
        boosting = problem.train(objective, rules, problem.shard(ranks, owners), trees)
        return boosting.finished(), boosting.state(boosting.snapshot())[1], boosting.bundles()

    for forest, state, bundles in ThreadGroup(n_ranks).run(work):
        assert_same_forest(forest, alone.finished())
        np.testing.assert_array_equal(state["scores"], alone.scores)
        assert bundles == alone.bundles()


KINDS = ("dense", "sparse", "missing", "categories", "weights", "base scores")


@pytest.mark.parametrize("growth", GROWTHS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_data(kind, growth):
    number = KINDS.index(kind) + GROWTHS.index(growth)
    layout = LayoutRules(categorical=(3, 18)) if kind == "categories" else LayoutRules()
    check(kind, n_ranks=2 + number % 3, seed=number, growth=growth, layout=layout)


SAMPLES = {
    "rows": SamplingRules(row_fraction=0.6),
    "queries and features": SamplingRules(query_fraction=0.7, feature_fraction=0.5),
    "goss": SamplingRules(goss=(0.2, 0.3)),
    "goss by query": SamplingRules(goss=(0.2, 0.3), goss_by="query"),
    "bootstrap": SamplingRules(bootstrap=True),
}


@pytest.mark.parametrize("sample", SAMPLES)
def test_every_sample(sample):
    number = list(SAMPLES).index(sample)
    kind, growth = KINDS[(2 * number) % len(KINDS)], GROWTHS[number % 3]
    check(kind, n_ranks=2 + number % 3, seed=number, growth=growth, sampling=SAMPLES[sample], average=number == 4)


RULES = {
    "drawn thresholds": {"grown": {"extra_trees": True}},
    "monotone": {"layout": LayoutRules(signs=(1, -1, *[0] * 16, 1, 0))},
    "by gradients": {"grown": {"split_by": "gradients"}},
    "impurity": {"grown": {"max_impurity": 0.12}, "objective": "squared"},
    "many rows per leaf": {"grown": {"min_samples_leaf": 40, "min_hessian": 0.0}},
    "depth": {"grown": {"max_depth": 3, "l2_regularization": 2.0, "min_gain": 0.05}},
    "dart": {"drop_rate": 0.5, "skip_drop": 0.0, "trees": 5},
    "exact": {"step": "exact", "objective": "squared"},
    "one step size": {"step": "tree", "objective": "squared"},
    "means": {"step": "mean", "max_delta_step": 0.5},
    "threads": {"n_jobs": 2},
}


@pytest.mark.parametrize("growth", GROWTHS)
@pytest.mark.parametrize("rule", RULES)
def test_every_rule(rule, growth):
    number = list(RULES).index(rule) + GROWTHS.index(growth)
    kind = "weights" if rule == "by gradients" else KINDS[number % 4] if rule != "monotone" else "missing"
    check(kind, n_ranks=2 + number % 3, seed=number, growth=growth, **RULES[rule])


OBJECTIVES = (
    "logistic",
    "ordinal",
    "query_rmse",
    "ranknet",
    "xendcg",
    "bayesrank",
    "listmle",
    "approxndcg",
    "approxndcg",
)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_every_objective(objective):
    number = OBJECTIVES.index(objective)
    kind = "weights" if number % 2 else "dense"
    check(kind, objective=objective, n_ranks=1 + number % 4, seed=number, growth=GROWTHS[number % 3], trees=3)


@pytest.mark.parametrize(("growth", "kind"), [("leaf", "sparse"), ("level", "categories"), ("oblivious", "missing")])
def test_large_data_need_samples_wide_histograms_and_several_messages(growth, kind, monkeypatch):
    monkeypatch.setattr(binning, "LARGEST_SAMPLE", 150)
    monkeypatch.setattr(growing, "WIDE_ROWS", 100)
    monkeypatch.setattr(stages, "_MESSAGE", 5_000)
    layout = LayoutRules(categorical=(3, 18)) if kind == "categories" else LayoutRules(max_conflicts=0.1)
    check(kind, n_ranks=3, seed=5, growth=growth, layout=layout)


@pytest.mark.parametrize("ahead", [0.0, 1.0])
def test_neither_evicted_histograms_nor_leaves_expanded_ahead_change_a_tree(ahead, monkeypatch):
    monkeypatch.setattr(growing, "POOL", 0)
    monkeypatch.setattr(leafwise, "_AHEAD", ahead)
    monkeypatch.setattr(growing.TreeGrower.__init__, "__defaults__", (0, None))  # the smallest pool: three
    check("missing", n_ranks=2, seed=3, grown={"max_leaf_nodes": 20, "min_samples_leaf": 3})


def drawn(values):
    return st.sampled_from(list(values))


@given(st.data())
@settings(deadline=None, max_examples=25)
def test_every_combination(data):
    kind, growth, n_ranks = data.draw(drawn(KINDS)), data.draw(drawn(GROWTHS)), data.draw(st.integers(1, 4))
    layout = LayoutRules(
        categorical=(3, 18) if kind == "categories" else (),
        signs=data.draw(drawn([(), (1, *[0] * 16, -1, 0, 0)])) if kind != "categories" else (),
        max_conflicts=data.draw(drawn([0.0, 0.2])),
    )
    grown = {
        "min_samples_leaf": data.draw(drawn([1, 5, 25])),
        "split_by": data.draw(drawn(["newton", "gradients"])),
        "extra_trees": data.draw(st.booleans()),
    }
    changes = {"drop_rate": data.draw(drawn([0.0, 0.5])), "skip_drop": 0.0, "layout": layout}
    sampling = SAMPLES[data.draw(drawn(SAMPLES))] if data.draw(st.booleans()) else SamplingRules()
    objective = data.draw(drawn(["lambda", "squared", "xendcg"]))
    check(
        kind, objective, n_ranks, data.draw(st.integers(0, 9)), 1, 3, growth, grown=grown, sampling=sampling, **changes
    )


@pytest.mark.parametrize("kind", ["sparse", "weights"])
def test_a_rank_without_queries(kind, monkeypatch):
    monkeypatch.setattr(f"{__name__}.owners_of", lambda n_ranks, seed: np.arange(N_QUERIES) % 2 * 2)
    check(kind, n_ranks=3, sampling=SAMPLES["goss by query"])


def test_more_ranks_than_words_of_columns():
    check("dense", n_ranks=6, seed=1, growth="leaf", grown={"max_impurity": 0.001}, objective="squared")


def test_a_training_goes_on_from_the_state_that_another_number_of_ranks_has_left():
    problem, rules = Problem("missing"), BoostingRules(n_jobs=1, drop_rate=0.5, skip_drop=0.0)
    alone = problem.train("lambda", rules, trees=6)

    def first(ranks):
        boosting = problem.train("lambda", rules, problem.shard(ranks, owners_of(3, 1)), trees=3)
        return boosting.state(boosting.snapshot())

    meta, arrays = ThreadGroup(3).run(first)[0]

    def second(ranks):
        boosting = problem.train("lambda", rules, problem.shard(ranks, owners_of(2, 2)), trees=0)
        boosting.restore(meta, arrays)
        for _ in range(3):
            boosting.step()
        return boosting.finished()

    for forest in ThreadGroup(2).run(second):
        assert_same_forest(forest, alone.finished())


def test_evaluation_sets_are_followed_by_rows():
    problem, rules = Problem("dense"), BoostingRules(n_jobs=1)

    class Rows:
        def __init__(self, X):
            self.X = X

    def work(ranks):
        shard = problem.shard(ranks, owners_of(2, 4))
        boosting = problem.train("lambda", rules, shard, trees=0)
        boosting.follow(Rows(problem.X[shard.rows] * 2), 0.5, shard)
        boosting.step()
        return boosting.followed[0], shard.rows, boosting.state([])[1]["eval_0/scores"]

    alone = problem.train("lambda", rules, trees=0)
    alone.follow(Rows(problem.X * 2), 0.5)
    alone.step()
    for scores, rows, everywhere in ThreadGroup(2).run(work):
        np.testing.assert_array_equal(scores, alone.followed[0][rows])
        np.testing.assert_array_equal(everywhere, alone.followed[0])


def test_a_rank_that_fails_in_a_tree_ends_the_others():
    problem, ended = Problem("dense"), []

    def work(ranks):
        try:
            boosting = problem.train("lambda", BoostingRules(n_jobs=1), problem.shard(ranks, owners_of(3, 0)), trees=1)
            if ranks.rank == 1:
                boosting.target.derivatives = None  # not callable
            boosting.step()
        except CollectiveError:
            ended.append(ranks.rank)
            raise

    with pytest.raises(TypeError, match="not callable"):
        ThreadGroup(3, timeout=20).run(work)
    assert sorted(ended) == [0, 2]


def test_what_ranks_cannot_do_is_refused():
    problem = Problem("dense")

    def train(objective="squared", step_rule=None, columns=slice(None), shorter=0):
        def work(ranks):
            shard = problem.shard(ranks, owners_of(2, 0))
            X = problem.X[shard.rows][: len(shard.rows) - shorter]
            X = X[:, columns] if ranks.rank else X
            target = parse_objective(objective).bind(problem.y[shard.rows], shard.offsets, shard=shard)
            return Boosting(X, shard, target, BoostingRules(), step_rule=step_rule)

        return ThreadGroup(2).run(work)

    with pytest.raises(ValueError, match="orders the documents of all queries"):
        train(step_rule=lambda *_: 1.0)
    with pytest.raises(ValueError, match="a function as the objective may look at all queries"):
        train(lambda scores, labels, offsets: (scores, scores))
    with pytest.raises(ValueError, match="theirs are 20 dense columns, 3 dense columns"):
        train(columns=slice(3))
    with pytest.raises(ValueError, match="rows of this rank; X has"):
        train(shorter=1)


def test_gradients_that_are_not_finite_end_all_ranks():
    problem = Problem("dense")

    def work(ranks):
        shard = problem.shard(ranks, owners_of(2, 0))
        boosting = problem.train("squared", replace(BoostingRules(), n_jobs=1), shard, trees=1)
        if ranks.rank == 0:
            boosting.scores[0] = 1e300
        boosting.step()

    with pytest.raises(ValueError, match="a gradient of the objective is not finite"):
        ThreadGroup(2).run(work)
