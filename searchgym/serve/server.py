"""Running the server: one process under uvicorn, or several that share a port."""

from __future__ import annotations

import asyncio
import errno
import gc
import json
import logging
import os
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import MissingExtraError, SearchGymError
from .metrics import FOLDER, Board, bury, ready_file
from .settings import Settings

if TYPE_CHECKING:
    from fastapi import FastAPI

LOG = logging.getLogger("searchgym.serve")
KEEP_ALIVE_S = 75
_GIVE_UP_AFTER = 3
_BACKLOG = 2048
_SETTLE_S = 0.2
"""Time in which requests that were sent before the end arrive."""
Announce = Callable[[int], None]
"""Told the port once requests are answered."""


def bind(settings: Settings, *, shared: bool = False) -> socket.socket:
    """A socket that listens on the address: early clients wait until it is answered.

    ``shared``: one of several processes' sockets, which does not listen yet, as the system hands
    connections to every one that does. ``SearchGymError`` if the address cannot be had.
    """
    if shared and not hasattr(socket, "SO_REUSEPORT"):
        raise SearchGymError("several workers need a system with SO_REUSEPORT; use --workers 1")
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if shared:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try:
        made.bind((settings.host, settings.port))
        if not shared:
            made.listen(_BACKLOG)
    except OSError as error:
        made.close()
        address = isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL
        raise SearchGymError(
            f"cannot serve on {settings.host}:{settings.port}: {error.strerror}; choose another "
            + ("--host (an address of this machine)" if address else "--port (0: any free one)")
        ) from error
    return made


def serve(
    build: Callable[[Board], FastAPI], settings: Settings, bound: socket.socket, board: Board,
    announce: Announce,
) -> None:  # fmt: skip
    """Answer until SIGTERM or SIGINT, then finish what was accepted and return."""
    board.start()
    gc.disable()  # nearly all that is made from here on stays
    try:
        app = build(board)
        gc.collect()
        gc.freeze()  # a corpus is millions of objects that no collection needs to look at again
    finally:
        gc.enable()
    make_server(app, settings, bound, announce).run([bound])


def make_server(
    app: Any, settings: Settings, bound: socket.socket, announce: Announce, *,
    lifespan: bool = True, websockets: bool = False, extra: str = "serve",
) -> Any:  # fmt: skip
    """A uvicorn server of ``app`` whose connections are bounded; ``run([bound])`` answers until
    SIGTERM or SIGINT or until ``should_exit`` is set, then finishes what was accepted."""
    try:
        import uvicorn

        from .connections import BoundedProtocol, ConnectionLimits, Door, most_connections
    except ImportError as error:
        raise MissingExtraError("the server (uvicorn, httptools)", extra) from error

    most = most_connections(settings.max_connections)
    door = Door(ConnectionLimits(connections=most, read_s=settings.read_s))

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            if self.started:
                self.watch = asyncio.create_task(door.watch())
                announce(bound.getsockname()[1])

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            # What clients have sent is accepted, though uvicorn has not seen it yet: connections
            # wait in the socket's queue, and requests in the system's buffers.
            door.closing = True
            await _drained(bound)
            for server in self.servers:
                server.close()
            await asyncio.sleep(_SETTLE_S)
            await super().shutdown(sockets)
            self.watch.cancel()

        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            # uvicorn raises the signal anew after its shutdown, which would turn an orderly end
            # into one by signal.
            asked = (signal.SIGINT, signal.SIGTERM)
            if threading.current_thread() is not threading.main_thread():
                yield
                return
            before = {sig: signal.signal(sig, self.handle_exit) for sig in asked}
            try:
                yield
            finally:
                for sig, handler in before.items():
                    signal.signal(sig, handler)

    config = uvicorn.Config(
        app, loop="auto", http=partial(BoundedProtocol, door=door),  # type: ignore[arg-type]
        ws="auto" if websockets else "none", ws_max_size=settings.limits.body_bytes,
        lifespan="on" if lifespan else "off", access_log=False, log_level="warning",
        proxy_headers=False, server_header=False,
        timeout_keep_alive=KEEP_ALIVE_S, timeout_graceful_shutdown=settings.grace_s,  # type: ignore[arg-type]
    )  # fmt: skip
    return Server(config)


