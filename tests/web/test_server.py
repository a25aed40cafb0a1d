"""What stands before every application: names, bodies, errors, WebSockets, connections."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route, WebSocketRoute
from starlette.testclient import TestClient

from searchgym.errors import CardError
from searchgym.serve import Settings, bind, guard, make_server

HERE = "http://127.0.0.1"


async def size(request: Request) -> JSONResponse:
    return JSONResponse(len(await request.body()))


async def wrong(request: Request) -> JSONResponse:
    raise CardError("no such split:\n 'x'")


async def defect(request: Request) -> JSONResponse:
    raise KeyError("/home/somebody/secret")


async def echo(websocket: Any) -> None:
    await websocket.accept()
    with contextlib.suppress(Exception):  # however the client goes
        while True:
            await websocket.send_text(await websocket.receive_text())


def small(hosts: tuple[str, ...] | None = ("127.0.0.1",)) -> Starlette:
    routes = [
        Route("/size", size, methods=["POST"]), Route("/wrong", wrong), Route("/defect", defect),
        WebSocketRoute("/ws", echo),
    ]  # fmt: skip
    return guard(Starlette(routes=routes), hosts, most=100)


def test_errors_and_bodies() -> None:
    client = TestClient(small(), base_url=HERE, raise_server_exceptions=False)
    assert client.post("/size", content=b"x" * 100).json() == 100
    assert client.post("/size", content=b"x" * 101).status_code == 413
    assert client.post("/size", content=iter([b"x" * 60, b"x" * 60])).status_code == 413
    answer = client.get("/wrong")
    assert (answer.status_code, answer.json()["detail"]) == (422, "no such split: 'x'")
    answer = client.get("/defect")
    assert (answer.status_code, answer.json()["error"]) == (500, "internal")
    assert "secret" not in answer.text


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ([(b"host", b"evil.example")], 421),
        ([(b"host", b"127.0.0.1"), (b"origin", b"http://evil.example")], 403),
        ([(b"host", b"evil.example"), (b"host", b"127.0.0.1")], 400),
        ([(b"host", b"127.0.0.1"), (b"host", b"127.0.0.1")], 400),
        ([(b"host", b"127.0.0.1"), (b"origin", b"null"), (b"origin", b"http://127.0.0.1")], 400),
        ([], 421),
    ],
)
def test_names_are_checked_of_requests_and_of_websockets(
    headers: list[tuple[bytes, bytes]], status: int
) -> None:
    with _served(small(), websockets=True) as port:
        lines = b"".join(b"%b: %b\r\n" % header for header in headers)
        upgrade = b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
        upgrade += b"Sec-WebSocket-Key: eHh4eHh4eHh4eHh4eHh4eA==\r\n"
        for head in (b"GET /wrong HTTP/1.1\r\n" + lines, b"GET /ws HTTP/1.1\r\n" + lines + upgrade):
            assert _status(port, head + b"\r\n") == status
        good = b"Host: 127.0.0.1\r\nOrigin: http://127.0.0.1:9\r\n"
        assert _status(port, b"GET /ws HTTP/1.1\r\n" + good + upgrade + b"\r\n") == 101
        assert _status(port, b"GET /wrong HTTP/1.1\r\n" + good + b"\r\n") == 422


def test_any_name_where_the_owner_knows_them_but_no_foreign_page() -> None:
    client = TestClient(small(None), base_url="http://proxy.example")
    assert client.get("/wrong").status_code == 422
    assert client.get("/wrong", headers={"origin": "http://evil.example"}).status_code == 403


def test_websockets_count_among_the_connections() -> None:
    from websockets.sync.client import connect

    with _served(small(), websockets=True, max_connections=2) as port:
        with connect(f"ws://127.0.0.1:{port}/ws") as one, connect(f"ws://127.0.0.1:{port}/ws"):
            one.send("hello")
            assert one.recv() == "hello"
            assert _status(port, b"GET /wrong HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n") == 503
        _until(lambda: _status(port, b"GET /wrong HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n") == 422)


def _status(port: int, request: bytes) -> int:
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        with contextlib.suppress(ConnectionError):  # it stopped reading: the answer is there
            connection.sendall(request)
        return int(connection.recv(4096).split(b" ", 2)[1])


def _until(true: Any) -> None:
    end = time.monotonic() + 20
    while not true():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


@contextlib.contextmanager
def _served(app: Any, *, websockets: bool = False, **settings: Any) -> Iterator[int]:
    told: list[int] = []
    with contextlib.closing(bind(Settings(port=0, grace_s=1, **settings))) as bound:
        server = make_server(
            app, Settings(grace_s=1, **settings), bound, told.append, websockets=websockets
        )
        thread = threading.Thread(target=server.run, args=([bound],), daemon=True)
        thread.start()
        try:
            _until(lambda: bool(told))
            yield told[0]
        finally:
            server.should_exit = True
            thread.join(10)
