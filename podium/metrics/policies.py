"""A policy fixes everything about a metric that its formula leaves open.

The same ranking gets another "NDCG" in every tool: the gain of a label, the discount of a rank, what a query without
relevant documents scores, what happens to lists shorter than the cutoff, and who wins among equal scores. Each row of
`POLICIES` is one tool's answer, and every number Podium prints carries its policy's name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np

from podium._runtime.words import check_choice

Ties = Literal["worst", "best", "input", "docid", "average"]

LARGEST_EXPONENTIAL_LABEL = 31

_CHOICES: dict[str, tuple[str, ...]] = {
    "discount": ("log2", "letor", "reciprocal"),
    "short": ("cut", "zero"),
    "ties": get_args(Ties),
    "average_precision": ("relevant", "cutoff"),
    "precision": ("cutoff", "list"),
}


@dataclass(frozen=True)
class Policy:
    """One tool's conventions, as a value. `replace(policy, gain="linear")` makes a variant with a telling name."""

    name: str
    gain: str | tuple[float, ...] = "exponential"  # 2^r - 1; "linear": r; or a table indexed by the label
    discount: str = "log2"  # 1/log2(1 + i); "letor": 1, 1, then 1/log2(i); "reciprocal": 1/i
    empty: float = 0.0  # NDCG of a query with nothing relevant
    empty_average_precision: float = 0.0
    empty_recall: float = 0.0
    short: Literal["cut", "zero"] = "cut"  # NDCG@k of a list with fewer than k documents
    ties: Ties = "worst"
    average_precision: Literal["relevant", "cutoff"] = (
        "relevant"  # AP@k divides by all relevant, or by min(k, relevant)
    )
    precision: Literal["cutoff", "list"] = "cutoff"  # P@k divides by k, or by min(k, documents)
    relevant: float = 1.0  # smallest label that counts as relevant
    whole_labels: bool = False  # refuse fractions
    single_precision: bool = False  # compare scores as float32
    default_cutoff: int | None = None  # of NDCG, AP and P that are given none

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise ValueError(f"a policy must have a name; got {self.name!r}.")
        if isinstance(self.gain, str):
            known_gain(self.gain)
        else:
            object.__setattr__(self, "gain", gain_table(self.gain))  # a tuple, so that the value can be hashed
        for rule, choices in _CHOICES.items():
            check_choice(f"policy {self.name!r}: {rule}", getattr(self, rule), choices)
        for rule in ("empty", "empty_average_precision", "empty_recall", "relevant"):
            number = getattr(self, rule)
            if isinstance(number, (bool, str)) or not np.isfinite(number):
                raise ValueError(f"policy {self.name!r}: {rule} must be a finite number; got {number!r}.")
        places = self.default_cutoff
        if places is not None and (isinstance(places, bool) or not isinstance(places, int) or places < 1):
            raise ValueError(f"policy {self.name!r}: default_cutoff must be an integer from 1; got {places!r}.")

    def vary(
        self, *, gain: str | None = None, label_gain: Sequence[float] | None = None, relevant: float | None = None
    ) -> Policy:
        """The same policy with another gain or threshold, which its name shows."""
        varied = self
        if gain is not None and label_gain is not None:
            raise ValueError("Give gain or label_gain, not both.")
        if gain is not None:
            varied = replace(varied, gain=known_gain(gain), name=f"{varied.name}, gain {gain}")
        if label_gain is not None:
            table = gain_table(label_gain)
            varied = replace(varied, gain=table, name=f"{varied.name}, own label_gain")
        if relevant is not None:
            varied = replace(varied, relevant=float(relevant), name=f"{varied.name}, relevant from {relevant:g}")
        return varied


def known_gain(gain: str) -> str:
    if gain not in ("exponential", "linear"):
        raise ValueError(f'gain must be "exponential" (2^r - 1) or "linear" (r); got {gain!r}.')
    return gain


