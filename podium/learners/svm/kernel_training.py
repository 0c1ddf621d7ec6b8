"""RankSVM with a kernel: the linear machine on rows Z with `Z Z' = K`, one variable per document and none per pair.

K has the kernel values of all training documents, or of some, the landmarks (Nystroem): then `Z Z'` is the projection
of K on what the landmarks span. Pivoted Cholesky gives `K_PP = L L'` for pivots P, as many as the rank of K; then `Z
= K_xP L^-T` for any row x, and weights w of Z are one factor per pivot: `f(x) = sum over p of k(x, p) (L^-T w)_p`. A
matrix that is not positive semidefinite, as the sigmoid kernel's can be, is replaced by its positive part, `Z = K_xP
V D^-1/2` with the positive eigenvalues D and their vectors V.

Reference: Kuo, Lee and Lin 2014, Large-scale kernel RankSVM.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh, solve_triangular
from scipy.linalg.lapack import dpstrf

from podium.learners.svm.given_pairs import GivenMargins
from podium.learners.svm.kernels import Documents
from podium.learners.svm.newton import SvmRules, SvmTraining
from podium.learners.svm.pairs import Pairs


class KernelTraining(SvmTraining):
    """The learner of KernelRankSVM."""

    def __init__(
        self,
        X: np.ndarray,
        landmarks: np.ndarray,
        documents: Documents,
        pairs: Pairs | GivenMargins,
        rules: SvmRules,
    ) -> None:
        """X: the training rows; documents: all of them; landmarks: their numbers, in rising order."""
        chosen = documents.take(landmarks)
        K = chosen.values(X[landmarks])
        refuse_asymmetric(K, chosen.columns)
        self._map, Z = factorise(K, np.float32 if documents.are_given else np.float64)
        self.documents = chosen.take(self._map.pivots)
        if len(landmarks) < len(X):
            Z = self._map.rows(self.documents.values(X))
        super().__init__(Z, pairs, rules)

    def _followed_columns(self, X: np.ndarray) -> np.ndarray:
        return self._map.rows(self.documents.values(X))

    @property
    def factors(self) -> np.ndarray:
        """One per document of `documents`."""
        return self._map.factors(self.solution.weights)


@dataclass(frozen=True, eq=False)
class KernelMap:
    """From kernel values to rows Z, and from weights of Z to one factor per pivot."""

    pivots: np.ndarray  # (m,) numbers of the landmarks that are used
    lower: np.ndarray | None  # (m, m) L
    projection: np.ndarray | None = None  # (m, dimensions) V D^-1/2, in place of L

    def rows(self, K: np.ndarray) -> np.ndarray:
        """Z (n, dimensions) for kernel values (n, pivots)."""
        if self.lower is None:
            return np.ascontiguousarray(K @ self.projection)
        return np.ascontiguousarray(solve_triangular(self.lower, K.T, lower=True).T)

    def factors(self, weights: np.ndarray) -> np.ndarray:
        """(pivots,)"""
        if self.lower is None:
            return np.asarray(self.projection @ weights)
        return np.asarray(solve_triangular(self.lower, weights, lower=True, trans="T"))


def factorise(K: np.ndarray, precision: type[np.floating]) -> tuple[KernelMap, np.ndarray]:
    """The map of a symmetric matrix (n, n) in C order, which is overwritten, and Z of its documents.

    precision: the type that its values were rounded to; what is below its rounding errors is taken as 0.
    """
    diagonal = np.diagonal(K).copy()
    enough = len(K) * float(np.finfo(precision).eps) * float(np.abs(diagonal).max(initial=0.0))
    # LAPACK works on columns, so on the transposed matrix, which is the same one; of it only one triangle is used
    factor, order, rank, _ = dpstrf(K.T, tol=enough, lower=1, overwrite_a=1)
    order, Z = order - 1, np.zeros((len(K), rank))
    for k, document in enumerate(order.tolist()):
        used = min(k + 1, rank)
        Z[document, :used] = factor[k, :used]
    # products beyond the diagonal: a matrix that is not positive semidefinite is not finished when pivots run out
    if np.abs(diagonal - np.einsum("ij,ij->i", Z, Z)).max(initial=0.0) <= 10 * enough:
        return KernelMap(order[:rank], Z[order[:rank]]), Z
    other = np.triu(factor, 1)
    return _positive_part(other + other.T + np.diag(diagonal), enough)


def _positive_part(K: np.ndarray, enough: float) -> tuple[KernelMap, np.ndarray]:
    values, vectors = eigh(K, overwrite_a=True)
    values, vectors = values[values > enough], vectors[:, values > enough]
    projection = np.ascontiguousarray(vectors / np.sqrt(values))
    return KernelMap(np.arange(len(K)), None, projection), np.ascontiguousarray(vectors * np.sqrt(values))


def refuse_asymmetric(K: np.ndarray, rows: np.ndarray) -> None:
    """A kernel has k(a, b) = k(b, a). rows: how the caller counts the documents."""
    for i in range(len(K)):
        difference = np.abs(K[i] - K[:, i])
        j = int(difference.argmax())
        if difference[j] > 1e-5 * max(abs(K[i, i]), abs(K[j, j]), abs(K[i, j])):
            values = f"k({rows[i]}, {rows[j]}) = {K[i, j]:g} and k({rows[j]}, {rows[i]}) = {K[j, i]:g}"
            raise ValueError(f"kernel: the values of the training rows must be symmetric; got {values}.")
