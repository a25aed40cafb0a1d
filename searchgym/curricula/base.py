"""Curriculum protocol, the plainest one, the base of those that drive axes, and all by name."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np

from ..errors import CardError
from ..objects import Remembering, from_spec
from ..plugins import Registry
from ..types import Task
from .axes import MEASURES, TaskPool, difficulty_of


@runtime_checkable
class Curriculum(Protocol):
    """Chooses the next task and its difficulty; told how episodes ended.

    :func:`next_task` says in which order it is asked.
    """

    adapts: bool
    """True if results change what it chooses. Evaluation refuses such a curriculum: the questions
    would depend on the answers. One that follows the clock alone does not adapt."""

    def choose(self, tasks: Sequence[Task], key: int) -> int:
        """Index of the task to play, a pure function of the curriculum's state and ``key``.

        ``tasks`` are those that the axes ``hops``, ``branches`` and ``blur`` leave.
        """
        ...

    def params(self, task: Task | None = None) -> Mapping[str, float]:
        """Difficulty of an episode that plays ``task``: axes (``curricula.AXES``), rates of a
        degraded engine (``dead``, …) and weights of the reward's parts (``w_evidence``, …).

        Asked without a task where none is chosen yet: the axes ``hops``, ``branches`` and ``blur``
        of that answer say which tasks :meth:`choose` may choose from."""
        ...

    def observe(
        self, task_id: str, reward: float, params: Mapping[str, float] | None = None
    ) -> None:
        """An episode of this task ended with this return. ``params``: those it was played with,
        which in a batch of episodes need not be the present ones. One that adapts is told of
        episodes whose task it chose, one that follows the clock of all; neither of episodes in
        another split, at another difficulty, played closed-book in an open-book environment, or
        broken by the infrastructure. A trainer that plays groups tells of each group once, with its
        mean: members of a group are one measurement of a task, and windows then count groups."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """Return the learned state as JSON values."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None: ...


def next_task(
    curriculum: Curriculum,
    pool: TaskPool,
    key: int,
    *,
    over: Mapping[str, float] | None = None,
    task: Task | None = None,
) -> tuple[Task, dict[str, float]]:
    """Choose a task, then the difficulty that it is played at.

    Args:
        curriculum: Curriculum that chooses.
        pool: The environment's tasks.
        key: Fixes the choice.
        over: Parameters that stand above the curriculum's.
        task: The task, if it has been chosen already.

    Returns:
        The task and all its parameters.

    Raises:
        CardError: an axis is out of its range, or leaves no task.
    """
    above = dict(over or {})
    if task is None:
        before = {**_params(curriculum, None), **above}
        limits = {axis: value for axis, value in before.items() if axis in MEASURES}
        tasks = pool.within(difficulty_of(limits))
        chosen = curriculum.choose(tasks, key)
        if not isinstance(chosen, int | np.integer) or not 0 <= chosen < len(tasks):
            raise CardError(
                f"{type(curriculum).__name__}.choose gave {chosen!r:.80}: expected the place of "
                f"one of {len(tasks)} tasks, 0 to {len(tasks) - 1}"
            )
        task = tasks[chosen]
        above = {**limits, **above}
    return task, {**_params(curriculum, task), **above}


def is_told(
    curriculum: Curriculum, task: Task, params: Mapping[str, float], *, named: bool
) -> bool:
    """Check whether a curriculum is told of an episode (:meth:`Curriculum.observe`).

    Args:
        curriculum: The environment's.
        task: The task played.
        params: Parameters it is played with; those that choose tasks do not matter.
        named: True if somebody else named the task.
    """
    if type(curriculum) is Uniform or isinstance(curriculum, Lent):
        return False  # there is nothing to remember
    if named and curriculum.adapts:
        return False
    own = _params(curriculum, task)
    return all(params.get(name) == own[name] for name in own if name not in MEASURES)


def _params(curriculum: Curriculum, task: Task | None) -> Mapping[str, float]:
    params = curriculum.params(task)
    if not isinstance(params, Mapping):
        raise CardError(
            f"{type(curriculum).__name__}.params gave {params!r:.80}: expected difficulty by name, "
            "such as {'noise': 0.2}, or {}"
        )
    return params


