"""Admission and choice of rollouts: worked numbers, and that nothing too old is ever trained on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from searchgym.errors import CardError
from searchgym.rl.asynchronous.rollouts import AdmissionControl, Waiting
from searchgym.seeding import stream
from tests.rl.clock import simulate, turns_apart, turns_in_step


def test_worked_numbers() -> None:
    control = AdmissionControl(4, 1)
    assert control.capacity == 8
    control.start(8)
    assert control.capacity == 0
    with pytest.raises(ValueError, match="1 rollouts may not start: there is room for 0"):
        control.start()
    control.accept(4)
    assert control.capacity == 0, "what is finished counts until it is trained on"
    control.updated()
    assert control.capacity == 4, "12 in total"
    assert AdmissionControl(4, 0).capacity == 4


def test_published_budgets() -> None:
    """ROLL's ``async_generation_ratio`` (8 prompts an update) and verl's ``staleness_threshold``
    (32 prompts, 2 a time, 8 left over)."""
    for ratio, first, second in ((1, 16, 24), (0.5, 12, 20), (0.3, 11, 19), (0, 8, 16)):
        roll = AdmissionControl(8, ratio)
        assert roll.capacity == first
        roll.start(8)
        roll.accept(8)
        roll.updated()
        assert roll.capacity == second - 8
    assert AdmissionControl(10, 0.7).capacity == 17
    verl = AdmissionControl(2 * 32, 0.5)
    verl.start(8)
    verl.accept(8)
    assert verl.capacity == 88
    for eta in (-0.5, float("nan"), float("inf")):
        with pytest.raises(CardError, match="eta at least 0"):
            AdmissionControl(8, eta)


def test_what_is_thrown_away_makes_room() -> None:
    control = AdmissionControl(4, 0)
    control.start(4)
    control.accept(3)
    control.release(1)
    assert control.capacity == 1
    with pytest.raises(ValueError, match="2 rollouts cannot end: 1 are running"):
        control.accept(2)
    with pytest.raises(ValueError, match="3 cannot be released: 2 were accepted"):
        control.release(3)


def test_recovery() -> None:
    control = AdmissionControl(4, 1)
    control.start(3)
    control.recover(5)
    assert (control.accepted, control.running, control.capacity) == (20, 0, 8)
    with pytest.raises(CardError, match="at least 1"):
        AdmissionControl(0, 1)


def test_late_ones_are_waited_for_or_dropped() -> None:
    for late in ("wait", "drop"):
        waiting: Waiting[str] = Waiting(AdmissionControl(1, 1), late)  # type: ignore[arg-type]
        slow, quick = waiting.begin(), waiting.begin()
        waiting.finish(quick, "quick")
        assert waiting.take().items == ["quick"]
        waiting.updated()
        waiting.finish(waiting.begin(), "next")
        if late == "wait":
            assert not waiting.ready, "in the update after this one it would be too old"
            with pytest.raises(ValueError, match="no update is ready: 1 finished, 2 in all"):
                waiting.take()
        else:
            assert waiting.take().items == ["next"]
            waiting.updated()
        waiting.finish(slow, "slow")
        assert waiting.dropped == (late == "drop")
        if late == "wait":
            assert waiting.take() == (["slow"], [1])


RUNS = st.fixed_dictionaries(
    {
        "batch": st.integers(1, 6),
        "eta": st.sampled_from([0, 0.3, 0.5, 1, 1.5, 2, 3, 4]),
        "workers": st.integers(1, 12),
        "update": st.sampled_from([0.0, 0.3, 2.0]),
        "updates": st.integers(1, 25),
        "late": st.sampled_from(["wait", "drop"]),
    }
)


@given(run=RUNS, seed=st.integers(0, 10_000), heavy=st.booleans())
def test_nothing_is_too_old(run: dict[str, Any], seed: int, heavy: bool) -> None:
    """Whatever rollouts last: one may take a hundred times as long as another."""
    draw = stream(seed, "latency")
    times: list[float] = []

    def duration(i: int) -> float:
        times.append(float(draw.pareto(1.0) + 0.01 if heavy else draw.random() + 0.5))
        return times[i]

    found = simulate(duration, **run)
    assert found.lags.min() >= 0
    assert found.lags.max() <= np.ceil(run["eta"])
    assert len(found.lags) == run["batch"] * run["updates"]
    if run["late"] == "wait":
        assert found.dropped == 0
    if run["eta"] == 0:
        parts = np.array(times).reshape(run["updates"], run["batch"])
        assert found.dropped == 0
        if run["workers"] >= run["batch"]:  # a barrier before and after each update
            expected = parts.max(1).sum() + run["update"] * run["updates"]
            assert found.makespan == pytest.approx(expected)
    assert found.makespan >= run["update"] * run["updates"] - 1e-9
    assert -1e-9 <= found.trainer_idle <= 1
    assert -1e-9 <= found.workers_idle <= 1


def test_asynchrony_gains_what_waiting_costs() -> None:
    def run(eta: int, late: Any = "wait") -> Any:
        draw = stream(3, "latency")
        times = [float(draw.lognormal(0, 1)) for _ in range(4000)]
        return simulate(
            times.__getitem__, batch=8, eta=eta, workers=8, update=2.0, updates=60, late=late
        )

    runs = [run(eta) for eta in range(5)]
    spans = [r.makespan for r in runs]
    assert spans[0] > 1.4 * spans[1] > 1.4 * spans[4]
    assert runs[0].trainer_idle > runs[4].trainer_idle
    assert all(r.long_survival > 0.9 for r in runs[:2])
    dropping = run(1, "drop")
    assert dropping.dropped > 0
    assert dropping.long_survival < runs[1].long_survival, "what is dropped is what takes long"


def test_late_is_one_of_two() -> None:
    with pytest.raises(CardError, match="late is 'wait' or 'drop'"):
        Waiting(AdmissionControl(1, 1), "never")  # type: ignore[arg-type]


def test_turns_of_a_batch() -> None:
    seconds = np.array([[1.0, 3.0, 1.0], [2.0, 1.0, 4.0]])
    assert turns_in_step(seconds) == 2 + 3 + 4
    assert turns_apart(seconds) == 7
    draw = stream(0, "turns")
    for _ in range(50):
        some = draw.exponential(size=(int(draw.integers(1, 9)), int(draw.integers(1, 6))))
        assert turns_apart(some) <= turns_in_step(some) + 1e-12
    assert turns_apart(some[:1]) == pytest.approx(turns_in_step(some[:1]))
