"""Sparse features: every kind of matrix becomes one kind, and none that is broken gets through."""

import sys
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import coo_array, csc_array, csr_array, csr_matrix

from podium.data.sparse import as_dense, as_sparse, is_sparse

FORMATS = ("bsr", "coo", "csc", "csr", "dia", "dok", "lil")
X = np.array([[0, 2.5, 0], [0, 0, 0], [-1, 0, np.nan], [0, 0, 4]])


@pytest.mark.parametrize("kind", [coo_array, csr_matrix])
@pytest.mark.parametrize("name", FORMATS)
def test_any_format_becomes_rows_of_float32(name, kind):
    found = as_sparse(kind(X).asformat(name))
    assert type(found) is csr_array
    assert found.dtype == np.float32
    assert found.has_canonical_format
    np.testing.assert_array_equal(found.toarray(), X)
    assert not any(array.flags.writeable for array in (found.data, found.indices, found.indptr))


def test_entries_are_sorted_and_added_up_without_touching_the_original():
    given = csr_array((np.array([1.0, 2.0, 4.0]), np.array([2, 0, 2]), np.array([0, 3])), shape=(1, 3))
    assert as_sparse(given).toarray().tolist() == [[2, 0, 5]]
    assert given.indices.tolist() == [2, 0, 2]


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint64, np.float16, np.float64, np.longdouble])
def test_numbers_of_any_real_type_are_taken(dtype):
    found = as_sparse(csr_array((np.array([1, 1], dtype), np.array([1, 0]), np.array([0, 2])), shape=(1, 2)))
    assert found.dtype == np.float32
    assert found.toarray().tolist() == [[1, 1]]


def test_stored_zeros_and_right_arrays_stay_as_they_are():
    given = csr_array((np.array([0, 3], np.float32), np.array([0, 1]), np.array([0, 2])), shape=(1, 2))
    found = as_sparse(given)
    assert found.nnz == 2
    assert np.shares_memory(found.data, given.data)


def broken(name, value, kind=csr_array):
    """A matrix of 4 rows and 3 columns with one array replaced."""
    matrix = kind(X)
    setattr(matrix, name, np.array(value))
    return matrix


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (broken("indices", [1, 0, 3, 2]), r"indices\[2\] is 3, but it has 3 columns"),
        (broken("indices", [1, 0, -1, 2]), r"indices\[2\] is -1, but it has 3 columns"),
        (broken("indices", [2, 0, 4, 3], csc_array), r"indices\[2\] is 4, but it has 4 rows"),
        (broken("indptr", [0, 1, 1, 3, 9]), "rise from 0 to at most 4"),
        (broken("indptr", [0, 3, 1, 3, 4]), "rise from 0"),
        (broken("indptr", [1, 1, 1, 3, 4]), "rise from 0"),
        (broken("indptr", [0, 4]), "indptr must have 5 numbers, one more than there are rows"),
        (broken("indptr", [0, 1, 4], csc_array), "indptr must have 4 numbers, one more than there are columns"),
        (broken("indptr", [0.0, 1, 1, 3, 4]), "integers"),
        (broken("data", [1.0, 2.0]), "2 values but 4 indices"),
        (csr_array(X * 1j), "real numbers; got a sparse matrix of complex128"),
        (coo_array(np.ones(3)), r"two dimensions \(rows, features\); got shape \(3,\)"),
    ],
)
def test_what_would_lead_compiled_code_astray_is_refused(matrix, message):
    with pytest.raises(ValueError, match=message):
        as_sparse(matrix)


def test_places_outside_of_a_list_of_entries_are_refused():
    matrix = coo_array(X)
    matrix.coords[0][0] = 70
    with pytest.raises(ValueError, match=r"not a valid sparse matrix: .*70"):
        as_sparse(matrix)


@pytest.mark.parametrize("value", [np.inf, -np.inf, 1e39])
def test_an_infinite_value_is_reported_with_its_row_and_column(value):
    matrix = csr_array(X)
    matrix.data[3] = value
    with pytest.raises(
        ValueError, match=rf"X\[3, 2\] is {value}.*; features must be finite as float32".replace("+", r"\+")
    ):
        as_sparse(matrix)


@given(st.data())
@settings(max_examples=150)
def test_whatever_the_arrays_hold_they_are_refused_or_make_a_matrix(data):
    numbers = st.lists(st.integers(-2, 6), max_size=6).map(np.array)
    matrix = data.draw(st.sampled_from([csr_array, csc_array]))((3, 4))
    matrix.indices, matrix.indptr = data.draw(numbers), data.draw(numbers | st.just(np.array([0, 1, 1, 2])))
    matrix.data = np.ones(data.draw(st.sampled_from([len(matrix.indices), 2])))
    try:
        found = as_sparse(matrix)
    except ValueError:
        return
    expected = np.zeros((3, 4))
    for line in range(len(matrix.indptr) - 1):
        for k in range(matrix.indptr[line], matrix.indptr[line + 1]):
            expected[(line, matrix.indices[k]) if matrix.format == "csr" else (matrix.indices[k], line)] += 1
    np.testing.assert_array_equal(found.toarray(), expected)


def test_arrays_are_not_sparse():
    assert not is_sparse(X)
    assert as_dense(X) is X
    assert as_dense(csr_array(X)).shape == X.shape


def test_nothing_is_sparse_while_another_thread_imports_scipy(monkeypatch):
    """Until its last line has run, an imported module is known, and has none of its functions."""
    monkeypatch.setitem(sys.modules, "scipy.sparse", ModuleType("scipy.sparse"))
    assert not any(map(is_sparse, (None, [1.0], X)))
