"""Benchmarks print a table with the machine and the versions it was measured on."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Sequence


def machine() -> str:
    """Processor, cores in use and the versions that matter."""
    model = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            model = next(line.split(":")[1].strip() for line in file if "model name" in line)
    except (OSError, StopIteration):
        pass
    versions = []
    for name in ("numpy", "numba", "bm25s", "gymnasium", "torch", "transformers", "trl"):
        try:
            versions.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    return f"{model}, {os.cpu_count()} cores, Python {sys.version.split()[0]}, " + ", ".join(
        versions
    )


def show(title: str, header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print an aligned table."""
    cells = [list(map(str, header)), *[[_cell(c) for c in row] for row in rows]]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    print(f"\n{title}\n{machine()}")
    for row in cells:
        print("  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)))


def _cell(value: object) -> str:
    return (
        f"{value:,.3g}"
        if isinstance(value, float) and value < 100
        else (f"{value:,.0f}" if isinstance(value, float) else str(value))
    )


def seconds(run: Callable[[], object], *, rounds: int = 9) -> float:
    """Median wall time of a call after one warm-up."""
    run()
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def in_turn(*runs: Callable[[], object], rounds: int = 9) -> list[list[float]]:
    """Wall times of several calls taken in turn (A B C A B C …), so that drift hits all alike."""
    for run in runs:
        run()
    times: list[list[float]] = [[] for _ in runs]
    for _ in range(rounds):
        for run, kept in zip(runs, times, strict=True):
            start = time.perf_counter()
            run()
            kept.append(time.perf_counter() - start)
    return times
