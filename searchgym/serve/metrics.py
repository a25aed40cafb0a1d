"""Counters of all worker processes by ``prometheus_client``, read by Prometheus or as statistics.

One process keeps them in memory. Several use its multiprocess mode: each writes files of its own
into one folder and a reader adds them up, so what a worker counted outlives it. That mode is chosen
when ``prometheus_client`` is imported: the environment variable :data:`FOLDER` must stand before.

Those files cost 24 µs of a request's 80 if each is written to for each request. So a process counts
for itself and hands the sums on every :data:`EVERY_S`; what a kill can lose is the last of these.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

FOLDER = "PROMETHEUS_MULTIPROC_DIR"
BATCH_BOUNDS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
SECONDS_BOUNDS = tuple(float(f"{0.0001 * 1.5**i:.3g}") for i in range(34))
"""0.1 ms to 64 s, each 1.5 times the one before."""
EVERY_S = 0.1


class Board:
    """One process's counters, and the sums over all of them.

    Args:
        folder: The folder that the processes share, which :data:`FOLDER` names; None keeps counters
            in memory.
        workers: How many processes there are meant to be.
    """

    def __init__(self, folder: Path | None = None, *, workers: int = 1) -> None:
        from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

        self._folder, self._workers = folder, workers
        self._registry = registry = CollectorRegistry()
        self._requests = Counter(
            "searchgym_requests", "Requests answered.", ["route", "status"], registry=registry
        )
        self._queries = Counter("searchgym_queries", "Queries answered.", registry=registry)
        self._starts = Counter(
            "searchgym_worker_starts", "Worker processes started.", registry=registry
        )
        self._running = Gauge(
            "searchgym_requests_in_flight", "Requests being answered.",
            multiprocess_mode="livesum", registry=registry,
        )  # fmt: skip
        self._ready = Gauge(
            "searchgym_workers_ready", "Worker processes that answer.",
            multiprocess_mode="livesum", registry=registry,
        )  # fmt: skip
        self._seconds = Histogram(
            "searchgym_request_seconds", "Time from reading a request to its answer.",
            buckets=SECONDS_BOUNDS, registry=registry,
        )  # fmt: skip
        self._sizes = Histogram(
            "searchgym_batch_size", "Queries per call of the engine.",
            buckets=BATCH_BOUNDS, registry=registry,
        )  # fmt: skip
        self._guard = threading.Lock()  # batches end in several threads, requests in one
        self._in_flight = self._asked = 0
        self._answered: dict[tuple[str, int], int] = {}
        self._spent = _Observed(SECONDS_BOUNDS)
        self._called = _Observed(BATCH_BOUNDS)

    # --- writing ------------------------------------------------------------------------------
    def start(self) -> None:
        """Count a start of this process."""
        self._starts.inc()

    def ready(self, now: bool = True) -> None:
        """Say whether this process answers; its supervisor looks for :func:`ready_file`."""
        self._ready.set(int(now))
        if self._folder is not None:
            file = ready_file(self._folder, os.getpid())
            file.touch() if now else file.unlink(missing_ok=True)

    def request(self) -> None:
        """A request has begun."""
        self._in_flight += 1

    def done(self, route: str, status: int, nanoseconds: int, queries: int = 0) -> None:
        """A request has been answered."""
        self._in_flight -= 1
        key = route, status
        self._answered[key] = self._answered.get(key, 0) + 1
        self._asked += queries
        self._spent.add(nanoseconds / 1e9)

    def asked(self, queries: int) -> None:
        """Queries have come, besides those that :meth:`done` is told of."""
        self._asked += queries

    def batch(self, size: int) -> None:
        """Count a call of the engine for ``size`` queries."""
        with self._guard:
            self._called.add(size)

    def flush(self) -> None:
        """Hand what was counted since the last time to ``prometheus_client``."""
        self._running.set(self._in_flight)
        answered, self._answered = self._answered, {}
        for (route, status), count in answered.items():
            self._requests.labels(route, str(status)).inc(count)
        if self._asked:
            self._queries.inc(self._asked)
            self._asked = 0
        self._spent.into(self._seconds)
        with self._guard:
            self._called.into(self._sizes)

    async def keep_flushing(self) -> None:
        """Flush the metrics again and again, in a task beside the server."""
        while True:
            await asyncio.sleep(EVERY_S)
            self.flush()

    # --- reading ------------------------------------------------------------------------------
    def prometheus(self) -> bytes:
        """All processes' metrics in Prometheus's text format."""
        from prometheus_client import generate_latest

        return generate_latest(self._all())

    def stats(self) -> dict[str, Any]:
        """Counts, latencies in milliseconds and batch sizes since the server started."""
        sums: dict[str, float] = {}
        by_status: dict[str, int] = {}
        buckets: dict[str, list[tuple[float, int]]] = {}
        for family in self._all().collect():
            for sample in family.samples:
                if sample.name == "searchgym_requests_total":
                    status = sample.labels["status"]
                    by_status[status] = by_status.get(status, 0) + int(sample.value)
                elif sample.name.endswith("_bucket"):
                    row = buckets.setdefault(family.name, [])
                    row.append((float(sample.labels["le"]), int(sample.value)))
                else:
                    sums[sample.name] = sample.value
        seconds = sorted(buckets.get("searchgym_request_seconds", ()))
        requests = int(sums.get("searchgym_request_seconds_count", 0))
        batches = int(sums.get("searchgym_batch_size_count", 0))
        spent, batched = (sums.get(f"searchgym_{n}_sum", 0.0) for n in _HISTOGRAMS)
        return {
            "workers": int(sums.get("searchgym_workers_ready", 0)),
            "restarts": max(0, int(sums.get("searchgym_worker_starts_total", 0)) - self._workers),
            "requests": requests,
            "in_flight": int(sums.get("searchgym_requests_in_flight", 0)),
            "queries": int(sums.get("searchgym_queries_total", 0)),
            "responses": by_status,
            "latency_ms": {
                "mean": spent / requests * 1e3 if requests else 0.0,
                "p50": quantile(seconds, 0.5) * 1e3,
                "p99": quantile(seconds, 0.99) * 1e3,
            },
            "batches": batches,
            "batch_size": {
                "mean": batched / batches if batches else 0.0,
                "histogram": dict(_sizes(sorted(buckets.get("searchgym_batch_size", ())))),
            },
        }

    def _all(self) -> Any:
        """A registry of all processes."""
        self.flush()
        if self._folder is None:
            return self._registry
        from prometheus_client import CollectorRegistry
        from prometheus_client.multiprocess import MultiProcessCollector

        registry = CollectorRegistry()
        MultiProcessCollector(registry, path=str(self._folder))
        return registry


class _Observed:
    """Values that a histogram has still to be told."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def add(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def into(self, histogram: Any) -> None:
        """Tell it: through its parts, as it takes single values only."""
        if any(self._counts):
            for bucket, count in zip(histogram._buckets, self._counts, strict=True):
                if count:
                    bucket.inc(count)
            histogram._sum.inc(self._sum)
            self._counts, self._sum = [0] * len(self._counts), 0.0


