"""Metric: a ranked list of labels in, a number out, and what each swap of two places would change.

A metric is an immutable value with a name. To add one, write `value`; the brute force here then gives
`swaps` (by really swapping) and `values` (by looping over queries), and every closed form is tested against it.
"""

from __future__ import annotations

import math
from copy import copy
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Self

import numpy as np

from podium.metrics.closed_forms import PAIRS, ClosedForm, swap_deltas
from podium.metrics.lists import RankedLists
from podium.metrics.policies import POLICIES, Policy

LONGEST_BRUTE_FORCE = 2_000
LEAST_OF_GEOMETRIC = 1e-5  # a smaller value counts as this in a geometric mean, as in trec_eval

_NUMBERS = (int, float, np.integer, np.floating)
_VALUE_METHODS = ("value", "values", "ranked_gains")  # what swaps and a closed form say in another way


@dataclass(frozen=True)
class Metric:
    """The frame of all metrics.

    Fields other than the cutoff and the policy are part of the name: `RBP(persistence=0.5)` is `rbp(0.5)`.
    """

    base_name: ClassVar[str] = ""
    positional: ClassVar[str] = ""  # the field that may be given without its name
    higher_is_better: ClassVar[bool] = True
    cut_by_policy: ClassVar[bool] = False  # without a cutoff it takes the policy's default_cutoff, if that has one
    runs_only: ClassVar[bool] = False  # defined for a run and its qrels, not for the scores of given rows
    reads_labels: ClassVar[bool] = True  # False: it depends on which documents are retrieved and judged only
    needs_subtopics: ClassVar[bool] = False  # read from qrels that judge documents for each subtopic
    summary: ClassVar[str] = "mean"  # of the values of all queries: "mean", "sum", "geometric" (mean), or "text": none

    cutoff: int | None = None
    policy: Policy = field(default=POLICIES["standard"], kw_only=True, compare=True, repr=False)

    def __init_subclass__(cls, **more: Any) -> None:
        """A class that overrides how values are computed loses the swaps and the closed form of its base.

        It may define its own.
        """
        super().__init_subclass__(**more)
        cls.base_name = cls.base_name or cls.__name__.lower()
        for name, methods in (("swaps", _VALUE_METHODS), ("closed_form", (*_VALUE_METHODS, "swaps"))):
            owner = next(number for number, base in enumerate(cls.__mro__) if name in vars(base))
            if any(method in vars(base) for base in cls.__mro__[:owner] for method in methods):
                setattr(cls, name, getattr(Metric, name))

    def __post_init__(self) -> None:
        cutoff: Any = self.cutoff
        if cutoff is None and self.cut_by_policy:
            cutoff = self.policy.default_cutoff
        if cutoff is None:
            return
        if isinstance(cutoff, bool) or not isinstance(cutoff, _NUMBERS) or not 1 <= cutoff < 2**53 or cutoff % 1 != 0:
            raise ValueError(f"{self.base_name}: the cutoff must be an integer from 1; got {cutoff!r}.")
        object.__setattr__(self, "cutoff", int(cutoff))

    @property
    def name(self) -> str:
        """What `parse_metric` reads back: the name that was given to it, or `own_name`."""
        return str(vars(self).get("_given") or self.own_name)

    @property
    def own_name(self) -> str:
        """The name in our spelling: `ndcg@10`, `err@10(rmax=4)`."""
        cutoff = "" if self.cutoff is None else f"@{self.cutoff}"
        settings = [self._setting(f.name) for f in fields(self) if f.name not in ("cutoff", "policy")]
        shown = [setting for setting in settings if setting]
        return f"{self.base_name}{cutoff}{'(' + ', '.join(shown) + ')' if shown else ''}"

    def __str__(self) -> str:
        return self.name

    def called(self, name: str | None) -> Self:
        """The same metric, equal to this one, whose name is printed as it was given."""
        named = copy(self)
        object.__setattr__(named, "_given", name)
        return named

    def value(self, ranked_labels: np.ndarray, judged: np.ndarray | None = None) -> float:
        """The metric of one list. `judged` holds the labels of all judged documents when the list lacks some."""
        raise NotImplementedError(f"{type(self).__name__} must define value(ranked_labels, judged=None)")

    def values(self, lists: RankedLists) -> np.ndarray:
        """One number per query; NaN where the metric is undefined."""
        if lists.judged is None:
            return np.array([self.value(lists.query(q)) for q in range(lists.n_queries)])
        judged, ends = lists.all_judged
        return np.array([self.value(lists.query(q), judged[ends[q] : ends[q + 1]]) for q in range(lists.n_queries)])

    def swaps(self, ranked_labels: np.ndarray, i: int) -> np.ndarray:
        """What the value would change by if rank i (from 0) swapped with i + 1, i + 2, ...: shape (n - i - 1,)."""
        lists = RankedLists.one(ranked_labels)
        form = self.resolve(lists.largest_label).closed_form(lists)
        if form is not None and form.kind != PAIRS:
            return swap_deltas(form, i)
        labels = np.array(ranked_labels, dtype=np.float64)
        n = len(labels)
        if n > LONGEST_BRUTE_FORCE:
            raise ValueError(
                f"{self.name} has no closed form for swaps, and the list has {n} documents; "
                f"trying every swap is bounded at {LONGEST_BRUTE_FORCE}. Define swaps(ranked_labels, i)."
            )
        before, deltas = self.value(labels), np.empty(n - i - 1)
        for j in range(i + 1, n):
            labels[i], labels[j] = labels[j], labels[i]
            deltas[j - i - 1] = self.value(labels) - before
            labels[i], labels[j] = labels[j], labels[i]
        return deltas

    def closed_form(self, lists: RankedLists) -> ClosedForm | None:
        """The metric (resolved) on these lists, in any order; None where it has no such form on them.

        Lambda objectives and the line search read it; without one they call `swaps` and `values`.
        """
        return None

    def resolve(self, largest_label: float) -> Self:
        """Fill in what depends on the whole data set (ERR's largest grade); most metrics have nothing to fill in."""
        return self

    def under(self, policy: Policy) -> Self:
        """The same metric by another policy's rules."""
        return replace(self, policy=policy).called(vars(self).get("_given"))

    def summarise(self, values: np.ndarray, weights: np.ndarray | None = None) -> float:
        """One number for all queries, from those with a value; NaN where there is none."""
        defined = ~np.isnan(values)
        values = values[defined]
        if self.summary == "sum":
            return float(np.sum(values))
        if self.summary == "geometric":
            return float(np.exp(np.mean(np.log(np.maximum(values, LEAST_OF_GEOMETRIC))))) if len(values) else math.nan
        if weights is None:
            return float(np.mean(values)) if len(values) else math.nan
        total = float(np.sum(weights[defined]))
        return float(np.sum(values * weights[defined]) / total) if total > 0 else math.nan

    def of_missing(self, labels: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """The values of judged queries that a run lacks, where these count; their labels, grouped by query."""
        return np.zeros(len(offsets) - 1)

    @property
    def pools_queries(self) -> bool:
        """Whether it ranks the documents of all queries as one list."""
        return False

    def notes(self) -> tuple[str, ...]:
        """What a reader of its values should know, such as a parameter that `resolve` took from the data."""
        return ()

    def lambda_advice(self) -> str | None:
        """Why the swap deltas of this metric teach a model little about ranks, and what to use instead; else None."""
        return None

    def top(self, n: int) -> int:
        """How many of n places count."""
        return n if self.cutoff is None else min(self.cutoff, n)

    def _setting(self, name: str) -> str:
        value, default = getattr(self, name), _default(type(self), name)
        if value == default and name != self.positional:
            return ""
        if value is True:
            return name
        text = f"{value:g}" if isinstance(value, float) else str(value)
        return text if name == self.positional else f"{name}={text}"


class KernelMetric(Metric):
    """A metric whose `values` are computed for many queries at once; `value` is the case of one list."""

    def value(self, ranked_labels: np.ndarray, judged: np.ndarray | None = None) -> float:
        lists = RankedLists.one(ranked_labels, judged)
        return float(self.resolve(lists.largest_label).values(lists)[0])


@dataclass(frozen=True)
class RelevanceMetric(KernelMetric):
    """Labels count as relevant or not: from `relevant` on, or from the policy's threshold."""

    relevant: float | None = None

    @property
    def threshold(self) -> float:
        return self.policy.relevant if self.relevant is None else self.relevant


def refuse_averaged_ties(metric: Metric, lists: RankedLists) -> None:
    if lists.average_ties:
        raise ValueError(
            f"{metric.name} has no value averaged over ties (policy {metric.policy.name!r}); choose another policy."
        )


def refuse_weights(metric: Metric, lists: RankedLists) -> None:
    if lists.weights is not None:
        raise ValueError(f"{metric.name} does not support sample_weight; leave it out.")


def refuse_labels_above_rmax(metric: Metric, labels: np.ndarray, rmax: float | None) -> None:
    largest = float(np.max(labels, initial=0.0))
    if rmax is not None and largest > rmax:
        raise ValueError(f"{metric.name}: label {largest:g} is larger than rmax = {rmax:g}; give a larger rmax.")


def rmax_note(rmax: float | None) -> tuple[str, ...]:
    return () if rmax is None else (f"rmax = {rmax:g}.",)


def _default(metric: type[Metric], name: str) -> Any:
    return next(f.default for f in fields(metric) if f.name == name)