class Uniform(Remembering):
    """Every task equally often; constant parameters. The default."""

    remembers = ("_params",)
    adapts = False

    def __init__(self, params: Mapping[str, float] | None = None) -> None:
        self._params = dict(params or {})

    def choose(self, tasks: Sequence[Task], key: int) -> int:
        return key % len(tasks)

    def params(self, task: Task | None = None) -> Mapping[str, float]:
        return self._params

    def observe(
        self, task_id: str, reward: float, params: Mapping[str, float] | None = None
    ) -> None:
        pass


class Driver(Remembering):
    """Base of curricula that drive axes and leave tasks to another curriculum, ``tasks``, whose
    parameters stand where :meth:`own` names none. Override ``own``, and ``observe`` and the state
    where there is something to remember."""

    remembers: ClassVar[tuple[str, ...]] = ("tasks",)
    learns = False
    """True if results change what this one drives."""

    def __init__(self, tasks: Any = None) -> None:
        self.tasks: Curriculum = make_curriculum(tasks)

    @property
    def adapts(self) -> bool:
        """True if results change what this one drives, or which tasks are chosen."""
        return self.learns or self.tasks.adapts

    def own(self, task: Task | None = None) -> Mapping[str, float]:
        """The parameters this one drives, of episodes that play ``task``."""
        raise NotImplementedError

    def set_step(self, step: float) -> None:
        """Set the trainer's step, for curricula that count in steps."""
        told = getattr(self.tasks, "set_step", None)
        if told is not None:
            told(step)

    def choose(self, tasks: Sequence[Task], key: int) -> int:
        return self.tasks.choose(tasks, key)

    def params(self, task: Task | None = None) -> Mapping[str, float]:
        return {**self.tasks.params(task), **self.own(task)}

    def observe(
        self, task_id: str, reward: float, params: Mapping[str, float] | None = None
    ) -> None:
        self.tasks.observe(task_id, reward, params)


class Lent(Driver):
    """A curriculum as another split sees it: its difficulty and evenly chosen tasks. It is told of
    no episode, so that evaluations between two steps of a training do not change the training."""

    def __init__(self, lender: Curriculum) -> None:
        super().__init__()
        self.lender = lender

    @classmethod
    def of(cls, curriculum: Curriculum) -> Curriculum:
        """The curriculum as another split sees it."""
        lent: Any = cls(curriculum)
        return curriculum if isinstance(curriculum, Uniform | Lent) else lent

    @property
    def adapts(self) -> bool:
        return self.lender.adapts

    def own(self, task: Task | None = None) -> Mapping[str, float]:
        return self.lender.params(task)


_HERE = "searchgym.curricula."
CURRICULA = Registry(
    "curriculum",
    {
        "uniform": _HERE + "base:Uniform",
        "scheduled": _HERE + "drivers:Scheduled",
        "zerosearch": _HERE + "drivers:ZeroSearchNoise",
        "scaling_inter": _HERE + "drivers:ScalingInter",
        "after_success": _HERE + "drivers:AfterSuccess",
        "per_task": _HERE + "drivers:PerTask",
        "staged": _HERE + "choices:Staged",
        "masksearch": _HERE + "choices:MaskSearch",
        "band": _HERE + "drivers:LevelBand",
        "bandit": _HERE + "drivers:AxisBandit",
        "self_paced": _HERE + "choices:SelfPaced",
        "success_band": _HERE + "choices:SuccessBand",
        "pool": _HERE + "choices:DifficultyPool",
    },
    package="searchgym.curricula",
)
"""Name → import path. Others are named by their own path, or entered here."""
_METHODS = ("choose", "params", "observe", "state_dict", "load_state_dict")


def make_curriculum(spec: Any) -> Curriculum:
    """A curriculum from None (uniform), a name, an import path, ``{"use": either, **options}``, or
    an object, which is returned.

    Raises:
        CardError: an unknown name or option, or an object that lacks a method or ``adapts``.
    """
    if spec is None:
        return Uniform()
    spec = from_spec("curriculum", spec, CURRICULA, accepts=_METHODS)
    lacking = [name for name in (*_METHODS, "adapts") if not hasattr(spec, name)]
    if lacking:
        raise CardError(
            f"{type(spec).__name__} is no curriculum: it has no {', '.join(lacking)} (see "
            "searchgym.curricula.Curriculum)"
        )
    try:
        inspect.signature(spec.params).bind(None)
    except TypeError:
        raise CardError(
            f"{type(spec).__name__}.params takes the task: def params(self, task=None)"
        ) from None
    made: Curriculum = spec
    return made
