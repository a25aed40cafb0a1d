"""Do 95 % intervals of the transfer ratio hold the true ratio? One seed and three, alike or not."""

from __future__ import annotations

import pytest

from tests.benchmark.coverage import coverage
from tests.benchmarks.table import show

pytestmark = pytest.mark.benchmark
TRIALS = 1_000


def test_transfer_ratios_cover() -> None:
    rows = []
    for seeds, spread in ((1, 0.0), (3, 0.0), (3, 0.02), (3, 0.05), (5, 0.03)):
        for questions in (100, 300):
            share, low, high = coverage(TRIALS, seeds=seeds, questions=questions, spread=spread)
            rows.append((seeds, spread, questions, f"{share:.3f} [{low:.3f}, {high:.3f}]"))
            assert low <= 0.97, rows[-1]
            assert high >= 0.935, rows[-1]
    header = ("seeds", "seeds differ by", "questions", "coverage [95 %]")
    show("Coverage of nominal 95 % intervals of the transfer ratio", header, rows)
