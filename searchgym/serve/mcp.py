"""The Model Context Protocol over streamable HTTP by the ``mcp`` package: two tools, ``search`` and
``get_document``, with the names and fields of BrowseComp-Plus. Without sessions or event streams.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Any

from .. import __version__
from ..corpora.corpus import Corpus
from ..errors import MissingExtraError
from .answering import Answerer
from .asking import texts
from .dialects import contents
from .documents import encode_json
from .limits import HttpError, Scope
from .metrics import Board
from .settings import LOOPBACK, Settings

_SNIPPET = 2000
_TOOLS = {
    "search": (
        "query", "What to look for.",
        "Search the corpus; returns docid, score and snippet of the best passages.",
    ),
    "get_document": (
        "docid", "As search returns it.", "The full text of a document by its docid.",
    ),
}  # fmt: skip
"""Name → its one argument, what that is, what the tool does."""


class Mcp:
    """The protocol's endpoint as an ASGI application; :meth:`run` must be entered around it.

    On this machine and without a token, requests of foreign web pages are refused by their Host and
    Origin (DNS rebinding); elsewhere the token is what protects.
    """

    def __init__(
        self, answerer: Answerer, corpus: Corpus, settings: Settings, board: Board
    ) -> None:
        try:
            from mcp.server.lowlevel import Server
            from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
            from mcp.server.transport_security import TransportSecuritySettings
        except ImportError as error:
            raise MissingExtraError("the server's tools (mcp)", "serve") from error

        self._answerer, self._corpus, self._board = answerer, corpus, board
        self._k, self._limits = settings.default_k, settings.limits
        names = [f"[{name}]" if ":" in name else name for name in sorted(LOOPBACK)]
        hosts = [host for name in names for host in (name, f"{name}:*")]
        server = Server(
            "searchgym", version=__version__, on_list_tools=self._list, on_call_tool=self._call
        )
        self._manager = StreamableHTTPSessionManager(
            server,
            stateless=True,
            json_response=True,
            max_request_body_size=settings.limits.body_bytes,
            security_settings=TransportSecuritySettings(
                enable_dns_rebinding_protection=settings.host in LOOPBACK and not settings.token,
                allowed_hosts=hosts,
                allowed_origins=[f"http://{host}" for host in hosts],
            ),
        )

    def run(self) -> AbstractAsyncContextManager[None]:
        """Return the context in which the application runs; it can be entered once only."""
        return self._manager.run()

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        await self._manager.handle_request(scope, receive, send)

    async def _list(self, context: Any, params: Any) -> Any:
        from mcp.types import ListToolsResult, Tool

        return ListToolsResult(
            tools=[
                Tool(
                    name=name,
                    description=description,
                    input_schema={
                        "type": "object",
                        "properties": {argument: {"type": "string", "description": meaning}},
                        "required": [argument],
                    },
                )
                for name, (argument, meaning, description) in _TOOLS.items()
            ]
        )

    async def _call(self, context: Any, params: Any) -> Any:
        from mcp.shared.exceptions import MCPError
        from mcp.types import INVALID_PARAMS

        if params.name not in _TOOLS:
            known = ", ".join(_TOOLS)
            raise MCPError(INVALID_PARAMS, f"unknown tool {params.name!r:.80}; there are {known}")
        argument = _TOOLS[params.name][0]
        value = (params.arguments or {}).get(argument)
        if not isinstance(value, str):
            raise MCPError(INVALID_PARAMS, f"{params.name} needs {argument!r}, a text")
        return await self._search(value) if params.name == "search" else self._document(value)

    async def _search(self, query: str) -> Any:
        self._board.asked(1)
        try:
            texts([query], "query", self._limits)
            (ranking,) = await self._answerer.answer([query], self._k)
        except HttpError as error:  # the tool failed, not the protocol
            return _failed(error.detail)
        hits = [
            {"docid": p.id, "score": float(score), "snippet": contents(p)[:_SNIPPET]}
            for p, score in ranking
        ]
        return _result(hits, {"result": hits})

    def _document(self, docid: str) -> Any:
        if docid not in self._corpus:
            return _failed(f"there is no document {docid!r:.200}")
        passage = self._corpus.passage(docid)
        document = {"docid": docid, "text": contents(passage), "url": passage.url}
        return _result(document, document)


def _result(value: Any, structured: dict[str, Any]) -> Any:
    from mcp.types import CallToolResult, TextContent

    text = TextContent(type="text", text=encode_json(value).decode())
    return CallToolResult(content=[text], structured_content=structured)


def _failed(message: str) -> Any:
    from mcp.types import CallToolResult, TextContent

    return CallToolResult(content=[TextContent(type="text", text=message)], is_error=True)
