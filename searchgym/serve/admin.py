"""Health, statistics, metrics: ordinary FastAPI routes. Importing this module imports fastapi."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Depends, FastAPI, Request, Response
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from ..corpora.corpus import Corpus
from ..types import SearchEngine
from .answering import Answerer
from .guard import add_errors
from .limits import HttpError, check_token
from .metrics import Board
from .openapi import describe
from .settings import Settings


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
    described = describe(settings)

    def allowed(request: Request) -> None:
        check_token(request.headers.raw, secret)

    guarded = APIRouter(dependencies=[Depends(allowed)])

    def served() -> dict[str, Any]:  # with --watch, both change
        return {"engine": engine.fingerprint, "corpus": corpus.name, "passages": len(corpus)}

    @app.get("/healthz")
    @app.get("/health")
    async def health(request: Request) -> dict[str, Any]:
        try:
            allowed(request)
        except HttpError:
            return {"status": "ok"}
        return {"status": "ok", **served()}

    @guarded.get("/openapi.json")
    async def openapi() -> dict[str, Any]:
        return described

    @guarded.get("/stats")
    async def stats() -> dict[str, Any]:
        seconds = answerer.seconds_per_query
        return {
            **board.stats(),
            "queued": answerer.batcher.queued,
            "microseconds_per_query": None if seconds is None else seconds * 1e6,
            **served(),
        }

    @guarded.get("/metrics")
    async def metrics() -> Response:
        return Response(board.prometheus(), media_type="text/plain; version=0.0.4")

    async def unmatched(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        kind = {404: "not_found", 405: "method_not_allowed"}.get(error.status_code, "http")
        asked = f"{request.method:.20} {request.url.path:.100}"
        detail = f"{error.detail}: {asked}; try POST /retrieve, or GET /openapi.json"
        return JSONResponse({"error": kind, "detail": detail}, error.status_code, error.headers)

    add_errors(app)
    app.add_exception_handler(HTTPException, unmatched)
    app.include_router(guarded)
