"""Support: what ranks with some of the rows can do together with the bytes of one process, and which rows count."""

from __future__ import annotations

import numpy as np

from podium._runtime.compiler import Array
from podium.data.sharding.shard import Shard
from podium.data.sparse import FeatureMatrix, is_sparse
from podium.learners.protocol import Target


def counted_rows(weights: Array | None, shard: Shard) -> tuple[Array | None, bool]:
    """A mask of the rows whose weight is not 0, None if that is all or none; and whether rows have weights at all."""
    if weights is None:
        return None, False
    some, none = shard.any(np.array([weights.any(), not weights.all()])).tolist()
    return weights > 0 if some and none else None, some


def refuse_on_shards(X: FeatureMatrix, shard: Shard, target: Target, searches_lines: bool) -> None:
    """Rows that do not go together, and what several ranks cannot do together with the bytes of one."""
    if shard.is_whole:
        return
    if X.shape[0] != len(shard.rows):
        raise ValueError(f"the shard has {len(shard.rows):,} rows of this rank; X has {X.shape[0]:,}.")
    kinds = shard.collective.gather(np.array([X.shape[1], is_sparse(X)], np.int64))
    described = [f"{columns} {('dense', 'sparse')[kind]} columns" for columns, kind in kinds]
    if len(set(described)) > 1:
        raise ValueError(f"the features of all workers must have one form; theirs are {', '.join(described)}.")
    if searches_lines:
        problem = "step='line_search' orders the documents of all queries along the tree"
        raise ValueError(f"{problem}, which workers with some of the queries cannot do. Choose another step.")
    if not target.adds_up:
        problem = "a function as the objective may look at all queries at once"
        raise ValueError(f"{problem}, and workers have some of them. Use an objective by its name, or a subclass.")