async def _drained(listening: socket.socket) -> None:
    """Return once no connection waits to be accepted (after a second at most)."""
    if not hasattr(select, "poll"):  # Windows
        return
    waiting = select.poll()
    waiting.register(listening, select.POLLIN)
    until = time.monotonic() + 1
    while waiting.poll(0) and time.monotonic() < until:
        await asyncio.sleep(0)


def supervise(
    settings: Settings, command: Sequence[str], payload: Mapping[str, Any], announce: Announce
) -> int:
    """Start ``settings.workers`` processes, restart those that die, end them together.

    Each gets one line of JSON on its standard input: ``payload`` and ``settings`` (with the port),
    ``board`` (the counters' folder). The pipe stays open: when it ends, so does the worker. The
    first is awaited before the others start, so that an index is built once. Returns an exit code.
    """
    if settings.port:
        bind(settings).close()  # or a second server would share the port of the first
    reserved = bind(settings, shared=True)  # never listens: it only keeps the port
    port = reserved.getsockname()[1]
    stopping = threading.Event()
    for sig in (signal.SIGINT, signal.SIGTERM):
        signal.signal(sig, lambda *_: stopping.set())
    with tempfile.TemporaryDirectory(prefix="searchgym-serve-") as board:
        folder = Path(board)
        told = json.loads(settings.to_json()) | {"port": port}
        failed = 0

        def start() -> subprocess.Popen[bytes]:
            line = {**payload, "settings": json.dumps(told), "board": board}
            environment = {**os.environ, FOLDER: board}
            process = subprocess.Popen(command, stdin=subprocess.PIPE, env=environment)
            assert process.stdin is not None
            process.stdin.write(json.dumps(line).encode() + b"\n")
            process.stdin.flush()
            return process

        def answers(process: subprocess.Popen[bytes]) -> bool:
            return ready_file(folder, process.pid).exists()

        workers = [start()]
        try:
            announced = False
            while not stopping.wait(0.05):
                for i, process in enumerate(workers):
                    if process.poll() is None:
                        continue
                    failed = 0 if answers(process) else failed + 1
                    if failed >= _GIVE_UP_AFTER or not announced:
                        return process.returncode or 1
                    LOG.error("worker %d ended (%s); starting it anew", i, process.returncode)
                    bury(folder, process.pid)
                    workers[i] = start()
                if len(workers) < settings.workers and answers(workers[0]):
                    workers += [start() for _ in range(1, settings.workers)]
                if not announced and sum(map(answers, workers)) == settings.workers:
                    announce(port)
                    announced = True
            return 0
        finally:
            _end(workers, settings.grace_s)
            reserved.close()


def _end(workers: Sequence[subprocess.Popen[bytes]], grace_s: float) -> None:
    for process in workers:
        process.terminate()
    until = time.monotonic() + grace_s + 5
    for process in workers:
        try:
            process.wait(max(0.1, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def worker(
    build: Callable[[Mapping[str, Any], Settings], Callable[[Board], FastAPI]],
) -> None:
    """Run a worker process: read its line, serve, end when the supervisor is gone, however that
    ended (its end of the pipe closes)."""
    line = b""
    while not line.endswith(b"\n"):
        if not (piece := os.read(0, 1 << 16)):
            raise SearchGymError("a worker process is started by its supervisor, not by hand")
        line += piece
    told = json.loads(line)
    settings = Settings.from_json(told["settings"])
    board = Board(Path(told["board"]), workers=settings.workers)
    alone = threading.Event()

    def watch() -> None:
        while os.read(0, 1):  # not sys.stdin: its lock would be held when the interpreter ends
            pass
        alone.set()
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, name="supervisor-watch", daemon=True).start()
    try:
        make = build(told, settings)
        serve(make, settings, bind(settings, shared=True), board, lambda port: None)
    finally:
        if alone.is_set():  # there is no supervisor left to do it
            shutil.rmtree(told["board"], ignore_errors=True)
