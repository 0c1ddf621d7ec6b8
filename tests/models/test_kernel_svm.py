"""KernelRankSVM: equal to the dual problem over pairs, to RankSVM with a linear kernel, to given kernel values."""

import io

import numpy as np
import pytest
from oracles import preference_pairs
from scipy.optimize import minimize
from sklearn.svm import SVC

import podium
from podium import KernelRankSVM, RankSVM
from podium.formats.errors import FormatError
from podium.learners.svm.kernel_training import factorise
from podium.learners.svm.kernels import Kernel
from podium.models import kernel_svm
from podium.persistence.storage import load_parts, save_parts

KERNELS = {
    "linear": {},
    "gaussian": {"gamma": 0.3},
    "polynomial": {"gamma": 0.4, "degree": 2, "coef0": 0.5},
    "sigmoid": {"gamma": 0.01, "coef0": 0.0},
}


def make_lists(rng, n=48, noise=0.3):
    X = rng.standard_normal((n, 3)).astype(np.float32)
    y = np.clip(np.round(X[:, 0] * X[:, 1] + X[:, 2] + 1 + noise * rng.standard_normal(n)), 0, 3)
    return X, y, rng.permutation(np.arange(n) // 8)


def plain_kernel(A, B, kernel, gamma=1.0, degree=3, coef0=1.0):
    A, B = A.astype(float), B.astype(float)
    if kernel == "gaussian":
        return np.exp(-gamma * ((A[:, None] - B[None]) ** 2).sum(axis=2))
    product = A @ B.T
    if kernel == "linear":
        return product
    return (gamma * product + coef0) ** degree if kernel == "polynomial" else np.tanh(gamma * product + coef0)


def solve_dual(K, y, qid, C, squared):
    """(largest value, scores of the training rows) of sum(a) - 1/2 a'Qa [- a'a / 4C] for 0 <= a [<= C]; pairs."""
    pairs = np.array(preference_pairs(y, qid))
    B = np.zeros((len(pairs), len(y)))
    B[np.arange(len(pairs)), pairs[:, 0]], B[np.arange(len(pairs)), pairs[:, 1]] = 1, -1
    Q = B @ K @ B.T + (np.eye(len(pairs)) / (2 * C) if squared else 0)
    found = minimize(
        lambda a: 0.5 * a @ Q @ a - a.sum(),
        np.full(len(pairs), min(C, 1) / 10),
        jac=lambda a: Q @ a - 1,
        bounds=[(0, None if squared else C)] * len(pairs),
        method="L-BFGS-B",
        options={"maxiter": 50_000, "maxfun": 100_000, "ftol": 1e-15, "gtol": 1e-9},
    )
    return -found.fun, K @ B.T @ found.x


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("C", [0.1, 3.0])
def test_the_minimum_is_that_of_the_dual_problem_over_pairs(rng, kernel, loss, C):
    X, y, qid = make_lists(rng)
    model = KernelRankSVM(kernel=kernel, C=C, loss=loss, max_gap=1e-8, **KERNELS[kernel]).fit(X, y, qid=qid)
    K = plain_kernel(X, X, kernel, **KERNELS[kernel])
    values, vectors = np.linalg.eigh(
        K
    )  # the sigmoid's are not all positive: without a positive part there is no minimum
    K = vectors @ np.diag(np.maximum(values, 0)) @ vectors.T
    least, scores = solve_dual(K, y, qid, C, loss == "squared_hinge")
    assert model.objective_ == pytest.approx(least, rel=1e-5)
    np.testing.assert_allclose(model.predict(X), scores, atol=5e-3 * np.abs(scores).max())


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_a_linear_kernel_is_ranksvm(rng, loss):
    X, y, qid = make_lists(rng)
    new = rng.standard_normal((20, 3))
    for C in (0.01, 1.0):
        linear = RankSVM(C=C, loss=loss, max_gap=1e-9).fit(X, y, qid=qid)
        model = KernelRankSVM(kernel="linear", C=C, loss=loss, max_gap=1e-9).fit(X, y, qid=qid)
        assert model.objective_ == pytest.approx(linear.objective_, rel=1e-8)
        assert len(model.factors_) == 3  # as many documents as dimensions
        np.testing.assert_allclose(model.predict(new), linear.predict(new), atol=1e-3)


def test_one_query_of_two_grades_per_pair_is_scikit_learns_svc(rng):
    """A query of one pair is a difference of two images: SVC on the kernel of differences solves the same problem."""
    X, y = rng.standard_normal((60, 3)).astype(np.float32), np.tile([0.0, 1.0], 30)
    model = KernelRankSVM(C=2.0, gamma=0.5, max_gap=1e-9).fit(X, y, qid=np.arange(60) // 2)
    K, sign = plain_kernel(X, X, "gaussian", 0.5), np.where(np.arange(30) % 2, 1, -1)
    D = K[1::2, 1::2] - K[1::2, ::2] - K[::2, 1::2] + K[::2, ::2]
    both = np.concatenate([sign, -sign])  # each pair both ways, so that SVC's intercept is 0
    doubled = np.outer(both, both) * np.tile(D, (2, 2))
    svc = SVC(C=1.0, kernel="precomputed", tol=1e-9).fit(doubled, both)
    theirs = svc.decision_function(doubled)[:30] * sign
    margins = model.predict(X)[1::2] - model.predict(X)[::2]
    np.testing.assert_allclose(margins, theirs, atol=1e-3)


@pytest.mark.parametrize("kernel", ["gaussian", "polynomial"])
def test_given_kernel_values_and_functions_are_kernels_too(rng, kernel):
    X, y, qid = make_lists(rng)
    new = rng.standard_normal((20, 3)).astype(np.float32)
    named = KernelRankSVM(kernel=kernel, max_gap=1e-8, **KERNELS[kernel]).fit(X, y, qid=qid)
    own = KernelRankSVM(kernel=lambda A, B: plain_kernel(A, B, kernel, **KERNELS[kernel]), max_gap=1e-8)
    own.fit(X, y, qid=qid)
    np.testing.assert_allclose(own.predict(new), named.predict(new), atol=1e-3)
    K, K_new = (plain_kernel(A, X, kernel, **KERNELS[kernel]) for A in (X, new))
    given = KernelRankSVM(kernel="precomputed", max_gap=1e-8).fit(K, y, qid=qid, eval_set=(K, y, qid))
    np.testing.assert_allclose(given.predict(K_new), named.predict(new), atol=1e-2)
    file = io.BytesIO()
    given.save(file)
    file.seek(0)
    np.testing.assert_array_equal(podium.load(file).predict(K_new), given.predict(K_new))


def test_the_positive_part_of_a_matrix_that_is_not_positive_is_used(rng):
    A = rng.standard_normal((9, 9))
    K = A + A.T
    values, vectors = np.linalg.eigh(K)
    positive = vectors @ np.diag(np.maximum(values, 0)) @ vectors.T
    found, Z = factorise(K.copy(), np.float64)
    np.testing.assert_allclose(Z @ Z.T, positive, atol=1e-9)
    np.testing.assert_allclose(found.rows(K), Z, atol=1e-9)
    weights = rng.standard_normal(Z.shape[1])
    np.testing.assert_allclose(K @ found.factors(weights), Z @ weights, atol=1e-9)


@pytest.mark.parametrize("rank", [1, 4, 9])
def test_a_positive_matrix_of_any_rank_is_factorised_at_its_pivots(rng, rank):
    A = rng.standard_normal((9, rank))
    K = A @ A.T
    found, Z = factorise(K.copy(), np.float64)
    assert Z.shape == (9, rank) == (9, len(found.pivots))
    np.testing.assert_allclose(Z @ Z.T, K, atol=1e-9)
    np.testing.assert_allclose(found.rows(K[:, found.pivots]), Z, atol=1e-7)
    weights = rng.standard_normal(rank)
    np.testing.assert_allclose(K[:, found.pivots] @ found.factors(weights), Z @ weights, atol=1e-7)


def test_all_documents_as_landmarks_are_exact_and_fewer_come_close(rng):
    X, y, qid = make_lists(rng, 160)
    exact = KernelRankSVM(gamma=0.2, max_gap=1e-8).fit(X, y, qid=qid)
    least = exact.objective_
    objectives = []
    for number in (10, 40, 159, 160):
        model = KernelRankSVM(gamma=0.2, max_gap=1e-8, n_landmarks=number).fit(X, y, qid=qid)
        assert len(model.factors_) <= number
        objectives.append(model.objective_)
    assert objectives[0] > objectives[1] > objectives[2] * (1 - 1e-6) >= least * (1 - 2e-6)
    assert objectives[3] == least


def test_of_many_documents_some_are_landmarks(rng, monkeypatch):
    X, y, qid = make_lists(rng, 160)
    monkeypatch.setattr(kernel_svm, "_MOST_EXACT", 159)
    monkeypatch.setattr(kernel_svm, "_LANDMARKS", 20)
    assert len(KernelRankSVM().fit(X, y, qid=qid).factors_) == 20
    assert len(KernelRankSVM().fit(X[:159], y[:159], qid=qid[:159]).factors_) == 159


def test_a_hard_margin_that_no_line_has_but_a_kernel(rng):
    X = np.array([[0, 0], [1, 1], [0, 1], [1, 0]], float)  # exclusive or
    with pytest.raises(ValueError, match="not linearly rankable"):
        RankSVM(C=np.inf).fit(X, [0, 0, 1, 1], group=[4])
    scores = (
        KernelRankSVM(C=np.inf, kernel="polynomial", degree=2, gamma=1.0).fit(X, [0, 0, 1, 1], group=[4]).predict(X)
    )
    assert scores[2:].min() - scores[:2].max() == pytest.approx(1.0, abs=1e-4)


@pytest.mark.parametrize("kernel", KERNELS)
def test_files_of_svmlight_are_read_and_written(rng, tmp_path, kernel):
    X, y, qid = make_lists(rng)
    model = KernelRankSVM(kernel=kernel, **KERNELS[kernel]).fit(X, y, qid=qid)
    model.write_svmlight(tmp_path / "model.dat")
    again = KernelRankSVM.read_svmlight(tmp_path / "model.dat")
    np.testing.assert_allclose(again.predict(X), model.predict(X), rtol=1e-12)
    again.save(tmp_path / "m.podium")
    np.testing.assert_array_equal(podium.load(tmp_path / "m.podium").predict(X), again.predict(X))
    again.fit(X, y, qid=qid)
    assert again.objective_ == pytest.approx(model.objective_)


def test_a_function_as_kernel_is_not_saved_and_the_error_says_why(rng, tmp_path):
    X, y, qid = make_lists(rng)
    model = KernelRankSVM(kernel=lambda A, B: A @ B.T).fit(X, y, qid=qid)
    for score_only in (False, True):
        with pytest.raises(
            ValueError, match="its kernel is a Python function, which scoring needs and a model file can"
        ):
            model.save(tmp_path / "m.podium", score_only=score_only)
    with pytest.raises(ValueError, match="cannot be written as SVMlight does: its kernel is a Python function"):
        model.write_svmlight(tmp_path / "m.dat")
    given = KernelRankSVM(kernel="precomputed").fit(X @ X.T, y, qid=qid)
    with pytest.raises(ValueError, match="SVMlight has no precomputed kernels"):
        given.write_svmlight(tmp_path / "m.dat")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "array", "message"),
    [
        ("factors", np.full(48, np.nan), "factors must be finite float64 numbers"),
        ("factors", np.zeros(47), "there must be as many vectors as factors"),
        ("vectors", np.zeros(143, np.float32), "vectors must have one float32 number per document and feature"),
        ("vectors", np.zeros(144), "vectors must have one float32 number"),
        ("vectors", np.full(144, np.inf, np.float32), "vectors must be finite"),
        ("columns", np.full(48, -1), "columns must be int64 numbers of rows, one per factor"),
        ("columns", np.zeros(48), "columns must be int64"),
    ],
)
def test_crafted_files_are_refused(rng, tmp_path, name, array, message):
    X, y, qid = make_lists(rng)
    KernelRankSVM().fit(X, y, qid=qid).save(tmp_path / "m.podium")
    kind, meta, arrays = load_parts(tmp_path / "m.podium")
    save_parts(tmp_path / "m.podium", kind, meta, arrays | {name: array})
    with pytest.raises(FormatError, match=f"holds no model this version understands .{message}"):
        podium.load(tmp_path / "m.podium")


