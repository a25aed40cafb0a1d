"""The server under load, beside three yardsticks in the same run.

wrk keeps 200 connections busy for ``SEARCHGYM_LOAD_SECONDS`` (20) per server, in slices that take
turns, so that whatever else the machine does meets all servers alike. Questions are HotpotQA's.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median

import pytest

from searchgym.corpora import load_set

from .load import Load, ask, drive, free_port, need_wrk, running
from .table import show

pytestmark = [pytest.mark.benchmark, pytest.mark.data, pytest.mark.timeout(3600)]
SECONDS = float(os.environ.get("SEARCHGYM_LOAD_SECONDS", "20"))
SLICE = min(5.0, SECONDS)
CORPUS = os.environ.get("SEARCHGYM_LOAD_CORPUS", "hotpotqa")
CACHE = os.environ.get("SEARCHGYM_LOAD_CACHE")
Command = Sequence[str]


def questions(data_dir: Path) -> list[str]:
    splits = ("public", "train", "dev_extra")
    return [task.question for s in splits for task in load_set("hotpotqa", s, data_dir)[1]]


def measure(commands: Mapping[str, Command], texts: Sequence[str], folder: Path) -> dict[str, Load]:
    """Rates and errors over all slices, latencies as medians over slices. ``{port}`` in a command
    becomes its server's port. The next slice begins when what the last one left in the queue of
    its server is worked off: a slow server would else slow the next one down."""
    bodies = [{"queries": [text], "topk": 3, "return_scores": True} for text in texts]
    seen: dict[str, list[Load]] = {name: [] for name in commands}
    with ExitStack() as stack:
        ports = {}
        for name, command in commands.items():
            ports[name] = free_port()
            filled = [part.format(port=ports[name]) for part in command]
            stack.enter_context(running(filled, ports[name], patience=1800))
        for port in ports.values():
            drive(port, bodies, folder, seconds=min(3, SLICE))  # caches fill, code is compiled
            ask(port, timeout=120)
        for _ in range(max(1, round(SECONDS / SLICE))):
            for name, port in ports.items():
                seen[name].append(drive(port, bodies, folder, seconds=SLICE))
                ask(port, timeout=120)
    return {
        name: Load(
            sum(load.rate for load in loads) / len(loads),
            median(load.p50 for load in loads),
            median(load.p99 for load in loads),
            max(load.worst for load in loads),
            sum(load.errors for load in loads),
            sum(load.bytes_per_reply for load in loads) / len(loads),
        )
        for name, loads in seen.items()
    }


def tell(title: str, loads: Mapping[str, Load]) -> None:
    header = ("server", "requests/s", "p50 ms", "p99 ms", "worst ms", "errors", "bytes")
    rows = [
        (name, f"{x.rate:,.0f}", f"{x.p50:.0f}", f"{x.p99:.0f}", f"{x.worst:.0f}", x.errors,
         f"{x.bytes_per_reply:,.0f}")
        for name, x in loads.items()
    ]  # fmt: skip
    show(f"{title}; 200 connections, {SECONDS:g} s each in slices of {SLICE:g} s", header, rows)


def plain(kind: str, workers: int = 1) -> Command:
    return ["-m", "tests.benchmarks.plain_server", "{port}", str(workers), kind]


def own(*options: object) -> Command:
    return ["-m", "searchgym", "serve", CORPUS, "--port", "{port}", *map(str, options)]


@pytest.mark.parametrize("workers", [1, 2])
def test_bm25(data_dir: Path, tmp_path: Path, workers: int) -> None:
    need_wrk()
    loads = measure(
        {
            "plain sync (bm25s)": plain("sync", workers),
            "plain async (bm25s)": plain("async", workers),
            "plain async (our engine)": plain("async-ours", workers),
            "constant bytes": plain("constant", workers),
            "searchgym serve": own("--index", tmp_path / "index", "--workers", workers),
        },
        questions(data_dir),
        tmp_path,
    )
    tell(f"BM25 behind HTTP, {workers} worker(s)", loads)
    ours, constant = loads["searchgym serve"], loads["constant bytes"]
    assert ours.errors == 0
    assert ours.rate >= 1.5 * loads["plain async (bm25s)"].rate
    assert ours.rate >= 1.5 * loads["plain async (our engine)"].rate
    assert ours.rate >= 0.4 * constant.rate
    assert ours.p99 <= 2 * constant.p99


def test_dense(data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No two questions are equal, so nothing is gained from answers that are known already."""
    need_wrk()
    cache = CACHE or str(tmp_path / "vectors")
    monkeypatch.setenv("SEARCHGYM_LOAD_CACHE", cache)
    asked = questions(data_dir)
    texts = [f"{asked[i % len(asked)]} {i}" for i in range(40_000)]
    loads = measure(
        {
            "searchgym serve": own(
                "--engine", "dense", "-s", f"engine.cache={cache}", "--max-batch", 256,
                "--in-flight", 1,
            ),
            "plain sync": plain("sync-dense"),
            "plain async": plain("async-dense"),
        },
        texts,
        tmp_path,
    )  # fmt: skip
    tell("Dense (all-MiniLM-L6-v2, flat) behind HTTP", loads)
    best = max(loads["plain sync"].rate, loads["plain async"].rate)
    assert loads["searchgym serve"].errors == 0
    assert loads["searchgym serve"].rate >= 5 * best
