"""Chains whose observations are trained on like the policy's own words: what loss masks prevent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ...policies.rows import TrainingRow
from ...rl.rollouts.chains import Chains
from ...rl.slots.records import Group, TaskPlan, Workers


class Unmasked(Chains):
    """Independent episodes, all of whose tokens from the first sampled one on are trained on, the
    results of searches among them. Nobody sampled these, so no loss may read how likely they were
    when sampled."""

    unsampled = True

    def collect(self, plans: Sequence[TaskPlan], workers: Workers) -> list[Group]:
        return [
            replace(group, members=tuple(
                replace(m, rows=tuple(map(unmasked, m.rows))) for m in group.members
            ))
            for group in super().collect(plans, workers)
        ]  # fmt: skip


def unmasked(row: TrainingRow) -> TrainingRow:
    """A row whose tokens after the first sampled one are all trained on. What was read between two
    turns counts to the turn before it."""
    first = int(row.sampled.argmax())
    after = np.arange(len(row)) >= first
    turn = np.maximum.accumulate(row.turn_of_token)
    return replace(row, sampled=after, loss_mask=after, turn_of_token=np.where(after, turn, -1))
