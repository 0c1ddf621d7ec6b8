"""What a notebook shows of ranking data: sizes, labels, and the first rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from podium._runtime.markup import notebook_table
from podium.data.sparse import as_dense, is_sparse

if TYPE_CHECKING:
    from podium.data.ranking import RankingData

_ROWS, _FEATURES, _LABELS = 5, 8, 12


def show_data(data: RankingData) -> str:
    """HTML of a few lines, however large the data are: only the first rows are read."""
    return f"{notebook_table(f'RankingData: {data.sizes}', (), _facts(data))}{_first_rows(data)}"


def _facts(data: RankingData) -> list[list[str]]:
    lengths = data.group
    facts = (
        [["rows per query", f"{lengths.min():,} to {lengths.max():,}, mean {lengths.mean():.1f}"]] if len(data) else []
    )
    facts.append(["labels", "none" if data.y is None else _labels(data.y)])
    facts.append(["features", "sparse, float32" if is_sparse(data.X) else "float32"])
    if data.categories:
        facts.append(["categories", ", ".join(f"{name} ({len(known)})" for name, known in data.categories.items())])
    present = {"row weights": data.sample_weight, "query weights": data.query_weight, "document ids": data.docid_texts}
    facts += [[name, "yes"] for name, values in present.items() if values is not None]
    return facts


def _labels(y: np.ndarray) -> str:
    """Each label with its share of the rows; of many, the range."""
    labels, counts = np.unique(y, return_counts=True)
    if len(labels) > _LABELS:
        return f"{len(labels):,} values from {labels[0]:g} to {labels[-1]:g}"
    return ", ".join(f"{label:g}: {count / len(y):.1%}" for label, count in zip(labels, counts))


def _first_rows(data: RankingData) -> str:
    names = data.feature_names or tuple(str(number) for number in range(1, data.n_features + 1))
    count = min(_ROWS, data.n_rows)
    rows, shown = as_dense(data.X[:count]), names[:_FEATURES]
    table = []
    for row in range(count):
        label = [] if data.y is None else [f"{data.y[row]:g}"]
        values = [f"{value:.6g}" for value in rows[row, :_FEATURES].tolist()]
        table.append([str(data.qid[row]), *label, *values, *(["..."] if len(names) > _FEATURES else [])])
    heading = ["qid", *([] if data.y is None else ["label"]), *shown]
    heading += [f"{len(names) - _FEATURES:,} more"] if len(names) > _FEATURES else []
    return notebook_table(f"The first {count} of {data.n_rows:,} rows", heading, table)
