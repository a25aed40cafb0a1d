"""SPEAR's replay of one's own good trajectories (arXiv 2509.22601)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...seeding import stream
from ..slots.records import Scored
from ..stored import Stored
from .storing import StoringTasks


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
        searching: Whether only members that searched or called a tool are stored.
    """

    registered = "self_imitation"

    def __init__(
        self, size: int = 32, ready: float = 1.5, max_age: int = 10, searching: bool = True
    ) -> None:
        super().__init__()
        if size < 1 or max_age < 1 or ready < 0:
            raise ValueError(
                f"size and max_age are at least 1, ready not negative, got {size}, {max_age}, "
                f"{ready}"
            )
        self.size, self.ready, self.max_age = size, float(ready), max_age
        self.searching = searching
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
            and (scored.group.members[i].episode.queries or not self.searching)
        ]  # fmt: skip
        self._store.members = [*self._store.members, *good]

    def replay(self, count: int, step: int, seed: int) -> Sequence[Scored]:
        """Groups of one stored trajectory each."""
        self._store.members = [s for s in self._store.members if step - s.step <= self.max_age]
        self.means = [m for m in self.means if step - m[0] <= self.max_age]
        earlier = [s for s in self._store.members if s.step < step]
        if len(earlier) <= self.ready * self.size:
            return []
        median = float(np.median([mean for _, mean in self.means]))
        better = [s for s in earlier if s.total > median]
        most = min(self.size, len(better))
        if not most:
            return []
        chosen = stream(seed, "replay", step).permutation(len(better))[: power_of_two(most)]
        return [better[int(i)].alone() for i in sorted(chosen)]

    def state_dict(self) -> dict[str, Any]:
        means = [list(m) for m in self.means]
        return {**super().state_dict(), "means": means}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state)
        self.means = [(int(step), float(mean)) for step, mean in state["means"]]


def power_of_two(most: int) -> int:
    """The largest power of two that is at most ``most`` ≥ 1."""
    return 1 << (most.bit_length() - 1)
