"""The Model Context Protocol, message by message; a real client speaks it in ``test_peers``."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from searchgym.corpora.corpus import Corpus
from searchgym.engines.bm25 import BM25Engine

from .conftest import client_of
from .engines import FailingEngine

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]


async def call(client: httpx.AsyncClient, method: str, params: Any = None, **more: Any) -> Any:
    message = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params, **more}
    reply = await client.post("/mcp", json=message)
    assert reply.status_code == 200, reply.text
    assert reply.json()["id"] == 7
    return reply.json()


async def tool(client: httpx.AsyncClient, name: str, **arguments: Any) -> Any:
    reply = await call(client, "tools/call", {"name": name, "arguments": arguments})
    return reply["result"]


async def test_a_session_from_greeting_to_document(engine: BM25Engine, corpus: Corpus) -> None:
    async with client_of(engine, corpus) as client:
        hello = (await call(client, "initialize", {"protocolVersion": "2025-06-18"}))["result"]
        assert hello["protocolVersion"] == "2025-06-18"
        assert hello["serverInfo"]["name"] == "searchgym"
        newest = (await call(client, "initialize", {"protocolVersion": "1999"}))["result"]
        assert newest["protocolVersion"] > "2025-06-18"
        note = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        assert (await client.post("/mcp", json=note)).status_code == 202
        tools = (await call(client, "tools/list"))["result"]["tools"]
        assert [t["name"] for t in tools] == ["search", "get_document"]
        found = await tool(client, "search", query="blue house")
        items = json.loads(found["content"][0]["text"])
        assert items == found["structuredContent"]["result"]
        assert set(items[0]) == {"docid", "score", "snippet"}
        ranking = engine.search(["blue house"], 3)[0]
        assert [(i["docid"], i["score"]) for i in items] == [
            (h.passage.id, h.score) for h in ranking
        ]
        got = await tool(client, "get_document", docid="p2")
        assert "It stands in Zürich." in json.loads(got["content"][0]["text"])["text"]
        assert (await client.get("/stats")).json()["queries"] == 1


async def test_mistakes_are_answered_by_kind(engine: BM25Engine, corpus: Corpus) -> None:
    async with client_of(engine, corpus) as client:
        assert (await call(client, "nonsense"))["error"]["code"] == -32601
        assert (await call(client, "ping", jsonrpc="1.0"))["error"]["code"] == -32600
        assert (await call(client, "ping", [1]))["error"]["code"] == -32602
        assert (await call(client, "tools/call", {"name": "open"}))["error"]["code"] == -32602
        bad = {"name": "search", "arguments": {"query": 3}}
        assert (await call(client, "tools/call", bad))["error"]["code"] == -32602
        missing = await tool(client, "get_document", docid="p99")
        assert missing["isError"]
        assert "p99" in missing["content"][0]["text"]


async def test_a_failing_engine_is_a_tool_error(corpus: Corpus) -> None:
    async with client_of(FailingEngine(corpus), corpus) as client:
        failed = await tool(client, "search", query="unavailable")
        assert failed["isError"]
        assert "on purpose" in failed["content"][0]["text"]
