"""Values of nets by the training data: what `"auto"` stands for.

Few queries are learned by heart within a few epochs: units that are dropped and a penalty on the weights keep a net
from it. With thousands of queries they only slow it down. Batches are small enough for the weights to be moved often.
"""

from __future__ import annotations

from math import inf
from typing import Any

from podium.models.frame.resolving import SizeTable, row_of, table_words

VALUES: SizeTable = {
    1500: {"dropout": 0.5, "weight_decay": 1e-2},
    inf: {"dropout": 0.1, "weight_decay": 1e-3},
}
BATCHES = 16  # per epoch, where the limits below allow it
SMALLEST_BATCH, LARGEST_BATCH = 32, 1024


def net_values_for(n_queries: int, n_rows: int) -> dict[str, Any]:
    """The values for training data of so many queries and rows."""
    rows = -(-n_rows // BATCHES)
    return {**row_of(VALUES, n_queries, n_rows), "batch_size": min(max(rows, SMALLEST_BATCH), LARGEST_BATCH)}


def value_words(name: str) -> str:
    """What `"auto"` is, in a sentence."""
    if name != "batch_size":
        return f"{table_words(VALUES, name)}."
    return f'"auto" is a sixteenth of the training rows, from {SMALLEST_BATCH} to {LARGEST_BATCH:,}.'
