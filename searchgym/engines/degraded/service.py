"""Calls that fail and calls that take long. Time is simulated unless sleeping is asked for."""

from __future__ import annotations

import math
import time
from typing import NamedTuple

from ...errors import EngineError
from ...objects import is_number
from ...seeding import derive, unit
from ...types import CallContext, Failure
from .rates import Rates, strikes


class Weather(NamedTuple):
    """Faults of a service."""

    latency_s: float = 1.0
    """Mean of the (exponentially distributed) seconds a slow call takes."""
    timeout_s: float | None = None
    """A call that would take longer fails with "timeout" instead."""
    sleep: bool = False
    """True if the wrapper really waits, for the slowest call of a batch."""
    cost_per_second: float = 0.0
    """Cost per second, added to ``ToolResult.cost`` of slow calls."""

    def checked(self) -> Weather:
        for name in ("latency_s", "cost_per_second"):
            if not is_number(value := getattr(self, name)) or value < 0:
                raise EngineError(f"{name} must be a number ≥ 0, got {value!r}")
        if self.timeout_s is not None and not (is_number(self.timeout_s) and self.timeout_s > 0):
            raise EngineError(f"timeout_s must be positive or None, got {self.timeout_s!r}")
        return self

    def strike(self, rates: Rates, ctx: CallContext) -> tuple[float, Failure | None]:
        """Seconds this try of a call takes, and its failure. Each try is drawn anew."""
        seconds = 0.0
        if strikes(rates.latency, ctx.key, "slow", ctx.attempt):
            draw = unit(derive(ctx.key, "seconds", ctx.attempt))
            seconds = -math.log1p(-draw) * self.latency_s
        if strikes(rates.outage, ctx.key, "outage", ctx.attempt):
            return seconds, Failure("unavailable", f"simulated outage (try {ctx.attempt + 1})")
        if self.timeout_s is not None and seconds > self.timeout_s:
            return self.timeout_s, Failure(
                "timeout", f"simulated call of {seconds:.3f} s, limit {self.timeout_s:g} s"
            )
        return seconds, None

    def wait(self, seconds: float) -> None:
        if self.sleep and seconds > 0:
            time.sleep(seconds)
