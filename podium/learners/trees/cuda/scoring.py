"""Scoring on a GPU, with the bits of the CPU: rows go there block by block, and their scores come back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from podium.data.sparse import FeatureMatrix
from podium.learners.trees.cuda.device import Gpu
from podium.learners.trees.scoring.forest import Forest

_ARRAYS = {
    "roots": "const long long*",
    "feature": "const unsigned int*",
    "threshold": "const float*",
    "left": "const unsigned int*",
    "missing_right": "const unsigned char*",
    "value": "const double*",
}
_OTHERS = {
    "rows": "const float*",
    "scores": "double*",
    "n_rows": "long long",
    "width": "long long",
    "n_trees": "long long",
}
_BLOCK_BYTES = 2**28  # of rows that go to the GPU at a time
_THREADS = 128


def forest_scores(forest: Forest, X: FeatureMatrix, n_trees: int | None = None, device: Any = None) -> np.ndarray:
    """`forest.scores`, on a GPU or what stands in for it."""
    on = device or Gpu()
    trees = forest.n_trees if n_trees is None else min(n_trees, forest.n_trees)
    scores = np.full(X.shape[0], forest.start)
    if trees == 0:
        return scores
    narrow, blocks = forest.dense_blocks(X, max(1, _BLOCK_BYTES // (4 * max(forest.width, 1))))
    arrays = {name: on.upload(getattr(narrow, name)) for name in _ARRAYS}
    fields = " ".join(f"{kind} {name};" for name, kind in (_ARRAYS | _OTHERS).items())
    text = (Path(__file__).parent / "kernels" / "walk.cu").read_text(encoding="utf-8")
    kernels = on.kernels(f"struct Walk {{ {fields} }};\n{text}", False)
    for block in range(blocks.number):
        part, rows = blocks.take(block)
        wide = np.ascontiguousarray(narrow.sets.widen(rows))
        memory = on.upload(wide), on.upload(scores[part])
        sizes = *wide.shape, trees
        words = [on.address(array) for array in (*arrays.values(), *memory)] + list(sizes)
        arguments = on.upload(np.array(words, np.uint64))
        kernels.launch("add_trees", min(-(-len(wide) // _THREADS), 64 * on.n_blocks), _THREADS, (arguments,))
        scores[part] = on.download(memory[1])
    return scores
