"""The learner that refuses, on a few questions."""

from __future__ import annotations

import numpy as np
import pytest

from searchgym_agents.lab import refusals


def test_a_step_raises_the_probability_of_what_was_done() -> None:
    policy = refusals.LinearPolicy()
    move = refusals.Move(np.array([1, 5]), np.array([True, True, True, False]), 2)
    trial = refusals.Trial(None, (move, move))  # type: ignore[arg-type]
    assert policy.logp(trial) == pytest.approx(2 * np.log(1 / 3))
    policy.step(trial, 0.5)
    odds = policy.probabilities(move)
    assert odds[2] > 1 / 3 > odds[0] == odds[1]
    assert odds[3] == 0
    assert odds.sum() == pytest.approx(1)
