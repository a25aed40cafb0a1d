"""A step's update, and the pieces of formulas."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

EPS = 1e-6
Lines = list[Tensor]
"""A tensor for each trajectory: its (n,) trained tokens in order."""


@dataclass
class Step:
    """What a step's update is of: N trajectories, and log-probabilities of their tokens."""

    members: Sequence[Any]
    group: list[int]
    reward: Tensor
    """(N,) as the recipe's rewards pay it; ``returns`` is the environment's own."""
    signals: dict[str, Tensor]
    everyone: dict[int, Sequence[Any]]
    """The members of each group as it was played."""
    sampled: Lines
    """Under the weights that played; ``old``: at the update's start; ``now``: at its backward."""
    old: Lines
    now: Lines = field(default_factory=list)
    entropy: Lines = field(default_factory=list)
    squares: Lines = field(default_factory=list)
    """Σ π² at the update's start; so are the next two."""
    hidden: Lines = field(default_factory=list)
    """(n, H) last hidden states."""
    slopes: Lines = field(default_factory=list)
    """(n, C) gradients of log-probabilities by the logits of the step's sampled ids."""
    ref: Lines = field(default_factory=list)
    teacher: Lines = field(default_factory=list)
    value: Lines = field(default_factory=list)
    targets: Lines = field(default_factory=list)
    """What the critic is fitted to; NaN where it is not asked."""

    def __post_init__(self) -> None:
        self.turn = [torch.tensor(turns_of(m)) for m in self.members]
        self.paid = [torch.tensor([t.reward for t in m.episode.turns]).double()
                     for m in self.members]  # fmt: skip
        self.returns = torch.stack([r.sum() for r in self.paid])
        self.expert = [m.purpose == "expert" for m in self.members]

    def __len__(self) -> int:
        return len(self.members)

    def places(self) -> list[list[int]]:
        """Those of each group that the policy played."""
        found: dict[int, list[int]] = {}
        for i, number in enumerate(self.group):
            if not self.expert[i]:
                found.setdefault(number, []).append(i)
        return list(found.values())

    def part(self, name: str) -> Tensor:
        """(N,) a part of the outcome."""
        return torch.tensor([m.episode.outcome().parts[name] for m in self.members]).double()

    def turn_part(self, name: str) -> Lines:
        return [torch.tensor([t.reward_parts.get(name, 0.0) for t in m.episode.turns]).double()
                for m in self.members]  # fmt: skip

    def by_turn(self, name: str) -> Lines:
        """A measurement of turns, for as many as each trajectory has."""
        return [v[: len(r)].double() for v, r in zip(self.signals[name], self.paid, strict=True)]

    def spread(self, by_turn: Lines) -> Lines:
        """Each turn's number at its tokens."""
        return [v[turn] for v, turn in zip(by_turn, self.turn, strict=True)]

    def even(self, values: Tensor) -> Lines:
        return [v.expand(len(x)) for v, x in zip(values, self.old, strict=True)]

    def compared(self, values: Tensor, how: Callable[..., Tensor]) -> Tensor:
        """(N,) values compared within groups; 0 for whom the policy did not play."""
        made = torch.zeros(len(self)).double()
        for at in self.places():
            made[at] = how(values[at])
        return made


def turns_of(member: Any) -> list[int]:
    """The turn of each trained token, as the rows' uids number them."""
    found: list[int] = []
    for row in member.rows:
        numbers = [int(uid.rpartition("/")[2]) for uid in row.turn_uids]
        found += [numbers[row.turn_of_token[t]] for t in np.flatnonzero(row.loss_mask)]
    return found


# --- comparisons ------------------------------------------------------------------------------
def z(values: Tensor, ddof: int = 1) -> Tensor:
    if values.max() - values.min() <= 1e-6:  # equal up to rounding
        return torch.zeros_like(values)
    return (values - values.mean()) / (values.std(correction=ddof) + EPS)


def centred(values: Tensor) -> Tensor:
    return values - values.mean()


