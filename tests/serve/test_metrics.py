"""Counters, percentiles and their Prometheus form."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

from searchgym.corpora.corpus import Corpus
from searchgym.engines.bm25 import BM25Engine
from searchgym.serve.metrics import Board

from .conftest import client_of

pytestmark = pytest.mark.timeout(60)


def test_percentiles_are_within_a_bucket_of_exact() -> None:
    board = Board()
    times = np.random.default_rng(3).lognormal(13, 2, 5000).astype(int)
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
        assert exact * 0.99 <= stats["latency_ms"][name] <= exact * 1.14


@pytest.mark.parametrize("nanoseconds", [0, 1, 7, 8, 9, 15, 16, 1000, 10**9, 10**12, 10**15])
def test_every_latency_has_a_bucket_that_holds_it(nanoseconds: int) -> None:
    board = Board()
    board.request()
    board.done("access", 404, nanoseconds)
    shown = board.stats()["latency_ms"]["p50"] * 1e6
    if nanoseconds < 10**12:  # longer ones share the last bucket
        assert nanoseconds < shown <= max(nanoseconds * 1.126, nanoseconds + 1.001)
    assert shown > 0


def test_workers_share_one_board(tmp_path: Path) -> None:
    path = tmp_path / "board"
    path.touch()
    boards = [Board(path, workers=3, worker=i) for i in range(3)]
    for i, board in enumerate(boards):
        board.start()
        board.ready()
        for _ in range(i + 1):
            board.request()
            board.done("retrieve", 200 if i else 503, 1000)
            board.batch(4**i)
    boards[1].start()  # its process was replaced; what the old one counted stays
    boards[0].clear_ready(2)
    stats = boards[2].stats()
    assert (stats["workers"], stats["restarts"]) == (2, 1)
    assert stats["responses"] == {"200": 5, "503": 1}
    assert stats["batches"] == 6
    assert stats["batch_size"]["mean"] == (1 + 2 * 4 + 3 * 16) / 6
    assert stats["batch_size"]["histogram"] == {"<=1": 1, "<=4": 2, "<=16": 3}


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
