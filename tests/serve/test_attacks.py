"""Hostile clients over real sockets: what they cost, what they get, and what others see of it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import resource
import signal
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from ..browser import wait_until
from .conftest import PASSAGES, ServerProcess, Start

pytestmark = [pytest.mark.contract, pytest.mark.timeout(180)]
MEGABYTE = 1 << 20


def address(server: ServerProcess) -> tuple[str, int]:
    host, port = server.url.removeprefix("http://").split(":")
    return host, int(port)


def talk(server: ServerProcess, request: bytes, patience: float = 20) -> bytes:
    """Send bytes, read until the server closes; what is not taken is not sent."""
    with socket.create_connection(address(server), timeout=patience) as client:
        with contextlib.suppress(ConnectionError, TimeoutError):
            client.sendall(request)
        received = b""
        with contextlib.suppress(ConnectionResetError):
            while piece := client.recv(1 << 16):
                received += piece
    return received


def status(reply: bytes) -> int:
    return int(reply.split(b" ", 2)[1])


def resident(server: ServerProcess, what: str = "VmHWM") -> int:
    """Memory of a server in bytes: its peak, or ``VmRSS``."""
    text = Path(f"/proc/{server.process.pid}/status").read_text()
    return int(text.partition(f"{what}:")[2].split()[0]) * 1024


PATHS = ("/retrieve", "/search-r1/retrieve", "/access", "/mcp")


@pytest.fixture(scope="module")
def plain_server(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("plain")
    file = folder / "small.jsonl"
    file.write_text("\n".join(json.dumps(p._asdict()) for p in PASSAGES))
    server = ServerProcess(
        [file, "--port", 0, "--read-timeout", 2, "--allow-host", "search.example"], folder
    )
    yield server
    server.end()


@pytest.fixture(scope="module")
def large_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """1,100 passages of 4,000 characters, all of which speak of apples."""
    path = tmp_path_factory.mktemp("large") / "large.jsonl"
    with path.open("w") as file:
        for i in range(1100):
            text = f"apple {i} " + f"word{i % 7} " * 570
            row = {"id": f"p{i}", "title": f"Apple {i}", "text": text, "url": f"u/{i}"}
            file.write(json.dumps(row) + "\n")
    return path


# --- answers --------------------------------------------------------------------------------------
def test_a_small_request_cannot_ask_for_a_huge_answer(start: Start, large_file: Path) -> None:
    """927 bytes once cost 5.5 GB and stopped everybody for 4.6 s."""
    server = start(large_file, "--max-answer", 30 * MEGABYTE)
    before = resident(server)
    many = {"queries": ["apple"] * 100, "topk": 1000}
    refused = server.client.post("/retrieve", json=many, timeout=60)
    assert (refused.status_code, refused.json()["error"]) == (413, "too_many_results")
    longest = 0.0
    with ThreadPoolExecutor(8) as pool:
        fitting = {"queries": ["apple"] * 14, "topk": 1000}  # 14 × 1,000 × 4 kB × 4 = 220 MB
        asked = [
            pool.submit(server.client.post, "/retrieve", json=fitting, timeout=90) for _ in range(8)
        ]
        while not all(job.done() for job in asked):
            begun = time.monotonic()
            assert server.client.get("/healthz").status_code == 200
            longest = max(longest, time.monotonic() - begun)
    assert {job.result().status_code for job in asked} == {413}
    assert {job.result().json()["error"] for job in asked} == {"answer_too_large"}
    assert longest < 2
    large = {"queries": ["apple"] * 3, "topk": 1000, "return_scores": True}
    with ThreadPoolExecutor(8) as pool:  # 8 × 21 MB where 4 × 30 MB fit: they take turns
        jobs = [
            pool.submit(server.client.post, "/retrieve", json=large, timeout=90) for _ in range(8)
        ]
        replies = [job.result() for job in jobs]
    assert {reply.status_code for reply in replies} == {200}
    assert {len(reply.content) for reply in replies} == {20_970_000}
    assert [len(hits) for hits in replies[0].json()["result"]] == [1000] * 3
    assert resident(server) - before < 400 * MEGABYTE


# --- heads ----------------------------------------------------------------------------------------
def test_heads_are_bounded(plain_server: ServerProcess) -> None:
    server = plain_server
    host = b"Host: localhost\r\n"
    body = b'{"query":"boats"}'
    good = b"POST /retrieve HTTP/1.1\r\n" + host + b"Connection: close\r\n"
    sized = b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
    assert status(talk(server, good + b"X-A: b\r\n" * 90 + sized)) == 200
    assert status(talk(server, good + b"X-A: %b\r\n" % (b"b" * 60_000) + sized)) == 200
    before = resident(server)
    for request, wanted in (
        (b"GET /%b HTTP/1.1\r\n%b\r\n" % (b"a" * 60 * MEGABYTE, host), 414),
        (b"GET / HTTP/1.1\r\n%bX-A: %b\r\n\r\n" % (host, b"a" * 60 * MEGABYTE), 431),
        (b"GET / HTTP/1.1\r\n%b%b\r\n" % (host, b"X-A: b\r\n" * 5_000_000), 431),
        (b"GET / HTTP/1.1\r\n%b%b\r\n" % (host, b"X-A: b\r\n" * 101), 431),
        (b"\x16\x03\x01\x02\x00", 400),
    ):
        reply = talk(server, request)
        assert not reply or status(reply) == wanted, reply[:80]
        if len(request) < MEGABYTE:
            assert status(reply) == wanted
            assert b"connection: close" in reply
        begun = time.monotonic()
        assert server.post("/retrieve", {"query": "boats"})
        assert time.monotonic() - begun < 1
    assert resident(server) - before < 50 * MEGABYTE
    assert server.errors.read_text().count("\n") < 10, "a flood does not fill the log"


def test_pipelined_requests_are_answered_before_a_broken_one(plain_server: ServerProcess) -> None:
    server = plain_server
    body = b'{"query":"boats"}'
    one = b"POST /retrieve HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%b"
    reply = talk(server, one % (len(body), body) * 3 + b"\x00\x01")
    assert reply.count(b"HTTP/1.1 200 OK") >= 1
    assert reply.startswith(b"HTTP/1.1 200 OK")


# --- time and number ------------------------------------------------------------------------------
def test_slow_clients_are_told_and_closed(plain_server: ServerProcess) -> None:
    server = plain_server
    head = b"POST /retrieve HTTP/1.1\r\nHost: localhost\r\n"
    begun = time.monotonic()
    with ThreadPoolExecutor(4) as pool, httpx.Client(base_url=server.url) as patient:
        # one that is idle between requests is not slow
        assert patient.post("/retrieve", json={"query": "boats"}).status_code == 200
        told = pool.map(
            lambda sent: talk(server, sent),
            [b"", head, head + b"Content-Length: 100\r\n\r\n{", head[:3]],
        )
        time.sleep(3.2)
        assert patient.post("/retrieve", json={"query": "boats"}).status_code == 200
        silent, half_head, half_body, drop = told
    assert time.monotonic() - begun < 15
    assert silent == b""
    for reply in (half_head, half_body, drop):
        assert status(reply) == 408
        assert json.loads(reply.partition(b"\r\n\r\n")[2])["error"] == "too_slow"
    log = server.errors.read_text()
    assert "no request came" in log
    assert "too slowly" in log


def test_connections_are_limited_below_the_open_files(passage_file: Path, tmp_path: Path) -> None:
    """With ``ulimit -n 256``, 400 connections that say nothing once locked everybody out."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    try:
        server = ServerProcess([passage_file, "--port", 0, "--read-timeout", 2], tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    held: list[socket.socket] = []
    try:
        held = [socket.create_connection(address(server), timeout=10) for _ in range(400)]
        request = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
        reply = talk(server, request)
        assert status(reply) == 503
        assert b"too_many_connections" in reply
        assert b"retry-after: 1" in reply
        time.sleep(2)  # the silent ones' time
        wait_until(lambda: server.client.get("/healthz").status_code == 200)
        assert server.post("/retrieve", {"query": "boats"})["result"]
        assert "connections turned away" in server.errors.read_text()
        assert "Traceback" not in server.errors.read_text()
    finally:
        for client in held:
            client.close()
        server.end()


# --- whose requests -------------------------------------------------------------------------------
@pytest.mark.parametrize("path", [*PATHS, "/stats", "/metrics", "/healthz", "/", "/openapi.json"])
def test_pages_of_other_sites_are_refused(plain_server: ServerProcess, path: str) -> None:
    method = "POST" if path in PATHS else "GET"
    rebound = {"host": "evil.example", "origin": "http://evil.example"}
    foreign = {"origin": "https://evil.example", "content-type": "text/plain"}
    for headers, wanted in ((rebound, 421), (foreign, 403), ({"origin": "null"}, 403)):
        reply = plain_server.client.request(
            method, path, headers=headers, content=b'{"query":"boats"}'
        )
        assert reply.status_code == wanted, (headers, reply.text)
        assert "boats" not in reply.text


def test_a_proxy_s_name_can_be_allowed(plain_server: ServerProcess) -> None:
    server = plain_server
    body = {"query": "boats"}
    for headers, wanted in (
        ({"host": "search.example", "origin": "https://search.example"}, 200),
        ({"host": "SEARCH.example:8443"}, 200),
        ({"host": "localhost"}, 200),
        ({"host": "search.example.evil.example"}, 421),
        ({"host": "search.example@evil.example"}, 421),
        ({"host": "search.example", "origin": "https://evil.example"}, 403),
    ):
        reply = server.client.post("/retrieve", json=body, headers=headers)
        assert reply.status_code == wanted, (headers, reply.text)


# --- what is told ---------------------------------------------------------------------------------
def test_no_path_of_this_machine_is_told(start: Start, tmp_path: Path) -> None:
    notes = tmp_path / "secret-folder" / "notes"
    (notes / "sub").mkdir(parents=True)
    (notes / "one.md").write_text("# Boats\n\nBoats are painted blue.\n\n# Cars\n\nCars are red.\n")
    (notes / "sub" / "two.txt").write_text("Boats again, in a folder below.")
    server = start(str(notes) + "/")
    told = ""
    for name in ("", "/search-r1", "/browsecomp-plus", "/asearcher", "/rllm", "/zerosearch"):
        reply = server.client.post(f"{name}/retrieve", json={"query": "boats", "topk": 5})
        told += reply.raise_for_status().text
        pages = {"urls": [f"corpus://notes/{name}" for name in ("one.md", "sub/two.txt", "x.md")]}
        shown = server.client.post(f"{name}/access", json=pages).raise_for_status()
        one, two, none = shown.json()["result"]
        assert "Cars are red." in str(one), "the whole document, not the passage"
        assert "in a folder below" in str(two)
        assert none is None
        told += shown.text
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": "search", "arguments": {"query": "boats", "k": 2}}}  # fmt: skip
    headers = {"accept": "application/json, text/event-stream"}
    found = server.client.post("/mcp", json=call, headers=headers).json()["result"]
    hits = found["structuredContent"]["result"]
    assert {hit["url"] for hit in hits} == {"corpus://notes/one.md", "corpus://notes/sub/two.txt"}
    call["params"] = {"name": "get_document", "arguments": {"docid": hits[0]["docid"]}}
    document = server.client.post("/mcp", json=call, headers=headers)
    told += json.dumps(found) + document.text
    for path in ("/healthz", "/stats", "/metrics", "/openapi.json", "/"):
        told += server.client.get(path).raise_for_status().text
    assert "secret-folder" not in told
    assert "file:" not in told
    assert "boats" in told.lower()


def test_json_rpc_ids_and_names_are_checked(plain_server: ServerProcess) -> None:
    headers = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
    ping = b'{"jsonrpc":"2.0","id":%b,"method":"ping"}'
    for body in (
        ping % b"NaN", ping % b"Infinity", ping % b"-Infinity", ping % b'{"a":1}', ping % b"[1]",
        ping % b"1.5", ping % b"true", ping % (b'"' + b"x" * 1000 + b'"'),
        ping % (b"9" * 4000), b'{"jsonrpc":"2.0","id":1,"method":"' + b"m" * 900_000 + b'"}',
        b"[" + ping % b"1" + b"]",
    ):  # fmt: skip
        reply = plain_server.client.post("/mcp", content=body, headers=headers)
        assert reply.status_code == 400, body[:80]
        answer = json.loads(reply.content, parse_constant=_no_constant)
        assert answer["id"] is None
        assert answer["error"]["code"] in (-32600, -32700)
        assert len(reply.content) < 500
    for good in (b"1", b'"a"', b"-5"):
        reply = plain_server.client.post("/mcp", content=ping % good, headers=headers)
        assert reply.json()["id"] == json.loads(good)
        assert "result" in reply.json()


def _no_constant(name: str) -> Any:
    raise AssertionError(f"{name} is no JSON")


def test_what_a_client_wrote_is_repeated_shortly(plain_server: ServerProcess) -> None:
    long = "x" * 500_000
    digits = b'{"query":"a","topk":' + b"9" * 4000 + b"}"
    for path, body in (
        ("/retrieve", digits),
        ("/retrieve", json.dumps({long: 1}).encode()),
        ("/retrieve", json.dumps({"query": "a", "topk": long}).encode()),
        ("/retrieve", json.dumps({"query": "a", "return_scores": long}).encode()),
        ("/" + "y" * 5000, b"{}"),
    ):
        reply = plain_server.client.post(path, content=body)
        assert 400 <= reply.status_code < 500
        assert len(reply.content) < 1000


# --- the end --------------------------------------------------------------------------------------
@pytest.mark.parametrize("workers", [1, 2])
def test_sigterm_loses_no_request_that_was_sent(
    start: Start, passage_file: Path, workers: int
) -> None:
    """Connections that are open, requests on the wire and requests that wait for a slow engine,
    when the server is told to end."""
    server = start(
        passage_file, "--engine", "tests.serve.engines:SlowEngine", "-s", "engine.seconds=0.3",
        "--workers", workers, "--max-batch", 20, "--in-flight", 1,
    )  # fmt: skip
    body = b'{"query":"boats %d"}'
    request = b"POST /retrieve HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%b"
    clients = []
    for i in range(60):
        client = socket.create_connection(address(server), timeout=60)
        client.sendall(request % (len(body % i), body % i))
        clients.append(client)
    server.signal(signal.SIGTERM)  # most are not yet accepted, none is answered
    replies = []
    for client in clients:
        received = b""
        while piece := client.recv(1 << 16):
            received += piece
        replies.append(received)
        client.close()
    assert [status(reply) for reply in replies] == [200] * 60
    assert server.process.wait(60) == 0
    with pytest.raises(httpx.ConnectError):
        server.stats()


# --- memory over time -----------------------------------------------------------------------------
SOAK_S = float(os.environ.get("SEARCHGYM_SOAK_SECONDS", "4"))


async def _load(host: str, port: int, until: float, number: int) -> int:
    """A keep-alive client that sends good requests, bad ones, large ones, and hangs up at times."""
    count = 0
    while time.monotonic() < until:
        reader, writer = await asyncio.open_connection(host, port)
        for turn in range(50):
            bad = (turn + number) % 10 == 0
            asked = {"queries": [f"note {number} {turn} {count % 997}"], "topk": 3 + turn % 30}
            body = b"{" if bad else json.dumps(asked).encode()
            writer.write(
                b"POST /retrieve HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%b"
                % (len(body), body)
            )
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.split(b" ")[1] == (b"400" if bad else b"200"), head
            length = head.lower().partition(b"content-length:")[2].split()[0]
            await reader.readexactly(int(length))
            count += 1
            if time.monotonic() > until:
                break
        if number % 3:
            writer.close()
        else:
            writer.transport.abort()
    return count


@pytest.mark.anyio
@pytest.mark.timeout(180 + 1.5 * SOAK_S)
async def test_memory_is_flat_under_load(plain_server: ServerProcess) -> None:
    """``SEARCHGYM_SOAK_SECONDS=3600`` makes it an hour."""
    server = plain_server
    host, port = address(server)

    async def run(seconds: float) -> int:
        until = time.monotonic() + seconds
        return sum(await asyncio.gather(*(_load(host, port, until, i) for i in range(40))))

    await run(SOAK_S / 4)  # caches fill
    before = resident(server, "VmRSS")
    files = len(os.listdir(f"/proc/{server.process.pid}/fd"))
    count = await run(SOAK_S * 3 / 4)
    assert count > 50 * SOAK_S
    stats = await asyncio.to_thread(server.stats)
    assert stats["in_flight"] == 0
    assert len(os.listdir(f"/proc/{server.process.pid}/fd")) <= files + 5
    grown = resident(server, "VmRSS") - before
    most = 8 if SOAK_S > 10 else 3  # as strict a request in a short test as in a long one
    assert grown < most * MEGABYTE, f"{grown / MEGABYTE:.1f} MB after {count} requests"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def test_a_token_is_not_told_and_guards_all_content(
    passage_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEARCHGYM_TOKEN", "s3cret-in-env")
    server = ServerProcess([passage_file, "--port", 0], tmp_path)
    try:
        line = Path(f"/proc/{server.process.pid}/cmdline").read_bytes()
        assert b"s3cret" not in line
        assert server.client.get("/healthz").json() == {"status": "ok"}
        assert "Oldeth" not in server.client.get("/").text
        for path in ("/openapi.json", "/stats", "/metrics"):
            assert server.client.get(path).status_code == 401
        headers = {"authorization": "Bearer s3cret-in-env"}
        told = [server.client.get(p, headers=headers) for p in ("/healthz", "/openapi.json")]
        assert told[0].json()["passages"] == len(PASSAGES)
        assert "/retrieve" in told[1].json()["paths"]
        _refused_upload(server)
    finally:
        server.end()


def _refused_upload(server: ServerProcess) -> None:
    """A body of 2 GB without the token is not read to its end."""
    head = b"POST /retrieve HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n"
    with socket.create_connection(address(server), timeout=20) as client:
        client.sendall(head % (1 << 31))
        assert status(client.recv(1 << 16)) == 401
        sent = 0
        with contextlib.suppress(ConnectionError):
            while sent < 64 * MEGABYTE:
                client.sendall(bytes(1 << 16))
                sent += 1 << 16
        assert sent < 64 * MEGABYTE