def test_a_crafted_file_does_not_read_columns_that_are_not_there(rng, tmp_path):
    X, y, qid = make_lists(rng)
    KernelRankSVM(kernel="precomputed").fit(X @ X.T, y, qid=qid).save(tmp_path / "m.podium")
    kind, meta, arrays = load_parts(tmp_path / "m.podium")
    save_parts(tmp_path / "m.podium", kind, meta, arrays | {"columns": np.full(len(arrays["columns"]), 48)})
    with pytest.raises(FormatError, match="columns must be those of X"):
        podium.load(tmp_path / "m.podium")


def test_kernels_that_are_none_are_refused(rng):
    X, y, qid = make_lists(rng)
    for kernel, rows, message in [
        (
            "rbf",
            X,
            "kernel must be linear, gaussian, polynomial, sigmoid, precomputed, or a Python function; got 'rbf'",
        ),
        ("precomputed", X, "a precomputed kernel needs one column of X per training row; got 48 rows and 3 columns"),
        ("precomputed", rng.standard_normal((48, 48)), r"must be symmetric; got k\(\d+, \d+\) = .* and k\("),
        (lambda A, B: A, X, r"expected an array of shape \(48, 48\), one number per pair of rows; got an array of sh"),
        (lambda A, B: np.full((len(A), len(B)), np.nan), X, "got numbers that are not finite"),
    ]:
        with pytest.raises(ValueError, match=message):
            KernelRankSVM(kernel=kernel).fit(rows, y, qid=qid)


