"""A few seconds of load, small enough for every run: nothing fails, nothing is lost or mixed up.

The real load test is ``tests/benchmarks/test_serve_load.py``.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from searchgym.engines import BM25Engine

from .conftest import Start

pytestmark = [pytest.mark.contract, pytest.mark.anyio, pytest.mark.timeout(120)]
CONNECTIONS, EACH = 60, 30


async def talk(host: str, port: int, queries: list[str]) -> list[tuple[str, list[str]]]:
    """One keep-alive connection that asks its queries one after another."""
    reader, writer = await asyncio.open_connection(host, port)
    got = []
    for query in queries:
        body = json.dumps({"queries": [query], "topk": 3, "return_scores": True}).encode()
        writer.write(
            b"POST /retrieve HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
        )
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 "), head
        size = next(
            int(line.split(b":")[1]) for line in head.split(b"\r\n")
            if line.lower().startswith(b"content-length:")
        )  # fmt: skip
        reply = json.loads(await reader.readexactly(size))
        got.append((query, [item["document"]["id"] for item in reply["result"][0]]))
    writer.close()
    return got


@pytest.mark.parametrize("engine_name", ["bm25", "tests.serve.engines:SlowEngine"])
async def test_every_connection_gets_its_own_answers(
    start: Start, passage_file: Path, engine: BM25Engine, engine_name: str
) -> None:
    slow = engine_name != "bm25"
    more = ["-s", "engine.seconds=0.005"] if slow else []
    server = await asyncio.to_thread(start, passage_file, "--engine", engine_name, *more)
    host, port = server.url.removeprefix("http://").split(":")
    colours = ["red", "green", "blue", "amber", "violet", "grey", "boats Zürich"]
    plans = [
        [f"{colours[(c + i) % 7]} {colours[i % 7]} note {c % 9}" for i in range(EACH)]
        for c in range(CONNECTIONS)
    ]
    found = await asyncio.gather(*(talk(host, int(port), plan) for plan in plans))
    wanted = {
        query: [hit.passage.id for hit in engine.search([query], 3)[0]]
        for plan in plans
        for query in plan
    }
    for answers in found:
        assert len(answers) == EACH
        for query, ids in answers:
            assert ids == wanted[query]
    stats = await asyncio.to_thread(server.stats)
    assert stats["responses"] == {"200": CONNECTIONS * EACH}
    assert stats["queries"] == CONNECTIONS * EACH
    assert stats["batch_size"]["mean"] > (4 if slow else 1), "requests share calls under load"
    assert stats["queued"] == 0
