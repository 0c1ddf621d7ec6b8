"""Routes: what the service answers besides ranking, and the description of all of it in /openapi.json."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import orjson
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from podium import __version__
from podium.server.errors import FAILED, Refusal, wrong
from podium.server.explaining import explain_hits, explain_rows
from podium.server.http.bodies import ARROW, JSON, RAW, read_request
from podium.server.http.envelopes import ExplainRequest, FeedbackRequest, LoadRequest, SearchRequest, UnloadRequest
from podium.server.http.guarding import Guard
from podium.server.measures import CONTENT_TYPE
from podium.server.page.views import add_page
from podium.server.service import Found, Service, now, rows_of, search_traced

_ABOUT = (
    "Ranking and search. Every answer has the id of its request, the digest of its model and microseconds per stage."
)
_RANK_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            JSON: {
                "schema": {
                    "type": "object",
                    "required": ["features"],
                    "properties": {
                        "features": {
                            "type": "array",
                            "items": {"type": "array", "items": {"type": ["number", "string", "null"]}},
                        },
                        "ids": {"type": "array", "items": {"type": ["string", "integer"]}},
                        "user": {"type": "string"},
                        "query": {"type": "string"},
                    },
                }
            },
            RAW: {"schema": {"type": "string", "format": "binary", "description": "float32, little-endian, by rows"}},
            ARROW: {"schema": {"type": "string", "format": "binary"}},
        },
    }
}


def make_routes(service: Service, guard: Guard) -> FastAPI:
    """The FastAPI application."""
    app = FastAPI(title="Podium", version=__version__, description=_ABOUT, docs_url=None, redoc_url=None)
    _add_errors(app)
    _add_health(app, service)
    _add_models(app, service, guard)
    _add_queries(app, service)
    _add_feedback(app, service)
    add_page(app, service, guard)
    return app


def _json(content: Any, status: int = 200) -> Response:
    return Response(orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY), status, media_type=JSON)


def _add_errors(app: FastAPI) -> None:
    def refused(request: Request, refusal: Refusal) -> Response:
        answer = _json(refusal.as_dict(request.scope["podium"]["request"]), refusal.status)
        if refusal.retry_after is not None:
            answer.headers["retry-after"] = str(refusal.retry_after)
        return answer

    @app.exception_handler(Refusal)
    def refusal(request: Request, error: Refusal) -> Response:
        return refused(request, error)

    @app.exception_handler(HTTPException)
    def http_error(request: Request, error: HTTPException) -> Response:
        if isinstance(error.__cause__, Refusal):  # of a body, which FastAPI was reading
            return refused(request, error.__cause__)
        messages = {404: f"there is no {request.url.path[:100]} here; /openapi.json lists what there is."}
        messages[405] = f"{request.url.path} does not take {request.method}."
        return refused(request, Refusal(error.status_code, messages.get(error.status_code, str(error.detail))))

    @app.exception_handler(Exception)
    def failure(request: Request, error: Exception) -> Response:  # which goes on to the log
        return refused(request, Refusal(500, FAILED))

    @app.exception_handler(RequestValidationError)
    def validation_error(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        field = _field_of([part for part in first["loc"] if part not in ("body", "query")]) or "body"
        expected = first["msg"].removeprefix("Input should be ").removeprefix("Value error, ")
        value = first.get("input")
        shown = "" if first["type"] in ("missing", "json_invalid") else f"; got {value!r:.60}"
        return refused(request, Refusal(400, f"{field}: expected {expected}{shown}.", field, expected))


def _field_of(parts: list[Any]) -> str:
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts)
    return text.removeprefix(".")


def _add_health(app: FastAPI, service: Service) -> None:
    @app.get("/healthz", summary="Whether the process works")
    async def healthz() -> Response:
        return _json({"status": "ok"})

    @app.get("/readyz", summary="Whether requests are taken: everything is loaded and warm, and it is not ending")
    async def readyz() -> Response:
        if service.is_draining:
            raise Refusal(503, "the service is ending.")
        return _json({"status": "ready", "serves": list(service.registry.names)})

    @app.get("/metrics", summary="Measures for Prometheus")
    async def metrics() -> Response:
        service.measures.waiting.set(service.workers.waiting)
        if service.log is not None:
            service.measures.log_waiting.set(service.log.waiting)
        return Response(service.measures.text(), media_type=CONTENT_TYPE)


def _add_models(app: FastAPI, service: Service, guard: Guard) -> None:
    @app.get("/v1/models", summary="What is served")
    async def models() -> Response:
        return _json({"models": [served.about() for served in service.registry]})

    @app.get("/v1/models/{name}", summary="The versions under a name, with their features")
    async def model(name: str) -> Response:
        return _json(service.registry.get(name).about())

    @app.post("/v1/models/{name}:rank", summary="Score the documents of one query", openapi_extra=_RANK_BODY)
    async def rank(name: str) -> Response:  # answered before it comes here
        raise AssertionError

    @app.post("/v1/models/{name}:load", summary="Put a version of the configured folder in a role")
    async def load(name: str, asked: LoadRequest) -> Response:
        _refuse_without_token(guard)
        work = partial(service.load, name, asked.version, asked.role)
        version = await asyncio.get_running_loop().run_in_executor(None, work)
        return _json({"name": name, "role": asked.role} | version.about())

    @app.post("/v1/models/{name}:unload", summary="Take the canary or the shadows out of service")
    async def unload(name: str, asked: UnloadRequest) -> Response:
        _refuse_without_token(guard)
        service.registry.unload(name, asked.role)
        return _json(service.registry.get(name).about())


def _refuse_without_token(guard: Guard) -> None:
    if not guard.has_token:
        raise Refusal(403, "versions are changed with a token only. Start the service with --token-file FILE.")


def _add_queries(app: FastAPI, service: Service) -> None:
    async def searched(request: Request, asked: SearchRequest) -> Response:
        name = asked.system if asked.system is not None else service.registry.first_search()
        if not name:
            raise Refusal(404, "system: nothing is served that searches. Start the service with a cascade or an index.")
        about = request.scope["podium"]
        user = asked.user if asked.user is not None else request.headers.get("x-user")
        deadline = about["arrived"] + about["deadline"]
        answer = await service.search(name, asked.q, asked.k, about["request"], about["arrived"], deadline, user)
        return _json(search_answer(answer, asked.snippets, asked.features))

    @app.get("/v1/search", summary="The best documents for a query")
    async def search(
        request: Request,
        q: str,
        system: str | None = None,
        k: int = 10,
        user: str | None = None,
        snippets: bool = False,
        features: bool = False,
    ) -> Response:
        options: dict[str, Any] = {"system": system, "k": k, "user": user, "snippets": snippets, "features": features}
        return await searched(request, SearchRequest(q=q, **options))

    @app.post("/v1/search", summary="The same, with the query in a body")
    async def search_body(request: Request, asked: SearchRequest) -> Response:
        return await searched(request, asked)

    @app.post("/v1/explain", summary="What each feature adds to the scores of a list, and why one is above another")
    async def explain(request: Request, asked: ExplainRequest) -> Response:
        about = request.scope["podium"]
        deadline = about["arrived"] + about["deadline"]
        work = _explained_rows(service, asked) if asked.features is not None else _explained_hits(service, asked)
        seconds = 2 * service.workers.inline_seconds  # never on the loop
        return _json({"request": about["request"]} | await service.workers.run(work, seconds, deadline))


def search_answer(searched: Found, snippets: bool, features: bool) -> dict[str, Any]:
    """A search as plain values."""
    version = searched.version
    answer: dict[str, Any] = {"request": searched.request, "system": searched.name, "version": version.label}
    answer |= {
        "role": searched.role,
        "model": version.digest,
        "generation": version.generation,
        "query": searched.hits.query,
    }
    hits = searched.hits.as_dicts()
    if snippets:
        for hit, full in zip(hits, searched.hits):
            hit |= _shown(full)
    if features:
        rows = rows_of(searched)
        answer["features"] = list(version.names) if rows is not None else None
        for number, hit in enumerate(hits):
            hit["features"] = None if rows is None else rows[number]
    return answer | {"hits": hits, "microseconds": searched.microseconds}


def _shown(hit: Any) -> dict[str, Any]:
    try:
        stored = hit.stored
        return {"title": stored.get("title"), "url": stored.get("url"), "snippet": str(hit.snippet())}
    except ValueError:  # an index without texts
        return {"title": None, "url": None, "snippet": None}


def _explained_rows(service: Service, asked: ExplainRequest) -> Any:
    if asked.model is None:
        raise wrong("model", "the name of a model, beside features", None)
    version = service.registry.get(asked.model).live
    if version.model is None:
        raise wrong("model", "a model, or a cascade that has one", f"{asked.model}, an {version.kind}")
    body = orjson.dumps({"features": asked.features, "ids": asked.ids})
    return lambda: explain_rows(
        version, read_request(JSON, body, version, service.limits.rows).rows, asked.ids, asked.k, asked.why
    )


def _explained_hits(service: Service, asked: ExplainRequest) -> Any:
    if asked.q is None:
        raise wrong("q", "a query, or features and model", None)
    query = asked.q
    name = asked.system if asked.system is not None else service.registry.first_search()
    version = service.registry.get(name).live
    if version.searcher is None:
        raise wrong("system", "a cascade", f"{name}, a model")
    service.check_query(query, asked.k)

    def work() -> dict[str, Any]:
        hits, trace = search_traced(version, query, asked.k)
        facts = {"system": name, "model": version.digest, "generation": version.generation, "query": query}
        return facts | explain_hits(version, hits, trace.scored, asked.why)

    return work


def _add_feedback(app: FastAPI, service: Service) -> None:
    @app.post("/v1/feedback", summary="Clicks and judgements: acknowledged when they are on the disk")
    async def feedback(asked: FeedbackRequest) -> Response:
        if service.log is None:
            raise Refusal(403, "the service keeps no log. Start it with --log FILE.")
        records = []
        for number, event in enumerate(asked.events):
            try:
                records.append(event.record() | {"time": now()})
            except ValueError as error:
                raise Refusal(400, f"events[{number}]: {error}.", f"events[{number}]") from None
        await write_all(service, records)
        return _json({"written": len(records)})


async def write_all(service: Service, records: list[dict[str, Any]]) -> None:
    """Wait until the disk has these records."""
    assert service.log is not None
    try:
        await asyncio.wrap_future(service.log.append(records))
    except OSError as error:
        raise Refusal(503, f"the log could not be written: {error}. Nothing was recorded.", retry_after=10) from None
