"""The critic's values are of the state before each token; it learns what returns are."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from searchgym.errors import EngineError
from searchgym.policies.trainable import Lora
from searchgym.rl.critic import Critic
from searchgym.rl.slots.batch import Batch
from searchgym.rl.slots.records import Rewards, Scored, TaskPlan, Workers
from searchgym.rl.slots.registry import make
from tests.rl.colours import TASKS, player, setting


def batch_and_critic(lr: float = 1e-2) -> tuple[Batch, Critic]:
    lm, policy = player(0)
    plans = [TaskPlan(task, f"0.{i}", i) for i, task in enumerate(TASKS)]
    workers = Workers(policy, setting(), lm)
    groups = make("rollout", {"use": "chains", "size": 4}).collect(plans, workers)
    made = Batch.of([Scored(g, {}, Rewards(np.arange(4.0) / 4)) for g in groups])
    assert made is not None
    return made, Critic(lm, lr=lr)


def test_values_are_of_the_state_before_the_token() -> None:
    batch, critic = batch_and_critic()
    torch.nn.init.ones_(critic.head.weight)
    with torch.no_grad():
        found = critic.values(batch)
        critic.tokens = 1
        torch.testing.assert_close(critic.values(batch), found, atol=1e-4, rtol=1e-4)
        for line, member in zip(found, batch.members, strict=True):
            (row,) = member.rows
            at = np.flatnonzero(row.sampled)
            hidden = critic.body(torch.tensor([row.ids.tolist()])).last_hidden_state[0]
            want = critic.head(hidden)[at - 1, 0]
            torch.testing.assert_close(line[: len(at)], want, atol=1e-4, rtol=1e-4)
            assert (line[len(at) :] == 0).all()


def test_it_learns_returns() -> None:
    """The same for all: what can be said without knowing what will be drawn."""
    batch, critic = batch_and_critic()
    batch.returns = torch.full(batch.mask.shape, 0.7)
    with torch.no_grad():
        batch.value = critic.values(batch)
    assert (batch.value == 0).all()
    losses = []
    for _ in range(25):
        losses.append(critic.fit(batch)["critic/loss"])
    assert losses[0] == pytest.approx(0.7**2 / 2, abs=1e-6)
    with torch.no_grad():
        batch.value = critic.values(batch)
    for _ in range(25):  # the old value holds it back by clip at most
        losses.append(critic.fit(batch)["critic/loss"])
    assert losses[-1] < losses[0] / 10


def test_it_is_a_model_of_its_own() -> None:
    lm, _ = player(0)
    before = torch.cat([p.detach().flatten() for p in lm.parameters()])
    batch, critic = batch_and_critic()
    shared = {p.data_ptr() for p in lm.parameters()} & {p.data_ptr() for p in critic.parameters()}
    assert not shared
    batch.returns, batch.value = torch.ones(batch.mask.shape), torch.zeros(batch.mask.shape)
    critic.fit(batch)
    assert torch.equal(torch.cat([p.detach().flatten() for p in lm.parameters()]), before)
    with pytest.raises(EngineError, match="has adapters"):
        Critic(player(0, lora=Lora(4))[0])
