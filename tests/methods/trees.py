"""Trees of episodes, grown by rollouts or written down; groups whose turns are paid."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import torch
from torch import Tensor

from searchgym.rl import Batch, Group, Played, TaskPlan, Workers, group_of, make, sample_batch
from searchgym_agents.lab.policy import TabularLM, skilled
from searchgym_agents.lab.tree import grow


@cache
def lm() -> TabularLM:
    return skilled(grow(), 0.4)


def workers(seed: int = 0) -> Workers:
    return Workers(lm().policy(seed), lm().tree.env, lm())  # type: ignore[arg-type]


def plans(count: int = 6) -> list[TaskPlan]:
    return [lm().tree.plan(i % 3)._replace(name=f"{i}", key=i) for i in range(count)]


def played(rollout: Any, count: int = 6, seed: int = 0) -> list[Group]:
    groups: list[Group] = make("rollout", rollout).collect(plans(count), workers(seed))
    return groups


def path(group: Group, place: int) -> list[tuple[int, int]]:
    """(Member, turn) of all turns on the way to a member's end."""
    member = group.members[place]
    own = [(place, t) for t in range(member.since, len(member.episode.turns))]
    if member.parent is None:
        return own
    return [*(at for at in path(group, member.parent) if at[1] < member.since), *own]


def forest(
    reward: list[float], parent: list[int], since: list[int], turns: list[int], **fields: Any
) -> Batch:
    """Trajectories of a token a turn; ``turns``: how many each path has, the parent's included."""
    n, width = len(reward), max(t - s for t, s in zip(turns, since, strict=True))
    first = torch.tensor(since)[:, None]
    turn = torch.arange(width)[None, :] + first
    mask = turn < torch.tensor(turns)[:, None]
    root = list(range(n))
    for i in range(n):
        if parent[i] >= 0:
            root[i] = root[parent[i]]
    zeros = torch.zeros(n, width)
    made = Batch(
        list[Played](group_of(n).members), mask, turn, torch.zeros(n, dtype=torch.long),
        torch.tensor(reward), zeros, torch.zeros(n, dtype=torch.bool),
        torch.zeros(n, dtype=torch.bool), number=torch.arange(n), parent=torch.tensor(parent),
        siblings=torch.tensor(root), since=torch.tensor(since), outcome=torch.tensor(reward),
        old_logp=zeros - 1, ref_logp=zeros,
    )  # fmt: skip
    return replace(made, **fields) if fields else made


def close(got: Tensor, want: Any, atol: float = 1e-4) -> None:
    torch.testing.assert_close(got, torch.as_tensor(want, dtype=got.dtype), atol=atol, rtol=0)


def turns(paid: list[list[float]], **signals: list[list[float]]) -> Batch:
    """One group of trajectories of one token a turn, all of what they earn paid by turns."""
    width = max(map(len, paid))
    reward = torch.tensor([p + [0.0] * (width - len(p)) for p in paid])
    mask = torch.tensor([[k < len(p) for k in range(width)] for p in paid])
    plain = sample_batch(0).take(range(len(paid)))
    turn = torch.arange(width).expand(mask.shape).contiguous()
    return replace(
        plain, mask=mask, turn=turn, group=torch.zeros(len(paid), dtype=torch.long),
        reward=reward.sum(1), outcome=torch.zeros(len(paid)), turn_reward=reward,
        old_logp=None, ref_logp=None,
        signals={name: torch.tensor(values) for name, values in signals.items()},
    )  # fmt: skip


def estimate(spec: Any, batch: Batch) -> Tensor:
    adv = make("advantage", spec).estimate(batch, {}).adv
    return adv if adv.ndim == 2 else adv[:, None] * batch.mask
