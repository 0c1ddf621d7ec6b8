"""Measuring: NDCG@10 of what a system shows, by the judgements, under a policy that is named beside every number."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass

from podium._runtime.memo import Memo
from podium.evaluation.evaluating import evaluate_run
from podium.formats.trec import Qrels, Run
from podium.server.admission import Workers
from podium.server.errors import Refusal
from podium.server.page.judging import JudgedQuery
from podium.server.page.systems import System

METRIC, POLICY, CUTOFF = "ndcg@10", "standard", 10
MOST_QUERIES = 1_000  # that are searched
_SECONDS_PER_JOB, _SECONDS_PER_PAGE = 0.2, 1.2
_MOST_BYTES = 32_000_000


@dataclass(frozen=True)
class Measured:
    """A list and its judgements."""

    value: float
    n_judged: int  # among the first ten
    n_shown: int  # at most ten
    has_relevant: bool  # whether any judged document of the query has a label above 0
    has_ties: bool  # among the first ten: the policy takes the worst order of these


@dataclass(frozen=True, eq=False)
class MeasuredQuery:
    """A judged query in the table of the worst."""

    query: JudgedQuery
    measured: Measured | None  # None: not searched yet
    problem: str = ""  # why it cannot be searched


BestTen = tuple[tuple[str, float], ...]  # ids and scores, best first


def measure(best: Sequence[tuple[str, float]], query: JudgedQuery) -> Measured | None:
    """None where nothing is judged."""
    return measure_many([best], [query])[0]


def measure_many(lists: Sequence[Sequence[tuple[str, float]]], queries: Sequence[JudgedQuery]) -> list[Measured | None]:
    """One value per query, None where nothing is judged. Documents without a judgement count as label 0."""
    labels = {str(row): query.labels for row, query in enumerate(queries) if query.labels}
    run = {str(row): dict(best[:CUTOFF]) for row, best in enumerate(lists) if query_has(queries[row]) and best}
    values = dict.fromkeys(labels, 0.0)  # an empty list has no gain
    if run:
        evaluation = evaluate_run(Qrels.from_dict(labels), Run.from_dict(run), metrics=METRIC, policy=POLICY, n_jobs=1)
        values |= dict(zip(map(str, evaluation.queries), evaluation.per_query[METRIC].tolist()))
    return [
        _measured(values[str(row)], best, query) if query_has(query) else None
        for row, (best, query) in enumerate(zip(lists, queries))
    ]


def query_has(query: JudgedQuery) -> bool:
    return bool(query.ratings)


def _measured(value: float, best: Sequence[tuple[str, float]], query: JudgedQuery) -> Measured:
    shown = [document for document, _ in best[:CUTOFF]]
    has_relevant = any(label > 0 for label in query.labels.values())
    scores = {score for _, score in best[:CUTOFF]}
    n_judged = sum(document in query.labels for document in shown)
    return Measured(value, n_judged, len(shown), has_relevant, len(scores) < len(shown))


class Lists:
    """The ten best documents of judged queries by system, kept as long as the version is the same."""

    def __init__(self) -> None:
        self._memo: Memo[tuple[object, str], BestTen | str] = Memo(_MOST_BYTES)

    async def measured(
        self, system: System, queries: Sequence[JudgedQuery], workers: Workers, deadline: float
    ) -> list[MeasuredQuery]:
        """As many as can be searched in a second or so, in short jobs; the others when the page is asked for again."""
        loop = asyncio.get_running_loop()
        until = min(loop.time() + _SECONDS_PER_PAGE, deadline - _SECONDS_PER_JOB)
        while loop.time() < until and any(self._of(system, query) is None for query in queries):
            try:
                seconds = 2 * workers.inline_seconds  # never on the loop
                await workers.run(lambda: self._search_some(system, queries), seconds, deadline)
            except Refusal as refusal:
                if refusal.status not in (429, 503):
                    raise
                break  # others have more need of the machine
        work = 2 * workers.inline_seconds
        return await workers.run(lambda: self._table(system, queries), work, deadline)

    def _of(self, system: System, query: JudgedQuery) -> BestTen | str | None:
        return self._memo.values.get((system.key, query.text))

    def _search_some(self, system: System, queries: Sequence[JudgedQuery]) -> None:
        started = time.monotonic()
        for query in queries:
            if self._of(system, query) is not None:
                continue
            try:
                hits, _ = system.search(query.text, CUTOFF)
                best: BestTen | str = tuple(zip(hits.ids, hits.scores))
            except Refusal as refusal:
                best = str(refusal)
            size = len(query.text) + sum(100 + len(item[0]) for item in best)
            self._memo.keep((system.key, query.text), best, size)
            if time.monotonic() - started > _SECONDS_PER_JOB:
                return

    def _table(self, system: System, queries: Sequence[JudgedQuery]) -> list[MeasuredQuery]:
        """The worst first; queries that could not be searched, or not yet, last."""
        lists = [self._of(system, query) for query in queries]
        searched = [row for row, best in enumerate(lists) if isinstance(best, tuple)]
        values = measure_many([lists[row] for row in searched], [queries[row] for row in searched])  # type: ignore[misc]
        measured = dict(zip(searched, values))
        rows = [
            MeasuredQuery(query, measured.get(row), best if isinstance(best, str) else "")
            for row, (query, best) in enumerate(zip(queries, lists))
        ]
        return sorted(rows, key=lambda row: (row.measured is None, row.measured.value if row.measured else 0.0))


def warm() -> None:
    """Compile what a first value would wait for."""
    measure([("a", 1.0), ("b", 1.0)], JudgedQuery(1, "warm", {"a": {"x": 1.0}}))
