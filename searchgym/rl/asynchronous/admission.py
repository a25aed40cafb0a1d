"""How many rollouts may be under way, so that none is too old when it is trained on.

AReaL's staleness control (arXiv 2505.24298): with ``batch`` rollouts per update, weights of version
v and a bound η, at most (η + v + 1) · batch rollouts may ever have been accepted or be running.
A rollout is whatever is counted: here one group of episodes.
"""

from __future__ import annotations

from ...errors import CardError


class AdmissionControl:
    """Arithmetic alone: told what starts and ends, it says how many more may start.

    Args:
        batch: Rollouts per update.
        eta: Updates that a rollout may be behind; 0 is synchronous training.
        limit: Most rollouts at the same time; None: no other bound than staleness.

    Raises:
        CardError: an argument out of range.
    """

    def __init__(self, batch: int, eta: int, *, limit: int | None = None) -> None:
        if batch < 1 or eta < 0 or (limit is not None and limit < 1):
            raise CardError(
                f"batch and limit must be at least 1, eta at least 0; got {batch}, {limit}, {eta}"
            )
        self.batch, self.eta, self.limit = batch, eta, limit
        self.version = 0
        self.accepted = 0
        """Trained on, or finished and waiting for it."""
        self.running = 0

    @property
    def capacity(self) -> int:
        """Rollouts that may start now."""
        allowed = (self.eta + self.version + 1) * self.batch - (self.accepted + self.running)
        if self.limit is not None:
            allowed = min(allowed, self.limit - self.running)
        return max(allowed, 0)

    def start(self, count: int = 1) -> None:
        """So many begin. ``ValueError`` if they may not."""
        if not 0 <= count <= self.capacity:
            raise ValueError(f"{count} rollouts may not start: there is room for {self.capacity}")
        self.running += count

    def accept(self, count: int = 1) -> None:
        """So many of the running ones are finished and will be trained on."""
        self._end(count)
        self.accepted += count

    def reject(self, count: int = 1) -> None:
        """So many of the running ones are finished and thrown away: others may take their place."""
        self._end(count)

    def release(self, count: int = 1) -> None:
        """So many that were accepted are thrown away after all."""
        if not 0 <= count <= self.accepted:
            raise ValueError(f"{count} cannot be released: {self.accepted} were accepted")
        self.accepted -= count

    def updated(self) -> None:
        """The weights are one version newer."""
        self.version += 1

    def recover(self, version: int) -> None:
        """After a restart at ``version``: what was running or waiting is lost."""
        self.version, self.accepted, self.running = version, version * self.batch, 0

    def _end(self, count: int) -> None:
        if not 0 <= count <= self.running:
            raise ValueError(f"{count} rollouts cannot end: {self.running} are running")
        self.running -= count
