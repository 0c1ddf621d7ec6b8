"""Names: columns of categories and of text, in training and in scoring."""

import numpy as np
import pandas
import polars
import pyarrow
import pytest

import podium
from podium.formats.names import encode, find_names
from podium.models.frame.inspection import tree_text

COLOURS = ["red", "green", "blue", None, "red", "blue"]


def table(kind, colours=COLOURS, **columns):
    columns = {"size": np.arange(len(colours), dtype=np.float64), **columns}
    if kind == "pandas":
        return pandas.DataFrame({"colour": pandas.Categorical(colours), **columns})
    if kind == "polars":
        return polars.DataFrame({"colour": polars.Series(colours, dtype=polars.Categorical), **columns})
    return pyarrow.table({"colour": pyarrow.array(colours).dictionary_encode(), **columns})


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
def test_categories_of_a_table_are_found_and_become_their_places(kind):
    names = find_names(table(kind), [])
    assert names == {"colour": ["blue", "green", "red"]}
    numbers = np.asarray(encode(table(kind), names)["colour"])
    np.testing.assert_array_equal(numbers, [2, 1, 0, np.nan, 2, 0])
    np.testing.assert_array_equal(np.asarray(encode(table(kind), names)["size"]), np.arange(6))


def test_the_index_of_a_table_plays_no_part():
    frame = table("pandas").set_index(pandas.Index([5, 3, 9, 9, 0, 1]))
    assert encode(frame, {"colour": ["red", "green", "blue"]})["colour"].tolist()[:3] == [0, 1, 2]


def test_text_is_refused_unless_it_is_asked_for():
    frame = pandas.DataFrame({"colour": ["red", "green", None]})
    assert find_names(frame, ["colour"]) == {"colour": ["green", "red"]}
    with pytest.raises(ValueError, match=r"column 'colour' holds text such as 'red'.*categorical=\['colour'\]"):
        find_names(frame, [])


def test_names_may_be_numbers():
    sizes = pandas.DataFrame({"size": pandas.Categorical([40, 38, 40])})
    assert find_names(sizes, []) == {"size": [38, 40]}
    assert encode(pandas.DataFrame({"size": [38, 40]}), {"size": [38, 40]})["size"].tolist() == [0, 1]


def test_names_must_be_text_or_numbers():
    days = pandas.DataFrame({"day": pandas.Categorical(pandas.to_datetime(["2024-01-01", "2024-01-02"]))})
    with pytest.raises(ValueError, match=r"column 'day' has the category .* expected text or numbers"):
        find_names(days, [])


def test_what_training_did_not_know_is_missing_and_told_if_nothing_is_known():
    names = {"colour": ["red", "green"]}
    frame = pandas.DataFrame({"colour": ["green", "pink", "red"]})
    with pytest.warns(UserWarning, match="column 'colour': training did not know 1 of 3 values"):
        np.testing.assert_array_equal(encode(frame, names)["colour"], [1, np.nan, 0])
    with pytest.warns(UserWarning, match="column 'colour': training knew none of these values"):
        encode(frame.head(2).tail(1), names)


def test_arrays_and_sparse_matrices_pass_through():
    rows = np.zeros((2, 1))
    assert find_names(rows, []) == {}
    assert encode(rows, {"colour": ["red"]}) is rows


@pytest.fixture
def coloured(rng):
    """Labels that depend on a colour, which is better than nothing only as a set: not in the order of the names."""
    colours = rng.choice(["amber", "blue", "cyan", "dun", "ecru", "fawn"], 600)
    frame = pandas.DataFrame({"size": rng.random(600), "colour": pandas.Categorical(colours)})
    return frame, np.isin(colours, ["amber", "cyan", "ecru"]).astype(int), np.arange(600) // 20


def test_a_table_with_categories_trains_as_its_numbers_do(coloured):
    frame, y, qid = coloured
    model = podium.LambdaMART(n_estimators=5).fit(frame, y, qid)
    numbers = np.column_stack([frame["size"], frame["colour"].cat.codes])
    plain = podium.LambdaMART(n_estimators=5, categorical=[1]).fit(numbers, y, qid)
    assert model.categories_ == {"colour": ["amber", "blue", "cyan", "dun", "ecru", "fawn"]}
    np.testing.assert_array_equal(model.predict(frame), plain.predict(numbers))
    assert model.score(frame, y, qid) == 1.0


def test_other_tables_are_read_by_name_not_by_place(coloured, tmp_path):
    frame, y, qid = coloured
    model = podium.LambdaMART(n_estimators=5).fit(frame, y, qid, eval_set=(frame.astype({"colour": str}), y, qid))
    assert model.evals_["eval_0"]["ndcg@10"][-1] == 1.0
    turned = frame.assign(colour=frame["colour"].cat.set_categories(list("x") + sorted(set(frame["colour"]))[::-1]))
    assert not np.array_equal(turned["colour"].cat.codes, frame["colour"].cat.codes)
    model.save(tmp_path / "model.podium")
    for one in (model, podium.load(tmp_path / "model.podium")):
        np.testing.assert_array_equal(one.predict(turned), model.predict(frame))
        np.testing.assert_array_equal(one.predict(polars.from_pandas(turned)), model.predict(frame))


def test_an_unseen_name_goes_where_missing_ones_go(coloured):
    frame, y, qid = coloured
    model = podium.LambdaMART(n_estimators=5).fit(frame, y, qid)
    some = frame.head(3).astype({"colour": str})
    unseen, missing = some.assign(colour=["zinc", *some["colour"][1:]]), some.assign(colour=[None, *some["colour"][1:]])
    with pytest.warns(UserWarning, match="training did not know 1 of 3 values"):
        np.testing.assert_array_equal(model.predict(unseen), model.predict(missing))


def test_more_trees_and_other_values_keep_the_names(coloured):
    frame, y, qid = coloured
    whole = podium.LambdaMART(n_estimators=6).fit(frame, y, qid)
    turned = frame.assign(colour=frame["colour"].cat.set_categories(sorted(set(frame["colour"]))[::-1]))
    model = podium.LambdaMART(n_estimators=3).fit(frame, y, qid).fit_more(turned, y, qid, n_estimators=3)
    np.testing.assert_array_equal(model.predict(frame), whole.predict(frame))
    again = whole.refit(turned, y, qid, decay=1.0)
    assert again.categories_ == whole.categories_
    np.testing.assert_array_equal(again.predict(turned), whole.predict(frame))


def test_trees_are_reported_with_names(coloured, tmp_path):
    frame, y, qid = coloured
    model = podium.RegressionTree(max_leaf_nodes=2).fit(frame, y, qid)
    assert "colour is amber, cyan, ecru" in tree_text(model, 1) or "colour is blue, dun, fawn" in tree_text(model, 1)
    podium.explain.draw_tree(model, 1, tmp_path / "tree.svg")
    assert (tmp_path / "tree.svg").stat().st_size > 0


def test_a_base_model_must_know_the_same_names(coloured):
    frame, y, qid = coloured
    base = podium.MART(n_estimators=2).fit(frame, y, qid)
    podium.LambdaSMART(n_estimators=2, init=base).fit(frame, y, qid)
    other = frame.assign(colour=frame["colour"].cat.rename_categories({"fawn": "grey"}))
    with pytest.raises(ValueError, match="init was trained on a table with other names"):
        podium.LambdaSMART(n_estimators=2, init=base).fit(other, y, qid)
