"""Rates of each degradation, the draws that decide where it applies, and slow or failing calls."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple, Self

from ...errors import EngineError, check_known
from ...objects import is_number
from ...seeding import Part, derive, unit
from ...types import CallContext, Failure


class Rates(NamedTuple):
    """Probabilities in [0, 1]; 0 switches a degradation off entirely."""

    noise: float = 0.0
    """Probability that a hit is replaced by a hit for another query."""
    stale: float = 0.0
    """Probability that a page is an old version with outdated facts (generated worlds)."""
    contradict: float = 0.0
    """Probability that another site's page contradicts a page (generated worlds)."""
    duplicate: float = 0.0
    """Probability that a hit is followed by its copy on another site."""
    seo: float = 0.0
    """Probability that a page stuffed with the query's words stands above a hit."""
    dead: float = 0.0
    """Probability that a page can no longer be opened."""
    adversarial: float = 0.0
    """Probability that a query's results hold a document written against the agent."""
    shuffle: float = 0.0
    """Probability that a query's results stand in random order."""
    latency: float = 0.0
    """Probability that a call is slow (by how much: ``latency_s``)."""
    outage: float = 0.0
    """Probability that a call fails; drawn anew for every try."""

    @classmethod
    def of(cls, values: Mapping[str, float]) -> Self:
        """``EngineError`` for unknown names and for what is no probability."""
        for name, value in values.items():
            check_known("degradation", cls._fields, name, error=EngineError)
            _probability(name, value)
        return cls(**values)

    def under(self, params: Mapping[str, float]) -> Self:
        """Return the rates, overridden by an episode's difficulty parameters of the same names."""
        return _under(self, tuple(params.items())) if params else self  # type: ignore[return-value]


@lru_cache(maxsize=1024)
def _under(rates: Rates, params: tuple[tuple[str, float], ...]) -> Rates:
    changes = {name: value for name, value in params if name in Rates._fields}
    for name, value in changes.items():
        _probability(name, value)
    return rates._replace(**changes)


def _probability(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
        raise EngineError(f"the rate {name!r} must lie in [0, 1], got {value!r}")


def strikes(rate: float, key: int, *path: Part) -> bool:
    """One draw of a degradation with this rate: a pure function of ``key`` and ``path``."""
    return rate > 0 and unit(derive(key, *path)) < rate


def episode_key(ctx: CallContext) -> int:
    """A key that all calls of an episode and its forks share: which pages are stale or dead is the
    state of the web the episode lives in. A page must not change between its parts, and a dead
    link stays dead however often it is tried."""
    return _episode_key(ctx.episode_id.partition("~")[0])


@lru_cache(maxsize=8192)
def _episode_key(episode: str) -> int:
    return derive(0, "web", episode)


class Weather(NamedTuple):
    """Faults of a service."""

    latency_s: float = 1.0
    """Mean of the (exponentially distributed) seconds a slow call takes."""
    timeout_s: float | None = None
    """A call that would take longer fails with "timeout" instead."""

    def checked(self) -> Weather:
        if not is_number(self.latency_s) or self.latency_s < 0:
            raise EngineError(f"latency_s must be a number ≥ 0, got {self.latency_s!r}")
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
