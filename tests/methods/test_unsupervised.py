"""Rewards without labels, LLDS, and the filter of uncertain questions: worked numbers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from searchgym.rl import (
    Estimate,
    Group,
    Output,
    Played,
    Recipe,
    Rewards,
    TaskPlan,
    TrainConfig,
    Trainer,
    make,
    sample_batch,
)
from searchgym_agents.methods.llds import fallen
from searchgym_agents.methods.starpo_s import uncertain
from tests.rl import lookup
from tests.small import TASKS, episode, play


def voted(*answers: str) -> list[float]:
    members = []
    for answer in answers:
        e = episode(max_turns=2)
        play(e, *([f"<answer>{answer}</answer>"] if answer else ["hm", "hm"]))
        members.append(Played(e, ()))
    group = Group(TaskPlan(TASKS[0], "0", 1), tuple(members))
    paid = Rewards(np.zeros(len(members)))
    return make("reward", "majority").apply(group, {}, paid, {}).outcome.tolist()


def test_the_commonest_answer_is_paid_right_or_wrong() -> None:
    assert voted("Rome", "the rome!", "Quell") == [1, 1, 0]
    assert voted("Quell", "Rome") == [1, 0], "of equally common ones the first"
    assert voted("", "", "Rome") == [0, 0, 1], "no answer is no vote"
    assert voted("", "") == [0, 0]


@pytest.mark.parametrize("of", ["entropy", "self_certainty"])
def test_sureness_takes_the_place_of_the_reward(of: str) -> None:
    batch = sample_batch(1)
    name = {"entropy": "old_entropy", "self_certainty": "self_certainty"}[of]
    mean = (batch.measures[name] * batch.mask).sum(1) / batch.mask.sum(1).clamp(min=1)
    value = -mean if of == "entropy" else mean
    value = torch.where(batch.reward.isnan(), batch.reward, value)
    want = make("advantage", "grpo").estimate(
        replace(batch, reward=value, outcome=value, turn_reward=None), {}
    )
    found = make("advantage", {"use": "intrinsic", "of": of}).estimate(batch, {})
    torch.testing.assert_close(found.adv, want.adv)
    other = replace(batch, reward=batch.reward * 3 + 1)
    again = make("advantage", {"use": "intrinsic", "of": of}).estimate(other, {})
    torch.testing.assert_close(again.adv, want.adv)


def test_only_likelihood_that_falls_is_preserved() -> None:
    """Two turns: the first falls by .3 as a whole, its second token rises; the second rises."""
    old = torch.tensor([[-1.0, -1.0, -1.0, -1.0]] * 2)
    now = torch.tensor([[-1.5, -0.8, -0.2, -1.3]] * 2)
    unit, mask = torch.tensor([[0, 0, 1, 1]] * 2), torch.ones(2, 4, dtype=torch.bool)
    value, kept = fallen(now, old, torch.tensor([1.0, -1.0]), mask, unit)
    assert value[0].tolist() == pytest.approx([0.5, 0, 0, 0])
    assert kept[0].tolist() == [True, True, False, False]
    assert not value[1].any(), "a wrong answer may become less likely"
    value, kept = fallen(now, old, torch.tensor([0.0, -1.0]), mask, torch.zeros_like(unit))
    assert not kept.any(), "the trajectory as a whole has become more likely"


def test_nothing_moved_is_nothing_lost() -> None:
    batch = sample_batch(2)
    batch = replace(batch, credit=Estimate(torch.ones(len(batch))))
    loss = make("loss", "llds")
    value, _ = loss(Output(batch.need("old_logp")), batch, batch.totals, {})
    assert float(value) == 0


def test_the_questions_that_differ_most_are_trained_on() -> None:
    reward = torch.tensor([1.0, 0.0, 1.0, 1.0, 0.9, 0.1, float("nan"), 0.2])
    group = torch.tensor([0, 0, 1, 1, 2, 2, 3, 3])
    assert uncertain(reward, group, 0.25).tolist() == [True, True] + [False] * 6
    assert uncertain(reward, group, 0.5).tolist() == [True, True, False, False] * 2
    assert uncertain(reward, group, 1.0).all()
    made = make("advantage", {"use": "uncertain", "keep": 1.0}).estimate(
        batch := sample_batch(3), {}
    )
    torch.testing.assert_close(made.adv, make("advantage", "grpo").estimate(batch, {}).adv)


@pytest.mark.slow  # a whole training
@pytest.mark.parametrize("name", ["ttrl", "rent"])
def test_they_end_sure_and_wrong(name: str) -> None:
    """The group agrees ever more, entropy all but ends, and exact match falls to nothing: of four
    queries to ask, the one that most ask is not the one that is right."""
    made = Recipe.of(name)
    lm, policy = lookup.player(0)
    config = TrainConfig.of(made, steps=40, tasks=8, lr=5e-3, seed=2)
    curve = list(Trainer(lookup.setting(), lm, made, config, policy=policy).train())
    first, last = curve[:4], curve[-4:]

    def mean(what: str, steps: list[dict[str, float]]) -> float:
        return float(np.mean([step[what] for step in steps]))

    assert mean("entropy", last) < 0.2 * mean("entropy", first)
    assert mean("em", last) < 0.05 < 0.15 < mean("em", first)
    if name == "ttrl":
        assert mean("reward", last) > 0.9 > 0.6 > mean("reward", first)
