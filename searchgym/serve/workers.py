"""Running the server: one process under uvicorn, or several that share a port."""

from __future__ import annotations

import gc
import json
import logging
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import SearchGymError
from ..web.server import bind, make_server
from .metrics import FOLDER, Board, bury, ready_file
from .settings import Settings

if TYPE_CHECKING:
    from fastapi import FastAPI

LOG = logging.getLogger("searchgym.serve")
_GIVE_UP_AFTER = 3
Announce = Callable[[int], None]
"""Told the port once requests are answered."""


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
