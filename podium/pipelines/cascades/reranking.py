"""Candidates of other engines: documents that are given by their ids, as a cascade sees them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from podium._runtime.warn import warn
from podium._runtime.words import counted
from podium.formats.trec import Run, refuse_other_than
from podium.pipelines.cascades.cascade import Ranked

if TYPE_CHECKING:
    from podium.pipelines.cascades.cascade import Cascade

_NAMED = 3  # documents in a warning


def ranked_candidates(cascade: Cascade, text: str, ids: Sequence[str]) -> Ranked:
    """The documents with these ids in the order of the first stage; unknown ones are left out, with a warning."""
    if isinstance(ids, str):
        raise TypeError(f"rerank needs several ids; got the text {ids!r}. Give a list: [{ids!r}].")
    numbers = [cascade.index.number(str(id)) for id in ids]
    unknown = [str(id) for id, number in zip(ids, numbers) if number is None]
    if len(set(map(str, ids))) < len(ids):
        twice = next(id for k, id in enumerate(ids) if str(id) in map(str, ids[:k]))
        raise ValueError(f"document {str(twice)!r} is given more than once; give each candidate once.")
    if unknown:
        warn(_of_unknown(unknown, len(numbers)))
    return _in_first_order(cascade, text, [number for number in numbers if number is not None])


def candidates_of_run(cascade: Cascade, queries: Mapping[str, str], run: Run, n: int) -> Callable[[str], Ranked]:
    """Gives the best n documents of a run for a query. Those that the index does not have are warned of, once."""
    refuse_other_than(Run, run, "candidates")
    best, numbers, unknown = run.ranked(n), {}, []
    ids = list(best.docid_texts)
    for q, query in enumerate(map(str, best.query_ids)):
        if query in queries:
            names = ids[best.offsets[q] : best.offsets[q + 1]]
            known = [(name, cascade.index.number(name)) for name in names]
            numbers[query] = [number for _, number in known if number is not None]
            unknown += [name for name, number in known if number is None]
    if not numbers:
        some = ", ".join(map(repr, [*map(str, run.query_ids)][:_NAMED]))
        raise ValueError(f"no query is in the run, which has {some or 'none'}. Do both files use the same query ids?")
    if unknown:
        warn(_of_unknown(list(dict.fromkeys(unknown)), None))
    return lambda query: _in_first_order(cascade, queries[query], numbers.get(query, []))


def first_scores(cascade: Cascade, text: str, documents: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """Where the first stage has documents, from 0, and its scores.

    Those that it does not find follow behind all others, with the score of a document without any term of the query: 0,
    or the lowest one if that is below.
    """
    every = cascade.index.search(
        text, max(1, cascade.index.n_slots), weighting=cascade.weighting, fields=cascade.fields
    )
    rank_of = {document: number for number, document in enumerate(every.documents.tolist())}
    scores, lowest = every.scores, min([0.0, *every.scores])
    places = np.array([rank_of.get(document, len(scores)) for document in documents], np.int64)
    missing = np.flatnonzero(places == len(scores))
    places[missing] += np.arange(len(missing))
    values = [scores[where] if where < len(scores) else lowest for where in places.tolist()]
    return places, np.array(values, np.float64)


def _in_first_order(cascade: Cascade, text: str, documents: list[int]) -> Ranked:
    places, scores = first_scores(cascade, text, documents)
    order = np.argsort(places)
    return Ranked(np.array(documents, np.int64)[order], scores[order], places[order], scores[order])


def _of_unknown(ids: list[str], of: int | None) -> str:
    named = ", ".join(map(repr, ids[:_NAMED])) + (", ..." if len(ids) > _NAMED else "")
    share = "" if of is None else f" of {of:,}"
    advice = "Were the candidates made from the same collection?"
    return f"{counted(len(ids), 'candidate')}{share} not in the index ({named}); left out. {advice}"
