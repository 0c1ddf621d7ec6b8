"""Parameters: fields of a dataclass with type, limits, choices and words as metadata.

    max_leaf_nodes: int = parameter(31, "Maximum number of leaves per tree.", low=2, high=65_536)

The checks before training, the values of `--set name=value`, the tables of `podium models` and the docstring of a class
all come from these declarations. None is read from a docstring, which `python -OO` strips.
"""

from __future__ import annotations

import inspect
import json
import re
from collections import ChainMap
from collections.abc import Callable
from dataclasses import Field, dataclass, field, fields
from numbers import Integral, Real
from textwrap import fill
from typing import Any, TypeVar, dataclass_transform

import numpy as np

from podium._runtime.words import did_you_mean
from podium.metrics.registry import METRICS
from podium.objectives.base import NORMALIZATIONS, Objective
from podium.objectives.registry import OBJECTIVES

Made = TypeVar("Made")

ABOVE_0 = 1e-12  # the least number that counts as above 0
LARGE = 1e12  # bounds from here on only keep sums finite, and are left out of the words
TRANSFORM_SPACE: dict[str, Any] = {"transform": [None, ("zscore",), ("raw", "zscore", "rank")]}  # of `podium tune`
UNSAVED = frozenset({"n_jobs", "device"})  # the machine's affair: in no file, and no part of what a training is
AUTO = "auto"  # the value of a parameter that the training data decide
_KEY = "parameter"
_WIDTH = 110


@dataclass(frozen=True)
class Kind:
    """A type of values: its name, which values are of it, and how one is read from text."""

    words: str
    holds: Callable[[Any], bool]
    read: Callable[[str], Any]
    explains: bool = False  # whether its errors tell more than what is allowed


def _is_bool(value: Any) -> bool:
    return isinstance(value, (bool, np.bool))


def _anything(value: Any) -> bool:
    return True


INTEGER = Kind("an integer", lambda value: isinstance(value, Integral) and not _is_bool(value), int)
NUMBER = Kind("a number", lambda value: isinstance(value, Real) and not _is_bool(value), float)
SWITCH = Kind("True or False", _is_bool, lambda text: {"true": True, "false": False}[text.lower()])
TEXT = Kind("text", lambda value: isinstance(value, str), str)
NAME = Kind("a name", _anything, str)  # or what it stands for; whoever looks it up refuses others
STRUCTURE = Kind("JSON", _anything, json.loads)
NAMES = Kind("names", _anything, lambda text: _read_names(text))
METRIC_NAMES = Kind("names of metrics", _anything, lambda text: _read_metrics(text))
_KINDS: dict[type, Kind] = {int: INTEGER, float: NUMBER, bool: SWITCH, str: TEXT}


def _read_names(text: str) -> tuple[str, ...]:
    """`raw,zscore` or `["raw", "zscore"]` -> ("raw", "zscore")"""
    listed = json.loads(text) if text.lstrip().startswith("[") else [name.strip() for name in text.split(",")]
    return tuple(listed)


def _read_metrics(text: str) -> Any:
    """`ndcg@10` -> "ndcg@10"; `ndcg@10,rbp(0.8, graded)` -> ("ndcg@10", "rbp(0.8, graded)")"""
    listed = json.loads(text) if text.lstrip().startswith("[") else re.split(r",\s*(?![^(]*\))", text)
    return listed[0] if len(listed) == 1 else tuple(listed)


def is_auto(value: Any) -> bool:
    return isinstance(value, str) and value == AUTO


