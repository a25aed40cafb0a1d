"""NoisyGRPO: members of a group play under different noise, which is a prior of their worth."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from searchgym import Episode
from searchgym.rl import (
    Batch,
    Chains,
    Coef,
    Estimate,
    OfMembers,
    Played,
    Relative,
    TaskPlan,
    Workers,
    grpo_advantages,
)
from searchgym.rl.ops import RewardGroups, Std, checked_std
from searchgym.seeding import derive


def gain(std: Tensor, spread: float = 0.1, error: float = 0.1) -> Tensor:
    """Kalman gain K = P / (P + ``error``) with P = ``spread`` / (std² + ``spread``): near 1 where a
    group's rewards hardly differ."""
    doubt = spread / (std.square() + spread)
    return doubt / (doubt + error)


class NoisyGRPO(Relative):
    """z(S + K (N - S)) within the group, with S = z(R), N = z(1 - noise) and the Kalman gain K.

    The noise that a member was played under is a prior of how good its trajectory is; the less the
    group's rewards say, the more the prior counts. A group of equal rewards gets 0, as in GRPO,
    though the formula would leave N: members that all did alike have nothing to teach (ours).

    Args:
        spread, error: Constants of the gain (released code: .1 and .1).
    """

    registered = "advantage:noisy_grpo"
    requires = frozenset({"noise"})
    invariant = frozenset({"shift"})

    def __init__(
        self, spread: float = 0.1, error: float = 0.1, std: Std = "sample", eps: float = 1e-6
    ) -> None:
        if not spread > 0 or not error > 0:
            raise ValueError(f"spread and error are positive, got {spread} and {error}")
        self.spread, self.error, self.eps = float(spread), float(error), float(eps)
        self.std: Std = checked_std(std)

    def estimate(self, batch: Batch, coef: Coef) -> Estimate:
        reward, group = batch.reward, batch.group
        groups = RewardGroups(reward, group)
        score = grpo_advantages(reward, group, std=self.std, eps=self.eps)
        quiet = torch.where(reward.isnan(), reward, (1 - batch.signal("noise")).to(reward.dtype))
        prior = grpo_advantages(quiet, group, std=self.std, eps=self.eps)
        weight = gain(groups.std(self.std), self.spread, self.error)[groups.index]
        mixed = torch.where(reward.isnan(), reward, score + weight * (prior - score))
        adv = grpo_advantages(mixed, group, std=self.std, eps=self.eps)
        return Estimate(groups.advantage(adv))


class Noisy(Chains):
    """Chains whose members' engine is noisy at ``levels``, which repeat along the group: member i
    has ``levels[i mod n]`` as its difficulty parameter ``noise`` (NoisyGRPO, arXiv 2510.21122,
    which disturbs images; a search agent's input is what it finds). The engines ``degraded`` and
    ``simulated…`` read it.

    Args:
        size: Episodes of a group.
        levels: Shares of results that are not for the query, in [0, 1].
    """

    registered = "rollout:noisy"

    def __init__(self, size: int = 8, levels: Sequence[float] = (0.0, 0.3, 0.6, 0.9)) -> None:
        if not levels or not all(0 <= level <= 1 for level in levels):
            raise ValueError(f"levels are some numbers in [0, 1], got {levels}")
        super().__init__(size)
        self.levels = tuple(map(float, levels))

    def _start(self, plan: TaskPlan, workers: Workers) -> list[Episode]:
        return [
            workers.env.start(
                derive(plan.key, "episode", i), task=plan.task,
                params={**plan.params, "noise": self.levels[i % len(self.levels)]},
                episode_id=f"{plan.name}.{i}",
            )
            for i in range(self.size)
        ]  # fmt: skip


class Noise(OfMembers):
    """``noise``: (M,) the episode's difficulty parameter of that name; 0 without one."""

    registered = "signal:noise"
    provides = frozenset({"noise"})

    def of(self, member: Played) -> float:
        return member.episode.config.params.get("noise", 0.0)