def test_gamma_is_by_default_that_of_scikit_learn(rng):
    X, y, qid = make_lists(rng)
    model = KernelRankSVM().fit(X, y, qid=qid)
    assert model.documents_.kernel == Kernel("gaussian", pytest.approx(1 / (3 * X.var(dtype=float))), 3, 1.0)


def test_a_killed_training_ends_in_the_same_bytes_and_early_stopping_keeps_the_best_round(rng, tmp_path):
    class Killed(Exception):
        pass

    def kill(progress):
        if progress.iteration == 3:
            raise Killed

    X, y, qid = make_lists(rng, 80)
    new = make_lists(rng, 80)
    options = {"qid": qid, "eval_set": new, "early_stopping_rounds": 6}
    whole = KernelRankSVM(max_gap=1e-8).fit(X, y, **options)
    curve = whole.evals_["eval_0"]["ndcg@10"]
    assert whole.best_iteration_ == 1 + int(np.argmax(curve))
    assert whole.score(*new) == pytest.approx(max(curve), abs=1e-9)
    whole.save(tmp_path / "whole.podium")
    kept = {"checkpoint": tmp_path / "run.check", "every": 1}
    with pytest.raises(Killed):
        KernelRankSVM(max_gap=1e-8).fit(X, y, **options, **kept, callbacks=[kill])
    KernelRankSVM(max_gap=1e-8).fit(X, y, **options, **kept).save(tmp_path / "resumed.podium")
    assert (tmp_path / "whole.podium").read_bytes() == (tmp_path / "resumed.podium").read_bytes()