@dataclass(frozen=True)
class Declaration:
    """What a parameter may be, and what it does."""

    about: str
    kind: Kind
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    optional: bool = False  # None is allowed
    auto: bool = False  # "auto" is allowed: the training data decide
    words: str | None = None  # for what is allowed, where the other fields do not say it
    holds: Callable[[Any], bool] = _anything  # a condition that limits and choices cannot say

    @property
    def allowed(self) -> str:
        """`"an integer from 2 to 65,536"`, `"leaf, level, oblivious"`."""
        if self.words is not None:
            return self.words
        if self.choices:
            return ", ".join(("None", *self.choices) if self.optional else self.choices)
        if self.kind is SWITCH and self.optional:
            return "True, False or None"
        return self._range() + (", or None" if self.optional else "") + (f', or "{AUTO}"' if self.auto else "")

    @property
    def signature(self) -> str:
        """What is allowed, in numpydoc's notation."""
        if not self.choices:
            return self.allowed
        return f"{{{', '.join(map(repr, (None, *self.choices) if self.optional else self.choices))}}}"

    def _range(self) -> str:
        if self.low is None or self.high is None:
            return self.kind.words
        if self.kind is INTEGER:
            return f"an integer from {self.low:,}" + (f" to {self.high:,}" if self.high < LARGE else "")
        if self.low == ABOVE_0:
            return "above 0" + (f" and at most {self.high:,g}" if self.high < LARGE else "")
        return f"{self.low:g} or larger" if self.high >= LARGE else f"from {self.low:g} to {self.high:g}"

    def takes(self, value: Any) -> bool:
        if (value is None and self.optional) or (self.auto and is_auto(value)):
            return True
        if not self.kind.holds(value) or (self.choices and value not in self.choices):
            return False
        return self._reaches(value) and not self._exceeds(value) and self.holds(value)

    def read(self, text: str) -> Any:
        """The value that is written so; ValueError or KeyError for a text of another type."""
        if self.auto and text.lower() == AUTO:
            return AUTO
        return None if self.optional and text.lower() == "none" else self.kind.read(text)

    def refuse(self, owner: str, name: str, value: Any) -> ValueError:
        """The error for a value that is not taken, also beyond the bounds that `allowed` leaves out."""
        expected = f"one of {self.allowed}" if self.choices else self.allowed
        if self.kind in (INTEGER, NUMBER) and self.kind.holds(value):
            if self._exceeds(value) and (self.high or 0) >= LARGE:
                expected = f"at most {self.high:g}"
            elif not self._reaches(value) and value > 0 and self.low == ABOVE_0:
                expected = f"at least {self.low:g}"
        return ValueError(f"{owner}: {name} must be {expected}; got {value!r}.{did_you_mean(value, self.choices)}")

    def _reaches(self, value: Any) -> bool:
        return self.low is None or bool(value >= self.low)

    def _exceeds(self, value: Any) -> bool:
        return self.high is not None and not value <= self.high


@dataclass(frozen=True)
class Parameter:
    """A parameter of a model: its declaration with the name and the default it has there."""

    name: str
    default: Any
    declaration: Declaration

    def as_dict(self) -> dict[str, Any]:
        shown = self.declaration
        return {"name": self.name, "default": self.default, "allowed": shown.allowed, "about": shown.about}


def parameter(default: Any, about: str, *, kind: Kind | None = None, positional: bool = False, **more: Any) -> Any:
    """A field with a `Declaration`. `kind` follows from the default unless that is a name or None, which allows None.

    `positional` is for the part that a model is made around: `Pointwise(Ridge())`.
    """
    declaration = Declaration(about, kind or _KINDS[type(default)], **{"optional": default is None} | more)
    return field(default=default, kw_only=not positional, metadata={_KEY: declaration})


@dataclass_transform(eq_default=False, kw_only_default=True)
def parametrized(made: type[Made]) -> type[Made]:
    """Make a class a dataclass of keyword parameters, with all of them in its docstring.

    A subclass that gives an inherited parameter another default, `n_estimators: int = 1`, inherits its declaration.
    """
    summary = inspect.cleandoc(made.__doc__ or "")  # before dataclass puts a signature in the place of an empty one
    for name in inspect.get_annotations(made):
        inherited = _inherited(made, name)
        if inherited is not None and not isinstance(made.__dict__.get(name, inherited), Field):
            setattr(made, name, field(default=made.__dict__[name], metadata=inherited.metadata))
    made = dataclass(eq=False, repr=False, kw_only=True)(made)
    made.__doc__ = f"{summary}\n\n{_section(made)}".strip()
    return made


def _inherited(made: type, name: str) -> Any:
    declared = (getattr(base, "__dataclass_fields__", {}).get(name) for base in made.__mro__[1:])
    return next((one for one in declared if one is not None), None)


def parameters_of(made: type[Any]) -> dict[str, Parameter]:
    """All parameters of a class, by name: its own first, then those of its bases, as scikit-learn orders them."""
    known = {one.name: one for one in fields(made)}
    order = dict.fromkeys(name for owner in made.__mro__ for name in inspect.get_annotations(owner) if name in known)
    undeclared = [name for name in order if _KEY not in known[name].metadata]
    if undeclared:
        raise ValueError(f"{made.__name__}: {undeclared[0]} has no declaration; give it one by parameter(...).")
    return {name: Parameter(name, known[name].default, known[name].metadata[_KEY]) for name in order}


def value_of(model: Any, name: str) -> Any:
    """A parameter of a model; one that `HiddenIfNone` hides is None."""
    return getattr(model, name, None)


def rules_for(kind: type[Made], model: object, **computed: Any) -> Made:
    """The rules of a learner, a dataclass: fields that are called as parameters of the model have their values."""
    learner: Any = kind
    shared = [one for one in fields(learner) if one.name not in computed and hasattr(model, one.name)]
    return kind(**computed, **{one.name: _typed(one.default, value_of(model, one.name)) for one in shared})


def _typed(default: Any, value: Any) -> Any:
    return type(default)(value) if isinstance(default, (bool, int, float)) else value


