"""Weightings that are Python functions of arrays: a user's module registers them.

The function is called once per term and part of the index, when the term is first searched for; its scores become
impacts, so that the same top-k search finds the k best.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, make_dataclass
from typing import Any, ClassVar

import numpy as np

from podium._runtime.compiler import Array
from podium._runtime.registry import keyword_parameters
from podium.search.retrieval.topk import UNITS
from podium.search.retrieval.weightings import LARGEST_SCORE, WEIGHTINGS, Statistics, Weighting


@dataclass(frozen=True)
class FunctionWeighting(Weighting):
    """x is the length of the document."""

    code: ClassVar[int] = -1  # no kernel has the formula
    uses_average: ClassVar[bool] = True
    function: ClassVar[Callable[..., Any]]

    def per_document(self, lengths: np.ndarray, uniques: np.ndarray, average: float) -> np.ndarray:
        return lengths.astype(np.float64)

    def scores(self, term: Statistics, tfs: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """What the function returns, checked."""
        settings = {attribute: getattr(self, attribute) for attribute in self.parameters().values()}
        frequencies = tfs.astype(np.float64)
        result = self.function(frequencies, lengths, term.df, term.n_documents, term.average_length, **settings)
        values, what = np.asarray(result, np.float64), f"weighting {self.name!r}: expected"
        if values.shape != tfs.shape:
            raise ValueError(f"{what} one score per posting, shape {tfs.shape}; got {values.shape}.")
        bad = values[~((values >= 0.0) & (values < self.largest))]
        if len(bad):
            message = f"{what} scores of a term from 0 to below {self.largest:g}; got {bad[0]:g}"
            raise ValueError(f"{message}. Shift negative ones; register it with a larger `largest` for larger ones.")
        return values

    def fill_impacts(
        self, term: Statistics, weight: float, docs: Array, tfs: Array, x: Array, deleted: Array, impacts: Array
    ) -> None:
        values = self.scores(term, tfs, x[docs])
        impacts[:] = np.maximum(1.0, np.rint(values * weight * UNITS))
        if len(deleted):
            impacts[deleted[docs]] = 0


def register_weighting(
    name: str, function: Callable[..., Any], *, formula: str, largest: float = LARGEST_SCORE
) -> None:
    """Make a Python function a weighting, by name: `index.search(text, weighting=name)`, `--weighting`, feature kinds.

    `function(tf, lengths, df, n_documents, average_length, *, parameter=default, ...)` returns what one term adds to
    each document that has it; `tf` and `lengths` are float64 arrays with one number per posting, the others are
    numbers of the term and the field. Scores are from 0 to below `largest`, and are kept in steps of its 2**-32nd part.
    `formula` is how it is printed.
    """
    known = WEIGHTINGS.get(name)
    if known is not None and getattr(known, "function", None) is function:
        return
    if name != name.lower():
        raise ValueError(f"weighting {name!r}: names are written in lower case.")
    parameters = keyword_parameters(function)
    for key, default in parameters.items():
        if isinstance(default, bool) or not isinstance(default, (int, float)):
            raise ValueError(f"weighting {name!r}: parameter {key} needs a number as its default; got {default!r}.")
    row = make_dataclass(
        "FunctionWeighting",
        [(key, float, default) for key, default in parameters.items()],
        bases=(FunctionWeighting,),
        frozen=True,
        namespace={"name": name, "formula": formula, "largest": largest, "function": staticmethod(function)},
    )
    WEIGHTINGS.register(name, row)
