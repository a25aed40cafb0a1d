"""SPEAR: GRPO, and its own good trajectories again with a growing weight; a bonus for tools that
fades."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from searchgym import ToolResult
from searchgym.rl import Among, Batch, Coef, Estimate, OfMembers, Played, Scored
from searchgym.rl.ops import RewardGroups, spread
from searchgym.seeding import stream

from .stores import Stored, StoringTasks


class ReplayedSuccesses(StoringTasks):
    """Stores members that earned more than their group's mean and used a tool, and trains on some
    of them again.

    Stored ones are dropped after ``max_age`` steps. Once there are more than ``ready · size`` from
    earlier steps, each step replays a random choice of those that earned more than the median of
    the stored groups' means: the largest power of two that is at most ``size`` and at most as many
    as there are. The estimator ``self_imitation`` compares them with that median; a loss ``among``
    ``"replayed"`` members gives them a coefficient of their own.

    Args:
        size: Most trajectories that a step replays.
        ready: Multiple of ``size`` that must be stored before any is replayed.
        max_age: Steps for which a trajectory is kept.
    """

    registered = "data:self_imitation"
    remembers = ("means",)

    def __init__(self, size: int = 32, ready: float = 1.5, max_age: int = 10) -> None:
        super().__init__()
        if size < 1 or max_age < 1 or ready < 0:
            raise ValueError(
                f"size and max_age are at least 1, ready not negative, got {size}, {max_age}, "
                f"{ready}"
            )
        self.size, self.ready, self.max_age = size, float(ready), max_age
        self.means: list[tuple[int, float]] = []
        """Step and mean reward of each group that was played."""

    def observe(self, scored: Scored) -> None:
        step, earned = self._place[0], scored.rewards.total
        if not (places := scored.training):
            return
        mean = float(earned[places].mean())
        self.means.append((step, mean))
        good = [
            Stored.of(scored, i, step)
            for i in places
            if earned[i] > mean
            and scored.group.members[i].episode.queries
        ]  # fmt: skip
        self._stored.members = [*self._stored.members, *good]

    def replay(self, count: int, step: int, seed: int) -> Sequence[Scored]:
        """Groups of one stored trajectory each."""
        self._stored.members = [s for s in self._stored.members if step - s.step <= self.max_age]
        self.means = [m for m in self.means if step - m[0] <= self.max_age]
        earlier = [s for s in self._stored.members if s.step < step]
        if len(earlier) <= self.ready * self.size:
            return []
        median = float(np.median([mean for _, mean in self.means]))
        better = [s for s in earlier if s.total > median]
        most = min(self.size, len(better))
        if not most:
            return []
        chosen = stream(seed, "replay", step).permutation(len(better))[: power_of_two(most)]
        return [better[int(i)].alone() for i in sorted(chosen)]


def power_of_two(most: int) -> int:
    """The largest power of two that is at most ``most`` ≥ 1."""
    return 1 << (most.bit_length() - 1)


class SelfImitation(Among):
    """``base`` on the members that were played; R - median of the groups' mean rewards of the last
    ``window`` steps on those that were replayed. Where that is not positive, a replayed trajectory
    is not trained on: what was good then is no longer.

    Args:
        window: Steps, this one included.
    """

    registered = "advantage:self_imitation"
    remembers = ("means",)

    def __init__(self, base: Any = "dr_grpo", window: int = 10) -> None:
        super().__init__(base, "played")
        if window < 1:
            raise ValueError(f"window must be at least 1, got {window}")
        self.window = window
        self.means: list[list[float]] = []
        """Mean rewards of each step's groups."""

    def estimate(self, batch: Batch, coef: Coef) -> Estimate:
        made = super().estimate(batch, coef)
        played = batch.among(["played"])
        groups = RewardGroups(batch.reward[played], batch.group[played])
        means = groups.mean[groups.count > 0]
        self.means = [*self.means, means.tolist()][-self.window :]
        again = batch.replayed & ~batch.reward.isnan()
        if not bool(again.any()) or not any(self.means):
            return made
        median = float(torch.tensor([m for step in self.means for m in step]).quantile(0.5))
        lead = torch.where(again, torch.nan_to_num(batch.reward) - median, 0.0).clamp_min(0)
        adv = torch.where(again[:, None], lead[:, None] * batch.mask, spread(made.adv, batch.mask))
        better = (~batch.replayed | (lead > 0))[:, None].expand(batch.mask.shape)
        mask = better if made.mask is None else better & made.mask
        return made._replace(adv=adv.to(made.adv.dtype), mask=mask)


class ToolBonus(OfMembers):
    """``tool_use``: min(1, ``each`` · turns with a result of a tool), the bonus that SPEAR (arXiv
    2509.22601) lets fall to 0 as training goes on."""

    registered = "signal:tool_use"
    provides = frozenset({"tool_use"})

    def __init__(self, each: float = 0.1) -> None:
        if not each > 0:
            raise ValueError(f"each must be positive, got {each}")
        self.each = float(each)

    def of(self, member: Played) -> float:
        return min(1.0, self.each * tool_turns(member))


def tool_turns(member: Played) -> int:
    """Number of turns that got a result of a tool."""
    return sum(
        any(isinstance(r, ToolResult) for r in turn.results) for turn in member.episode.turns
    )
