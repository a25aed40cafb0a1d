"""Candidate actions of many slots, against as many single wrappers behind Gymnasium's own vector.

A policy that acts at random among the legal actions plays the default environment. ``new``: what
is seen for the first time, all passages read and every state built; ``again``: the same questions
later on, as in training, where the policy comes back to most states.
"""

from __future__ import annotations

import time
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import SyncVectorEnv

from searchgym import CandidateActions, VectorCandidateActions

from .table import show

pytestmark = pytest.mark.benchmark
SLOTS, STEPS, WARM = 64, 20, 64
OPTIONS: dict[str, Any] = {"tasks": {"simple": 8, "chain": 8}}
"""16 questions: four steps of warm-up for each in every slot reach most of the usual states."""


def played(envs: Any, steps: int, rng: np.random.Generator) -> float:
    """CPU seconds of ``steps`` steps of all slots, acting at random."""
    start = time.process_time()
    observation = played.observation  # type: ignore[attr-defined]
    for _ in range(steps):
        mask = observation["mask"]
        noise = rng.random(mask.shape)
        observation, *_ = envs.step((noise * (mask > 0)).argmax(1))
    played.observation = observation  # type: ignore[attr-defined]
    return time.process_time() - start


def test_vector_against_single_wrappers():
    kinds = {
        "single wrappers": SyncVectorEnv(
            [lambda: CandidateActions(gym.make("SearchQA-v0", **OPTIONS), max_actions=64)] * SLOTS,
            autoreset_mode="SameStep",
        ),
        "vector wrapper": VectorCandidateActions(
            gym.make_vec("SearchQA-v0", SLOTS, autoreset_mode="SameStep", **OPTIONS),
            max_actions=64,
        ),
    }
    rates = {}
    for name, envs in kinds.items():
        rng = np.random.default_rng(0)
        played.observation, _ = envs.reset(seed=0)  # type: ignore[attr-defined]
        new = played(envs, STEPS, rng)
        played(envs, WARM, rng)
        rates[name] = [SLOTS * STEPS / new, SLOTS * STEPS / played(envs, STEPS, rng)]
    base = rates["single wrappers"]
    show(
        f"SearchQA-v0, candidate actions, {SLOTS} slots, random legal actions",
        ("what", "new, steps/CPU s", "again, steps/CPU s", "ratio, again"),
        [(name, *rate, rate[1] / base[1]) for name, rate in rates.items()],
    )
    assert rates["vector wrapper"][1] >= 2_000
    assert rates["vector wrapper"][1] >= 2 * base[1]
