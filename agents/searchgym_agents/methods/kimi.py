"""Kimi k1.5: mirror descent, a length reward, failed questions more often."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from searchgym import Task
from searchgym.rl import (
    Batch,
    Coef,
    Group,
    Mean,
    Output,
    Reduction,
    Result,
    Rewards,
    RewardTransform,
    Scored,
    Signals,
    Totals,
    UniformTasks,
    WeightedLoss,
    check_positive,
)
from searchgym.rl.ops import (
    Aggregate,
    RewardGroups,
    aggregate_tokens,
    log_ratio,
    masked_mean,
    require_batch,
    require_rows,
)
from searchgym.seeding import stream


class KimiLoss(WeightedLoss):
    """Squared distance to the optimal policy's log-ratio, ``(A - τ Δ)² / (2 τ)`` with
    Δ = log π(y) - log π_old(y), mean over trajectories; advantages (B,) R - mean of the group.

    Its gradient is ``-(A - τ Δ) ∇ log π(y)``: that of ``-[A log π - τ/2 Δ²]``, and at Δ = 0 that of
    REINFORCE with A as the advantage. The policy of the iteration's start is old and reference.
    Statistics: the mean squared form (A - τ Δ)² and the mean Δ.

    Args:
        tau: How much a trajectory's log-ratio costs.
    """

    registered = "loss:kimi"
    off_policy: ClassVar[tuple[str, ...]] = ("tau",)
    requires = frozenset({"old_logp"})
    default: ClassVar[Aggregate] = "seq-mean-token-sum"
    reductions = (Reduction({}, {"use": "reinforce"}, "on-policy"),)

    def __init__(self, tau: float = 0.1, weight: float = 1.0) -> None:
        super().__init__(weight)
        check_positive(tau=tau)
        self.tau = float(tau)

    def __call__(self, output: Output, batch: Batch, totals: Totals, coef: Coef) -> Result:
        require_batch(batch.mask, adv=batch.adv)
        delta = log_ratio(output.logp, batch.need("old_logp"), batch.mask).sum(1, keepdim=True)
        alive = batch.mask.any(1, keepdim=True)  # one number per trajectory from here on
        error = (batch.adv.detach()[:, None] - self.tau * delta).square()
        squared = aggregate_tokens(error, alive, self.default, **self.counts(totals))
        count = batch.totals.sequences
        stats = {"squared": error.detach(), "log_ratio": delta.detach()}
        means = {name: Mean(masked_mean(v, alive) * count, count) for name, v in stats.items()}
        return squared / (2 * self.tau), means


def length_reward(length: Tensor, correct: Tensor, group: Tensor) -> Tensor:
    """(B,) .5 for a group's shortest to -.5 for its longest; wrong answers earn at most 0.

    All 0 where a group's lengths are equal. Source: Kimi k1.5 (arXiv 2501.12599), §2.3.3.

    Args:
        length: (B,) tokens. correct: (B,) bool. group: (B,) integers.
    """
    require_rows(length=length, correct=correct, group=group)
    length = length.to(torch.get_default_dtype())
    groups = RewardGroups(length, group)
    infinite = torch.full_like(groups.mean, float("inf"))
    shortest = infinite.scatter_reduce(0, groups.index, length, "amin")[groups.index]
    longest = (-infinite).scatter_reduce(0, groups.index, length, "amax")[groups.index]
    gain = 0.5 - (length - shortest) / (longest - shortest).clamp_min(1e-9)
    return groups.advantage(torch.where(correct.bool(), gain, gain.clamp_max(0)))


class Shorter(RewardTransform):
    """Adds ``weight`` (or ``coef["shorter"]``, to warm it up) times ``length_reward``. Members that
    cannot be scored are left out of the lengths that are compared.

    Args:
        correct: The signal that says so, where it is at least ``threshold``.
    """

    registered = "outcome:shorter"
    reads = frozenset({"shorter"})

    def __init__(self, weight: float = 1.0, correct: str = "em", threshold: float = 0.5) -> None:
        self.weight, self.correct, self.threshold = float(weight), correct, float(threshold)
        self.requires = frozenset({"length", correct})

    def apply(self, group: Group, signals: Signals, rewards: Rewards, coef: Coef) -> Rewards:
        known = ~np.isnan(rewards.outcome)
        more = np.zeros(len(known))
        if known.any():
            gain = length_reward(
                torch.from_numpy(signals["length"][known]),
                torch.from_numpy(signals[self.correct][known] >= self.threshold),
                torch.zeros(int(known.sum()), dtype=torch.long),
            )
            more[known] = coef.get("shorter", self.weight) * gain.double().numpy()
        return Rewards(np.asarray(rewards.outcome + more), rewards.turns)


class Prioritized(UniformTasks):
    """A task's odds are ``1 - success``, its mean ``metric`` over time, and at least ``floor``.

    Args:
        metric: A signal between 0 and 1; what is added to rewards for length makes no success.
        momentum: Momentum of each task's mean. Tasks not yet played count as failed.
    """

    registered = "data:prioritized"
    remembers = ("success",)

    def __init__(
        self, floor: float = 0.05, momentum: float = 0.5, *, metric: str = "return"
    ) -> None:
        super().__init__()
        if not 0 < floor <= 1 or not 0 <= momentum < 1:
            raise ValueError(f"0 < floor ≤ 1 and 0 ≤ momentum < 1, got {floor}, {momentum}")
        self.floor, self.momentum = float(floor), float(momentum)
        self.metric, self.requires = metric, frozenset({metric})
        self.success: dict[str, float] = {}

    def choose(
        self, tasks: Sequence[Task], key: int, seed: int
    ) -> tuple[Task, Mapping[str, float]]:
        odds = np.array([max(1 - self.success.get(t.id, 0.0), self.floor) for t in tasks])
        return tasks[int(stream(key, "task").choice(len(tasks), p=odds / odds.sum()))], {}

    def observe(self, scored: Scored) -> None:
        results = scored.signals[self.metric][scored.training]
        results = results[np.isfinite(results)]
        if not len(results):
            return
        mean, name = float(np.clip(results.mean(), 0, 1)), scored.group.plan.task.id
        before = self.success.get(name, mean)
        self.success[name] = self.momentum * before + (1 - self.momentum) * mean
