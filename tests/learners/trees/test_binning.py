"""Binning: quantile edges, every value in its bin, missing values apart."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from podium.learners.trees.training import binning
from podium.learners.trees.training.binning import MISSING, bin_rows, find_bin_edges

numbers = st.floats(-(2.0**100), 2.0**100, width=32) | st.sampled_from([0.0, -0.0, 1.0, np.nan])


@given(arrays(np.float32, st.tuples(st.integers(1, 60), st.integers(1, 20)), elements=numbers), st.integers(2, 255))
@settings(max_examples=60, deadline=None)
def test_a_value_lies_in_the_first_bin_whose_border_is_not_below_it(X, max_bins):
    edges = find_bin_edges(X, max_bins)
    rows = bin_rows(X, edges).columns.T
    for f in range(X.shape[1]):
        upper = edges.upper[f]
        assert edges.n_bins[f] <= max_bins
        assert (np.diff(upper[: edges.n_bins[f]]) > 0).all()
        assert upper[edges.n_bins[f] - 1] == np.inf
        for value, found in zip(X[:, f], rows[:, f]):
            expected = MISSING if np.isnan(value) else next(b for b in range(MISSING) if value <= upper[b])
            assert found == expected
        assert edges.has_missing[f] == np.isnan(X[:, f]).any()
    assert (rows[:, X.shape[1] :] == 0).all()


def test_few_values_get_a_bin_each_and_borders_are_midpoints():
    edges = find_bin_edges(np.array([[3], [1], [2], [1]], np.float32))
    assert edges.n_bins.tolist() == [3]
    assert edges.upper[0, :3].tolist() == [1.5, 2.5, np.inf]


def test_bins_hold_about_as_many_rows_each(rng):
    X = rng.standard_normal((10_000, 1)).astype(np.float32)
    counts = np.bincount(bin_rows(X, find_bin_edges(X, 50)).columns[0])
    assert len(counts) == 50
    assert counts.min() >= 150
    assert counts.max() <= 250


def test_a_frequent_value_uses_up_one_bin_only(rng):
    X = np.concatenate([np.zeros(9_000), rng.random(1_000) + 1]).astype(np.float32)[:, None]
    counts = np.bincount(bin_rows(X, find_bin_edges(X, 21)).columns[0])
    assert counts[0] == 9_000
    assert len(counts) == 21
    assert counts[1:].max() <= 60


@pytest.mark.parametrize("n_jobs", [1, 2, 5])
def test_threads_change_nothing(rng, n_jobs):
    X = rng.standard_normal((3_000, 40)).astype(np.float32)
    one, other = find_bin_edges(X, n_jobs=1), find_bin_edges(X, n_jobs=n_jobs)
    np.testing.assert_array_equal(one.upper, other.upper)
    np.testing.assert_array_equal(bin_rows(X, one, 1).rows, bin_rows(X, one, n_jobs).rows)


def test_large_data_is_binned_from_a_sample(rng, monkeypatch):
    monkeypatch.setattr("podium.learners.trees.training.binning.LARGEST_SAMPLE", 1_000)
    X = rng.standard_normal((20_000, 2)).astype(np.float32)
    edges = find_bin_edges(X, 10)
    exact = np.quantile(X[:, 0], np.arange(1, 10) / 10)
    np.testing.assert_allclose(edges.upper[0, :9], exact, atol=0.15)
    again = find_bin_edges(X, 10)
    np.testing.assert_array_equal(edges.upper, again.upper)


def test_a_missing_value_that_the_sample_did_not_see_is_noted(monkeypatch):
    monkeypatch.setattr(binning, "LARGEST_SAMPLE", 10)
    X = np.arange(1000, dtype=np.float32)[:, None]
    edges = find_bin_edges(X)
    X[500] = np.nan
    assert not edges.has_missing[0]
    assert bin_rows(X, edges).edges.has_missing[0]
    assert bin_rows(X, edges).columns[0, 500] == MISSING
