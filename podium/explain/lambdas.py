"""Lambdas: what the pairs of one query do to its documents in one step of RankNet, LambdaRank or LambdaMART.

With `o = s_i - s_j`, document i of a pair is raised by lambda and document j lowered by as much, where

    lambda = sigma |dZ| rho,    rho = 1 / (1 + exp(sigma o))

and |dZ| is how much the metric changes if the two swap ranks (RankNet: 1). The lambdas of a document add up to minus
its gradient, so the numbers are those that training has: the pairs come from the bound objective.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from podium._runtime.markup import notebook_table
from podium._runtime.words import counted
from podium.explain.drawable import Drawable
from podium.metrics.base import Metric
from podium.objectives import OBJECTIVES, Objective, parse_objective
from podium.objectives.base import PairTable
from podium.objectives.lambdas import Lambda
from podium.objectives.pair_losses import LOGISTIC
from podium.objectives.pairwise import PairwiseObjective

if TYPE_CHECKING:
    from rich.table import Table

LONGEST = 2_000  # documents: two million pairs
_PRINTED = 20  # pairs with the largest lambdas


@dataclass(frozen=True, eq=False)
class Lambdas(Drawable):
    """The pairs of one query. Print it, or take `pairs`, `lambdas`, `to_frame()`, `plot()` or `as_dict()`."""

    drawing: ClassVar[str] = "draw_lambdas"

    objective: Objective
    documents: tuple[str, ...]
    labels: np.ndarray
    scores: np.ndarray
    ranks: np.ndarray  # (documents,) from 1, by falling score; equal scores in the order of the documents
    pairs: PairTable

    @property
    def lambdas(self) -> np.ndarray:
        """(documents,) the sum of each document: minus its gradient, upwards if positive."""
        each = self.pairs.lambdas
        return np.asarray(self._summed(self.pairs.upper, each) - self._summed(self.pairs.lower, each))

    @property
    def hessians(self) -> np.ndarray:
        """(documents,) the second derivatives; a tree's leaf is the sum of its lambdas over that of these."""
        each = self.pairs.hessian
        return np.asarray(self._summed(self.pairs.upper, each) + self._summed(self.pairs.lower, each))

    def _summed(self, rows: np.ndarray, each: np.ndarray) -> np.ndarray:
        return np.asarray(np.bincount(rows, each, len(self.documents)))

    @property
    def caption(self) -> str:
        """`lambda, ndcg@10 (policy standard): 4 documents, 5 pairs`"""
        metric = ""
        if isinstance(self.objective, Lambda):
            metric = f", {self.objective.target.name} (policy {self.objective.target.policy.name})"
        sizes = f"{counted(len(self.documents), 'document')}, {counted(len(self.pairs.upper), 'pair')}"
        return f"{self.objective.name}{metric}: {sizes}"

    @property
    def formula(self) -> str:
        """What is in the columns, with the names of the columns."""
        slope = "rho = 1 / (1 + exp(sigma o))" if self._slope_is_rho else "slope = -dC/do"
        slope = slope.replace("sigma ", "" if self._sigma == 1 else f"{self._sigma:g} ")
        parts = [*(["factor"] if self._has_factors else []), *(["|dZ|"] if self._has_metric else []), self._slope]
        product = " ".join(parts)
        return f"o = s_i - s_j, {slope}{'' if product == 'rho' else f', lambda = {product}'}; i is raised, j lowered"

    def to_frame(self, *, documents: bool = False, backend: str = "pandas") -> Any:
        """A table: one row per pair or, with `documents`, one per document; "pandas", "polars" or "pyarrow"."""
        from podium.formats.frames import make_frame

        columns = self._document_columns() if documents else self._pair_columns()
        return make_frame({name: _listed(column) for name, column in columns.items()}, backend)

    def as_dict(self) -> dict[str, Any]:
        """Plain values, unrounded, for `json.dumps`."""
        pairs, documents = (
            [dict(zip(columns, row)) for row in zip(*(_listed(column) for column in columns.values()))]
            for columns in (self._pair_columns(), self._document_columns())
        )
        return {"caption": self.caption, "formula": self.formula, "pairs": pairs, "documents": documents}

    def table(self) -> Table:
        """The pairs as a table for rich, those with the largest lambdas if there are many."""
        return _rich_table(*self._pair_cells())

    def documents_table(self) -> Table:
        """The documents as a table for rich, by rank."""
        return _rich_table(*self._document_cells())

    def sentences(self) -> list[str]:
        """The lines that are printed."""
        tables = [*_aligned(*self._pair_cells()), "", *_aligned(*self._document_cells())]
        return [self.caption, self.formula, "", *tables]

    def __str__(self) -> str:
        return "\n".join(self.sentences())

    def __repr__(self) -> str:
        return f"Lambdas({self.caption})"

    def _repr_html_(self) -> str:
        """For notebooks: both tables."""
        pairs = notebook_table(f"{self.caption}; {self.formula}", *self._pair_cells())
        return pairs + notebook_table("Sums per document", *self._document_cells())

    def _pair_columns(self) -> dict[str, Any]:
        pairs, names = self.pairs, np.array(self.documents, dtype=object)
        return {
            "i": names[pairs.upper],
            "j": names[pairs.lower],
            "o": self.scores[pairs.upper] - self.scores[pairs.lower],
            self._slope: pairs.slope,
            "delta": pairs.delta,
            "factor": pairs.factor,
            "lambda": pairs.lambdas,
            "hessian": pairs.hessian,
        }

    def _document_columns(self) -> dict[str, Any]:
        order = np.argsort(self.ranks)
        columns = {
            "rank": self.ranks,
            "document": np.array(self.documents, dtype=object),
            "label": self.labels,
            "score": self.scores,
            "lambda": self.lambdas,
            "hessian": self.hessians,
        }
        return {name: column[order] for name, column in columns.items()}

    def _pair_cells(self) -> tuple[list[str], list[list[str]]]:
        strength = np.abs(self.pairs.lambdas)
        shown = np.arange(len(strength))
        if len(shown) > _PRINTED:
            shown = np.argsort(-strength, kind="stable")[:_PRINTED]
        columns = {name: column[shown] for name, column in self._pair_columns().items() if name != "hessian"}
        dropped = [] if self._has_factors else ["factor"]
        dropped += [] if self._has_metric else ["delta"]
        heading, cells = _cells({name: column for name, column in columns.items() if name not in dropped})
        if left := len(strength) - len(shown):
            cells.append([f"and {counted(left, 'more pair')}", *[""] * (len(heading) - 1)])
        return ["|dZ|" if name == "delta" else name for name in heading], cells

    def _document_cells(self) -> tuple[list[str], list[list[str]]]:
        columns = self._document_columns()
        heading, cells = _cells({name: column[:_PRINTED] for name, column in columns.items()})
        if left := len(self.documents) - len(cells):
            cells.append(["...", counted(left, "more document"), *[""] * (len(heading) - 2)])
        return heading, cells

    @property
    def _sigma(self) -> float:
        return float(getattr(self.objective, "sigma", 1.0))

    @property
    def _slope_is_rho(self) -> bool:
        return isinstance(self.objective, Lambda) or (
            isinstance(self.objective, PairwiseObjective)
            and self.objective.pair_loss == LOGISTIC
            and not self.objective.even_pairs
        )

    @property
    def _slope(self) -> str:
        return "rho" if self._slope_is_rho else "slope"

    @property
    def _has_metric(self) -> bool:
        return isinstance(self.objective, Lambda)

    @property
    def _has_factors(self) -> bool:
        return bool((self.pairs.factor != 1.0).any())


