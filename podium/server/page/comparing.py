"""Comparing: the answers of several systems side by side, what moved, and what the features add to each score."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

import numpy as np

from podium._runtime.memo import Memo
from podium.pipelines.cascades.cascade import CascadeHit, Scored
from podium.search.reading import Hit, Hits
from podium.server.admission import Workers
from podium.server.errors import Refusal
from podium.server.explaining import explain_hits, explain_rows
from podium.server.page.judging import JudgedQuery
from podium.server.page.measuring import CUTOFF, Measured, measure
from podium.server.page.systems import System

N_EXPLAINED = 10  # hits of a column
_HALF = 50.0  # of a bar: contributions go to both sides of its middle
_MOST_BYTES = 64_000_000


@dataclass(frozen=True)
class Movement:
    """Where a document went, compared with the first column."""

    mark: str
    words: str  # for those who hear the page
    kind: str


@dataclass(frozen=True)
class Bar:
    """What a feature adds, drawn from 0 to 100 with 50 in the middle."""

    name: str
    value: float | None
    share: float
    start: float
    width: float


@dataclass(frozen=True)
class ShownHit:
    """A hit as the page shows it."""

    rank: int
    id: str
    score: float
    title: str
    url: str | None
    snippet: tuple[tuple[str, bool], ...]  # pieces of text, and whether they match
    first_rank: int | None  # in the first stage of a cascade
    bars: tuple[Bar, ...] = ()
    movement: Movement | None = None


@dataclass(frozen=True, eq=False)
class Column:
    """The answer of one system."""

    system: System
    hits: tuple[ShownHit, ...]
    best: tuple[tuple[str, float], ...]  # ids and scores of at least ten, if there are so many
    milliseconds: float
    note: str = ""  # why there are no contributions
    measured: Measured | None = None
    why: dict[str, Any] | None = None
    why_problem: str = ""


class Columns:
    """Makes columns, and keeps those of late: a judge looks at the same list again and again."""

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self._memo: Memo[tuple[object, str, int], tuple[Column, Hits, Scored | None]] = Memo(_MOST_BYTES)

    async def side_by_side(
        self, systems: Sequence[System], query: JudgedQuery, k: int, pair: tuple[str, str] | None, deadline: float
    ) -> list[Column]:
        """One column per system, measured by the judgements of the query; with a pair, why one is above the other."""
        columns = await asyncio.gather(*(self._column(system, query.text, k, pair, deadline) for system in systems))
        seconds = 2 * self._workers.inline_seconds
        return await self._workers.run(lambda: _beside_the_first(columns, query), seconds, deadline)

    async def _column(
        self, system: System, query: str, k: int, pair: tuple[str, str] | None, deadline: float
    ) -> Column:
        seconds = 2 * self._workers.inline_seconds  # never on the loop
        key = (system.key, query, k)
        if key not in self._memo.values:
            answer = await self._workers.run(lambda: _answered(system, query, k), seconds, deadline)
            column, hits, scored = answer
            if system.has_model and len(hits):
                column = await self._explained(column, hits, scored, deadline)
            size = 3_000 * len(hits) + (0 if scored is None else scored.rows.nbytes)
            self._memo.keep(key, (column, hits, scored), size)
        else:
            column, hits, scored = self._memo.values[key]
        if pair is None or not system.has_model:
            return column
        try:
            work = lambda: explain_hits(system.version, hits, scored, pair)["why"]  # noqa: E731
            return replace(column, why=_drawn(await self._workers.run(work, seconds, deadline)))
        except Refusal as refusal:
            return replace(column, why_problem=str(refusal))

    async def _explained(self, column: Column, hits: Hits, scored: Scored | None, deadline: float) -> Column:
        """With contributions; where these take too long, without, and a note."""
        version, seconds = column.system.version, 2 * self._workers.inline_seconds
        try:
            answer = await self._workers.run(lambda: explain_hits(version, hits, scored, None), seconds, deadline)
        except Refusal as refusal:
            return replace(column, note=str(refusal))
        features = {one["id"]: one["features"] for one in answer["documents"][:N_EXPLAINED]}
        widest = max((abs(item["share"] or 0.0) for items in features.values() for item in items), default=0.0)
        shown = tuple(replace(hit, bars=_bars(features.get(hit.id, []), widest)) for hit in column.hits)
        return replace(column, hits=shown, note=answer.get("note", ""))


def _answered(system: System, query: str, k: int) -> tuple[Column, Hits, Scored | None]:
    """Search, and fetch what is shown of each hit."""
    started = perf_counter()
    hits, scored = system.search(query, max(k, CUTOFF))
    milliseconds = 1e3 * (perf_counter() - started)
    shown = tuple(_shown(rank, hit) for rank, hit in enumerate(hits[:k], 1))
    return Column(system, shown, tuple(zip(hits.ids, hits.scores)), milliseconds), hits, scored


def _shown(rank: int, hit: Hit) -> ShownHit:
    try:
        stored, snippet = hit.stored, hit.snippet()
        pieces = _pieces(snippet.text, snippet.matches)
    except ValueError:  # an index without texts
        stored, pieces = {}, ()
    url = stored.get("url")
    is_web = isinstance(url, str) and url.lower().startswith(("http://", "https://"))  # never javascript:
    first_rank = hit.first_rank if isinstance(hit, CascadeHit) else None
    title = str(stored.get("title") or hit.id)
    return ShownHit(rank, hit.id, hit.score, title, url if is_web else None, pieces, first_rank)


def _pieces(text: str, matches: Sequence[tuple[int, int]]) -> tuple[tuple[str, bool], ...]:
    """The text in parts that match and parts that do not."""
    pieces, last = [], 0
    for start, end in matches:
        pieces += [(text[last:start], False), (text[start:end], True)]
        last = end
    return tuple(piece for piece in [*pieces, (text[last:], False)] if piece[0])


def _bars(features: list[dict[str, Any]], widest: float) -> tuple[Bar, ...]:
    """All bars of a column have one scale. A model whose features add no shares has none."""
    return tuple(
        _bar(item["name"], item["value"], item["share"], widest) for item in features if item["share"] is not None
    )


def _bar(name: str, value: float | None, share: float, widest: float) -> Bar:
    width = round(_HALF * abs(share) / widest, 2) if widest else 0.0
    return Bar(name, value, share, _HALF if share >= 0 else _HALF - width, width)


def _drawn(why: dict[str, Any]) -> dict[str, Any]:
    """With a bar per reason."""
    widest = max((abs(reason["contribution"]) for reason in why["reasons"]), default=0.0)
    bars = [_bar(reason["feature"], None, reason["contribution"], widest) for reason in why["reasons"]]
    return why | {"rows": list(zip(why["reasons"], bars))}


def _beside_the_first(columns: Sequence[Column], query: JudgedQuery) -> list[Column]:
    """With movements against the first column, and measured."""
    ranks = {hit.id: hit.rank for hit in columns[0].hits}
    compared = []
    for number, column in enumerate(columns):
        hits = column.hits
        if number:
            hits = tuple(replace(hit, movement=movement_of(ranks.get(hit.id), hit.rank)) for hit in hits)
        compared.append(replace(column, hits=hits, measured=measure(column.best, query)))
    return compared


def movement_of(before: int | None, now: int) -> Movement:
    """From rank `before` in the first column, None if it is not there, to rank `now`."""
    if before is None:
        return Movement("new", "not in the first column", "new")
    if before == now:
        return Movement("=", "same rank as in the first column", "same")
    steps, direction = abs(before - now), "up" if now < before else "down"
    mark = ("▲" if direction == "up" else "▼") + str(steps)
    return Movement(mark, f"{direction} {steps} from rank {before} in the first column", direction)


def warm(system: System) -> None:
    """Compile what a first explanation would wait for."""
    if system.has_model:
        rows = np.zeros((2, system.version.n_features), np.float32)
        with suppress(Refusal):  # some models cannot be explained
            explain_rows(system.version, rows, None, 2, None)
