"""Counters of all worker processes by ``prometheus_client``, read by Prometheus or as statistics.

One process keeps them in memory. Several use its multiprocess mode: each writes files of its own
into one folder and a reader adds them up, so what a worker counted outlives it. That mode is chosen
when ``prometheus_client`` is imported: the environment variable :data:`FOLDER` must stand before.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

FOLDER = "PROMETHEUS_MULTIPROC_DIR"
BATCH_BOUNDS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
SECONDS_BOUNDS = tuple(float(f"{0.0001 * 1.5**i:.3g}") for i in range(34))
"""0.1 ms to 64 s, each 1.5 times the one before."""


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
        self._answered = cache(self._requests.labels)  # to look one up takes longer than to count

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
        self._running.inc()

    def done(self, route: str, status: int, nanoseconds: int, queries: int = 0) -> None:
        """A request has been answered."""
        self._running.dec()
        self._answered(route, status).inc()
        self._seconds.observe(nanoseconds / 1e9)
        self.asked(queries)

    def asked(self, queries: int) -> None:
        """Queries have come, besides those that :meth:`done` is told of."""
        if queries:
            self._queries.inc(queries)

    def batch(self, size: int) -> None:
        """Count a call of the engine for ``size`` queries."""
        self._sizes.observe(size)

    # --- reading ------------------------------------------------------------------------------
    def prometheus(self) -> bytes:
        """All processes' metrics in Prometheus's text format."""
        from prometheus_client import generate_latest

        return generate_latest(self._all())

    def stats(self) -> dict[str, Any]:
        """Counts, latencies in milliseconds and batch sizes since the server started."""
        sums: dict[str, float] = defaultdict(float)
        by_status: dict[str, int] = defaultdict(int)
        buckets: dict[str, list[tuple[float, int]]] = defaultdict(list)
        for family in self._all().collect():
            for sample in family.samples:
                name = sample.name.removeprefix("searchgym_")
                if name == "requests_total":
                    by_status[sample.labels["status"]] += int(sample.value)
                elif name.endswith("_bucket"):
                    buckets[name].append((float(sample.labels["le"]), int(sample.value)))
                else:
                    sums[name] = sample.value
        seconds = sorted(buckets["request_seconds_bucket"])
        requests, batches = sums["request_seconds_count"], sums["batch_size_count"]
        return {
            "workers": int(sums["workers_ready"]),
            "restarts": max(0, int(sums["worker_starts_total"]) - self._workers),
            "requests": int(requests),
            "in_flight": int(sums["requests_in_flight"]),
            "queries": int(sums["queries_total"]),
            "responses": dict(by_status),
            "latency_ms": {
                "mean": sums["request_seconds_sum"] / max(requests, 1) * 1e3,
                "p50": quantile(seconds, 0.5) * 1e3,
                "p99": quantile(seconds, 0.99) * 1e3,
            },
            "batches": int(batches),
            "batch_size": {
                "mean": sums["batch_size_sum"] / max(batches, 1),
                "histogram": dict(_sizes(sorted(buckets["batch_size_bucket"]))),
            },
        }

    def _all(self) -> Any:
        """A registry of all processes."""
        if self._folder is None:
            return self._registry
        from prometheus_client import CollectorRegistry
        from prometheus_client.multiprocess import MultiProcessCollector

        registry = CollectorRegistry()
        MultiProcessCollector(registry, path=str(self._folder))
        return registry


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
