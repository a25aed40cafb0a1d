"""Axes that follow the clock: a schedule for each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import CardError
from ..schedules import Schedule, make_schedule
from .base import Driver


class Scheduled(Driver):
    """Each parameter follows a schedule of its own; tasks are chosen by another curriculum.

    ``params``: name → ``searchgym.schedules`` schedule, number or ``{"kind": "linear" |
    "exponential" | "steps", …}``. A step is ``episodes_per_step`` finished episodes (a training
    step's batch), unless the trainer counts itself and says so by ``set_step``. ``tasks``: a
    curriculum or its table; its own parameters stand where no schedule names them.
    """

    def __init__(
        self, params: Mapping[str, Any], *, episodes_per_step: int = 1, tasks: Any = None
    ) -> None:
        if episodes_per_step < 1:
            raise CardError(f"episodes_per_step must be at least 1, got {episodes_per_step}")
        super().__init__(tasks)
        self.schedules: dict[str, Schedule] = {n: make_schedule(s) for n, s in params.items()}
        self.episodes_per_step = episodes_per_step
        self.episodes = 0
        self._set: float | None = None

    @property
    def step(self) -> float:
        """Where the schedules are."""
        return self.clock

    @property
    def clock(self) -> float:
        """Steps since training began."""
        return self.episodes // self.episodes_per_step if self._set is None else self._set

    def set_step(self, step: float) -> None:
        """From now on the trainer counts; episodes that begin later are of this step."""
        self._set = step
        super().set_step(step)

    def own(self) -> Mapping[str, float]:
        step = self.step
        return {name: schedule(step) for name, schedule in self.schedules.items()}

    def observe(
        self, task_id: str, reward: float, params: Mapping[str, float] | None = None
    ) -> None:
        self.episodes += 1
        super().observe(task_id, reward, params)

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "episodes": self.episodes, "set": self._set}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state)
        self.episodes = int(state["episodes"])
        self._set = None if state["set"] is None else float(state["set"])
