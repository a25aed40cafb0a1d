"""Numbers that change with the step: difficulty, coefficients. Pure functions of the step."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from ..errors import CardError, check_known


@runtime_checkable
class Schedule(Protocol):
    """A number for each step 0, 1, 2, …"""

    def __call__(self, step: float, /) -> float: ...


@dataclass(frozen=True, slots=True)
class Linear:
    """A straight line from ``start`` at step 0 to ``end`` at ``total``, ``end`` from there on."""

    start: float
    end: float
    total: float

    def __post_init__(self) -> None:
        _finite(self, self.start, self.end)
        if not self.total > 0:
            raise CardError(f"a schedule needs total > 0, got {self}")

    def __call__(self, step: float) -> float:
        if step >= self.total:
            return self.end  # exactly, whatever the rounding
        return self.start + self.share(max(step / self.total, 0.0)) * (self.end - self.start)

    def share(self, x: float) -> float:
        """Share of the change that is made when the share ``x`` of the steps is done."""
        return x


@dataclass(frozen=True, slots=True)
class Cosine(Linear):
    """Half a cosine in place of the line: ``start + (end - start) · (1 - cos(π step/total)) / 2``
    (SPEAR, arXiv 2509.22601)."""

    def share(self, x: float) -> float:
        return (1 - math.cos(math.pi * x)) / 2


@dataclass(frozen=True, slots=True)
class WarmupCosine:
    """A straight line from 0 to ``peak`` at ``warmup``, then half a cosine down to ``valley`` at
    ``warmup + decay``, which stays (the weight μ of CHORD, arXiv 2508.11408)."""

    peak: float
    valley: float
    warmup: float
    decay: float

    def __post_init__(self) -> None:
        _finite(self, self.peak, self.valley, self.warmup, self.decay)
        if self.warmup < 0 or not self.decay > 0:
            raise CardError(f"a schedule needs warmup ≥ 0 and decay > 0, got {self}")

    def __call__(self, step: float) -> float:
        if step < self.warmup:
            return self.peak * max(step, 0.0) / self.warmup
        return Cosine(self.peak, self.valley, self.decay)(step - self.warmup)


@dataclass(frozen=True, slots=True)
class EasedCosine:
    """From ``start`` along (step / ``warmup``) ^ ``power`` to ``middle``, then half a cosine to
    ``end`` at ``warmup + decay``, which stays (the weight β of SubSearch, arXiv 2604.07415)."""

    start: float
    middle: float
    end: float
    warmup: float
    decay: float
    power: float = 1.5

    def __post_init__(self) -> None:
        _finite(self, self.start, self.middle, self.end, self.warmup, self.decay, self.power)
        if not (self.warmup > 0 and self.decay > 0 and self.power > 0):
            raise CardError(f"a schedule needs warmup, decay and power > 0, got {self}")

    def __call__(self, step: float) -> float:
        if step < self.warmup:
            done = (max(step, 0.0) / self.warmup) ** self.power
            return self.start + done * (self.middle - self.start)
        return Cosine(self.middle, self.end, self.decay)(step - self.warmup)


@dataclass(frozen=True, slots=True)
class Exponential(Linear):
    """ZeroSearch's schedule (arXiv 2505.04588) from ``start`` at step 0 to ``end`` at ``total``.

    ``start + (end - start) · (base^(step/total) - 1) / (base - 1)`` before ``total``, ``end`` from
    there on. ``base`` > 1 changes slowly first, < 1 fast first; 1 is the limit, a straight line.
    """

    start: float = 0.0
    end: float = 0.5
    total: float = 200
    base: float = 4.0

    def __post_init__(self) -> None:
        Linear.__post_init__(self)  # super() does not know a class with slots, which is made twice
        if not self.base > 0 or not math.isfinite(self.base):
            raise CardError(f"a schedule needs base > 0, got {self}")

    def share(self, x: float) -> float:
        # (base^x - 1) / (base - 1), exact near base = 1, where both differences vanish
        log = math.log(self.base)
        return x if log == 0 else math.expm1(x * log) / math.expm1(log)


@dataclass(frozen=True, slots=True)
class Steps:
    """Steps: ``values[i]`` from step ``at[i-1]`` on; ``values[0]`` before."""

    values: Sequence[float]
    at: Sequence[float]

    def __post_init__(self) -> None:
        if len(self.values) != len(self.at) + 1 or list(self.at) != sorted(self.at):
            raise CardError(
                f"steps need one more value than switches, which grow; got {len(self.values)} "
                f"values and at={list(self.at)}"
            )
        _finite(self, *self.values, *self.at)

    def __call__(self, step: float) -> float:
        return float(self.values[sum(step >= switch for switch in self.at)])


def _finite(schedule: object, *values: Any) -> None:
    if not all(isinstance(v, int | float) and math.isfinite(v) for v in values):
        raise CardError(f"a schedule is made of finite numbers, got {schedule}")


KINDS: dict[str, type[Any]] = {
    "exponential": Exponential, "linear": Linear, "cosine": Cosine, "steps": Steps,
    "warmup_cosine": WarmupCosine, "eased_cosine": EasedCosine,
}  # fmt: skip


def make_schedule(spec: float | Mapping[str, Any] | Schedule) -> Schedule:
    """A schedule from a number (constant), ``{"kind": "exponential", "end": 0.5, …}`` or itself.

    ``CardError`` for unknown kinds and arguments.
    """
    if isinstance(spec, (int, float)) and not isinstance(spec, bool):
        return Steps((float(spec),), ())
    if isinstance(spec, Mapping):
        arguments = dict(spec)
        kind = str(arguments.pop("kind", "exponential"))
        check_known("schedule", KINDS, kind)
        try:
            made: Schedule = KINDS[kind](**arguments)
        except TypeError as error:
            raise CardError(f"schedule {kind!r}: {error}") from error
        return made
    if callable(spec):
        return spec
    raise CardError(f"a schedule is a number, a mapping with 'kind' or a function, got {spec!r}")
