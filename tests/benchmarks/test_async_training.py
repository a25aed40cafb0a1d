"""Synchronous and asynchronous training side by side: as simulated against a clock, and for real.

For real, tools are slow (each batch of turns waits), which is where asynchrony gains on one
machine; where playing and training share one processor and nobody waits there is nothing to gain.
"""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import pytest

from searchgym.rl import AsyncRollouts, Recipe, TrainConfig, Trainer
from searchgym.seeding import stream
from tests.benchmarks.table import show
from tests.rl.clock import simulate
from tests.rl.colours import player, setting
from tests.rl.playing import make

pytestmark = pytest.mark.benchmark


def test_simulated() -> None:
    draw = stream(0, "latency")
    times = [float(t) for t in draw.lognormal(0, 1, 100_000)]
    rows = []
    for late in ("wait", "drop"):
        for eta in (0, 1, 2, 4, 8):
            run = simulate(
                times.__getitem__, batch=8, eta=eta, workers=8, update=2.0, updates=300, late=late
            )
            rows.append(
                [late, eta, f"{run.makespan:.0f} s", f"{run.trainer_idle:.0%}",
                 f"{run.workers_idle:.0%}", f"{run.lags.mean():.2f}", run.lags.max(), run.dropped,
                 f"{run.long_survival:.0%}"]
            )  # fmt: skip
            assert run.lags.max() <= eta
    show(
        "300 updates of 2 s on 8 rollouts, log-normal latencies (median 1 s), 8 workers",
        ["late", "η", "time", "trainer idle", "workers idle", "lag", "most", "dropped",
         "long ones trained on"],
        rows,
    )  # fmt: skip


def test_real() -> None:
    """12 updates; half a second per batch of turns."""
    recipe = Recipe.of("decoupled_ppo")
    config = TrainConfig.of(recipe, steps=12, tasks=4, lr=1e-3, epochs=8)
    rows = []
    took: dict[Any, float] = {}
    for eta in (0, 1, 2):
        lm, policy = player(0)
        with AsyncRollouts(
            partial(make, pause=0.5), workers=2, eta=eta, together=2, start_method="forkserver"
        ) as rollouts:
            run = Trainer(setting(), lm, recipe, config, policy=policy, rollouts=rollouts)
            run.advance()  # starts the workers
            begun = time.perf_counter()
            seen = list(run.train())
            took[eta] = time.perf_counter() - begun
        idle = sum(m["rollouts/trainer_idle"] for m in seen) / len(seen)
        age = sum(m["staleness/mean"] for m in seen) / len(seen)
        most = max(m["staleness/max"] for m in seen)
        rows.append([eta, f"{took[eta]:.1f} s", f"{idle:.0%}", f"{age:.2f}", f"{most:.0f}"])
    show(
        "11 updates of 32 episodes, two workers, 0.5 s per batch of turns",
        ["η", "time", "trainer idle", "mean age", "most"],
        rows,
    )
    assert took[1] < took[0]