def left_out(values: Tensor) -> Tensor:
    if len(values) < 2:
        return torch.zeros_like(values)
    return torch.stack([r - (values.sum() - r) / (len(values) - 1) for r in values])


def whitened(lines: Lines) -> Lines:
    every = torch.cat(lines)
    return [(x - every.mean()) / (every.var() + 1e-8).sqrt() for x in lines]


def to_go(values: Tensor, gamma: float = 1.0) -> Tensor:
    made = values.clone()
    for k in range(len(values) - 2, -1, -1):
        made[k] += gamma * made[k + 1]
    return made


def together(s: Step, by_turn: Lines, key: Callable[[int, int], Hashable],
             how: Callable[..., Tensor] = z, alone: bool = False) -> Lines:  # fmt: skip
    """Numbers of turns, compared among all that have one key. ``alone``: who has no other keeps
    its number."""
    made = [torch.zeros_like(v) for v in by_turn]
    found: dict[Hashable, list[tuple[int, int]]] = {}
    for i, values in enumerate(by_turn):
        for k in range(len(values)):
            if (name := key(i, k)) is not None:
                found.setdefault(name, []).append((i, k))
    for at in found.values():
        values = torch.stack([by_turn[i][k] for i, k in at])
        compared = values if len(at) == 1 and alone else how(values)
        for (i, k), value in zip(at, compared, strict=True):
            made[i][k] = value
    return made


# --- averages and losses ----------------------------------------------------------------------
def token_mean(terms: Lines) -> Tensor:
    return torch.cat(terms).mean()


def episode_mean(terms: Lines) -> Tensor:
    return torch.stack([t.mean() for t in terms if len(t)]).mean()


def episode_sum(terms: Lines) -> Tensor:
    return torch.stack([t.sum() for t in terms if len(t)]).mean()


def constant(terms: Lines) -> Tensor:
    return episode_sum(terms) / 1024


def surrogate(rho: Tensor, a: Tensor, low: Any = 0.2, high: Any = 0.2,
              dual: float | None = None) -> Tensor:  # fmt: skip
    worst = torch.maximum(
        -a * rho, -a * torch.minimum(torch.maximum(rho, _at(1 - low)), _at(1 + high))
    )
    return worst if dual is None else torch.where(a < 0, torch.minimum(worst, -dual * a), worst)


def _at(value: Any) -> Tensor:
    return torch.as_tensor(value).double()


def ppo(s: Step, adv: Lines, average: Callable[..., Tensor] = token_mean, **clip: Any) -> Tensor:
    terms = [surrogate((n - o).exp(), a, **clip)
             for n, o, a in zip(s.now, s.old, adv, strict=True)]  # fmt: skip
    return average(terms)


def reinforce(s: Step, adv: Lines, average: Callable[..., Tensor] = episode_sum) -> Tensor:
    return average([-a * n for a, n in zip(adv, s.now, strict=True)])


def gspo(s: Step, adv: Lines, low: float = 3e-4, high: float = 4e-4) -> Tensor:
    rho = [(n - o).mean().exp() for n, o in zip(s.now, s.old, strict=True)]
    return episode_mean([surrogate(r, a, low, high) for r, a in zip(rho, adv, strict=True)])


def decoupled(s: Step, adv: Lines, cap: float, clamp: bool, average: Any, clip: float = 0.2
              ) -> Tensor:  # fmt: skip
    terms = []
    for n, o, w, a in zip(s.now, s.old, s.sampled, adv, strict=True):
        weight = (o - w).exp()
        weight = weight.clamp(max=cap) if clamp else torch.where(weight > cap, 0.0, weight)
        terms.append(weight * surrogate((n - o).exp(), a, clip, clip))
    return average(terms)  # type: ignore[no-any-return]


def kl(s: Step, average: Callable[..., Tensor]) -> Tensor:
    return average([((r - n).exp() + n - r - 1).clamp(max=10)
                    for r, n in zip(s.ref, s.now, strict=True)])  # fmt: skip


def group_relative(s: Step, values: Tensor | None = None) -> Lines:
    return s.even(s.compared(s.reward if values is None else values, z))
