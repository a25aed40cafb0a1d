"""Counters, percentiles and their Prometheus form."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

from searchgym.corpora import Corpus
from searchgym.engines import BM25Engine
from searchgym.serve.metrics import FOLDER, Board, bury, quantile, ready_file

from .conftest import client_of

pytestmark = pytest.mark.timeout(60)


def test_percentiles_are_near_exact_ones() -> None:
    board = Board()
    times = np.random.default_rng(3).lognormal(15, 1.5, 5000).astype(int)
    for t in times.tolist():
        board.request()
        board.done("retrieve", 200, t, 2)
    stats = board.stats()
    assert stats["requests"] == 5000
    assert stats["queries"] == 10_000
    assert stats["in_flight"] == 0
    assert stats["responses"] == {"200": 5000}
    assert stats["latency_ms"]["mean"] == pytest.approx(times.mean() / 1e6)
    for name, share in (("p50", 50), ("p99", 99)):
        exact = float(np.percentile(times, share)) / 1e6
        assert stats["latency_ms"][name] == pytest.approx(exact, rel=0.1)


def test_quantiles_by_hand() -> None:
    inf = float("inf")
    assert quantile([(1.0, 2), (2.0, 6), (4.0, 10), (inf, 10)], 0.4) == pytest.approx(1.5)
    assert quantile([(1.0, 0), (2.0, 4), (inf, 4)], 0.5) == pytest.approx(1.5)
    assert quantile([(1.0, 5), (inf, 10)], 0.99) == 1.0  # beyond the last bound: that bound
    assert quantile([(1.0, 0), (inf, 0)], 0.5) == quantile([], 0.5) == 0.0


CHILD = """
import os, sys, time
from pathlib import Path
from searchgym.serve.metrics import FOLDER, Board, bury, quantile, ready_file
board, n = Board(Path(sys.argv[1]), workers=3), int(sys.argv[2])
board.start()
board.ready()
for _ in range(n):
    board.request()
    board.done("retrieve", 200 if n > 1 else 503, 1000)
    board.batch(4 ** (n - 1))
board.request()
print(board.stats(), flush=True)
sys.stdin.read()
"""


def test_processes_share_one_board_and_their_counts_outlive_them(tmp_path: Path) -> None:
    def child(n: int) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", CHILD, str(tmp_path), str(n)], text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            env={**os.environ, FOLDER: str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)},
        )  # fmt: skip

    def told(process: subprocess.Popen[str]) -> dict[str, Any]:
        assert process.stdout is not None
        stats: dict[str, Any] = ast.literal_eval(process.stdout.readline())
        return stats

    children = []
    for n in (1, 2, 3):  # one after the other, so that the last has seen them all
        children.append(child(n))
        stats = told(children[-1])
    assert (stats["workers"], stats["restarts"], stats["in_flight"]) == (3, 0, 3)
    assert stats["responses"] == {"200": 5, "503": 1}
    assert stats["batches"] == 6
    assert stats["batch_size"]["mean"] == (1 + 2 * 4 + 3 * 16) / 6
    assert stats["batch_size"]["histogram"] == {"<=1": 1, "<=4": 2, "<=16": 3}
    children[2].kill()
    children[2].wait()
    assert ready_file(tmp_path, children[2].pid).exists()
    bury(tmp_path, children[2].pid)
    assert not ready_file(tmp_path, children[2].pid).exists()
    children.append(child(1))  # in its place
    stats = told(children[3])
    assert (stats["workers"], stats["restarts"], stats["in_flight"]) == (3, 1, 3)
    assert stats["responses"] == {"200": 5, "503": 2}, "what the killed one counted stays"
    for process in children:
        process.communicate("")


@pytest.mark.anyio
async def test_stats_and_metrics_of_a_server(engine: BM25Engine, corpus: Corpus) -> None:
    async with client_of(engine, corpus) as client:
        for _ in range(5):
            await client.post("/retrieve", json={"queries": ["boats", "blue"]})
        await client.post("/retrieve", content=b"{")
        await client.post("/access", json={"urls": ["u/1"]})
        stats = (await client.get("/stats")).json()
        assert stats["responses"] == {"200": 6, "400": 1}
        assert stats["queries"] == 10
        assert stats["passages"] == len(corpus)
        assert 0 < stats["latency_ms"]["p50"] <= stats["latency_ms"]["p99"]
        reply = await client.get("/metrics")
        assert reply.headers["content-type"].startswith("text/plain")
        families = {f.name: f for f in text_string_to_metric_families(reply.text)}
    requests = {
        (s.labels["route"], s.labels["status"]): s.value
        for s in families["searchgym_requests"].samples
        if s.name.endswith("_total")
    }
    assert requests == {("retrieve", "200"): 5, ("retrieve", "400"): 1, ("access", "200"): 1}
    assert families["searchgym_queries"].samples[0].value == 10
    for name, count, total in (
        ("searchgym_request_seconds", 7, None),
        ("searchgym_batch_size", 5, 10),
    ):
        samples = families[name].samples
        buckets = [s.value for s in samples if s.name.endswith("_bucket")]
        assert buckets == sorted(buckets)
        assert buckets[-1] == count == next(s.value for s in samples if s.name.endswith("_count"))
        if total is not None:
            assert next(s.value for s in samples if s.name.endswith("_sum")) == total
