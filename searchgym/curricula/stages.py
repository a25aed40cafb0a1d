"""When a stage ends: by success or by budget, never back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import CardError
from ..types import Task


class Stages:
    """``count`` stages. The next one begins when the running mean return (EMA with weight 0.1,
    ours) reaches ``threshold`` after at least ``min_episodes`` in the stage, or after
    ``max_episodes`` in any case. The last one never ends."""

    def __init__(self, count: int, threshold: float, min_episodes: int, max_episodes: int) -> None:
        if count < 1 or not 1 <= min_episodes <= max_episodes:
            raise CardError(
                "stages need 1 ≤ min_episodes ≤ max_episodes and at least one stage; got "
                f"{count} stages, min_episodes={min_episodes}, max_episodes={max_episodes}"
            )
        self.count, self.threshold = count, threshold
        self.min_episodes, self.max_episodes = min_episodes, max_episodes
        self.stage, self.episodes, self.ema = 0, 0, 0.0

    def observe(self, reward: float) -> None:
        """An episode of the present stage ended."""
        self.ema = reward if self.episodes == 0 else 0.9 * self.ema + 0.1 * reward
        self.episodes += 1
        learned = self.episodes >= self.min_episodes and self.ema >= self.threshold
        if self.stage + 1 < self.count and (learned or self.episodes >= self.max_episodes):
            self.stage, self.episodes, self.ema = self.stage + 1, 0, 0.0

    def state_dict(self) -> dict[str, Any]:
        return {"stage": self.stage, "episodes": self.episodes, "ema": self.ema}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        stage = int(state["stage"])
        if not 0 <= stage < self.count:
            raise CardError(f"the state is of stage {stage}, this curriculum has {self.count}")
        self.stage, self.episodes = stage, int(state["episodes"])
        self.ema = float(state["ema"])


class InStages:
    """What curricula have in common whose only memory is the stage they are in, ``stages``.

    Episodes of tasks that were last drawn in an earlier stage are not counted: a trainer draws a
    whole step of them before the first ends, and would else leave a stage it has not played.
    """

    def __init__(self, stages: Stages) -> None:
        self.stages = stages
        self._drawn: dict[str, int] = {}
        """Task → the stage in which it was last drawn."""

    def drawn(self, task: Task) -> None:
        """``choose`` has chosen this task."""
        self._drawn[task.id] = self.stages.stage

    def observe(
        self, task_id: str, reward: float, params: Mapping[str, float] | None = None
    ) -> None:
        stage = self.stages.stage
        if self._drawn.get(task_id, stage) == stage:
            self.stages.observe(reward)

    def state_dict(self) -> dict[str, Any]:
        return {**self.stages.state_dict(), "drawn": dict(self._drawn)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.stages.load_state_dict(state)
        self._drawn = {str(task): int(stage) for task, stage in state["drawn"].items()}
