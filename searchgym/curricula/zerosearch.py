"""ZeroSearch: noise that grows exponentially."""

from __future__ import annotations

from typing import Any

from ..errors import CardError
from ..schedules import Exponential
from .scheduled import Scheduled


class ZeroSearchNoise(Scheduled):
    """``noise`` from ``start`` to ``end`` over ``total`` steps (ZeroSearch, arXiv 2505.04588).

    The defaults are the paper's runs: 0 to 0.5 over 203 steps, base 4.
    """

    def __init__(
        self,
        start: float = 0.0,
        end: float = 0.5,
        total: float = 203,
        base: float = 4.0,
        *,
        episodes_per_step: int = 1,
        tasks: Any = None,
    ) -> None:
        if not (0 <= start <= 1 and 0 <= end <= 1):
            raise CardError(f"noise rates lie in [0, 1], got start={start}, end={end}")
        super().__init__(
            {"noise": Exponential(start, end, total, base)},
            episodes_per_step=episodes_per_step,
            tasks=tasks,
        )
