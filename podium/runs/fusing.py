"""Fusion: one run of several, by the ranks or the scores that they give to the documents of each query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from podium._runtime.compiler import Array
from podium.data.query_ids import offsets_of
from podium.formats.trec import Run
from podium.runs.joining import JoinedRuns, as_weights_of_runs, join_runs, named_runs, take_texts
from podium.runs.methods import Method, parse_method, points_of
from podium.runs.ordering import best_first
from podium.runs.points import PointsOfRuns
from podium.runs.sums import adds_up, sum_runs

_LARGEST = 1e150  # of a score: its square is finite


def fuse(
    runs: Sequence[Run] | Mapping[str, Run],
    *,
    method: str | Method = "rrf",
    normalization: str | None = None,
    weights: Any = None,
    depth: int | None = None,
    top: int | None = None,
    n_jobs: int | None = None,
) -> Run:
    """Fuse runs into one, best first.

    `method` is reciprocal rank by default: "rrf", "rrf(k=10)", "combsum", "combmnz", "borda", "isr" and others of
    `podium.runs.METHODS`. Methods that use scores normalize them per query, by default "min-max". `weights` has one
    number per run; `podium.runs.tune_fusion` chooses them. `depth` reads the best documents per query of each run only,
    `top` keeps the best of the result. Ranks, and equal fused scores, are by document id, descending, where scores are
    equal. The result has the queries of all runs, in order of first appearance.
    """
    named = named_runs(runs, "fuse")
    chosen = parse_method(method)
    points = points_of(chosen, normalization)
    numbers = None
    if weights is not None:
        refuse_unweighted(chosen)
        numbers = as_weights_of_runs(weights, list(named))
    check_count("top", top)
    joined = join_runs(cut(named, depth), n_jobs)
    if chosen.uses_scores and max(joined.scores.max(initial=0.0), -joined.scores.min(initial=0.0)) > _LARGEST:
        _refuse_overflow(joined, joined.document_of_row[np.abs(joined.scores) > _LARGEST])
    if adds_up(chosen, points):
        weighted = np.ones(joined.n_runs) if numbers is None else numbers
        result = sum_runs(joined, chosen, points, weighted, top, n_jobs)
        if result is not None:
            return result
    scores = PointsOfRuns(joined, chosen, points).fused(numbers, n_jobs)
    _refuse_overflow(joined, np.flatnonzero(~np.isfinite(scores)))
    return as_run(joined, scores, top, n_jobs)


def refuse_unweighted(method: Method) -> None:
    if not method.takes_weights:
        raise ValueError(f"method {method.name} takes no weights. Leave them out, or use combsum or another sum.")


def cut(runs: dict[str, Run], depth: int | None) -> dict[str, Run]:
    """The best `depth` documents per query of each run; all by default."""
    check_count("depth", depth)
    return runs if depth is None else {name: run.ranked(depth) for name, run in runs.items()}


def check_count(name: str, value: Any) -> None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1):
        raise ValueError(f"{name} must be an integer from 1, documents per query; got {value!r}.")


def _refuse_overflow(joined: JoinedRuns, too_large: Array) -> None:
    """Documents, by their numbers over all queries."""
    if not len(too_large):
        return
    document = int(too_large[0])
    query = joined.query_ids[int(np.searchsorted(joined.offsets, document, side="right")) - 1]
    where = f"document {joined.ids[int(joined.first_rows[document])]!r} of query {query!r}"
    raise ValueError(f"{where} has scores that are too large to add up. Use a method of ranks, such as rrf.")


def as_run(joined: JoinedRuns, scores: Array, top: int | None = None, n_jobs: int | None = None) -> Run:
    """The documents of all runs with these scores, best first, or the best `top` per query."""
    order, offsets = best_first(scores, joined.offsets, joined.ids, joined.first_rows, n_jobs), joined.offsets
    if top is not None:
        lengths = np.minimum(np.diff(offsets), top)
        ends = offsets_of(lengths)
        order, offsets = order[np.repeat(offsets[:-1] - ends[:-1], lengths) + np.arange(ends[-1])], ends
    texts = take_texts(joined.ids, joined.first_rows[order], n_jobs)
    return Run(joined.query_ids, offsets, texts, scores[order])
