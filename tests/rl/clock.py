"""Simulates asynchronous training against a clock: what it gains and costs, before anything is run.
Admission and choice of rollouts are those of training."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from searchgym.rl.asynchronous.rollouts import AdmissionControl, Late, Waiting
from searchgym.rl.slots.records import Floats

Ints = NDArray[np.int64]


class Simulated(NamedTuple):
    """A run of ``updates`` updates."""

    makespan: float
    """Seconds until the last update is done."""
    lags: Ints
    """(updates · batch,) versions between the *oldest* token of each trained rollout and its
    update."""
    trainer_idle: float
    """Share of the makespan."""
    workers_idle: float
    """Likewise, mean over workers."""
    dropped: int
    """Rollouts thrown away for their age."""
    long_survival: float
    """Share that was trained on, of the slowest tenth of the rollouts that ended."""


def simulate(
    duration: Callable[[int], float],
    *,
    batch: int,
    eta: float,
    workers: int,
    update: float,
    updates: int,
    late: Late = "wait",
) -> Simulated:
    """Event by event: ``workers`` rollouts at a time, an update whenever one can be made.

    Args:
        duration: Seconds of rollout 0, 1, 2, … A worker keeps the weights it began with.
        batch: Rollouts per update.
        update: Seconds of an update, during which rollouts go on.
    """
    control = AdmissionControl(batch, eta)
    waiting: Waiting[tuple[float, int]] = Waiting(control, late)
    free, started, clock, update_ends = workers, 0, 0.0, -1.0
    events: list[tuple[float, int, int, float, int]] = []  # (time, order, ticket, seconds, version)
    lags: list[int] = []
    ended: list[float] = []
    trained: list[float] = []
    busy = updating = 0.0
    while True:
        while free and control.capacity:
            seconds = duration(started)
            ticket = waiting.begin()
            heapq.heappush(events, (clock + seconds, started, ticket, seconds, control.version))
            free, started = free - 1, started + 1
        if update_ends < 0 and waiting.ready:
            chosen = waiting.take()
            lags += [control.version - version for _, version in chosen.items]
            trained += [seconds for seconds, _ in chosen.items]
            update_ends = clock + update
            updating += update
        if 0 <= update_ends <= (events[0][0] if events else update_ends):
            clock, update_ends = update_ends, -1.0
            waiting.updated()
            if control.version == updates:
                break
        else:
            clock, _, ticket, seconds, version = heapq.heappop(events)
            free, busy = free + 1, busy + seconds
            ended.append(seconds)
            waiting.finish(ticket, (seconds, version))
    busy += sum(max(seconds - (end - clock), 0.0) for end, _, _, seconds, _ in events)
    slow = float(np.quantile(ended, 0.9, method="lower"))
    return Simulated(
        clock,
        np.array(lags, np.int64),
        1 - updating / clock if clock else 0.0,
        1 - busy / (workers * clock) if clock else 0.0,
        waiting.dropped,
        sum(s >= slow for s in trained) / max(sum(s >= slow for s in ended), 1),
    )


def turns_in_step(seconds: Floats) -> float:
    """(episodes, turns) seconds of each turn → seconds when every turn waits for the slowest."""
    return float(np.asarray(seconds).max(0).sum())


def turns_apart(seconds: Floats) -> float:
    """Likewise when no episode waits for another; never more than :func:`turns_in_step`."""
    return float(np.asarray(seconds).sum(1).max())


def table(
    duration: Callable[[int], float],
    etas: Sequence[int],
    *,
    batch: int,
    workers: int,
    update: float,
    updates: int,
) -> list[tuple[int, Late, Simulated]]:
    """(η, late, run) for each bound, both ways of treating who comes late."""
    ways: tuple[Late, ...] = ("wait", "drop")
    return [
        (eta, late, simulate(duration, batch=batch, eta=eta, workers=workers, update=update,
                             updates=updates, late=late))
        for eta in etas
        for late in ways
    ]  # fmt: skip
