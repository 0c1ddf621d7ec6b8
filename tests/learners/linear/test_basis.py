"""Basis functions: the values of their formulas, in the order of their names."""

import math
from dataclasses import replace

import numpy as np
import pytest
from oracles import functions_of_centres, products_of_features
from sklearn.preprocessing import PolynomialFeatures

from podium.data.standardising import Standardisation
from podium.learners.linear import basis as module
from podium.learners.linear.basis import MOST_FUNCTIONS, Basis, n_products
from podium.learners.linear.function import LinearFunction


def products(n_features, degree, interactions=True):
    """Of features that are standardised already."""
    none = np.empty((0, n_features))
    return Basis("polynomial", degree, 1.0, Standardisation.identity(n_features), none, interactions)


def around(kind, centres, sigma):
    centres = np.array(centres, np.float64)
    none = np.empty((0, centres.shape[1]))
    return Basis(kind, 1, 1.0, Standardisation.identity(centres.shape[1]), none, sigma=sigma).around(centres)


def test_products_of_two_features_up_to_degree_three():
    values = products(2, 3).expand(np.array([[2, 5]], np.float32))[0]
    a, b = 2, 5
    assert values.tolist() == [a, b, a * a, a * b, b * b, a * a * a, a * a * b, a * b * b, b * b * b]
    names = ["a", "b", "a^2", "a * b", "b^2", "a^3", "a^2 * b", "a * b^2", "b^3"]
    assert products(2, 3).names(["a", "b"]) == names


@pytest.mark.parametrize(("n_features", "degree"), [(1, 1), (1, 10), (2, 10), (3, 1), (4, 2), (5, 3), (7, 4), (40, 2)])
def test_products_are_those_of_loops_and_of_polynomial_features(n_features, degree, rng):
    X = rng.uniform(-2, 2, (9, n_features)).astype(np.float32)
    basis = products(n_features, degree)
    values = basis.expand(X)
    assert values.shape == (9, basis.n_functions) == (9, math.comb(n_features + degree, degree) - 1)
    if n_features**degree < 10_000:
        expected = [products_of_features(row, degree) for row in X.tolist()]
        np.testing.assert_allclose(values, expected, rtol=1e-6, atol=0)
    theirs = PolynomialFeatures(degree, include_bias=False).fit(X.astype(np.float64))
    np.testing.assert_allclose(values, theirs.transform(X.astype(np.float64)), rtol=1e-6, atol=0)
    names = [f"x{f}" for f in range(n_features)]
    assert [name.replace(" * ", " ") for name in basis.names(names)] == theirs.get_feature_names_out(names).tolist()


def test_powers_have_the_same_bits_with_and_without_interactions(rng):
    X = rng.standard_normal((50, 4)).astype(np.float32)
    names = list("abcd")
    with_products, without = products(4, 5), products(4, 5, interactions=False)
    columns = [with_products.names(names).index(name) for name in without.names(names)]
    np.testing.assert_array_equal(with_products.expand(X)[:, columns], without.expand(X))


def test_products_are_of_standardised_clipped_features(rng):
    X = (rng.standard_normal((100, 2)) * [1, 1000] + [7, -50]).astype(np.float32)
    X[0] = [3e38, -3e38]
    scaling = Standardisation(np.array([7.0, -50.0]), np.array([1.0, 1000.0]))
    values = replace(products(2, 2), scaling=scaling).expand(X)
    assert values[0].tolist() == [10, -10, 100, -100, 100]
    Z = (X[1:].astype(np.float64) - [7, -50]) / [1, 1000]
    expected = [products_of_features(row, 2) for row in Z]
    np.testing.assert_allclose(values[1:], expected, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("kind", ["gaussian", "sigmoid"])
def test_with_a_sigma_functions_are_of_features_as_they_are(kind, rng):
    rows = (rng.standard_normal((20, 3)) * [1, 30, 0.1] + [5, 100, 0]).astype(np.float32)
    centres, sigma = [[5, 100, 0], [4, 130, 0.25], [0, 0, 0]], 25.0
    values = around(kind, centres, sigma).expand(rows)
    np.testing.assert_allclose(values, functions_of_centres(kind, rows, centres, sigma), rtol=1e-6, atol=1e-30)


def test_one_sigma_from_a_centre_the_gaussian_is_exp_of_minus_one_half():
    row = np.array([[3 + 2, 1000]], np.float32)
    assert around("gaussian", [[3, 1000]], 2.0).expand(row)[0, 0] == pytest.approx(math.exp(-1 / 2))


@pytest.mark.parametrize("sigma", [1e-12, 1.0, 1e12])
def test_functions_of_any_rows_are_finite(sigma):
    largest = float(np.finfo(np.float32).max)
    rows = np.array([[largest, -largest], [0, 0], [-largest, -largest]], np.float32)
    for kind in ("gaussian", "sigmoid"):
        values = around(kind, [[largest, largest], [0, 0], [-largest, 1]], sigma).expand(rows)
        assert ((values >= 0) & (values <= 1)).all()
    assert around("gaussian", rows, sigma).expand(rows).diagonal().tolist() == [1, 1, 1]


def test_scores_are_those_of_the_expanded_rows_for_any_block(rng, monkeypatch):
    X = rng.standard_normal((301, 4)).astype(np.float32)
    for basis in (products(4, 3), products(4, 3, False), around("gaussian", X[:7], 2.0)):
        n = basis.n_functions
        function = LinearFunction(rng.standard_normal(n), 0.5, np.zeros(n))
        expected = function.scores(basis.expand(X), 1)
        for most in (1, 10 * n, 1 << 22):
            monkeypatch.setattr(module, "_BLOCK_VALUES", most)
            for n_jobs in (1, 2):
                np.testing.assert_array_equal(basis.scores(X, function, n_jobs), expected)


def test_too_many_products_are_counted_and_refused():
    """At 46 features, degree 3 is 46 + 46 * 47 / 2 + 46 * 47 * 48 / 6 functions."""
    count = 46 + 46 * 47 // 2 + 46 * 47 * 48 // 6
    assert n_products(46, 3) == count <= MOST_FUNCTIONS
    products(46, 3).refuse_too_many(46)
    degree_4 = count + 46 * 47 * 48 * 49 // 24
    with pytest.raises(ValueError, match=f"of up to 4 of 46 columns are {degree_4:,} basis functions; at most 100,000"):
        products(46, 4).refuse_too_many(46)
    products(10**6, 10, interactions=False).refuse_too_many(10**6)


def test_values_that_do_not_fit_into_memory_are_refused(monkeypatch):
    monkeypatch.setattr(module, "memory", lambda: 4 * 10 * 100)  # bytes
    basis = products(10, 1)
    basis.refuse_too_large(100)
    with pytest.raises(ValueError, match=r"10 basis functions of 101 rows take .* GB; this machine has"):
        basis.refuse_too_large(101)


def test_a_basis_with_a_sigma_that_standardises_is_refused():
    basis = around("gaussian", [[0, 1]], 1.0)
    basis.check(2)
    for scaling in (Standardisation(np.ones(2), np.ones(2)), Standardisation(np.zeros(2), np.array([1.0, 2.0]))):
        with pytest.raises(ValueError, match="not standardised"):
            replace(basis, scaling=scaling).check(2)
