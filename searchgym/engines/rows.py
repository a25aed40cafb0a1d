"""Finds the number of rows from which a CPU multiplies each row to the same bits.

With two threads, MKL sums the products of MiniLM's last matrix in another order below 193 rows than
above. In *one* thread, from 56 rows and for 64 outputs and more, a row's sum is the same whatever
the number of rows and its place among them: with AVX-512 and AVX2, on Intel's processors and AMD's.
On some processors that begins with 8 or 16 rows, and more threads change nothing for so few: a
question alone is answered sooner for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..utils.hardware import one_thread

STEP = 8
"""Multiples of so many rows are looked at."""
ENOUGH_ROWS = 56
"""Number of rows that is enough on every CPU."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Numbers of rows that a model's matrix products may have on this CPU; what is found
    holds for multiples of ``STEP``."""

    least: int = ENOUGH_ROWS
    """Smallest number of rows from which a row's bits in one thread are those among 64."""
    threads: int = 1
    agreeing: frozenset[int] = frozenset()
    """Numbers of rows for which several threads give the same bits as one."""

    def together(self, count: int) -> bool:
        """Check whether all of PyTorch's threads may share a product of so many rows."""
        import torch

        return count in self.agreeing and torch.get_num_threads() == self.threads


def rows_of(model: Any) -> Rows:
    """Looks how this CPU multiplies by a model's matrices; takes milliseconds."""
    import torch

    linear = {
        (m.in_features, m.out_features, m.weight.dtype): m
        for m in model.modules()
        if isinstance(m, torch.nn.Linear)
    }
    if not linear:
        return Rows()
    least, agreeing, threads = STEP, set(range(STEP, ENOUGH_ROWS + 1, STEP)), 1
    with torch.inference_mode():
        for (inputs, _, dtype), module in linear.items():
            given = torch.randn(64, inputs, generator=torch.Generator().manual_seed(0)).to(dtype)
            with one_thread() as threads:
                whole = module(given)
                for n in range(STEP, ENOUGH_ROWS, STEP):
                    if not torch.equal(module(given[:n]), whole[:n]):
                        least = max(least, n + STEP)
            agreeing = {n for n in agreeing if torch.equal(module(given[:n]), whole[:n])}
    return Rows(least, threads, frozenset(n for n in agreeing if n >= least))
