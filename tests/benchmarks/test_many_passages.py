"""BM25 for 21 million passages on a small machine: building, serving, and what is missed.

Sizes are ``SEARCHGYM_BENCH_PASSAGES`` (default: 1,000,000 and 5,000,000); the figures for 21
million are extrapolated from the two largest, seconds of the processor by a power of the size. At
one million and below, every top 10 is laid beside that of the engine in memory.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from searchgym.corpora import Corpus
from searchgym.engines import BM25Engine, build
from searchgym.types import Passage

from .many_passages import passages, questions
from .table import show

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(4 * 3600)]
SIZES = [
    int(size)
    for size in os.environ.get("SEARCHGYM_BENCH_PASSAGES", "1000000,5000000").split(",")
]  # fmt: skip
WHOLE = 21_015_324
THREADS = 2
QUESTIONS = 2_000
SERVE = """
import json, os, sys, time
from searchgym.engines.on_disk import DiskBM25Engine
from searchgym.types import CallContext, Query
from tests.benchmarks.many_passages import questions
folder, count, threads = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
start = time.perf_counter()
engine = DiskBM25Engine(folder, threads=threads)
opening = time.perf_counter() - start
context = CallContext(0, "e", {})
batch = [Query(text, 10, context) for text in questions(count)]
engine.run(batch[: count // 10])  # pages are read once
wall, cpu = time.perf_counter(), time.process_time()
answers = engine.run(batch)
wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
with open("/proc/self/status") as lines:
    memory = dict(line.split(":") for line in lines if line.startswith("Rss"))
print(json.dumps({
    "wall": wall, "cpu": cpu, "opening": opening,
    "ids": [[hit.passage.id for hit in ranking] for ranking in answers],
    "memory": {name: int(value.split()[0]) / 1e6 for name, value in memory.items()},
}))
"""


class Timed:
    """An iterator that counts the processor's seconds it takes itself."""

    def __init__(self, inner: Iterator[Passage]) -> None:
        self.inner, self.seconds = inner, 0.0

    def __iter__(self) -> Iterator[Passage]:
        return self

    def __next__(self) -> Passage:
        start = time.thread_time()
        try:
            return next(self.inner)
        finally:
            self.seconds += time.thread_time() - start


def measure(size: int, folder: Path) -> dict[str, float]:
    """Build an index of so many passages, and serve from it in a process of its own."""
    stream = Timed(passages(size))
    wall, cpu = time.perf_counter(), time.process_time()
    build(folder, stream)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu - stream.seconds
    disk = sum(path.stat().st_size for path in folder.iterdir()) / 1e9
    said = subprocess.run(
        [sys.executable, "-c", SERVE, str(folder), str(QUESTIONS), str(THREADS)],
        capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2],
    ).stdout  # fmt: skip
    served = json.loads(said)
    row = {
        "passages": size, "build wall min": wall / 60, "build cpu min": cpu / 60, "disk GB": disk,
        "open s": served["opening"], "queries/s": QUESTIONS / served["wall"],
        "cpu ms/query": served["cpu"] / QUESTIONS * 1e3,
        "anon GB": served["memory"]["RssAnon"], "mapped GB": served["memory"]["RssFile"],
    }  # fmt: skip
    if size <= 1_000_000:
        exact = BM25Engine(Corpus("sample", passages(size)))
        wanted = [[hit.passage.id for hit in r] for r in exact.search(questions(QUESTIONS), 10)]
        pairs = list(zip(wanted, served["ids"], strict=True))
        row["equal"] = sum(one == other for one, other in pairs) / QUESTIONS
    return row


def extrapolated(rows: list[dict[str, float]], name: str) -> float:
    """Carry a figure on to all passages, as a power of the size."""
    from math import log

    small, large = rows[-2:]
    ratio = log(large[name] / small[name]) / log(large["passages"] / small["passages"])
    return float(large[name] * (WHOLE / large["passages"]) ** ratio)


def test_twenty_one_million_passages(tmp_path: Path) -> None:
    rows = []
    for size in SIZES:
        rows.append(measure(size, tmp_path / str(size)))
        show(f"bm25_disk, {THREADS} threads", list(rows[-1]), [list(rows[-1].values())])
    if len(rows) > 1:
        names = [name for name in rows[-1] if name not in ("passages", "equal")]
        show(f"extrapolated to {WHOLE:,} passages", names,
             [[extrapolated(rows, name) for name in names]])  # fmt: skip
        assert extrapolated(rows, "build cpu min") <= 90
        assert extrapolated(rows, "anon GB") <= 6
    for row in rows:
        assert row.get("equal", 1.0) == 1.0


def test_generated_passages_keep_the_measured_law() -> None:
    from collections import Counter

    counts: Counter[str] = Counter()
    for passage in passages(5_000):
        counts.update(f"{passage.title} {passage.text}".split())
    words = sum(counts.values())
    ordered = sorted(counts.values(), reverse=True)
    assert words == 500_000
    for rank, share in ((10, 9.08e-3), (100, 8.14e-4), (1_000, 1.22e-4)):
        assert ordered[rank - 1] / words == pytest.approx(share, rel=0.15)
    assert 1 <= len(counts) / (27 * words**0.555) <= 1.6
    assert list(passages(3, seed=4)) == list(passages(5, seed=4))[:3]
