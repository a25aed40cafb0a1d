"""What a curriculum is, the plainest one, and the base of those that drive axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from ..types import Task


@runtime_checkable
class Curriculum(Protocol):
    """Chooses the next task and its difficulty; told how episodes ended."""

    def choose(self, tasks: Sequence[Task], key: int) -> int:
        """Index of the task to play, a pure function of the curriculum's state and ``key``.

        ``tasks`` are those that the axes ``hops``, ``branches`` and ``blur`` leave.
        """
        ...

    def params(self) -> Mapping[str, float]:
        """Difficulty from now on: axes (``curricula.AXES``), rates of a degraded engine (``dead``,
        …) and weights of the reward's parts (``w_evidence``, …)."""
        ...

    def observe(
        self, task_id: str, reward: float, params: Mapping[str, float] | None = None
    ) -> None:
        """An episode of this task ended with this return. ``params``: those it was played with,
        which in a batch of episodes need not be the present ones. Episodes that the infrastructure
        broke are not told of. A trainer that plays groups tells of each group once, with its mean:
        members of a group are one measurement of a task, and windows then count groups."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """Everything that was learned, as JSON values."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None: ...


class Uniform:
    """Every task equally often; constant parameters. The default."""

    def __init__(self, params: Mapping[str, float] | None = None) -> None:
        self._params = dict(params or {})

    def choose(self, tasks: Sequence[Task], key: int) -> int:
        return key % len(tasks)

    def params(self) -> Mapping[str, float]:
        return self._params

    def observe(
        self, task_id: str, reward: float, params: Mapping[str, float] | None = None
    ) -> None:
        pass

    def state_dict(self) -> dict[str, Any]:
        return {"params": dict(self._params)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._params = dict(state["params"])


class Driver:
    """Base of curricula that drive axes and leave tasks to another curriculum, ``tasks``, whose
    parameters stand where :meth:`own` names none. Override ``own``, and ``observe`` and the state
    where there is something to remember."""

    def __init__(self, tasks: Any = None) -> None:
        from .registry import make_curriculum

        self.tasks: Curriculum = make_curriculum(tasks)

    def own(self) -> Mapping[str, float]:
        """The parameters this one drives."""
        raise NotImplementedError

    def set_step(self, step: float) -> None:
        """The trainer's step, told to whoever counts in steps."""
        told = getattr(self.tasks, "set_step", None)
        if told is not None:
            told(step)

    def choose(self, tasks: Sequence[Task], key: int) -> int:
        return self.tasks.choose(tasks, key)

    def params(self) -> Mapping[str, float]:
        return {**self.tasks.params(), **self.own()}

    def observe(
        self, task_id: str, reward: float, params: Mapping[str, float] | None = None
    ) -> None:
        self.tasks.observe(task_id, reward, params)

    def state_dict(self) -> dict[str, Any]:
        return {"tasks": self.tasks.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.tasks.load_state_dict(state["tasks"])
