"""A million malformed actions through whole episodes: no exception, contract held, memory flat."""

from __future__ import annotations

import resource
import time

import pytest

from ..walk import fuzz
from .table import show

pytestmark = pytest.mark.benchmark
DIALECTS = ("search_r1", "search_r1+parallel+judge+delegate+access", "asearcher+judge+delegate",
            "json_tools+parallel", "plain")  # fmt: skip
ACTIONS = 1_000_000


def peak_mb() -> float:
    """Highest resident memory of this process so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def test_a_million_actions():
    rows = []
    each = ACTIONS // len(DIALECTS)
    fuzz("plain", actions=20_000, seed=0)  # caches fill once
    start = peak_mb()
    for dialect in DIALECTS:
        began = time.perf_counter()
        counts = fuzz(dialect, actions=each, seed=2)
        took = time.perf_counter() - began
        rows.append((dialect, counts["actions"], counts["episodes"], counts["Invalid"],
                     each / took, peak_mb() - start))  # fmt: skip
    show(
        "Malformed actions",
        ("dialect", "actions", "episodes", "invalid", "per second", "peak memory grown, MB"),
        rows,
    )
    assert sum(row[1] for row in rows) == ACTIONS
    assert peak_mb() - start < 50
