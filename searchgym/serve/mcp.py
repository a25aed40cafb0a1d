"""The Model Context Protocol over HTTP, as far as two tools need it: ``search`` and
``get_document``, with the names and fields of BrowseComp-Plus.

Stateless: every POST holds one JSON-RPC message and is answered at once, without sessions or event
streams (the "streamable HTTP" transport allows that).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .. import __version__
from ..corpora.corpus import Corpus
from .answering import Answerer
from .asking import decode, texts
from .dialects import contents
from .documents import encode_json
from .limits import JSON_TYPE, HttpError, Limits

VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26")
"""Protocol versions spoken, newest first."""
_SNIPPET = 2000
_BAD_REQUEST, _NO_METHOD, _BAD_PARAMS = -32600, -32601, -32602

TOOLS = [
    {
        "name": "search",
        "description": "Search the corpus; returns docid, score and snippet of the best passages.",
        "inputSchema": {
            "type": "object",
            "properties": {"query": {"type": "string", "description": "What to look for."}},
            "required": ["query"],
        },
    },
    {
        "name": "get_document",
        "description": "The full text of a document by its docid.",
        "inputSchema": {
            "type": "object",
            "properties": {"docid": {"type": "string", "description": "As search returns it."}},
            "required": ["docid"],
        },
    },
]


class _RpcError(Exception):
    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class Mcp:
    """Answers one JSON-RPC message."""

    def __init__(self, answerer: Answerer, corpus: Corpus, k: int, limits: Limits) -> None:
        self._answerer, self._corpus, self._k, self._limits = answerer, corpus, k, limits

    async def answer(self, body: bytes) -> tuple[int, bytes, tuple[bytes, bytes], int]:
        """Status, body, content type, number of queries."""
        message = decode(body, False)
        if "id" not in message:  # a notification: nothing is answered
            return 202, b"", JSON_TYPE, 0
        head = {"jsonrpc": "2.0", "id": message["id"]}
        queries = 0
        try:
            if message.get("jsonrpc") != "2.0" or not isinstance(message.get("method"), str):
                raise _RpcError(_BAD_REQUEST, "not a JSON-RPC 2.0 request")
            params = message.get("params") or {}
            if not isinstance(params, dict):
                raise _RpcError(_BAD_PARAMS, "params must be an object")
            result, queries = await self._call(message["method"], params)
        except _RpcError as error:
            shown = {"code": error.code, "message": str(error)}
            return 200, encode_json({**head, "error": shown}), JSON_TYPE, 0
        return 200, encode_json({**head, "result": result}), JSON_TYPE, queries

    async def _call(self, method: str, params: Mapping[str, Any]) -> tuple[Any, int]:
        if method == "initialize":
            asked = params.get("protocolVersion")
            return {
                "protocolVersion": asked if asked in VERSIONS else VERSIONS[0],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "searchgym", "version": __version__},
            }, 0
        if method == "ping":
            return {}, 0
        if method == "tools/list":
            return {"tools": TOOLS}, 0
        if method != "tools/call":
            raise _RpcError(_NO_METHOD, f"unknown method {method!r}")
        name, given = params.get("name"), params.get("arguments") or {}
        wanted = {"search": "query", "get_document": "docid"}.get(str(name))
        if wanted is None:
            raise _RpcError(_BAD_PARAMS, f"unknown tool {name!r}; there are search, get_document")
        value = given.get(wanted) if isinstance(given, dict) else None
        if not isinstance(value, str):
            raise _RpcError(_BAD_PARAMS, f"{name} needs {wanted!r}, a text")
        if name == "search":
            return await self._search(value), 1
        return self._document(value), 0

    async def _search(self, query: str) -> dict[str, Any]:
        try:
            texts([query], "query", self._limits)
            (ranking,) = await self._answerer.answer([query], self._k)
        except HttpError as error:  # the tool failed, not the protocol
            return _tool_error(error.detail)
        found = [
            {"docid": p.id, "score": float(score), "snippet": contents(p)[:_SNIPPET]}
            for p, score in ranking
        ]
        return _tool_result(found)

    def _document(self, docid: str) -> dict[str, Any]:
        if docid not in self._corpus:
            return _tool_error(f"there is no document {docid!r}")
        passage = self._corpus.passage(docid)
        return _tool_result({"docid": docid, "text": contents(passage), "url": passage.url})


def _tool_result(value: Any) -> dict[str, Any]:
    shown = value if isinstance(value, dict) else {"result": value}
    return {
        "content": [{"type": "text", "text": encode_json(value).decode()}],
        "structuredContent": shown,
        "isError": False,
    }


def _tool_error(message: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": message}], "isError": True}
