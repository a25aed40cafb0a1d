"""What the server refuses: each with its status, as JSON, without harm to the next request."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import msgpack
import pytest

from searchgym.corpora import Corpus
from searchgym.engines import BM25Engine
from searchgym.errors import SearchGymError
from searchgym.serve import Limits, Settings

from .conftest import client_of
from .engines import FailingEngine, NeedyEngine, SlowEngine

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]
SMALL = Settings(limits=Limits(body_bytes=2000, queries=4, k=10, query_characters=100))


def refused(reply: httpx.Response, status: int, kind: str) -> str:
    assert reply.status_code == status, reply.text
    assert reply.headers["content-type"] == "application/json"
    assert reply.json()["error"] == kind
    return str(reply.json()["detail"])


@pytest.mark.parametrize(
    ("body", "status", "kind"),
    [
        (b"", 400, "unreadable"),
        (b"{", 400, "unreadable"),
        (b"\xff\xfe\x00", 400, "unreadable"),
        (b'{"a":' * 300, 400, "unreadable"),
        (b"\x81\xa1", 400, "unreadable"),
        (b"[]", 422, "bad_body"),
        (b'"text"', 422, "bad_body"),
        (b"{}", 422, "no_query"),
        (b'{"queries":"x"}', 422, "bad_field"),
        (b'{"queries":null}', 422, "bad_field"),
        (b'{"queries":[1]}', 422, "bad_field"),
        (b'{"queries":[["x"]]}', 422, "bad_field"),
        (b'{"query":["x"]}', 422, "bad_field"),
        (b'{"query":"\\ud800"}', 422, "bad_text"),
        (b'{"query":"x","topk":"3"}', 422, "bad_field"),
        (b'{"query":"x","topk":true}', 422, "bad_field"),
        (b'{"query":"x","topk":-1}', 422, "bad_field"),
        (b'{"query":"x","k":2.5}', 422, "bad_field"),
        (b'{"query":"x","topk":11}', 422, "k_too_large"),
        (b'{"query":"x","return_scores":"yes"}', 422, "bad_field"),
        (b'{"queries":["a","b","c","d","e"]}', 413, "too_many_queries"),
        (b'{"query":"' + b"x" * 101 + b'"}', 413, "query_too_long"),
        (b'{"queries":["x","' + b"x" * 101 + b'"]}', 413, "query_too_long"),
        (b'{"query":"' + b"x" * 2000 + b'"}', 413, "body_too_large"),
        (msgpack.packb({"query": b"bytes"}), 422, "bad_field"),
        (msgpack.packb({1: 2}), 400, "unreadable"),
    ],
)
async def test_bad_requests(
    engine: BM25Engine, corpus: Corpus, body: bytes, status: int, kind: str
) -> None:
    async with client_of(engine, corpus, SMALL) as client:
        assert refused(await client.post("/retrieve", content=body), status, kind)
        good = await client.post("/retrieve", json={"query": "boats", "topk": 10})
        assert good.status_code == 200


async def test_a_body_in_pieces_is_cut_off_at_the_limit(engine: BM25Engine, corpus: Corpus) -> None:
    async def endless() -> Any:
        for _ in range(10_000):
            yield b"x" * 1000
        raise AssertionError("the server read ten megabytes")

    async with client_of(engine, corpus, SMALL) as client:
        try:
            reply = await client.post("/retrieve", content=endless())
        except httpx.TransportError:
            pytest.fail("no clear answer")
        refused(reply, 413, "body_too_large")


async def test_unknown_paths_and_methods_are_json_too(engine: BM25Engine, corpus: Corpus) -> None:
    async with client_of(engine, corpus) as client:
        refused(await client.get("/retrieve"), 405, "method_not_allowed")
        assert "POST /retrieve" in refused(await client.post("/retrive"), 404, "not_found")
        refused(await client.post("/access", json={"url": "x"}), 422, "no_urls")
        refused(await client.post("/access", json={"urls": "x"}), 422, "bad_field")
        two = {"queries": ["a", "b"]}
        refused(await client.post("/zerosearch/retrieve", json=two), 422, "one_query")


async def test_a_token_guards_everything_but_health(engine: BM25Engine, corpus: Corpus) -> None:
    body = {"query": "boats"}
    async with client_of(engine, corpus, Settings(token="s3cret")) as client:
        for wrong in ({}, {"authorization": "Bearer no"}, {"authorization": "s3cret"}):
            for path in ("/retrieve", "/rllm/retrieve", "/access", "/mcp"):
                reply = await client.post(path, json=body, headers=wrong)
                refused(reply, 401, "unauthorized")
                assert reply.headers["www-authenticate"] == "Bearer"
            for path in ("/stats", "/metrics"):
                refused(await client.get(path, headers=wrong), 401, "unauthorized")
        right = {"authorization": "Bearer s3cret"}
        assert (await client.post("/retrieve", json=body, headers=right)).status_code == 200
        assert (await client.get("/stats", headers=right)).status_code == 200
        for path in ("/healthz", "/health"):
            assert (await client.get(path)).json()["status"] == "ok"


async def test_every_route_is_described_with_its_limits(engine: BM25Engine, corpus: Corpus) -> None:
    async with client_of(engine, corpus, Settings(token="t", limits=Limits(k=7))) as client:
        told = (await client.get("/openapi.json", headers={"authorization": "Bearer t"})).json()
    served = {route.path for route in client.app.router.routes if hasattr(route, "methods")}  # type: ignore[attr-defined]
    assert served <= set(told["paths"])
    assert told["components"]["schemas"]["Queries"]["properties"]["topk"]["maximum"] == 7
    for path in ("/retrieve", "/asearcher/access", "/mcp", "/stats"):
        for operation in told["paths"][path].values():
            assert operation["security"] == [{"HTTPBearer": []}]
    assert "security" not in told["paths"]["/healthz"]["get"]


@pytest.mark.parametrize(
    ("query", "status"),
    [("timeout", 504), ("unavailable", 503), ("rejected", 503), ("bad_response", 502),
     ("cache_miss", 500)],
)  # fmt: skip
async def test_failed_queries_are_named(corpus: Corpus, query: str, status: int) -> None:
    async with client_of(FailingEngine(corpus), corpus) as client:
        reply = await client.post("/retrieve", json={"queries": ["boats", query]})
        assert "1 of 2 queries failed" in refused(reply, status, query)
        assert reply.json()["failed"] == {"1": query}
        assert reply.headers["retry-after"] == "1"


async def test_a_crash_is_a_500_and_the_server_lives(corpus: Corpus) -> None:
    async with client_of(FailingEngine(corpus), corpus) as client:
        reply = await client.post("/retrieve", json={"query": "crash"})
        assert "ZeroDivisionError" in refused(reply, 500, "internal")
        assert (await client.post("/retrieve", json={"query": "boats"})).status_code == 200
        stats = (await client.get("/stats")).json()
        assert stats["responses"] == {"200": 1, "500": 1}
        assert stats["in_flight"] == 0


async def test_deadline_and_full_queue(corpus: Corpus) -> None:
    # long enough for all six to have come before the first gives up, on a busy machine, too
    slow = SlowEngine(corpus, seconds=2)
    settings = Settings(deadline_s=1.5, max_queue=2, max_in_flight=1)
    async with client_of(slow, corpus, settings) as client:
        replies = await asyncio.gather(
            *(client.post("/retrieve", json={"query": f"boats {i}"}) for i in range(6))
        )
    seen = [(reply.status_code, reply.json()["error"]) for reply in replies]
    late, full = seen.count((504, "timeout")), seen.count((503, "rejected"))
    assert late + full == 6
    assert late in (2, 3), "two wait; a third one if the first call had begun before"


def test_impossible_servers_are_refused(corpus: Corpus) -> None:
    from searchgym.serve import build_app

    with pytest.raises(SearchGymError, match="task"):
        build_app(NeedyEngine(corpus), corpus, Settings())
    with pytest.raises(SearchGymError, match="zerosearch"):
        Settings(dialect="zerosarch")
    with pytest.raises(SearchGymError, match="token"):
        Settings(token=" ")
    with pytest.raises(SearchGymError, match="workers"):
        Settings(workers=0)
    settings = Settings(token="t", limits=Limits(k=7), dialect="rllm")
    assert Settings.from_json(settings.to_json()) == settings
