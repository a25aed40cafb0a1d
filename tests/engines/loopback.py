"""A server on loopback that answers as told; for tests of clients."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple
from urllib.parse import parse_qsl, urlsplit


class Got(NamedTuple):
    """One request as it arrived."""

    method: str
    path: str
    params: dict[str, str]
    headers: dict[str, str]
    body: bytes


class Say(NamedTuple):
    """One response. ``parts`` are sent one after the other, each after ``pause`` seconds."""

    status: int = 200
    body: bytes = b""
    media: str = "application/json"
    headers: tuple[tuple[str, str], ...] = ()
    parts: tuple[bytes, ...] = ()
    pause: float = 0.0
    length: int | None = None
    """A false Content-Length."""
    hang_up: bool = False
    """Close the connection without a word."""


Answer = Callable[[Got], Say]


class Loopback:
    """Address and log of a running server."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.got: list[Got] = []
        self.at_once = self.most_at_once = 0
        self.guard = threading.Lock()
        self.stopping = threading.Event()


@contextmanager
def serving(answer: Answer) -> Iterator[Loopback]:
    """A server for the time of a ``with`` block."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *args: object) -> None:
            pass

        def handle_one(self) -> None:
            size = int(self.headers.get("Content-Length") or 0)
            parts = urlsplit(self.path)
            headers = {k.lower(): v for k, v in self.headers.items()}
            got = Got(
                self.command, parts.path, dict(parse_qsl(parts.query)), headers,
                self.rfile.read(size),
            )  # fmt: skip
            with log.guard:
                log.got.append(got)
                log.at_once += 1
                log.most_at_once = max(log.most_at_once, log.at_once)
            try:
                self._write(answer(got))
            except OSError:  # the client has gone, as some tests want it to
                self.close_connection = True
            finally:
                with log.guard:
                    log.at_once -= 1

        def _write(self, say: Say) -> None:
            if say.hang_up:
                self.close_connection = True
                return
            parts = say.parts or (say.body,)
            if not say.parts:
                log.stopping.wait(say.pause)
            self.send_response(say.status)
            self.send_header("Content-Type", say.media)
            size = sum(map(len, parts)) if say.length is None else say.length
            self.send_header("Content-Length", str(size))
            for name, value in say.headers:
                self.send_header(name, value)
            self.end_headers()
            for part in parts:
                if say.parts:
                    log.stopping.wait(say.pause)
                self.wfile.write(part)
                self.wfile.flush()

        do_GET = do_POST = handle_one

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 128

        def handle_error(self, *args: object) -> None:
            pass  # clients that break off are part of the tests

    server = Server(("127.0.0.1", 0), Handler)
    log = Loopback(f"http://127.0.0.1:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield log
    finally:
        log.stopping.set()
        server.shutdown()
        server.server_close()
        thread.join(5)
