"""The Model Context Protocol over streamable HTTP by the ``mcp`` package: two tools, ``search`` and
``get_document``, with the names and fields of BrowseComp-Plus. Without sessions or event streams.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from .._version import __version__
from ..corpora.corpus import Corpus
from ..errors import MissingExtraError
from ..web.middleware import HttpError, Scope, read_before, read_body, respond
from .answerer import Answerer
from .dialects import contents, encode_json, texts
from .metrics import Board
from .settings import Settings

_SNIPPET = 2000
_MOST_K = 100
"""Maximum passages per search; a model's context has no room for more."""
_MOST_CHARACTERS = 100_000
"""Maximum characters of a document at a time."""
_LONGEST_NAME = 256
_INVALID_REQUEST, _PARSE_ERROR = -32600, -32700


def _installed() -> bool:
    """Return whether the package is there, in the version whose interface is used here."""
    try:
        return version("mcp").partition(".")[0] == "2"
    except PackageNotFoundError:
        return False


class Mcp:
    """The protocol's endpoint as an ASGI application; :meth:`run` must be entered around it.

    The package is loaded when the first client of the protocol comes: it takes a third of a
    server's start, and most servers never need it.
    """

    def __init__(
        self,
        answerer: Answerer,
        corpus: Corpus,
        settings: Settings,
        board: Board,
    ) -> None:
        if not _installed():
            raise MissingExtraError("the server's tools (mcp)", "serve")
        self._answerer, self._corpus, self._board = answerer, corpus, board
        self._limits = settings.limits
        self._k = min(settings.default_k, _MOST_K)
        self._most_k = min(settings.limits.k, _MOST_K)
        self._asked = asyncio.Event()
        self._manager: asyncio.Future[Any]

    def _make(self) -> Any:
        from mcp.server.lowlevel import Server
        from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
        from mcp.server.transport_security import TransportSecuritySettings

        server = Server(
            "searchgym", version=__version__, on_list_tools=self._list, on_call_tool=self._call
        )
        return StreamableHTTPSessionManager(
            server,
            stateless=True,
            json_response=True,
            max_request_body_size=self._limits.body_bytes,
            # foreign hosts and origins are refused before, for all routes (``HostCheck``)
            security_settings=TransportSecuritySettings(enable_dns_rebinding_protection=False),
        )

    @asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        """Return the context in which the application runs; it can be entered once only."""
        self._manager = asyncio.get_running_loop().create_future()
        running = asyncio.create_task(self._run())
        try:
            yield
        finally:
            self._manager.cancel()
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    async def _run(self) -> None:
        """Wait for the first request, then run what answers them. One task must enter and leave
        it, which is why no request does."""
        await self._asked.wait()
        try:
            manager = await asyncio.to_thread(self._make)  # others are answered meanwhile
        except Exception as error:
            self._manager.set_exception(error)
            return
        async with manager.run():
            self._manager.set_result(manager)
            await asyncio.Event().wait()

    async def _handle(self, scope: Scope, receive: Any, send: Any) -> None:
        self._asked.set()
        manager = await asyncio.shield(self._manager)  # a client that leaves cancels no other's
        await manager.handle_request(scope, receive, send)

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        if scope["method"] != "POST":
            await self._handle(scope, receive, send)
            return
        body = await read_body(scope, receive, self._limits.body_bytes)
        if (wrong := _wrong(scope, body)) is not None:
            status, code, message = wrong
            error = {"code": code, "message": message}
            answer = {"jsonrpc": "2.0", "id": None, "error": error}
            await respond(send, status, encode_json(answer))
            return
        await self._handle(scope, read_before(body, receive), send)

    async def _list(self, context: Any, params: Any) -> Any:
        from mcp.types import ListToolsResult, Tool

        def tool(name: str, about: str, needed: str, properties: dict[str, Any]) -> Tool:
            schema = {"type": "object", "properties": properties, "required": [needed]}
            return Tool(name=name, description=about, input_schema=schema)

        return ListToolsResult(
            tools=[
                tool(
                    "search",
                    "Search the corpus. Returns the best passages, each with docid, title, url, "
                    f"score and snippet (the passage, at most {_SNIPPET} characters). A passage "
                    "may be a part of a longer document: get_document shows all of it.",
                    "query",
                    {
                        "query": {"type": "string", "description": "What to look for."},
                        "k": {
                            "type": "integer", "minimum": 1, "maximum": self._most_k,
                            "default": self._k, "description": "How many passages.",
                        },
                    },
                ),
                tool(
                    "get_document",
                    "The whole document that a passage belongs to: title, url and text, at most "
                    f"{_MOST_CHARACTERS:,} characters at a time.",
                    "docid",
                    {
                        "docid": {"type": "string", "description": "As search returns it."},
                        "start": {
                            "type": "integer", "minimum": 0, "default": 0,
                            "description": "First character to show, to read a long text on.",
                        },
                    },
                ),
            ]
        )  # fmt: skip

    async def _call(self, context: Any, params: Any) -> Any:
        from mcp.shared.exceptions import MCPError
        from mcp.types import INVALID_PARAMS

        given = params.arguments or {}
        known = {"search": ("query", "k", self._k), "get_document": ("docid", "start", 0)}
        if params.name not in known:
            names = ", ".join(known)
            raise MCPError(INVALID_PARAMS, f"unknown tool {params.name!r:.80}; there are {names}")
        needed, also, default = known[params.name]
        for name in given:
            if name not in (needed, also):
                said = f"{params.name} takes {needed!r} and {also!r}, not {name!r:.80}"
                raise MCPError(INVALID_PARAMS, said)
        value, number = given.get(needed), given.get(also, default)
        if not isinstance(value, str):
            raise MCPError(INVALID_PARAMS, f"{params.name} needs {needed!r}, a text")
        least, most = (1, self._most_k) if also == "k" else (0, 1 << 40)
        if isinstance(number, bool) or not isinstance(number, int) or not least <= number <= most:
            said = f"{also!r} is a whole number from {least} to {most}, got {number!r:.40}"
            raise MCPError(INVALID_PARAMS, said)
        if params.name == "search":
            return await self._search(value, number)
        return self._document(value, number)

    async def _search(self, query: str, k: int) -> Any:
        self._board.asked(1)
        try:
            texts([query], "query", self._limits)
            (ranking,) = await self._answerer.answer([query], k)
        except HttpError as error:  # the tool failed, not the protocol
            return _failed(error.detail)
        hits = []
        for passage, score in ranking:
            hits.append(
                {"docid": passage.id, "title": passage.title, "url": passage.url,
                 "score": float(score), "snippet": contents(passage)[:_SNIPPET]}
            )  # fmt: skip
        return _result(hits, {"result": hits})

    def _document(self, docid: str, start: int) -> Any:
        if docid not in self._corpus:
            return _failed(f"there is no document {docid!r:.200}")
        passage = self._corpus.passage(docid)
        page = self._corpus.page(passage.url) if passage.url else None
        whole = page is not None and docid in page.passage_ids
        text = page.text if page is not None and whole else passage.text
        ids = page.passage_ids if page is not None and whole else (docid,)
        document = {
            "docid": docid, "title": passage.title, "url": passage.url,
            "text": text[start : start + _MOST_CHARACTERS], "start": start,
            "characters": len(text), "passages": len(ids),
            "complete": start == 0 and len(text) <= _MOST_CHARACTERS,
        }  # fmt: skip
        return _result(document, document)


