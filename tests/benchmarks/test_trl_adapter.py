"""A step of TRL's trainer through our adapter, beside a step of ``rl.minimal`` on equal episodes.

The tiny model makes both about overhead: 2 tasks × 4 episodes × at most 3 turns × 24 tokens, all
sampled by the same generator. Steps are taken in turn, in processor time of one thread."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

import pytest
import torch
import trl

from searchgym.integrations import trl as bridge
from searchgym.llms import Sampling
from searchgym.policies import TrainableLM
from searchgym.rl import Config, grpo
from tests.benchmarks.table import show
from tests.benchmarks.trl_grpo import take_turns
from tests.integrations.scene import scene
from tests.integrations.trl_runs import CONFIG, model
from tests.llms import tiny

pytestmark = pytest.mark.benchmark
STEPS, SAMPLING = 12, Sampling(max_tokens=24)


def test_a_step_of_trl_costs_at_most_three_of_ours(tmp_path: Path) -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    words = tiny.tokenizer()
    env = scene(max_turns=3, reward={"format": 1.0})
    theirs = trl.GRPOTrainer(
        model=model(words),
        args=trl.GRPOConfig(
            output_dir=str(tmp_path),
            **{**CONFIG, "max_steps": STEPS, "max_completion_length": 4096},
        ),
        train_dataset=bridge.dataset(env, words), reward_funcs=bridge.rollout_reward,
        processing_class=words,
        rollout_func=bridge.rollout(env, renderer="plain", sampling=SAMPLING),
    )  # fmt: skip
    lm = TrainableLM(model(words), words)
    policy = lm.policy("plain", sampling=SAMPLING)
    steps: Any = grpo(env, lm, policy, Config(steps=STEPS + 1, tasks=2, group=4, lr=1e-3))
    try:
        times = take_turns(theirs, lambda: next(steps))
    finally:
        torch.set_num_threads(threads)
    trl_s, ours_s = (statistics.median(part[2:]) for part in times)
    show(
        "One GRPO step on 8 episodes, CPU seconds, tiny model",
        ("what", "seconds", "relative"),
        [("rl.minimal", ours_s, 1.0), ("TRL through rollout()", trl_s, trl_s / ours_s)],
    )
    assert trl_s <= 3 * ours_s
