"""Values of nets that are "auto", and when a net stops early without being asked."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import podium
from podium.data.ranking import RankingData
from podium.models.net_values import net_values_for, value_words

SET = {"dropout": 0.25, "weight_decay": 0.2, "batch_size": 64}
SMALL = {"max_epochs": 2, "hidden_layer_sizes": (4,)}
FEW, MANY = {"dropout": 0.5, "weight_decay": 0.01}, {"dropout": 0.1, "weight_decay": 0.001}


def lists(n_queries, per_query=10, seed=0, **more):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_queries * per_query, 3)).astype(np.float32)
    y = (X[:, 0] + rng.standard_normal(len(X)) > 0.5).astype(int)
    y[::per_query], y[1::per_query] = 0, 1  # two labels in every query
    return RankingData.from_arrays(X, y, np.repeat(np.arange(n_queries), per_query), **more)


DATA = {n: lists(n) for n in (40, 1500)}


@pytest.mark.parametrize(
    ("n_queries", "n_rows", "expected", "batch"),
    [
        (2, 20, FEW, 32),
        (100, 16 * 32, FEW, 32),
        (100, 16 * 32 + 1, FEW, 33),
        (1499, 16 * 1000, FEW, 1000),
        (1500, 16 * 1024, MANY, 1024),
        (10**6, 10**8, MANY, 1024),
        (1, 20 * 1499, FEW, 1024),  # one list is worth a query per 20 rows
        (1, 20 * 1500, MANY, 1024),
    ],
)
def test_values_follow_the_numbers_of_queries_and_rows(n_queries, n_rows, expected, batch):
    assert net_values_for(n_queries, n_rows) == expected | {"batch_size": batch}


def test_the_words_say_what_the_values_are():
    assert value_words("dropout") == '"auto" is 0.5 below 1,500 training queries, and 0.1 from there on.'
    assert value_words("batch_size") == '"auto" is a sixteenth of the training rows, from 32 to 1,024.'


@settings(max_examples=8, deadline=None)
@given(names=st.sets(st.sampled_from(sorted(SET))), n_queries=st.sampled_from(sorted(DATA)))
def test_what_is_set_wins_and_the_net_is_that_of_the_values_given_explicitly(names, n_queries):
    chosen = {name: SET[name] for name in names}
    net = podium.RankNet(**SMALL, **chosen).fit(DATA[n_queries])
    assert net.resolved_params_ == net_values_for(n_queries, 10 * n_queries) | chosen
    explicit = podium.RankNet(**SMALL, **net.resolved_params_).fit(DATA[n_queries])
    np.testing.assert_array_equal(net.net_.weights, explicit.net_.weights)


@pytest.mark.parametrize("kind", ["RankNet", "SelfAttentionRanker"])
def test_a_saved_net_has_the_values_of_its_training(kind, tmp_path):
    made = {"embedding_size": 4} if kind == "SelfAttentionRanker" else {"hidden_layer_sizes": (4,)}
    net = getattr(podium, kind)(max_epochs=1, dropout=0.25, **made).fit(DATA[40])
    net.set_params(dropout="auto", batch_size=7).save(tmp_path / "net.podium")
    loaded = podium.load(tmp_path / "net.podium")
    values = {"dropout": 0.25, "weight_decay": 0.01, "batch_size": 32}
    assert loaded.resolved_params_ == net.resolved_params_ == values
    assert (loaded.dropout, loaded.batch_size) == ("auto", 7)
    assert "trained with: dropout=0.25, batch_size=32, weight_decay=0.01" in str(loaded.inspect())
    np.testing.assert_array_equal(loaded.predict(DATA[40]), net.predict(DATA[40]))
    loaded.fit(DATA[1500])
    assert loaded.resolved_params_ == MANY | {"batch_size": 7}


def test_rows_of_weight_zero_are_not_counted():
    weights = np.repeat([1.0, 0.0], [40, 1460])
    data = lists(1500, query_weight=weights)
    assert podium.ListNet(**SMALL).fit(data).resolved_params_ == net_values_for(40, 400)


def eval_set(ordered, equal):
    """Queries with two labels, then queries with one, whose rows all have to count for nothing."""
    data = lists(ordered + equal, 2, seed=1)
    y = np.where(data.query_numbers < ordered, data.y, 1)
    return RankingData.from_arrays(data.X, y, data.qid)


@pytest.mark.parametrize(
    ("ordered", "equal", "asked", "stops"),
    [
        (100, 0, None, True),
        (99, 0, None, False),
        (99, 50, None, False),  # queries with one label tell nothing
        (100, 50, None, True),
        (100, 0, False, False),
        (3, 0, 10, True),  # asking for it counts, whatever the size
    ],
)
def test_nets_stop_early_where_the_evaluation_set_can_tell_or_when_asked(ordered, equal, asked, stops):
    falling = podium.Net(objective=climb_down, max_epochs=14, hidden_layer_sizes=(), batch_size=1000)
    falling.fit(DATA[40], eval_set=eval_set(ordered, equal), early_stopping_rounds=asked)
    curve = falling.evals_["eval_0"]["ndcg@10"]
    assert len(curve) == (11 if stops else 14)  # the first epoch is the best, and ten are waited for
    assert falling.best_iteration_ == (1 if stops else 14)


def climb_down(scores, labels, offsets):
    """Gradients that raise the scores of documents of label 0: every epoch ranks worse."""
    return np.where(labels > 0, 1.0, -1.0), np.ones(len(scores))


def test_the_first_evaluation_set_decides():
    for sets, n_epochs in (((99, 100), 14), ((100, 99), 11)):
        net = podium.Net(objective=climb_down, max_epochs=14, hidden_layer_sizes=(), batch_size=1000)
        net.fit(DATA[40], eval_set=[eval_set(n, 0) for n in sets])
        assert len(net.evals_["eval_0"]["ndcg@10"]) == n_epochs
