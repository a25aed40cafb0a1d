"""Staleness control of AReaL (arXiv 2505.24298): how many rollouts may run at a time.

With ``batch`` rollouts per update, weights of version v and a bound η, at most ⌈η · batch⌉ +
(v + 1) · batch rollouts may ever have been accepted or be running. A rollout is one group of
episodes. A whole η is AReaL's; a fraction is ROLL's ``async_generation_ratio`` (arXiv 2506.06122)
and verl's ``staleness_threshold``.
"""

from __future__ import annotations

import math

from ...errors import CardError


class AdmissionControl:
    """Counts rollouts that start and end, and bounds how many more may start.

    Args:
        batch: Rollouts per update.
        eta: Updates that a rollout may lag behind; 0 is synchronous training. With a fraction, so
            many of an update's rollouts are begun ahead, and none lags by more than ⌈η⌉ updates.
        limit: Maximum number of concurrent rollouts; None bounds them by staleness alone.

    Raises:
        CardError: an argument out of range.
    """

    def __init__(self, batch: int, eta: float, *, limit: int | None = None) -> None:
        if batch < 1 or not 0 <= eta < math.inf or (limit is not None and limit < 1):
            raise CardError(
                f"batch and limit must be at least 1, eta at least 0; got {batch}, {limit}, {eta}"
            )
        self.batch, self.eta, self.limit = batch, eta, limit
        self.version = 0
        self.accepted = 0
        """Rollouts trained on, or finished and waiting for it."""
        self.running = 0

    @property
    def age(self) -> int:
        """Updates that a rollout may lag behind, as a whole number."""
        return math.ceil(self.eta)

    @property
    def capacity(self) -> int:
        """Number of rollouts that may start now."""
        ahead = math.ceil(round(self.eta * self.batch, 9))  # 0.7 · 10 is a little more than 7
        allowed = ahead + (self.version + 1) * self.batch
        allowed -= self.accepted + self.running
        if self.limit is not None:
            allowed = min(allowed, self.limit - self.running)
        return max(allowed, 0)

    def start(self, count: int = 1) -> None:
        """Start ``count`` rollouts; ``ValueError`` if there is no room."""
        if not 0 <= count <= self.capacity:
            raise ValueError(f"{count} rollouts may not start: there is room for {self.capacity}")
        self.running += count

    def accept(self, count: int = 1) -> None:
        """Mark ``count`` running rollouts as finished, to be trained on."""
        self._end(count)
        self.accepted += count

    def reject(self, count: int = 1) -> None:
        """Discard ``count`` running rollouts; others may take their place."""
        self._end(count)

    def release(self, count: int = 1) -> None:
        """Discard ``count`` accepted rollouts."""
        if not 0 <= count <= self.accepted:
            raise ValueError(f"{count} cannot be released: {self.accepted} were accepted")
        self.accepted -= count

    def updated(self) -> None:
        """Advance the version of the weights by one."""
        self.version += 1

    def recover(self, version: int) -> None:
        """Restart at ``version``; running and waiting rollouts are lost."""
        self.version, self.accepted, self.running = version, version * self.batch, 0

    def _end(self, count: int) -> None:
        if not 0 <= count <= self.running:
            raise ValueError(f"{count} rollouts cannot end: {self.running} are running")
        self.running -= count
