"""Selection of the turns of a tree that are imitated: those on its successful paths, the shortest
first (ReST-MCTS*)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch

from ..ops.branches import State, segments
from ..slots.batch import Batch, Estimate
from ..slots.protocols import Slot


class Selected(Slot):
    """1 for every trajectory, and a mask: only turns at which the quality rises are trained on, for
    a success lies below those alone; and where several turns begin in one state, only those of the
    highest quality. A supervised loss then imitates the paths that the search selected
    (ReST-MCTS*, arXiv 2406.03816), each turn once, also one whose writer went wrong later.

    Args:
        signal: (M, K) quality of each turn.
        best: False keeps all siblings at which it rises.
    """

    registered = "selected"
    relative: ClassVar[bool] = False
    invariant: ClassVar[frozenset[str]] = frozenset({"shift", "scale"})

    def __init__(self, signal: str = "turn_quality", best: bool = True) -> None:
        self.signal, self.best = signal, best
        self.requires = frozenset({signal})

    def estimate(self, batch: Batch, coef: Mapping[str, float]) -> Estimate:
        values = batch.signal(self.signal)
        before = torch.nn.functional.pad(values, (1, 0))[:, :-1]
        last = batch.turn.clamp_max(values.shape[1] - 1)
        mask = batch.mask & (values > before).gather(1, last) & ~batch.reward.isnan()[:, None]
        if self.best:
            mask = mask & ~self._beaten(batch)
        ones = torch.where(batch.reward.isnan(), 0.0, torch.ones_like(batch.reward))
        return Estimate(ones, mask=mask)

    def _beaten(self, batch: Batch) -> torch.Tensor:
        """(N, T) bool: tokens of turns that a sibling surpasses."""
        spans = segments(batch.group, batch.number, batch.parent, batch.since)
        known = torch.nan_to_num(batch.signal(self.signal), nan=-1.0).tolist()
        first = [known[s.line][min(s.first, len(known[s.line]) - 1)] for s in spans]
        most: dict[State, float] = {}
        for segment, value in zip(spans, first, strict=True):
            most[segment.state] = max(value, most.get(segment.state, value))
        made = torch.zeros_like(batch.mask)
        for segment, value in zip(spans, first, strict=True):
            if value < most[segment.state]:
                made[segment.line] |= batch.turn[segment.line] == segment.first
        return made
