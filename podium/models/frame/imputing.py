"""Imputation: missing values filled with a number, for models that do not learn from what is missing.

Columns are filled as the learner would see them, so behind a transform: a missing value counts in no mean or rank of
its query, and is then filled with the mean of the column over the training rows, or with 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np

from podium.data.ranking import RankingData
from podium.data.sparse import FeatureMatrix
from podium.data.standardising import Standardisation
from podium.models.frame.parameters import NAME, parameter, parametrized, value_of
from podium.models.frame.transforms import TransformedData, source_of

IMPUTATIONS = ("mean", "zero")
IMPUTATION_ARRAYS = ("values", "flagged")
_BLOCK_ROWS = 8192


@parametrized
class ImputeParameters:
    """What becomes of missing values."""

    impute: str | None = parameter(
        None,
        'What missing values (NaN) are filled with, behind the transform if there is one: the "mean" of the column '
        'over the training rows, or "zero". None: rows with missing values are refused; nets fill with the mean, and '
        "have a further input per column with missing values in training, which is 1 where it is missing.",
        kind=NAME,
        choices=IMPUTATIONS,
    )
    missing_indicator: bool = parameter(
        False,
        "With impute: one more column per column that has missing values in training, 1 where it is missing and else "
        "0.",
    )

    def check_parameters(self) -> None:
        super().check_parameters()  # type: ignore[misc]
        if self.missing_indicator and self.impute is None:
            problem = "missing_indicator=True needs impute, which says what missing values are filled with; got None"
            raise ValueError(f'{type(self).__name__}: {problem}. Set impute="mean" or "zero".')


@dataclass(frozen=True, eq=False)
class Imputation:
    """What is filled in, one number per column, and which columns have one more that says where they were missing."""

    values: np.ndarray  # (columns,) float32
    flagged: np.ndarray  # (k,) int64, rising

    @classmethod
    def fit(cls, model: Any, X: np.ndarray, weights: np.ndarray | None) -> Self | None:
        """By the parameters of the model, on training rows as its transform made them; None if it fills nothing."""
        kind = value_of(model, "impute")
        if kind is None:
            return None
        values = Standardisation.fit(X, weights).centre if kind == "mean" else np.zeros(X.shape[1])
        flagged = np.flatnonzero(_missing_in(X if weights is None else X[weights > 0]))
        return cls(values.astype(np.float32), flagged if model.missing_indicator else flagged[:0])

    @property
    def n_columns(self) -> int:
        return len(self.values) + len(self.flagged)

    def names(self, columns: Sequence[str]) -> Sequence[str]:
        """`bm25`, ..., `missing(bm25)`, ...: one per column."""
        flags = [f"missing({columns[column]})" for column in self.flagged]
        return [*columns, *flags] if flags else columns

    def apply(self, X: FeatureMatrix) -> np.ndarray:
        """Rows of columns, filled; the same array where nothing is to be done."""
        rows: np.ndarray = np.asarray(X)
        if not len(self.flagged) and not _missing_in(rows).any():
            return rows
        filled, width = np.empty((len(rows), self.n_columns), np.float32), len(self.values)
        for start in range(0, len(rows), _BLOCK_ROWS):
            part = rows[start : start + _BLOCK_ROWS]
            missing = np.isnan(part)
            filled[start : start + len(part), :width] = np.where(missing, self.values, part)
            filled[start : start + len(part), width:] = missing[:, self.flagged]
        return filled

    def apply_to(self, data: RankingData, names: Sequence[str]) -> TransformedData:
        """Ranking data with filled columns, which are called `names`."""
        known = {field.name: getattr(data, field.name) for field in fields(RankingData)}
        made = {"X": self.apply(data.X), "feature_names": tuple(names)}
        return TransformedData(**known | made, source=source_of(data))

    def arrays(self) -> dict[str, np.ndarray]:
        """For a model file."""
        return {name: getattr(self, name) for name in IMPUTATION_ARRAYS}

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, np.ndarray], width: int) -> Self:
        """What `arrays` returned, checked; `width` columns are filled."""
        values, flagged = (arrays[name] for name in IMPUTATION_ARRAYS)
        if values.dtype != np.float32 or values.shape != (width,) or not np.isfinite(values).all():
            raise ValueError(f"impute/values must have {width} finite float32 numbers")
        if flagged.dtype != np.int64 or flagged.ndim != 1 or (np.diff(flagged) <= 0).any():
            raise ValueError("impute/flagged must be rising numbers of columns")
        if len(flagged) and not 0 <= flagged[0] <= flagged[-1] < width:
            raise ValueError("impute/flagged names a column that is not there")
        return cls(values, flagged)


def _missing_in(X: np.ndarray) -> np.ndarray:
    """(columns,) bool: whether a value is missing."""
    missing = np.zeros(X.shape[1], np.bool_)
    for start in range(0, len(X), _BLOCK_ROWS):
        missing |= np.isnan(X[start : start + _BLOCK_ROWS]).any(axis=0)
    return missing