def _wrong(scope: Scope, body: bytes) -> tuple[int, int, str] | None:
    """Find what is wrong with a message: status, JSON-RPC's code and a sentence. What is not JSON
    (NaN), and ids and names that would be repeated in the answer whatever they are, are refused."""
    kinds = [value for name, value in scope["headers"] if name == b"content-type"]
    if not kinds or kinds[0].split(b";")[0].strip().lower() != b"application/json":
        return 400, _INVALID_REQUEST, "the Content-Type must be application/json"
    try:
        message = json.loads(body, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return 400, _PARSE_ERROR, "the body is not JSON"
    if not isinstance(message, dict):
        return 400, _INVALID_REQUEST, "the body must be one JSON-RPC message, an object"
    known = message.get("id", 0)
    numeric = isinstance(known, int) and not isinstance(known, bool) and abs(known) < 1 << 63
    if not numeric and not (isinstance(known, str) and len(known) <= _LONGEST_NAME):
        return 400, _INVALID_REQUEST, "an id is a whole number or a short text"
    method = message.get("method", "")
    if not isinstance(method, str) or len(method) > _LONGEST_NAME:
        return 400, _INVALID_REQUEST, "a method is a short text"
    return None


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def _result(value: Any, structured: dict[str, Any]) -> Any:
    from mcp.types import CallToolResult, TextContent

    text = TextContent(type="text", text=encode_json(value).decode())
    return CallToolResult(content=[text], structured_content=structured)


def _failed(message: str) -> Any:
    from mcp.types import CallToolResult, TextContent

    return CallToolResult(content=[TextContent(type="text", text=message)], is_error=True)
