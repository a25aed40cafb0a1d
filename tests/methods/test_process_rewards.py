"""Worked numbers of methods whose turns are paid by a model or a prover: PAV, MRT, iStar."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from searchgym.rl import GoldLogp, Group, Rewards, Scored, TaskPlan, Workers, make, read, total
from searchgym_agents.methods.istar import ImplicitReward
from searchgym_agents.methods.mrt import GoldChance
from searchgym_agents.methods.pav import ProverProgress, best_of, recall
from tests.methods.trees import close, estimate, turns
from tests.rl.colours import TASKS, player, setting
from tests.rl.kernels import estimate as estimated
from tests.rl.trainers import trainer, weights


@pytest.fixture(scope="module")
def workers() -> Workers:
    lm, policy = player(4)
    return Workers(policy, setting(), lm)


@pytest.fixture(scope="module")
def group(workers: Workers) -> Group:
    plan = TaskPlan(TASKS[0], "process", 0)
    made: list[Group] = make("rollout", {"use": "chains", "size": 6}).collect([plan], workers)
    return made[0]


# --- PAV --------------------------------------------------------------------------------------
def test_a_provers_gain() -> None:
    before, after = best_of(np.array([0.5, 0.75]), 4)
    assert after - before == pytest.approx(0.05859, abs=1e-5)
    own = np.array([0.1, 0.6, 1.0])
    np.testing.assert_allclose(best_of(own, 1), own)


def test_gains_of_turns_add_up(group: Group, workers: Workers) -> None:
    """From the question, which all share, to the end of each episode."""
    for tries in (1, 4):
        (found,) = ProverProgress(samples=3, best_of=tries).measure([group], workers)
        progress = found["turn_progress_prover"]
        ends = best_of(np.array([total(m) for m in group.members]), tries)
        start = ends - np.nansum(progress, 1)
        np.testing.assert_allclose(start, start[0], atol=1e-12)
        assert 0 <= start[0] <= 1
        for member, line in zip(group.members, progress, strict=True):
            assert np.isfinite(line[: len(member.episode.turns)]).all()
            assert np.isnan(line[len(member.episode.turns) :]).all()


def test_what_is_played_on_is_as_if_it_had_never_been_forgotten(
    group: Group, workers: Workers
) -> None:
    """From its own tokens, which a second spelling of its text need not give."""
    policy = workers.policy
    member = next(m for m in group.members if len(m.episode.turns) == 2)
    recall(member, workers)
    (request,) = member.episode.fork(at=1, branch=1).requests()
    asked = policy.ask(request)
    (row,) = member.rows
    second = int(np.flatnonzero(row.turn_of_token == 1)[0])
    assert list(asked.prompt) == row.ids[:second].tolist()  # type: ignore[union-attr]
    policy.forget([request.episode_id, member.episode.config.episode_id])


def test_a_turns_bonus_is_its_own() -> None:
    batch = turns([[0.0, 1.0], [0.0, 0.0]], turn_x=[[0.5, 0.1], [-0.2, 0.4]])
    spec = {"use": "turn_bonus", "base": "rloo", "signal": "turn_x", "weight": 2.0}
    close(estimate(spec, batch), [[1 + 1.0, 1 + 0.2], [-1 - 0.4, -1 + 0.8]])
    # each of four less the mean of the other three
    values = torch.tensor([0.5, 0.1, -0.2, 0.4])
    alone = (4 / 3 * (values - values.mean())).reshape(2, 2)
    rloo = {**spec, "weight": 1.0, "compared": "rloo"}
    close(estimate(rloo, batch), torch.tensor([[1.0], [-1.0]]) + alone)
    nothing = replace(batch, signals={"turn_x": torch.tensor([[0.5, math.nan], [-0.2, 0.4]])})
    close(estimate(spec, nothing)[0, 1], 1.0)


# --- MRT --------------------------------------------------------------------------------------
def test_mrt_against_answering_at_once() -> None:
    stopping = torch.tensor([[0.2, 0.5, 0.4], [0.3, math.nan, math.nan]])
    turn = torch.tensor([[0, 0, 1, 2], [0, 0, 0, 0]])
    mask = torch.tensor([[True, True, True, True], [True, True, False, False]])
    given = {"turn": turn, "signals": {"gold_chance": stopping}, "reward": torch.tensor([1.0, 0])}
    got = estimated("mrt", mask, **given).adv
    want = [[0.8 + 0.3, 0.8 + 0.3, 0.5 - 0.1, 0.6], [-0.3, -0.3, 0, 0]]
    close(got, want)
    plain = estimated("mrt", mask, **given, alpha=0.0).adv
    close(plain, [[0.8, 0.8, 0.5, 0.6], [-0.3, -0.3, 0, 0]])
    per_turn = (got - plain)[0, [0, 2, 3]]
    close(per_turn.sum(), 0.4 - 0.2)  # progress telescopes


def test_the_chance_of_the_gold_answer_is_its_tokens_together(
    group: Group, workers: Workers
) -> None:
    logp, chance = (s.measure([group], workers)[0] for s in (GoldLogp(), GoldChance()))
    mean, whole = logp["gold_logp"], chance["gold_chance"]
    there = ~np.isnan(mean)
    assert ((whole[there] >= 0) & (whole[there] <= 1)).all()
    assert (whole[there] <= np.exp(mean[there]) + 1e-9).all()
    counts = np.log(whole[there]) / mean[there]
    np.testing.assert_allclose(counts, np.round(counts), atol=1e-4)


# --- iStar ------------------------------------------------------------------------------------
def scored(group: Group, rewards: list[float]) -> list[Scored]:
    return [Scored(group, {}, Rewards(np.array(rewards)))]


REWARDS = [1.0, 0.0, 0.0, 1.0, 0.0, 0.0]


def test_implicit_rewards_begin_at_0_and_their_loss_at_ln_2(group: Group, workers: Workers) -> None:
    signal = ImplicitReward(lr=1e-3)
    (first,) = signal.measure([group], workers)
    found = first["turn_implicit"]
    assert np.nanmax(np.abs(found)) < 1e-6
    told = signal.fit(scored(group, REWARDS))
    assert told["implicit_reward/loss"] == pytest.approx(math.log(2), abs=1e-5)
    assert told["implicit_reward/pairs"] == 8
    losses = [told["implicit_reward/loss"]]
    for _ in range(12):
        (now,) = signal.measure([group], workers)
        losses.append(signal.fit(scored(group, REWARDS))["implicit_reward/loss"])
    assert losses[-1] < losses[0]
    sums = np.nansum(now["turn_implicit"], 1)
    wins = np.array(REWARDS) > 0
    assert sums[wins].mean() > sums[~wins].mean()
    signal.measure([group], workers)
    assert signal.fit(scored(group, [0.0] * 6)) == {"implicit_reward/pairs": 0.0}


def gradients(signal: ImplicitReward) -> torch.Tensor:
    """Those of the last fit."""
    assert signal.model is not None
    grads = [p.grad for p in signal.model.parameters()]
    return torch.cat([grad.flatten() for grad in grads if grad is not None])


def test_part_by_part_is_all_at_once(group: Group, workers: Workers) -> None:
    """The gradient by parts is DPO's own, written down in one piece."""
    small, whole = (ImplicitReward(lr=1e-3, tokens=n, max_norm=1e9) for n in (1, 65_536))
    for signal in (small, whole):
        for _ in range(2):
            signal.measure([group], workers)
            signal.fit(scored(group, REWARDS))
    # Gradients, not weights: Adam divides one of 1e-9 by its own size, and its last digits decide.
    torch.testing.assert_close(gradients(small), gradients(whole), atol=1e-6, rtol=1e-3)
    signal = ImplicitReward()
    signal.measure([group], workers)
    before = torch.tensor([signal._before[m.episode.config.episode_id] for m in group.members])
    signal.fit(scored(group, REWARDS))
    by_parts = gradients(signal)
    model = ImplicitReward()._of(workers.lm)
    rows = [row for m in group.members for row in m.rows]
    sums = 0.05 * (model.logp(rows).sum(1) - before)
    wins = torch.tensor(REWARDS) > 0
    margin = sums[wins][:, None] - sums[~wins][None, :]
    (-torch.nn.functional.logsigmoid(margin).mean()).backward()
    direct = torch.cat([p.grad.flatten() for p in model.parameters()])  # type: ignore[union-attr]
    torch.testing.assert_close(by_parts, direct, atol=1e-6, rtol=1e-3)


def test_what_the_second_model_learnt_is_resumed(tmp_path: Path) -> None:
    table: dict[str, Any] = {
        **read("istar"), "signal": ["return", {"use": "implicit_reward", "lr": 1e-2}],
    }  # fmt: skip

    def run(steps: int, out: Path) -> Any:
        made = trainer(table, steps=steps, save_every=1, out=out)
        list(made.train())
        return made

    whole = run(4, tmp_path / "whole")
    run(2, tmp_path / "cut")
    last = run(4, tmp_path / "cut")
    assert torch.equal(weights(last.lm), weights(whole.lm))
    mine, theirs = (r.recipe.signal[1] for r in (last, whole))
    assert torch.equal(weights(mine.model), weights(theirs.model))
    assert not torch.equal(weights(mine.model), weights(last.lm))