def lambdas(
    scores: Any,
    labels: Any,
    objective: str | Objective = "lambda",
    metric: str | Metric | None = None,
    *,
    documents: Sequence[Any] | None = None,
    **settings: Any,
) -> Lambdas:
    """The pairs of one query at these scores: rho, |dZ| and lambda of each, and their sums per document.

    objective: `"lambda"` (LambdaRank, LambdaMART), or a pairwise one such as `"ranknet"` or `"hinge"`, or a value.
    metric: what |dZ| is of, for `"lambda"`; None: that of the objective, by default ndcg@10. `documents` are names,
    by default d1, d2, ...; `settings` are those of the objective, such as `sigma=2.0`, `policy="letor4"` or
    `normalize="lightgbm"`.
    """
    if metric is not None:
        settings["metric"] = metric
    chosen = parse_objective(objective, **settings)
    numbers = [np.asarray(values, dtype=np.float64) for values in (scores, labels)]
    for name, values in zip(("scores", "labels"), numbers):
        if values.ndim != 1 or len(values) != len(numbers[0]):
            shapes = f"scores {numbers[0].shape}, labels {numbers[1].shape}"
            raise ValueError(f"{name} must be a list with one number per document of one query; got {shapes}.")
    n = len(numbers[0])
    if n > LONGEST:
        raise ValueError(f"A table of the pairs of {n:,} documents is too long to read; give {LONGEST:,} at most.")
    bound = chosen.bind(numbers[1], [0, n], n_jobs=1)
    pairs = bound.pair_table(numbers[0], 0)
    if pairs is None:
        raise ValueError(_no_pairs(chosen))
    return Lambdas(chosen, _names(documents, n), numbers[1], numbers[0], _ranks(numbers[0]), pairs)


