"""Axes that follow the clock: by schedules of one's own, as in ZeroSearch and ScalingInter-RL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import CardError
from ..types import Task
from .base import Driver
from .schedules import Exponential, Schedule, Steps, make_schedule


class Scheduled(Driver):
    """Curriculum in which each parameter follows its own schedule; another one chooses the tasks.

    ``params``: name → ``searchgym.curricula.schedules`` schedule, number or ``{"kind": "linear" |
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
        """Step of the schedules."""
        return self.clock

    @property
    def clock(self) -> float:
        """Steps since training began."""
        return self.episodes // self.episodes_per_step if self._set is None else self._set

    def set_step(self, step: float) -> None:
        """Set the step of episodes that begin from now on; the trainer counts."""
        self._set = step
        super().set_step(step)

    def own(self, task: Task | None = None) -> Mapping[str, float]:
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


class ZeroSearchNoise(Scheduled):
    """``noise`` from ``start`` to ``end`` over ``total`` steps (ZeroSearch, arXiv 2505.04588).

    The defaults are the paper's runs: 0 to 0.5 over 203 steps, base 4.
    """

    def __init__(
        self,
        start: float = 0.0,
        end: float = 0.5,
        total: float = 203,
        base: float = 4.0,
        *,
        episodes_per_step: int = 1,
        tasks: Any = None,
    ) -> None:
        if not (0 <= start <= 1 and 0 <= end <= 1):
            raise CardError(f"noise rates lie in [0, 1], got start={start}, end={end}")
        super().__init__(
            {"noise": Exponential(start, end, total, base)},
            episodes_per_step=episodes_per_step,
            tasks=tasks,
        )


class ScalingInter(Scheduled):
    """``turns`` is ``rounds[i]`` from step ``i * every`` on (ScalingInter-RL of AgentGym-RL, arXiv
    2509.08755, ``StepRoundsScheduler``). Few rounds first make a policy use what it has; more of
    them later let it explore.

    The defaults are the paper's runs: 5, 8, 10 rounds, 100 training steps each. A round is one
    action, the answer included. ``searchgym`` counts finished episodes (``episodes_per_step``)
    where the trainer does not say the step.
    """

    def __init__(
        self,
        rounds: Sequence[int] = (5, 8, 10),
        every: int = 100,
        *,
        episodes_per_step: int = 1,
        tasks: Any = None,
    ) -> None:
        if not rounds or list(rounds) != sorted(rounds) or rounds[0] < 1 or every < 1:
            raise CardError(
                "rounds must grow from at least 1 and not be empty, every must be at least 1; got "
                f"rounds={list(rounds)}, every={every}"
            )
        steps = Steps(tuple(rounds), tuple(every * i for i in range(1, len(rounds))))
        super().__init__({"turns": steps}, episodes_per_step=episodes_per_step, tasks=tasks)


_MEAN_RATE = 0.1
"""Weight of the newest return in the running mean."""


class AfterSuccess(Scheduled):
    """:class:`Scheduled`, but step 0 lasts until the running mean return has reached
    ``threshold`` (ours, for costs of searching: an agent that is charged before it can answer
    learns not to search).

    The running mean begins at the first return, then moves by a tenth of each difference;
    ``min_episodes`` keep a lucky start from counting. The clock never stops again. While it is
    closed, ``set_step`` is remembered and counts from the step at which it opened.
    """

    learns = True

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
            self.mean = (
                reward if self.seen == 0 else (1 - _MEAN_RATE) * self.mean + _MEAN_RATE * reward
            )
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