_HISTOGRAMS = ("request_seconds", "batch_size")


def ready_file(folder: Path, pid: int) -> Path:
    """The file that stands while a process answers."""
    return folder / f"{pid}.ready"


def bury(folder: Path, pid: int) -> None:
    """Take what a process that ended said of the present out of the sums; its counts stay."""
    from prometheus_client.multiprocess import mark_process_dead

    mark_process_dead(pid, str(folder))
    ready_file(folder, pid).unlink(missing_ok=True)


def quantile(buckets: list[tuple[float, int]], share: float) -> float:
    """A quantile from cumulative buckets (upper bound, count), ascending, by a straight line within
    the bucket, as Prometheus's ``histogram_quantile``; 0 if there are no counts."""
    if not buckets or not buckets[-1][1]:
        return 0.0
    wanted, low, below = share * buckets[-1][1], 0.0, 0
    for bound, count in buckets:
        if count >= wanted and count > below:
            if bound == float("inf"):
                break
            return low + (bound - low) * (wanted - below) / (count - below)
        low, below = bound, count
    return low


def _sizes(buckets: list[tuple[float, int]]) -> Iterator[tuple[str, int]]:
    for (low, below), (bound, count) in pairwise([(0.0, 0), *buckets]):
        if count > below:
            named = f"<={bound:.0f}" if bound != float("inf") else f">{low:.0f}"
            yield named, count - below


def now() -> int:
    """Nanoseconds for measuring latencies."""
    return time.perf_counter_ns()
