"""The FastAPI application: retrieval routes as bare ASGI callables, the rest as usual.

FastAPI's own handling of a request (validation models, dependencies, response classes) makes the
server a quarter slower. The routes that carry the load are therefore ASGI callables beside the
application's own routes, with checks of their own; FastAPI describes them in ``/openapi.json``.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from ..batching import run_batch
from ..corpora.corpus import Corpus
from ..engines.pages import CorpusPages, pages_of
from ..errors import MissingExtraError
from ..types import CallContext, Failure, Page, PageRequest, PageSource, SearchEngine
from ..utils.version import __version__
from ..web.middleware import (
    JSON_TYPE,
    HostCheck,
    HttpError,
    Scope,
    check_token,
    defect,
    read_body,
    refuse,
    respond,
)
from .answerer import Answerer
from .dialects import (
    DIALECTS,
    ResponseWriter,
    answer_too_large,
    decode,
    encode_json,
    reader,
    text_bytes,
    texts,
)
from .mcp import Mcp
from .metrics import Board
from .settings import Settings

if TYPE_CHECKING:
    from fastapi import FastAPI

LOG = logging.getLogger("searchgym.serve")
_PACKED_TYPE = (b"content-type", b"application/msgpack")
_PAGE_CONTEXT = CallContext(0, "", {})
LAST_CALLS_S = 2.0
"""Seconds that a stopping server waits for engine calls whose requests were given up."""
LARGE_AT_ONCE = 4
"""Number of answers of the largest size that may be in memory at the same time."""
LARGE = 256 << 10
"""Answers from this size on are encoded in a thread and sent in pieces."""


class Large(NamedTuple):
    """An answer that is yet to be encoded."""

    size: int
    """Approximate number of bytes."""
    encode: Callable[[], bytes]


Reply = tuple[int, bytes | Large, tuple[bytes, bytes], int]
"""Status, body (or how to encode it), content type header, number of queries answered."""


Handler = Callable[[Scope, Any, Any], Awaitable[tuple[int, int]]]
"""Answers an ASGI request; status and number of queries answered."""


class Outbox:
    """Room for large answers, first come, first served: ``most`` bytes at a time."""

    def __init__(self, most: int, patience_s: float) -> None:
        self.free = self.most = most
        self._patience = patience_s
        self._line, self._freed = asyncio.Lock(), asyncio.Event()

    @asynccontextmanager
    async def room(self, size: int) -> AsyncIterator[None]:
        """Wait until there is room for ``size`` bytes (503 if that takes too long); hold it."""
        size = min(size, self.most)
        try:
            async with asyncio.timeout(self._patience), self._line:
                while size > self.free:
                    self._freed.clear()
                    await self._freed.wait()
                self.free -= size
        except TimeoutError:
            raise HttpError(
                503, "busy", "other large answers are being sent; ask for less, or later",
                ((b"retry-after", b"1"),),
            ) from None  # fmt: skip
        try:
            yield
        finally:
            self.free += size
            self._freed.set()


def whole(answer: Callable[[bytes], Awaitable[Reply]], most: int, outbox: Outbox) -> Handler:
    """A handler that reads a body of at most ``most`` bytes, then answers it. Large answers are
    encoded in a thread, as many at a time as fit into ``outbox``."""

    async def handle(scope: Scope, receive: Any, send: Any) -> tuple[int, int]:
        status, reply, kind, queries = await answer(await read_body(scope, receive, most))
        if isinstance(reply, bytes):
            await respond(send, status, reply, (kind,))
            return status, queries
        async with outbox.room(reply.size):
            body = memoryview(await asyncio.to_thread(reply.encode))
            sized = [kind, (b"content-length", b"%d" % len(body))]
            await send({"type": "http.response.start", "status": status, "headers": sized})
            for at in range(
                0, len(body), LARGE
            ):  # each piece once the client has taken those before
                piece = bytes(body[at : at + LARGE])
                await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
        return status, queries

    return handle


def foreign(app: Callable[[Scope, Any, Any], Awaitable[None]]) -> Handler:
    """A handler that leaves all to an ASGI application, which counts its queries itself."""

    async def handle(scope: Scope, receive: Any, send: Any) -> tuple[int, int]:
        status = 500

        async def noted(message: Any) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        await app(scope, receive, noted)
        return status, 0

    return handle


class Route:
    """An ASGI callable that answers and counts; errors become JSON."""

    def __init__(self, name: str, handler: Handler, board: Board, token: str | None) -> None:
        self.name, self._handler, self._board = name, handler, board
        self._token = token.encode() if token else None

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        start = time.perf_counter_ns()
        self._board.request()
        status, queries = 500, 0
        try:
            if self._token is not None:
                check_token(scope["headers"], self._token)
            status, queries = await self._handler(scope, receive, send)
        except HttpError as error:
            status = error.status
            await refuse(send, error)
        except asyncio.CancelledError:  # by the server, when it has been told to end for long
            status = 503
            gone = "the server ends, and the engine has not answered in time"
            await refuse(send, HttpError(503, "shutting_down", gone))
        except Exception as error:
            LOG.exception("%s failed", self.name)
            await refuse(send, defect(error))
        finally:
            self._board.done(self.name, status, time.perf_counter_ns() - start, queries)


def build_app(
    engine: SearchEngine,
    corpus: Corpus,
    settings: Settings,
    *,
    board: Board | None = None,
    pages: PageSource | None = None,
    method: str = "engine",
) -> FastAPI:
    """The application over a ready engine; ``method`` is what rLLM's dialect calls it."""
    try:
        import fastapi
        from starlette.routing import Route as StarletteRoute

        from .routes import add_admin, add_page
    except ImportError as error:
        raise MissingExtraError("the server (fastapi)", "serve") from error
    board = board or Board()
    answerer = Answerer(engine, corpus, board, settings)
    writer = ResponseWriter(method, settings.limits.response_bytes)
    tools = Mcp(answerer, corpus, settings, board)
    outbox = Outbox(LARGE_AT_ONCE * settings.limits.response_bytes, settings.deadline_s)
    limits, source = settings.limits, pages or pages_of(engine, CorpusPages(corpus))

    @asynccontextmanager
    async def lifespan(app: Any) -> AsyncIterator[None]:
        async with tools.run():
            board.ready()
            yield
            board.ready(False)
        # By now everybody has his answer; calls of the engine that still run are for nobody.
        if not await answerer.close(LAST_CALLS_S):
            LOG.warning("calls of the engine that did not end were given up")

    app = fastapi.FastAPI(
        title="SearchGym search server", version=__version__, lifespan=lifespan,
        docs_url=None, redoc_url=None,  # their pages load scripts from elsewhere
        openapi_url=None,  # ours is guarded
    )  # fmt: skip
    app.add_middleware(HostCheck, hosts=settings.hosts)
    app.state.board, app.state.answerer = board, answerer

    def retrieval(name: str) -> Callable[[bytes], Awaitable[Reply]]:
        read = reader(name, limits, settings.default_k)

        async def retrieve(body: bytes) -> Reply:
            queries, k, shape, packed = read(body)
            rankings = await answerer.answer(queries, k)
            kind = _PACKED_TYPE if packed else JSON_TYPE
            size = writer.estimate(shape, rankings)
            if size < LARGE:
                return 200, writer.write(shape, packed, queries, rankings), kind, len(queries)
            encode = partial(writer.write, shape, packed, queries, rankings)
            return 200, Large(size, encode), kind, len(queries)

        return retrieve

    def accessing(name: str) -> Callable[[bytes], Awaitable[Reply]]:
        as_record = name == "asearcher"

        async def access(body: bytes) -> Reply:
            asked = decode(body, False)
            if "urls" not in asked:
                raise HttpError(422, "no_urls", "the request needs 'urls', a list of texts")
            urls = texts(asked["urls"], "urls", limits)
            requests = [PageRequest(url, _PAGE_CONTEXT) for url in urls]
            if isinstance(source, CorpusPages):  # from memory; other sources may wait for a network
                opened = run_batch(source, requests)
            else:
                opened = await asyncio.to_thread(run_batch, source, requests)
            for page in opened:
                if isinstance(page, Failure):
                    raise HttpError(503, page.kind, page.message)
            size = text_bytes(page.text for page in opened if page)
            if size > limits.response_bytes:
                raise answer_too_large(limits.response_bytes)
            shown = {
                "result": [page and (_record(page) if as_record else page.text) for page in opened]
            }
            if size < LARGE:
                return 200, encode_json(shown), JSON_TYPE, 0
            return 200, Large(size, partial(encode_json, shown)), JSON_TYPE, 0

        return access

    def add(path: str, kind: str, handler: Handler, methods: Sequence[str] = ("POST",)) -> None:
        route = Route(kind, handler, board, settings.token)
        app.router.routes.append(StarletteRoute(path, route, methods=methods))

    for name in DIALECTS:
        prefix = "" if name == "auto" else f"/{name}"
        spoken = name if prefix else settings.dialect
        add(f"{prefix}/retrieve", "retrieve", whole(retrieval(spoken), limits.body_bytes, outbox))
        add(f"{prefix}/access", "access", whole(accessing(spoken), limits.body_bytes, outbox))
    add("/mcp", "mcp", foreign(tools), ("GET", "POST", "DELETE"))

    add_admin(app, engine, corpus, answerer, board, settings)
    add_page(app)
    return app


def _record(page: Page) -> dict[str, str]:
    """ASearcher's own client reads ``contents`` of each page."""
    return {"url": page.url, "title": page.title, "contents": page.text}
