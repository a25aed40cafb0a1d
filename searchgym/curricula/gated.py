"""A schedule whose clock starts once the agent can do something."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import CardError
from .scheduled import Scheduled

RATE = 0.1
"""Weight of the newest return in the running mean."""


class AfterSuccess(Scheduled):
    """As :class:`Scheduled`, but step 0 lasts until the running mean return has reached
    ``threshold`` (ours, for costs of searching: an agent that is charged before it can answer
    learns not to search).

    The running mean begins at the first return, then moves by ``RATE`` of each difference;
    ``min_episodes`` keep a lucky start from counting. The clock never stops again. While it is
    closed, ``set_step`` is remembered and counts from the step at which it opened.
    """

    def __init__(
        self,
        params: Mapping[str, Any],
        *,
        threshold: float = 0.5,
        min_episodes: int = 50,
        episodes_per_step: int = 1,
        tasks: Any = None,
    ) -> None:
        super().__init__(params, episodes_per_step=episodes_per_step, tasks=tasks)
        if min_episodes < 1:
            raise CardError(f"min_episodes must be at least 1, got {min_episodes}")
        self.threshold, self.min_episodes = threshold, min_episodes
        self.mean, self.seen = 0.0, 0
        self.opened: float | None = None
        """The step at which the clock started."""

    @property
    def step(self) -> float:
        """Steps since the clock started; 0 before."""
        return 0.0 if self.opened is None else self.clock - self.opened

    def observe(
        self, task_id: str, reward: float, params: Mapping[str, float] | None = None
    ) -> None:
        super().observe(task_id, reward, params)
        if self.opened is None:
            self.mean = reward if self.seen == 0 else (1 - RATE) * self.mean + RATE * reward
            self.seen += 1
            if self.seen >= self.min_episodes and self.mean >= self.threshold:
                self.opened = self.clock

    def state_dict(self) -> dict[str, Any]:
        mine = {"mean": self.mean, "seen": self.seen, "opened": self.opened}
        return {**super().state_dict(), **mine}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state)
        self.mean, self.seen = float(state["mean"]), int(state["seen"])
        self.opened = None if state["opened"] is None else float(state["opened"])
