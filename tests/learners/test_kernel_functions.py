"""Kernel functions: one formula each, for SVMs, support vector regression and basis functions."""

import math

import numpy as np
import pytest
from sklearn.svm import SVR

import podium
from podium.data.standardising import Standardisation
from podium.exchange.engines import svmlight
from podium.learners.kernel_functions import KERNEL_FUNCTIONS, SKLEARN_NAMES, gaussian, polynomial, sigmoid
from podium.learners.linear.basis import Basis
from podium.learners.svm.kernels import Kernel

A, B = np.array([[1.0, 2.0]], np.float32), np.array([[4.0, 6.0]], np.float32)
PRODUCT, SQUARED = 1 * 4 + 2 * 6, (4 - 1) ** 2 + (6 - 2) ** 2
VALUES = {
    "gaussian": math.exp(-0.1 * SQUARED),
    "polynomial": (0.1 * PRODUCT + 2) ** 3,
    "sigmoid": math.tanh(0.1 * PRODUCT + 2),
}


def test_formulas_take_numbers_and_arrays():
    assert gaussian(SQUARED, 0.1) == pytest.approx(VALUES["gaussian"], rel=1e-15)
    assert polynomial(np.array([PRODUCT]), 0.1, 2.0, 3)[0] == pytest.approx(VALUES["polynomial"], rel=1e-15)
    assert sigmoid(float(PRODUCT), 0.1, 2.0) == pytest.approx(VALUES["sigmoid"], rel=1e-15)


@pytest.mark.parametrize("name", KERNEL_FUNCTIONS)
def test_the_kernel_of_an_svm_is_the_formula(name):
    assert Kernel(name, 0.1, 3, 2.0).matrix(A, B)[0, 0] == pytest.approx(VALUES[name], rel=1e-12)


@pytest.mark.parametrize("name", SKLEARN_NAMES)
def test_support_vector_regression_is_scored_as_scikit_learn_does(name):
    rng = np.random.default_rng(1)
    X, y, qid = rng.standard_normal((40, 3)).astype(np.float32), rng.random(40), np.repeat(np.arange(4), 10)
    model = podium.Pointwise(SVR(kernel=name, gamma=0.1, coef0=2.0), standardize=False).fit(X, y, qid=qid)
    np.testing.assert_allclose(model.predict(X), model.estimator_.predict(X.astype(np.float64)), rtol=1e-9)


def test_gaussian_basis_functions_are_the_gaussian_kernel():
    basis = Basis("gaussian", 1, 5**0.5 / 2**0.5, Standardisation.identity(2), B.astype(np.float64))
    assert basis.expand(A)[0, 0] == pytest.approx(math.exp(-SQUARED / (2 * 5)), rel=1e-6)


def test_files_of_svmlight_know_the_same_kernels():
    assert {"linear", *KERNEL_FUNCTIONS} == set(svmlight.KERNELS)
    assert set(SKLEARN_NAMES.values()) == set(KERNEL_FUNCTIONS)
