"""The service without HTTP: a request in, an answer out.

Every answer carries the id of the request, the digest of the model and the generation of the index that made it, and
the microseconds of each stage. The rows that are scored are those that are logged; no feature is computed twice.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from podium._runtime.machine import usable_cores
from podium.metrics.lists import order_by_score
from podium.pipelines.cascades.cascade import Cascade, Scored, Trace
from podium.search.reading import Hits
from podium.server.admission import Workers
from podium.server.errors import Refusal, wrong
from podium.server.http.bodies import RankRequest, read_request
from podium.server.log import Log
from podium.server.measures import Measures
from podium.server.settings import LIVE, Settings
from podium.server.versions.registry import Registry, Served
from podium.server.versions.trial import try_version
from podium.server.versions.version import Version
from podium.server.versions.warmup import Warmup

Result = TypeVar("Result")
logger = logging.getLogger("podium.serve")
_INLINE_SECONDS = 0.002
_SECONDS_PER_BYTE = 7e-9  # of a JSON body
_MOST_UNLOGGED = 1_000  # answers that may wait for the disk before the next ones are left out of the log


@dataclass(frozen=True, eq=False)
class Ranking:
    """The answer to a request to rank documents."""

    request: str
    version: Version
    role: str
    asked: RankRequest
    scores: np.ndarray  # float64, in the order of the request
    order: np.ndarray  # positions in the request, best first
    microseconds: dict[str, float]


@dataclass(frozen=True, eq=False)
class Found:
    """The answer to a search."""

    request: str
    name: str
    version: Version
    role: str
    hits: Hits
    scored: Scored | None  # by the last model of a cascade
    microseconds: dict[str, float]


class Service:
    """Everything that is served, and who does the work."""

    def __init__(self, settings: Settings) -> None:
        self.settings, self.limits = settings, settings.limits
        self.registry = Registry(settings)
        self.measures = Measures()
        threads = settings.threads or usable_cores()
        self.workers = Workers(threads, self.limits.waiting, _INLINE_SECONDS)
        self.log = None if settings.log is None else Log(settings.log, self.limits.log_bytes)
        self.warmup = Warmup(settings.warmup, self.registry, self.limits.rows)
        self.is_draining = False
        self._start, self._numbers = secrets.token_hex(4), itertools.count(1)
        self._beside: set[asyncio.Task[None]] = set()  # shadows at work

    def request_id(self) -> str:
        """Unique in all services at any time, and cheap."""
        return f"{self._start}-{next(self._numbers):x}"

    def close(self) -> None:
        """Put what is logged on the disk."""
        self.workers.close()
        if self.log is not None:
            self.log.close()

    # --- documents that the caller has

    async def rank(
        self, name: str, kind: str, body: bytes, request: str, arrived: float, deadline: float, user: str | None
    ) -> Ranking:
        """Score the documents of one query. `arrived` and `deadline` are times of the loop."""
        served = self.registry.get(name)
        if served.live.model is None:
            raise wrong("model", "a model, or a cascade that has one", f"{name}, an {served.live.kind}")
        is_json = kind.endswith("json")
        n_rows = body.count(b"[") if is_json else len(body) // (4 * served.live.n_features) + 1
        seconds = n_rows * served.live.seconds_per_row + (len(body) * _SECONDS_PER_BYTE if is_json else 0.0)
        loop = asyncio.get_running_loop()

        def work() -> Ranking:
            started = time.perf_counter()
            waited = loop.time() - arrived
            asked = read_request(kind, body, served.live, self.limits.rows)
            read = time.perf_counter()
            by = asked.user if asked.user is not None else user
            version, role, scores = self._answered(served, by, lambda version: version.scores(asked.rows))
            order = order_of(scores)
            scored = time.perf_counter()
            stages = {"wait": waited, "read": read - started, "score": scored - read}
            return Ranking(request, version, role, asked, scores, order, self._noted(stages))

        ranking = await self.workers.run(work, seconds, deadline)
        self.measures.scored(name, ranking.role, ranking.version.digest)
        self.warmup.note_rows(name, ranking.asked.rows)
        if served.shadows:
            self._compare_beside(served, ranking)
        if self.log is not None and self.settings.log_features:
            ids = ranking.asked.ids or list(range(len(ranking.scores)))
            shown = [ids[row] for row in ranking.order.tolist()]
            rows, scores = ranking.asked.rows[ranking.order], ranking.scores[ranking.order]
            self._log_shown(request, name, ranking.version, ranking.asked.query, user, shown, scores, rows)
        return ranking

    # --- queries

    async def search(
        self, name: str, query: str, k: int, request: str, arrived: float, deadline: float, user: str | None = None
    ) -> Found:
        """The k best documents for a query."""
        served = self.registry.get(name)
        if served.live.searcher is None:
            raise wrong("system", "a cascade or an index", f"{name}, a model")
        self.check_query(query, k)
        loop = asyncio.get_running_loop()

        def work() -> Found:
            waited = loop.time() - arrived
            version, role, (hits, trace) = self._answered(served, user, lambda one: search_traced(one, query, k))
            stages = {"wait": waited, **trace.seconds}
            return Found(request, name, version, role, hits, trace.scored, self._noted(stages))

        answer = await self.workers.run(work, served.version_for(user)[0].seconds_per_search, deadline)
        version = answer.version
        self.measures.scored(name, answer.role, version.digest)
        self.warmup.note_query(name, query)
        if self.log is not None and self.settings.log_features:
            rows = rows_of(answer)
            self._log_shown(request, name, version, query, user, answer.hits.ids, np.array(answer.hits.scores), rows)
        return answer

    def _answered(
        self, served: Served, user: str | None, work: Callable[[Version], Result]
    ) -> tuple[Version, str, Result]:
        """What the version of this user answers; where that is a canary and fails, what the live one answers."""
        version, role = served.version_for(user)
        if role != LIVE:
            try:
                return version, role, work(version)
            except Exception:
                self.measures.canary_failures.labels(served.name, version.label).inc()
                logger.exception("canary %s of %s failed; %s answers", version.label, served.name, served.live.label)
        return served.live, LIVE, work(served.live)

    def check_query(self, query: str, k: int) -> None:
        most = self.limits.query_characters
        if not query.strip() or len(query) > most:
            value = query if len(query) <= most else f"{len(query):,} characters"
            raise wrong("query", f"1 to {most:,} characters", value)
        if not 1 <= k <= self.limits.k:
            raise wrong("k", f"an integer from 1 to {self.limits.k:,}", k)

    # --- versions

    def load(self, name: str, label: str, role: str) -> Version:
        """Put a version of the folder in a role, when it has been tried. Takes seconds; not for the loop."""

        def trial(path: Path) -> None:
            try_version(path, self.warmup.requests_of(name), self.limits)

        try:
            version = self.registry.load(name, label, role, trial)
        except (ValueError, OSError) as error:
            self.measures.loads.labels(name, "refused").inc()
            raise Refusal(400, f"version: {error}", "version", "a version that loads and scores") from None
        except Refusal as refusal:
            if refusal.status != 404:  # names in labels are ours
                self.measures.loads.labels(name, "refused").inc()
            raise
        self.measures.loads.labels(name, "loaded").inc()
        return version

    # --- what is noted

    def _noted(self, stages: Mapping[str, float]) -> dict[str, float]:
        for stage, seconds in stages.items():
            self.measures.stage(stage, seconds)
        return {stage: round(1e6 * max(0.0, seconds), 1) for stage, seconds in stages.items()}

    def _log_shown(
        self,
        request: str,
        name: str,
        version: Version,
        query: str | None,
        user: str | None,
        documents: Sequence[Any],
        scores: np.ndarray,
        rows: np.ndarray | None,
    ) -> None:
        """Log a list with the features as they were scored; nobody waits for it."""
        assert self.log is not None
        if self.log.waiting >= _MOST_UNLOGGED:
            self.measures.not_logged.inc()
            return
        record: dict[str, Any] = {
            "kind": "shown",
            "time": now(),
            "request": request,
            "name": name,
            "model": version.digest,
        }
        record |= {"generation": version.generation, "query": query, "user": user, "documents": list(documents)}
        features = None if rows is None else {"names": version.names, "rows": rows}
        written = self.log.append([record | {"scores": scores, "features": features}])
        written.add_done_callback(self._note_failure)

    def _note_failure(self, written: Future[None]) -> None:
        if written.exception() is not None:
            self.measures.not_logged.inc()

    # --- shadows

    def _compare_beside(self, served: Served, ranking: Ranking) -> None:
        """Score the same rows by the shadows, behind the answer; when there is other work, not at all."""
        if self.workers.waiting or len(self._beside) >= self.workers.thread_lane.slots:
            for shadow in served.shadows:
                self.measures.shadows.labels(served.name, shadow.label, "skipped").inc()
            return
        task = asyncio.get_running_loop().create_task(self._compare(served, ranking))
        self._beside.add(task)
        task.add_done_callback(self._beside.discard)

    async def _compare(self, served: Served, ranking: Ranking) -> None:
        deadline = asyncio.get_running_loop().time() + self.limits.deadline_seconds
        best = set(ranking.order[:10].tolist())
        for shadow in served.shadows:
            labels = served.name, shadow.label
            try:
                seconds = max(self.workers.inline_seconds * 2, len(ranking.scores) * shadow.seconds_per_row)
                scores = await self.workers.run(partial(shadow.scores, ranking.asked.rows), seconds, deadline)
                same = len(best & set(order_of(scores)[:10].tolist()))
                self.measures.shadow_overlap.labels(*labels).observe(same / len(best))
                self.measures.shadows.labels(*labels, "scored").inc()
            except Exception:  # a shadow can fail in any way and harms nobody
                self.measures.shadows.labels(*labels, "failed").inc()
                logger.exception("shadow %s of %s failed", shadow.label, served.name)


def order_of(scores: np.ndarray) -> np.ndarray:
    """Positions, best first; equal scores keep the order of the request, as in `Ranker.rank`."""
    return order_by_score(scores, np.array([0, len(scores)]), 1)


def search_traced(version: Version, query: str, k: int) -> tuple[Hits, Trace]:
    """Search, and what was done."""
    trace, searcher = Trace(), version.searcher
    assert searcher is not None
    try:
        if isinstance(searcher, Cascade):
            return searcher.search(query, k, trace=trace), trace
        hits = searcher.search(query, k)
    except ValueError as error:
        raise Refusal(400, f"query: {error}", "query", "words, phrases, +must, -not, field:word") from None
    trace.done("retrieve")
    return hits, trace


def rows_of(answer: Found) -> np.ndarray | None:
    """The features of the hits as they were scored, NaN where a hit was not re-ranked; None without a model."""
    if answer.scored is None:
        return None
    row_of = {document: row for row, document in enumerate(answer.scored.documents.tolist())}
    rows = np.full((len(answer.hits), answer.scored.rows.shape[1]), np.nan, np.float32)
    for number, document in enumerate(np.asarray(answer.hits.documents).tolist()):
        if document in row_of:
            rows[number] = answer.scored.rows[row_of[document]]
    return rows


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
