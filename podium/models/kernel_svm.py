"""KernelRankSVM: a scoring function that is a sum of kernels at training documents, with a margin for every pair."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from podium.data.sparse import FeatureMatrix
from podium.formats.lines import FilePath
from podium.learners.svm.kernels import KERNELS, Documents, Kernel
from podium.models.frame.estimator import check_fitted
from podium.models.frame.parameters import ABOVE_0, INTEGER, LARGE, NAME, NUMBER, SeedParameter, parameter, parametrized
from podium.models.frame.plan import TrainingPlan, TrainingRows
from podium.models.frame.ranker import FittedState
from podium.models.frame.transforms import Queries
from podium.models.svm import MarginRanker
from podium.persistence.validation import Fact, is_number

if TYPE_CHECKING:
    from podium.exchange.engines.svmlight import SvmlightModel
    from podium.learners.svm.kernel_training import KernelTraining

_MOST_EXACT = 20_000  # documents; of more, this many are landmarks:
_LANDMARKS = 2_000


@parametrized
class KernelRankSVM(SeedParameter, MarginRanker):
    """RankSVM with a kernel: the score is a sum over training documents, with one factor per document.

    All training documents up to 20,000 of them; of more, or with `n_landmarks`, a random part (Nystroem).
    `objective_` and `duality_gap_` are as in RankSVM; `documents_` are those in the sum and `factors_` theirs.
    """

    kernel: Any = parameter(
        "gaussian",
        "Kernel: linear; gaussian, exp(-gamma d^2) of the distance d; polynomial, (gamma a.b + coef0)^degree; sigmoid, "
        "tanh(gamma a.b + coef0); precomputed (X has one column per training row); or a Python function of two arrays "
        "of rows that returns a matrix.",
        kind=NAME,
        words=f"{', '.join(KERNELS)}, or a Python function",
        holds=lambda value: callable(value) or (isinstance(value, str) and value in KERNELS),
    )
    gamma: float | None = parameter(
        None,
        "Factor in the kernel; 1 / (2 sigma^2) of a Gaussian. None: 1 / (number of features * variance of X).",
        kind=NUMBER,
        low=ABOVE_0,
        high=LARGE,
    )
    degree: int = parameter(3, "Degree of the polynomial kernel.", low=1, high=100)
    coef0: float = parameter(1.0, "Constant in the polynomial and the sigmoid kernel.", low=-LARGE, high=LARGE)
    max_gap: float = 1e-3  # SVMrank's; the hinge with a full kernel matrix is costly to follow further
    n_landmarks: int | None = parameter(
        None,
        "Number of training documents in the sum. None: all of up to 20,000, and 2,000 of more.",
        kind=INTEGER,
        low=1,
        high=10**6,
    )

    fitted_attributes: ClassVar[Mapping[str, str]] = {
        "documents_": "The training documents of the sum, with the kernel that rows are compared with them by.",
        "factors_": "One factor per document of documents_.",
        "intercept_": "Constant that is added to every score.",
    }
    search_space: ClassVar[Mapping[str, Any]] = {**MarginRanker.search_space, "gamma": [None, 1e-3, 1e-2, 1e-1, 1.0]}
    scoring_parameters: ClassVar[tuple[str, ...]] = ("kernel", "degree", "coef0")
    state_facts: ClassVar[Mapping[str, Fact]] = {
        **MarginRanker.state_facts,
        "gamma": Fact("a finite number", is_number),
        "intercept": Fact("a finite number", is_number),
    }
    state_arrays: ClassVar[tuple[str, ...]] = ("columns", "factors", "vectors")

    def training_plan(self) -> TrainingPlan[KernelTraining]:
        return TrainingPlan(self._make_learner, self._keep, self.max_iter, takes_pairs=True, explain=self._explain)

    def _make_learner(self, rows: TrainingRows) -> KernelTraining:
        from podium.learners.svm.kernel_training import KernelTraining  # scoring needs none of it

        columns, data = np.asarray(rows.order, np.int64), rows.data
        if self.kernel == "precomputed" and data.n_features != data.n_rows:
            needed = "a precomputed kernel needs one column of X per training row"
            raise ValueError(f"KernelRankSVM: {needed}; got {data.n_rows} rows and {data.n_features} columns.")
        kernel = Kernel(self.kernel, self._resolved_gamma(data.X), self.degree, float(self.coef0))
        vectors = data.X[:0] if self.kernel == "precomputed" else data.X
        documents = Documents(kernel, vectors, columns)
        return KernelTraining(data.X, self._landmarks(data.n_rows), documents, self._pairs(rows), self._rules())

    def _resolved_gamma(self, X: np.ndarray) -> float:
        if self.gamma is not None:
            return float(self.gamma)
        variance = float(X.var(dtype=np.float64))
        return 1.0 / (X.shape[1] * variance) if variance > 0 else 1.0

    def _landmarks(self, n_rows: int) -> np.ndarray:
        number = self.n_landmarks or (n_rows if n_rows <= _MOST_EXACT else _LANDMARKS)
        if number >= n_rows:
            return np.arange(n_rows)
        draws = np.random.default_rng(self.random_state)
        return np.sort(draws.choice(n_rows, number, replace=False))

    def _keep(self, learner: KernelTraining) -> None:
        self.documents_, self.factors_, self.intercept_ = learner.documents, learner.factors, 0.0
        self._note_solution(learner)

    def score_columns(self, X: FeatureMatrix, queries: Queries | None) -> np.ndarray:
        return self.documents_.scores(X, self.factors_, self.n_jobs) + self.intercept_

    def _refuse_own_kernel(self, done: str) -> None:
        if callable(self.documents_.kernel.kind):
            reason = "its kernel is a Python function, which scoring needs and a model file cannot hold"
            advice = 'Use a named kernel, or compute the matrix yourself and train with kernel="precomputed".'
            raise ValueError(f"KernelRankSVM cannot be {done}: {reason}. {advice}")

    def fitted_state(self) -> FittedState:
        self._refuse_own_kernel("saved")
        documents = self.documents_
        facts = {"gamma": documents.kernel.gamma, "intercept": float(self.intercept_)}
        arrays = {"factors": self.factors_, "vectors": documents.vectors.reshape(-1), "columns": documents.columns}
        return FittedState(self._solution_facts() | facts, arrays)

    def restore_state(self, state: FittedState) -> None:
        self._restore_solution(state.facts)
        kind, degree, coef0 = map(self.scoring_parameter, self.scoring_parameters)
        kernel = Kernel(kind, float(state.facts["gamma"]), degree, float(coef0))
        vectors, self.factors_ = state.arrays["vectors"], state.arrays["factors"]
        if vectors.dtype != np.float32 or vectors.ndim != 1 or len(vectors) % max(self.n_columns, 1):
            raise ValueError("vectors must have one float32 number per document and feature")
        self.documents_ = Documents(kernel, vectors.reshape(-1, self.n_columns), state.arrays["columns"])
        self.intercept_ = float(state.facts["intercept"])

    def check_state(self) -> None:
        super().check_state()
        documents, factors = self.documents_, self.factors_
        if factors.dtype != np.float64 or factors.ndim != 1 or not np.isfinite(factors).all():
            raise ValueError("factors must be finite float64 numbers")
        if len(documents.vectors) != (0 if documents.are_given else len(factors)):
            raise ValueError("there must be as many vectors as factors")
        if not np.isfinite(documents.vectors).all():
            raise ValueError("vectors must be finite")
        columns = documents.columns
        if columns.dtype != np.int64 or columns.shape != factors.shape or columns.min(initial=0) < 0:
            raise ValueError("columns must be int64 numbers of rows, one per factor")
        if documents.are_given and columns.max(initial=0) >= max(self.n_columns, 1):
            raise ValueError("columns must be those of X")

    def check_parameters(self) -> None:
        super().check_parameters()
        for name, what in (("impute", "fills features"), ("validation_fraction", "takes rows from X, not columns")):
            if self.kernel == "precomputed" and getattr(self, name) is not None:
                problem = f"{name} {what}, and with a precomputed kernel X holds kernel values"
                raise ValueError(f"KernelRankSVM: {problem}. Leave {name} at None.")

    def write_svmlight(self, path: FilePath) -> None:
        """Write a model file of SVMlight and SVMrank, with all documents of the sum."""
        from podium.exchange.engines.svmlight import SvmlightModel, write_svmlight_model

        check_fitted(self)
        self._refuse_own_kernel("written as SVMlight does")
        self._refuse_made_columns()
        kernel, vectors = self.documents_.kernel, self.documents_.vectors.astype(np.float64)
        if self.documents_.are_given:
            raise ValueError("KernelRankSVM: SVMlight has no precomputed kernels. Use save.")
        shape = kernel.degree, kernel.gamma, kernel.coef0
        write_svmlight_model(path, SvmlightModel(str(kernel.kind), self.factors_, vectors, -self.intercept_, *shape))

    @classmethod
    def read_svmlight(cls, path: FilePath, **parameters: Any) -> Self:
        """Read a model file of SVMlight or SVMrank; vectors are rounded to float32, as rows are everywhere.

        The file knows neither C nor how the model was trained; give such parameters if it is to be trained again.
        """
        from podium.exchange.engines.svmlight import read_svmlight_model

        return cls.of_svmlight(read_svmlight_model(path), **parameters)

    @classmethod
    def of_svmlight(cls, read: SvmlightModel, **parameters: Any) -> Self:
        """The model of what was read of a file."""
        fitted: dict[str, Any] = {"kernel": read.kernel, "degree": read.degree, "coef0": read.constant}
        model = cls(**{**fitted, "gamma": read.gamma, **parameters})
        model.check_parameters()
        model._note_svmlight(read)
        kernel = Kernel(read.kernel, read.gamma, read.degree, read.constant)
        model.fitted_parameters_ = fitted
        with np.errstate(over="ignore"):
            vectors = read.vectors.astype(np.float32)
        if not np.isfinite(vectors).all():
            number = int(np.argmin(np.isfinite(vectors).all(axis=1))) + 1
            raise ValueError(f"vector {number} has a value that is too large for float32.")
        model.documents_ = Documents(kernel, vectors, np.arange(len(read.factors)))
        model.factors_, model.intercept_ = read.factors, -read.threshold
        return model