def gain_table(label_gain: Sequence[float]) -> tuple[float, ...]:
    """Check a table of gains: finite, not negative, not falling (a better label must not gain less)."""
    table = tuple(float(value) for value in label_gain)
    for label, value in enumerate(table):
        if not (np.isfinite(value) and value >= 0):
            raise ValueError(f"label_gain[{label}] is {value}; gains must be finite and not negative.")
        if label and value < table[label - 1]:
            raise ValueError(
                f"label_gain falls from {table[label - 1]:g} to {value:g} at label {label}; "
                "a better label must not gain less."
            )
    if not table:
        raise ValueError("label_gain is empty; expected one gain for each label 0, 1, 2, ...")
    return table


POLICIES: dict[str, Policy] = {
    policy.name: policy
    for policy in (
        Policy("standard"),
        Policy("letor4", discount="letor", short="zero", ties="input"),
        Policy("trec", gain="linear", ties="docid", whole_labels=True, single_precision=True),
        Policy("lightgbm", empty=1.0, empty_average_precision=1.0, ties="input", average_precision="cutoff"),
        Policy(
            "xgboost",
            empty=1.0,
            empty_average_precision=1.0,
            ties="input",
            average_precision="cutoff",
            precision="list",
            single_precision=True,  # its predictions are
            default_cutoff=32,  # the top of its pairs, which its metrics take over
        ),
        Policy("catboost", gain="linear", empty=1.0, empty_recall=1.0, average_precision="cutoff", precision="list"),
        Policy("sklearn", gain="linear", ties="average"),
        Policy("ranklib", ties="input"),
    )
}


def get_policy(policy: str | Policy) -> Policy:
    """A policy by name."""
    if isinstance(policy, Policy):
        return policy
    check_choice("policy", policy, POLICIES)
    return POLICIES[policy]


def refuse_fractions(labels: np.ndarray, policy: Policy) -> None:
    """Refuse labels that are not integers, where the policy does."""
    if not policy.whole_labels or np.array_equal(labels, np.floor(labels)):
        return
    label = labels[labels != np.floor(labels)][0]
    raise ValueError(
        f"label {label:g} is not an integer; trec_eval would truncate it silently, so policy "
        f"{policy.name!r} refuses it. Round the labels or use another policy."
    )


def gains(labels: np.ndarray, gain: str | tuple[float, ...]) -> np.ndarray:
    """The gain of each label; labels without one are refused by value.

    >>> gains(np.array([0.0, 1.0, 2.0]), "exponential")
    array([0., 1., 3.])
    """
    if gain == "linear":
        return labels
    largest = float(labels.max(initial=0.0))
    if gain == "exponential":
        if largest > LARGEST_EXPONENTIAL_LABEL:
            raise ValueError(
                f"label {largest:g} is too large for the gain 2^r - 1 (at most {LARGEST_EXPONENTIAL_LABEL}). "
                'Use gain="linear" or give label_gain=[...].'
            )
        exponential: np.ndarray = np.exp2(labels) - 1.0
        return exponential
    places = labels.astype(np.int64)
    if not np.array_equal(places, labels):
        label = float(labels[places != labels][0])
        raise ValueError(f"label {label:g} is not an integer, so label_gain has no entry for it.")
    if largest >= len(gain):
        raise ValueError(
            f"label {largest:g} has no gain; label_gain has {len(gain)} entries (labels 0..{len(gain) - 1})."
        )
    return np.asarray(gain, dtype=np.float64)[places]


def discounts(n: int, discount: str) -> np.ndarray:
    """The weight of ranks 1..n."""
    ranks = np.arange(1, n + 1, dtype=np.float64)
    if discount == "log2":
        return 1.0 / np.log2(1.0 + ranks)
    if discount == "letor":
        return 1.0 / np.log2(np.maximum(ranks, 2.0))
    if discount == "reciprocal":
        return 1.0 / ranks
    raise ValueError(f'discount must be "log2", "letor" or "reciprocal"; got {discount!r}.')
