"""Counters of all worker processes in one small shared file, read as statistics or by Prometheus.

Each worker writes its own row, so there is nothing to lock; a reader adds the rows up. Latencies go
into a histogram with eight buckets per doubling, hence percentiles are within 13 % of exact.
"""

from __future__ import annotations

import mmap
import threading
import time
from bisect import bisect_left
from collections.abc import Iterator
from pathlib import Path
from typing import Any

STATUSES = (200, 202, 400, 401, 404, 405, 413, 422, 500, 502, 503, 504)
ROUTES = ("retrieve", "access", "mcp")
BATCH_BOUNDS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
SECONDS_BOUNDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
_STEPS = 8
_BUCKETS = 40 * _STEPS

_STARTED, _READY, _QUERIES, _RUNNING, _NANOSECONDS, _BATCHES, _BATCHED = range(7)
_STATUS_AT = 8
_SIZES_AT = _STATUS_AT + len(ROUTES) * len(STATUSES)
_TIMES_AT = _SIZES_AT + len(BATCH_BOUNDS) + 1
_ROW = _TIMES_AT + _BUCKETS


class Board:
    """One worker's view of the shared counters. ``path`` None keeps them in this process."""

    def __init__(self, path: Path | None = None, *, workers: int = 1, worker: int = 0) -> None:
        size = workers * _ROW * 8
        if path is None:
            memory = mmap.mmap(-1, size)
        else:
            with path.open("r+b") as file:
                file.truncate(size)
                memory = mmap.mmap(file.fileno(), size)
        self._all = memoryview(memory).cast("q")
        self.workers, self.worker = workers, worker
        self._own = self._all[worker * _ROW : (worker + 1) * _ROW]
        self._lock = threading.Lock()
        self._status = {
            (route, status): _STATUS_AT + i * len(STATUSES) + j
            for i, route in enumerate(ROUTES)
            for j, status in enumerate(STATUSES)
        }

    # --- writing ------------------------------------------------------------------------------
    def start(self) -> None:
        """Count a start of this worker; what an earlier process in its place counted stays."""
        self._own[_STARTED] += 1
        self._own[_RUNNING] = 0

    def ready(self, now: bool = True) -> None:
        self._own[_READY] = int(now)

    def request(self) -> None:
        """A request has begun."""
        self._own[_RUNNING] += 1

    def done(self, route: str, status: int, nanoseconds: int, queries: int = 0) -> None:
        """A request has been answered."""
        own = self._own
        own[_RUNNING] -= 1
        own[self._status.get((route, status), self._status[route, 500])] += 1
        own[_QUERIES] += queries
        own[_NANOSECONDS] += nanoseconds
        own[_TIMES_AT + _bucket(nanoseconds)] += 1

    def batch(self, size: int) -> None:
        """The engine was called for ``size`` queries."""
        own, place = self._own, bisect_left(BATCH_BOUNDS, size)
        with self._lock:  # batches end in several threads, requests only in the event loop
            own[_BATCHES] += 1
            own[_BATCHED] += size
            own[_SIZES_AT + place] += 1

    # --- reading ------------------------------------------------------------------------------
    def _sum(self, at: int) -> int:
        return sum(self._all[worker * _ROW + at] for worker in range(self.workers))

    def ready_workers(self) -> int:
        return self._sum(_READY)

    def clear_ready(self, worker: int) -> None:
        """For the supervisor of a worker that ended without saying so."""
        self._all[worker * _ROW + _READY] = 0

    def is_ready(self, worker: int) -> bool:
        return bool(self._all[worker * _ROW + _READY])

    def stats(self) -> dict[str, Any]:
        """Counts, latencies in milliseconds and batch sizes since the server started."""
        times = [self._sum(_TIMES_AT + i) for i in range(_BUCKETS)]
        by_status: dict[str, int] = {}
        for (_, status), at in self._status.items():
            if count := self._sum(at):
                by_status[str(status)] = by_status.get(str(status), 0) + count
        requests, batches = sum(times), self._sum(_BATCHES)
        return {
            "workers": self.ready_workers(),
            "restarts": self._sum(_STARTED) - self.workers,
            "requests": requests,
            "in_flight": self._sum(_RUNNING),
            "queries": self._sum(_QUERIES),
            "responses": by_status,
            "latency_ms": {
                "mean": self._sum(_NANOSECONDS) / requests / 1e6 if requests else 0.0,
                "p50": _percentile(times, 0.5) * 1e3,
                "p99": _percentile(times, 0.99) * 1e3,
            },
            "batches": batches,
            "batch_size": {
                "mean": self._sum(_BATCHED) / batches if batches else 0.0,
                "histogram": self._sizes(),
            },
        }

    def _sizes(self) -> dict[str, int]:
        names = [*(f"<={b}" for b in BATCH_BOUNDS), f">{BATCH_BOUNDS[-1]}"]
        counts = (self._sum(_SIZES_AT + i) for i in range(len(names)))
        return {name: count for name, count in zip(names, counts, strict=True) if count}

    def prometheus(self) -> bytes:
        """The same in Prometheus's text format."""
        from prometheus_client import CollectorRegistry, generate_latest

        registry = CollectorRegistry()
        registry.register(self)
        return generate_latest(registry)

    def collect(self) -> Iterator[Any]:
        """Metric families, as prometheus_client asks for them."""
        from prometheus_client.core import (
            CounterMetricFamily,
            GaugeMetricFamily,
            HistogramMetricFamily,
        )

        responses = CounterMetricFamily(
            "searchgym_requests", "Requests answered.", labels=["route", "status"]
        )
        for (route, status), at in self._status.items():
            if count := self._sum(at):
                responses.add_metric([route, str(status)], count)
        yield responses
        yield CounterMetricFamily(
            "searchgym_queries", "Queries answered.", value=self._sum(_QUERIES)
        )
        yield GaugeMetricFamily(
            "searchgym_requests_in_flight", "Requests being answered.", value=self._sum(_RUNNING)
        )
        yield GaugeMetricFamily(
            "searchgym_workers_ready", "Worker processes that answer.", value=self.ready_workers()
        )
        times = [self._sum(_TIMES_AT + i) for i in range(_BUCKETS)]
        seconds = HistogramMetricFamily(
            "searchgym_request_seconds", "Time from reading a request to its answer."
        )
        seconds.add_metric(
            [],
            [
                (repr(bound), sum(n for i, n in enumerate(times) if _upper(i) <= bound))
                for bound in SECONDS_BOUNDS
            ]
            + [("+Inf", sum(times))],
            self._sum(_NANOSECONDS) / 1e9,
        )
        yield seconds
        sizes = HistogramMetricFamily("searchgym_batch_size", "Queries per call of the engine.")
        total, rows = 0, []
        for i, name in enumerate([*map(str, BATCH_BOUNDS), "+Inf"]):
            total += self._sum(_SIZES_AT + i)
            rows.append((name, total))
        sizes.add_metric([], rows, self._sum(_BATCHED))
        yield sizes


def _bucket(nanoseconds: int) -> int:
    """Eight buckets per power of two, by the leading four bits."""
    if nanoseconds < _STEPS:
        return max(0, nanoseconds)
    shift = nanoseconds.bit_length() - 4
    return min((shift + 1) * _STEPS + (nanoseconds >> shift) - _STEPS, _BUCKETS - 1)


def _upper(bucket: int) -> float:
    """Upper end of a bucket in seconds."""
    if bucket < _STEPS:
        return (bucket + 1) / 1e9
    shift, step = bucket // _STEPS - 1, bucket % _STEPS + _STEPS
    return ((step + 1) << shift) / 1e9


def _percentile(counts: list[int], share: float) -> float:
    wanted = sum(counts) * share
    seen = 0
    for bucket, count in enumerate(counts):
        seen += count
        if count and seen >= wanted:
            return _upper(bucket)
    return 0.0


def now() -> int:
    """Nanoseconds for measuring latencies."""
    return time.perf_counter_ns()
