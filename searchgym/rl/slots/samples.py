"""Batches and groups drawn at random, with everything that is hard about real ones."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import torch

from ...core.episode import Episode
from ...core.rules import EpisodeConfig, Rules
from ...objects import load_known
from ...policies.scoring import TOP
from ...seeding import derive, stream
from ...types import Task
from .batch import Batch, Estimate, Output
from .records import Floats, Group, Played, TaskPlan
from .registry import REGISTRY

TURNS = 3
"""Largest number of turns in a sample trajectory."""


@cache
def by_turn_signals() -> frozenset[str]:
    """Registered signals that hold a number for each turn; so do all whose names begin with
    ``turn_``."""
    classes = map(load_known, REGISTRY["signal"].values())
    return frozenset().union(*(c.by_turn for c in classes))


def sample_signals(
    names: Sequence[str], count: int, seed: int, by_turn: Sequence[str] = ()
) -> dict[str, Floats]:
    """Small whole numbers, (count,), or (count, K) for signals of turns (registered ones, those
    in ``by_turn``, and ``turn_…``), NaN beyond a member's last turn."""
    arrays: dict[str, Floats] = {}
    per_turn = by_turn_signals() | set(by_turn)
    for name in sorted(names):
        draw = stream(seed, "signal", name)
        if name not in per_turn and not name.startswith("turn_"):
            arrays[name] = draw.integers(0, 3, count).astype(float)
            continue
        arrays[name] = draw.integers(0, 3, (count, TURNS)).astype(float)
        turns = draw.integers(1, TURNS + 1, count)
        arrays[name][np.arange(TURNS) >= turns[:, None]] = np.nan
    return arrays


def group_of(size: int) -> Group:
    """Members whose episodes have one turn, a wrong or a right answer."""
    task = Task("t0", "question 0?", ("yes",))
    members = []
    for i in range(size):
        episode = Episode(EpisodeConfig(task, Rules(tools=(), dialect="plain"), i, f"sample.{i}"))
        episode.act(f"answer: {'yes' if i % 2 else f'no {i}'}")
        members.append(Played(episode, ()))
    return Group(TaskPlan(task, "sample", 0), tuple(members))


def sample_batch(
    seed: int,
    *,
    one_token: bool = False,
    signals: Sequence[str] = (),
    notes: Sequence[str] = (),
) -> Batch:
    """Five groups: two mixed ones, one of equal rewards, one of a single member, and one with a
    member that cannot be scored and one without a token to train on.

    Args:
        signals: Names of those to draw; signals of turns have a number for each turn.
        notes: Names of those to draw, a bool for each token.
    """
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
    turn = (torch.arange(width) // TURNS).expand(n, width).contiguous()
    logp = -torch.rand(n, width, generator=draw) - 0.1

    def near() -> torch.Tensor:
        return logp + 0.4 * (torch.rand(n, width, generator=draw) - 0.5)

    turn_reward = torch.rand(n, width, generator=draw)
    return Batch(
        list(group_of(n).members),
        mask,
        turn,
        group,
        reward,
        logp,
        torch.rand(n, generator=draw) < 0.2,
        torch.rand(n, generator=draw) < 0.2,
        outcome=reward - (turn_reward * mask).sum(1),
        turn_reward=turn_reward,
        baseline=torch.rand(n, generator=draw),
        old_logp=near(),
        ref_logp=near(),
        teacher_logp=near(),
        measures={
            "old_entropy": torch.rand(n, width, generator=draw),
            "sum_pi_sq": torch.rand(n, width, generator=draw),
            "self_certainty": torch.rand(n, width, generator=draw),
            "top_logp": -torch.rand(n, width, TOP, generator=draw).cumsum(-1),
            "hidden": torch.randn(n, width, 4, generator=draw),
            "logit_gradient": _logit_gradient(n, width),
        },
        value=torch.rand(n, width, generator=draw),
        credit=Estimate(torch.randn(n, generator=draw)),
        notes={name: torch.rand(n, width, generator=draw) < 0.5 for name in notes},
        signals={
            # every turn of a batch's trajectories has been measured
            name: torch.from_numpy(np.nan_to_num(values))
            for name, values in sample_signals(signals, n, seed).items()
        },
    )


def loss_statistics(loss: Any) -> set[str]:
    """Names of the statistics that a loss gives, by a trial on made-up numbers."""
    needs = sorted(loss.requires)
    batch = sample_batch(0, signals=needs, notes=needs)
    logp = batch.need("old_logp").clone().requires_grad_()
    output = Output(logp, -logp.detach())
    batch.notes.update(loss.prepare(batch, output, {}))
    return set(loss(output, batch, batch.totals, {})[1])


def _logit_gradient(count: int, width: int, ids: int = 5) -> torch.Tensor:
    draw = torch.Generator().manual_seed(2)
    odds = torch.randn(count, width, ids, generator=draw).softmax(-1)
    own = torch.randint(0, ids, (count, width), generator=draw)
    return torch.nn.functional.one_hot(own, ids) - odds


def shuffled(size: int) -> list[int]:
    """An order that is not the given one."""
    draw = torch.Generator().manual_seed(1)
    return [int(i) for i in torch.randperm(size, generator=draw)]
