"""Batches and groups drawn at random, with everything that is hard about real ones."""

from __future__ import annotations

import torch

from ...episode import Episode
from ...rules import EpisodeConfig, Rules
from ...seeding import derive
from ...types import Task
from .batch import Batch
from .records import Group, Played, TaskPlan


def group_of(size: int) -> Group:
    """Members whose episodes have one turn, a wrong or a right answer."""
    task = Task("t0", "question 0?", ("yes",))
    members = []
    for i in range(size):
        episode = Episode(EpisodeConfig(task, Rules(tools=(), dialect="plain"), i, f"sample.{i}"))
        episode.act(f"answer: {'yes' if i % 2 else f'no {i}'}")
        members.append(Played(episode, ()))
    return Group(TaskPlan(task, "sample", 0), tuple(members))


def sample_batch(seed: int, *, one_token: bool = False) -> Batch:
    """Five groups: two mixed ones, one of equal rewards, one of a single member, and one with a
    member that cannot be scored and one without a token to train on."""
    draw = torch.Generator().manual_seed(derive(seed, "batch") % (1 << 62))
    group = torch.tensor([0, 0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 4, 4, 4, 4])
    reward = torch.tensor([1, 0, 0, 0, 0.3, 0.9, 0.1, 0.1, 0.1, 0.1, 1, 1, 0, float("nan"), 0.5])
    n, width = len(group), 1 if one_token else 7
    length = torch.randint(1, width + 1, (n,), generator=draw)
    there = torch.arange(width)[None, :] < length[:, None]
    mask = there & (torch.rand(n, width, generator=draw) < 0.8)
    mask[:, 0] = True
    if not one_token:
        mask[12] = False
    turn = (torch.arange(width) // 3).expand(n, width).contiguous()
    logp = -torch.rand(n, width, generator=draw) - 0.1

    def near() -> torch.Tensor:
        return logp + 0.4 * (torch.rand(n, width, generator=draw) - 0.5)

    return Batch(
        list(group_of(n).members),
        mask,
        turn,
        group,
        reward,
        mask.sum(1),
        logp,
        turn_reward=torch.rand(n, width, generator=draw),
        baseline=torch.rand(n, generator=draw),
        old_logp=near(),
        ref_logp=near(),
        teacher_logp=near(),
        value=torch.rand(n, width, generator=draw),
        adv=torch.randn(n, generator=draw),
    )


def shuffled(size: int) -> list[int]:
    """An order that is not the given one."""
    draw = torch.Generator().manual_seed(1)
    return [int(i) for i in torch.randperm(size, generator=draw)]
