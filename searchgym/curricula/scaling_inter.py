"""ScalingInter-RL: a turn budget that grows with training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..errors import CardError
from ..schedules import Steps
from .scheduled import Scheduled


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
