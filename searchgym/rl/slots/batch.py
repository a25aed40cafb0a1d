"""Trajectories as tensors: one line per trajectory, one column per token that the policy sampled.

What was read (questions, results) has no column at all, so nothing can train on it by mistake, and
an episode whose context was edited, and which therefore has several rows, is still one sequence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ...policies.rows import Row
from .records import Played, Scored


class Output(NamedTuple):
    """What the model says of a batch, with gradient. (N, T) each; 0 where there is no token."""

    logp: Tensor
    entropy: Tensor | None = None


class Totals(NamedTuple):
    """Counts of the whole update, by which losses are divided wherever its parts are computed."""

    tokens: float
    """Trained tokens."""
    sequences: float
    """Trajectories with at least one."""


@dataclass(slots=True)
class Batch:
    """N trajectories of at most T sampled tokens."""

    members: list[Played]
    mask: Tensor
    """(N, T) bool: trained on."""
    turn: Tensor
    """(N, T) long: each token's turn, 0, 1, 2, …"""
    group: Tensor
    """(N,) long."""
    reward: Tensor
    """(N,) float."""
    length: Tensor
    """(N,) long: trained tokens."""
    sampled_logp: Tensor
    """(N, T) when it was drawn, by whatever drew it."""
    turn_reward: Tensor | None = None
    """(N, T) at the last trained token of each turn."""
    baseline: Tensor | None = None
    """(N,) what the group's baseline member earned."""
    old_logp: Tensor | None = None
    """(N, T) under the weights at the start of the update."""
    ref_logp: Tensor | None = None
    """(N, T) under the reference."""
    teacher_logp: Tensor | None = None
    """(N, T) under the teacher."""
    value: Tensor | None = None
    """(N, T) a critic's, before the update."""
    returns: Tensor | None = None
    """(N, T) what the critic should have said."""
    value_mask: Tensor | None = None
    """(N, T) bool: where it is asked; None: as ``mask``."""
    adv: Tensor | None = None
    """(N,) or (N, T)."""
    clip_scale: Tensor | None = None
    """(N, T)."""

    def __len__(self) -> int:
        return len(self.members)

    @property
    def rows(self) -> list[Row]:
        """All rows, trajectory by trajectory."""
        return [row for m in self.members for row in m.rows]

    @property
    def totals(self) -> Totals:
        return Totals(float(self.mask.sum()), float((self.length > 0).sum()))

    def take(self, places: Sequence[int]) -> Batch:
        """Some of the trajectories."""
        index = torch.as_tensor(list(places), dtype=torch.long)
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        for name, value in values.items():
            if isinstance(value, Tensor):
                values[name] = value[index]
        values["members"] = [self.members[i] for i in places]
        return Batch(**values)

    def need(self, name: str) -> Tensor:
        """An optional field; recipes make sure that it is there."""
        value = getattr(self, name)
        if value is None:
            raise ValueError(f"this batch has no {name}")
        assert isinstance(value, Tensor)
        return value

    @classmethod
    def of(cls, scored: Sequence[Scored]) -> Batch | None:
        """The trained members of some groups; None if there are none, or none has a token."""
        members: list[Played] = []
        group: list[int] = []
        reward: list[float] = []
        baseline: list[float] = []
        by_turn: list[np.ndarray | None] = []
        for number, s in enumerate(scored):
            twins = [i for i, m in enumerate(s.group.members) if m.purpose == "baseline"]
            floor = float(np.mean(s.rewards.outcome[twins])) if twins else float("nan")
            for i in s.training:
                members.append(s.group.members[i])
                group.append(number)
                reward.append(float(s.rewards.outcome[i]))
                baseline.append(floor)
                by_turn.append(None if s.rewards.turns is None else s.rewards.turns[i])
        width = max((m.tokens for m in members), default=0)
        if not width:
            return None
        mask = _lines(members, "loss_mask", width, torch.bool)
        turn = _turns(members, width)
        return cls(
            members,
            mask,
            turn,
            torch.tensor(group),
            torch.tensor(reward),
            mask.sum(1),
            _lines(members, "logp", width, torch.float32),
            turn_reward=_turn_rewards(by_turn, turn, mask),
            baseline=None if np.isnan(baseline).all() else torch.tensor(baseline),
        )


def in_lines(values: Tensor, members: Sequence[Played], width: int) -> Tensor:
    """(R, W) values of all the members' rows as (N, ``width``): sampled tokens only, in order."""
    lines: list[Tensor] = []
    at = 0
    for member in members:
        parts = [values.new_zeros(0)]
        for row in member.rows:
            parts.append(values[at, torch.from_numpy(np.flatnonzero(row.sampled))])
            at += 1
        line = torch.cat(parts)
        lines.append(torch.nn.functional.pad(line, (0, width - len(line))))
    return torch.stack(lines)


def _lines(members: Sequence[Played], name: str, width: int, dtype: torch.dtype) -> Tensor:
    made = torch.zeros(len(members), width, dtype=dtype)
    for line, member in zip(made, members, strict=True):
        parts = [torch.from_numpy(getattr(row, name)[row.sampled]) for row in member.rows]
        if parts:
            line[: sum(map(len, parts))] = torch.cat(parts)
    return made


def _turns(members: Sequence[Played], width: int) -> Tensor:
    """Numbers of turns as recorded in the rows' uids, ``"<trajectory>/<number>"``."""
    made = torch.zeros(len(members), width, dtype=torch.long)
    for line, member in zip(made, members, strict=True):
        found: list[int] = []
        for row in member.rows:
            numbers = [int(uid.rpartition("/")[2]) for uid in row.turn_uids]
            found += [numbers[i] for i in row.turn_of_token[row.sampled]]
        line[: len(found)] = torch.tensor(found, dtype=torch.long)
    return made


def _turn_rewards(
    by_turn: Sequence[np.ndarray | None], turn: Tensor, mask: Tensor
) -> Tensor | None:
    if any(rewards is None for rewards in by_turn):
        return None
    from ..kernels.turns import turn_ends

    made = torch.zeros(turn.shape)
    for line, row, ends, rewards in zip(made, turn, turn_ends(turn, mask), by_turn, strict=True):
        assert rewards is not None
        line[ends] = torch.as_tensor(rewards, dtype=torch.float32)[row[ends]]
    return made
