"""RankSVM: a linear scoring function with a margin between the documents of every pair."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from podium._runtime.warn import warn
from podium._runtime.words import counted
from podium.formats.lines import FilePath
from podium.learners.linear.products import multiply_transposed
from podium.models.frame.estimator import check_fitted
from podium.models.frame.holding_out import ValidationParameter
from podium.models.frame.imputing import ImputeParameters
from podium.models.frame.parameters import (
    ABOVE_0,
    LARGE,
    NUMBER,
    TRANSFORM_SPACE,
    Kind,
    RoundsParameter,
    parameter,
    parametrized,
)
from podium.models.frame.plan import TrainingPlan, TrainingRows
from podium.models.frame.ranker import FittedState, Ranker
from podium.models.linear import LinearScores
from podium.persistence.validation import Fact, is_number

if TYPE_CHECKING:
    from podium.exchange.engines.svmlight import SvmlightModel
    from podium.learners.svm.given_pairs import GivenMargins
    from podium.learners.svm.newton import SvmRules, SvmTraining
    from podium.learners.svm.pairs import Pairs

SCALINGS = ("pairs", "mean_pairs", "mean_queries")


def _is_cost(value: Any) -> bool:
    return NUMBER.holds(value) and (0 < value <= LARGE or value == math.inf)


COST = Kind("above 0, or inf for a hard margin", _is_cost, float)
_UNKNOWN_OR_NUMBER = Fact("null or a finite number", lambda value: value is None or is_number(value))


def _excess(gap: float) -> str:
    """How far above its minimum an objective with this gap can be."""
    return f"the objective is at most {1 / (1 - gap):.3g} times its minimum" if gap < 1 else "the minimum is not known"


@parametrized
class MarginRanker(RoundsParameter, ImputeParameters, ValidationParameter, Ranker):
    """The frame of models that minimise 1/2 |w|^2 + C times the slack of all pairs."""

    C: float = parameter(1.0, "Price of the slack of a pair; inf: no pair may have any.", kind=COST)
    loss: str = parameter(
        "hinge", "Loss of a pair: its slack xi = max(0, 1 - margin), or xi^2.", choices=("hinge", "squared_hinge")
    )
    scaling: str = parameter(
        "pairs",
        "What C multiplies: the sum of the losses over all pairs, their mean, or the mean over queries of their mean.",
        choices=SCALINGS,
    )
    max_gap: float = parameter(
        1e-4,
        "Training ends when the objective is above its minimum by at most this part of it, as the duality gap shows.",
        low=ABOVE_0,
        high=1.0,
    )

    fitted_attributes: ClassVar[Mapping[str, str]] = {
        "objective_": "Value of what was minimized.",
        "duality_gap_": "Largest possible excess of objective_ over the optimum, relative to objective_.",
    }
    step_word: ClassVar[str] = "round"
    search_space: ClassVar[Mapping[str, Any]] = {
        "C": {"low": 1e-3, "high": 1e2, "log": True},
        "loss": ["hinge", "squared_hinge"],
        "scaling": list(SCALINGS),
        **TRANSFORM_SPACE,
    }
    allows_missing: ClassVar[bool] = False
    allows_sparse: ClassVar[bool] = False
    state_facts: ClassVar[Mapping[str, Fact]] = {"objective": _UNKNOWN_OR_NUMBER, "duality_gap": _UNKNOWN_OR_NUMBER}

    def _rules(self) -> SvmRules:
        from podium.learners.svm.newton import SvmRules  # scoring needs none of it

        return SvmRules(float(self.C), self.loss == "squared_hinge", float(self.max_gap), self.n_jobs)

    def _pairs(self, rows: TrainingRows) -> Pairs | GivenMargins:
        """The pairs that follow from labels, or those that `fit` was given."""
        from podium.learners.svm.given_pairs import GivenMargins
        from podium.learners.svm.pairs import Pairs

        data = rows.data
        counted = data.sample_weight, data.query_weight, self.scaling, self.n_jobs
        if rows.pairs is None:
            return Pairs(data.labels_for("fit"), data.offsets, *counted)
        rows.pairs.weighted(data.sample_weight, data.query_weight)  # refuses pairs that all have the weight 0
        return GivenMargins(rows.pairs.directed(), *counted)

    def _note_solution(self, learner: SvmTraining) -> None:
        """`objective_`: the value of what was minimised; `duality_gap_`: its excess, at most, relative to it."""
        self.objective_, self.duality_gap_ = learner.solution.objective, learner.solution.gap

    def _explain(self, learner: SvmTraining, steps: int) -> None:
        gap = learner.solution.gap
        if gap <= self.max_gap or not (learner.is_done or learner.n_steps >= self.max_iter):
            return  # or it was stopped, by an evaluation set or a callback
        stopped = f"{type(self).__name__} stopped after {counted(learner.n_steps, self.step_word)}"
        if gap == 1.0 and learner.is_hard:
            state = "with pairs that are not ranked correctly"
        else:
            state = f"at a duality gap of {gap:.1g} ({_excess(gap)})"
        advice = 'Scale the features, for example by transform=("standard",), or lower C'
        more = "" if learner.is_done else "; or raise max_iter"
        warn(f"{stopped} {state}; max_gap is {self.max_gap:g}. {advice}{more}.")

    def _solution_facts(self) -> dict[str, Any]:
        known = {"objective": self.objective_, "duality_gap": self.duality_gap_}
        return {key: float(value) if math.isfinite(value) else None for key, value in known.items()}

    def _restore_solution(self, facts: Mapping[str, Any]) -> None:
        known = (math.nan if facts[key] is None else float(facts[key]) for key in ("objective", "duality_gap"))
        self.objective_, self.duality_gap_ = known

    def _refuse_made_columns(self) -> None:
        """A file of SVMlight knows the features alone; one that is missing is 0 in it."""
        if self.transform_ is not None:
            raise ValueError(f"{type(self).__name__}: files of SVMlight have no transforms of features. Use save.")
        filled = self.imputation_
        if filled is not None and (filled.values.any() or len(filled.flagged)):
            problem = "files of SVMlight fill missing values with 0 and have no indicators"
            advice = 'Use save, or train with impute="zero" and missing_indicator=False.'
            raise ValueError(f"{type(self).__name__}: {problem}. {advice}")

    def _note_svmlight(self, read: SvmlightModel) -> None:
        """What a fitted model has besides its function; a file of SVMlight does not know it."""
        self.n_features_in_, self.n_queries_, self.categories_ = read.n_features, 0, {}
        self.best_iteration_, self.best_score_, self.evals_ = 0, None, {}
        self.transform_ = self.imputation_ = None
        self.objective_ = self.duality_gap_ = math.nan


@parametrized
class RankSVM(MarginRanker, LinearScores):
    """One weight per feature; every better document is to score higher by a margin.

    Minimises `1/2 |w|^2 + C sum xi` over all pairs of documents of a query with different labels, where
    `xi = max(0, 1 - (s_i - s_j))`; features are taken as they are. `objective_` has the value, `duality_gap_` how far
    above the minimum it can be, relative to it.
    """

    state_facts: ClassVar[Mapping[str, Fact]] = {**LinearScores.state_facts, **MarginRanker.state_facts}

    def training_plan(self) -> TrainingPlan[SvmTraining]:
        return TrainingPlan(self._make_learner, self._keep, self.max_iter, takes_pairs=True, explain=self._explain)

    def _make_learner(self, rows: TrainingRows) -> SvmTraining:
        from podium.learners.svm.newton import SvmTraining

        return SvmTraining(rows.data.X, self._pairs(rows), self._rules())

    def _keep(self, learner: SvmTraining) -> None:
        self.coef_, self.intercept_ = learner.solution.weights, 0.0
        self.feature_means_ = multiply_transposed(learner.X, np.ones(len(learner.X)), self.n_jobs) / len(learner.X)
        self._note_solution(learner)

    def fitted_state(self) -> FittedState:
        state = super().fitted_state()
        return replace(state, facts={**state.facts, **self._solution_facts()})

    def restore_state(self, state: FittedState) -> None:
        super().restore_state(state)
        self._restore_solution(state.facts)

    def write_svmlight(self, path: FilePath) -> None:
        """Write a model file of SVMlight and SVMrank: one vector, the weights, with the factor 1."""
        from podium.exchange.engines.svmlight import SvmlightModel, write_svmlight_model

        check_fitted(self)
        self._refuse_made_columns()
        write_svmlight_model(path, SvmlightModel("linear", np.ones(1), self.coef_[None], threshold=-self.intercept_))

    @classmethod
    def read_svmlight(cls, path: FilePath, **parameters: Any) -> Self:
        """Read a model file of SVMlight or SVMrank with a linear kernel; its vectors are added up to weights.

        The file knows neither C nor the other parameters; give them if the model is to be trained again.
        """
        from podium.exchange.engines.svmlight import read_svmlight_model

        read = read_svmlight_model(path)
        if read.kernel != "linear":
            raise ValueError(f"{path}: RankSVM has a linear kernel, this file a {read.kernel} one. Use KernelRankSVM.")
        return cls.of_svmlight(read, **parameters)

    @classmethod
    def of_svmlight(cls, read: SvmlightModel, **parameters: Any) -> Self:
        """The model of what was read of a file."""
        model = cls(**parameters)
        model._note_svmlight(read)
        with np.errstate(over="ignore", invalid="ignore"):
            model.coef_, model.intercept_ = read.factors @ read.vectors, -read.threshold
        if not np.isfinite(model.coef_).all():
            number = int(np.argmin(np.isfinite(model.coef_))) + 1
            raise ValueError(f"the weight of feature {number}, the sum of all vectors, is not finite.")
        model.feature_means_ = np.zeros(read.n_features)
        return model