def _no_pairs(objective: Objective) -> str:
    known = [
        name
        for name in OBJECTIVES
        if isinstance(OBJECTIVES[name], type) and issubclass(OBJECTIVES[name], (Lambda, PairwiseObjective))
    ]
    return (
        f"The gradients of objective {objective.name!r} are no sums over pairs of documents, so it has no lambdas. "
        f"Give one of {', '.join(known)}."
    )


def _names(documents: Sequence[Any] | None, n: int) -> tuple[str, ...]:
    if documents is None:
        return tuple(f"d{number}" for number in range(1, n + 1))
    if isinstance(documents, str) or len(documents) != n:
        raise ValueError(f"documents must be one name per score, {n}; got {documents!r}.")
    return tuple(map(str, documents))


def _ranks(scores: np.ndarray) -> np.ndarray:
    ranks = np.empty(len(scores), dtype=np.int64)
    ranks[np.argsort(-scores, kind="stable")] = np.arange(1, len(scores) + 1)
    return ranks


def _listed(column: Any) -> list[Any]:
    return [value.item() if isinstance(value, np.generic) else value for value in column]


def _cells(columns: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    """A heading, and one list of texts per row."""
    texts = [[_cell(name, value) for value in column] for name, column in columns.items()]
    return list(columns), [list(row) for row in zip(*texts)]


def _cell(name: str, value: Any) -> str:
    if isinstance(value, str):
        return value
    if name in ("rank", "label"):
        return f"{value:g}"
    return f"{value:+z.4f}" if name in ("o", "lambda") else f"{value:.4f}" if name != "score" else f"{value:.4g}"


def _aligned(heading: Sequence[str], cells: Sequence[Sequence[str]]) -> list[str]:
    """Columns of text: names on the left, numbers on the right."""
    rows = [list(heading), *map(list, cells)]
    widths = [max(len(row[column]) for row in rows if row[-1]) for column in range(len(heading))]
    left = [name in ("i", "j", "document") for name in heading]
    return [
        "  ".join(
            text.ljust(width) if is_left else text.rjust(width) for text, width, is_left in zip(row, widths, left)
        ).rstrip()
        for row in rows
    ]


def _rich_table(heading: Sequence[str], cells: Sequence[Sequence[str]]) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table()
    for name in heading:
        table.add_column(name, justify="left" if name in ("i", "j", "document") else "right")
    for row in cells:
        table.add_row(*map(Text, row))
    return table
