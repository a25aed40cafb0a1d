"""What changes while an agent learns: which tasks come next and how hard the engine makes them.

A curriculum drives the *environment*: task choice and difficulty parameters (noise, evidence
shaping, budgets). It acts at each episode's start, also inside vector environments, where
autoreset passes no options.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from .cards import load_object
from .errors import CardError
from .schedules import Exponential, Schedule, make_schedule
from .types import Task


@runtime_checkable
class Curriculum(Protocol):
    """Chooses the next task and parameters; told how episodes ended."""

    def choose(self, tasks: Sequence[Task], key: int) -> int:
        """Index of the task to play, a pure function of the curriculum's state and ``key``."""
        ...

    def params(self) -> Mapping[str, float]:
        """Difficulty parameters from now on."""
        ...

    def observe(self, task_id: str, reward: float) -> None:
        """An episode of this task ended with this return."""
        ...

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None: ...


class Uniform:
    """Every task equally often; constant parameters. The default."""

    def __init__(self, params: Mapping[str, float] | None = None) -> None:
        self._params = dict(params or {})

    def choose(self, tasks: Sequence[Task], key: int) -> int:
        return key % len(tasks)

    def params(self) -> Mapping[str, float]:
        return self._params

    def observe(self, task_id: str, reward: float) -> None:
        pass

    def state_dict(self) -> dict[str, Any]:
        return {"params": dict(self._params)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._params = dict(state["params"])


class Staged:
    """Stages of growing difficulty (SearchGym-RL, arXiv 2601.14615) by ``max_hops[stage]``.

    Promotion when the running mean return (EMA with weight 0.1, ours) reaches ``threshold`` after
    at least ``min_episodes`` in the stage, or after ``max_episodes`` in any case. Never back.
    """

    def __init__(
        self,
        max_hops: Sequence[int] = (1, 2, 6),
        *,
        threshold: float = 0.7,
        min_episodes: int = 100,
        max_episodes: int = 20_000,
        params: Sequence[Mapping[str, float]] | None = None,
    ) -> None:
        if not max_hops or list(max_hops) != sorted(max_hops):
            raise CardError(f"max_hops must grow and not be empty, got {list(max_hops)}")
        if params is not None and len(params) != len(max_hops):
            raise CardError(f"got {len(params)} params for {len(max_hops)} stages; give one each")
        self.max_hops = tuple(max_hops)
        self.threshold, self.min_episodes, self.max_episodes = threshold, min_episodes, max_episodes
        self._stage_params = tuple(dict(p) for p in params or [{}] * len(max_hops))
        self.stage, self.episodes, self.ema = 0, 0, 0.0
        self._eligible: dict[tuple[int, int], list[int]] = {}

    def choose(self, tasks: Sequence[Task], key: int) -> int:
        at = (self.stage, id(tasks))
        if at not in self._eligible:
            limit = self.max_hops[self.stage]
            found = [i for i, t in enumerate(tasks) if t.hops <= limit]
            self._eligible = {at: found or list(range(len(tasks)))}
        eligible = self._eligible[at]
        return eligible[key % len(eligible)]

    def params(self) -> Mapping[str, float]:
        return self._stage_params[self.stage]

    def observe(self, task_id: str, reward: float) -> None:
        self.ema = reward if self.episodes == 0 else 0.9 * self.ema + 0.1 * reward
        self.episodes += 1
        learned = self.episodes >= self.min_episodes and self.ema >= self.threshold
        if self.stage + 1 < len(self.max_hops) and (learned or self.episodes >= self.max_episodes):
            self.stage, self.episodes, self.ema = self.stage + 1, 0, 0.0

    def state_dict(self) -> dict[str, Any]:
        return {"stage": self.stage, "episodes": self.episodes, "ema": self.ema}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.stage, self.episodes = int(state["stage"]), int(state["episodes"])
        self.ema = float(state["ema"])


def make_curriculum(spec: Any) -> Any:
    """A curriculum from None, an object, an import path or ``{"use": path, **arguments}``."""
    if spec is None:
        return Uniform()
    if isinstance(spec, str):
        return load_object(spec)()
    if isinstance(spec, Mapping):
        arguments = dict(spec)
        if "use" not in arguments:
            raise CardError(
                "a curriculum's table names its class: {'use': 'package.module:Class', …}, got "
                f"{sorted(map(str, arguments))}"
            )
        return load_object(arguments.pop("use"))(**arguments)
    return spec


class Scheduled:
    """Each parameter follows a schedule of its own; tasks are chosen by another curriculum.

    ``params``: name → ``searchgym.schedules`` schedule, number or ``{"kind": …, …}``. A step is
    ``episodes_per_step`` finished episodes (a training step's batch), unless the trainer counts
    itself and says so by ``set_step``. ``tasks``: a curriculum or ``{"use": path, …}``; its own
    parameters stand where no schedule names them.
    """

    def __init__(
        self,
        params: Mapping[str, Any],
        *,
        episodes_per_step: int = 1,
        tasks: Curriculum | Mapping[str, Any] | None = None,
    ) -> None:
        if episodes_per_step < 1:
            raise CardError(f"episodes_per_step must be at least 1, got {episodes_per_step}")
        self.schedules: dict[str, Schedule] = {n: make_schedule(s) for n, s in params.items()}
        self.episodes_per_step = episodes_per_step
        self.episodes = 0
        self._set: float | None = None
        self.tasks: Curriculum = make_curriculum(tasks)

    @property
    def step(self) -> float:
        """Where the schedules are."""
        return self.episodes // self.episodes_per_step if self._set is None else self._set

    def set_step(self, step: float) -> None:
        """From now on the trainer counts; episodes that begin later are of this step."""
        self._set = step

    def choose(self, tasks: Sequence[Task], key: int) -> int:
        return self.tasks.choose(tasks, key)

    def params(self) -> Mapping[str, float]:
        step = self.step
        return {**self.tasks.params(), **{n: s(step) for n, s in self.schedules.items()}}

    def observe(self, task_id: str, reward: float) -> None:
        self.episodes += 1
        self.tasks.observe(task_id, reward)

    def state_dict(self) -> dict[str, Any]:
        return {"episodes": self.episodes, "set": self._set, "tasks": self.tasks.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.episodes = int(state["episodes"])
        self._set = None if state["set"] is None else float(state["set"])
        self.tasks.load_state_dict(state["tasks"])


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
        tasks: Curriculum | Mapping[str, Any] | None = None,
    ) -> None:
        if not (0 <= start <= 1 and 0 <= end <= 1):
            raise CardError(f"noise rates lie in [0, 1], got start={start}, end={end}")
        super().__init__(
            {"noise": Exponential(start, end, total, base)},
            episodes_per_step=episodes_per_step,
            tasks=tasks,
        )
