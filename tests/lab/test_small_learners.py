"""The learner that quotes, for ReportQA, and the one that refuses, on a few questions."""

from __future__ import annotations

import numpy as np
import pytest

from searchgym.envs import SearchEnv
from searchgym_agents.lab import refusals, reports


def test_the_quoter_learns_which_sentences_earn() -> None:
    env = SearchEnv(
        world={"entities": 400}, tasks={"report": 12, "at_most": True}, reward="citations",
        max_turns=8,
    )  # fmt: skip
    desks = [reports.desk(env, task, 0) for task in env.tasks]
    quoter = reports.Quoter()
    before = reports.measured(quoter, desks).mean()
    quoter.train(desks, 0, epochs=5)
    after = reports.measured(quoter, desks).mean()
    again = reports.Quoter()
    again.train(desks, 0, epochs=5)
    assert (again.weights == quoter.weights).all()
    assert after > before + 0.1


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
