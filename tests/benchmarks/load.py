"""Driving a server with wrk and reading what it measured."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
LUA = """
local bodies = {}
for line in io.lines("%s") do bodies[#bodies + 1] = line end
local turn = 0
local threads = 0
function setup(thread) thread:set("start", threads * 97); threads = threads + 1 end
function init(args)
  turn = start
  requests = {}
  for i, body in ipairs(bodies) do
    requests[i] = wrk.format("POST", "/retrieve", {["Content-Type"] = "application/json"}, body)
  end
end
function request() turn = turn %% #requests + 1; return requests[turn] end
function done(summary, latency, requests)
  local e = summary.errors
  io.write(string.format(
    'JSON {"requests":%%d,"seconds":%%f,"bytes":%%d,"p50":%%f,"p99":%%f,"max":%%f,' ..
    '"status":%%d,"timeout":%%d,"socket":%%d}\\n',
    summary.requests, summary.duration / 1e6, summary.bytes, latency:percentile(50) / 1e3,
    latency:percentile(99) / 1e3, latency.max / 1e3, e.status, e.timeout,
    e.connect + e.read + e.write))
end
"""


class Load(NamedTuple):
    """What wrk saw; latencies in milliseconds."""

    rate: float
    p50: float
    p99: float
    worst: float
    errors: int
    bytes_per_reply: float


def need_wrk() -> str:
    """Path of wrk, installed from Debian where it is missing and that is possible."""
    if shutil.which("wrk") is None and shutil.which("apt-get") is not None and os.geteuid() == 0:
        subprocess.run(["apt-get", "install", "-y", "-q", "wrk"], check=False, capture_output=True)
    found = shutil.which("wrk")
    if found is None:
        pytest.fail("this benchmark needs wrk: apt-get install wrk")
    return found


def drive(
    port: int, bodies: Sequence[Mapping[str, object]], folder: Path, *, seconds: float,
    connections: int = 200, threads: int = 2,
) -> Load:  # fmt: skip
    """Post the bodies in turn over ``connections`` connections for some seconds."""
    lines = folder / "bodies.jsonl"
    lines.write_text("".join(json.dumps(body) + "\n" for body in bodies), encoding="utf-8")
    script = folder / "load.lua"
    script.write_text(LUA % lines, encoding="utf-8")
    done = subprocess.run(
        [need_wrk(), "-t", str(threads), "-c", str(connections), "-d", f"{seconds:g}s",
         "-s", str(script), f"http://127.0.0.1:{port}"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    line = next((x for x in done.stdout.splitlines() if x.startswith("JSON ")), None)
    assert line is not None, done.stdout + done.stderr
    seen = json.loads(line.removeprefix("JSON "))
    errors = seen["status"] + seen["timeout"] + seen["socket"]
    each = seen["bytes"] / max(1, seen["requests"])
    return Load(seen["requests"] / seen["seconds"], seen["p50"], seen["p99"], seen["max"],
                errors, each)  # fmt: skip


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def ask(port: int, timeout: float) -> None:
    """One search by itself; returns when it is answered."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/retrieve", b'{"queries":["warm up"],"topk":3}',
        {"Content-Type": "application/json"},
    )  # fmt: skip
    with urllib.request.urlopen(request, timeout=timeout) as answer:
        answer.read()


@contextmanager
def running(command: Sequence[str], port: int, *, patience: float = 180) -> Iterator[None]:
    """A server process that answers on ``port``; ended by SIGTERM, and its exit is awaited."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "2"),
    }
    process = subprocess.Popen([sys.executable, *command], cwd=ROOT, env=environment)
    try:
        until = time.monotonic() + patience
        while True:
            assert process.poll() is None, f"{command} ended with {process.returncode}"
            assert time.monotonic() < until, f"{command} did not answer within {patience} s"
            try:
                ask(port, timeout=30)
                break
            except OSError:
                time.sleep(0.1)
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(40)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
