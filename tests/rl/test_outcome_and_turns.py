"""What an episode earned as a whole stays apart from what its turns earned."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from searchgym.rl.recipe import Recipe
from searchgym.rl.slots.batch import Batch
from searchgym.rl.slots.protocols import make
from searchgym.rl.slots.records import Group, Played, Rewards, Scored, TaskPlan
from searchgym.rl.update import Updater
from tests.policies.test_rows import TEXTS, Watched
from tests.small import TASKS, episode


def played(name: str) -> Played:
    watched = Watched([TEXTS[1]])
    e = watched.play(episode())
    return Played(e, tuple(watched.policy.rows(e)), "baseline" if name == "twin" else "train")


def batch(outcomes: list[float], turns: list[float], *, twins: list[float] | None = None) -> Batch:
    """One group of two-turn episodes; ``turns``: what the first turn of each was paid."""
    twins = twins or []
    members = [played("") for _ in outcomes] + [played("twin") for _ in twins]
    paid = np.array([[t, 0.0] for t in [*turns, *(0.0 for _ in twins)]])
    rewards = Rewards(np.array([*outcomes, *twins]), paid)
    made = Batch.of([Scored(Group(TaskPlan(TASKS[0], "0", 1), tuple(members)), {}, rewards)])
    assert made is not None
    made.old_logp = made.sampled_logp.clone()
    made.ref_logp = made.sampled_logp - 0.1
    return made


def last_turn(b: Batch, adv: torch.Tensor) -> list[float]:
    """The advantage of each trajectory's last trained token."""
    return [float(row[mask][-1]) for row, mask in zip(adv, b.mask, strict=True)]


def test_equal_outcomes_give_the_answer_no_advantage_at_all() -> None:
    """Not even of rounding, whatever the turns earned."""
    for wide in range(1, 40):
        b = batch([0.3] * 4, [wide / 3, 1 / 3, 2 / 3, wide / 7])
        adv = make("advantage", "mt_grpo").estimate(b, {}).adv
        assert last_turn(b, adv) == [0.0] * 4


def test_a_price_on_tokens_leaves_the_outcome_where_it_is() -> None:
    free, priced = (batch([1.0, 0.0, 0.0], [0.0, 1.0, 0.5]) for _ in range(2))
    plain = make("advantage", "mt_grpo").estimate(free, {}).adv
    over = make("advantage", {"use": "kl_in_reward", "base": "mt_grpo", "beta": 1e-9})
    adv = over.estimate(priced, {}).adv
    torch.testing.assert_close(adv, plain, atol=1e-5, rtol=1e-5)
    assert last_turn(priced, adv)[0] > 1


def test_what_a_base_provides_is_provided() -> None:
    for over in ("kl_in_reward", "m2po_areal"):
        advantage = {"use": over, "base": "kl_cov"}
        Recipe.of({"advantage": advantage, "loss": ["ppo", "kl_cov"]})
        assert "picked" in make("advantage", advantage).provides


def test_a_scheduled_price_needs_a_reference_before_anything_is_played() -> None:
    schedule = {"use": "adaptive_kl", "name": "beta"}
    priced = {"use": "reinforce_pp", "beta": 0.001}
    assert "ref_logp" in make("advantage", priced).requires
    assert Recipe.of({"advantage": priced, "loss": "ppo", "schedule": schedule}).needs("ref_logp")
    b = batch([1.0, 0.0], [0.0, 0.0])
    without = make("advantage", "reinforce_pp").estimate(b, {"beta": 5.0})[0]
    torch.testing.assert_close(without, make("advantage", "reinforce_pp").estimate(b, {})[0])


@pytest.mark.parametrize("twins", [[0.5], [float("nan")]])
def test_a_twin_that_broke_off_is_still_a_comparison(twins: list[float]) -> None:
    b = batch([1.0, 0.0], [0.0, 0.0], twins=twins)
    assert b.baseline is not None
    adv = make("advantage", "remax").estimate(b, {}).adv
    want = [0.5, -0.5] if twins == [0.5] else [0.0, 0.0]
    assert torch.nan_to_num(adv).reshape(2, -1)[:, 0].tolist() == want


def test_a_trajectory_without_tokens_never_goes_through_the_model_alone() -> None:
    """Beside one that fills a part by itself."""
    b = batch([1.0, 0.0], [0.0, 0.0])
    empty = Played(b.members[0].episode, ())
    b.members = [empty, b.members[0], b.members[1]]
    updater: Any = SimpleNamespace(
        processes=SimpleNamespace(shard=list), config=SimpleNamespace(tokens=1),
        _units=lambda batch: [[0], [1], [2]],
    )  # fmt: skip
    parts = list(Updater._micro_batches(updater, b))
    assert [any(b.members[i].rows for i in part) for part in parts] == [True, True]
    assert sorted(i for part in parts for i in part) == [0, 1, 2]
