"""RankingData: any order of queries in, grouped rows out, nothing merged, nothing changed."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csc_array, csr_array

from podium import write_data, write_letor
from podium.data.query_ids import group_rows
from podium.data.ranking import RankingData


def make(qid, **more):
    n = len(qid)
    return RankingData.from_arrays(np.arange(2 * n).reshape(n, 2), np.arange(n), qid=qid, **more)


def test_rows_keep_their_order_and_are_grouped_by_rows_and_offsets():
    data = make([7, 3, 7, 3, 9])
    assert data.query_ids.tolist() == [7, 3, 9]
    assert data.y.tolist() == [0, 1, 2, 3, 4]
    assert data.qid.tolist() == [7, 3, 7, 3, 9]
    assert data.rows.tolist() == [0, 2, 1, 3, 4]
    assert data.offsets.tolist() == [0, 2, 4, 5]
    assert data.group.tolist() == [2, 2, 1]
    assert data.query_numbers.tolist() == [0, 1, 0, 1, 2]
    assert not data.is_contiguous


def test_the_grouped_form_has_the_rows_of_a_query_side_by_side():
    data = make([7, 3, 7, 3, 9], docids=list("abcde"), sample_weight=[1, 2, 3, 4, 5], query_weight=[10, 20, 30])
    grouped = data.grouped()
    assert grouped.qid.tolist() == [7, 7, 3, 3, 9]
    assert grouped.y.tolist() == [0, 2, 1, 3, 4]
    assert grouped.docids.tolist() == list("acbde")
    assert grouped.sample_weight.tolist() == [1, 3, 2, 4, 5]
    assert grouped.query_weight.tolist() == [10, 20, 30]
    assert data.scatter(grouped.y).tolist() == data.y.tolist()


def test_contiguous_rows_are_grouped_without_a_copy():
    X = np.ones((4, 2), dtype=np.float32)
    data = RankingData.from_arrays(X, [0, 1, 2, 0], qid=[3, 3, 1, 1])
    assert data.grouped() is data
    assert np.shares_memory(data.X, X)


def test_contiguous_rows_keep_their_order():
    data = make(["b", "b", "a"])
    assert data.rows.tolist() == [0, 1, 2]
    assert data.qid.tolist() == ["b", "b", "a"]


@pytest.mark.parametrize(
    "ids",
    [
        [0, 2**32, 2**40],
        [-1, 1, 2**63 - 1],
        [2**63, 2**63 + 1, 2**64 - 1],
        [2**64, 2**64 + 1, 0],
        ["1", "01", "1 "],
        ["a", "a\0", "A"],
        np.array([0, 2**63], dtype=np.uint64),
        np.array([2**53 - 1, 2**53 - 2], dtype=float),
    ],
    ids=str,
)
def test_ids_that_differ_never_merge_or_wrap(ids):
    data = make(ids)
    assert data.n_queries == len(ids)
    expected = [str(int(i)) if isinstance(i, float) else str(i) for i in ids]
    assert [str(i) for i in data.qid] == expected


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ([1, "1"], "not a mix; got int, str"),
        ([1.5, 2.0], r"qid\[0\] is 1.5.*integers"),
        ([1.0, 2.0**53], "may have merged already"),
        ([1, None], r"qid\[1\] is missing \(None\)"),
        ([1.0, float("nan")], r"qid\[1\] is"),
        ([1j, 2], "got complex, int"),
        ([[1], [2]], "qid"),
    ],
)
def test_ids_that_could_be_mistaken_are_refused(ids, message):
    with pytest.raises(ValueError, match=message):
        make(ids)


@given(st.lists(st.sampled_from(["a", "b", "c", "d"]), min_size=1, max_size=40))
@settings(max_examples=50, deadline=None)
def test_grouping_equals_a_dictionary_of_lists(ids):
    expected: dict[str, list[int]] = {}
    for row, name in enumerate(ids):
        expected.setdefault(name, []).append(row)
    for values in (ids, [ord(name) for name in ids]):
        data = make(values)
        assert data.rows.tolist() == [row for rows in expected.values() for row in rows]
        assert data.group.tolist() == [len(rows) for rows in expected.values()]


def test_group_rows_of_nothing_is_nothing():
    order, offsets, ids = group_rows(np.array([], dtype=np.int64))
    assert order is None
    assert offsets.tolist() == [0]
    assert len(ids) == 0


def test_lightgbms_group_sizes_are_accepted():
    data = RankingData.from_arrays([[1], [2], [3]], [0, 1, 2], group=[2, 1])
    assert data.group.tolist() == [2, 1]
    assert data.query_ids.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"group": [2, 2]}, "group sizes add up to 4, X has 3 rows"),
        ({"group": [4, -1]}, r"group\[1\] = -1; sizes must be positive"),
        ({"group": [3, 0]}, r"group\[1\] = 0; sizes must be positive"),
        ({"qid": [1, 1]}, "qid has 2 entries, X has 3 rows"),
        ({"qid": [2, 1]}, "Did you pass group sizes as qid"),
        ({"qid": [1, 1, 1], "group": [3]}, "not both"),
        ({}, "qid is missing"),
        ({"qid": [1, 1, 1], "y": [0, 1]}, "y has 2 entries, the data has 3 rows"),
        ({"qid": [1, 1, 1], "y": [0, np.nan, 1]}, r"y\[1\] is nan"),
        ({"qid": [1, 1, 1], "y": [0, -1, 1]}, r"y\[1\] is -1.0; labels must be finite numbers, 0 or larger"),
        ({"qid": [1, 1, 1], "y": ["a", "b", "c"]}, "y must hold one number per row"),
        ({"qid": [1, 1, 1], "X": [1, 2, 3]}, "two dimensions"),
        ({"qid": [1, 1, 1], "X": [[1], [np.inf], [2]]}, r"X\[1, 0\] is inf"),
        ({"qid": [1, 1, 1], "X": [[1], [1e39], [2]]}, r"X\[1, 0\] is 1e\+39; features must be finite as float32"),
        ({"qid": [1, 1, 1], "X": [[1j], [1], [2]]}, "complex"),
        ({"qid": [1, 1, 1], "X": [["a"], ["b"], ["c"]]}, "X must hold numbers"),
        ({"qid": [1, 1, 1], "docids": ["a"]}, "docids has 1 entries, the data has 3 rows"),
        ({"qid": [1, 1, 1], "feature_names": ["a", "b"]}, "feature_names has 2 entries, X has 1 columns"),
        ({"qid": [1, 1, 1], "sample_weight": [1, 2, -1]}, r"sample_weight\[2\] is -1.0"),
        ({"qid": [1, 1, 2], "query_weight": [1, 2, 3]}, "query_weight has 3 entries, the data has 2 queries"),
    ],
)
def test_bad_arrays_are_refused_by_name_and_place(arguments, message):
    usual = {"X": [[1], [2], [3]], "y": [0, 1, 2]} | arguments
    with pytest.raises(ValueError, match=message):
        RankingData.from_arrays(usual.pop("X"), usual.pop("y"), **usual)


def test_repeated_feature_names_are_refused():
    with pytest.raises(ValueError, match="'a' more than once"):
        make([1], feature_names=["a", "a"])


def test_data_is_frozen():
    data = make([1, 1, 2])
    with pytest.raises(ValueError, match="read-only"):
        data.X[0, 0] = 5
    with pytest.raises(AttributeError):
        data.X = None


def test_nan_is_missing_and_the_matrix_is_single_precision_in_c_order():
    data = RankingData.from_arrays(np.asfortranarray([[1.1, np.nan], [2, 3]]), [0, 1], qid=[1, 1])
    assert data.X.dtype == np.float32
    assert data.X.flags.c_contiguous
    assert np.isnan(data.X[0, 1])


def test_subset_takes_whole_queries_with_everything_that_belongs_to_them():
    data = make([7, 3, 7, 3, 9], docids=list("abcde"), sample_weight=[1, 2, 3, 4, 5], query_weight=[10, 20, 30])
    for chosen in ([2, 0], np.array([2, 0])):
        part = data.subset(chosen)
        assert part.query_ids.tolist() == [9, 7]
        assert part.docids.tolist() == ["e", "a", "c"]
        assert part.sample_weight.tolist() == [5, 1, 3]
        assert part.query_weight.tolist() == [30, 10]
        assert part.rows.tolist() == [0, 1, 2]
    assert data.subset([True, False, True]).query_ids.tolist() == [7, 9]
    assert data.subset(slice(1, 3)).query_ids.tolist() == [3, 9]


@given(st.lists(st.sampled_from("abcd"), min_size=1, max_size=30), st.data())
@settings(max_examples=60, deadline=None)
def test_a_subset_in_the_order_of_the_data_leaves_rows_where_they_are(ids, draw):
    data = make(ids, docids=list(map(str, range(len(ids)))))
    names = list(dict.fromkeys(ids))
    mask = draw.draw(st.lists(st.booleans(), min_size=len(names), max_size=len(names)))
    part, chosen = data.subset(np.array(mask)), {name for name, taken in zip(names, mask) if taken}
    expected = [row for row, name in enumerate(ids) if name in chosen]
    assert part.docids.tolist() == list(map(str, expected))
    assert part.qid.tolist() == [ids[row] for row in expected]
    assert part.query_ids.tolist() == [name for name in names if name in chosen]
    for number, name in enumerate(part.query_ids):
        own = part.rows[part.offsets[number] : part.offsets[number + 1]]
        assert own.tolist() == [row for row, other in enumerate(part.qid) if other == name]
    order = draw.draw(st.permutations(range(len(names))))
    assert data.subset(list(order)).query_ids.tolist() == [names[number] for number in order]


def test_folds_hold_whole_queries_and_test_each_once():
    data = make(np.repeat(np.arange(11), 3))
    folds = list(data.folds(4, seed=1))
    assert sorted(query for _, test in folds for query in test.query_ids) == list(range(11))
    for train, test in folds:
        assert not set(train.query_ids) & set(test.query_ids)
        assert train.n_queries + test.n_queries == 11
    again = list(data.folds(4, seed=1))
    assert [test.query_ids.tolist() for _, test in folds] == [test.query_ids.tolist() for _, test in again]
    assert [t.query_ids.tolist() for _, t in folds] != [t.query_ids.tolist() for _, t in data.folds(4, seed=2)]
    with pytest.raises(ValueError, match=r"from 2 to the number of queries \(11\); got 12"):
        next(data.folds(12))


def test_concat_puts_parts_behind_one_another():
    whole = make([7, 3, 7, 9], docids=list("abcd"))
    parts = [whole.subset([2]), whole.subset([0, 1])]
    joined = RankingData.concat(parts)
    assert joined.query_ids.tolist() == [9, 7, 3]
    assert joined.docids.tolist() == ["d", "a", "b", "c"]
    assert joined.qid.tolist() == [9, 7, 3, 7]
    with pytest.raises(ValueError, match="query '7' is in part 1 and in part 2"):
        RankingData.concat([whole.subset([0]), whole])
    with pytest.raises(ValueError, match="part 2 has 1 feature, part 1 has 2"):
        RankingData.concat([whole, RankingData.from_arrays([[1]], [0], qid=[5])])
    with pytest.raises(ValueError, match="at least one"):
        RankingData.concat([])


def test_concat_turns_numbers_and_text_into_text():
    joined = RankingData.concat([make([1]), make(["x"])])
    assert joined.query_ids.tolist() == ["1", "x"]


@pytest.fixture
def sparse_pair(rng):
    """The same rows of six queries, dense and sparse, with missing values."""
    X = np.where(rng.random((40, 9)) < 0.2, rng.standard_normal((40, 9)), 0).astype(np.float32)
    X[3, 4] = np.nan
    y, qid = rng.integers(0, 3, 40), rng.permutation(np.arange(40) % 6)
    return tuple(RankingData.from_arrays(rows, y, qid=qid) for rows in (X, csc_array(X)))


def assert_same(sparse, dense):
    assert isinstance(sparse.X, csr_array)
    np.testing.assert_array_equal(sparse.X.toarray(), dense.X)
    np.testing.assert_array_equal(sparse.y, dense.y)
    np.testing.assert_array_equal(sparse.qid, dense.qid)


def test_a_sparse_matrix_stays_sparse_and_is_read_only(sparse_pair):
    dense, sparse = sparse_pair
    assert_same(sparse, dense)
    assert repr(sparse) == "RankingData(40 rows, 6 queries, 9 features)"
    assert not any(array.flags.writeable for array in (sparse.X.data, sparse.X.indices, sparse.X.indptr))
    np.testing.assert_array_equal(sparse.to_dense().X, dense.X)
    assert dense.to_dense() is dense


def test_sparse_data_are_parted_and_joined_by_queries(sparse_pair):
    dense, sparse = sparse_pair
    assert_same(sparse.subset([4, 1]), dense.subset([4, 1]))
    for ours, theirs in zip(sparse.folds(3), dense.folds(3)):
        for one, other in zip(ours, theirs):
            assert_same(one, other)
    parts = [[0, 1], [2, 3, 4, 5]]
    joined = RankingData.concat([dense.subset(part) for part in parts])
    assert_same(RankingData.concat([sparse.subset(part) for part in parts]), joined)
    assert_same(RankingData.concat([dense.subset(parts[0]), sparse.subset(parts[1])]), joined)


def test_the_constructor_checks_sparse_features_too():
    wrong = csr_array(np.eye(3, dtype=np.float32))
    wrong.indices[1] = 1_000_000
    with pytest.raises(ValueError, match=r"indices\[1\] is 1000000, but it has 3 columns"):
        RankingData(wrong, np.zeros(3), np.array([0, 3]), np.array([1]), np.arange(3))


@pytest.mark.parametrize("leave_out", [None, True, False])
def test_sparse_data_are_written_as_the_same_text(sparse_pair, tmp_path, leave_out):
    dense, sparse = sparse_pair
    write_letor(sparse, tmp_path / "sparse.txt", sparse=leave_out)
    write_letor(dense, tmp_path / "dense.txt", sparse=leave_out is not False)
    assert (tmp_path / "sparse.txt").read_bytes() == (tmp_path / "dense.txt").read_bytes()
    for data in sparse_pair:
        with pytest.warns(UserWarning, match="these rows are written query by query"):
            write_data(data, tmp_path / f"{type(data.X).__name__}.lgb", format="lightgbm")
    assert (tmp_path / "csr_array.lgb").read_bytes() == (tmp_path / "ndarray.lgb").read_bytes()


def test_what_needs_every_value_refuses_sparse_data_and_says_what_to_do(sparse_pair, tmp_path):
    sparse = sparse_pair[1]
    message = r"takes dense features; these are sparse, 40 rows x 9 features. data.to_dense\(\) makes them dense"
    for suffix in ("csv", "podium-data"):
        with pytest.raises(ValueError, match=message):
            write_data(sparse, tmp_path / f"data.{suffix}")
    with pytest.raises(ValueError, match=f"a table {message}"):
        sparse.to_frame()


def test_a_notebook_shows_sizes_labels_and_the_first_rows():
    X = np.arange(20, dtype=np.float32).reshape(2, 10)
    data = RankingData.from_arrays(X, [0, 2], ["<q>", "<q>"], feature_names=[f"f{n}" for n in range(10)])
    shown = data._repr_html_()
    for text in ("2 rows, 1 query, 10 features", "0: 50.0%, 2: 50.0%", "&lt;q&gt;", "f7", "2 more", "2 to 2, mean 2.0"):
        assert text in shown
    assert "<q>" not in shown
    assert "f8" not in shown


@pytest.mark.parametrize(
    "X", [np.zeros((0, 2)), csr_array(np.eye(3)), np.full((3, 1), np.nan)], ids=["0", "csr", "nan"]
)
def test_a_notebook_shows_any_data(X):
    shown = RankingData.from_arrays(X, qid=[1] * X.shape[0])._repr_html_()
    assert f"The first {X.shape[0]} of {X.shape[0]} rows" in shown
    assert ">none<" in shown  # labels
