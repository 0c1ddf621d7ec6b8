"""A list-aware net: each document is scored in the light of the others of its query, by self-attention.

    h = W x + b;  per layer: h += attention(norm(h)), h += V relu(U norm(h));  score = w . norm(h) + b

Attention has no positions, so the scores do not depend on the order of the documents. Here is the layout of the weights
and the net in NumPy, which is all that scoring needs; `attention_network.py` has it in JAX.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from podium.learners.net.scoring import NORM_EPSILON, Inputs, Layout, Piece

_BLOCK_PLACES = 4096  # documents, filled-up places among them, that are scored at once
_SHORTEST = 8


@dataclass(frozen=True)
class AttentionShape(Layout):
    """All that the layout of the weights depends on; inside a layer, `width` is doubled."""

    n_inputs: int
    width: int
    n_layers: int
    n_heads: int

    def pieces(self) -> list[Piece]:
        width = self.width
        pieces = [Piece("input", (self.n_inputs, width), 1.0), Piece("input_bias", (width,))]
        for number in range(self.n_layers):
            for name, inputs, outputs, variance in (
                ("query_key_value", width, 3 * width, 1.0),  # queries, keys and values of all heads
                ("output", width, width, 1.0 / self.n_layers),
                ("feed_forward", width, 2 * width, 2.0),
                ("feed_forward_output", 2 * width, width, 1.0 / self.n_layers),
            ):
                if name in ("query_key_value", "feed_forward"):
                    norm = f"{number}.{name}_norm"
                    pieces += [Piece(f"{norm}.scale", (width,), value=1.0), Piece(f"{norm}.shift", (width,))]
                pieces += [Piece(f"{number}.{name}", (inputs, outputs), variance)]
                pieces += [Piece(f"{number}.{name}_bias", (outputs,))]
        pieces += [Piece("last_norm.scale", (width,), value=1.0), Piece("last_norm.shift", (width,))]
        return [*pieces, Piece("score", (width, 1), 1.0), Piece("score_bias", (1,))]


@dataclass(frozen=True, eq=False)
class AttentionFunction:
    """One or several nets of a shape, with the inputs they were trained on."""

    shape: AttentionShape
    inputs: Inputs
    weights: np.ndarray  # (nets, n_weights) float32

    def scores(self, X: np.ndarray, offsets: np.ndarray, n_jobs: int | None = None) -> np.ndarray:
        """One score per row of float32 rows that are grouped by query, float64; threads share the blocks."""
        from podium._runtime.threads import map_blocks, serial_blas  # a device has this module without the package

        scores, blocks = np.zeros(len(X)), list_blocks(np.diff(offsets))

        def work(block: int) -> None:
            queries, width = blocks[block]
            places = offsets[queries][:, None] + np.arange(width)
            mask = np.arange(width) < np.diff(offsets)[queries][:, None]
            rows = np.where(mask, places, 0)
            x = self.inputs.columns(X[rows.reshape(-1)]).reshape(*rows.shape, -1)
            with np.errstate(over="ignore", invalid="ignore"):  # see NetFunction
                block_scores = np.stack([self._lists(vector, x, mask)[mask] for vector in self.weights])
            scores[rows[mask]] = block_scores.mean(axis=0, dtype=np.float64)

        with serial_blas():
            map_blocks(work, len(blocks), n_jobs)
        return scores

    def _lists(self, vector: np.ndarray, x: np.ndarray, mask: np.ndarray) -> np.ndarray:
        """Scores (lists, length) of one net."""
        weights = dict(self.shape.views(vector))
        h = x @ weights["input"] + weights["input_bias"]
        for number in range(self.shape.n_layers):
            h = h + self._attention(weights, number, h, mask)
            name = f"{number}.feed_forward"
            z = _norm(h, weights, f"{name}_norm") @ weights[name] + weights[f"{name}_bias"]
            h = h + np.maximum(z, np.float32(0.0)) @ weights[f"{name}_output"] + weights[f"{name}_output_bias"]
        scores: np.ndarray = (_norm(h, weights, "last_norm") @ weights["score"])[..., 0] + weights["score_bias"]
        return scores

    def _attention(self, weights: dict[str, np.ndarray], number: int, h: np.ndarray, mask: np.ndarray) -> np.ndarray:
        (lists, length, width), name = h.shape, f"{number}.query_key_value"
        projected = _norm(h, weights, f"{name}_norm") @ weights[name] + weights[f"{name}_bias"]
        queries, keys, values = projected.reshape(lists, length, 3, self.shape.n_heads, -1).transpose(2, 0, 3, 1, 4)
        likeness = queries @ keys.transpose(0, 1, 3, 2) / np.float32(np.sqrt(width // self.shape.n_heads))
        likeness = np.where(mask[:, None, None, :], likeness, -np.inf)
        likeness -= likeness.max(axis=-1, keepdims=True)
        share = np.exp(likeness)
        share /= share.sum(axis=-1, keepdims=True)
        attended = (share @ values).transpose(0, 2, 1, 3).reshape(lists, length, width)
        output: np.ndarray = attended @ weights[f"{number}.output"] + weights[f"{number}.output_bias"]
        return output


def _norm(h: np.ndarray, weights: dict[str, np.ndarray], name: str) -> np.ndarray:
    h = h - h.mean(axis=-1, keepdims=True)
    h = h / np.sqrt(np.square(h).mean(axis=-1, keepdims=True) + np.float32(NORM_EPSILON))
    return np.asarray(h * weights[f"{name}.scale"] + weights[f"{name}.shift"])


def list_blocks(lengths: np.ndarray) -> list[tuple[np.ndarray, int]]:
    """Queries of similar length, and the length they are filled up to: so few at a time that they fit a cache."""
    widths = 2 ** np.ceil(np.log2(np.maximum(lengths, _SHORTEST))).astype(np.int64)
    blocks = []
    for width in np.unique(widths[lengths > 0]).tolist():
        members = np.flatnonzero((widths == width) & (lengths > 0))
        size = max(_BLOCK_PLACES // width, 1)
        blocks += [(members[start : start + size], width) for start in range(0, len(members), size)]
    return blocks
