"""Chooses the rollouts of each update, and what it has to wait for."""

from __future__ import annotations

from typing import Generic, Literal, NamedTuple, TypeVar

from ...errors import CardError
from .admission import AdmissionControl

Late = Literal["wait", "drop"]
Order = Literal["deadline", "arrival"]
T = TypeVar("T")


class Chosen(NamedTuple, Generic[T]):
    """The rollouts of one update."""

    items: list[T]
    """Rollouts in the order in which they began."""
    lags: list[int]
    """Updates between each rollout's start and this one, at most ⌈η⌉."""


class Waiting(Generic[T]):
    """Holds running and finished rollouts, oldest first, and keeps an :class:`AdmissionControl`
    informed.

    No rollout is trained on more than ⌈η⌉ updates after it began. ``late="wait"``: an update waits
    until those that are still under way fit into the updates that are left for them, so that none
    is ever lost. ``late="drop"``: it takes the first ``batch`` that are finished, and who comes too
    late is thrown away. That never waits for a slow rollout, and seldom learns from one.

    ``order``: of the finished, the update takes those whose deadline is nearest, which began first
    (``"deadline"``), or those that were finished first (``"arrival"``), by which more slow ones
    grow too old while they wait. AstraFlow (arXiv 2605.15565) has both.
    """

    def __init__(
        self, control: AdmissionControl, late: Late = "wait", order: Order = "deadline"
    ) -> None:
        if late not in ("wait", "drop") or order not in ("deadline", "arrival"):
            raise CardError(
                "late is 'wait' or 'drop' and order 'deadline' or 'arrival', got "
                f"{late!r} and {order!r}"
            )
        if late == "wait" and order == "arrival":
            raise CardError("order='arrival' loses rollouts: it goes with late='drop' alone")
        self.control, self.late, self.order = control, late, order
        self.dropped = 0
        """Rollouts discarded for their age so far."""
        self._next = 0
        self._begun: dict[int, int] = {}
        """Ticket → version at its start."""
        self._done: dict[int, tuple[int, T]] = {}

    def __len__(self) -> int:
        """Number of rollouts that run or are finished and not taken yet."""
        return len(self._begun) + len(self._done)

    def begin(self) -> int:
        """Start a rollout; returns the ticket to :meth:`finish` it by."""
        self.control.start()
        ticket, self._next = self._next, self._next + 1
        self._begun[ticket] = self.control.version
        return ticket

    def finish(self, ticket: int, item: T) -> None:
        """Hand in a finished rollout."""
        began = self._begun.pop(ticket)
        self.control.accept()
        self._done[ticket] = (began, item)
        self._forget()

    @property
    def ready(self) -> bool:
        """True if the next update can be made."""
        if len(self._done) < self.control.batch:
            return False
        if self.late == "drop":
            return True
        # One that began at version u can be taken up to update u + η. Once this update is made,
        # (u + η - v) · batch places are left for it and for all that are older. The batch itself
        # is the oldest of the finished, so that only those still under way can be in trouble.
        v, eta, batch = self.control.version, self.control.age, self.control.batch
        return all(i < (u + eta - v) * batch for i, u in enumerate(sorted(self._begun.values())))

    def take(self) -> Chosen[T]:
        """Take the rollouts of the next update, which must be ``ready``."""
        if not self.ready:
            raise ValueError(f"no update is ready: {len(self._done)} finished, {len(self)} in all")
        tickets = sorted(self._done) if self.order == "deadline" else list(self._done)
        taken = [self._done.pop(t) for t in sorted(tickets[: self.control.batch])]
        return Chosen([item for _, item in taken], [self.control.version - v for v, _ in taken])

    def again(self, count: int) -> None:
        """Replace ``count`` of those just taken, which will not be trained on, by others."""
        self.control.release(count)

    def updated(self) -> None:
        """Count an update, and discard what is too old for the next."""
        self.control.updated()
        self._forget()

    def _forget(self) -> None:
        limit = self.control.version - self.control.age
        old = [t for t, (began, _) in self._done.items() if began < limit]
        for ticket in old:
            del self._done[ticket]
        self.control.release(len(old))
        self.dropped += len(old)