class HiddenIfNone:
    """A parameter that an instance has as an attribute only while it is not None.

    scikit-learn takes whatever has an attribute `transform` for a transformer, and would call it.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, owner: Any, kind: type) -> Any:
        if owner is None:
            return None  # the default of the field
        value = owner.__dict__.get(self._name)
        if value is None:
            raise AttributeError(f"{kind.__name__}: {self._name} is None; get_params() has it.")
        return value

    def __set__(self, owner: Any, value: Any) -> None:
        owner.__dict__[self._name] = value


def check_values(model: Any) -> None:
    """Refuse values that the fields of a model do not take."""
    for one in fields(model):
        declaration, value = one.metadata.get(_KEY), value_of(model, one.name)
        if declaration is not None and not declaration.takes(value):
            raise declaration.refuse(type(model).__name__, one.name, value)


def attributes_of(made: type) -> dict[str, str]:
    """What a fitted model of a class has, each with a sentence: its own first, then what its bases declare."""
    declared = ChainMap(*(dict(vars(owner).get("fitted_attributes", {})) for owner in made.__mro__))
    return {name: declared[name] for one in declared.maps for name in one}


def _section(made: type) -> str:
    """The parameters, and the attributes of a fitted model, as numpydoc writes them."""
    lines = ["Parameters", "----------"]
    for one in parameters_of(made).values():
        lines.append(f"{one.name} : {one.declaration.signature}, default={one.default!r}")
        lines.append(_indented(one.declaration.about))
    attributes = attributes_of(made)
    lines += ["", "Attributes", "----------"] if attributes else []
    for name, about in attributes.items():
        lines += [name, _indented(about)]
    return "\n".join(lines)


def _indented(text: str) -> str:
    return fill(text, _WIDTH, initial_indent="    ", subsequent_indent="    ")


# --- groups of parameters that learners of every kind share ---------------------------------------------------------


@parametrized
class ObjectiveParameter:
    """The objective of a model that takes any."""

    objective: Any = parameter(
        "lambda",
        "Objective that is minimized: a name, an Objective, or a Python function of (scores, labels, offsets) that "
        "returns (gradients, hessians).",
        kind=NAME,
        words=", ".join(OBJECTIVES),
    )

    def make_objective(self) -> Objective:
        """What is minimized, with the seed, metric and pair_exponent of the model where it takes them."""
        from podium.models.frame.plan import named_objective

        return named_objective(self, self.objective)


@parametrized
class BinParameter:
    """The bins of features."""

    max_bins: int = parameter(255, "Maximum number of bins per feature.", low=2, high=255)


@parametrized
class RoundsParameter:
    """How long a solver may take."""

    max_iter: int = parameter(1000, "Maximum number of rounds of the solver.", low=1, high=10**6)


@parametrized
class SeedParameter:
    """The seed of a model that draws random numbers."""

    random_state: int = parameter(0, "Seed of all random numbers.", low=0, high=2**63 - 1)


@parametrized
class MetricParameter:
    """The metric that lambda gradients optimize."""

    metric: Any = parameter(
        "ndcg@10",
        'Metric to optimize; where there is an objective, by "lambda" or "bayesrank"; the cutoff limits the pairs of '
        '"lambda". Evaluation sets are judged by it unless eval_metric is given.',
        kind=NAME,
        words=f"a metric: {', '.join(METRICS)}, with or without a cutoff",
    )


@parametrized
class PairExponent:
    """How much a query with many pairs counts."""

    pair_exponent: float = parameter(
        0.0,
        "Pairwise losses of a query are multiplied by n_pairs**-pair_exponent, where n_pairs counts its pairs of "
        "different labels: 0 weighs all pairs alike, 1 all queries, 0.5 is a compromise. For pairwise objectives, and "
        'for "lambda" with normalize=None.',
        low=0,
        high=1,
    )


@parametrized
class SigmaParameter:
    """The logistic function of pairs."""

    sigma: float = parameter(1.0, "Steepness of the logistic function of score differences.", low=ABOVE_0, high=LARGE)


@parametrized
class AnyObjectiveParameters(ObjectiveParameter, MetricParameter, PairExponent):
    """Any objective; "lambda" takes the metric."""


@parametrized
class LambdaParameters(MetricParameter, PairExponent, SigmaParameter):
    """All parameters of lambda gradients."""

    normalize: str | None = parameter(
        "auto",
        'Scaling of the lambdas: None as in the papers, "lightgbm" or "xgboost" as in these libraries; "auto" is '
        '"lightgbm", and None where pair_exponent is above 0.',
        choices=("auto", *NORMALIZATIONS),
        optional=True,
    )

    def normalization(self) -> str | None:
        """`normalize`, with what "auto" stands for."""
        if self.normalize != "auto":
            return self.normalize
        return None if self.pair_exponent else "lightgbm"
