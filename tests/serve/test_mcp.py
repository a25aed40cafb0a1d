"""The Model Context Protocol by the official client, and by hand what it would never send."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import httpx2
import pytest
from mcp import ClientSession, MCPError
from mcp.client.streamable_http import streamable_http_client

from searchgym.corpora import Corpus
from searchgym.engines import BM25Engine
from searchgym.serve import Settings
from searchgym.serve.mcp import Mcp

from .conftest import DEFAULT, client_of
from .engines import FailingEngine

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]
HELLO = {
    "jsonrpc": "2.0", "id": 7, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {},
        "clientInfo": {"name": "by hand", "version": "0"}}}  # fmt: skip


@asynccontextmanager
async def session_of(
    engine: Any, corpus: Corpus, settings: Settings = DEFAULT
) -> AsyncIterator[tuple[ClientSession, httpx.AsyncClient]]:
    """The official client's session with the application, and a plain client of it."""
    headers = {"authorization": f"Bearer {settings.token}"} if settings.token else {}
    async with client_of(engine, corpus, settings) as plain:
        app = plain.app  # type: ignore[attr-defined]
        async with (
            httpx2.AsyncClient(transport=httpx2.ASGITransport(app), headers=headers) as http,
            streamable_http_client("http://127.0.0.1:8000/mcp", http_client=http) as streams,
            ClientSession(*streams[:2]) as session,
        ):
            yield session, plain


async def test_a_session_from_greeting_to_document(engine: BM25Engine, corpus: Corpus) -> None:
    async with session_of(engine, corpus) as (session, plain):
        hello = await session.initialize()
        assert hello.server_info.name == "searchgym"
        assert hello.capabilities.tools is not None
        await session.send_ping()
        tools = (await session.list_tools()).tools
        assert [t.name for t in tools] == ["search", "get_document"]
        assert tools[0].input_schema["required"] == ["query"]
        found = await session.call_tool("search", {"query": "blue house"})
        items = json.loads(found.content[0].text)  # type: ignore[union-attr]
        assert items == found.structured_content["result"]  # type: ignore[index]
        assert set(items[0]) == {"docid", "title", "url", "score", "snippet"}
        ranking = engine.search(["blue house"], 3)[0]
        assert [(i["docid"], i["score"]) for i in items] == [
            (h.passage.id, h.score) for h in ranking
        ]
        got = await session.call_tool("get_document", {"docid": "p2"})
        assert "It stands in Zürich." in json.loads(got.content[0].text)["text"]  # type: ignore[union-attr]
        stats = (await plain.get("/stats")).json()
        assert stats["queries"] == 1
        assert set(stats["responses"]) <= {"200", "202", "405"}  # 405: there is no event stream


async def test_mistakes_are_answered_by_kind(engine: BM25Engine, corpus: Corpus) -> None:
    async with session_of(engine, corpus) as (session, plain):
        await session.initialize()
        for name, arguments, said in (
            ("open", {}, "there are search, get_document"),
            ("search", {"query": 3}, "needs 'query', a text"),
            ("get_document", {}, "needs 'docid', a text"),
        ):
            with pytest.raises(MCPError, match=said) as refused:
                await session.call_tool(name, arguments)
            assert refused.value.code == -32602
        missing = await session.call_tool("get_document", {"docid": "p99"})
        assert missing.is_error
        assert "p99" in missing.content[0].text  # type: ignore[union-attr]
        for body, status in (
            (b"{", 400),
            (json.dumps({"jsonrpc": "2.0", "id": 1, "method": "nonsense"}).encode(), 200),
            (b"[" * 100_000, 400),
        ):
            reply = await plain.post(
                "/mcp", content=body, headers={"content-type": "application/json"}
            )
            assert reply.status_code == status, reply.text
            assert reply.json()["error"]["code"] < 0


async def test_a_failing_engine_is_a_tool_error(corpus: Corpus) -> None:
    async with session_of(FailingEngine(corpus), corpus) as (session, _):
        await session.initialize()
        failed = await session.call_tool("search", {"query": "unavailable"})
        assert failed.is_error
        assert "on purpose" in failed.content[0].text  # type: ignore[union-attr]


async def test_a_package_that_cannot_be_loaded_keeps_nobody_waiting(
    engine: BM25Engine, corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is loaded when the first client comes; searches go on."""

    def broken(self: Mcp) -> None:
        raise ImportError("no such module")

    monkeypatch.setattr(Mcp, "_make", broken)
    async with client_of(engine, corpus) as plain:
        for _ in range(2):
            reply = await plain.post("/mcp", json=HELLO)
            assert (reply.status_code, reply.json()["error"]) == (500, "internal")
        assert (await plain.post("/retrieve", json={"query": "boats"})).status_code == 200


async def test_other_types_and_missing_tokens_are_refused(
    engine: BM25Engine, corpus: Corpus
) -> None:
    async with client_of(engine, corpus) as plain:
        reply = await plain.post("/mcp", json=HELLO, headers={"content-type": "text/plain"})
        assert reply.status_code == 400
    async with session_of(engine, corpus, Settings(token="s3cret")) as (session, plain):
        await session.initialize()
        assert (await plain.post("/mcp", json=HELLO)).status_code == 401


async def test_a_body_has_a_limit(engine: BM25Engine, corpus: Corpus) -> None:
    async with client_of(engine, corpus) as plain:
        big = HELLO | {"junk": "x" * DEFAULT.limits.body_bytes}
        assert (await plain.post("/mcp", json=big)).status_code == 413
