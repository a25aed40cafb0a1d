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

from ..corpora.corpus import Corpus
from ..errors import MissingExtraError
from ..utils.version import __version__
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
_TOOLS = {
    "search": (
        "Search the corpus. Returns the best passages, each with docid, title, url, score and "
        f"snippet (the passage, at most {_SNIPPET} characters). A passage may be a part of a "
        "longer document: get_document shows all of it.",
        "query", "What to look for.", "k", "How many passages.",
    ),
    "get_document": (
        "The whole document that a passage belongs to: title, url and text, at most "
        f"{_MOST_CHARACTERS:,} characters at a time.",
        "docid", "As search returns it.",
        "start", "First character to show, to read a long text on.",
    ),
}  # fmt: skip
"""Name → description, the argument that is needed, what it is, the other one, what it is."""
_LONGEST_NAME = 256
_INVALID_REQUEST, _PARSE_ERROR = -32600, -32700


class Mcp:
    """The protocol's endpoint as an ASGI application; :meth:`run` must be entered around it.

    The package is loaded when the first client of the protocol comes: it takes a third of a
    server's start, and most servers never need it.
    """

    def __init__(
        self, answerer: Answerer, corpus: Corpus, settings: Settings, board: Board
    ) -> None:
        try:  # the version whose interface is used here
            known = version("mcp").partition(".")[0] == "2"
        except PackageNotFoundError:
            known = False
        if not known:
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

        bounds: dict[str, dict[str, Any]] = {
            "k": {"minimum": 1, "maximum": self._most_k, "default": self._k},
            "start": {"minimum": 0, "default": 0},
        }
        tools = []
        for name, (about, needed, says, also, tells) in _TOOLS.items():
            properties = {
                needed: {"type": "string", "description": says},
                also: {"type": "integer", **bounds[also], "description": tells},
            }
            schema = {"type": "object", "properties": properties, "required": [needed]}
            tools.append(Tool(name=name, description=about, input_schema=schema))
        return ListToolsResult(tools=tools)

    async def _call(self, context: Any, params: Any) -> Any:
        from mcp.shared.exceptions import MCPError
        from mcp.types import INVALID_PARAMS

        given, name = params.arguments or {}, params.name
        if name not in _TOOLS:
            told = f"unknown tool {name!r:.80}; there are {', '.join(_TOOLS)}"
            raise MCPError(INVALID_PARAMS, told)
        _, needed, _, also, _ = _TOOLS[name]
        least, most, usual = (1, self._most_k, self._k) if also == "k" else (0, 1 << 40, 0)
        value, number = given.get(needed), given.get(also, usual)
        told = ""
        if strange := sorted(set(given) - {needed, also}):
            told = f"{name} takes {needed!r} and {also!r}, not {strange[0]!r:.80}"
        elif not isinstance(value, str):
            told = f"{name} needs {needed!r}, a text"
        elif isinstance(number, bool) or not isinstance(number, int) or not least <= number <= most:
            told = f"{also!r} is a whole number from {least} to {most}, got {number!r:.40}"
        if told:
            raise MCPError(INVALID_PARAMS, told)
        if name == "search":
            return await self._search(str(value), number)
        return self._document(str(value), number)

    async def _search(self, query: str, k: int) -> Any:
        self._board.asked(1)
        try:
            texts([query], "query", self._limits)
            (ranking,) = await self._answerer.answer([query], k)
        except HttpError as error:  # the tool failed, not the protocol
            return _result(error.detail, is_error=True)
        hits = [
            {"docid": passage.id, "title": passage.title, "url": passage.url,
             "score": float(score), "snippet": contents(passage)[:_SNIPPET]}
            for passage, score in ranking
        ]  # fmt: skip
        return _result(encode_json(hits).decode(), structured_content={"result": hits})

    def _document(self, docid: str, start: int) -> Any:
        if docid not in self._corpus:
            return _result(f"there is no document {docid!r:.200}", is_error=True)
        passage = self._corpus.passage(docid)
        page = self._corpus.page(passage.url) if passage.url else None
        text = passage.text
        ids: tuple[str, ...] = (docid,)
        if page is not None and docid in page.passage_ids:
            text, ids = page.text, page.passage_ids
        document = {
            "docid": docid, "title": passage.title, "url": passage.url,
            "text": text[start : start + _MOST_CHARACTERS], "start": start,
            "characters": len(text), "passages": len(ids),
            "complete": start == 0 and len(text) <= _MOST_CHARACTERS,
        }  # fmt: skip
        return _result(encode_json(document).decode(), structured_content=document)


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


def _result(text: str, **more: Any) -> Any:
    from mcp.types import CallToolResult, TextContent

    return CallToolResult(content=[TextContent(type="text", text=text)], **more)
