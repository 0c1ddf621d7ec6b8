"""Views: the addresses of the page. They read requests, ask the other modules and render."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any
from urllib.parse import urlencode

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.responses import RedirectResponse
from pydantic import ValidationError

from podium.server.errors import Refusal, unknown, wrong
from podium.server.http.envelopes import Event
from podium.server.http.guarding import COOKIE, Guard
from podium.server.page import comparing, measuring, rendering
from podium.server.page.agreeing import krippendorff_alpha
from podium.server.page.comparing import Columns
from podium.server.page.exporting import (
    has_features,
    letor_text,
    qrels_text,
    queries_text,
    refuse_without_features,
    rows_of_query,
)
from podium.server.page.judging import LARGEST_LABEL, MERGING, JudgedQuery, Judgements, normalised
from podium.server.page.measuring import CUTOFF, MOST_QUERIES, POLICY, Lists
from podium.server.page.systems import MOST_SYSTEMS, System, chosen_systems, one_system, systems_of
from podium.server.page.visiting import Form, Visit, checked_rater, first, form_of
from podium.server.service import Service, now

_HITS, _MOST_HITS = 10, 100
_SECONDS_OF_A_PERSON = 30.0
_SECONDS_AFTER_WRONG_TOKEN = 0.5


class Page:
    """What the views share."""

    def __init__(self, service: Service, guard: Guard) -> None:
        self.service, self.guard = service, guard
        self.judgements = None if service.log is None else Judgements(service.log.path)
        self.columns, self.lists = Columns(service.workers), Lists()
        self.exporting = asyncio.Lock()
        measuring.warm()
        for system in self.systems.values():
            comparing.warm(system)

    @property
    def systems(self) -> dict[str, System]:
        return systems_of(self.service.registry)

    async def off_loop(self, request: Request, work: Any) -> Any:
        """`work()` on a thread."""
        seconds = 2 * self.service.workers.inline_seconds
        return await self.service.workers.run(work, seconds, deadline_of(request))

    async def judged(self, request: Request, text: str) -> JudgedQuery:
        judgements = self.judgements
        if judgements is None:
            return JudgedQuery(0, normalised(text))
        judged: JudgedQuery = await self.off_loop(request, lambda: judgements.of(text))
        return judged

    async def render(self, request: Request, template: str, visit: Visit, status: int = 200, **values: Any) -> Response:
        """A page; a long one takes milliseconds, which the loop does not have."""
        shared = {"visit": visit, "csrf": visit.csrf, "can_judge": self.judgements is not None}
        shared |= {"has_session": self.guard.has_token, "policy": POLICY, "merging": MERGING}
        text = await self.off_loop(request, partial(rendering.html_of, template, shared | values))
        return visit.remember(rendering.page(text, status))


def deadline_of(request: Request) -> float:
    """A person waits longer than a program, and reads no status 503."""
    about = request.scope["podium"]
    return float(about["arrived"] + max(about["deadline"], _SECONDS_OF_A_PERSON))


def add_page(app: FastAPI, service: Service, guard: Guard) -> None:
    """Add the page to the application; people get errors they can read."""
    page = Page(service, guard)
    router = APIRouter(include_in_schema=False)
    _add_static(router)
    _add_sessions(router, page)
    _add_search(router, page)
    _add_judging(router, page)
    _add_queries(router, page)
    _add_exports(router, page)
    app.include_router(router)
    _add_readable_errors(app)


def _add_readable_errors(app: FastAPI) -> None:
    """The answers of the handlers that are there, as HTML for those who prefer it."""
    for kind, handler in list(app.exception_handlers.items()):
        if isinstance(kind, type):
            app.exception_handlers[kind] = _readable(handler)


def _readable(handler: Any) -> Any:
    def handle(request: Request, error: Exception) -> Response:
        answer: Response = handler(request, error)
        if not rendering.prefers_html(request.headers.get("accept", "")):
            return answer
        import orjson

        about = orjson.loads(answer.body)["error"]
        refusal = Refusal(about["status"], about["message"], about.get("field"))
        content = rendering.error_page(refusal, about["request"])
        headers = {name: answer.headers[name] for name in ("retry-after",) if name in answer.headers}
        return Response(content, answer.status_code, headers, rendering.HTML)

    return handle


def _add_static(router: APIRouter) -> None:
    @router.get("/static/{name}")
    async def static(name: str) -> Response:
        if name not in rendering.STATIC:
            raise unknown("name", "file", name, rendering.STATIC)
        content, kind = rendering.STATIC[name]
        return Response(content, 200, {"cache-control": "public, max-age=31536000, immutable"}, kind)


def _add_sessions(router: APIRouter, page: Page) -> None:
    @router.get("/login")
    async def login_page(request: Request) -> Response:
        if not page.guard.has_token:
            return RedirectResponse("/", 303)
        return await page.render(request, "login.html", Visit(request, page.guard), problem="")

    @router.post("/login")
    async def login(request: Request) -> Response:
        visit, form = Visit(request, page.guard), await form_of(request)
        visit.refuse_forged(form)
        if not page.guard.is_token(first(form, "token").strip().encode()):
            await asyncio.sleep(_SECONDS_AFTER_WRONG_TOKEN)
            return await page.render(request, "login.html", visit, 401, problem="This is not the token of the service.")
        response = RedirectResponse("/", 303)
        visit.open_session(response)
        return response

    @router.post("/logout")
    async def logout(request: Request) -> Response:
        Visit(request, page.guard).refuse_forged(await form_of(request))
        response = RedirectResponse("/login", 303)
        response.delete_cookie(COOKIE, path="/", httponly=True, samesite="strict")
        return response


def _add_search(router: APIRouter, page: Page) -> None:
    @router.get("/")
    async def search(request: Request) -> Response:
        values = request.query_params
        visit, systems = Visit(request, page.guard), page.systems
        chosen = chosen_systems(systems, values.getlist("system"))
        query, k = normalised(values.get("q", "")), _k_of(values.get("k", ""))
        shown: dict[str, Any] = {"systems": systems, "chosen": chosen, "k": k, "most_systems": MOST_SYSTEMS}
        shown |= {"problem": "", "why": values.getlist("why"), "address": "", "columns": [], "top": CUTOFF}
        if not query or not chosen:
            latest = []
            if page.judgements is not None:
                latest = await page.off_loop(request, partial(page.judgements.latest, 10))
            return await page.render(request, "search.html", visit, query=JudgedQuery(0, ""), latest=latest, **shown)
        page.service.check_query(query, k)
        status, pair = 200, None
        try:
            pair = _pair_of(values.getlist("why"))
        except Refusal as refusal:  # the list is shown all the same
            status, shown["problem"] = refusal.status, str(refusal)
        judged = await page.judged(request, query)
        shown["columns"] = await page.columns.side_by_side(chosen, judged, k, pair, deadline_of(request))
        return await page.render(request, "search.html", visit, status, query=judged, latest=[], **shown)

    @router.post("/rater")
    async def rater(request: Request) -> Response:
        visit, form = Visit(request, page.guard), await form_of(request)
        visit.refuse_forged(form)
        name = checked_rater(first(form, "rater"))
        response = RedirectResponse(_address(form), 303)
        visit.remember_rater(response, name)
        return response


def _k_of(text: str) -> int:
    if not text:
        return _HITS
    if not (text.isascii() and text.isdigit() and len(text) < 9 and 1 <= int(text) <= _MOST_HITS):
        raise wrong("k", f"an integer from 1 to {_MOST_HITS}", text)
    return int(text)


def _pair_of(documents: list[str]) -> tuple[str, str] | None:
    """The two hits of a question why; they may have been picked in several columns."""
    picked = list(dict.fromkeys(document for document in documents if document))
    if not picked:
        return None
    if len(picked) != 2:
        raise Refusal(400, f"why: expected two different hits; got {len(picked)}. Pick two, then ask why.", "why")
    return picked[0], picked[1]


def _address(form: Form, hit: str = "") -> str:
    """The page that a form came from."""
    fields = [(name, value) for name in ("q", "system", "k", "why") for value in form.get(name, []) if value]
    return ("/?" + urlencode(fields) if fields else "/") + (f"#{hit}" if hit else "")


def _add_judging(router: APIRouter, page: Page) -> None:
    @router.post("/judge")
    async def judge(request: Request) -> Response:
        visit, form = Visit(request, page.guard), await form_of(request)
        visit.refuse_forged(form)
        if page.service.log is None:
            raise Refusal(403, "the service keeps no log, so it takes no judgements. Start it with --log FILE.")
        label, rank, document = _judgement_of(first(form, "judgement"))
        judging = one_system(page.systems, first(form, "judging"))
        query = normalised(first(form, "q"))
        page.service.check_query(query, _HITS)
        searcher = judging.version.searcher
        index = getattr(searcher, "index", searcher)
        if await page.off_loop(request, lambda: index.number(document)) is None:  # type: ignore[union-attr]
            raise Refusal(404, f"judgement: no document has the id {document[:60]!r}.", "judgement")
        record = _event(judging, query, document, label, rank, visit.rater)
        from podium.server.http.routes import write_all

        await write_all(page.service, [record | {"time": now()}])
        columns = list(dict.fromkeys(form.get("system", [])))
        column = columns.index(judging.label) + 1 if judging.label in columns else 1
        return RedirectResponse(_address(form, f"hit-{column}-{rank}"), 303)


def _judgement_of(text: str) -> tuple[int, int, str]:
    """Label, rank and document, as the buttons send them: "3 1 doc7"."""
    label, _, rest = text.partition(" ")
    rank, _, document = rest.partition(" ")
    if label not in map(str, range(LARGEST_LABEL + 1)):
        raise wrong("judgement", f"a label from 0 to {LARGEST_LABEL}", label)
    if not (rank.isascii() and rank.isdigit() and 1 <= int(rank[:9]) <= _MOST_HITS) or not document:
        raise wrong("judgement", "label, rank and document", text)
    return int(label), int(rank), document


def _event(system: System, query: str, document: str, label: int, rank: int, rater: str) -> dict[str, Any]:
    facts: dict[str, Any] = {"position": rank, "system": system.label, "model": system.version.digest}
    facts |= {"generation": system.version.generation, "rater": rater or None}
    try:
        return Event(kind="judgement", query=query, document=document, label=float(label), **facts).record()
    except ValidationError as error:
        first_error = error.errors()[0]
        field = str(first_error["loc"][0])
        raise Refusal(400, f"{field}: {first_error['msg']}.", field) from None


def _add_queries(router: APIRouter, page: Page) -> None:
    @router.get("/queries")
    async def queries(request: Request) -> Response:
        visit, systems = Visit(request, page.guard), page.systems
        chosen = chosen_systems(systems, request.query_params.getlist("system"))[:1]
        judged: list[JudgedQuery] = []
        rows: list[Any] = []
        if page.judgements is not None and chosen:
            _, judged = await page.off_loop(request, page.judgements.all)
            deadline = deadline_of(request)
            rows = await page.lists.measured(chosen[0], judged[:MOST_QUERIES], page.service.workers, deadline)
        values = [row.measured.value for row in rows if row.measured is not None]
        units = [unit for query in judged for unit in query.units]
        facts = {
            "systems": systems,
            "chosen": chosen,
            "rows": rows,
            "n_waiting": sum(row.measured is None and not row.problem for row in rows),
            "n_values": len(values),
            "mean": sum(values) / len(values) if values else None,
            "agreement": await page.off_loop(request, lambda: krippendorff_alpha(units)),
            "n_shared": sum(query.n_shared for query in judged),
            "n_labels": sum(len(unit) for unit in units),
            "raters": _raters_of(judged),
            "n_more": max(0, len(judged) - MOST_QUERIES),
            "n_off_scale": 0 if page.judgements is None else page.judgements.n_off_scale,
            "cascades": [system.label for system in systems.values() if has_features(system)],
        }
        return await page.render(request, "queries.html", visit, **facts)


def _raters_of(queries: list[JudgedQuery]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for query in queries:
        for rater, count in query.raters.items():
            counts[rater] = counts.get(rater, 0) + count
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _add_exports(router: APIRouter, page: Page) -> None:
    async def judged_queries(request: Request) -> list[JudgedQuery]:
        if page.judgements is None:
            raise Refusal(403, "the service keeps no log, so it has no judgements. Start it with --log FILE.")
        _, queries = await page.off_loop(request, page.judgements.all)
        return list(queries)

    @router.get("/export/qrels")
    async def qrels(request: Request) -> Response:
        queries = await judged_queries(request)
        return _download(await page.off_loop(request, lambda: qrels_text(queries)), "podium-median.qrels")

    @router.get("/export/queries")
    async def texts(request: Request) -> Response:
        return _download(queries_text(await judged_queries(request)), "podium-queries.tsv")

    @router.get("/export/letor")
    async def letor(request: Request, system: str = "") -> Response:
        chosen = one_system(page.systems, system)
        refuse_without_features(chosen)
        queries = (await judged_queries(request))[:MOST_QUERIES]
        if page.exporting.locked():
            raise Refusal(429, "busy: another file is being made. Try again later.", retry_after=5)
        async with page.exporting:
            workers, loop, parts = page.service.workers, asyncio.get_running_loop(), []
            for query in queries:  # one job each, so that searches have their turns between them
                deadline = loop.time() + _SECONDS_OF_A_PERSON
                seconds = 2 * workers.inline_seconds
                part = await workers.run(partial(rows_of_query, chosen, query), seconds, deadline)
                parts += [] if part is None else [part]
        text = await page.off_loop(request, lambda: letor_text(parts, chosen, queries))
        return _download(text, f"podium-{chosen.name}.letor.txt")


def _download(content: bytes, name: str) -> Response:
    headers = {"content-disposition": f'attachment; filename="{name}"', "cache-control": "private, no-cache"}
    return Response(content, 200, headers, "text/plain; charset=utf-8")
