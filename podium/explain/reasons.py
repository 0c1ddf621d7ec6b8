"""Why one document is ranked above another: the contributing features, as a sentence, a table or a plot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from podium.data.sparse import as_dense
from podium.explain.attributions import Attributions, attribute
from podium.explain.drawable import Drawable
from podium.explain.subjects import columns_for, refuse_unfitted

if TYPE_CHECKING:
    from rich.table import Table

_REASONS_FOR, _REASONS_AGAINST = 3, 2
_REPORTED_SHARE = 0.05  # of the largest reason
_ROUNDING = 1e-12  # of the largest value: what adding up in another order can change


@dataclass(frozen=True)
class Reason:
    """What one feature adds to the difference of two scores."""

    feature: str
    contribution: float  # the SHAP value for i minus that for j
    value: float  # of document i
    other: float  # of document j


@dataclass(frozen=True)
class Why(Drawable):
    """Document i against document j. Print it, or take `text`, `table()`, `picture(path)` or `as_dict()`."""

    drawing: ClassVar[str] = "draw_why"

    documents: tuple[str, str]
    scores: tuple[float, float]
    reasons: tuple[Reason, ...]  # the largest first; features that add nothing are left out

    @property
    def difference(self) -> float:
        """The score of i minus that of j, which is the sum of all contributions."""
        return self.scores[0] - self.scores[1]

    @property
    def text(self) -> str:
        """One or two sentences about the document that is ranked above."""
        if self.difference == 0:
            return self._tie()
        helps = self._main_reasons(speaking_for=True)[:_REASONS_FOR]
        hinders = self._main_reasons(speaking_for=False)[:_REASONS_AGAINST]
        upper, lower = self.documents if self.difference > 0 else self.documents[::-1]
        text = f"Document {upper} is ranked above document {lower} by {abs(self.difference):.4g}"
        text += f", mainly because {self._listed(helps)}." if helps else "."
        return f"{text} Against that, {self._listed(hinders)}." if hinders else text

    def table(self) -> Table:
        """A table for rich: `rich.print(why.table())`."""
        from rich.table import Table
        from rich.text import Text

        table = Table("feature")
        for document in self.documents:
            table.add_column(Text(f"document {document}"), justify="right")
        table.add_column("contribution", justify="right")
        for reason in self.reasons:
            values = (_number(reason.value), _number(reason.other), f"{reason.contribution:+.4f}")
            table.add_row(Text(reason.feature), *values)
        table.add_row("score", *(f"{score:.4f}" for score in self.scores), f"{self.difference:+.4f}", style="bold")
        return table

    def as_dict(self) -> dict[str, Any]:
        """Plain values, unrounded, for `json.dumps`; a missing value is None."""
        reasons = [asdict(reason) for reason in self.reasons]
        for reason in reasons:
            reason |= {key: None if np.isnan(reason[key]) else reason[key] for key in ("value", "other")}
        return {
            "documents": list(self.documents),
            "scores": list(self.scores),
            "difference": self.difference,
            "text": self.text,
            "reasons": reasons,
        }

    def __str__(self) -> str:
        return self.text

    def _tie(self) -> str:
        same = "the contributions of their features have the same sum"
        why = same if self.reasons else "the model sees no difference between them"
        return f"Documents {' and '.join(self.documents)} have the same score, {self.scores[0]:.4g}: {why}."

    def _main_reasons(self, speaking_for: bool) -> list[Reason]:
        """The reasons of one side that are large enough to report; always the largest one in favour."""
        side = [one for one in self.reasons if ((one.contribution > 0) == (self.difference > 0)) == speaking_for]
        least = _REPORTED_SHARE * max((abs(reason.contribution) for reason in self.reasons), default=0.0)
        large = [reason for reason in side if abs(reason.contribution) >= least]
        return large or (side[:1] if speaking_for else [])

    def _listed(self, reasons: Sequence[Reason]) -> str:
        """`bm25 is 12.1 against 8.3 (+0.30), age is missing against 3 (+0.1)`, the upper document first."""
        sign = 1 if self.difference > 0 else -1
        parts = []
        for reason in reasons:
            upper, lower = (reason.value, reason.other)[::sign]
            parts.append(f"{reason.feature} is {_compared(upper, lower)} ({sign * reason.contribution:+.3g})")
        return ", ".join(parts)


def why(
    model: Any,
    X: Any,
    i: int,
    j: int,
    names: Sequence[str] | None = None,
    *,
    documents: tuple[str, str] | None = None,
    qid: Any = None,
) -> Why:
    """Why row i of X is ranked above row j, or below it: the difference of their scores, per feature.

    `names` are those of the features, `documents` the names of the two documents; by default their row numbers. `qid`
    is needed where the model compares the documents of a query; the values are then those of its transforms.
    """
    refuse_unfitted(model)
    rows, queries = model.checked_rows(X, qid)
    for name, row in (("i", i), ("j", j)):
        if not 0 <= row < rows.shape[0]:
            raise ValueError(f"{name} must be a row of X, from 0 to {rows.shape[0] - 1}; got {row}.")
    called = (str(i), str(j)) if documents is None else documents
    return why_of_rows(model, rows, queries, (i, j), columns_for(model, X, names), called)


def why_of_rows(
    model: Any, rows: Any, queries: Any, pair: tuple[int, int], columns: tuple[str, ...], documents: tuple[str, str]
) -> Why:
    """The same for rows that were checked."""
    values = as_dense(model.columns(rows, queries)[list(pair)])
    attributions, scores = attribute(model, values, columns), _scores_of(model, rows, queries, *pair)
    return Why(documents, (float(scores[0]), float(scores[1])), _reasons(attributions, values))


def _scores_of(model: Any, rows: Any, queries: Any, i: int, j: int) -> Any:
    """The scores of two rows, which may depend on all of their query."""
    if queries is None:
        return model.score_rows(as_dense(rows[[i, j]]), None)
    return model.score_rows(rows, queries)[[i, j]]


def _reasons(attributions: Attributions, pair: np.ndarray) -> tuple[Reason, ...]:
    names, contributions = attributions.names, attributions.values[0] - attributions.values[1]
    noise = _ROUNDING * np.abs(attributions.values).max(initial=0.0)
    order = np.argsort(-np.abs(contributions), kind="stable")
    return tuple(
        Reason(names[f], float(contributions[f]), float(pair[0, f]), float(pair[1, f]))
        for f in order
        if abs(contributions[f]) > noise
    )


def _number(value: float) -> str:
    return "missing" if np.isnan(value) else f"{value:.4g}"


def _compared(upper: float, lower: float) -> str:
    """The two values; a feature can also count because it goes with others that differ."""
    if upper == lower or (np.isnan(upper) and np.isnan(lower)):
        return f"{_number(upper)} in both"
    return f"{_number(upper)} against {_number(lower)}"
