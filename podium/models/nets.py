"""Nets: multilayer perceptrons trained on the derivatives of any objective, and the named products."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np

from podium._runtime.warn import warn
from podium._runtime.words import counted
from podium.data.ranking import RankingData
from podium.learners.net.scoring import ACTIVATIONS, Inputs, NetFunction, NetShape
from podium.models.frame.inspection import NetInspection, shown_parameters
from podium.models.frame.parameters import (
    ABOVE_0,
    INTEGER,
    LARGE,
    NUMBER,
    STRUCTURE,
    TRANSFORM_SPACE,
    LambdaParameters,
    MetricParameter,
    ObjectiveParameter,
    PairExponent,
    SeedParameter,
    SigmaParameter,
    parameter,
    parametrized,
)
from podium.models.frame.ranker import Callback, all_or_nothing
from podium.models.frame.starting import InitParameter, StartingRanker
from podium.objectives.base import Objective, bind_labels
from podium.objectives.registry import parse_objective
from podium.persistence.validation import Fact

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

    dropout: float = parameter(
        0.0, "Probability that the output of a hidden unit is set to 0 in training.", low=0, high=0.95
    )
    max_epochs: int = parameter(
        50,
        "Maximum number of passes over the training queries. With an evaluation set, training ends after 10 epochs "
        "without progress unless early_stopping_rounds is given (False: never).",
        low=1,
        high=10**6,
    )
    batch_size: int = parameter(1024, "Documents per batch; a batch holds whole queries.", low=1, high=2**31)
    optimizer: str = parameter(
        "adam", '"adamw" decays weights past Adam\'s scaling, "sgd" has a momentum of 0.9.', choices=OPTIMIZERS
    )
    learning_rate: float = parameter(1e-3, "Step size of the optimizer.", low=ABOVE_0, high=1e3)
    schedule: str = parameter(
        "constant", "How the learning rate falls to 0 until max_epochs, if it does.", choices=SCHEDULES
    )
    warmup: float = parameter(0.0, "Share of max_epochs in which the learning rate rises from 0.", low=0, high=1)
    weight_decay: float = parameter(
        0.0, "L2 penalty on the weights, not on biases; the cost is the mean over queries.", low=0, high=LARGE
    )
    gradient_clipping: float | None = parameter(
        None, "Maximum norm of the gradient of a batch; None for no limit.", kind=NUMBER, low=ABOVE_0, high=LARGE,
        optional=True,
    )  # fmt: skip
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
class TrainedNet(TrainingParameters, InitParameter, SeedParameter, StartingRanker):
    """What all nets have in common. Members define the objective, the shape and the scoring function."""

    step_word: ClassVar[str] = "epoch"
    steps_parameter: ClassVar[str | None] = "max_epochs"
    search_space: ClassVar[Mapping[str, Any]] = TRAINING_SPACE
    _ALLOWS_SPARSE: ClassVar[bool] = False
    _ARRAYS: ClassVar[tuple[str, ...]] = ("weights", "centre", "scale", "flagged")

    def _patience(self, early_stopping_rounds: int | None) -> int | None:
        return _PATIENCE if early_stopping_rounds is None else early_stopping_rounds or None

    def _on_device(self, target: Any) -> bool:
        """Whether derivatives are computed where the net is; objectives that only the host knows are said so, once."""
        import jax

        wanted = self.derivatives == "device" or (self.derivatives == "auto" and jax.default_backend() == "gpu")
        if wanted and target.on_device() is None:
            name = getattr(target.objective, "name", type(target.objective).__name__)
            found = f"{type(self).__name__}: the objective {name!r} has no form for a device"
            warn(f"{found}; its derivatives are computed on the host, batch by batch.")
            return False
        return wanted

    def _rules(self) -> Any:
        from podium.learners.net.optimization import OptimizerRules
        from podium.learners.net.training import NetRules

        clipping = self.gradient_clipping
        optimizer = OptimizerRules(
            name=self.optimizer,
            learning_rate=float(self.learning_rate),
            schedule=self.schedule,
            warmup=float(self.warmup),
            weight_decay=float(self.weight_decay),
            clipping=None if clipping is None else float(clipping),
            fixed_bias=bool(self._objective().needs_pairs),
        )
        return NetRules(
            dropout=float(self.dropout),
            max_epochs=int(self.max_epochs),
            batch_size=int(self.batch_size),
            n_nets=int(self.n_nets),
            seed=int(self.random_state),
            precision=self._precision(),
            optimizer=optimizer,
        )

    def _precision(self) -> str:
        import jax

        if self.precision != "auto":
            return self.precision
        return "bfloat16" if jax.default_backend() == "gpu" else "float32"

    def _n_steps(self) -> int:
        return self.max_epochs

    def _set_fitted(self, learner: Any) -> None:
        self.net_ = learner.function

    def _fitted_arrays(self) -> dict[str, np.ndarray]:
        inputs = self.net_.inputs
        return {
            "weights": self.net_.weights,
            "centre": inputs.centre,
            "scale": inputs.scale,
            "flagged": inputs.flagged,
        }

    def _check_fitted(self) -> None:
        super()._check_fitted()
        self._check_base()
        check_inputs(self.net_.inputs, self._n_columns)
        weights, n_weights = self.net_.weights, self.net_.shape.n_weights
        if weights.dtype != np.float32 or weights.ndim != 2 or not len(weights) or weights.shape[1] != n_weights:
            raise ValueError(f"weights must have shape (nets, {n_weights}) and be float32")
        if not np.isfinite(weights).all():
            raise ValueError("weights hold a number that is not finite")

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._objective()  # a misspelt name is answered before any work
        self._judging_metric()


@parametrized
class NetRanker(LayerParameters, TrainedNet):
    """A multilayer perceptron trained on the derivatives of an objective. Subclasses define the objective."""

    search_space: ClassVar[Mapping[str, Any]] = NET_SPACE
    _FACTS: ClassVar[Mapping[str, Fact]] = {
        "hidden": Fact("a list of widths", lambda value: isinstance(value, list) and _are_widths(value)),
        "activation": Fact(f"one of {', '.join(ACTIVATIONS)}", lambda value: value in ACTIVATIONS),
        "layer_norm": Fact("true or false", lambda value: isinstance(value, bool)),
        "residual": Fact("true or false", lambda value: isinstance(value, bool)),
    }

    def _learner(self, data: RankingData, continued: bool, **own: Any) -> Any:
        require_jax(type(self).__name__)
        from podium.learners.net.training import NetTraining

        grouped, base, rules = data.grouped(), self._base_scores(data), self._rules()
        inputs, target = Inputs.of(grouped.X), self._target(grouped, data.rows, **own)
        widths = tuple(int(width) for width in self.hidden_layer_sizes)
        shape = NetShape(inputs.width, widths, self.activation, bool(self.layer_norm), bool(self.residual))
        rows = inputs.columns(grouped.X), grouped.offsets, target, shape, rules, base
        return NetTraining(inputs, shape, rules, self._runner(rows), target.start() if base is None else 0.0)

    def _target(self, data: RankingData, rows: np.ndarray) -> Any:
        """The objective on the grouped training rows; rows: where they were before."""
        return self._bind(data)

    def _runner(self, rows: tuple[Any, ...]) -> Any:
        from podium.learners.net.training import DeviceEpochs, HostRunner

        return (DeviceEpochs if self._on_device(rows[2]) else HostRunner)(*rows)

    def _scores(self, X: Any) -> np.ndarray:
        return np.asarray(self.net_.scores(X, self.n_jobs))

    def inspect(self) -> NetInspection:
        """What the model is made of: its layers and parameters. Print it."""
        shape, nets = self.net_.shape, len(self.net_.weights)
        about = type(self).__name__, self.n_features_in_, *shown_parameters(self)
        return NetInspection(*about, nets, [shape.n_inputs, *shape.hidden, 1], shape.n_weights)

    def _fitted_meta(self) -> dict[str, Any]:
        shape = self.net_.shape
        return {
            "hidden": list(shape.hidden),
            "activation": shape.activation,
            "layer_norm": shape.layer_norm,
            "residual": shape.residual,
        }

    def _restore_fitted(self, meta: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
        inputs = Inputs(arrays["centre"], arrays["scale"], arrays["flagged"])
        switches = meta["activation"], meta["layer_norm"], meta["residual"]
        self.net_ = NetFunction(NetShape(inputs.width, tuple(meta["hidden"]), *switches), inputs, arrays["weights"])


def check_inputs(inputs: Inputs, n_features: int) -> None:
    """Refuse what a file says of features that are not there, or cannot be divided by."""
    for name, array in (("centre", inputs.centre), ("scale", inputs.scale)):
        if array.dtype != np.float64 or array.shape != (n_features,) or not np.isfinite(array).all():
            raise ValueError(f"{name} must have one finite float64 number per feature")
    if not (inputs.scale > 0).all():
        raise ValueError("scale must be above 0")
    flagged = inputs.flagged
    if flagged.dtype != np.int64 or flagged.ndim != 1 or (np.diff(flagged) <= 0).any():
        raise ValueError("flagged must be rising feature numbers")
    if len(flagged) and not (flagged[0] >= 0 and flagged[-1] < n_features):
        raise ValueError(f"flagged names a feature that is not there; there are {counted(n_features, 'feature')}")


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
class Net(ObjectiveParameter, MetricParameter, PairExponent, NetRanker):
    """A multilayer perceptron with any objective: a name, an Objective or a Python function."""

    objective: Any = "ranknet"

    search_space: ClassVar[Mapping[str, Any]] = NET_SPACE | {"objective": ["ranknet", "lambda", "xendcg"]}

    def _objective(self) -> Any:
        return self._named_objective(self.objective)

    def _aim(self) -> Any:
        return super()._aim() if isinstance(self.objective, Objective) else self.metric


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

    @all_or_nothing
    def fit(
        self,
        X: Any,
        y: Any = None,
        qid: Any = None,
        *,
        pairs: Any = None,
        group: Any = None,
        sample_weight: Any = None,
        query_weight: Any = None,
        eval_set: Any = None,
        early_stopping_rounds: int | None = None,
        callbacks: Sequence[Callback] = (),
        verbose: int | None = None,
        checkpoint: Any = None,
        every: int = 10,
        checkpoint_errors: str = "stop",
    ) -> Self:
        """`Ranker.fit`, or on given pairs: `pairs=(i, j, p)` has rows i and j of X, which are documents of one query.

        p, 1 if it is left out, is the probability that row i is the better one. Labels are then neither needed nor
        used, and no checkpoint can be kept.
        """
        if pairs is not None:
            if checkpoint is not None:
                raise ValueError("fit: a checkpoint cannot be kept with pairs; leave out one of the two.")
            X, y = _with_labels(X, y)
        given = {"group": group, "sample_weight": sample_weight, "query_weight": query_weight}
        watched = {"eval_set": eval_set, "early_stopping_rounds": early_stopping_rounds, "callbacks": callbacks}
        kept = {"checkpoint": checkpoint, "every": every, "checkpoint_errors": checkpoint_errors}
        own = {} if pairs is None else {"pairs": pairs}
        return self._train(X, y, qid, **given, **watched, **kept, verbose=verbose, own=own)

    def _objective(self) -> Any:
        return self._named_objective("ranknet", sigma=float(self.sigma), ties=bool(self.ties))

    def _warn_if_nothing_to_learn(self, data: RankingData, pairs: Any = None) -> None:
        if pairs is None:
            super()._warn_if_nothing_to_learn(data)

    def _warn_if_constant(self, data: RankingData, by_label: bool = True, pairs: Any = None) -> bool:
        return super()._warn_if_constant(data, by_label and pairs is None)

    def _target(self, data: RankingData, rows: np.ndarray, pairs: Any = None) -> Any:
        if pairs is None:
            return super()._target(data, rows)
        from podium.objectives.given_pairs import BoundPairs, GivenPairs

        found = GivenPairs.read(pairs, rows, data.offsets)
        labels = bind_labels(np.zeros(data.n_rows), data.offsets, data.sample_weight, data.query_weight)
        return BoundPairs(self._objective(), labels, found, self.n_jobs)

    def _runner(self, rows: tuple[Any, ...]) -> Any:
        if self.update == "batch":
            return super()._runner(rows)
        from podium.learners.net.pairs import PairRunner, given_pairs, label_pairs
        from podium.objectives.given_pairs import BoundPairs, PairGradient

        columns, offsets, target, shape, rules, base = rows
        if isinstance(target, BoundPairs):
            pairs_of = given_pairs(target.pairs.first, target.pairs.second, target.pairs.target, offsets)
        else:
            pairs_of = label_pairs(target.labels, offsets, bool(self.ties))
        weights = target.data.weights, target.data.query_weights
        return PairRunner(columns, offsets, pairs_of, shape, rules, base, PairGradient(float(self.sigma)), weights)


def _with_labels(X: Any, y: Any) -> tuple[Any, Any]:
    """The rows and labels that `fit` was given beside pairs; labels of 0 where there are none."""
    if isinstance(X, RankingData):
        return (X if X.y is not None else replace(X, y=np.zeros(X.n_rows))), y
    return X, np.zeros(np.shape(X)[0]) if y is None else y


@parametrized
class LambdaRank(LambdaParameters, NetRanker):
    """A net that optimizes a ranking metric by lambda gradients."""

    normalize: str | None = None

    def _objective(self) -> Any:
        return self._named_objective("lambda", sigma=float(self.sigma), normalize=self._normalization())


@parametrized
class ListNet(NetRanker):
    """A net trained on the probability of each document to come first."""

    def _objective(self) -> Any:
        return parse_objective("listnet")


@parametrized
class ListMLE(NetRanker):
    """A net trained on the likelihood of the order by labels, under Plackett-Luce."""

    def _objective(self) -> Any:
        return parse_objective("listmle")


@parametrized
class XENDCG(NetRanker):
    """A net trained on XE-NDCG, a cross entropy that bounds NDCG."""

    def _objective(self) -> Any:
        return self._named_objective("xendcg")


@parametrized
class ApproxNDCG(NetRanker):
    """A net trained on NDCG of smooth ranks."""

    steepness: float = parameter(10.0, "Steepness of the smooth ranks.", low=ABOVE_0, high=LARGE)

    search_space: ClassVar[Mapping[str, Any]] = NET_SPACE | {"steepness": [3.0, 10.0, 30.0]}

    def _objective(self) -> Any:
        return parse_objective("approxndcg", alpha=float(self.steepness))
