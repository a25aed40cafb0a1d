"""Server processes: how they start, end in order, and survive being killed."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from searchgym.engines import BM25Engine
from searchgym.serve.metrics import FOLDER

from .conftest import ROOT, ServerProcess, Start

pytestmark = [pytest.mark.contract, pytest.mark.timeout(180)]
BODY = {"queries": ["blue house"], "topk": 2, "return_scores": True}


def until(done: Callable[[], bool], what: str, seconds: float = 60) -> None:
    stop = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < stop, f"{what} did not happen within {seconds:g} s"
        time.sleep(0.02)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def counters(pid: int) -> Path:
    """The folder of a worker's counters, from its environment."""
    environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    prefix = f"{FOLDER}=".encode()
    return Path(next(x for x in environment if x.startswith(prefix))[len(prefix) :].decode())


def children(pid: int) -> list[int]:
    return [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_a_call_that_hangs_does_not_keep_a_server_from_its_end(
    start: Start, passage_file: Path
) -> None:
    server = start(
        passage_file, "--engine", "tests.serve.engines:SlowEngine", "-s", "engine.seconds=100",
        "--grace", 0.5,
    )  # fmt: skip
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(
            httpx.post, server.url + "/retrieve", json={"query": "note"}, timeout=90
        )
        until(lambda: server.stats()["in_flight"] == 1, "a request in flight")
        server.signal(signal.SIGTERM)
        reply = asked.result(60)
    assert (reply.status_code, reply.json()["error"]) == (503, "shutting_down")
    assert server.process.wait(60) == 0
    assert "Traceback" not in server.errors.read_text()


def test_kill_9_and_restart_with_the_saved_index(
    start: Start, passage_file: Path, tmp_path: Path
) -> None:
    index = tmp_path / "index"
    server = start(passage_file, "--index", index)
    before = server.post("/retrieve", BODY)
    saved = {p.name: p.stat().st_mtime_ns for p in index.iterdir()}
    stop = threading.Event()

    def hammer() -> int:
        answered = 0
        with contextlib.suppress(httpx.TransportError):
            while not stop.is_set():
                server.post("/retrieve", BODY)
                answered += 1
        return answered

    with ThreadPoolExecutor(4) as pool:
        jobs = [pool.submit(hammer) for _ in range(4)]
        until(lambda: server.stats()["requests"] > 50, "some load")
        server.signal(signal.SIGKILL)
        stop.set()
        assert sum(job.result() for job in jobs) > 40
    assert server.process.wait(30) == -signal.SIGKILL
    again = start(passage_file, "--index", index)
    assert again.post("/retrieve", BODY) == before
    assert {p.name: p.stat().st_mtime_ns for p in index.iterdir()} == saved, "it was not rebuilt"


def test_kill_9_loses_no_recorded_answer_that_was_sent(
    start: Start, passage_file: Path, tmp_path: Path
) -> None:
    """Every answer a client has seen is in the recording, which a server without the engine
    replays."""
    recording = tmp_path / "recording.sqlite"
    server = start(
        passage_file, "--engine", "recorded", "-s", "engine.engine=bm25",
        "-s", f"engine.path={recording}", "-s", "engine.mode=record",
    )  # fmt: skip
    seen: dict[str, object] = {}

    def ask(worker: int) -> None:
        with contextlib.suppress(httpx.TransportError):
            for i in range(10_000):
                body = {"queries": [f"note {worker} {i}"], "return_scores": True}
                seen[body["queries"][0]] = server.post("/retrieve", body)  # type: ignore[index]

    with ThreadPoolExecutor(4) as pool:
        jobs = [pool.submit(ask, worker) for worker in range(4)]
        until(lambda: len(seen) > 60, "sixty recorded answers")
        server.signal(signal.SIGKILL)
        for job in jobs:
            job.result()
    server.process.wait(30)
    with contextlib.closing(sqlite3.connect(recording)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    again = start(
        passage_file, "--engine", "recorded", "-s", f"engine.path={recording}",
        "-s", "engine.mode=replay",
    )  # fmt: skip
    for query, reply in seen.items():
        assert again.post("/retrieve", {"queries": [query], "return_scores": True}) == reply


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="finds workers through /proc")
def test_workers_share_a_port_and_are_replaced_when_they_die(
    start: Start, passage_file: Path, engine: BM25Engine
) -> None:
    server = start(passage_file, "--workers", 2)
    pid = server.process.pid
    until(lambda: server.stats()["workers"] == 2, "two workers")
    with ThreadPoolExecutor(8) as pool:
        replies = list(pool.map(lambda i: server.post("/retrieve", BODY), range(60)))
    wanted = [hit.passage.id for hit in engine.search(BODY["queries"], 2)[0]]  # type: ignore[arg-type]
    for reply in replies:
        assert [item["document"]["id"] for item in reply["result"][0]] == wanted
    until(lambda: server.stats()["queries"] == 60, "either worker's telling of both", 5)
    old = children(pid)
    assert len(old) == 2
    os.kill(old[0], signal.SIGKILL)
    until(lambda: _whole_again(server, pid, old), "a new worker")
    for _ in range(20):
        server.post("/retrieve", BODY)
    until(lambda: server.stats()["queries"] == 80, "keeping what the dead worker counted", 5)
    until(lambda: server.stats()["in_flight"] == 0, "a true gauge", 5)
    assert server.stats()["restarts"] == 1
    workers = children(pid)
    folder = counters(workers[0])
    server.signal(signal.SIGTERM)
    assert server.process.wait(40) == 0
    assert not any(map(alive, workers))
    assert not folder.exists()


def _whole_again(server: ServerProcess, pid: int, old: list[int]) -> bool:
    now = children(pid)
    try:
        return len(now) == 2 and old[0] not in now and server.stats()["workers"] == 2
    except httpx.TransportError:  # a connection that the dead worker had accepted
        return False


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="finds workers through /proc")
def test_workers_end_when_their_supervisor_is_killed(start: Start, passage_file: Path) -> None:
    server = start(passage_file, "--workers", 2)
    workers = children(server.process.pid)
    assert len(workers) == 2
    folder = counters(workers[0])
    assert folder.is_dir()
    server.signal(signal.SIGKILL)
    until(lambda: not any(map(alive, workers)), "the workers' end")
    assert not folder.exists()


def test_a_worker_that_cannot_start_ends_the_server(passage_file: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "searchgym", "serve", str(passage_file), "--port", "0",
         "--workers", "2", "--engine", "bm52"],
        cwd=ROOT, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 2, done
    assert done.stderr.count("\n") == 1
    assert "unknown engine 'bm52'" in done.stderr


def test_a_world_is_served_with_its_graph(start: Start) -> None:
    server = start("encyclopedia", "--engine", "graph", "--split", "dev")
    stats = server.stats()
    assert stats["passages"] > 1000
    assert "graph" in stats["engine"]
    health = server.client.get("/healthz").json()
    assert health["status"] == "ok"
    assert json.dumps(server.post("/retrieve", {"query": "nothing at all"}))
