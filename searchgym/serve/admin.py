"""Health, statistics, metrics: ordinary FastAPI routes. Importing this module imports fastapi."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Depends, FastAPI, Request, Response
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from ..corpora.corpus import Corpus
from ..types import SearchEngine
from .answering import Answerer
from .limits import HttpError, check_token
from .metrics import Board


def add_admin(
    app: FastAPI,
    engine: SearchEngine,
    corpus: Corpus,
    answerer: Answerer,
    board: Board,
    token: str | None,
) -> None:
    """Add ``/healthz``, ``/health`` (open to all), ``/stats`` and ``/metrics`` (with the token),
    and JSON bodies for every error of the application."""
    secret = token.encode() if token else None

    def allowed(request: Request) -> None:
        check_token(request.headers.raw, secret)

    guarded = APIRouter(dependencies=[Depends(allowed)])
    served = {"engine": engine.fingerprint, "corpus": corpus.name, "passages": len(corpus)}

    @app.get("/healthz")
    @app.get("/health")
    async def health() -> dict[str, Any]:
        return {"status": "ok", **served}

    @guarded.get("/stats")
    async def stats() -> dict[str, Any]:
        seconds = answerer.seconds_per_query
        return {
            **board.stats(),
            "queued": answerer.batcher.queued,
            "microseconds_per_query": None if seconds is None else seconds * 1e6,
            **served,
        }

    @guarded.get("/metrics")
    async def metrics() -> Response:
        return Response(board.prometheus(), media_type="text/plain; version=0.0.4")

    async def refused(request: Request, error: Exception) -> Response:
        assert isinstance(error, HttpError)
        headers = {name.decode(): value.decode() for name, value in error.headers}
        return Response(error.body, error.status, headers, "application/json")

    async def unmatched(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        kind = {404: "not_found", 405: "method_not_allowed"}.get(error.status_code, "http")
        detail = f"{error.detail}: {request.method} {request.url.path}; try POST /retrieve"
        return JSONResponse({"error": kind, "detail": detail}, error.status_code, error.headers)

    app.add_exception_handler(HttpError, refused)
    app.add_exception_handler(HTTPException, unmatched)
    app.include_router(guarded)
