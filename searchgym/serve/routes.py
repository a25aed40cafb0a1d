"""Ordinary FastAPI routes: health, statistics, metrics, the search page, and the description of all
routes. Importing this module imports fastapi.

The search page holds nothing of the corpus: its script asks ``/healthz``, ``/retrieve`` and
``/access`` as any client does, with the token that the user types in where one is needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Annotated, Any

from fastapi import APIRouter, Depends, FastAPI, Request, Response
from fastapi.openapi.utils import get_openapi
from fastapi.responses import HTMLResponse, JSONResponse
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer
from pydantic import Field, create_model
from starlette.exceptions import HTTPException

from ..corpora.corpus import Corpus
from ..types import SearchEngine
from ..web.middleware import HttpError, add_errors, check_token
from ..web.pages import Templates
from ..web.server import HEADERS, static_files
from .answerer import Answerer
from .dialects import DIALECTS, ONE_QUERY
from .metrics import Board
from .settings import Settings

_ERRORS: dict[int | str, dict[str, Any]] = {
    400: {"description": "The request cannot be read."},
    401: {"description": "The token is missing or wrong."},
    403: {"description": "The request comes from a page of another site."},
    408: {"description": "The request came too slowly."},
    413: {"description": "The request, or its answer, would be too large."},
    421: {"description": "The request's Host is not a name of this server."},
    422: {"description": "A field is missing, or has a wrong kind of value."},
    503: {"description": "The server is full, or ends; try again later."},
}


def add_admin(
    app: FastAPI,
    engine: SearchEngine,
    corpus: Corpus,
    answerer: Answerer,
    board: Board,
    settings: Settings,
) -> None:
    """Add ``/healthz``, ``/health`` (open to all, but only those with the token learn what is
    served), ``/stats``, ``/metrics`` and ``/openapi.json`` (with the token), and JSON bodies for
    every error of the application."""
    secret = settings.token.encode() if settings.token else None

    def allowed(request: Request) -> None:
        check_token(request.headers.raw, secret)

    guards = [Depends(allowed), *_bearer(settings)]
    guarded = APIRouter(dependencies=guards)

    def served() -> dict[str, Any]:  # with --watch, both change
        return {"engine": engine.fingerprint, "corpus": corpus.name, "passages": len(corpus)}

    @app.get("/healthz")
    @app.get("/health")
    async def health(request: Request) -> dict[str, Any]:
        """Say that the server answers."""
        try:
            allowed(request)
        except HttpError:
            return {"status": "ok"}
        return {"status": "ok", **served()}

    @cache
    def described() -> dict[str, Any]:
        routes = [*_retrieval_routes(settings), *app.routes]
        return get_openapi(title=app.title, version=app.version, routes=routes)

    @guarded.get("/openapi.json")
    async def openapi() -> dict[str, Any]:
        """This document."""
        return described()

    @guarded.get("/stats")
    async def stats() -> dict[str, Any]:
        """Counters and latencies."""
        seconds = answerer.seconds_per_query
        return {
            **board.stats(),
            "queued": answerer.batcher.queued,
            "microseconds_per_query": None if seconds is None else seconds * 1e6,
            **served(),
        }

    @guarded.get("/metrics")
    async def metrics() -> Response:
        """The same for Prometheus."""
        return Response(board.prometheus(), media_type="text/plain; version=0.0.4")

    async def unmatched(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        kind = {404: "not_found", 405: "method_not_allowed"}.get(error.status_code, "http")
        asked = f"{request.method:.20} {request.url.path:.100}"
        forms = ", ".join(f"/{name}/retrieve" for name in DIALECTS if name != "auto")
        detail = f"{error.detail}: {asked}; try POST /retrieve, {forms}, or GET /openapi.json"
        return JSONResponse({"error": kind, "detail": detail}, error.status_code, error.headers)

    add_errors(app)
    app.add_exception_handler(HTTPException, unmatched)
    app.include_router(guarded)


def add_page(app: FastAPI) -> None:
    """Add the search page at ``/`` and its files (``/static/…``)."""
    page = Templates(scripts=["search.js"]).served("search.html")
    app.router.routes.append(static_files())

    @app.get("/", response_class=HTMLResponse)
    async def index() -> HTMLResponse:
        """A page to search from a browser."""
        return HTMLResponse(page, headers=HEADERS)


def _bearer(settings: Settings) -> list[Any]:
    """Dependencies by which FastAPI describes the token; it is checked elsewhere."""
    return [Depends(HTTPBearer(auto_error=False))] if settings.token else []


def _retrieval_routes(settings: Settings) -> Iterator[APIRoute]:
    """The routes that bypass FastAPI (see ``app``), for their description alone."""
    limits = settings.limits
    text = Annotated[str, Field(max_length=limits.query_characters)]
    about = f"Passages per query; also top_k or k. At most {limits.results} for all queries."

    def route(path: str, model: Any, summary: str, told: str) -> APIRoute:
        def endpoint(body: Any) -> Any:
            raise NotImplementedError

        endpoint.__annotations__["body"] = model
        return APIRoute(
            path, endpoint, methods=["POST"], summary=summary, description=told,
            responses=_ERRORS, dependencies=_bearer(settings),
        )  # fmt: skip

    def queries(name: str, most: int) -> Any:
        fields: Any = {
            "queries": (list[text], Field([], max_length=most, description="What to look for.")),
            "query": (text, Field("", description="One query, in place of queries.")),
            "topk": (int, Field(settings.default_k, ge=1, le=limits.k, description=about)),
            "return_scores": (bool, False),
        }
        return create_model(name, **fields)

    urls: Any = (list[text], Field(max_length=limits.queries))
    pages, many, single = (
        create_model("Pages", urls=urls), queries("Queries", limits.queries),
        queries("OneQuery", 1),
    )  # fmt: skip
    for name in DIALECTS:
        prefix, spoken = ("", settings.dialect) if name == "auto" else (f"/{name}", name)
        asked = single if spoken in ONE_QUERY else many
        yield route(
            f"{prefix}/retrieve", asked, f"Search, in dialect {spoken}.",
            "JSON, or the same as a msgpack map.",
        )  # fmt: skip
        yield route(
            f"{prefix}/access", pages,
            f"The documents behind URLs that a search returned, in dialect {spoken}.",
            "Null for URLs (or titles) that are unknown.",
        )  # fmt: skip
    yield route(
        "/mcp", dict[str, Any], "The Model Context Protocol over streamable HTTP.",
        "Tools search and get_document. There are no event streams and no sessions: GET and "
        "DELETE are refused (405).",
    )  # fmt: skip
