"""Nets: multilayer perceptrons trained on the derivatives of any objective, and the named products."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from podium._runtime.warn import warn
from podium.data.sparse import FeatureMatrix
from podium.learners.net.scoring import ACTIVATIONS, Inputs, NetFunction, NetShape
from podium.models.frame.holding_out import ValidationParameter
from podium.models.frame.imputing import ImputeParameters
from podium.models.frame.init_model import InitParameter
from podium.models.frame.inspection import NetInspection, about_model
from podium.models.frame.parameters import (
    ABOVE_0,
    AUTO,
    INTEGER,
    LARGE,
    NUMBER,
    STRUCTURE,
    TRANSFORM_SPACE,
    AnyObjectiveParameters,
    LambdaParameters,
    PairExponent,
    SeedParameter,
    SigmaParameter,
    parameter,
    parametrized,
    rules_for,
)
from podium.models.frame.plan import (
    TrainingPlan,
    TrainingRows,
    named_objective,
    target_parameter,
)
from podium.models.frame.ranker import FittedState, Ranker
from podium.models.frame.resolving import AutoParameters
from podium.models.frame.transforms import Queries
from podium.models.net_values import net_values_for, value_words
from podium.objectives.base import Objective
from podium.objectives.registry import parse_objective
from podium.persistence.validation import RESOLVED, Fact

if TYPE_CHECKING:
    from podium.learners.net.training import NetRules, NetTraining

OPTIMIZERS = ("adam", "adamw", "sgd")
SCHEDULES = ("constant", "linear", "cosine")
TRAINING_SPACE: dict[str, Any] = {
    "learning_rate": {"low": 3e-4, "high": 1e-2, "log": True},
    "dropout": {"low": 0.0, "high": 0.5},
    "weight_decay": [0.0, 1e-3, 1e-2, 3e-2],
    **TRANSFORM_SPACE,
}
NET_SPACE: dict[str, Any] = {**TRAINING_SPACE, "hidden_layer_sizes": [(32,), (64,), (128,), (64, 32)]}
_WIDEST = 2**16
_PATIENCE = 10  # epochs without progress on an evaluation set, unless another number is given


def _are_widths(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and all(INTEGER.holds(width) and 1 <= width <= _WIDEST for width in value)


@parametrized
class LayerParameters:
    """The layers of a multilayer perceptron."""

    hidden_layer_sizes: Any = parameter(
        (64,),
        "Width of each hidden layer; none for a linear function.",
        kind=STRUCTURE,
        holds=_are_widths,
        words=f"a list of integers from 1 to {_WIDEST:,} such as [64, 32]",
    )
    activation: str = parameter("relu", "Function after each hidden layer.", choices=ACTIVATIONS)
    layer_norm: bool = parameter(False, "Normalise the numbers of each hidden layer before the activation.")
    residual: bool = parameter(
        False, "Add the input of a hidden layer to its output where both have the same width (not in the first one)."
    )


@parametrized
class TrainingParameters:
    """How any net is trained."""

    dropout: Any = parameter(
        AUTO,
        f"Probability that the output of a hidden unit is set to 0 in training; {value_words('dropout')}",
        kind=NUMBER,
        low=0,
        high=0.95,
        auto=True,
    )
    max_epochs: int = parameter(
        20,
        "Maximum number of passes over the training queries. With an evaluation set of 100 queries or more that have "
        "different labels, training ends after 10 epochs without progress, unless early_stopping_rounds is given "
        "(False: never).",
        low=1,
        high=10**6,
    )
    batch_size: Any = parameter(
        AUTO,
        f"Documents per batch; a batch holds whole queries; {value_words('batch_size')}",
        kind=INTEGER,
        low=1,
        high=2**31,
        auto=True,
    )
    optimizer: str = parameter(
        "adam",
        '"adamw" decays weights past Adam\'s scaling, "sgd" follows the gradient, with momentum.',
        choices=OPTIMIZERS,
    )
    momentum: float = parameter(
        0.9,
        'Share of the last step of "sgd" that is added to the next; 0 for plain gradient descent. Others ignore it.',
        low=0,
        high=0.999,
    )
    learning_rate: float = parameter(1e-2, "Step size of the optimizer.", low=ABOVE_0, high=1e3)
    schedule: str = parameter(
        "linear", "How the learning rate falls to 0 until max_epochs, if it does.", choices=SCHEDULES
    )
    warmup: float = parameter(0.0, "Share of max_epochs in which the learning rate rises from 0.", low=0, high=1)
    weight_decay: Any = parameter(
        AUTO,
        f"L2 penalty on the weights, not on biases; the cost is the mean over queries; {value_words('weight_decay')}",
        kind=NUMBER,
        low=0,
        high=LARGE,
        auto=True,
    )
    gradient_clipping: float | None = parameter(
        None, "Maximum norm of the gradient of a batch; None for no limit.", kind=NUMBER, low=ABOVE_0, high=LARGE
    )
    n_nets: int = parameter(
        1, "Number of nets, trained at once from different weights; the score is their mean.", low=1, high=10_000
    )
    derivatives: str = parameter(
        "auto",
        'Where the derivatives of the objective are computed: on the "host", by compiled code, or on the "device" of '
        'the net, by JAX, with the whole epoch as one program; "auto" is "device" if JAX has a GPU.',
        choices=("auto", "host", "device"),
    )
    precision: str = parameter(
        "auto",
        'Numbers in the products of training; weights are always float32. "auto" is "bfloat16" on a GPU.',
        choices=("auto", "float32", "bfloat16"),
    )


@parametrized
class TrainedNet(
    TrainingParameters, InitParameter, SeedParameter, ValidationParameter, ImputeParameters, AutoParameters, Ranker
):
    """What all nets have in common. Members define the objective, the shape and the scoring function."""

    auto_values = staticmethod(net_values_for)
    fitted_attributes: ClassVar[Mapping[str, str]] = {
        "net_": "The trained network as a function of NumPy: its shape, its inputs and its weights.",
    }
    step_word: ClassVar[str] = "epoch"
    steps_parameter: ClassVar[str | None] = "max_epochs"
    default_patience: ClassVar[int] = 10
    search_space: ClassVar[Mapping[str, Any]] = TRAINING_SPACE
    allows_sparse: ClassVar[bool] = False
    state_arrays: ClassVar[tuple[str, ...]] = ("weights", "centre", "scale", "flagged")

    def training_plan(self) -> TrainingPlan[NetTraining]:
        steps, objective, target = self.max_epochs, self.make_objective(), target_parameter(self)
        options: dict[str, Any] = {"takes_pairs": objective.takes_pairs, "default_rounds": _PATIENCE}
        return TrainingPlan(self._make_learner, self._keep, steps, objective, target, **options)

    def _make_learner(self, rows: TrainingRows) -> NetTraining:
        require_jax(type(self).__name__)
        self.resolved_params_ = self.resolved_for(rows.data)
        data, start, rules = rows.data, rows.init_scores, self._rules()
        inputs, target = Inputs.of(data.X), rows.bind(self.make_objective())
        shape = self._shape(inputs)
        runner = self._runner((inputs.columns(data.X), data.offsets, target, shape, rules, start))
        intercept = target.start() if start is None else 0.0
        learner: NetTraining = self._learner_kinds()[0](inputs, shape, rules, runner, intercept)
        return learner

    def _learner_kinds(self) -> tuple[Any, Any]:
        """The learner, and what runs its epochs where derivatives are computed on the host."""
        raise NotImplementedError

    def _shape(self, inputs: Inputs) -> Any:
        raise NotImplementedError

    def _runner(self, parts: tuple[Any, ...]) -> Any:
        from podium.learners.net.training import DeviceEpochs

        return (DeviceEpochs if self._on_device(parts[2]) else self._learner_kinds()[1])(*parts)

    def _keep(self, learner: NetTraining) -> None:
        self.net_ = learner.function

    def _on_device(self, target: Any) -> bool:
        """Whether derivatives are computed where the net is; objectives that only the host knows are said so, once."""
        import jax

        wanted = self.derivatives == "device" or (self.derivatives == "auto" and jax.default_backend() == "gpu")
        if wanted and target.on_device() is None:
            name = getattr(target.objective, "name", type(target.objective).__name__)
            problem = f"{type(self).__name__}: the objective {name!r} has no form for a device"
            warn(f"{problem}; its derivatives are computed on the host, batch by batch.")
            return False
        return wanted

    def _rules(self) -> NetRules:
        from podium.learners.net.optimization import OptimizerRules
        from podium.learners.net.training import NetRules

        clipping = None if self.gradient_clipping is None else float(self.gradient_clipping)
        fixed_bias = bool(self.make_objective().needs_pairs)
        sized = self.with_resolved()
        optimizer = rules_for(OptimizerRules, sized, name=self.optimizer, clipping=clipping, fixed_bias=fixed_bias)
        seed, precision = int(self.random_state), self._precision()
        return rules_for(NetRules, sized, seed=seed, precision=precision, optimizer=optimizer)

    def _precision(self) -> str:
        import jax

        if self.precision != "auto":
            return self.precision
        return "bfloat16" if jax.default_backend() == "gpu" else "float32"

    def inspect(self) -> NetInspection:
        """What the model is made of: its layers and parameters. Print it."""
        shape, nets = self.net_.shape, len(self.net_.weights)
        return NetInspection(*about_model(self), nets, [shape.n_inputs, *self._hidden_widths(), 1], shape.n_weights)

    def _hidden_widths(self) -> list[int]:
        raise NotImplementedError

    def _net_arrays(self) -> dict[str, np.ndarray]:
        scaling = {name: getattr(self.net_.inputs, name) for name in ("centre", "scale", "flagged")}
        return {"weights": self.net_.weights} | scaling

    def check_state(self) -> None:
        super().check_state()
        self.net_.inputs.check(self.n_columns)
        weights, n_weights = self.net_.weights, self.net_.shape.n_weights
        if weights.dtype != np.float32 or weights.ndim != 2 or not len(weights) or weights.shape[1] != n_weights:
            raise ValueError(f"weights must have shape (nets, {n_weights}) and be float32")
        if not np.isfinite(weights).all():
            raise ValueError("weights hold a number that is not finite")


@parametrized
class NetRanker(LayerParameters, TrainedNet):
    """A multilayer perceptron trained on the derivatives of an objective. Subclasses define the objective."""

    search_space: ClassVar[Mapping[str, Any]] = NET_SPACE
    shape_facts: ClassVar[Mapping[str, Fact]] = {
        "hidden": Fact("a list of widths", lambda value: isinstance(value, list) and _are_widths(value)),
        "activation": Fact(f"one of {', '.join(ACTIVATIONS)}", lambda value: value in ACTIVATIONS),
        "layer_norm": Fact("true or false", lambda value: isinstance(value, bool)),
        "residual": Fact("true or false", lambda value: isinstance(value, bool)),
    }
    state_facts: ClassVar[Mapping[str, Fact]] = {**shape_facts, "resolved": RESOLVED}

    def _learner_kinds(self) -> tuple[Any, Any]:
        from podium.learners.net.training import HostRunner, NetTraining

        return NetTraining, HostRunner

    def _shape(self, inputs: Inputs) -> NetShape:
        widths = tuple(int(width) for width in self.hidden_layer_sizes)
        return NetShape(inputs.width, widths, self.activation, bool(self.layer_norm), bool(self.residual))

    def score_columns(self, X: FeatureMatrix, queries: Queries | None) -> np.ndarray:
        return np.asarray(self.net_.scores(X, self.n_jobs))

    def _hidden_widths(self) -> list[int]:
        return list(self.net_.shape.hidden)

    def fitted_state(self) -> FittedState:
        facts = {name: getattr(self.net_.shape, name) for name in self.shape_facts}
        return FittedState({**facts, "hidden": list(facts["hidden"]), **self.resolved_state()}, self._net_arrays())

    def restore_state(self, state: FittedState) -> None:
        self.restore_resolved(state.facts)
        facts, arrays = state.facts, state.arrays
        inputs = Inputs(arrays["centre"], arrays["scale"], arrays["flagged"])
        switches = facts["activation"], facts["layer_norm"], facts["residual"]
        self.net_ = NetFunction(NetShape(inputs.width, tuple(facts["hidden"]), *switches), inputs, arrays["weights"])


def require_jax(model: str, otherwise: str | None = None) -> None:
    """Scoring needs NumPy only; training needs the extra. `otherwise`: what else helps."""
    try:
        import jax
        import optax
    except ImportError as error:
        advice = 'Install it with: pip install "podium[neural]"' + ("" if otherwise is None else f"; or {otherwise}")
        raise ImportError(f"Training {model} needs JAX. {advice}") from error
    del jax, optax


@parametrized
class Net(AnyObjectiveParameters, NetRanker):
    """A multilayer perceptron with any objective: a name, an Objective or a Python function."""

    objective: Any = "ranknet"

    search_space: ClassVar[Mapping[str, Any]] = NET_SPACE | {"objective": ["ranknet", "lambda", "xendcg"]}


@parametrized
class RankNet(PairExponent, SigmaParameter, NetRanker):
    """A net trained on pairs of documents: the better one should have the higher score."""

    ties: bool = parameter(False, "Whether pairs of equal labels count, with target 0.5: they pull together.")
    update: str = parameter(
        "batch",
        '"batch" adds up the gradients of all pairs of a batch, one backward pass for all of them; "pair" moves the '
        "weights after every pair, as the first RankNet did: the same in expectation, and much slower.",
        choices=("batch", "pair"),
    )

    search_space: ClassVar[Mapping[str, Any]] = NET_SPACE | {"pair_exponent": [0.0, 0.5, 1.0]}

    def make_objective(self) -> Objective:
        return named_objective(self, "ranknet", sigma=float(self.sigma), ties=bool(self.ties))

    def _runner(self, parts: tuple[Any, ...]) -> Any:
        if self.update == "batch":
            return super()._runner(parts)
        from podium.learners.net.pairs import PairRunner, given_pairs, label_pairs
        from podium.objectives.given_pairs import BoundPairs, PairGradient

        columns, offsets, target, shape, rules, base = parts
        if isinstance(target, BoundPairs):
            pairs_of, weights = given_pairs(target.pairs), (np.empty(0), np.ones(target.n_queries))  # pairs have all
        else:
            pairs_of = label_pairs(target.labels, offsets, bool(self.ties))
            weights = target.data.weights, target.query_weights
        return PairRunner(columns, offsets, pairs_of, shape, rules, base, PairGradient(float(self.sigma)), weights)


@parametrized
class LambdaRank(LambdaParameters, NetRanker):
    """A net that optimizes a ranking metric by lambda gradients."""

    normalize: str | None = None

    def make_objective(self) -> Objective:
        return named_objective(self, "lambda", sigma=float(self.sigma), normalize=self.normalization())


@parametrized
class ListNet(NetRanker):
    """A net trained on the probability of each document to come first."""

    def make_objective(self) -> Objective:
        return parse_objective("listnet")


@parametrized
class ListMLE(NetRanker):
    """A net trained on the likelihood of the order by labels, under Plackett-Luce."""

    def make_objective(self) -> Objective:
        return parse_objective("listmle")


@parametrized
class XENDCG(NetRanker):
    """A net trained on XE-NDCG, a cross entropy that bounds NDCG."""

    def make_objective(self) -> Objective:
        return named_objective(self, "xendcg")


@parametrized
class ApproxNDCG(NetRanker):
    """A net trained on NDCG of smooth ranks."""

    steepness: float = parameter(10.0, "Steepness of the smooth ranks.", low=ABOVE_0, high=LARGE)

    search_space: ClassVar[Mapping[str, Any]] = NET_SPACE | {"steepness": [3.0, 10.0, 30.0]}

    def make_objective(self) -> Objective:
        return parse_objective("approxndcg", alpha=float(self.steepness))
