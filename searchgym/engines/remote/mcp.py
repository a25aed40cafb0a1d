"""A search tool behind the Model Context Protocol (streamable HTTP), as BrowseComp-Plus serves it:
``search(query)`` gives ``[{"docid", "score", "snippet"}]``, ``get_document(docid)`` a document.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ...types import Failure
from ...utils.http import Client, HttpFailure, HttpRequest, HttpResponse
from .formats import Malformed, RawHit, field, parse_json, passage_of, score_of

VERSION = "2025-03-26"
_LINE = re.compile(r"\r\n|\r|\n")
_HEADERS = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}


class McpSession:
    """Calls tools of one server; connects when first used, and again when the session expired."""

    def __init__(self, client: Client, url: str, headers: Mapping[str, str]) -> None:
        self.client, self.url = client, url
        self._headers = {**_HEADERS, **headers}
        self._session: dict[str, str] | None = None
        self._opening: tuple[asyncio.AbstractEventLoop, asyncio.Lock] | None = None
        self._number = 0

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> Any | HttpFailure:
        """The tool's result as JSON value or text; ``Malformed`` if it is neither."""
        expired: dict[str, str] | None = None
        while True:
            opened = await self._open(expired)
            if isinstance(opened, HttpFailure):
                return opened
            params = {"name": tool, "arguments": dict(arguments)}
            reply = await self._post("tools/call", params, opened)
            if isinstance(reply, HttpFailure) and reply.status == 404 and expired is None:
                expired = opened  # the server forgot the session
                continue
            break
        if isinstance(reply, HttpFailure):
            return reply
        return _content(reply[0])

    async def _open(self, expired: dict[str, str] | None) -> dict[str, str] | HttpFailure:
        """Headers of an initialised session other than ``expired``.

        Calls under way together expire together: the first opens the session that all then use.
        """
        loop = asyncio.get_running_loop()
        if self._opening is None or self._opening[0] is not loop:  # another one after a fork
            self._opening = (loop, asyncio.Lock())
        async with self._opening[1]:
            if self._session is not None and self._session is not expired:
                return self._session
            hello = {
                "protocolVersion": VERSION, "capabilities": {},
                "clientInfo": {"name": "searchgym", "version": "0"},
            }  # fmt: skip
            reply = await self._post("initialize", hello, {})
            if isinstance(reply, HttpFailure):
                return reply
            headers = {"MCP-Protocol-Version": str(reply[0].get("protocolVersion", VERSION))}
            if "mcp-session-id" in reply[1]:
                headers["Mcp-Session-Id"] = reply[1]["mcp-session-id"]
            note = {"jsonrpc": "2.0", "method": "notifications/initialized"}
            sent = await self._send(note, headers)
            if isinstance(sent, HttpFailure):
                return sent
            self._session = headers
            return headers

    async def _send(
        self, message: Mapping[str, Any], headers: Mapping[str, str]
    ) -> HttpResponse | HttpFailure:
        body = json.dumps(message).encode("ascii")
        merged = {**self._headers, **headers}
        return await self.client.send(HttpRequest("POST", self.url, body, merged))

    async def _post(
        self, method: str, params: Mapping[str, Any], headers: Mapping[str, str]
    ) -> tuple[dict[str, Any], Mapping[str, str]] | HttpFailure:
        """One JSON-RPC request; its result, and the response's headers."""
        self._number += 1
        number = self._number
        body = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        reply = await self._send(body, headers)
        if isinstance(reply, HttpFailure):
            return reply
        message = _message(reply, number)
        if "error" in message:
            text = f"{self.url}: {method}: {message['error']!r:.200}"
            return HttpFailure(Failure("rejected", text, retryable=False), 400)
        return field(message, "result", dict), reply.headers


def _message(reply: HttpResponse, number: int) -> dict[str, Any]:
    """The response to request ``number``, from JSON or from a stream of events."""
    stream = reply.headers.get("content-type", "").lower().startswith("text/event-stream")
    texts: Iterable[Any] = [reply.body]
    if stream:
        texts = filter(str.strip, _events(reply.body.decode("utf-8-sig", "replace")))
    data = None
    for text in texts:
        try:
            data = parse_json(text)
        except Malformed:
            if not stream:
                raise
            data = text  # what a proxy puts between: "ping", "[DONE]"
        for message in data if isinstance(data, list) else [data]:
            if (
                isinstance(message, dict)
                and message.get("id") == number
                and "method" not in message
            ):
                return message
    raise Malformed(f"expected the response to request {number}, got {data!r:.80}")


def _events(text: str) -> Iterator[str]:
    """Data of the messages in a stream of server-sent events (WHATWG's HTML standard, 9.2). One
    that the end cuts is given, too: some servers leave the last blank line out."""
    kind, data = "", list[str]()
    for line in [*_LINE.split(text), ""]:
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            data.append(value)
        elif name == "event":
            kind = value
        elif not line:
            if kind in ("", "message"):
                yield "\n".join(data)
            kind, data = "", []


def _content(result: Mapping[str, Any]) -> Any:
    """Read a tool's result: structured content, else its text (as JSON where it is)."""
    if result.get("isError"):
        raise Malformed(f"the tool failed: {result.get('content')!r:.200}")
    structured = result.get("structuredContent")
    if isinstance(structured, dict):
        return structured.get("result", structured)
    parts = field(result, "content", list)
    texts = [p["text"] for p in parts if isinstance(p, dict) and isinstance(p.get("text"), str)]
    values = []
    for text in texts:
        try:
            values.append(json.loads(text))
        except (ValueError, RecursionError):
            values.append(text)
    if len(values) == 1:
        return values[0]
    return values  # some servers send one part per result


def found(data: Any, address: Any) -> list[RawHit]:
    """Results of the search tool; ``address(docid)`` is where each can be opened."""
    if isinstance(data, dict):
        data = [data] if "docid" in data else data.get("results")
    if not isinstance(data, list):
        raise Malformed(f"expected a list of results, got {data!r:.80}")
    out = []
    for item in data:
        if not isinstance(item, dict) or not isinstance(item.get("docid"), (str, int)):
            raise Malformed(f"expected a result with a docid, got {item!r:.80}")
        document = {"text": item.get("snippet", item.get("text"))}
        if "title" in item:
            document["title"] = item["title"]
            heading = f'"{item["title"]}"\n'  # some repeat the title in the snippet
            if isinstance(document["text"], str):
                document["text"] = document["text"].removeprefix(heading)
        url = address(str(item["docid"]))
        out.append(RawHit(passage_of(document, item["docid"], url), score_of(item.get("score"))))
    return out
