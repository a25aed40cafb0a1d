"""InfoPO (arXiv 2603.00656): credit for turns whose results changed what was written next."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from searchgym.policies.rows import Ints, TrainingRow
from searchgym.rl import (
    Batch,
    Coef,
    Estimate,
    Group,
    Over,
    Played,
    Reduction,
    Signal,
    Signals,
    Workers,
    asked_row,
)
from searchgym.rl.ops import (
    RewardGroups,
    Std,
    checked_std,
    on_turns,
    spread,
    standardized,
    turn_ends,
)


def gate(std: Tensor, tau: float = 0.05) -> Tensor:
    """σ(-std / τ): a half where a group's rewards say nothing, near 0 where they do."""
    return torch.sigmoid(-std / tau)


class InfoPO(Over):
    """A = ``base`` + ``weight`` · g · s · z, with z the turns' ``influence`` compared among those
    of the group that are not 0, g = σ(-std of the group's rewards / ``tau``), and
    s = min(1, max(std of base's advantages, 1) / std of z), both within the group.

    Args:
        weight: Weight of the intrinsic part, or ``coef["infopo"]`` (released code: about .1,
            decaying to 0).
    """

    registered = "advantage:infopo"
    needs = frozenset({"influence"})
    reads = frozenset({"infopo"})
    reductions = (Reduction({"weight": 0.0}, {"use": "grpo"}),)

    def __init__(
        self, base: Any = "grpo", weight: float = 0.1, tau: float = 0.05, std: Std = "sample",
        eps: float = 1e-6,
    ) -> None:  # fmt: skip
        super().__init__(base)
        if not tau > 0:
            raise ValueError(f"tau must be positive, got {tau}")
        self.weight, self.tau, self.eps = float(weight), float(tau), float(eps)
        self.std: Std = checked_std(std)

    def estimate(self, batch: Batch, coef: Coef) -> Estimate:
        made = self.base.estimate(batch, coef)
        mask = batch.mask & ~batch.reward.isnan()[:, None]
        outcome = spread(made.adv, mask)
        ends = turn_ends(batch.turn, mask)
        influence = torch.nan_to_num(batch.by_turn("influence")).to(outcome.dtype)
        rows, columns = places = (ends & (influence != 0)).nonzero(as_tuple=True)
        if not len(rows):
            return made._replace(adv=outcome)
        group = batch.group[rows]
        score = standardized(influence[places], group, std=self.std, eps=self.eps)
        rewards = RewardGroups(batch.reward, batch.group)
        doubt = gate(rewards.std(self.std), self.tau)[rewards.index][rows]
        scored = RewardGroups(score, group)
        own = scored.std(self.std).clamp_min(self.eps)[scored.index]
        mean = (outcome * ends).sum(1) / ends.sum(1).clamp_min(1)
        groups = RewardGroups(mean, batch.group)  # one number a trajectory
        scale = groups.std(self.std)[groups.index].clamp_min(1)[rows] / own
        more = coef.get("infopo", self.weight) * doubt * scale.clamp_max(1) * score
        return made._replace(adv=outcome + on_turns(more, (rows, columns), batch.turn, mask))


class Influence(Signal):
    """``influence``: (M, K) the mean, over the tokens of the next turn, of how much likelier they
    are after what was really read than after ``placeholder`` in its place (InfoPO, arXiv
    2603.00656).

    The placeholder's tokens are repeated to the length of what they replace, so that nothing moves:
    all that stands between the two turns in one row. 0 where a turn is the last, or nothing was
    read after it, or the next one reads another context. Two rows a turn go through the model.

    Args:
        placeholder: Text that tells nothing.
    """

    registered = "signal:influence"
    by_turn = frozenset({"influence"})
    provides = frozenset({"influence"})

    def __init__(self, placeholder: str = "No information found.") -> None:
        if not placeholder:
            raise ValueError("placeholder is a text, got an empty one")
        self.placeholder = placeholder

    def measure(self, groups: Sequence[Group], workers: Workers) -> list[Signals]:
        signals: list[Signals] = []
        for group in groups:
            turns = max((len(m.episode.turns) for m in group.members), default=0)
            made = np.full((len(group.members), turns), np.nan)
            rows: list[TrainingRow] = []
            places: list[tuple[int, int]] = []
            for i, member in enumerate(group.members):
                made[i, : len(member.episode.turns)] = 0.0
                read = member.episode.contexts.visible(0)
                blank = np.array(
                    workers.policy.renderer.spell(read, self.placeholder).ids, np.int64
                )
                for number, true, other in _pairs(member, blank):
                    rows += [true, other]
                    places.append((i, number))
            if rows:
                with torch.no_grad():
                    sums = workers.lm.logp(rows).sum(1).cpu().double().numpy()
                counts = np.array([row.sampled.sum() for row in rows])
                with_, without = (sums / counts).reshape(-1, 2).T
                made[tuple(np.array(places).T)] = with_ - without
            signals.append({"influence": made})
        return signals


def _pairs(member: Played, blank: Ints) -> Iterator[tuple[int, TrainingRow, TrainingRow]]:
    """(turn, the next turn's tokens after what was read, the same after the placeholder)."""
    for row in member.rows:
        spans = [np.flatnonzero(row.turn_of_token == k) for k in range(len(row.turn_uids))]
        for k in range(len(spans) - 1):
            begin, end = int(spans[k][-1]) + 1, int(spans[k + 1][0])
            if begin == end:
                continue
            ids = row.ids[: int(spans[k + 1][-1]) + 1]
            other = ids.copy()
            other[begin:end] = np.resize(blank, end - begin)
            asked = row.sampled[: len(ids)] & (np.arange(len(ids)) >= end)
            number = int(row.turn_uids[k].rpartition("/")[2])
            yield number, asked_row(ids, asked), asked_row(other, asked)
